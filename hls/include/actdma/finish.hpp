// The way out: the trailer, the CRC of the packet, TLAST.
#pragma once

#include "axis.hpp"
#include "crc.hpp"
#include "frame.hpp"
#include "ingest.hpp"

namespace actdma {

// What a process beside the block engine found in the blocks that concern it.
struct Agreement {
  bool earlier_bad;  // planes disagreed in a block before the latest
  bool latest_bad;
};

// Lets data pass, computes the packet's CRC and ends the packet with a trailer.
template <int L, EngineKind KIND>
struct Finish {
  enum Phase : uint8_t { kData, kWeigh, kCompose, kTrailer, kEnd };
  Phase phase = kData;
  uint32_t crc = kCrcInit;
  Header<L> trailer;
  Tail tail = {};
  Verdict verdict = {};
  uint32_t raw_crc = 0;
  uint32_t status = kGood;

  bool takes() const { return phase == kData; }
  bool done() const { return phase == kEnd; }
  bool emits() const { return phase == kData || phase == kTrailer; }

  void step(const Beat<L>& in, AxiBeat<L>& out) {
#pragma HLS INLINE
    uint32_t w[L];
#pragma HLS ARRAY_PARTITION variable = w type = complete
    if (phase == kData) {
      for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
        w[i] = in.w[i];
      }
    } else {
      trailer.rotate(w);
    }
    crc = crc_beat<L>(crc, w);
    const bool last = trailer.beats == kHeaderWords / L;
    // The trailer's last word was 0 so far: step back before it.
    if (last) {
      w[L - 1] = ~kCrcMatrix<-1>.times(crc);
      phase = kEnd;
    }
    out = make_beat<L>(w, last);
  }

  // After the data. The trailer takes three cycles, each with a register between it and the CRC's
  // recurrence: what came and what was computed, the status, the words.
  void close(const Tail& the_tail, const Verdict& the_verdict) {
#pragma HLS INLINE
    tail = the_tail;
    verdict = the_verdict;
    const bool none = tail.refused || (KIND == kCompressor && tail.lossy);
    raw_crc = none ? 0 : KIND == kCompressor ? tail.raw_crc : ~crc;
    phase = kWeigh;
  }
  void compose() {
#pragma HLS INLINE
    if (phase == kWeigh) {
      status = weigh();
      phase = kCompose;
      return;
    }
    uint32_t* t = trailer.d;
    t[kTrailMagic] = kTrailerMagic;
    t[kTrailStatus] = status;
    t[kTrailSequence] = tail.sequence;
    t[kTrailDescriptorCrc] = tail.descriptor_crc;
    t[kTrailRawLow] = tail.raw_low;
    t[kTrailRawHigh] = tail.raw_high;
    t[kTrailPayloadLow] = tail.refused ? 0 : verdict.payload_words * 4;
    t[kTrailRawCrc] = raw_crc;
    const bool identity = tail.identify && tail.status == kGood;
    t[kTrailIdentity] = identity ? kVersion | uint32_t(KIND) << 8 | uint32_t(L) << 16 : 0;
    t[kTrailCodecs] = identity ? kCodecsBuiltIn : 0;
    phase = kTrailer;
  }

 private:
  // The lowest status that holds. A packet of a length that no frame has is not looked into.
  uint32_t weigh() const {
#pragma HLS INLINE
    if (tail.refused || KIND == kCompressor || tail.status == kBadLength) return tail.status;
    uint32_t worst = tail.status;
    if (verdict.status != kGood) worst = lower(worst, verdict.status);
    if (verdict.payload_words * 4 != tail.payload) worst = lower(worst, kBadTrailer);
    if ((tail.lossy ? 0 : raw_crc) != tail.raw_crc) worst = lower(worst, kBadRawCrc);
    return worst;
  }
  static uint32_t lower(uint32_t a, uint32_t b) { return a == kGood || b < a ? b : a; }
};

// `verdicts`: of every branch; that of the frame's route counts.
template <int L, EngineKind KIND, class... Verdicts>
void finish(BeatStream<L>& in, Stream<Tail, 2>& tail, AxiStream<L>& out, Verdicts&... verdicts) {
  Finish<L, KIND> state;
#pragma HLS ARRAY_PARTITION variable = state.trailer.d type = complete
  while (!state.done()) {
#pragma HLS PIPELINE II = 1 style = flp
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    cycle();
    Beat<L> beat = {};
    if (state.takes()) beat = in.read();
    if (beat.last) {
      const Tail the_tail = tail.read();
      Verdict verdict = {};
      uint8_t n = 0;
      (read_chosen(n++ == the_tail.route, verdicts, verdict), ...);
      state.close(the_tail, verdict);
    } else if (!state.emits()) {
      state.compose();
    } else {
      AxiBeat<L> packet_beat;
      state.step(beat, packet_beat);
      out.write(packet_beat);
    }
  }
}

// Compressor: the descriptor's echo, then the payload.
template <int L>
void concatenate(BeatStream<L>& head, BeatStream<L>& payload, BeatStream<L>& out) {
  bool in_head = true;
  for (bool done = false; !done;) {
#pragma HLS PIPELINE II = 1 style = flp
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    cycle();
    const Beat<L> beat = in_head ? head.read() : payload.read();
    if (!beat.last || !in_head) out.write(beat);
    done = beat.last && !in_head;
    if (beat.last) in_head = false;
  }
}

}  // namespace actdma
