// Tokens on the streams. A beat is L 32-bit lanes. On every internal stream data tokens come first,
// then exactly one end token (`last` set, no data), also when a frame is refused or broken.
#pragma once

#include <cstdint>

#include "frame.hpp"
#include "stream.hpp"

namespace actdma {

// AXI4-Stream at the engine's ports. `keep` stands for TKEEP: packets are multiples of 64 bytes, so
// it is all ones or the beat is broken.
template <int L>
struct AxiBeat {
  uint32_t w[L];
  bool keep;
  bool last;
};

template <int L>
struct Beat {
  uint32_t w[L];
  bool last;
};

// Beats of the longest frame on the narrowest stream. A process' loop ends with its packet, so this
// is the trip count it states; synthesis only reports it.
constexpr int kMaxBeats = int(frame_bound(kMaxRawBytes) / 8);

// FIFO depths. Shallow ones fit the 32-deep shift registers of a LUT, where the builds put them
// (overlay/flow/hls.py); check/fifos.py adds up the others. Block FIFOs hold two blocks,
// so that one drains while the next fills. A mask plane is at most an eighth of its block: plane
// FIFOs hold two, and as much data, which lasts while the next block's mask plane passes.
constexpr int kShallow = 32;
template <int L>
constexpr int kBlockBeats = 2048 / L;

template <int L>
using AxiStream = Stream<AxiBeat<L>, kShallow>;
template <int L>
using BeatStream = Stream<Beat<L>, kShallow>;
template <int L>
using BlockStream = Stream<Beat<L>, 2 * kBlockBeats<L>>;
template <int L>
using PlaneStream = Stream<Beat<L>, kBlockBeats<L> / 4>;

// The only place where an output word of an engine is made: TKEEP is always all ones.
template <int L>
AxiBeat<L> make_beat(const uint32_t w[L], bool last) {
#pragma HLS INLINE
  AxiBeat<L> beat;
  for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
    beat.w[i] = w[i];
  }
  beat.keep = true;
  beat.last = last;
  return beat;
}

template <int L>
Beat<L> end_beat() {
#pragma HLS INLINE
  Beat<L> beat;
  for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
    beat.w[i] = 0;
  }
  beat.last = true;
  return beat;
}

}  // namespace actdma
