// The block engine, compressing. Full beats are compacted and packed into planes before the block
// FIFOs, the raw copy waits beside them, and the mode is chosen when the block has passed:
//
//   raw beats -> compact -> pack -> mask plane, data plane -----------------+-> join -> squeeze
//                  |          +---> gather_groups, make_records, pack_records +
//                  |          +---> tag_masks --------------------------------+
//                  |          '---> passed -> choose -------------------------+
//                  '--------------- raw copy ---------------------------------'
#pragma once

#include "axis.hpp"
#include "finish.hpp"
#include "frame.hpp"
#include "group.hpp"
#include "ingest.hpp"
#include "rle.hpp"
#include "zvc.hpp"

namespace actdma {

// A beat with its kept elements in front.
template <int L>
struct PackedBeat {
  uint32_t w[L];
  uint64_t mask;  // a bit per element
  uint8_t bytes;  // of kept elements
  Format format;
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
    packed.mask = compact<L>(beat.w, beat.format.element, packed.w);
    packed.bytes = uint8_t(count_bits(packed.mask) << beat.format.element);
    packed.format = beat.format;
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

// What lies in the FIFOs for a block.
struct Passed {
  uint32_t codec;
  uint32_t copy_words;
  uint32_t mask_words;
  uint32_t data_words;
  bool dense;
  bool last;
};

// Packs mask bits and kept elements into full beats.
template <int L>
struct Pack {
  uint32_t hold[L] = {};       // kept bytes that do not fill a beat yet
  uint32_t fill = 0;           // how many
  uint32_t mask_hold[L] = {};  // mask bits likewise
  uint32_t mask_bits = 0;
  uint32_t beats = 0;  // of the block so far
  uint32_t bytes = 0;  // kept in the block so far
  Format format = {kCodecRaw, 0, 0};
  bool flushing = false;

  bool takes() const { return !flushing; }

  // `kept` repeats the data where the codec has records; its bytes may be 0 at the block's end.
  void step(const PackedBeat<L>& in, KeptBeat<L>& kept, bool& kept_valid, bool& data_valid,
            Beat<L>& mask, bool& mask_valid, Passed& passed, bool& passed_valid) {
#pragma HLS INLINE
    data_valid = mask_valid = passed_valid = false;
    mask.last = kept.last = false;
    if (flushing) {
      copy_out(hold, kept.w);
      kept.bytes = uint8_t(fill);
      kept.block_end = data_valid = true;
      fill = 0;
      flushing = false;
    } else if (in.last) {
      passed.last = passed_valid = true;
      kept.block_end = kept.last = true;
    } else {
      format = in.format;
      pack_data(in, kept, data_valid);
      pack_mask(in, mask, mask_valid);
      beats++;
      bytes += in.bytes;
      passed_valid = in.block_end;
      if (in.block_end) pass(passed);
    }
    kept.format = format;
    kept_valid =
        (record_mode(format.codec) != kModeRaw && (data_valid || kept.block_end)) || kept.last;
  }

 private:
  static void copy_out(const uint32_t from[L], uint32_t to[L]) {
#pragma HLS INLINE
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      to[i] = from[i];
    }
  }
  void pack_data(const PackedBeat<L>& in, KeptBeat<L>& kept, bool& valid) {
#pragma HLS INLINE
    uint32_t low[L], high[L];
#pragma HLS ARRAY_PARTITION variable = low type = complete
#pragma HLS ARRAY_PARTITION variable = high type = complete
    append<uint8_t, L>(hold, fill, in.w, low, high);
    const uint32_t total = fill + in.bytes;
    const bool full = total >= 4 * L;
    valid = full || (in.block_end && total > 0);
    copy_out(low, kept.w);
    kept.bytes = uint8_t(full ? 4 * L : total);
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      hold[i] = full ? high[i] : low[i];
    }
    fill = full ? total - 4 * L : total;
    if (in.block_end && !full) fill = 0;
    flushing = in.block_end && fill > 0;
    kept.block_end = in.block_end && !flushing;
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
    mask_bits += 4 * L >> in.format.element;
    valid = mask_bits == 32 * L || in.block_end;
    copy_out(mask_hold, mask.w);
    if (valid) mask_bits = 0;
  }
  void pass(Passed& passed) {
#pragma HLS INLINE
    passed.codec = format.codec;
    passed.copy_words = beats * L;
    passed.mask_words = mask_words(beats * L, format.element);
    passed.data_words = (bytes + 3) / 4;
    passed.dense = bytes == beats * 4 * L;
    passed.last = false;
    beats = bytes = 0;
  }
};

template <int L>
void pack(Stream<PackedBeat<L>, kShallow>& in, PlaneStream<L>& mask, BlockStream<L>& data,
          Stream<KeptBeat<L>, kShallow>& kept, Stream<MaskBeat<L>, kShallow>& masks,
          Stream<Passed, 2>& passed) {
  Pack<L> state;
#pragma HLS ARRAY_PARTITION variable = state.hold type = complete
#pragma HLS ARRAY_PARTITION variable = state.mask_hold type = complete
  for (bool done = false; !done;) {
#pragma HLS PIPELINE II = 1
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    cycle();
    PackedBeat<L> beat = {};
    if (state.takes()) beat = in.read();
    KeptBeat<L> kept_beat = {};
    Beat<L> mask_beat = {};
    Passed block = {};
    bool kept_valid, data_valid, mask_valid, passed_valid;
    state.step(beat, kept_beat, kept_valid, data_valid, mask_beat, mask_valid, block, passed_valid);
    if (kept_valid) kept.write(kept_beat);
    if (data_valid) {
      Beat<L> data_beat;
      for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
        data_beat.w[i] = kept_beat.w[i];
      }
      data_beat.last = false;
      data.write(data_beat);
    }
    if (mask_valid) mask.write(mask_beat);
    if ((mask_valid && state.format.codec == kCodecRle) || kept_beat.last) {
      MaskBeat<L> copy;
      for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
        copy.w[i] = mask_beat.w[i];
      }
      copy.block_end = beat.block_end;
      copy.last = kept_beat.last;
      masks.write(copy);
    }
    if (passed_valid) passed.write(block);
    done = kept_beat.last;
  }
}

// A beat of which the first `words` count.
template <int L>
struct Span {
  uint32_t w[L];
  uint8_t words;
  bool last;
};

// The planes that wait for a block, in the order in which a mode that uses them stores them.
enum Plane : int {
  kTagPlane,
  kLiteralPlane,
  kMaskPlane,
  kHeaderPlane,
  kRecordPlane,
  kDataPlane,
  kCopyPlane,
  kPlanes
};

// What becomes of a block, plane by plane.
struct Choice {
  uint32_t w0;
  uint16_t words[kPlanes];  // in the FIFOs
  bool used[kPlanes];
  bool last;
};

// Chooses the mode. `sizes` and `literals` count where the codec has records or tags.
inline Choice choose_mode(const Passed& block, const RecordSizes& sizes, uint32_t literals) {
#pragma HLS INLINE
  const bool has_records = record_mode(block.codec) != kModeRaw;
  const bool has_tags = block.codec == kCodecRle;
  Choice out;
  out.words[kTagPlane] = has_tags ? tag_words(block.mask_words) : 0;
  out.words[kLiteralPlane] = has_tags ? literals : 0;
  out.words[kMaskPlane] = block.mask_words;
  out.words[kHeaderPlane] = has_records ? header_words(sizes.groups) : 0;
  out.words[kRecordPlane] = has_records ? sizes.words : 0;
  out.words[kDataPlane] = block.data_words;
  out.words[kCopyPlane] = block.copy_words;
  const uint32_t zvc = out.words[kMaskPlane] + out.words[kDataPlane];
  const uint32_t records =
      (block.dense ? 0 : out.words[kMaskPlane]) + out.words[kHeaderPlane] + out.words[kRecordPlane];
  const uint32_t rle = out.words[kTagPlane] + out.words[kLiteralPlane] + out.words[kDataPlane];
  Mode mode = kModeRaw;
  uint32_t length = block.copy_words, extra = 0;
  if (block.codec != kCodecRaw && zvc < length) mode = kModeZvc, length = zvc;
  if (has_records && records < length) {
    mode = record_mode(block.codec);
    length = records;
    extra = record_extra(sizes.groups, block.dense);
  }
  if (has_tags && literals <= kMaxLiterals && rle < length) {
    mode = kModeRle;
    length = rle;
    extra = literals;
  }
  if (block.codec != kCodecRaw && block.data_words == 0) mode = kModeZero, length = extra = 0;
  const bool recorded = mode == kModeZve || mode == kModeInts;
  out.used[kTagPlane] = out.used[kLiteralPlane] = mode == kModeRle;
  out.used[kMaskPlane] = mode == kModeZvc || (recorded && !block.dense);
  out.used[kHeaderPlane] = out.used[kRecordPlane] = recorded;
  out.used[kDataPlane] = mode == kModeZvc || mode == kModeRle;
  out.used[kCopyPlane] = mode == kModeRaw;
  out.w0 = block_word(mode, length, extra);
  out.last = block.last;
  return out;
}

// A process of its own: nothing in it recurs, so its sums and comparisons pipeline, which in join
// they could not.
inline void choose(Stream<Passed, 2>& passed, Stream<RecordSizes, 2>& sizes,
                   Stream<uint32_t, 2>& literals, Stream<Choice, 2>& out) {
  for (bool done = false; !done;) {
#pragma HLS PIPELINE II = 1
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    cycle();
    const Passed block = passed.read();
    RecordSizes the_sizes = {};
    uint32_t count = 0;
    if (!block.last && record_mode(block.codec) != kModeRaw) the_sizes = sizes.read();
    if (!block.last && block.codec == kCodecRle) count = literals.read();
    out.write(choose_mode(block, the_sizes, count));
    done = block.last;
  }
}

// Joins W0 and the planes that are used; what is not used drains in the same cycles.
template <int L>
struct Join {
  bool active = false;
  bool ended = false;
  uint16_t left[kPlanes] = {};  // words still in the FIFOs
  bool used[kPlanes] = {};
  int turn = kPlanes;  // the first plane used that has words left

  bool takes_block() const { return !active; }
  bool takes(int plane) const { return left[plane] > 0 && (plane == turn || !used[plane]); }

  // `beat` is that of the plane whose turn it is.
  void step(const Choice& block, const Beat<L>& beat, Span<L>& out, bool& valid) {
#pragma HLS INLINE
    out.last = false;
    valid = !active || turn != kPlanes;
    if (!active) {
      begin(block, out);
    } else {
      for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
        out.w[i] = beat.w[i];
      }
      take(out);
    }
    active = false;
    turn = kPlanes;
    for (int p = kPlanes - 1; p >= 0; p--) {
#pragma HLS UNROLL
      if (left[p] > 0) active = true;
      if (left[p] > 0 && used[p]) turn = p;
    }
  }

 private:
  void take(Span<L>& out) {
#pragma HLS INLINE
    for (int p = 0; p < kPlanes; p++) {
#pragma HLS UNROLL
      const bool more = left[p] > L;
      if (p == turn) out.words = uint8_t(more ? L : left[p]);
      if (takes(p)) left[p] = more ? left[p] - L : 0;
    }
  }
  void begin(const Choice& block, Span<L>& out) {
#pragma HLS INLINE
    for (int p = 0; p < kPlanes; p++) {
#pragma HLS UNROLL
      left[p] = block.words[p];
      used[p] = block.used[p];
    }
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      out.w[i] = i == 0 ? block.w0 : 0;
    }
    out.words = 1;
    out.last = ended = block.last;
  }
};

// One beat of a plane, if the join takes it; `beat` gets it if it is the plane's turn.
template <int L, class Plane>
void take_plane(const Join<L>& state, int plane, Plane& in, Beat<L>& beat) {
#pragma HLS INLINE
  if (!state.takes(plane)) return;
  const Beat<L> taken = in.read();
  if (state.turn == plane) beat = taken;
}

template <int L>
void join(Stream<Choice, 2>& choices, TagStream<L>& tags, PlaneStream<L>& literal,
          PlaneStream<L>& mask, HeaderStream<L>& header, BlockStream<L>& record,
          BlockStream<L>& data, BlockStream<L>& copy, Stream<Span<L>, kShallow>& out) {
  Join<L> state;
#pragma HLS ARRAY_PARTITION variable = state.left type = complete
#pragma HLS ARRAY_PARTITION variable = state.used type = complete
  while (!state.ended) {
#pragma HLS PIPELINE II = 1
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    cycle();
    Choice block = {};
    Beat<L> beat = {};
    if (state.takes_block()) block = choices.read();
    take_plane(state, kTagPlane, tags, beat);
    take_plane(state, kLiteralPlane, literal, beat);
    take_plane(state, kMaskPlane, mask, beat);
    take_plane(state, kHeaderPlane, header, beat);
    take_plane(state, kRecordPlane, record, beat);
    take_plane(state, kDataPlane, data, beat);
    take_plane(state, kCopyPlane, copy, beat);
    Span<L> span;
    bool valid;
    state.step(block, beat, span, valid);
    if (valid) out.write(span);
  }
}

// Packs spans of words into full beats and pads the payload to 64 bytes.
template <int L>
struct Squeeze {
  WordPacker<L> packer;
  uint32_t words = 0;  // of payload so far
  uint32_t beats = 0;  // written so far, modulo 64 bytes
  bool ending = false;

  bool takes() const { return !ending; }
  bool done() const { return ending && packer.fill == 0 && beats == 0; }

  void step(const Span<L>& in, Beat<L>& out, bool& valid) {
#pragma HLS INLINE
    out.last = false;
    if (ending) {
      packer.flush(out.w);
      valid = true;
    } else {
      const uint32_t taken = in.last ? 0 : in.words;
      valid = packer.add(in.w, taken, out.w);
      words += taken;
      ending = in.last;
    }
    if (valid) beats = (beats + 1) % (kAlignWords / L);
  }
};

template <int L>
void squeeze(Stream<Span<L>, kShallow>& in, BeatStream<L>& out, Stream<Verdict, 2>& verdict) {
  Squeeze<L> state;
#pragma HLS ARRAY_PARTITION variable = state.packer.hold type = complete
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
