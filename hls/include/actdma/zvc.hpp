// Zero-value compression of a beat (cDMA, arXiv 1705.01626): the mask of its elements that have a
// bit set, and those elements moved to the front. `element` is log2 of the bytes per element, 0 to
// 2; a beat of L lanes holds 4 L >> element elements.
#pragma once

#include <cstdint>

#include "shift.hpp"

namespace actdma {

// Number of bits set: an adder tree, not a loop over a recurrence.
inline uint32_t count_bits(uint64_t x) {
#pragma HLS INLINE
#ifndef __SYNTHESIS__
  return uint32_t(__builtin_popcountll(x));
#else
  uint32_t n = 0;
  for (int i = 0; i < 64; i++) {
#pragma HLS UNROLL
    n += uint32_t(x >> i & 1);
  }
  return n;
#endif
}

// Every byte's bit from the elements' bits.
template <int L>
uint64_t spread_mask(uint64_t mask, uint32_t element) {
#pragma HLS INLINE
  uint64_t bytes = 0;
  for (int i = 0; i < 4 * L; i++) {
#pragma HLS UNROLL
    const uint64_t bit = element == 0   ? mask >> i
                         : element == 1 ? mask >> (i / 2)
                                        : mask >> (i / 4);
    bytes |= (bit & 1) << i;
  }
  return bytes;
}

// How far every kept byte moves to the front: by the dropped bytes before it; 0 for dropped ones.
template <int L>
void move_distances(uint64_t keep, uint32_t distance[4 * L]) {
#pragma HLS INLINE
  uint32_t dropped = 0;
  for (int i = 0; i < 4 * L; i++) {
#pragma HLS UNROLL
    const bool kept = keep >> i & 1;
    distance[i] = kept ? dropped : 0;
    dropped += !kept;
  }
}

// One stage of the compaction network: what has bit k in its distance moves by 2^k. Kept bytes
// never collide: their order stays, and distances grow by what lies between them.
template <class T, int N>
void move_stage(int k, const uint32_t distance[N], T u[N]) {
#pragma HLS INLINE
  for (int i = 0; i < N; i++) {
#pragma HLS UNROLL
    const int from = i + (1 << k) < N ? i + (1 << k) : i;
    const bool arrives = from != i && (distance[from] >> k & 1);
    const bool leaves = distance[i] >> k & 1;
    u[i] = arrives ? u[from] : leaves ? T(0) : u[i];
  }
}

template <int L>
uint64_t compact_hardware(const uint32_t w[L], uint32_t element, uint32_t out[L]) {
#pragma HLS INLINE
  constexpr int N = 4 * L;
  constexpr int kStages = log2_ceil(N);
  uint8_t u[N];
  uint32_t distance[N];
#pragma HLS ARRAY_PARTITION variable = u type = complete
#pragma HLS ARRAY_PARTITION variable = distance type = complete
  split_beat<uint8_t, L>(w, u);
  uint64_t mask = 0;
  for (int i = 0; i < N; i++) {
#pragma HLS UNROLL
    const bool byte = u[i] != 0;
    const bool pair = (u[i & ~1] | u[i | 1]) != 0;
    const bool quad = w[i / 4] != 0;
    if (element == 0) mask |= uint64_t(byte) << i;
    if (element == 1 && i % 2 == 0) mask |= uint64_t(pair) << (i / 2);
    if (element == 2 && i % 4 == 0) mask |= uint64_t(quad) << (i / 4);
  }
  // Bytes of dropped elements are zero already and give way.
  move_distances<L>(spread_mask<L>(mask, element), distance);
  for (int k = 0; k < kStages; k++) {
#pragma HLS UNROLL
    uint32_t stage[N];
#pragma HLS ARRAY_PARTITION variable = stage type = complete
    for (int i = 0; i < N; i++) {
#pragma HLS UNROLL
      stage[i] = distance[i];
    }
    move_stage<uint8_t, N>(k, stage, u);
    move_stage<uint32_t, N>(k, stage, distance);
  }
  join_beat<uint8_t, L>(u, out);
  return mask;
}

#ifndef __SYNTHESIS__
template <class Element, int L>
uint64_t compact_plain(const uint32_t w[L], uint32_t out[L]) {
  constexpr int N = 4 * L / int(sizeof(Element));
  Element in[N], packed[N] = {};
  std::memcpy(in, w, 4 * L);
  uint64_t mask = 0;
  int n = 0;
  for (int i = 0; i < N; i++) {
    packed[n] = in[i];
    n += in[i] != 0;
    mask |= uint64_t(in[i] != 0) << i;
  }
  if (n < N) packed[n] = 0;
  std::memcpy(out, packed, 4 * L);
  return mask;
}
#endif

// The mask of the beat's elements; `out` is the kept ones packed, zeros behind them.
template <int L>
uint64_t compact(const uint32_t w[L], uint32_t element, uint32_t out[L]) {
#pragma HLS INLINE
#ifdef __SYNTHESIS__
  return compact_hardware<L>(w, element, out);
#else
  if (element == 0) return compact_plain<uint8_t, L>(w, out);
  if (element == 1) return compact_plain<uint16_t, L>(w, out);
  return compact_plain<uint32_t, L>(w, out);
#endif
}

// The inverse: `in` begins with the kept elements; they go where the mask has ones, zeros
// elsewhere. The distances run through the compaction network, the data then back through the same
// switches.
template <int L>
void scatter_hardware(const uint32_t in[L], uint64_t mask, uint32_t element, uint32_t out[L]) {
#pragma HLS INLINE
  constexpr int N = 4 * L;
  constexpr int kStages = log2_ceil(N);
  const uint64_t keep = spread_mask<L>(mask, element);
  uint8_t u[N];
  uint32_t distance[kStages + 1][N];
#pragma HLS ARRAY_PARTITION variable = u type = complete
#pragma HLS ARRAY_PARTITION variable = distance type = complete dim = 0
  split_beat<uint8_t, L>(in, u);
  move_distances<L>(keep, distance[0]);
  for (int k = 0; k < kStages; k++) {
#pragma HLS UNROLL
    for (int i = 0; i < N; i++) {
#pragma HLS UNROLL
      distance[k + 1][i] = distance[k][i];
    }
    move_stage<uint32_t, N>(k, distance[k], distance[k + 1]);
  }
  for (int k = kStages - 1; k >= 0; k--) {
#pragma HLS UNROLL
    for (int i = N - 1; i >= 1 << k; i--) {
#pragma HLS UNROLL
      if (distance[k][i] >> k & 1) u[i] = u[i - (1 << k)];
    }
  }
  for (int i = 0; i < N; i++) {
#pragma HLS UNROLL
    if (!(keep >> i & 1)) u[i] = 0;
  }
  join_beat<uint8_t, L>(u, out);
}

#ifndef __SYNTHESIS__
template <class Element, int L>
void scatter_plain(const uint32_t in[L], uint64_t mask, uint32_t out[L]) {
  constexpr int N = 4 * L / int(sizeof(Element));
  Element packed[N + 1] = {}, spread[N];
  std::memcpy(packed, in, 4 * L);
  int n = 0;
  for (int i = 0; i < N; i++) {
    const Element kept = mask >> i & 1;
    spread[i] = packed[n] & Element(-kept);  // no branch: masks are not predictable
    n += kept;
  }
  std::memcpy(out, spread, 4 * L);
}
#endif

template <int L>
void scatter(const uint32_t in[L], uint64_t mask, uint32_t element, uint32_t out[L]) {
#pragma HLS INLINE
#ifdef __SYNTHESIS__
  scatter_hardware<L>(in, mask, element, out);
#else
  if (element == 0) return scatter_plain<uint8_t, L>(in, mask, out);
  if (element == 1) return scatter_plain<uint16_t, L>(in, mask, out);
  scatter_plain<uint32_t, L>(in, mask, out);
#endif
}

}  // namespace actdma
