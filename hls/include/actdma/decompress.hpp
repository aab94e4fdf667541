// The block engine, decompressing. Lengths come from W0, so nothing waits for a popcount of data:
//
//   payload -> parse -+-> plan ------> spread -> moves ------------+-> place -> raw beats
//                     +-> mask plane ----'                         |
//                     +-> tag plane, literal plane -> untag ... -> spread
//                     +-> data plane ------------------------------+
//                     '-> header plane, record plane -> ungroup ---'
//
// A raw block is a block whose mask is all ones, a zero block one whose mask is all zeros.
#pragma once

#include "axis.hpp"
#include "finish.hpp"
#include "frame.hpp"
#include "ingest.hpp"
#include "rle.hpp"
#include "ungroup.hpp"
#include "zvc.hpp"

namespace actdma {

// What is to be done for one block; the end token carries the verdict.
struct Plan {
  Mode mode;
  Format format;
  uint32_t block_words;
  bool masked;  // there is a mask, in a plane or in tags
  uint32_t data_words;
  uint32_t groups;  // 0 where the mode has no records
  Verdict verdict;
  bool cut_off;  // the last block's planes were not all there
  bool last;
};

// Walks over the blocks. Hostile lengths end in a status; the planes promised by a plan always
// come.
template <int L>
struct Parse {
  // A block's first word, its layout and its plan take a cycle each: how long the first plane is
  // decides what the next cycle reads.
  enum Phase : uint8_t {
    kJob,
    kBlock,
    kLayout,
    kPlan,
    kTag,
    kLiteral,
    kMask,
    kHeader,
    kData,
    kDrain,
    kEnd
  };
  Phase phase = kJob;
  Job job = {};
  uint32_t hold[L] = {};  // the beat read last
  uint8_t pos = L;        // words of it that are used up
  bool input_over = false;
  uint32_t raw_left = 0;    // words of raw data still to be planned
  uint16_t plane_left = 0;  // words of this plane still to come
  uint32_t first_word = 0;  // of this block
  Layout layout = {};       // of this block
  uint32_t beats = 0;       // read
  Verdict verdict = {kGood, 0};
  bool cut_off = false;

  bool takes_job() const { return phase == kJob; }
  bool takes() const {
#pragma HLS INLINE
    return !input_over && phase != kJob && phase != kEnd &&
           (phase == kDrain || wanted() > uint32_t(L - pos));
  }
  void step(const Job& the_job, const Beat<L>& in, Plan& plan, bool& plan_valid, Beat<L>& plane,
            Phase& plane_of) {
#pragma HLS INLINE
    plan_valid = false;
    plane_of = kEnd;
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
    if (phase == kLayout) {
      layout = block_layout(job.format.codec, job.format.element, first_word, block_words());
      phase = kPlan;
      return;
    }
    if (phase == kPlan) {
      begin(plan, plan_valid);
      return;
    }
    const uint32_t count = wanted();
    const bool starved = !took && count > uint32_t(L - pos);
    uint32_t window[L];
#pragma HLS ARRAY_PARTITION variable = window type = complete
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
      first_word = window[0];
      phase = starved ? kDrain : kLayout;
      return;
    }
    plane_of = phase;
    plane_left -= count;
    if (plane_left == 0) next(Phase(phase + 1));
  }

 private:
  // Words this cycle works on.
  uint32_t wanted() const {
#pragma HLS INLINE
    if (phase == kLayout || phase == kPlan) return 0;
    return phase == kBlock ? 1 : plane_left < L ? plane_left : L;
  }
  // Words of raw data of this block.
  uint32_t block_words() const { return raw_left < kBlockWords ? raw_left : kBlockWords; }

  void begin(Plan& plan, bool& plan_valid) {
#pragma HLS INLINE
    if (!layout.good) {
      verdict.status = kBadBlock;
      phase = kDrain;
      return;
    }
    plan.mode = layout.mode;
    plan.format = job.format;
    plan.block_words = block_words();
    plan.masked = layout.mask_words > 0 || layout.mode == kModeRle;
    plan.data_words = layout.data_words;
    plan.groups = layout.groups;
    plan.last = false;
    plan_valid = true;
    raw_left -= plan.block_words;
    verdict.payload_words += 1 + (first_word >> 16);
    next(kTag);
  }
  // The first plane from `plane` on that is there, else the next block.
  void next(Phase plane) {
#pragma HLS INLINE
    const uint32_t words[5] = {layout.tag_words, layout.literal_words, layout.mask_words,
                               layout.header_words, layout.data_words};
#pragma HLS ARRAY_PARTITION variable = words type = complete
    phase = raw_left > 0 && verdict.status == kGood ? kBlock : kDrain;
    for (int p = 4; p >= 0; p--) {
#pragma HLS UNROLL
      if (kTag + p >= plane && words[p] > 0) {
        phase = Phase(kTag + p);
        plane_left = words[p];
      }
    }
  }
  void end(Plan& plan, bool& plan_valid) {
#pragma HLS INLINE
    const uint32_t used = padded_words(verdict.payload_words);
    if (verdict.status == kGood && !job.refused && beats * L != used) verdict.status = kBadLength;
    plan.verdict = verdict;
    plan.cut_off = cut_off;
    plan.last = plan_valid = true;
    phase = kEnd;
  }
};

// Planes need no end token: the plan tells how long they are.
template <int L>
void parse(Stream<Job, 2>& job, BeatStream<L>& in, Stream<Plan, 4>& plan,
           Stream<TagPlan, 4>& tag_plan, Stream<RecordPlan, 4>& record_plan, TagStream<L>& tags,
           PlaneStream<L>& literals, PlaneStream<L>& mask, HeaderStream<L>& header,
           PlaneStream<L>& record, PlaneStream<L>& data) {
  using State = Parse<L>;
  State state;
#pragma HLS ARRAY_PARTITION variable = state.hold type = complete
  while (state.phase != State::kEnd) {
#pragma HLS PIPELINE II = 1 style = flp
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    cycle();
    Job the_job = {};
    Beat<L> beat = {};
    if (state.takes_job()) the_job = job.read();
    if (state.takes()) beat = in.read();
    Plan the_plan = {};
    Beat<L> plane;
    bool plan_valid;
    typename State::Phase plane_of;
    state.step(the_job, beat, the_plan, plan_valid, plane, plane_of);
    const Layout& layout = state.layout;
    if (plan_valid) plan.write(the_plan);
    if (plan_valid && (the_plan.mode == kModeRle || the_plan.last)) {
      const uint32_t words = mask_words(the_plan.block_words, the_plan.format.element);
      tag_plan.write(TagPlan{uint16_t(words), uint16_t(layout.literal_words), the_plan.last});
    }
    if (plan_valid && (the_plan.groups > 0 || the_plan.last)) {
      record_plan.write(RecordPlan{the_plan.format, uint16_t(the_plan.groups),
                                   uint16_t(the_plan.data_words), the_plan.last});
    }
    if (plane_of == State::kTag) tags.write(plane);
    if (plane_of == State::kLiteral) literals.write(plane);
    if (plane_of == State::kMask) mask.write(plane);
    if (plane_of == State::kHeader) header.write(plane);
    if (plane_of == State::kData && layout.groups > 0) record.write(plane);
    if (plane_of == State::kData && layout.groups == 0) data.write(plane);
  }
}

// What is to be done for one beat of raw data.
struct Move {
  uint64_t mask;  // a bit per element
  uint8_t bytes;  // of kept elements
  uint8_t element;
  uint16_t data_beats;  // of the whole block, on its first beat
  bool records;         // the data comes from records
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
  Mode latest = kModeRaw;  // of the latest block

  bool takes_plan() const { return left == 0; }
  bool takes_mask() const { return left > 0 && plan.masked && bits_left == 0; }
  bool from_tags() const { return plan.mode == kModeRle; }

  // `valid`: a move is written. The end token's plan ends the process.
  void step(const Plan& the_plan, const Beat<L>& mask, Move& move, bool& valid) {
#pragma HLS INLINE
    valid = left > 0;
    if (left == 0) {
      plan = the_plan;
      if (plan.last) return;
      bad = bad || latest_bad;
      latest_bad = false;
      latest = plan.mode;
      left = plan.block_words / L;
      bits_left = bytes = 0;
      return;
    }
    const bool fresh = takes_mask();
    const uint32_t bits = 4 * L >> plan.format.element;
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      if (fresh) hold[i] = mask.w[i];
    }
    if (fresh) bits_left = 32 * L;
    move.block_begin = plan.block_words == left * L;
    move.mask = plan.masked ? take_bits(bits) : plan.mode == kModeZero ? 0 : ones(bits);
    move.bytes = uint8_t(count_bits(move.mask) << plan.format.element);
    move.element = plan.format.element;
    move.records = plan.groups > 0;
    move.data_beats = uint16_t(move.records ? plan.groups * (group_words(plan.format.element) / L)
                                            : (plan.data_words + L - 1) / L);
    left--;
    bytes += move.bytes;
    move.block_end = left == 0;
    move.last = false;
    if (left == 0) latest_bad = disagrees();
  }
  // With what the processes beside this one found. A block that was cut off is not wrong as well.
  Verdict verdict(const Agreement& records, const Agreement& tags) const {
#pragma HLS INLINE
    const bool of_records = latest == kModeZve || latest == kModeInts;
    const bool wrong = bad || records.earlier_bad || tags.earlier_bad ||
                       (latest_bad && !plan.cut_off) ||
                       (records.latest_bad && !(plan.cut_off && of_records)) ||
                       (tags.latest_bad && !(plan.cut_off && latest == kModeRle));
    Verdict v = plan.verdict;
    if (wrong) v.status = kBadBlock;
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
        if (plan.format.element == uint32_t(e))
          shifted = rest ? a >> rest | b << (32 - rest) % 32 : a;
      }
      hold[i] = shifted;
    }
    bits_left -= bits;
    return low;
  }
  bool disagrees() const {
#pragma HLS INLINE
    const uint32_t elements = bytes >> plan.format.element;
    if (plan.groups > 0 && groups_of(elements, plan.format.element) != plan.groups) return true;
    if (!plan.masked) return false;
    uint32_t unused = 0;
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      unused |= hold[i];
    }
    return unused != 0 || (plan.groups == 0 && (bytes + 3) / 4 != plan.data_words);
  }
};

template <int L>
void spread(Stream<Plan, 4>& plan, PlaneStream<L>& mask, BeatStream<L>& untagged,
            Stream<Move, kShallow>& out, Stream<Agreement, 2>& records, Stream<Agreement, 2>& tags,
            Stream<Verdict, 2>& verdict) {
  Spread<L> state;
#pragma HLS ARRAY_PARTITION variable = state.hold type = complete
  while (!state.plan.last) {
#pragma HLS PIPELINE II = 1 style = flp
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    cycle();
    Plan the_plan = {};
    Beat<L> beat = {};
    if (state.takes_plan()) the_plan = plan.read();
    if (state.takes_mask()) beat = state.from_tags() ? untagged.read() : mask.read();
    Move move;
    bool valid;
    state.step(the_plan, beat, move, valid);
    if (valid) out.write(move);
  }
  Move end = {};
  end.last = true;
  out.write(end);
  verdict.write(state.verdict(records.read(), tags.read()));
}

// Fetches each beat's kept bytes from the data plane and puts them in their places.
template <int L>
struct Place {
  uint32_t hold[L] = {};
  uint32_t pos = 4 * L;     // bytes of `hold` that are used up
  uint32_t beats_left = 0;  // of the block's data plane
  bool draining = false;    // of what fills up the last group, or where planes disagreed
  bool records = false;     // the data comes from records
  bool ended = false;

  bool takes_move() const { return !draining; }
  bool from_records(const Move& move) const { return draining ? records : move.records; }
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
      records = move.records;
    }
    uint32_t window[L];
#pragma HLS ARRAY_PARTITION variable = window type = complete
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
void place(Stream<Move, kShallow>& moves, PlaneStream<L>& data, BeatStream<L>& restored,
           BeatStream<L>& out) {
  Place<L> state;
#pragma HLS ARRAY_PARTITION variable = state.hold type = complete
  while (!state.ended) {
#pragma HLS PIPELINE II = 1 style = flp
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    cycle();
    Move move = {};
    Beat<L> beat = {};
    if (state.takes_move()) move = moves.read();
    if (state.takes_data(move)) beat = state.from_records(move) ? restored.read() : data.read();
    Beat<L> raw;
    bool valid;
    state.step(move, beat, raw, valid);
    if (valid) out.write(raw);
  }
  out.write(end_beat<L>());
}

}  // namespace actdma
