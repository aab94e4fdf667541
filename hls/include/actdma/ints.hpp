// Frame-of-reference packing of integers (docs/format.md): the group's least element, and the
// distances from it in as many bit planes as the largest needs. A lane holds one element, or two of
// 1 byte with their bits interleaved.
#pragma once

#include "records.hpp"

namespace actdma {

constexpr uint32_t ints_bits(uint32_t element_log2) { return 8u << element_log2; }

inline uint32_t ints_width(uint32_t header, const Format& format) {
  return format.element == 0 ? header >> 8 : header & 0x3F;
}

inline bool ints_header_ok(uint32_t header, const Format& format) {
  return ints_width(header, format) <= ints_bits(format.element);
}

// Whether the record begins with the base: not that of 1 byte (it is in the header), nor where the
// width leaves nothing to be saved.
inline bool ints_base_word(uint32_t width, const Format& format) {
  return format.element != 0 && width < ints_bits(format.element);
}

inline uint32_t ints_record_words(uint32_t header, const Format& format) {
#pragma HLS INLINE
  const uint32_t width = ints_width(header, format);
  return format.element == 0 ? 2 * width : width + ints_base_word(width, format);
}

// Bits of two bytes alternating, a's first; and back.
inline uint32_t interleave(uint32_t a, uint32_t b) {
#pragma HLS INLINE
  uint32_t out = 0;
  for (int k = 0; k < 8; k++) {
#pragma HLS UNROLL
    out |= (a >> k & 1) << 2 * k | (b >> k & 1) << (2 * k + 1);
  }
  return out;
}
inline uint32_t every_other_bit(uint32_t x) {
#pragma HLS INLINE
  uint32_t out = 0;
  for (int k = 0; k < 8; k++) {
#pragma HLS UNROLL
    out |= (x >> 2 * k & 1) << k;
  }
  return out;
}

inline void ints_record(const Group& group, Record& out) {
#pragma HLS INLINE
  constexpr int kMost = 2 * kGroupLanes;
  const uint32_t element = group.format.element, bits = ints_bits(element);
  const uint32_t all = uint32_t((1ull << bits) - 1);
  // Signed elements are compared with their top bit turned over.
  const uint32_t turn = group.format.parameter ? 1u << (bits - 1) : 0;
  uint32_t value[kMost], least[kMost], greatest[kMost], number[kGroupLanes], plane[kGroupLanes];
#pragma HLS ARRAY_PARTITION variable = value type = complete
#pragma HLS ARRAY_PARTITION variable = least type = complete
#pragma HLS ARRAY_PARTITION variable = greatest type = complete
#pragma HLS ARRAY_PARTITION variable = number type = complete
#pragma HLS ARRAY_PARTITION variable = plane type = complete
  for (int i = 0; i < kMost; i++) {
#pragma HLS UNROLL
    const int k = i % kGroupLanes;
    value[i] = element == 0   ? group_byte(group.w, i)
               : element == 1 ? group_half(group.w, k)
                              : group.w[k];
    const bool there = uint32_t(i) < group.count;
    least[i] = there ? value[i] ^ turn : all;
    greatest[i] = there ? value[i] ^ turn : 0;
  }
  least_and_greatest<kMost>(least, greatest);
  const uint32_t width = bit_length(greatest[0] - least[0]);
  const uint32_t base = width == bits ? 0 : least[0] ^ turn;
  for (int i = 0; i < kGroupLanes; i++) {
#pragma HLS UNROLL
    const uint32_t first = uint32_t(i) < group.count ? (value[i] - base) & all : 0;
    const int j = i + kGroupLanes;
    const uint32_t second = uint32_t(j) < group.count ? (value[j] - base) & all : 0;
    number[i] = element == 0 ? interleave(first, second) : first;
  }
  transpose(number, plane);
  const bool base_word = ints_base_word(width, group.format);
  for (int i = 0; i < kGroupWords; i++) {
#pragma HLS UNROLL
    out.w[i] = base_word ? i == 0 ? base : plane[i > 0 ? i - 1 : 0] : plane[i];
  }
  out.header = uint16_t(element == 0 ? base | width << 8 : width);
  out.words = uint8_t(ints_record_words(out.header, group.format));
}

// The group of a record; words past its end are 0.
inline void ints_restore(const Record& record, uint32_t w[kGroupWords]) {
#pragma HLS INLINE
  const uint32_t element = record.format.element;
  const bool base_word = ints_base_word(ints_width(record.header, record.format), record.format);
  const uint32_t base = element == 0 ? record.header & 0xFF : base_word ? record.w[0] : 0;
  uint32_t plane[kGroupLanes], number[kGroupLanes];
#pragma HLS ARRAY_PARTITION variable = plane type = complete
#pragma HLS ARRAY_PARTITION variable = number type = complete
  for (int i = 0; i < kGroupLanes; i++) {
#pragma HLS UNROLL
    const uint32_t next = i + 1 < kGroupWords ? record.w[i + 1 < kGroupWords ? i + 1 : i] : 0;
    plane[i] = base_word ? next : record.w[i];
  }
  transpose(plane, number);
  for (int i = 0; i < kGroupWords; i++) {
#pragma HLS UNROLL
    uint32_t bytes = 0;
    for (int k = 0; k < 4; k++) {
#pragma HLS UNROLL
      const int at = 4 * i + k;
      const uint32_t pair = number[at % kGroupLanes];
      bytes |= ((every_other_bit(at < kGroupLanes ? pair : pair >> 1) + base) & 0xFF) << 8 * k;
    }
    const uint32_t low = number[2 * i % kGroupLanes] + base;
    const uint32_t high = number[(2 * i + 1) % kGroupLanes] + base;
    const uint32_t halves = (low & 0xFFFF) | high << 16;
    w[i] = element == 2 ? number[i] + base : i >= 16 ? 0 : element == 1 ? halves : bytes;
  }
}

}  // namespace actdma
