// Block magnitude pruning to Block Sparse Row (docs/format.md, bsr). Blocks come one after the
// other, so a FIFO that holds two groups of them is all the memory there is:
//
//   raw -> measure -+-> norms -> choose -+-> groups -+-> emit -> squeeze -+-> payload
//                   |                    '-> histogram -------------------'
//                   '-> pieces ----------------------'
//
// The norm is a tree of pairs over the whole block: within a beat by adders side by side, over
// beats by one adder and one waiting sum per level. Nothing is added to what was added the cycle
// before, so the adders' latency does not matter; and the order of additions is that of no beat's
// width.
//
// Beats are taken apart into pieces of at most 256 bits, the smallest block: at 512 bits a beat
// takes two cycles.
#pragma once

#include "axis.hpp"
#include "compress.hpp"
#include "float.hpp"
#include "frame.hpp"
#include "ingest.hpp"

namespace actdma {

template <int L>
constexpr int kBsrLanes = L < 8 ? L : 8;

// A piece of a block.
template <int L>
struct BsrPiece {
  uint32_t w[kBsrLanes<L>];
  bool block_end;
  bool last;
};
// Two groups, and what comes while a norm is on its way through the adders.
template <int L>
using PieceStream = Stream<BsrPiece<L>, 2 * kBsrGroupWords / kBsrLanes<L> + 128>;

struct BsrJob {
  BsrShape shape;
  uint32_t blocks;  // in the frame
};

inline BsrJob bsr_job(const uint32_t d[kHeaderWords]) {
#pragma HLS INLINE
  const BsrShape shape(d);
  return {shape, d[kDescRawLow] >> (2 + shape.words_log2())};
}

// Where a frame's blocks stand in their groups and rows.
struct BsrPlace {
  uint32_t blocks_left = 0;
  uint32_t row_left = 0;    // blocks of this row
  uint32_t group_left = 0;  // and of this group

  void begin(const BsrJob& job) {
#pragma HLS INLINE
    blocks_left = job.blocks;
    row_left = job.shape.columns;
    group_left = 1u << job.shape.group_log2();
  }
  // Blocks that the mask ahead stands for.
  uint32_t group() const {
#pragma HLS INLINE
    const uint32_t row = row_left < group_left ? row_left : group_left;
    return row < blocks_left ? row : blocks_left;
  }
  // The block ahead is over; true when its group is, too.
  bool next(const BsrShape& shape) {
#pragma HLS INLINE
    const bool row_end = row_left == 1;
    const bool end = row_end || group_left == 1 || blocks_left == 1;
    blocks_left--;
    row_left = row_end ? shape.columns : row_left - 1;
    group_left = end ? 1u << shape.group_log2() : group_left - 1;
    return end;
  }
};

inline uint32_t bsr_combine(uint32_t norm, uint32_t a, uint32_t b) {
#pragma HLS INLINE
  return norm == kNormMax ? (a < b ? b : a) : fp32_add(a, b);
}

// What an element adds to its block's norm.
inline uint32_t bsr_magnitude(uint32_t norm, uint32_t value) {
#pragma HLS INLINE
  const uint32_t magnitude = value & ~kFp32Sign;
  return norm == kNormL2 ? fp32_multiply(magnitude, magnitude) : magnitude;
}

// The norm of a piece of W words. A word of fp32 is as good as a pair whose second element is zero.
template <int W>
uint32_t bsr_piece_norm(const BsrShape& shape, const uint32_t w[W]) {
#pragma HLS INLINE
  uint32_t sum[W];
#pragma HLS ARRAY_PARTITION variable = sum type = complete
  for (int i = 0; i < W; i++) {
#pragma HLS UNROLL
    const uint32_t low = w[i] & 0xFFFF, high = w[i] >> 16;
    const bool bf16 = shape.kind == kBsrBf16, fp32 = shape.kind == kBsrFp32;
    const uint32_t first = fp32 ? w[i] : bf16 ? fp32_from_bf16(low) : fp32_from_fp16(low);
    const uint32_t second = fp32 ? 0 : bf16 ? fp32_from_bf16(high) : fp32_from_fp16(high);
    sum[i] = bsr_combine(shape.norm, bsr_magnitude(shape.norm, first),
                         bsr_magnitude(shape.norm, second));
  }
  for (int n = W / 2; n > 0; n /= 2) {
#pragma HLS UNROLL
    for (int i = 0; i < n; i++) {
#pragma HLS UNROLL
      sum[i] = bsr_combine(shape.norm, sum[2 * i], sum[2 * i + 1]);
    }
  }
  return sum[0];
}

// A block's norm, and what becomes of the block.
struct BsrNormToken {
  uint32_t norm;
  bool kept;
  bool group_end;
  bool selected;
  bool last;
};

// Takes beats apart, measures blocks and leaves the padding behind them out.
template <int L>
struct BsrMeasure {
  static constexpr int W = kBsrLanes<L>;
  static constexpr int kPieceLog2 = log2_ceil(W);
  static constexpr int kLevels = log2_ceil(int(kBsrGroupWords) / W);
  Header<L> header;
  bool begun = false;  // the descriptor has come: the frame is this codec's
  BsrJob job = {};
  BsrPlace place;
  uint32_t hold[L] = {};     // the beat under way
  uint32_t pieces_left = 0;  // of it
  uint32_t piece = 0;        // number of the next one in its block
  uint32_t sum[kLevels] = {};
  bool ended = false;

  bool takes() const { return pieces_left == 0; }

  void step(const Beat<L>& in, BsrPiece<L>& copy, bool& copy_valid, BsrNormToken& norm,
            bool& norm_valid) {
#pragma HLS INLINE
    copy_valid = norm_valid = false;
    if (!begun && !in.last) {
      begun = header.shift(in.w);
      job = bsr_job(header.d);
      place.begin(job);
      return;
    }
    const bool fresh = takes();
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      hold[i] = fresh ? in.w[i] : i + W < L ? hold[i + W < L ? i + W : i] : 0;
    }
    pieces_left = fresh ? L / W - 1 : pieces_left - 1;
    ended = fresh && in.last;
    for (int i = 0; i < W; i++) {
#pragma HLS UNROLL
      copy.w[i] = hold[i];
    }
    copy.block_end = false;
    copy.last = norm.last = ended;
    norm.selected = begun;
    if (ended) {
      copy_valid = norm_valid = true;
    } else if (place.blocks_left > 0) {
      copy_valid = true;
      norm.norm = add(bsr_piece_norm<W>(job.shape, hold));
      norm.kept = norm.norm >= job.shape.threshold;
      norm_valid = ++piece << kPieceLog2 == 1u << job.shape.words_log2();
      if (norm_valid) {
        piece = 0;
        copy.block_end = true;
        norm.group_end = place.next(job.shape);
      }
    }
  }

 private:
  // The sum of the largest whole tree that ends with this piece; the block's, where it ends.
  uint32_t add(uint32_t value) {
#pragma HLS INLINE
    bool carry = true;
    for (int k = 0; k < kLevels; k++) {
#pragma HLS UNROLL
      if (carry && !(piece >> k & 1)) {
        sum[k] = value;
        carry = false;
      }
      if (carry) value = bsr_combine(job.shape.norm, sum[k], value);
    }
    return value;
  }
};

template <int L>
void bsr_measure(BeatStream<L>& in, PieceStream<L>& copy, Stream<BsrNormToken, kShallow>& norms) {
  BsrMeasure<L> state;
#pragma HLS ARRAY_PARTITION variable = state.header.d type = complete
#pragma HLS ARRAY_PARTITION variable = state.hold type = complete
#pragma HLS ARRAY_PARTITION variable = state.sum type = complete
  while (!state.ended) {
#pragma HLS PIPELINE II = 1 style = flp
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    cycle();
    Beat<L> beat = {};
    if (state.takes()) beat = in.read();
    BsrPiece<L> piece;
    BsrNormToken norm = {};
    bool piece_valid, norm_valid;
    state.step(beat, piece, piece_valid, norm, norm_valid);
    if (piece_valid) copy.write(piece);
    if (norm_valid) norms.write(norm);
  }
}

// Which of a group's blocks are kept.
struct BsrGroup {
  uint32_t mask;
  uint8_t blocks;
  bool last;
};

// Gathers masks and counts norms by their exponents; the counts leave at the end.
template <int L>
struct BsrChoose {
  uint32_t count[kHistogramBins] = {};
  BsrGroup group = {0, 0, false};
  uint32_t beats_left = 0;  // of the histogram
  bool ended = false;

  bool takes() const { return beats_left == 0; }

  void step(const BsrNormToken& in, BsrGroup& out, bool& out_valid, Beat<L>& histogram,
            bool& histogram_valid) {
#pragma HLS INLINE
    histogram_valid = beats_left > 0;
    out_valid = false;
    if (histogram_valid) {
      shift(histogram);
      ended = --beats_left == 0;
    } else if (in.last) {
      out = {0, 0, true};
      out_valid = true;
      beats_left = in.selected ? kHistogramBins / L : 0;
      ended = beats_left == 0;
    } else {
      const uint32_t bin = histogram_bin(in.norm);
      for (uint32_t i = 0; i < kHistogramBins; i++) {
#pragma HLS UNROLL
        count[i] += i == bin;
      }
      group.mask |= uint32_t(in.kept) << group.blocks;
      group.blocks++;
      out = group;
      out_valid = in.group_end;
      if (in.group_end) group = {0, 0, false};
    }
  }

 private:
  void shift(Beat<L>& out) {
#pragma HLS INLINE
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      out.w[i] = count[i];
    }
    for (int i = 0; i + L < int(kHistogramBins); i++) {
#pragma HLS UNROLL
      count[i] = count[i + L];
    }
    out.last = false;
  }
};

template <int L>
void bsr_choose(Stream<BsrNormToken, kShallow>& in, Stream<BsrGroup, 4>& out,
                BeatStream<L>& histogram) {
  BsrChoose<L> state;
#pragma HLS ARRAY_PARTITION variable = state.count type = complete
  while (!state.ended) {
#pragma HLS PIPELINE II = 1 style = flp
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    cycle();
    BsrNormToken norm = {};
    if (state.takes()) norm = in.read();
    BsrGroup group = {};
    Beat<L> beat;
    bool group_valid, beat_valid;
    state.step(norm, group, group_valid, beat, beat_valid);
    if (group_valid) out.write(group);
    if (beat_valid) histogram.write(beat);
  }
  histogram.write(end_beat<L>());
}

// A group's mask and its kept blocks; dropped ones leave the FIFO as fast.
template <int L>
struct BsrEmit {
  BsrGroup group = {0, 0, false};
  bool ended = false;

  bool takes_group() const { return !group.last && group.blocks == 0; }

  void step(const BsrGroup& the_group, const BsrPiece<L>& in, Span<L>& out, bool& valid) {
#pragma HLS INLINE
    out.last = false;
    if (takes_group()) {
      group = the_group;
      for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
        out.w[i] = i == 0 ? group.mask : 0;
      }
      out.words = 1;
      valid = !group.last;
      return;
    }
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      out.w[i] = i < kBsrLanes<L> ? in.w[i % kBsrLanes<L>] : 0;
    }
    out.words = kBsrLanes<L>;
    // After the last group: what there is of blocks that a cut off packet began.
    out.last = ended = group.last && in.last;
    valid = ended || (!group.last && (group.mask & 1));
    if (in.block_end && !group.last) {
      group.mask >>= 1;
      group.blocks--;
    }
  }
};

template <int L>
void bsr_emit(Stream<BsrGroup, 4>& groups, PieceStream<L>& copy, Stream<Span<L>, kShallow>& out) {
  BsrEmit<L> state;
  while (!state.ended) {
#pragma HLS PIPELINE II = 1 style = flp
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    cycle();
    BsrGroup group = {};
    BsrPiece<L> piece = {};
    if (state.takes_group())
      group = groups.read();
    else
      piece = copy.read();
    Span<L> span;
    bool valid;
    state.step(group, piece, span, valid);
    if (valid) out.write(span);
  }
}

template <int L>
void bsr_compress(BeatStream<L>& in, BeatStream<L>& out, VerdictStream& verdict) {
#pragma HLS INLINE
  PieceStream<L> pieces("bsr pieces");
  Stream<BsrNormToken, kShallow> norms("bsr norms");
  Stream<BsrGroup, 4> groups("bsr groups");
  BeatStream<L> payload("bsr kept"), histogram("bsr histogram");
  Stream<Span<L>, kShallow> spans("bsr spans");
  ACTDMA_PROCESS(bsr_measure<L>(in, pieces, norms));
  ACTDMA_PROCESS(bsr_choose<L>(norms, groups, histogram));
  ACTDMA_PROCESS(bsr_emit<L>(groups, pieces, spans));
  ACTDMA_PROCESS(squeeze<L>(spans, payload, verdict));
  ACTDMA_PROCESS(concatenate<L>(payload, histogram, out));
  ACTDMA_REGION_END();
}

// Walks over the groups and fills in zeros for what was dropped. Lengths come from the masks a
// group at a time, so nothing waits for a popcount.
template <int L>
struct BsrParse {
  static constexpr int W = kBsrLanes<L>;
  static constexpr int kPieceLog2 = log2_ceil(W);
  static constexpr uint32_t kLine = kAlignWords / W;  // pieces of 64 bytes
  enum Phase : uint8_t { kHeader, kMask, kBlock, kPad, kDrain, kEnd };
  Phase phase = kHeader;
  Header<L> header;
  BsrJob job = {};
  BsrPlace place;
  uint32_t hold[L] = {};  // the beat read last
  uint32_t pos = L;       // words of it that are used up
  bool input_over = false;
  uint32_t beats = 0;  // read
  uint32_t mask = 0;
  uint32_t piece = 0;     // number of the next one in its block
  uint32_t half[L] = {};  // pieces of the beat under way
  uint32_t pieces = 0;    // since the last multiple of 64 bytes
  Verdict verdict = {kGood, 0};

  bool takes() const {
#pragma HLS INLINE
    return !input_over && (phase == kHeader || phase == kDrain || wanted() > L - pos);
  }
  bool done() const { return phase == kEnd; }

  void step(const Beat<L>& in, Beat<L>& raw, bool& raw_valid) {
#pragma HLS INLINE
    raw_valid = false;
    const bool took = takes();
    if (took && in.last) {
      input_over = true;
      if (phase == kHeader) phase = kEnd;  // another codec's frame
      return;
    }
    if (phase == kHeader) {
      if (header.shift(in.w)) begin();
      return;
    }
    if (took) beats++;
    if (phase == kDrain) {
      if (input_over) end();
      return;
    }
    if (phase == kPad && pieces == 0) {
      phase = kDrain;
      return;
    }
    const uint32_t count = wanted();
    if (!took && count > L - pos) {
      verdict.status = kBadLength;
      phase = kPad;
      return;
    }
    uint32_t window[L];
#pragma HLS ARRAY_PARTITION variable = window type = complete
    funnel<uint32_t, L>(hold, in.w, pos, window);
    pos = took ? pos + count - L : pos + count;
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      if (took) hold[i] = in.w[i];
      if (count == 0) window[i] = 0;
    }
    verdict.payload_words += count;
    if (phase == kMask)
      begin_group(window[0]);
    else
      put_piece(window, raw, raw_valid);
  }

 private:
  void begin() {
#pragma HLS INLINE
    job = bsr_job(header.d);
    place.begin(job);
    phase = job.blocks > 0 ? kMask : kDrain;
  }
  uint32_t wanted() const {
#pragma HLS INLINE
    return phase == kMask ? 1 : phase == kBlock && (mask & 1) ? W : 0;
  }
  void begin_group(uint32_t bits) {
#pragma HLS INLINE
    const uint32_t group = place.group();
    const bool bad = group < 32 && bits >> (group & 31) != 0;
    mask = bits;
    if (bad) verdict.status = kBadBlock;
    phase = bad ? kPad : kBlock;
  }
  void put_piece(const uint32_t window[L], Beat<L>& raw, bool& raw_valid) {
#pragma HLS INLINE
    // The oldest piece ends up in front.
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      half[i] = i + W < L ? half[i + W < L ? i + W : i] : window[i % W];
      raw.w[i] = half[i];
    }
    raw.last = false;
    pieces = (pieces + 1) % kLine;
    raw_valid = pieces % (L / W) == 0;
    if (phase == kPad) return;
    if (++piece << kPieceLog2 == 1u << job.shape.words_log2()) {
      piece = 0;
      mask >>= 1;
      const bool over = place.blocks_left == 1;
      if (place.next(job.shape)) phase = over ? kPad : kMask;
    }
  }
  void end() {
#pragma HLS INLINE
    const uint32_t used = padded_words(verdict.payload_words);
    if (verdict.status == kGood && beats * L != used + kHistogramBins) verdict.status = kBadLength;
    phase = kEnd;
  }
};

template <int L>
void bsr_decompress(BeatStream<L>& in, BeatStream<L>& out, VerdictStream& verdict) {
  BsrParse<L> state;
#pragma HLS ARRAY_PARTITION variable = state.header.d type = complete
#pragma HLS ARRAY_PARTITION variable = state.hold type = complete
#pragma HLS ARRAY_PARTITION variable = state.half type = complete
  while (!state.done()) {
#pragma HLS PIPELINE II = 1 style = flp
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    cycle();
    Beat<L> beat = {}, raw;
    if (state.takes()) beat = in.read();
    bool raw_valid;
    state.step(beat, raw, raw_valid);
    if (raw_valid) out.write(raw);
  }
  out.write(end_beat<L>());
  verdict.write(state.verdict);
}

}  // namespace actdma
