// One engine, several codecs. Between the way in and the way out every codec has a branch of its
// own, which turns data into data and ends with a verdict:
//
//   ingest -> route -+-> the block engine -+-> merge -> finish
//                    '-> another codec ----'
//
// Only the branch of the frame's codec gets data: for the block engine that of the packet, for the
// others the descriptor before it. All get the end token, and all answer with theirs.
#pragma once

#include "axis.hpp"
#include "frame.hpp"

// Build flags: 0 leaves a codec out.
#ifndef ACTDMA_POOL
#define ACTDMA_POOL 1
#endif
#ifndef ACTDMA_BSR
#define ACTDMA_BSR 1
#endif

namespace actdma {

// Numbers of the branches, in the order in which route, merge and finish list them.
enum Route : uint8_t { kRouteBlocks = 0, kRoutePool = 1, kRouteBsr = 2 };

constexpr Route route_of(uint32_t codec) {
  return codec == kCodecPool ? kRoutePool : codec == kCodecBsr ? kRouteBsr : kRouteBlocks;
}

// What a branch found: its status and the payload's length.
struct Verdict {
  uint32_t status;
  uint32_t payload_words;
};
using VerdictStream = Stream<Verdict, 2>;

template <int L>
struct RoutedBeat : Beat<L> {
  uint8_t route;
};

template <class Token, class Out>
void write_if(bool wanted, const Token& token, Out& out) {
#pragma HLS INLINE
  if (wanted) out.write(token);
}

template <class Token, class In>
void read_if(bool wanted, In& in, Token& token) {
#pragma HLS INLINE
  if (wanted) token = in.read();
}

// Every stream is read, one token kept: by a select of values, as one of addresses may not be
// synthesised.
template <class Token, class In>
void read_chosen(bool chosen, In& in, Token& token) {
#pragma HLS INLINE
  const Token read = in.read();
  if (chosen) token = read;
}

// Tokens (with `route` and `last`) go to the branch of their route, the end token to all. `chosen`
// gets the frame's route.
template <class In, class... Outs>
void route(In& in, Stream<uint8_t, 2>& chosen, Outs&... outs) {
  bool first = true;
  for (bool done = false; !done;) {
#pragma HLS PIPELINE II = 1
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    cycle();
    const auto token = in.read();
    if (first) chosen.write(token.route);
    uint8_t n = 0;
    (write_if(token.last | (token.route == n++), token, outs), ...);
    first = false;
    done = token.last;
  }
}

// The tokens of the chosen branch; the others have only their end tokens.
template <int L, class... Ins>
void merge(Stream<uint8_t, 2>& chosen, BeatStream<L>& out, Ins&... ins) {
  const uint8_t route = chosen.read();
  Beat<L> beat;
  do {
#pragma HLS PIPELINE II = 1
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    cycle();
    uint8_t n = 0;
    (read_if(route == n++, ins, beat), ...);
    out.write(beat);
  } while (!beat.last);
  uint8_t n = 0;
  (read_if(route != n++, ins, beat), ...);
}

// The branch of a codec that is left out.
template <int L>
void absent(BeatStream<L>& in, BeatStream<L>& out, VerdictStream& verdict) {
  out.write(in.read());
  verdict.write(Verdict{kGood, 0});
}

}  // namespace actdma
