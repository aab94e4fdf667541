// The way in: CRC over what arrives, the descriptor's check, and the drain rule. Only these
// processes see the AXI input; they read every packet exactly to its TLAST.
#pragma once

#include "axis.hpp"
#include "crc.hpp"
#include "frame.hpp"
#include "records.hpp"
#include "route.hpp"

namespace actdma {

constexpr uint32_t kCodecsBuiltIn =
    1u << kCodecRaw | 1u << kCodecZvc | 1u << kCodecZve | 1u << kCodecInts | 1u << kCodecRle |
    (ACTDMA_POOL ? 1u << kCodecPool : 0) | (ACTDMA_BSR ? 1u << kCodecBsr : 0);

// An input beat and the CRC register after it.
template <int L>
struct CheckedBeat {
  uint32_t w[L];
  uint32_t crc;
  bool broken;  // so far the packet has bytes left out (TKEEP), or has ended off 64 bytes
  bool last;
};

// What the end of an answer is made of (finish.hpp).
struct Tail {
  uint32_t status;
  uint32_t sequence;
  uint32_t descriptor_crc;
  uint32_t raw_low, raw_high;
  uint32_t payload;  // decompressor: payload bytes the frame's trailer announces
  uint32_t raw_crc;  // CRC of the raw data, decompressor: as announced
  bool refused;      // by the descriptor alone: no data follows
  bool identify;
  bool lossy;
  uint8_t route;  // of the codec (route.hpp)
};

// A packet that is not a multiple of 64 bytes has a wrong length, unless its descriptor is refused
// anyway.
inline Tail close_tail(const Tail& tail, bool broken) {
#pragma HLS INLINE
  Tail closed = tail;
  const bool descriptor_bad = tail.status != kGood && tail.status <= kBadRawBytes;
  if (broken && !descriptor_bad) closed.status = kBadLength;
  return closed;
}

// What a decompressor's parser needs to know of the descriptor.
struct Job {
  Format format;
  uint32_t raw_words;  // padded
  bool refused;
};

// CRC over the input. The compressor's starts anew after the descriptor (it is that of the raw
// data), the decompressor's runs on (it is that of the frame; the descriptor ends in the residue
// too).
template <int L, bool RESTART>
struct InputCrc {
  uint32_t crc = kCrcInit;
  uint32_t beats = 0;
  uint8_t line = 0;  // beats since the last multiple of 64 bytes
  bool broken = false;

  void step(const AxiBeat<L>& in, CheckedBeat<L>& out) {
#pragma HLS INLINE
    if (RESTART && beats == kHeaderWords / L) crc = kCrcInit;
    if (beats <= kHeaderWords / L) beats++;
    crc = crc_beat<L>(crc, in.w);
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      out.w[i] = in.w[i];
    }
    line = uint8_t((line + 1) % (kHeaderWords / L));
    broken = broken || !in.keep || (in.last && line != 0);
    out.crc = crc;
    out.broken = broken;
    out.last = in.last;
  }
};

template <int L, bool RESTART>
void input_crc(AxiStream<L>& in, Stream<CheckedBeat<L>, kShallow>& out) {
  InputCrc<L, RESTART> state;
  CheckedBeat<L> checked;
  do {
#pragma HLS PIPELINE II = 1 style = flp
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    cycle();
    state.step(in.read(), checked);
    out.write(checked);
  } while (!checked.last);
}

// The descriptor, gathered over the first beats of a packet.
template <int L>
struct Header {
  uint32_t d[kHeaderWords] = {};
  uint32_t beats = 0;

  // Shift one beat in at the end; true when the descriptor is whole.
  bool shift(const uint32_t w[L]) {
#pragma HLS INLINE
    for (int i = 0; i < kHeaderWords - L; i++) {
#pragma HLS UNROLL
      d[i] = d[i + L];
    }
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      d[kHeaderWords - L + i] = w[i];
    }
    return ++beats == kHeaderWords / L;
  }
  // A beat of the packet in, likewise. One that ends it with bytes left out makes nothing whole.
  bool take(const CheckedBeat<L>& in) {
#pragma HLS INLINE
    const bool whole = shift(in.w);
    return whole && !(in.broken && in.last);
  }
  // The first beat out; after all beats the descriptor stands as before.
  void rotate(uint32_t w[L]) {
#pragma HLS INLINE
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      w[i] = d[i];
    }
    shift(w);
  }
  bool identify() const { return (d[kDescKind] >> 8 & 0xFF) == kIdentify; }
  Format format() const {
#pragma HLS INLINE
    return {uint8_t(d[kDescKind] >> 16), uint8_t(element_log2(d[kDescKind] >> 24)),
            uint8_t(d[kDescParameters])};
  }
  uint32_t raw_words() const { return (d[kDescRawLow] + 63) / 64 * kAlignWords; }
  void fill(Tail& tail) const {
#pragma HLS INLINE
    tail.sequence = d[kDescSequence];
    tail.descriptor_crc = d[kDescCrc];
    tail.raw_low = d[kDescRawLow];
    tail.raw_high = d[kDescRawHigh];
  }
  // What becomes of the packet, now that its status is known.
  void decide(Tail& tail) const {
#pragma HLS INLINE
    tail.identify = tail.status == kGood && identify();
    tail.refused = tail.status != kGood || tail.identify;
    tail.route = tail.refused ? kRouteBlocks : route_of(format().codec);
    tail.lossy = !tail.refused && is_lossy(format().codec);
  }
};

// extents_fit() by shifting and adding, a bit in a cycle: no multiplier lies in ingest's loop.
struct Extents {
  uint32_t product = 0;  // of the element bytes and the extents so far
  uint32_t factor = 0;   // what is left of the extent under way
  uint32_t addend = 0;
  uint32_t sum = 0;
  int taken = 0;  // extents begun
  bool over = false;

  void begin(const uint32_t d[kHeaderWords]) {
#pragma HLS INLINE
    product = d[kDescKind] >> 24;
  }
  bool fit(const uint32_t d[kHeaderWords]) const { return !over && product == d[kDescRawLow]; }
  // One cycle; true after the last.
  bool step(const uint32_t d[kHeaderWords]) {
#pragma HLS INLINE
    if (factor == 0) {
      if (taken > 0) product = sum;
      if (taken == kExtents) return true;
      for (int n = 0; n < kExtents; n++) {
#pragma HLS UNROLL
        if (taken == n) factor = d[kDescParameters + 1 + n];
      }
      taken++;
      addend = product;
      sum = 0;
      return false;
    }
    // Nothing here outgrows 32 bits: a factor with bits left for a greater addend ends it.
    if (factor & 1) sum += addend;
    factor >>= 1;
    addend <<= 1;
    over = sum > kMaxRawBytes || (factor && addend > kMaxRawBytes);
    if (over) taken = kExtents, factor = 0;
    return over;
  }
};

// Whether a descriptor is good, found in some cycles: each has a register between it and the next,
// so nothing waits for the check but the phase after it.
template <int L>
struct DescriptorCheck {
  enum Stage : uint8_t { kFields, kMeasure, kWeigh };
  Stage stage = kFields;
  Extents extents;

  // One cycle; true after the last, when the tail has the status.
  bool step(const Header<L>& header, bool crc_good, Tail& tail) {
#pragma HLS INLINE
    if (stage == kFields) {
      tail.status = check_fields(header.d, crc_good, kCodecsBuiltIn);
      header.fill(tail);
      extents.begin(header.d);
      stage = kMeasure;
      return !has_extents(header.d);
    }
    if (stage == kMeasure) {
      if (extents.step(header.d)) stage = kWeigh;
      return false;
    }
    if (tail.status == kGood && !extents.fit(header.d)) tail.status = kBadRawBytes;
    return true;
  }
};

// A beat of raw data on its way to the block engine.
template <int L>
struct RawBeat : Beat<L> {
  Format format;
  bool block_end;
  uint8_t route;
};
template <int L>
using RawStream = Stream<RawBeat<L>, kShallow>;

// Compressor: checks the descriptor, echoes it to `head`, forwards exactly the data announced.
template <int L>
struct Ingest {
  enum Phase : uint8_t { kHeader, kCheck, kDecide, kEcho, kHeadEnd, kData, kDrain, kEnd };
  Phase phase = kHeader;
  Header<L> header;
  DescriptorCheck<L> check;
  uint32_t beats_left = 0;   // of the data announced
  uint32_t block_beats = 0;  // so far in this block
  bool packet_over = false;
  bool broken = false;
  uint32_t crc = 0;  // after the descriptor
  Tail tail = {kGood, 0, 0, 0, 0, 0, 0, true, false, false, 0};

  bool takes() const { return phase == kHeader || phase == kData || phase == kDrain; }
  bool done() const { return phase == kEnd; }
  // The tail at the packet's end.
  Tail closed() const { return close_tail(tail, broken); }

  // One cycle. `in` is looked at only where takes() was true; `head_valid` and `data_valid` say
  // what is written.
  void step(const CheckedBeat<L>& in, Beat<L>& head, bool& head_valid, RawBeat<L>& data,
            bool& data_valid) {
#pragma HLS INLINE
    head_valid = data_valid = false;
    if (takes() && in.broken) broken = true;
    if (phase == kHeader) {
      read_header(in);
    } else if (phase == kCheck) {
      if (check.step(header, crc == kCrcResidue, tail)) phase = kDecide;
    } else if (phase == kDecide) {
      header.decide(tail);
      phase = tail.refused ? kHeadEnd : kEcho;
    } else if (phase == kEcho) {
      head.last = false;
      header.rotate(head.w);
      head_valid = true;
      for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
        data.w[i] = head.w[i];
      }
      data.block_end = data.last = false;
      data.route = tail.route;
      data_valid = tail.route != kRouteBlocks;
      if (header.beats == 2 * kHeaderWords / L) {
        beats_left = header.raw_words() / L;
        phase = kHeadEnd;
      }
    } else if (phase == kHeadEnd) {
      head = end_beat<L>();
      head_valid = true;
      close();
    } else if (phase == kData) {
      forward(in, data);
      data_valid = true;
    } else if (phase == kDrain && in.last) {
      phase = kEnd;
    }
  }

 private:
  void read_header(const CheckedBeat<L>& in) {
#pragma HLS INLINE
    const bool whole = header.take(in);
    packet_over = in.last;
    if (!whole) {
      if (in.last) {
        tail.status = kBadLength;
        phase = kHeadEnd;
      }
      return;
    }
    crc = in.crc;
    phase = kCheck;
  }
  // After the descriptor: whatever of data and TLAST is still to come.
  void close() {
#pragma HLS INLINE
    if (beats_left > 0 && !packet_over) {
      phase = kData;
      return;
    }
    if ((beats_left > 0 || !packet_over) && (!tail.refused || tail.identify))
      tail.status = kBadLength;
    phase = packet_over ? kEnd : kDrain;
  }
  void forward(const CheckedBeat<L>& in, RawBeat<L>& data) {
#pragma HLS INLINE
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      data.w[i] = in.w[i];
    }
    beats_left--;
    packet_over = in.last;
    data.format = header.format();
    data.block_end = ++block_beats == kBlockBeats<L> || beats_left == 0 || in.last;
    data.last = false;
    data.route = tail.route;
    if (data.block_end) block_beats = 0;
    tail.raw_crc = ~in.crc;
    if (beats_left == 0 || in.last) close();
  }
};

template <int L>
void ingest(Stream<CheckedBeat<L>, kShallow>& in, BeatStream<L>& head, RawStream<L>& data,
            Stream<Tail, 2>& tail) {
  Ingest<L> state;
#pragma HLS ARRAY_PARTITION variable = state.header.d type = complete
  while (!state.done()) {
#pragma HLS PIPELINE II = 1 style = flp
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    cycle();
    CheckedBeat<L> beat = {};
    if (state.takes()) beat = in.read();
    Beat<L> head_beat;
    RawBeat<L> data_beat;
    bool head_valid, data_valid;
    state.step(beat, head_beat, head_valid, data_beat, data_valid);
    if (head_valid) head.write(head_beat);
    if (data_valid) data.write(data_beat);
  }
  RawBeat<L> end = {};
  end.last = end.block_end = true;
  end.route = state.tail.route;
  data.write(end);
  tail.write(state.closed());
}

// Decompressor: checks the descriptor, forwards the payload, holds back the last 64 bytes: the
// trailer.
template <int L>
struct IngestFrame {
  enum Phase : uint8_t { kHeader, kCheck, kDecide, kEcho, kPayload, kDrain, kEnd };
  static constexpr uint32_t kHold = kHeaderWords / L;  // beats held back
  Phase phase = kHeader;
  Header<L> header;
  DescriptorCheck<L> check;
  Header<L> hold;     // the latest 16 words of the packet after the descriptor
  uint32_t held = 0;  // beats in it
  Tail tail = {kGood, 0, 0, 0, 0, 0, 0, true, false, false, 0};

  bool packet_over = false;
  bool broken = false;
  uint32_t crc = 0;  // after the descriptor

  bool takes() const { return phase == kHeader || phase == kPayload || phase == kDrain; }
  bool done() const { return phase == kEnd; }
  Tail closed() const { return close_tail(tail, broken); }

  void step(const CheckedBeat<L>& in, Job& job, bool& job_valid, RoutedBeat<L>& data,
            bool& data_valid) {
#pragma HLS INLINE
    job_valid = data_valid = false;
    data.last = false;
    data.route = tail.route;
    if (takes() && in.broken) broken = true;
    if (phase == kHeader) {
      const bool whole = header.take(in);
      packet_over = in.last;
      crc = in.crc;
      if (whole) {
        phase = kCheck;
      } else if (in.last) {
        tail.status = kBadLength;
        phase = kDecide;
      }
    } else if (phase == kCheck) {
      if (check.step(header, crc == kCrcResidue, tail)) phase = kDecide;
    } else if (phase == kDecide) {
      decide();
      job.format = header.format();
      job.raw_words = header.raw_words();
      job.refused = tail.refused || tail.route != kRouteBlocks;
      job_valid = true;
    } else if (phase == kEcho) {
      header.rotate(data.w);
      data_valid = true;
      if (header.beats == 2 * kHeaderWords / L) phase = kPayload;
    } else if (phase == kPayload) {
      for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
        data.w[i] = hold.d[i];
      }
      data_valid = held == kHold;
      hold.shift(in.w);
      if (held < kHold) held++;
      if (in.last) {
        check_trailer(in.crc);
        phase = kEnd;
      }
    } else if (in.last) {
      phase = kEnd;
    }
  }

 private:
  void decide() {
#pragma HLS INLINE
    header.decide(tail);
    // An identify request ends here, a frame does not.
    if (tail.status == kGood && tail.identify != packet_over) tail.status = kBadLength;
    phase = packet_over                  ? kEnd
            : tail.refused               ? kDrain
            : tail.route != kRouteBlocks ? kEcho
                                         : kPayload;
  }
  void check_trailer(uint32_t frame_crc) {
#pragma HLS INLINE
    const uint32_t* t = hold.d;
    tail.payload = t[kTrailPayloadLow];
    tail.raw_crc = t[kTrailRawCrc];
    if (held < kHold) {
      tail.status = kBadLength;
    } else if (t[kTrailMagic] != kTrailerMagic || t[kTrailStatus] != kGood ||
               t[kTrailSequence] != tail.sequence ||
               t[kTrailDescriptorCrc] != tail.descriptor_crc || t[kTrailRawLow] != tail.raw_low ||
               t[kTrailRawHigh] != tail.raw_high || t[kTrailPayloadHigh] != 0) {
      tail.status = kBadTrailer;
    } else if (frame_crc != kCrcResidue) {
      tail.status = kBadFrameCrc;
    }
  }
};

template <int L>
void ingest_frame(Stream<CheckedBeat<L>, kShallow>& in, Stream<Job, 2>& job,
                  Stream<RoutedBeat<L>, kShallow>& data, Stream<Tail, 2>& tail) {
  IngestFrame<L> state;
#pragma HLS ARRAY_PARTITION variable = state.header.d type = complete
#pragma HLS ARRAY_PARTITION variable = state.hold.d type = complete
  while (!state.done()) {
#pragma HLS PIPELINE II = 1 style = flp
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    cycle();
    Job the_job;
    RoutedBeat<L> beat;
    bool job_valid, data_valid;
    CheckedBeat<L> checked = {};
    if (state.takes()) checked = in.read();
    state.step(checked, the_job, job_valid, beat, data_valid);
    if (job_valid) job.write(the_job);
    if (data_valid) data.write(beat);
  }
  RoutedBeat<L> end = {};
  end.last = true;
  end.route = state.tail.route;
  data.write(end);
  tail.write(state.closed());
}

}  // namespace actdma
