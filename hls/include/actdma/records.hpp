// Groups and records (docs/format.md, Blocks): what zve and ints share. A group's elements become
// up to 32 words: the bit planes of one number per lane. Turning numbers into planes and back is
// the same transposition, which is wiring.
#pragma once

#include <cstdint>

#include "frame.hpp"

namespace actdma {

// How the elements of a block are coded.
struct Format {
  uint8_t codec;
  uint8_t element;    // log2 of the bytes per element
  uint8_t parameter;  // exponent bits of zve, whether elements of ints are signed
};

constexpr int kGroupLanes = 32;
constexpr int kGroupWords = 32;  // of the largest group and of the longest record
constexpr int kHeaderBits = 12;

// Words of a whole group: 32 elements, but at least 64 bytes.
constexpr uint32_t group_words(uint32_t element_log2) { return element_log2 == 2 ? 32 : 16; }

// A group on its way to or from its record; elements in the order of the block.
struct Group {
  uint32_t w[kGroupWords];
  uint8_t count;  // elements there
  Format format;
  bool block_end;
  bool last;
};

struct Record {
  uint32_t w[kGroupWords];
  uint16_t header;
  uint8_t words;
  uint8_t count;  // elements in the group
  Format format;
  bool block_end;
  bool last;
};

// Numbers of 32 lanes to bit planes, or back: bit i of out[j] is bit j of in[i].
inline void transpose_hardware(const uint32_t in[kGroupLanes], uint32_t out[kGroupLanes]) {
#pragma HLS INLINE
  for (int j = 0; j < kGroupLanes; j++) {
#pragma HLS UNROLL
    uint32_t plane = 0;
    for (int i = 0; i < kGroupLanes; i++) {
#pragma HLS UNROLL
      plane |= (in[i] >> j & 1) << i;
    }
    out[j] = plane;
  }
}

inline void transpose(const uint32_t in[kGroupLanes], uint32_t out[kGroupLanes]) {
#pragma HLS INLINE
#ifdef __SYNTHESIS__
  transpose_hardware(in, out);
#else
  // Squares of 16, 8, 4, 2, 1 bits across the diagonal change places.
  uint32_t a[kGroupLanes];
  for (int i = 0; i < kGroupLanes; i++) a[i] = in[i];
  uint32_t low = 0x0000FFFF;
  for (int size = 16; size > 0; size /= 2, low ^= low << size) {
    for (int row = 0; row < kGroupLanes; row += 2 * size) {
      for (int i = row; i < row + size; i++) {
        const uint32_t change = (a[i] >> size ^ a[i + size]) & low;
        a[i] ^= change << size;
        a[i + size] ^= change;
      }
    }
  }
  for (int i = 0; i < kGroupLanes; i++) out[i] = a[i];
#endif
}

// Element i of a group; 0 where there is none.
inline uint32_t group_byte(const uint32_t w[kGroupWords], int i) {
  return w[i / 4] >> i % 4 * 8 & 0xFF;
}
inline uint32_t group_half(const uint32_t w[kGroupWords], int i) {
  return w[i / 2] >> i % 2 * 16 & 0xFFFF;
}

// Bits that a number needs: 32 less its leading zeros.
inline uint32_t bit_length(uint32_t x) {
#pragma HLS INLINE
  uint32_t length = 0;
  for (int k = 4; k >= 0; k--) {
#pragma HLS UNROLL
    const bool high = x >> (1 << k) != 0;
    if (high) x >>= 1 << k;
    length |= uint32_t(high) << k;
  }
  return length + (x != 0);
}

// The least and the greatest of N numbers (N a power of two), as trees. Overwrites both arrays.
// Values are selected, not array elements: those would be addresses.
template <int N>
void least_and_greatest(uint32_t least[N], uint32_t greatest[N]) {
#pragma HLS INLINE
  for (int stride = N / 2; stride > 0; stride /= 2) {
#pragma HLS UNROLL
    for (int i = 0; i < stride; i++) {
#pragma HLS UNROLL
      const uint32_t low = least[i], other_low = least[i + stride];
      const uint32_t high = greatest[i], other_high = greatest[i + stride];
      least[i] = other_low < low ? other_low : low;
      greatest[i] = other_high > high ? other_high : high;
    }
  }
}

}  // namespace actdma
