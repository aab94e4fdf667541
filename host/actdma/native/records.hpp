// Records of docs/format.md (modes zve and ints): what a group's header says, and bit transposes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "actdma/frame.hpp"
#include "kernels.hpp"

namespace actdma::native {

constexpr uint32_t kHeaderBits = 12;

// The numbers that a group's header (12 bits) and its record's length are made of.
template <typename Number>
constexpr uint32_t bit_length(Number value) {
  return value ? 8 * sizeof(unsigned long long) - __builtin_clzll(value) : 0;
}

// Distance planes of a zve record for the greatest distance: a width of 7 cannot be said.
constexpr uint8_t exponent_width(uint32_t greatest) {
  const uint32_t width = bit_length(greatest);
  return static_cast<uint8_t>(width == 7 ? 8 : width);
}

// The group of integers from `least` to `greatest`, both xor `flip` (which makes signed numbers
// unsigned ones of the same order).
constexpr Group integer_group(uint32_t least, uint32_t greatest, uint32_t flip, uint32_t bits) {
  const uint32_t width = bit_length(greatest - least);
  return {width == bits ? 0 : least ^ flip, static_cast<uint8_t>(width), 0};
}

// What turns integers of `bits` bits into unsigned ones of the same order.
constexpr uint32_t flip_of(bool is_signed, uint32_t bits) {
  return is_signed ? 1u << (bits - 1) : 0;
}

// Whether an ints record begins with the group's base (elements of 1 byte have it in the header).
constexpr bool has_base_word(uint32_t element_log2, uint32_t width) {
  return element_log2 && width < 8u << element_log2;
}

// Mantissa bits of a zve element.
constexpr uint32_t mantissa_bits(uint32_t element_log2, uint32_t exponent_bits) {
  return (8u << element_log2) - 1 - exponent_bits;
}

// How a frame's codec makes records.
struct Split {
  Mode mode;  // kModeZve or kModeInts
  uint32_t element_log2;
  uint32_t parameter;  // exponent bits of zve, whether ints are signed

  constexpr uint32_t header(const Group& group) const {
    if (mode == kModeZve) {
      const uint32_t code = group.width == 8 ? 7 : group.width;
      return group.base | uint32_t(group.sign) << 8 | code << 9;
    }
    return element_log2 ? group.width : group.base | uint32_t(group.width) << 8;
  }

  // The inverse; the base of an ints record with a base word is 0.
  constexpr Group group(uint32_t header) const {
    if (mode == kModeZve) {
      const uint32_t code = header >> 9;
      return {header & 0xFF, static_cast<uint8_t>(code == 7 ? 8 : code),
              static_cast<uint8_t>(header >> 8 & 1)};
    }
    if (element_log2) return {0, static_cast<uint8_t>(header & 0x3F), 0};
    return {header & 0xFF, static_cast<uint8_t>(header >> 8), 0};
  }

  constexpr bool possible(const Group& group) const {
    return group.width <= (mode == kModeZve ? parameter : 8u << element_log2);
  }

  // Words of the group's record.
  constexpr uint32_t length(const Group& group) const {
    if (mode == kModeZve) {
      return mantissa_bits(element_log2, parameter) + group.sign + group.width;
    }
    const uint32_t plane_words = 1u << (group_log2(element_log2) - 5);
    return has_base_word(element_log2, group.width) + plane_words * group.width;
  }
};

}  // namespace actdma::native
