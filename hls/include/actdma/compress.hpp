// The block engine, compressing. Full beats are compacted and packed into planes before the block
// FIFOs, the raw copy waits beside them, and the mode is chosen when the block has passed:
//
//   raw beats -> compact -> pack -> mask plane, data plane, choice -+-> join -> squeeze -> words of
//   the payload
//                  '------------- raw copy -------------------------'
#pragma once

#include "axis.hpp"
#include "finish.hpp"
#include "frame.hpp"
#include "ingest.hpp"
#include "zvc.hpp"

namespace actdma {

// A beat with its kept elements in front.
template <int L>
struct PackedBeat {
  uint32_t w[L];
  uint64_t mask;  // a bit per element
  uint8_t bytes;  // of kept elements
  uint8_t codec;
  uint8_t element;
  bool block_end;
  bool last;
};

template <int L>
void compact_beats(RawStream<L>& in, BlockStream<L>& copy, Stream<PackedBeat<L>, kShallow>& out) {
  for (bool done = false; !done;) {
#pragma HLS PIPELINE II = 1
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    cycle();
    const RawBeat<L> beat = in.read();
    PackedBeat<L> packed;
    packed.mask = compact<L>(beat.w, beat.element, packed.w);
    packed.bytes = uint8_t(count_bits(packed.mask) << beat.element);
    packed.codec = beat.codec;
    packed.element = beat.element;
    packed.block_end = beat.block_end;
    packed.last = beat.last;
    out.write(packed);
    if (!beat.last) {
      Beat<L> raw;
      for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
        raw.w[i] = beat.w[i];
      }
      raw.last = false;
      copy.write(raw);
    }
    done = beat.last;
  }
}

// How a block is stored, and what lies in the FIFOs for it.
struct Choice {
  uint32_t mode;
  uint32_t copy_words;
  uint32_t mask_words;
  uint32_t data_words;
  bool last;
};

// Packs mask bits and kept elements into full beats, and chooses the mode at the block's end.
template <int L>
struct Pack {
  uint32_t hold[L] = {};       // kept bytes that do not fill a beat yet
  uint32_t fill = 0;           // how many
  uint32_t mask_hold[L] = {};  // mask bits likewise
  uint32_t mask_bits = 0;
  uint32_t beats = 0;  // of the block so far
  uint32_t bytes = 0;  // kept in the block so far
  bool flushing = false;

  bool takes() const { return !flushing; }

  void step(const PackedBeat<L>& in, Beat<L>& data, bool& data_valid, Beat<L>& mask,
            bool& mask_valid, Choice& choice, bool& choice_valid) {
#pragma HLS INLINE
    data_valid = mask_valid = choice_valid = false;
    data.last = mask.last = false;
    if (flushing) {
      copy_out(hold, data);
      data_valid = true;
      fill = 0;
      flushing = false;
      return;
    }
    if (in.last) {
      choice.last = choice_valid = true;
      return;
    }
    pack_data(in, data, data_valid);
    pack_mask(in, mask, mask_valid);
    beats++;
    bytes += in.bytes;
    if (in.block_end) {
      choose(in, choice);
      choice_valid = true;
      beats = bytes = 0;
    }
  }

 private:
  static void copy_out(const uint32_t w[L], Beat<L>& beat) {
#pragma HLS INLINE
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      beat.w[i] = w[i];
    }
  }
  void pack_data(const PackedBeat<L>& in, Beat<L>& data, bool& valid) {
#pragma HLS INLINE
    uint32_t low[L], high[L];
#pragma HLS ARRAY_PARTITION variable = low type = complete
#pragma HLS ARRAY_PARTITION variable = high type = complete
    append<uint8_t, L>(hold, fill, in.w, low, high);
    const uint32_t total = fill + in.bytes;
    const bool full = total >= 4 * L;
    valid = full || (in.block_end && total > 0);
    copy_out(low, data);
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      hold[i] = full ? high[i] : low[i];
    }
    fill = full ? total - 4 * L : total;
    if (in.block_end && !full) fill = 0;
    flushing = in.block_end && fill > 0;
  }
  // A beat gives 4 L >> element bits; 8 << element beats fill one of the mask plane.
  void pack_mask(const PackedBeat<L>& in, Beat<L>& mask, bool& valid) {
#pragma HLS INLINE
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      if (mask_bits == 0) mask_hold[i] = 0;
    }
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      const int32_t shift = int32_t(mask_bits) - 32 * i;
      if (shift > -64 && shift <= 0) mask_hold[i] |= uint32_t(in.mask >> -shift);
      if (shift > 0 && shift < 32) mask_hold[i] |= uint32_t(in.mask << shift);
    }
    mask_bits += 4 * L >> in.element;
    valid = mask_bits == 32 * L || in.block_end;
    copy_out(mask_hold, mask);
    if (valid) mask_bits = 0;
  }
  void choose(const PackedBeat<L>& in, Choice& choice) const {
#pragma HLS INLINE
    const uint32_t n = beats * L;
    const uint32_t m = mask_words(n, in.element);
    const uint32_t p = (bytes + 3) / 4;
    choice.mode = in.codec != kCodecZvc ? kModeRaw
                  : bytes == 0          ? kModeZero
                  : m + p < n           ? kModeZvc
                                        : kModeRaw;
    choice.copy_words = n;
    choice.mask_words = m;
    choice.data_words = p;
    choice.last = false;
  }
};

template <int L>
void pack(Stream<PackedBeat<L>, kShallow>& in, PlaneStream<L>& mask, BlockStream<L>& data,
          Stream<Choice, 2>& choice) {
  Pack<L> state;
#pragma HLS ARRAY_PARTITION variable = state.hold type = complete
#pragma HLS ARRAY_PARTITION variable = state.mask_hold type = complete
  for (bool done = false; !done;) {
#pragma HLS PIPELINE II = 1
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    cycle();
    PackedBeat<L> beat = {};
    if (state.takes()) beat = in.read();
    Beat<L> data_beat, mask_beat;
    Choice the_choice = {};
    bool data_valid, mask_valid, choice_valid;
    state.step(beat, data_beat, data_valid, mask_beat, mask_valid, the_choice, choice_valid);
    if (data_valid) data.write(data_beat);
    if (mask_valid) mask.write(mask_beat);
    if (choice_valid) choice.write(the_choice);
    done = the_choice.last;
  }
}

// A beat of which the first `words` count.
template <int L>
struct Span {
  uint32_t w[L];
  uint8_t words;
  bool last;
};

// Joins W0 and the planes of the mode chosen; what is not used drains in the same cycles.
template <int L>
struct Join {
  bool active = false;
  bool ended = false;
  uint32_t mode = 0;
  uint32_t copy_left = 0, mask_left = 0, data_left = 0;  // words still in the FIFOs

  bool takes_choice() const { return !active; }
  bool takes_copy() const { return active && copy_left > 0; }
  bool takes_mask() const { return active && mask_left > 0; }
  // A zvc block's data follows its mask.
  bool takes_data() const {
#pragma HLS INLINE
    return active && data_left > 0 && (mode != kModeZvc || mask_left == 0);
  }

  void step(const Choice& choice, const Beat<L>& copy, const Beat<L>& mask, const Beat<L>& data,
            Span<L>& out, bool& valid) {
#pragma HLS INLINE
    out.last = false;
    if (!active) {
      begin(choice, out);
      valid = true;
      return;
    }
    const bool from_mask = mode == kModeZvc && takes_mask();
    const bool from_data = mode == kModeZvc && takes_data();
    const bool from_copy = mode == kModeRaw && takes_copy();
    valid = from_mask || from_data || from_copy;
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      out.w[i] = from_mask ? mask.w[i] : from_data ? data.w[i] : copy.w[i];
    }
    out.words = uint8_t(least(from_mask ? mask_left : from_data ? data_left : copy_left));
    const bool data_taken = takes_data(), mask_taken = takes_mask(), copy_taken = takes_copy();
    if (copy_taken) copy_left -= least(copy_left);
    if (mask_taken) mask_left -= least(mask_left);
    if (data_taken) data_left -= least(data_left);
    active = copy_left > 0 || mask_left > 0 || data_left > 0;
  }

 private:
  static uint32_t least(uint32_t words) { return words < L ? words : L; }
  void begin(const Choice& choice, Span<L>& out) {
#pragma HLS INLINE
    mode = choice.mode;
    copy_left = choice.copy_words;
    mask_left = choice.mask_words;
    data_left = choice.data_words;
    const uint32_t length = mode == kModeZvc   ? mask_left + data_left
                            : mode == kModeRaw ? copy_left
                                               : 0;
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      out.w[i] = i == 0 ? block_word(Mode(mode), length) : 0;
    }
    out.words = 1;
    out.last = ended = choice.last;
    active = !choice.last;
  }
};

template <int L>
void join(Stream<Choice, 2>& choice, BlockStream<L>& copy, PlaneStream<L>& mask,
          BlockStream<L>& data, Stream<Span<L>, kShallow>& out) {
  Join<L> state;
  while (!state.ended) {
#pragma HLS PIPELINE II = 1
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    cycle();
    Choice the_choice = {};
    Beat<L> copy_beat = {}, mask_beat = {}, data_beat = {};
    if (state.takes_choice()) the_choice = choice.read();
    if (state.takes_copy()) copy_beat = copy.read();
    if (state.takes_mask()) mask_beat = mask.read();
    if (state.takes_data()) data_beat = data.read();
    Span<L> span;
    bool valid;
    state.step(the_choice, copy_beat, mask_beat, data_beat, span, valid);
    if (valid) out.write(span);
  }
}

// Packs spans of words into full beats and pads the payload to 64 bytes.
template <int L>
struct Squeeze {
  uint32_t hold[L] = {};
  uint32_t fill = 0;
  uint32_t words = 0;  // of payload so far
  uint32_t beats = 0;  // written so far, modulo 64 bytes
  bool ending = false;

  bool takes() const { return !ending; }
  bool done() const { return ending && fill == 0 && beats == 0; }

  void step(const Span<L>& in, Beat<L>& out, bool& valid) {
#pragma HLS INLINE
    const uint32_t taken = ending || in.last ? 0 : in.words;
    uint32_t low[L], high[L];
#pragma HLS ARRAY_PARTITION variable = low type = complete
#pragma HLS ARRAY_PARTITION variable = high type = complete
    append<uint32_t, L>(hold, fill, in.w, low, high);
    const uint32_t total = fill + taken;
    valid = total >= L || ending;
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      out.w[i] = uint32_t(i) < total ? low[i] : 0;
      hold[i] = total >= L ? high[i] : low[i];
    }
    out.last = false;
    fill = total >= L ? total - L : ending ? 0 : total;
    words += taken;
    if (valid) beats = (beats + 1) % (kAlignWords / L);
    if (!ending) ending = in.last;
  }
};

template <int L>
void squeeze(Stream<Span<L>, kShallow>& in, BeatStream<L>& out, Stream<Verdict, 2>& verdict) {
  Squeeze<L> state;
#pragma HLS ARRAY_PARTITION variable = state.hold type = complete
  while (!state.done()) {
#pragma HLS PIPELINE II = 1
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    cycle();
    Span<L> span = {};
    if (state.takes()) span = in.read();
    Beat<L> beat;
    bool valid;
    state.step(span, beat, valid);
    if (valid) out.write(beat);
  }
  out.write(end_beat<L>());
  verdict.write(Verdict{kGood, state.words});
}

}  // namespace actdma
