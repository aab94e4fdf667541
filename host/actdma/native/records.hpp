// Records of docs/format.md (modes zve and ints): what a group's header says, and how long it makes
// the record.
#pragma once

#include <cstddef>
#include <cstdint>

#include "actdma/frame.hpp"
#include "kernels.hpp"

namespace actdma::native {

constexpr uint32_t kHeaderBits = 12;

constexpr uint32_t bit_length(uint32_t value) {
  return 63 - static_cast<uint32_t>(__builtin_clzll(2 * static_cast<uint64_t>(value) + 1));
}

// Distance planes of a zve record for the greatest distance: a width of 7 cannot be said.
constexpr uint32_t exponent_width(uint32_t greatest) {
  const uint32_t width = bit_length(greatest);
  return width == 7 ? 8 : width;
}

// Of a group's elements or exponents.
struct Range {
  uint32_t least, greatest;
};

// What a zve header tells of a group.
struct Exponents {
  Range range;
  bool negative;  // an element is
};

// What a record is made of: possibly a word with the base, then bit planes. The classes of an
// instruction set that do the work (record_loops.hpp) are made from these.
template <int kElementLog2, int kExponentBits>
struct ZveRecord {
  static constexpr int kLog2 = kElementLog2;
  static constexpr int kExponent = kExponentBits;
  static constexpr int kMantissa = (8 << kLog2) - 1 - kExponent;
  static constexpr uint32_t kMantissaField = (1u << kMantissa) - 1;
  static constexpr uint32_t kExponentField = ((1u << kExponent) - 1) << kMantissa;
  static constexpr uint32_t kSignField = 1u << (kMantissa + kExponent);

  static constexpr uint32_t planes(const Group& group) {
    return kMantissa + group.sign + group.width;
  }
  static constexpr bool has_base(const Group&) { return false; }
};

template <int kElementLog2, bool kIsSigned>
struct IntsRecord {
  static constexpr int kLog2 = kElementLog2;
  static constexpr uint32_t kWidest = 8 << kLog2;
  // Makes signed numbers unsigned ones of the same order.
  static constexpr uint32_t kFlip = kIsSigned ? 1u << (kWidest - 1) : 0;

  static constexpr uint32_t planes(const Group& group) { return group.width; }
  static constexpr bool has_base(const Group& group) { return kLog2 && group.width < kWidest; }

  // The group from its least to its greatest number, both flipped.
  static constexpr Group group(uint32_t least, uint32_t greatest) {
    const uint32_t width = bit_length(greatest - least);
    return {width == kWidest ? 0 : least ^ kFlip, width, 0};
  }
};

// What a descriptor says about the blocks, and so about headers and records.
struct Coding {
  uint32_t codec;
  uint32_t element_log2;
  uint32_t parameter;  // exponent bits of zve, whether ints are signed

  constexpr uint32_t header(const Group& group) const {
    if (codec == kCodecZve) {
      const uint32_t code = group.width == 8 ? 7 : group.width;
      return group.base | group.sign << 8 | code << 9;
    }
    return element_log2 ? group.width : group.base | group.width << 8;
  }

  // The inverse; a base that lies in the record is 0.
  constexpr Group group(uint32_t header) const {
    if (codec == kCodecZve) {
      const uint32_t code = header >> 9;
      return {header & 0xFF, code == 7 ? 8 : code, header >> 8 & 1};
    }
    if (element_log2) return {0, header & 0x3F, 0};
    return {header & 0xFF, header >> 8, 0};
  }

  // The greatest width that is possible.
  constexpr uint32_t widest() const { return codec == kCodecZve ? parameter : 8u << element_log2; }

  // Words of the group's record.
  constexpr uint32_t record_words(const Group& group) const {
    if (codec == kCodecZve) {
      return (8u << element_log2) - 1 - parameter + group.sign + group.width;
    }
    const bool has_base = element_log2 && group.width < widest();
    return has_base + (group.width << (group_log2(element_log2) - 5));
  }
};

}  // namespace actdma::native
