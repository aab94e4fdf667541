// Moves of bytes and words within beats. Each has the form that is synthesised (log-distance stages
// of selects, no dynamic index) and, for csim's speed, a plain one behind the same name; a test
// holds the two together.
#pragma once

#include <cstdint>

#ifndef __SYNTHESIS__
#include <cstring>
#endif

namespace actdma {

constexpr int log2_ceil(int n) { return n <= 1 ? 0 : 1 + log2_ceil((n + 1) / 2); }

// Units of 8 (byte moves) or 32 bits (word moves) in a beat of L lanes.
template <class Unit, int L>
constexpr int kUnits = L * int(4 / sizeof(Unit));

template <class Unit, int L>
void split_beat(const uint32_t w[L], Unit u[kUnits<Unit, L>]) {
#pragma HLS INLINE
  for (int i = 0; i < kUnits<Unit, L>; i++) {
#pragma HLS UNROLL
    u[i] = Unit(w[i * sizeof(Unit) / 4] >> (8 * (i * sizeof(Unit) % 4)));
  }
}

template <class Unit, int L>
void join_beat(const Unit u[kUnits<Unit, L>], uint32_t w[L]) {
#pragma HLS INLINE
  for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
    w[i] = 0;
    for (int k = 0; k < int(4 / sizeof(Unit)); k++) {
#pragma HLS UNROLL
      w[i] |= uint32_t(u[i * int(4 / sizeof(Unit)) + k]) << (8 * sizeof(Unit) * k % 32);
    }
  }
}

// out = the beat that begins `pos` units into the two beats first, second; 0 <= pos <= units of a
// beat.
template <class Unit, int L>
void funnel_hardware(const uint32_t first[L], const uint32_t second[L], uint32_t pos,
                     uint32_t out[L]) {
#pragma HLS INLINE
  constexpr int N = kUnits<Unit, L>;
  constexpr int kStages = log2_ceil(N + 1);
  Unit u[2 * N];
#pragma HLS ARRAY_PARTITION variable = u type = complete
  split_beat<Unit, L>(first, u);
  split_beat<Unit, L>(second, u + N);
  for (int k = kStages - 1; k >= 0; k--) {
#pragma HLS UNROLL
    for (int i = 0; i < 2 * N; i++) {
#pragma HLS UNROLL
      if (pos >> k & 1) u[i] = i + (1 << k) < 2 * N ? u[i + (1 << k)] : Unit(0);
    }
  }
  join_beat<Unit, L>(u, out);
}

template <class Unit, int L>
void funnel(const uint32_t first[L], const uint32_t second[L], uint32_t pos, uint32_t out[L]) {
#pragma HLS INLINE
#ifdef __SYNTHESIS__
  funnel_hardware<Unit, L>(first, second, pos, out);
#else
  uint32_t both[2 * L];
  std::memcpy(both, first, 4 * L);
  std::memcpy(both + L, second, 4 * L);
  std::memcpy(out, reinterpret_cast<const char*>(both) + pos * sizeof(Unit), 4 * L);
#endif
}

// Put the beat `in` after the `fill` units that `hold` begins with; 0 <= fill < units of a beat.
// `low` is the first beat of the result, `high` the second.
template <class Unit, int L>
void append_hardware(const uint32_t hold[L], uint32_t fill, const uint32_t in[L], uint32_t low[L],
                     uint32_t high[L]) {
#pragma HLS INLINE
  constexpr int N = kUnits<Unit, L>;
  constexpr int kStages = log2_ceil(N);
  Unit u[2 * N], h[N];
#pragma HLS ARRAY_PARTITION variable = u type = complete
#pragma HLS ARRAY_PARTITION variable = h type = complete
  split_beat<Unit, L>(in, u);
  split_beat<Unit, L>(hold, h);
  for (int i = N; i < 2 * N; i++) {
#pragma HLS UNROLL
    u[i] = 0;
  }
  for (int k = kStages - 1; k >= 0; k--) {
#pragma HLS UNROLL
    for (int i = 2 * N - 1; i >= 0; i--) {
#pragma HLS UNROLL
      if (fill >> k & 1) u[i] = i >= 1 << k ? u[i - (1 << k)] : Unit(0);
    }
  }
  for (int i = 0; i < N; i++) {
#pragma HLS UNROLL
    if (uint32_t(i) < fill) u[i] = h[i];
  }
  join_beat<Unit, L>(u, low);
  join_beat<Unit, L>(u + N, high);
}

template <class Unit, int L>
void append(const uint32_t hold[L], uint32_t fill, const uint32_t in[L], uint32_t low[L],
            uint32_t high[L]) {
#pragma HLS INLINE
#ifdef __SYNTHESIS__
  append_hardware<Unit, L>(hold, fill, in, low, high);
#else
  uint32_t both[2 * L] = {};
  std::memcpy(both, hold, 4 * L);
  std::memcpy(reinterpret_cast<char*>(both) + fill * sizeof(Unit), in, 4 * L);
  std::memcpy(low, both, 4 * L);
  std::memcpy(high, both + L, 4 * L);
#endif
}

// Packs words into full beats.
template <int L>
struct WordPacker {
  uint32_t hold[L] = {};  // words that do not fill a beat yet
  uint32_t fill = 0;      // how many

  // Append the first `words` of `in`; true if `out` is a full beat.
  bool add(const uint32_t in[L], uint32_t words, uint32_t out[L]) {
#pragma HLS INLINE
    uint32_t high[L];
#pragma HLS ARRAY_PARTITION variable = high type = complete
    append<uint32_t, L>(hold, fill, in, out, high);
    const uint32_t total = fill + words;
    const bool full = total >= L;
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      hold[i] = full ? high[i] : out[i];
    }
    fill = full ? total - L : total;
    return full;
  }
  // What is left, zeros behind it.
  void flush(uint32_t out[L]) {
#pragma HLS INLINE
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      out[i] = uint32_t(i) < fill ? hold[i] : 0;
    }
    fill = 0;
  }
};

}  // namespace actdma
