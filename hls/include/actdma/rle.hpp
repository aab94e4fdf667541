// Zero-value compression with the runs taken out of its mask (docs/format.md, tag plane): two bits
// per word of the mask plane, and the words that are neither all zeros nor all ones.
#pragma once

#include "axis.hpp"
#include "finish.hpp"
#include "frame.hpp"
#include "shift.hpp"
#include "zvc.hpp"

namespace actdma {

enum Tag : uint32_t { kTagZeros = 0, kTagOnes = 1, kTagLiteral = 2 };

// Tag planes have 16 words at most, literal planes fewer than 256; two fit.
template <int L>
using TagStream = Stream<Beat<L>, 32 / L + 2>;

// A beat of a mask plane.
template <int L>
struct MaskBeat {
  uint32_t w[L];
  bool block_end;
  bool last;
};

// Turns mask planes into tag and literal planes, each flushed at the block's end.
template <int L>
struct TagMasks {
  WordPacker<L> literals;
  uint32_t tag_hold[L] = {};
  uint32_t tag_beats = 0;  // beats of the mask plane in `tag_hold`
  uint32_t count = 0;      // literals of the block so far
  bool flushing = false;
  bool ended = false;

  bool takes() const { return !flushing; }

  void step(const MaskBeat<L>& in, Beat<L>& tags, bool& tags_valid, Beat<L>& literal,
            bool& literal_valid, uint32_t& the_count, bool& count_valid) {
#pragma HLS INLINE
    tags_valid = literal_valid = count_valid = false;
    tags.last = literal.last = false;
    if (flushing) {
      literals.flush(literal.w);
      literal_valid = true;
      flushing = false;
      return;
    }
    ended = in.last;
    if (in.last) return;
    uint32_t words[L], packed[L];
#pragma HLS ARRAY_PARTITION variable = words type = complete
#pragma HLS ARRAY_PARTITION variable = packed type = complete
    uint32_t tag_bits = 0;
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      const bool zeros = in.w[i] == 0, ones = in.w[i] == ~0u;
      const uint32_t tag = zeros ? kTagZeros : ones ? kTagOnes : kTagLiteral;
      tag_bits |= tag << 2 * i;
      words[i] = ones ? 0 : in.w[i];
    }
    const uint32_t taken = count_bits(compact<L>(words, 2, packed));
    literal_valid = literals.add(packed, taken, literal.w);
    count += taken;
    put_tags(tag_bits);
    tags_valid = tag_beats == 16 || in.block_end;
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      tags.w[i] = tag_hold[i];
      if (tags_valid) tag_hold[i] = 0;
    }
    if (tags_valid) tag_beats = 0;
    if (in.block_end) {
      the_count = count;
      count_valid = true;
      count = 0;
      flushing = literals.fill > 0;
    }
  }

 private:
  // 2 L bits; 16 beats fill one of the tag plane.
  void put_tags(uint32_t bits) {
#pragma HLS INLINE
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      const int32_t shift = int32_t(tag_beats * 2 * L) - 32 * i;
      if (shift >= 0 && shift < 32) tag_hold[i] |= bits << shift;
    }
    tag_beats++;
  }
};

template <int L>
void tag_masks(Stream<MaskBeat<L>, kShallow>& in, TagStream<L>& tags, PlaneStream<L>& literals,
               Stream<uint32_t, 2>& counts) {
  TagMasks<L> state;
#pragma HLS ARRAY_PARTITION variable = state.literals.hold type = complete
#pragma HLS ARRAY_PARTITION variable = state.tag_hold type = complete
  while (!state.ended) {
#pragma HLS PIPELINE II = 1 style = flp
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    cycle();
    MaskBeat<L> beat = {};
    if (state.takes()) beat = in.read();
    Beat<L> tag_beat, literal_beat;
    uint32_t count;
    bool tags_valid, literal_valid, count_valid;
    state.step(beat, tag_beat, tags_valid, literal_beat, literal_valid, count, count_valid);
    if (tags_valid) tags.write(tag_beat);
    if (literal_valid) literals.write(literal_beat);
    if (count_valid) counts.write(count);
  }
}

// A block whose mask is in tags; ends like every stream in a token of its own.
struct TagPlan {
  uint16_t mask_words;
  uint16_t literal_words;
  bool last;
};

// Makes mask planes of tag and literal planes again.
template <int L>
struct UntagMasks {
  TagPlan plan = {};
  uint32_t left = 0;           // words of the mask plane still to come
  uint32_t tags[L] = {};       // not yet used
  uint32_t tag_beats = 0;      // beats of the mask plane that they are enough for
  uint32_t hold[L] = {};       // literals
  uint32_t pos = L;            // words of it that are used up
  uint32_t literals_left = 0;  // not yet read
  uint32_t used = 0;
  bool draining = false;  // only where tags and literals disagree
  Agreement agreement = {};

  bool takes_plan() const { return left == 0 && !draining; }
  bool takes_tags() const { return left > 0 && tag_beats == 0; }
  // `fresh`: the beat of tags where one is taken.
  bool takes_literals(const Beat<L>& fresh) const {
#pragma HLS INLINE
    if (draining) return true;
    return left > 0 && literals_left > 0 &&
           count_literals(takes_tags() ? fresh.w[0] : tags[0]) > L - pos;
  }

  // `valid`: a beat is written. The end token's plan ends the process.
  void step(const TagPlan& the_plan, const Beat<L>& fresh, const Beat<L>& literal, Beat<L>& out,
            bool& valid) {
#pragma HLS INLINE
    valid = left > 0;
    out.last = false;
    const bool took = takes_literals(fresh);
    if (took) literals_left -= literals_left < L ? literals_left : L;
    if (draining) {
      draining = literals_left > 0;
      return;
    }
    if (left == 0) {
      begin(the_plan);
      return;
    }
    if (takes_tags()) {
      for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
        tags[i] = fresh.w[i];
      }
      tag_beats = 16;
    }
    restore(literal, took, out);
    left -= left < L ? left : L;
    if (left == 0) end_block();
  }

 private:
  static uint32_t count_literals(uint32_t bits) {
#pragma HLS INLINE
    uint64_t literal = 0;
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      literal |= uint64_t((bits >> 2 * i & 3) == kTagLiteral) << i;
    }
    return count_bits(literal);
  }
  void begin(const TagPlan& the_plan) {
#pragma HLS INLINE
    plan = the_plan;
    if (plan.last) return;
    agreement.earlier_bad = agreement.earlier_bad || agreement.latest_bad;
    agreement.latest_bad = false;
    left = plan.mask_words;
    literals_left = plan.literal_words;
    tag_beats = used = 0;
    pos = L;
  }
  void restore(const Beat<L>& literal, bool took, Beat<L>& out) {
#pragma HLS INLINE
    uint64_t places = 0;
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      const uint32_t tag = tags[0] >> 2 * i & 3;
      places |= uint64_t(tag == kTagLiteral) << i;
      if (tag == 3 || (tag && uint32_t(i) >= left)) agreement.latest_bad = true;
    }
    uint32_t window[L];
#pragma HLS ARRAY_PARTITION variable = window type = complete
    funnel<uint32_t, L>(hold, literal.w, pos, window);
    scatter<L>(window, places, 2, out.w);
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      if (took) hold[i] = literal.w[i];
      if ((tags[0] >> 2 * i & 3) == kTagOnes) out.w[i] = ~0u;
    }
    const uint32_t count = count_bits(places), after = pos + count;
    pos = took ? after - L : after > L ? L : after;
    used += count;
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      const uint32_t next = i + 1 < L ? tags[i + 1 < L ? i + 1 : i] : 0;
      tags[i] = 2 * L == 32 ? next : tags[i] >> 2 * L % 32 | next << (32 - 2 * L) % 32;
    }
    tag_beats--;
  }
  void end_block() {
#pragma HLS INLINE
    uint32_t unused = 0;
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      unused |= tags[i];
    }
    if (unused || used != plan.literal_words) agreement.latest_bad = true;
    draining = literals_left > 0;
  }
};

template <int L>
void untag_masks(Stream<TagPlan, 4>& plan, TagStream<L>& tags, PlaneStream<L>& literals,
                 BeatStream<L>& out, Stream<Agreement, 2>& agreement) {
  UntagMasks<L> state;
#pragma HLS ARRAY_PARTITION variable = state.tags type = complete
#pragma HLS ARRAY_PARTITION variable = state.hold type = complete
  while (!state.plan.last) {
#pragma HLS PIPELINE II = 1 style = flp
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    cycle();
    TagPlan the_plan = {};
    Beat<L> tag_beat = {}, literal_beat = {};
    if (state.takes_plan()) the_plan = plan.read();
    if (state.takes_tags()) tag_beat = tags.read();
    if (state.takes_literals(tag_beat)) literal_beat = literals.read();
    Beat<L> mask;
    bool valid;
    state.step(the_plan, tag_beat, literal_beat, mask, valid);
    if (valid) out.write(mask);
  }
  agreement.write(state.agreement);
}

}  // namespace actdma
