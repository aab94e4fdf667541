// CRC-32C over beats. The register `r` starts at ~0 and a stored CRC is ~r. One 32-bit word w takes
// r to A(r ^ w), A being 32 steps of the reflected shift register; so a beat is
//   r' = A^L(r)  ^  A^L(w[0]) ^ A^(L-1)(w[1]) ^ ... ^ A(w[L-1]):
// an XOR tree over the data, which pipelines, and a fixed 32x32 matrix on r, which is all that
// recurs.
#pragma once

#include <cstdint>

#if !defined(__SYNTHESIS__) && defined(__SSE4_2__)
#include <nmmintrin.h>
#endif

namespace actdma {

constexpr uint32_t kCrcInit = 0xFFFFFFFF;

// A applied `words` times.
constexpr uint32_t crc_advance(uint32_t r, int words = 1) {
  for (int i = 0; i < 32 * words; i++) r = r >> 1 ^ (r & 1 ? 0x82F63B78u : 0);
  return r;
}

// The inverse of A: the register before a zero word.
constexpr uint32_t crc_retreat(uint32_t r) {
  for (int i = 0; i < 32; i++) r = r >> 31 ? (r ^ 0x82F63B78u) << 1 | 1 : r << 1;
  return r;
}

// The register after data that ends in its own stored CRC: A(r ^ ~r).
constexpr uint32_t kCrcResidue = crc_advance(0xFFFFFFFF);

// Columns of the matrix A^WORDS (or of A's inverse, for WORDS = -1).
template <int WORDS>
struct CrcMatrix {
  uint32_t column[32];
  constexpr CrcMatrix() : column() {
    for (int b = 0; b < 32; b++)
      column[b] = WORDS < 0 ? crc_retreat(1u << b) : crc_advance(1u << b, WORDS);
  }
  uint32_t times(uint32_t x) const {
#pragma HLS INLINE
    uint32_t sum = 0;
    for (int b = 0; b < 32; b++) {
#pragma HLS UNROLL
      sum ^= (x >> b & 1) ? column[b] : 0;
    }
    return sum;
  }
};
template <int WORDS>
inline constexpr CrcMatrix<WORDS> kCrcMatrix{};

// Contribution of the words w[J..L) to the register at the end of the beat.
template <int L, int J = 0>
uint32_t crc_tree(const uint32_t w[L]) {
#pragma HLS INLINE
  if constexpr (J == L) {
    return 0;
  } else {
    return kCrcMatrix<L - J>.times(w[J]) ^ crc_tree<L, J + 1>(w);
  }
}

// The register after one beat: what is synthesised.
template <int L>
uint32_t crc_beat_hardware(uint32_t r, const uint32_t w[L]) {
#pragma HLS INLINE
  return kCrcMatrix<L>.times(r) ^ crc_tree<L>(w);
}

#ifndef __SYNTHESIS__
template <int L>
uint32_t crc_beat_table(uint32_t r, const uint32_t w[L]) {
  struct Table {
    uint32_t byte[256];
    Table() {
      for (uint32_t i = 0; i < 256; i++) {
        byte[i] = i;
        for (int k = 0; k < 8; k++) byte[i] = byte[i] >> 1 ^ (byte[i] & 1 ? 0x82F63B78u : 0);
      }
    }
  };
  static const Table table;
  for (int i = 0; i < L; i++) {
    r ^= w[i];
    for (int k = 0; k < 4; k++) r = r >> 8 ^ table.byte[r & 0xFF];
  }
  return r;
}
#ifdef __SSE4_2__
template <int L>
uint32_t crc_beat_sse42(uint32_t r, const uint32_t w[L]) {
  uint64_t wide = r;
  for (int i = 0; i < L; i += 2) wide = _mm_crc32_u64(wide, w[i] | uint64_t(w[i + 1]) << 32);
  return uint32_t(wide);
}
#endif
#endif

// The register after one beat. csim takes the CPU's instruction, which a test holds to the above.
template <int L>
uint32_t crc_beat(uint32_t r, const uint32_t w[L]) {
#pragma HLS INLINE
#if defined(__SYNTHESIS__)
  return crc_beat_hardware<L>(r, w);
#elif defined(__SSE4_2__)
  return crc_beat_sse42<L>(r, w);
#else
  return crc_beat_table<L>(r, w);
#endif
}

}  // namespace actdma
