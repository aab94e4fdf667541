// Zero-value compression with packed exponents (docs/format.md): floating-point elements become
// mantissa, sign where the group has a negative one, and the exponent's distance from the group's
// largest.
#pragma once

#include "records.hpp"

namespace actdma {

constexpr uint32_t zve_mantissa_bits(uint32_t element_log2, uint32_t exponent_bits) {
  return element_log2 == 2 ? 23 : 15 - exponent_bits;
}

constexpr uint32_t zve_width(uint32_t header) { return header >> 9 == 7 ? 8 : header >> 9; }

inline bool zve_header_ok(uint32_t header, const Format& format) {
  return zve_width(header) <= format.parameter;
}

inline uint32_t zve_record_words(uint32_t header, const Format& format) {
#pragma HLS INLINE
  return zve_mantissa_bits(format.element, format.parameter) + (header >> 8 & 1) +
         zve_width(header);
}

inline void zve_record(const Group& group, Record& out) {
#pragma HLS INLINE
  const uint32_t exponent_bits = group.format.parameter;
  const uint32_t mantissa_bits = zve_mantissa_bits(group.format.element, exponent_bits);
  const uint32_t field = (1u << exponent_bits) - 1;
  uint32_t mantissa[kGroupLanes], exponent[kGroupLanes], sign[kGroupLanes];
  uint32_t least[kGroupLanes], greatest[kGroupLanes], number[kGroupLanes];
#pragma HLS ARRAY_PARTITION variable = mantissa type = complete
#pragma HLS ARRAY_PARTITION variable = exponent type = complete
#pragma HLS ARRAY_PARTITION variable = sign type = complete
#pragma HLS ARRAY_PARTITION variable = least type = complete
#pragma HLS ARRAY_PARTITION variable = greatest type = complete
#pragma HLS ARRAY_PARTITION variable = number type = complete
  uint32_t negative = 0;
  for (int i = 0; i < kGroupLanes; i++) {
#pragma HLS UNROLL
    const bool there = uint32_t(i) < group.count;
    const uint32_t bits = group.format.element == 2 ? group.w[i] : group_half(group.w, i);
    const uint32_t top = group.format.element == 2 ? 31 : 15;
    mantissa[i] = bits & ((1u << mantissa_bits) - 1);
    exponent[i] = bits >> mantissa_bits & field;
    sign[i] = bits >> top & 1;
    least[i] = there ? exponent[i] : field;
    greatest[i] = there ? exponent[i] : 0;
    negative |= there ? sign[i] : 0;
  }
  least_and_greatest<kGroupLanes>(least, greatest);
  const uint32_t needed = bit_length(greatest[0] - least[0]);
  const uint32_t code = needed < 7 ? needed : 7;
  for (int i = 0; i < kGroupLanes; i++) {
#pragma HLS UNROLL
    const uint32_t upper =
        negative ? sign[i] | (greatest[0] - exponent[i]) << 1 : greatest[0] - exponent[i];
    number[i] = uint32_t(i) < group.count ? mantissa[i] | upper << mantissa_bits : 0;
  }
  transpose(number, out.w);
  out.header = uint16_t(greatest[0] | negative << 8 | code << 9);
  out.words = uint8_t(zve_record_words(out.header, group.format));
}

// The group of a record; words past its end are 0.
inline void zve_restore(const Record& record, uint32_t w[kGroupWords]) {
#pragma HLS INLINE
  const uint32_t exponent_bits = record.format.parameter;
  const uint32_t mantissa_bits = zve_mantissa_bits(record.format.element, exponent_bits);
  const uint32_t field = (1u << exponent_bits) - 1, largest = record.header & 0xFF;
  const bool negative = record.header >> 8 & 1;
  uint32_t number[kGroupLanes], bits[kGroupLanes];
#pragma HLS ARRAY_PARTITION variable = number type = complete
#pragma HLS ARRAY_PARTITION variable = bits type = complete
  transpose(record.w, number);
  for (int i = 0; i < kGroupLanes; i++) {
#pragma HLS UNROLL
    const uint32_t upper = number[i] >> mantissa_bits;
    const uint32_t sign = negative ? upper & 1 : 0;
    const uint32_t exponent = (largest - (negative ? upper >> 1 : upper)) & field;
    const uint32_t top = record.format.element == 2 ? 31 : 15;
    bits[i] = sign << top | exponent << mantissa_bits | (number[i] & ((1u << mantissa_bits) - 1));
  }
  for (int i = 0; i < kGroupWords; i++) {
#pragma HLS UNROLL
    const uint32_t halves =
        i < 16 ? bits[2 * i % kGroupLanes] | bits[(2 * i + 1) % kGroupLanes] << 16 : 0;
    w[i] = record.format.element == 2 ? bits[i] : halves;
  }
}

}  // namespace actdma
