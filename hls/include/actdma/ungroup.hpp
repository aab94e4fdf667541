// Decompressing, the way from the planes of zve and ints back to packed elements:
//
//   plan, header plane -> headers -> fetch -> restore -> beats of elements
//                                      |
//   record plane ----------------------'
//
// A record's length follows from its header, so nothing waits for the data's content.
#pragma once

#include "axis.hpp"
#include "finish.hpp"
#include "group.hpp"
#include "ints.hpp"
#include "records.hpp"
#include "shift.hpp"
#include "zve.hpp"

namespace actdma {

// A block with records, for the processes here; ends like every stream in a token of its own.
struct RecordPlan {
  Format format;
  uint16_t groups;
  uint16_t words;  // of the record plane
  bool last;
};

// A group's header with what follows from it.
struct Header12 {
  Format format;
  uint16_t bits;
  uint8_t words;         // of the record
  uint16_t plane_words;  // of the block's record plane
  bool good;
  bool block_begin;
  bool block_end;
  bool last;
};

// Cuts header planes into headers.
template <int L>
struct Headers {
  RecordPlan plan = {};
  uint32_t left = 0;  // groups of the block still to come
  uint32_t hold[L + 1] = {};
  uint32_t bits = 0;  // in `hold`

  bool takes_plan() const { return left == 0; }
  bool takes_beat() const { return left > 0 && bits < kHeaderBits; }

  // `valid`: a header is written. The end token's plan ends the process.
  void step(const RecordPlan& the_plan, const Beat<L>& beat, Header12& out, bool& valid) {
#pragma HLS INLINE
    valid = left > 0;
    if (left == 0) {
      plan = the_plan;
      left = plan.last ? 0 : plan.groups;
      bits = 0;
      return;
    }
    if (takes_beat()) refill(beat);
    out.format = plan.format;
    out.bits = uint16_t(hold[0] & 0xFFF);
    const bool zve = plan.format.codec == kCodecZve;
    out.good = zve ? zve_header_ok(out.bits, plan.format) : ints_header_ok(out.bits, plan.format);
    const uint32_t words =
        zve ? zve_record_words(out.bits, plan.format) : ints_record_words(out.bits, plan.format);
    out.words = uint8_t(out.good ? words : 0);
    out.plane_words = plan.words;
    out.block_begin = left == plan.groups;
    out.block_end = left == 1;
    out.last = false;
    for (int i = 0; i <= L; i++) {
#pragma HLS UNROLL
      const uint32_t next = i < L ? hold[i < L ? i + 1 : i] : 0;
      hold[i] = hold[i] >> kHeaderBits | next << (32 - kHeaderBits);
    }
    bits -= kHeaderBits;
    left--;
  }

 private:
  // Bits left over are 0, 4 or 8.
  void refill(const Beat<L>& beat) {
#pragma HLS INLINE
    const uint32_t kept = bits == 0 ? 0 : hold[0] & ((1u << bits) - 1);
    for (int i = 0; i <= L; i++) {
#pragma HLS UNROLL
      const uint32_t word = i < L ? beat.w[i < L ? i : 0] : 0;
      const uint32_t before = i > 0 ? beat.w[i > 0 ? i - 1 : 0] : 0;
      const uint32_t moved = bits == 8   ? word << 8 | before >> 24
                             : bits == 4 ? word << 4 | before >> 28
                                         : word;
      hold[i] = i == 0 ? moved | kept : moved;
    }
    bits += 32 * L;
  }
};

template <int L>
void headers(Stream<RecordPlan, 4>& plan, HeaderStream<L>& in, Stream<Header12, 4>& out) {
  Headers<L> state;
#pragma HLS ARRAY_PARTITION variable = state.hold type = complete
  while (!state.plan.last) {
#pragma HLS PIPELINE II = 1 style = flp
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    cycle();
    RecordPlan the_plan = {};
    Beat<L> beat = {};
    if (state.takes_plan()) the_plan = plan.read();
    if (state.takes_beat()) beat = in.read();
    Header12 header;
    bool valid;
    state.step(the_plan, beat, header, valid);
    if (valid) out.write(header);
  }
  Header12 end = {};
  end.last = true;
  out.write(end);
}

// Fetches each group's record from the record plane, L words in a cycle.
template <int L>
struct Fetch {
  Header12 header = {};
  uint32_t left = 0;   // words of the record still to come
  uint32_t chunk = 0;  // beats of it that are there
  uint32_t w[kGroupWords] = {};
  uint32_t hold[L] = {};
  uint32_t pos = L;         // words of `hold` that are used up
  uint32_t plane_left = 0;  // words of the plane not yet read
  uint32_t used = 0;        // words of the plane that records took
  bool draining = false;    // only where the records end before their plane
  Agreement agreement = {};

  bool takes_header() const { return left == 0 && !draining; }
  bool takes_beat(const Header12& next) const {
#pragma HLS INLINE
    if (draining) return true;
    const bool begins = left == 0 && next.block_begin;
    const uint32_t words = left == 0 ? next.words : left;
    const uint32_t have = begins ? 0 : L - pos;
    return (words < L ? words : L) > have && (begins ? next.plane_words : plane_left) > 0;
  }

  void step(const Header12& next, const Beat<L>& beat, Record& out, bool& valid) {
#pragma HLS INLINE
    valid = false;
    const bool took = takes_beat(next);
    if (draining) {
      read(took);
      draining = plane_left > 0;
      return;
    }
    if (left == 0) begin(next);
    const uint32_t count = left < L ? left : L;
    uint32_t window[L];
#pragma HLS ARRAY_PARTITION variable = window type = complete
    funnel<uint32_t, L>(hold, beat.w, pos, window);
    for (int i = 0; i < kGroupWords; i++) {
#pragma HLS UNROLL
      if (chunk == uint32_t(i / L)) w[i] = uint32_t(i % L) < count ? window[i % L] : 0;
      out.w[i] = w[i];
    }
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      if (took) hold[i] = beat.w[i];
    }
    const uint32_t after = pos + count;
    pos = took ? after - L : after > L ? L : after;
    read(took);
    used += count;
    left -= count;
    chunk++;
    valid = left == 0;
    out.header = header.bits;
    out.words = header.words;
    out.format = header.format;
    out.block_end = header.block_end;
    out.last = header.last;
    if (valid && header.block_end) end_block();
  }

 private:
  void begin(const Header12& next) {
#pragma HLS INLINE
    if (next.block_begin) {
      agreement.earlier_bad = agreement.earlier_bad || agreement.latest_bad;
      agreement.latest_bad = false;
      plane_left = next.plane_words;
      pos = L;
      used = 0;
    }
    if (!next.good && !next.last) agreement.latest_bad = true;
    header = next;
    left = next.words;
    chunk = 0;
    for (int i = 0; i < kGroupWords; i++) {
#pragma HLS UNROLL
      w[i] = 0;
    }
  }
  void read(bool took) {
#pragma HLS INLINE
    if (took) plane_left -= plane_left < L ? plane_left : L;
  }
  void end_block() {
#pragma HLS INLINE
    if (used != header.plane_words) agreement.latest_bad = true;
    draining = plane_left > 0;
  }
};

template <int L>
void fetch(Stream<Header12, 4>& headers, PlaneStream<L>& in, Stream<Record, 2>& out,
           Stream<Agreement, 2>& agreement) {
  Fetch<L> state;
#pragma HLS ARRAY_PARTITION variable = state.w type = complete
#pragma HLS ARRAY_PARTITION variable = state.hold type = complete
  while (!state.header.last) {
#pragma HLS PIPELINE II = 1 style = flp
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    cycle();
    Header12 header = {};
    Beat<L> beat = {};
    if (state.takes_header()) header = headers.read();
    if (state.takes_beat(header)) beat = in.read();
    Record record;
    bool valid;
    state.step(header, beat, record, valid);
    if (valid) out.write(record);
  }
  agreement.write(state.agreement);
}

inline void restore_group(const Record& record, Group& out) {
#pragma HLS INLINE
  if (record.format.codec == kCodecZve) {
    zve_restore(record, out.w);
  } else {
    ints_restore(record, out.w);
  }
  out.format = record.format;
  out.last = record.last;
}

inline void restore_groups(Stream<Record, 2>& in, Stream<Group, 2>& out) {
  for (bool done = false; !done;) {
#pragma HLS PIPELINE II = 1 style = flp
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    cycle();
    const Record record = in.read();
    Group group = {};
    restore_group(record, group);
    out.write(group);
    done = record.last;
  }
}

// Whole groups to beats.
template <int L>
struct GroupBeats {
  uint32_t rest[kGroupWords] = {};
  uint32_t left = 0;  // words
  bool ended = false;

  bool takes() const { return left == 0; }

  void step(const Group& in, Beat<L>& out, bool& valid) {
#pragma HLS INLINE
    for (int i = 0; i < kGroupWords; i++) {
#pragma HLS UNROLL
      if (left == 0) rest[i] = in.w[i];
    }
    if (left == 0) {
      left = group_words(in.format.element);
      ended = in.last;
    }
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      out.w[i] = rest[i];
    }
    out.last = false;
    valid = !ended;
    for (int i = 0; i < kGroupWords; i++) {
#pragma HLS UNROLL
      rest[i] = i + L < kGroupWords ? rest[i + L < kGroupWords ? i + L : i] : 0;
    }
    left -= L;
  }
};

template <int L>
void group_beats(Stream<Group, 2>& in, BeatStream<L>& out) {
  GroupBeats<L> state;
#pragma HLS ARRAY_PARTITION variable = state.rest type = complete
  while (!state.ended) {
#pragma HLS PIPELINE II = 1 style = flp
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    cycle();
    Group group = {};
    if (state.takes()) group = in.read();
    Beat<L> beat;
    bool valid;
    state.step(group, beat, valid);
    if (valid) out.write(beat);
  }
}

}  // namespace actdma
