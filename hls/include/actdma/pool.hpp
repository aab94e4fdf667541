// Average pooling of maps and nearest upsampling (docs/format.md, pool). Both ways go through
// windows of at most 128 bits, each within one row:
//
//   raw -> narrow -> pool_rows -> pool_sum -> pool_scale -> pack_bytes -> widen -> payload
//   payload -> narrow -> unpool -> pack_bytes -> widen -> raw
//
// A row takes a cycle for each window (of 64 bits where the stream has no more), and at least
// kRowCycles: so long an addition to the row above may take on its way through the line buffer.
#pragma once

#include "axis.hpp"
#include "float.hpp"
#include "frame.hpp"
#include "ingest.hpp"
#include "route.hpp"
#include "shift.hpp"

namespace actdma {

constexpr uint32_t kRowCycles = 8;
constexpr uint32_t kFp32NegativeZero = kFp32Sign;  // changes nothing where it is added

// Lanes of a window.
template <int L>
constexpr int kPoolLanes = L < 4 ? L : 4;

// Windows that a line buffer holds.
template <int P>
constexpr int kPoolWindows = int(kPoolRowBytes) / (4 * P);

// Beats of L lanes as L / P of P lanes.
template <int L, int P>
void narrow(BeatStream<L>& in, BeatStream<P>& out) {
  Beat<L> beat = {};
  uint32_t left = 0;
  for (bool done = false; !done;) {
#pragma HLS PIPELINE II = 1 style = flp
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    cycle();
    if (left == 0) {
      beat = in.read();
      left = beat.last ? 1 : L / P;
    }
    Beat<P> piece;
    for (int i = 0; i < P; i++) {
#pragma HLS UNROLL
      piece.w[i] = beat.w[i];
    }
    piece.last = done = beat.last;
    out.write(piece);
    for (int i = 0; i < L - P; i++) {
#pragma HLS UNROLL
      beat.w[i] = beat.w[i + P];
    }
    left--;
  }
}

// The inverse, of a stream that is a multiple of 64 bytes long.
template <int P, int L>
void widen(BeatStream<P>& in, BeatStream<L>& out) {
  Beat<L> beat = {};
  uint32_t have = 0;
  while (!beat.last) {
#pragma HLS PIPELINE II = 1 style = flp
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    cycle();
    const Beat<P> piece = in.read();
    for (int i = 0; i < L - P; i++) {
#pragma HLS UNROLL
      beat.w[i] = beat.w[i + P];
    }
    for (int i = 0; i < P; i++) {
#pragma HLS UNROLL
      beat.w[L - P + i] = piece.w[i];
    }
    beat.last = piece.last;
    have = have == L / P ? 1 : have + 1;
    if (have == L / P || beat.last) out.write(beat);
  }
}

// A way through all rows of all maps, window by window.
template <int P>
struct PoolWalk {
  static constexpr int kWindowLog2 = log2_ceil(4 * P);
  PoolShape shape;
  uint32_t maps_left = 0;
  uint32_t rows_left = 0;   // of this map, with the one under way
  uint32_t bytes_left = 0;  // of this row
  uint32_t band_row = 0;    // within the rows that are pooled to one
  uint32_t window = 0;      // within the row
  uint32_t cycles = 0;      // of this row so far

  void begin(const PoolShape& the_shape) {
#pragma HLS INLINE
    shape = the_shape;
    maps_left = shape.maps;
    rows_left = shape.height;
    bytes_left = shape.row_bytes();
  }
  bool over() const { return maps_left == 0; }
  // Bytes of the window ahead; 0 where the row only waits for its cycles to pass.
  uint32_t bytes() const { return bytes_left < 4 * P ? bytes_left : 4 * P; }
  bool row_end() const { return bytes_left <= 4 * P; }
  bool band_end() const { return band_row + 1 == shape.k() || rows_left == 1; }
  // log2 of the windows that one pooled element is wide; at most 0 where a window holds several.
  int span_log2() const { return int(shape.k_log2() + shape.element_log2()) - kWindowLog2; }
  // One cycle.
  void advance() {
#pragma HLS INLINE
    const bool end = row_end() && cycles + 1 >= kRowCycles;
    const bool map_end = rows_left == 1;
    if (!end) {
      window += bytes_left > 0;
      bytes_left -= bytes();
      cycles += cycles < kRowCycles;
      return;
    }
    window = cycles = 0;
    bytes_left = shape.row_bytes();
    band_row = band_end() ? 0 : band_row + 1;
    rows_left = map_end ? shape.height : rows_left - 1;
    maps_left -= map_end;
  }
};

// Takes bytes off a stream of beats, any number up to a beat in each cycle.
template <int P>
struct ByteReader {
  uint32_t hold[P] = {};  // the beat read last
  uint32_t used = 4 * P;  // bytes of it

  bool takes(uint32_t count) const { return count > 4 * P - used; }
  // `in`: the next beat, where takes(count) was true. What is beyond `count` is arbitrary.
  void step(uint32_t count, const uint32_t in[P], uint32_t out[P]) {
#pragma HLS INLINE
    const bool took = takes(count);
    funnel<uint8_t, P>(hold, in, used, out);
    for (int i = 0; i < P; i++) {
#pragma HLS UNROLL
      if (took) hold[i] = in[i];
    }
    used = took ? used + count - 4 * P : used + count;
  }
};

// A window on its way to be summed.
template <int P>
struct PoolWindow {
  uint32_t w[P];
  uint8_t elements;  // 0: a cycle of the row without a window
  uint8_t kind;
  uint8_t k_log2;
  int8_t span_log2;
  uint8_t rows;     // of the band, with this one
  uint8_t columns;  // of the row's last pooled element
  uint16_t window;
  bool row_end;
  bool band_end;
  bool last;
};

// Cuts rows out of the stream, wherever they begin, and into windows.
template <int P>
struct PoolRows {
  enum Phase : uint8_t { kHeader, kBegin, kRows, kDrain, kEnd };
  Phase phase = kHeader;
  Header<P> header;
  PoolWalk<P> walk;
  ByteReader<P> reader;

  bool takes() const {
#pragma HLS INLINE
    return phase == kHeader || phase == kDrain || (phase == kRows && reader.takes(walk.bytes()));
  }
  bool done() const { return phase == kEnd; }

  void step(const Beat<P>& in, PoolWindow<P>& out, bool& valid) {
#pragma HLS INLINE
    valid = false;
    if (takes() && in.last) {
      phase = kEnd;
    } else if (phase == kHeader) {
      if (header.shift(in.w)) phase = kBegin;
    } else if (phase == kBegin) {
      walk.begin(PoolShape(header.d));
      phase = walk.over() ? kDrain : kRows;
    } else if (phase == kRows) {
      reader.step(walk.bytes(), in.w, out.w);
      describe(out);
      valid = true;
      walk.advance();
      if (walk.over()) phase = kDrain;
    }
  }

 private:
  void describe(PoolWindow<P>& out) const {
#pragma HLS INLINE
    out.elements = uint8_t(walk.bytes() >> walk.shape.element_log2());
    out.kind = uint8_t(walk.shape.kind());
    out.k_log2 = uint8_t(walk.shape.k_log2());
    out.span_log2 = int8_t(walk.span_log2());
    out.rows = uint8_t(walk.band_row + 1);
    out.columns = uint8_t(((walk.shape.width - 1) & (walk.shape.k() - 1)) + 1);
    out.window = uint16_t(walk.window);
    out.row_end = walk.row_end();
    out.band_end = walk.band_end();
    out.last = false;
  }
};

template <int P>
void pool_rows(BeatStream<P>& in, Stream<PoolWindow<P>, kShallow>& out) {
  PoolRows<P> state;
#pragma HLS ARRAY_PARTITION variable = state.header.d type = complete
#pragma HLS ARRAY_PARTITION variable = state.reader.hold type = complete
  while (!state.done()) {
#pragma HLS PIPELINE II = 1 style = flp
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    cycle();
    Beat<P> beat = {};
    if (state.takes()) beat = in.read();
    PoolWindow<P> window = {};
    bool valid;
    state.step(beat, window, valid);
    if (valid) out.write(window);
  }
  PoolWindow<P> end = {};
  end.rows = end.columns = 1;
  end.last = true;
  out.write(end);
}

// Element `i` of a window as it is summed: fp32, or an integer of 32 bits.
template <int P>
uint32_t pool_element(const PoolWindow<P>& in, int i) {
#pragma HLS INLINE
  const uint32_t byte = in.w[i / 4] >> (8 * (i % 4)) & 0xFF;
  const uint32_t half = i < 2 * P ? in.w[i / 2 % P] >> (16 * (i % 2)) & 0xFFFF : 0;
  const uint32_t word = i < P ? in.w[i % P] : 0;
  if (in.kind == kPoolInt8) return i < in.elements ? byte - ((byte & 0x80) << 1) : 0;
  if (i >= in.elements) return kFp32NegativeZero;
  if (in.kind == kPoolBf16) return fp32_from_bf16(half);
  return in.kind == kPoolFp16 ? fp32_from_fp16(half) : word;
}

// Sums of windows, up to 2 P integers or P numbers.
template <int P>
struct PoolSums {
  uint32_t sum[2 * P];
  uint8_t count;
  uint8_t kind;
  uint8_t k_log2;
  uint8_t rows;
  uint8_t columns;  // that the last sum is wide
  bool last;
};

// Adds up: a tree of pairs across, then row by row. `above`: what this window of the rows above
// came to, `below`: with this row; two integers of 16 bits in a word.
template <int P>
struct PoolSum {
  static constexpr int kLevels = 3;             // of the tree, within a window
  static constexpr int kSpans = P < 4 ? 2 : 1;  // and over windows
  uint32_t hold[kSpans] = {};

  void step(const PoolWindow<P>& in, const uint32_t above[P], uint32_t below[P], PoolSums<P>& out) {
#pragma HLS INLINE
    const bool integer = in.kind == kPoolInt8;
    uint32_t v[4 * P];
#pragma HLS ARRAY_PARTITION variable = v type = complete
    for (int i = 0; i < 4 * P; i++) {
#pragma HLS UNROLL
      v[i] = pool_element(in, i);
    }
    const int levels = in.k_log2 - (in.span_log2 > 0 ? in.span_log2 : 0);
    for (int level = 0; level < kLevels; level++) {
#pragma HLS UNROLL
      const int pairs = 2 * P >> level;
      for (int i = 0; i < pairs; i++) {
#pragma HLS UNROLL
        // Numbers are half as many as integers, at most.
        const uint32_t number = i < pairs / 2 ? fp32_add(v[2 * i], v[2 * i + 1]) : 0;
        if (level < levels) v[i] = integer ? v[2 * i] + v[2 * i + 1] : number;
      }
    }
    out.count = uint8_t((in.elements + (1 << in.k_log2) - 1) >> in.k_log2);
    if (in.elements > 0 && !join(in, v[0])) out.count = 0;
    add_row(in, above, v, below);
    for (int i = 0; i < 2 * P; i++) {
#pragma HLS UNROLL
      out.sum[i] = integer ? halves(below[i / 2], i % 2) : i < P ? below[i % P] : 0;
    }
    out.kind = in.kind;
    out.k_log2 = in.k_log2;
    out.rows = in.rows;
    out.columns = in.row_end ? in.columns : uint8_t(1 << in.k_log2);
    out.last = in.last;
  }

 private:
  // The tree goes on over windows; true when `sum` is that of a whole element. At the row's end the
  // partner may be missing.
  bool join(const PoolWindow<P>& in, uint32_t& sum) {
#pragma HLS INLINE
    bool whole = true;
    for (int level = 0; level < kSpans; level++) {
#pragma HLS UNROLL
      const bool second = in.window >> level & 1;
      const bool here = level < in.span_log2 && whole;
      const uint32_t both = fp32_add(hold[level], sum);
      if (here && !second && !in.row_end) {
        hold[level] = sum;
        whole = false;
      }
      if (here && second) sum = both;
    }
    return whole;
  }
  static uint32_t halves(uint32_t word, int n) {
#pragma HLS INLINE
    const uint32_t half = word >> (16 * n) & 0xFFFF;
    return half - ((half & 0x8000) << 1);
  }
  static void add_row(const PoolWindow<P>& in, const uint32_t above[P], const uint32_t v[4 * P],
                      uint32_t below[P]) {
#pragma HLS INLINE
    const bool first = in.rows == 1;
    for (int i = 0; i < P; i++) {
#pragma HLS UNROLL
      const uint32_t low = v[2 * i] + (first ? 0 : halves(above[i], 0));
      const uint32_t high = v[2 * i + 1] + (first ? 0 : halves(above[i], 1));
      const uint32_t number = first ? v[i] : fp32_add(above[i], v[i]);
      below[i] = in.kind == kPoolInt8 ? (low & 0xFFFF) | high << 16 : number;
    }
  }
};

template <int P>
void pool_sum(Stream<PoolWindow<P>, kShallow>& in, Stream<PoolSums<P>, kShallow>& out) {
  PoolSum<P> state;
#pragma HLS ARRAY_PARTITION variable = state.hold type = complete
  uint32_t line[kPoolWindows<P>][P];
#pragma HLS ARRAY_PARTITION variable = line type = complete dim = 2
#pragma HLS BIND_STORAGE variable = line type = ram_2p
  for (bool done = false; !done;) {
#pragma HLS PIPELINE II = 1 style = flp
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    // Rows come in at least kRowCycles tokens.
#pragma HLS DEPENDENCE variable = line type = inter direction = RAW distance = 8 dependent = true
    cycle();
    const PoolWindow<P> window = in.read();
    const uint16_t at = window.elements > 0 ? window.window : 0;
    uint32_t above[P], below[P];
#pragma HLS ARRAY_PARTITION variable = above type = complete
#pragma HLS ARRAY_PARTITION variable = below type = complete
    for (int i = 0; i < P; i++) {
#pragma HLS UNROLL
      above[i] = window.rows > 1 ? line[at][i] : 0;
    }
    PoolSums<P> sums;
    state.step(window, above, below, sums);
    for (int i = 0; i < P; i++) {
#pragma HLS UNROLL
      if (sums.count > 0) line[at][i] = below[i];
    }
    if (window.last || (window.band_end && sums.count > 0)) out.write(sums);
    done = window.last;
  }
}

// 1 / n for the number n = rows * columns of a window's elements: as fp32, rounded to nearest, and
// as 2^22 / 2n, rounded up: (x * fixed) >> 22 is x / 2n for every x that occurs.
struct Reciprocals {
  uint32_t fp32[64] = {};
  uint32_t fixed[64] = {};

  constexpr Reciprocals() {
    for (uint32_t i = 0; i < 64; i++) {
      const uint32_t n = (i / 8 + 1) * (i % 8 + 1);
      const uint32_t shift = uint32_t(log2_ceil(int(n)));
      const uint64_t significand = ((uint64_t(1) << (24 + shift)) + n) / (2 * n);
      fp32[i] = ((126 - shift) << 23) + uint32_t(significand);
      fixed[i] = (1u << 22) / (2 * n) + 1;
    }
  }
};

// What a sum of n elements is divided by.
struct Divisor {
  uint32_t n, fp32, fixed;
};

inline Divisor divisor(uint32_t rows, uint32_t columns) {
#pragma HLS INLINE
  static constexpr Reciprocals table;
#pragma HLS BIND_STORAGE variable = table.fp32 type = rom_np
#pragma HLS BIND_STORAGE variable = table.fixed type = rom_np
  const uint32_t at = 8 * (rows - 1) + columns - 1;
  return {rows * columns, table.fp32[at], table.fixed[at]};
}

// The mean of integers in two's complement, ties away from zero; |sum| <= 128 n.
inline uint32_t mean_int8(uint32_t sum, const Divisor& by) {
#pragma HLS INLINE
  const bool negative = sum >> 31;
  const uint32_t magnitude = negative ? -sum : sum;
  const uint32_t mean = uint32_t((uint64_t(2 * magnitude + by.n) * by.fixed) >> 22);
  return (negative ? -mean : mean) & 0xFF;
}

// The mean of numbers as an element's bits.
inline uint32_t mean_float(uint32_t sum, uint32_t kind, const Divisor& by) {
#pragma HLS INLINE
  const uint32_t mean = fp32_multiply(sum, by.fp32);
  return kind == kPoolBf16 ? bf16_from_fp32(mean) : kind == kPoolFp16 ? fp16_from_fp32(mean) : mean;
}

// Up to P words of which the first `bytes` bytes count; the others are 0.
template <int P>
struct PoolPiece {
  uint32_t w[P];
  uint8_t bytes;
  bool last;
};

template <int P>
PoolPiece<P> pool_means(const PoolSums<P>& in) {
#pragma HLS INLINE
  PoolPiece<P> out = {};
  const bool integer = in.kind == kPoolInt8;
  const uint32_t element = pool_element_log2(in.kind);
  const Divisor whole = divisor(in.rows, 1u << in.k_log2), edge = divisor(in.rows, in.columns);
  for (int i = 0; i < 2 * P; i++) {
#pragma HLS UNROLL
    const Divisor by = i + 1 == in.count ? edge : whole;
    const uint32_t number = i < P ? mean_float(in.sum[i], in.kind, by) : 0;
    const uint32_t mean = integer ? mean_int8(in.sum[i], by) : number;
    const bool counts = i < in.count;
    if (element == 0 && counts) out.w[i / 4] |= mean << (8 * (i % 4));
    if (element == 1 && counts && i < P) out.w[i / 2] |= mean << (16 * (i % 2));
    if (element == 2 && counts && i < P / 2) out.w[i] = mean;
  }
  out.bytes = uint8_t(in.count << element);
  out.last = in.last;
  return out;
}

template <int P>
void pool_scale(Stream<PoolSums<P>, kShallow>& in, Stream<PoolPiece<P>, kShallow>& out,
                VerdictStream& verdict) {
  uint32_t bytes = 0;
  for (bool done = false; !done;) {
#pragma HLS PIPELINE II = 1 style = flp
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    cycle();
    PoolSums<P> sums = in.read();
    if (sums.last) sums.count = 0;
    const PoolPiece<P> piece = pool_means(sums);
    bytes += piece.bytes;
    out.write(piece);
    done = piece.last;
  }
  verdict.write(Verdict{kGood, (bytes + 3) / 4});
}

// Packs pieces into full beats and pads them to 64 bytes.
template <int P>
struct PackBytes {
  uint32_t hold[P] = {};
  uint32_t fill = 0;   // bytes in it
  uint32_t beats = 0;  // written so far, modulo 64 bytes
  bool ending = false;

  bool takes() const { return !ending; }
  bool done() const { return ending && fill == 0 && beats == 0; }

  void step(const PoolPiece<P>& in, Beat<P>& out, bool& valid) {
#pragma HLS INLINE
    uint32_t low[P], high[P];
#pragma HLS ARRAY_PARTITION variable = low type = complete
#pragma HLS ARRAY_PARTITION variable = high type = complete
    append<uint8_t, P>(hold, fill, in.w, low, high);
    const uint32_t total = fill + in.bytes;
    const bool full = total >= 4 * P;
    valid = full || ending;
    for (int i = 0; i < P; i++) {
#pragma HLS UNROLL
      out.w[i] = low[i];
      hold[i] = full ? high[i] : ending ? 0 : low[i];
    }
    out.last = false;
    fill = full ? total - 4 * P : ending ? 0 : total;
    if (valid) beats = (beats + 1) % (kAlignWords / P);
    if (!ending) ending = in.last;
  }
};

template <int P>
void pack_bytes(Stream<PoolPiece<P>, kShallow>& in, BeatStream<P>& out) {
  PackBytes<P> state;
#pragma HLS ARRAY_PARTITION variable = state.hold type = complete
  while (!state.done()) {
#pragma HLS PIPELINE II = 1 style = flp
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    cycle();
    PoolPiece<P> piece = {};
    if (state.takes()) piece = in.read();
    Beat<P> beat;
    bool valid;
    state.step(piece, beat, valid);
    if (valid) out.write(beat);
  }
  out.write(end_beat<P>());
}

template <int L>
void pool_compress(BeatStream<L>& in, BeatStream<L>& out, VerdictStream& verdict) {
#pragma HLS INLINE
  BeatStream<kPoolLanes<L>> pieces("pool raw"), packed("pool packed");
  Stream<PoolWindow<kPoolLanes<L>>, kShallow> windows("pool windows");
  Stream<PoolSums<kPoolLanes<L>>, kShallow> sums("pool sums");
  Stream<PoolPiece<kPoolLanes<L>>, kShallow> means("pool means");
  ACTDMA_PROCESS(narrow<L, kPoolLanes<L>>(in, pieces));
  ACTDMA_PROCESS(pool_rows<kPoolLanes<L>>(pieces, windows));
  ACTDMA_PROCESS(pool_sum<kPoolLanes<L>>(windows, sums));
  ACTDMA_PROCESS(pool_scale<kPoolLanes<L>>(sums, means, verdict));
  ACTDMA_PROCESS(pack_bytes<kPoolLanes<L>>(means, packed));
  ACTDMA_PROCESS(widen<kPoolLanes<L>, L>(packed, out));
  ACTDMA_REGION_END();
}

// Repeats pooled elements across and down. The first row of a band reads them from the payload and
// leaves each window's in the line buffer, at most half a window of bytes; the others find them
// there (`above`, as `below` left it).
template <int P>
struct Unpool {
  enum Phase : uint8_t { kHeader, kBegin, kRows, kDrain, kEnd };
  static constexpr int kHalf = P / 2;  // words
  Phase phase = kHeader;
  Header<P> header;
  PoolWalk<P> walk;
  ByteReader<P> reader;
  uint32_t current[kHalf] = {};  // the elements of the window before
  uint32_t bytes = 0;            // of the payload, used so far
  uint32_t beats = 0;            // of the payload, read so far
  Verdict verdict = {kGood, 0};

  // Bytes of the payload that this cycle uses.
  uint32_t wanted() const {
#pragma HLS INLINE
    const uint32_t element = walk.shape.element_log2(), k_log2 = walk.shape.k_log2();
    if (phase != kRows || walk.band_row > 0) return 0;
    if (walk.span_log2() <= 0)
      return (((walk.bytes() >> element) + walk.shape.k() - 1) >> k_log2) << element;
    const uint32_t inside = walk.window & ((1u << walk.span_log2()) - 1);
    return walk.bytes() > 0 && inside == 0 ? 1u << element : 0;
  }
  bool takes() const {
#pragma HLS INLINE
    return phase == kHeader || phase == kDrain || (phase == kRows && reader.takes(wanted()));
  }
  bool done() const { return phase == kEnd; }
  uint16_t line() const { return walk.bytes() > 0 ? uint16_t(walk.window) : 0; }

  // `valid`: a piece is written, and `below` belongs into the line buffer.
  void step(const Beat<P>& in, const uint32_t above[kHalf], uint32_t below[kHalf],
            PoolPiece<P>& out, bool& valid) {
#pragma HLS INLINE
    const bool took = takes();
    valid = false;
    if (took && phase != kHeader && !in.last) beats++;
    if (took && in.last) {
      end();
    } else if (phase == kHeader) {
      if (header.shift(in.w)) phase = kBegin;
    } else if (phase == kBegin) {
      walk.begin(PoolShape(header.d));
      phase = walk.over() ? kDrain : kRows;
    } else if (phase == kRows) {
      fetch(in, above);
      for (int i = 0; i < kHalf; i++) {
#pragma HLS UNROLL
        below[i] = current[i];
      }
      valid = walk.bytes() > 0;
      repeat(out);
      walk.advance();
      if (walk.over()) phase = kDrain;
    }
  }

 private:
  void fetch(const Beat<P>& in, const uint32_t above[kHalf]) {
#pragma HLS INLINE
    const uint32_t count = wanted();
    uint32_t fresh[P];
#pragma HLS ARRAY_PARTITION variable = fresh type = complete
    reader.step(count, in.w, fresh);
    bytes += count;
    for (int i = 0; i < kHalf; i++) {
#pragma HLS UNROLL
      if (walk.band_row > 0) current[i] = above[i];
      if (count > 0) current[i] = fresh[i];
    }
  }
  void repeat(PoolPiece<P>& out) const {
#pragma HLS INLINE
    uint8_t from[2 * P], to[4 * P];
#pragma HLS ARRAY_PARTITION variable = from type = complete
#pragma HLS ARRAY_PARTITION variable = to type = complete
    split_beat<uint8_t, kHalf>(current, from);
    for (int i = 0; i < 4 * P; i++) {
#pragma HLS UNROLL
      to[i] = 0;
      for (int element = 0; element < 3; element++) {
#pragma HLS UNROLL
        for (int k_log2 = 1; k_log2 <= 3; k_log2++) {
#pragma HLS UNROLL
          const int byte = (i >> element >> k_log2 << element) | (i & ((1 << element) - 1));
          const bool here = walk.shape.element_log2() == uint32_t(element) &&
                            walk.shape.k_log2() == uint32_t(k_log2);
          if (here && uint32_t(i) < walk.bytes()) to[i] = from[byte];
        }
      }
    }
    join_beat<uint8_t, P>(to, out.w);
    out.bytes = uint8_t(walk.bytes());
    out.last = false;
  }
  // The input is over: all of the payload and its padding must have come, and no more. A frame that
  // is not ours has no descriptor, either.
  void end() {
#pragma HLS INLINE
    verdict.payload_words = (bytes + 3) / 4;
    const uint32_t used = padded_words(verdict.payload_words);
    const bool fits = phase == kDrain && beats * P == used;
    if (phase != kHeader && !fits) verdict.status = kBadLength;
    phase = kEnd;
  }
};

template <int P>
void unpool(BeatStream<P>& in, Stream<PoolPiece<P>, kShallow>& out, VerdictStream& verdict) {
  Unpool<P> state;
#pragma HLS ARRAY_PARTITION variable = state.header.d type = complete
#pragma HLS ARRAY_PARTITION variable = state.reader.hold type = complete
#pragma HLS ARRAY_PARTITION variable = state.current type = complete
  uint32_t line[kPoolWindows<P>][Unpool<P>::kHalf];
#pragma HLS ARRAY_PARTITION variable = line type = complete dim = 2
#pragma HLS BIND_STORAGE variable = line type = ram_2p
  while (!state.done()) {
#pragma HLS PIPELINE II = 1 style = flp
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    // A row takes at least kRowCycles steps.
#pragma HLS DEPENDENCE variable = line type = inter direction = RAW distance = 8 dependent = true
    cycle();
    Beat<P> beat = {};
    if (state.takes()) beat = in.read();
    const uint16_t at = state.line();
    uint32_t above[Unpool<P>::kHalf], below[Unpool<P>::kHalf];
#pragma HLS ARRAY_PARTITION variable = above type = complete
#pragma HLS ARRAY_PARTITION variable = below type = complete
    for (int i = 0; i < Unpool<P>::kHalf; i++) {
#pragma HLS UNROLL
      above[i] = state.walk.band_row > 0 ? line[at][i] : 0;
    }
    PoolPiece<P> piece;
    bool valid;
    state.step(beat, above, below, piece, valid);
    for (int i = 0; i < Unpool<P>::kHalf; i++) {
#pragma HLS UNROLL
      if (valid) line[at][i] = below[i];
    }
    if (valid) out.write(piece);
  }
  PoolPiece<P> end = {};
  end.last = true;
  out.write(end);
  verdict.write(state.verdict);
}

template <int L>
void pool_decompress(BeatStream<L>& in, BeatStream<L>& out, VerdictStream& verdict) {
#pragma HLS INLINE
  BeatStream<kPoolLanes<L>> pieces("pool payload"), packed("pool packed");
  Stream<PoolPiece<kPoolLanes<L>>, kShallow> rows("pool rows");
  ACTDMA_PROCESS(narrow<L, kPoolLanes<L>>(in, pieces));
  ACTDMA_PROCESS(unpool<kPoolLanes<L>>(pieces, rows, verdict));
  ACTDMA_PROCESS(pack_bytes<kPoolLanes<L>>(rows, packed));
  ACTDMA_PROCESS(widen<kPoolLanes<L>, L>(packed, out));
  ACTDMA_REGION_END();
}

}  // namespace actdma
