// The block engine, decompressing. Lengths come from W0, so nothing waits for a popcount of data:
//
//   payload -> parse -+-> plan ------> spread -> moves -+-> place -> raw beats
//                     +-> mask plane ----'              |
//                     '-> data plane -------------------'
//
// A raw block is a block whose mask is all ones, a zero block one whose mask is all zeros.
#pragma once

#include "axis.hpp"
#include "finish.hpp"
#include "frame.hpp"
#include "ingest.hpp"
#include "zvc.hpp"

namespace actdma {

// What is to be done for one block; the end token carries the verdict.
struct Plan {
  uint32_t mode;
  uint32_t element;
  uint32_t block_words;
  uint32_t data_words;
  Verdict verdict;
  bool cut_off;  // the last block's planes were not all there
  bool last;
};

// Walks over the blocks. Hostile lengths end in a status; the planes promised by a plan always
// come.
template <int L>
struct Parse {
  enum Phase : uint8_t { kJob, kBlock, kMask, kData, kDrain, kEnd };
  Phase phase = kJob;
  Job job = {};
  uint32_t hold[L] = {};  // the beat read last
  uint32_t pos = L;       // words of it that are used up
  bool input_over = false;
  uint32_t raw_left = 0;    // words of raw data still to be planned
  uint32_t plane_left = 0;  // words of this plane still to come
  uint32_t data_words = 0;
  uint32_t beats = 0;  // read
  Verdict verdict = {kGood, 0};
  bool cut_off = false;

  bool takes_job() const { return phase == kJob; }
  bool takes() const {
#pragma HLS INLINE
    return !input_over && phase != kJob && phase != kEnd && (phase == kDrain || wanted() > L - pos);
  }

  void step(const Job& the_job, const Beat<L>& in, Plan& plan, bool& plan_valid, Beat<L>& plane,
            bool& mask_valid, bool& data_valid) {
#pragma HLS INLINE
    plan_valid = mask_valid = data_valid = false;
    if (phase == kJob) {
      job = the_job;
      raw_left = job.refused ? 0 : job.raw_words;
      phase = raw_left > 0 ? kBlock : kDrain;
      return;
    }
    const bool took = takes();
    if (took && in.last) {
      input_over = true;
      return;
    }
    if (took) beats++;
    if (phase == kDrain) {
      if (input_over) end(plan, plan_valid);
      return;
    }
    const uint32_t count = wanted();
    const bool starved = !took && count > L - pos;
    uint32_t window[L];
#pragma HLS ARRAY_PARTITION variable = window complete
    funnel<uint32_t, L>(hold, in.w, pos, window);
    if (!starved) pos = took ? pos + count - L : pos + count;
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      if (took) hold[i] = in.w[i];
      plane.w[i] = uint32_t(i) < count && !starved ? window[i] : 0;
    }
    plane.last = false;
    if (starved) {
      verdict.status = kBadLength;
      cut_off = phase != kBlock;
    }
    if (phase == kBlock) {
      if (starved) {
        phase = kDrain;
      } else {
        begin(window[0], plan, plan_valid);
      }
      return;
    }
    mask_valid = phase == kMask;
    data_valid = phase == kData;
    plane_left -= count;
    if (plane_left == 0) next_plane();
  }

 private:
  // Words this cycle works on.
  uint32_t wanted() const { return phase == kBlock ? 1 : plane_left < L ? plane_left : L; }

  void begin(uint32_t w0, Plan& plan, bool& plan_valid) {
#pragma HLS INLINE
    const uint32_t n = raw_left < kBlockWords ? raw_left : kBlockWords;
    const uint32_t m = mask_words(n, job.element);
    const uint32_t mode = w0 & 0xF, length = w0 >> 16;
    if (!block_layout(job.codec, job.element, w0, n).good) {
      verdict.status = kBadBlock;
      phase = kDrain;
      return;
    }
    data_words = mode == kModeZvc ? length - m : length;
    plan.mode = mode;
    plan.element = job.element;
    plan.block_words = n;
    plan.data_words = data_words;
    plan.last = false;
    plan_valid = true;
    raw_left -= n;
    verdict.payload_words += 1 + length;
    plane_left = mode == kModeZvc ? m : length;
    phase = mode == kModeZvc ? kMask : mode == kModeRaw ? kData : raw_left > 0 ? kBlock : kDrain;
  }
  void next_plane() {
#pragma HLS INLINE
    if (phase == kMask) {
      phase = kData;
      plane_left = data_words;
    } else {
      phase = raw_left > 0 && verdict.status == kGood ? kBlock : kDrain;
    }
  }
  void end(Plan& plan, bool& plan_valid) {
#pragma HLS INLINE
    const uint32_t used = (verdict.payload_words + kAlignWords - 1) / kAlignWords * kAlignWords;
    if (verdict.status == kGood && !job.refused && beats * L != used) verdict.status = kBadLength;
    plan.verdict = verdict;
    plan.cut_off = cut_off;
    plan.last = plan_valid = true;
    phase = kEnd;
  }
};

// Planes need no end token: the plan tells how long they are.
template <int L>
void parse(Stream<Job, 2>& job, BeatStream<L>& in, Stream<Plan, 4>& plan, PlaneStream<L>& mask,
           PlaneStream<L>& data) {
  Parse<L> state;
#pragma HLS ARRAY_PARTITION variable = state.hold complete
  while (state.phase != Parse<L>::kEnd) {
#pragma HLS PIPELINE II = 1
    cycle();
    Job the_job = {};
    Beat<L> beat = {};
    if (state.takes_job()) the_job = job.read();
    if (state.takes()) beat = in.read();
    Plan the_plan = {};
    Beat<L> plane;
    bool plan_valid, mask_valid, data_valid;
    state.step(the_job, beat, the_plan, plan_valid, plane, mask_valid, data_valid);
    if (plan_valid) plan.write(the_plan);
    if (mask_valid) mask.write(plane);
    if (data_valid) data.write(plane);
  }
}

// What is to be done for one beat of raw data.
struct Move {
  uint64_t mask;  // a bit per element
  uint8_t bytes;  // of kept elements
  uint8_t element;
  uint16_t data_beats;  // of the whole block, on its first beat
  bool block_begin;
  bool block_end;
  bool last;
};

// Turns plans and mask planes into one move per beat; checks that masks and data planes agree.
template <int L>
struct Spread {
  Plan plan = {};
  uint32_t left = 0;       // beats of the block still to come
  uint32_t hold[L] = {};   // mask bits not yet used
  uint32_t bits_left = 0;  // how many
  uint32_t bytes = 0;      // kept in the block so far
  bool bad = false;        // a block before the latest disagreed
  bool latest_bad = false;

  bool takes_plan() const { return left == 0; }
  bool takes_mask() const { return left > 0 && plan.mode == kModeZvc && bits_left == 0; }

  // `valid`: a move is written. The end token's plan ends the process.
  void step(const Plan& the_plan, const Beat<L>& mask, Move& move, bool& valid) {
#pragma HLS INLINE
    valid = left > 0;
    if (left == 0) {
      plan = the_plan;
      if (plan.last) return;
      bad = bad || latest_bad;
      latest_bad = false;
      left = plan.block_words / L;
      bits_left = bytes = 0;
      return;
    }
    const bool fresh = takes_mask();
    const uint32_t bits = 4 * L >> plan.element;
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      if (fresh) hold[i] = mask.w[i];
    }
    if (fresh) bits_left = 32 * L;
    move.block_begin = plan.block_words == left * L;
    move.mask = plan.mode == kModeZvc ? take_bits(bits) : plan.mode == kModeRaw ? ones(bits) : 0;
    move.bytes = uint8_t(count_bits(move.mask) << plan.element);
    move.element = uint8_t(plan.element);
    move.data_beats = uint16_t((plan.data_words + L - 1) / L);
    left--;
    bytes += move.bytes;
    move.block_end = left == 0;
    move.last = false;
    if (left == 0) latest_bad = disagrees();
  }
  Verdict verdict() const {
#pragma HLS INLINE
    Verdict v = plan.verdict;
    if (bad || (latest_bad && !plan.cut_off)) v.status = kBadBlock;
    return v;
  }

 private:
  static uint64_t ones(uint32_t bits) { return bits == 64 ? ~0ull : (1ull << bits) - 1; }
  uint64_t take_bits(uint32_t bits) {
#pragma HLS INLINE
    uint64_t low = hold[0];
    if (L > 1) low |= uint64_t(hold[L > 1 ? 1 : 0]) << 32;
    low &= ones(bits);
    // Shift by one of three constants.
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      uint32_t shifted = 0;
      for (int e = 0; e < 3; e++) {
#pragma HLS UNROLL
        const int by = 4 * L >> e, words = by / 32, rest = by % 32;
        const uint32_t a = i + words < L ? hold[i + words < L ? i + words : i] : 0;
        const uint32_t b = i + words + 1 < L ? hold[i + words + 1 < L ? i + words + 1 : i] : 0;
        if (plan.element == uint32_t(e)) shifted = rest ? a >> rest | b << (32 - rest) % 32 : a;
      }
      hold[i] = shifted;
    }
    bits_left -= bits;
    return low;
  }
  bool disagrees() const {
#pragma HLS INLINE
    if (plan.mode != kModeZvc) return false;
    uint32_t unused = 0;
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      unused |= hold[i];
    }
    return unused != 0 || (bytes + 3) / 4 != plan.data_words;
  }
};

template <int L>
void spread(Stream<Plan, 4>& plan, PlaneStream<L>& mask, Stream<Move, kShallow>& out,
            Stream<Verdict, 2>& verdict) {
  Spread<L> state;
#pragma HLS ARRAY_PARTITION variable = state.hold complete
  while (!state.plan.last) {
#pragma HLS PIPELINE II = 1
    cycle();
    Plan the_plan = {};
    Beat<L> beat = {};
    if (state.takes_plan()) the_plan = plan.read();
    if (state.takes_mask()) beat = mask.read();
    Move move;
    bool valid;
    state.step(the_plan, beat, move, valid);
    if (valid) out.write(move);
  }
  Move end = {};
  end.last = true;
  out.write(end);
  verdict.write(state.verdict());
}

// Fetches each beat's kept bytes from the data plane and puts them in their places.
template <int L>
struct Place {
  uint32_t hold[L] = {};
  uint32_t pos = 4 * L;     // bytes of `hold` that are used up
  uint32_t beats_left = 0;  // of the block's data plane
  bool draining = false;    // only where mask and data plane disagreed
  bool ended = false;

  bool takes_move() const { return !draining; }
  bool takes_data(const Move& move) const {
#pragma HLS INLINE
    if (draining) return true;
    const uint32_t have = move.block_begin ? 0 : 4 * L - pos;
    return move.bytes > have && (move.block_begin ? move.data_beats : beats_left) > 0;
  }

  void step(const Move& move, const Beat<L>& data, Beat<L>& out, bool& valid) {
#pragma HLS INLINE
    if (draining) {
      valid = false;
      beats_left--;
      draining = beats_left > 0;
      return;
    }
    const bool took = takes_data(move);
    if (move.block_begin) {
      pos = 4 * L;
      beats_left = move.data_beats;
    }
    uint32_t window[L];
#pragma HLS ARRAY_PARTITION variable = window complete
    funnel<uint8_t, L>(hold, data.w, pos, window);
    scatter<L>(window, move.mask, move.element, out.w);
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      if (took) hold[i] = data.w[i];
    }
    const uint32_t next = pos + move.bytes;
    pos = took ? next - 4 * L : next > 4 * L ? 4 * L : next;
    if (took) beats_left--;
    ended = move.last;
    out.last = false;
    valid = !move.last;
    draining = move.block_end && beats_left > 0;
  }
};

template <int L>
void place(Stream<Move, kShallow>& moves, PlaneStream<L>& data, BeatStream<L>& out) {
  Place<L> state;
#pragma HLS ARRAY_PARTITION variable = state.hold complete
  while (!state.ended) {
#pragma HLS PIPELINE II = 1
    cycle();
    Move move = {};
    Beat<L> beat = {};
    if (state.takes_move()) move = moves.read();
    if (state.takes_data(move)) beat = data.read();
    Beat<L> raw;
    bool valid;
    state.step(move, beat, raw, valid);
    if (valid) out.write(raw);
  }
  out.write(end_beat<L>());
}

}  // namespace actdma
