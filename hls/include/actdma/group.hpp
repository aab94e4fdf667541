// Compressing, the way from packed elements to the planes of zve and ints:
//
//   kept beats -> gather_groups -> groups -> make_records -> records -> pack_records -+-> header
//   plane
//                                                                              +-> record plane
//                                                                              '-> sizes
#pragma once

#include "axis.hpp"
#include "ints.hpp"
#include "records.hpp"
#include "shift.hpp"
#include "zve.hpp"

namespace actdma {

// A beat of elements with a bit set, full but for the block's last, which may even be empty.
template <int L>
struct KeptBeat {
  uint32_t w[L];
  uint8_t bytes;
  Format format;
  bool block_end;
  bool last;
};

// Gathers beats into groups; the block's last group is what is left, possibly nothing.
template <int L>
struct GatherGroups {
  uint32_t w[kGroupWords] = {};
  uint32_t beats = 0;  // in the group so far

  void step(const KeptBeat<L>& in, Group& out, bool& valid) {
#pragma HLS INLINE
    for (int i = 0; i < kGroupWords; i++) {
#pragma HLS UNROLL
      if (beats == uint32_t(i / L)) w[i] = in.w[i % L];
      out.w[i] = w[i];
    }
    const bool full = (beats + 1) * L == group_words(in.format.element);
    out.count = uint8_t((beats * 4 * L + in.bytes) >> in.format.element);
    out.format = in.format;
    out.block_end = in.block_end;
    out.last = in.last;
    valid = full || in.block_end || in.last;
    beats = valid ? 0 : beats + 1;
  }
};

template <int L>
void gather_groups(Stream<KeptBeat<L>, kShallow>& in, Stream<Group, 2>& out) {
  GatherGroups<L> state;
#pragma HLS ARRAY_PARTITION variable = state.w type = complete
  for (bool done = false; !done;) {
#pragma HLS PIPELINE II = 1 style = flp
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    cycle();
    Group group;
    bool valid;
    state.step(in.read(), group, valid);
    if (valid) out.write(group);
    done = valid && group.last;
  }
}

inline void make_record(const Group& group, Record& out) {
#pragma HLS INLINE
  if (group.format.codec == kCodecZve) {
    zve_record(group, out);
  } else {
    ints_record(group, out);
  }
  if (group.count == 0) out.words = 0;
  out.count = group.count;
  out.format = group.format;
  out.block_end = group.block_end;
  out.last = group.last;
}

inline void make_records(Stream<Group, 2>& in, Stream<Record, 2>& out) {
  for (bool done = false; !done;) {
#pragma HLS PIPELINE II = 1 style = flp
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    cycle();
    const Group group = in.read();
    Record record;
    make_record(group, record);
    out.write(record);
    done = group.last;
  }
}

// What a block's groups take.
struct RecordSizes {
  uint32_t groups;
  uint32_t words;  // of the record plane
};

// Packs headers and records into full beats, each plane flushed at the block's end.
template <int L>
struct PackRecords {
  uint32_t rest[kGroupWords] = {};  // of the record in work
  uint32_t left = 0;                // its words
  bool block_end = false;           // it is its block's last
  WordPacker<L> words;
  uint32_t header_hold[L + 1] = {};
  uint32_t header_bits = 0;
  RecordSizes sizes = {0, 0};
  bool flushing = false;
  bool ended = false;

  bool takes() const { return left == 0 && !flushing; }

  void step(const Record& in, Beat<L>& header, bool& header_valid, Beat<L>& record,
            bool& record_valid, RecordSizes& the_sizes, bool& sizes_valid) {
#pragma HLS INLINE
    header_valid = record_valid = sizes_valid = false;
    header.last = record.last = false;
    if (flushing) {
      flush(header, header_valid, record, record_valid);
      return;
    }
    if (left == 0) {
      if (in.last) {
        ended = true;
        return;
      }
      begin(in, header, header_valid);
    }
    pack_words(record, record_valid);
    if (left == 0 && block_end) {
      the_sizes = sizes;
      sizes_valid = true;
      sizes.groups = sizes.words = 0;
      flushing = words.fill > 0 || header_bits > 0;
    }
  }

 private:
  void begin(const Record& in, Beat<L>& header, bool& valid) {
#pragma HLS INLINE
    for (int i = 0; i < kGroupWords; i++) {
#pragma HLS UNROLL
      rest[i] = in.w[i];
    }
    left = in.words;
    block_end = in.block_end;
    if (in.count == 0) return;
    sizes.groups++;
    sizes.words += in.words;
    // 12 bits at a multiple of 4: those that cross into the next beat wait in the last word.
    for (int i = 0; i <= L; i++) {
#pragma HLS UNROLL
      const int32_t shift = int32_t(header_bits) - 32 * i;
      if (shift > -kHeaderBits && shift < 0) header_hold[i] |= uint32_t(in.header) >> -shift;
      if (shift >= 0 && shift < 32) header_hold[i] |= uint32_t(in.header) << shift;
    }
    header_bits += kHeaderBits;
    valid = header_bits >= 32 * L;
    if (valid) emit_headers(header);
  }
  void emit_headers(Beat<L>& header) {
#pragma HLS INLINE
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      header.w[i] = header_hold[i];
      header_hold[i] = i == 0 ? header_hold[L] : 0;
    }
    header_hold[L] = 0;
    header_bits = header_bits > 32 * L ? header_bits - 32 * L : 0;
  }
  void pack_words(Beat<L>& record, bool& valid) {
#pragma HLS INLINE
    const uint32_t taken = left < L ? left : L;
    valid = words.add(rest, taken, record.w);
    left -= taken;
    for (int i = 0; i < kGroupWords; i++) {
#pragma HLS UNROLL
      rest[i] = i + L < kGroupWords ? rest[i + L < kGroupWords ? i + L : i] : 0;
    }
  }
  void flush(Beat<L>& header, bool& header_valid, Beat<L>& record, bool& record_valid) {
#pragma HLS INLINE
    header_valid = header_bits > 0;
    if (header_valid) emit_headers(header);
    record_valid = words.fill > 0;
    words.flush(record.w);
    flushing = false;
  }
};

// Header planes are 48 words at most; two fit.
template <int L>
using HeaderStream = Stream<Beat<L>, 128 / L>;

template <int L>
void pack_records(Stream<Record, 2>& in, HeaderStream<L>& header, BlockStream<L>& record,
                  Stream<RecordSizes, 2>& sizes) {
  PackRecords<L> state;
#pragma HLS ARRAY_PARTITION variable = state.rest type = complete
#pragma HLS ARRAY_PARTITION variable = state.words.hold type = complete
#pragma HLS ARRAY_PARTITION variable = state.header_hold type = complete
  while (!state.ended) {
#pragma HLS PIPELINE II = 1 style = flp
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    cycle();
    Record the_record = {};
    if (state.takes()) the_record = in.read();
    Beat<L> header_beat, record_beat;
    RecordSizes the_sizes;
    bool header_valid, record_valid, sizes_valid;
    state.step(the_record, header_beat, header_valid, record_beat, record_valid, the_sizes,
               sizes_valid);
    if (header_valid) header.write(header_beat);
    if (record_valid) record.write(record_beat);
    if (sizes_valid) sizes.write(the_sizes);
  }
}

}  // namespace actdma
