// AVX-512 with VBMI2, GFNI and VPCLMULQDQ (Ice Lake, Zen 4 and later): the processor compresses and
// expands a vector in one instruction, and transposes squares of 8 x 8 bits in another. Compressing
// is always done in registers: the form of it that stores to memory is slow.
#include "kernels.hpp"

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
// GCC's own header initialises undefined vectors with themselves (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <algorithm>

#include "bits.hpp"
#include "records.hpp"

#define ACTDMA_AVX512                                                 \
  __attribute__((                                                     \
      target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,gfni," \
             "vpclmulqdq,pclmul,sse4.2,popcnt,lzcnt,prfchw")))

namespace actdma::native {
namespace {

// `v` moved on by as many bits as `factors` say, plus `next`.
ACTDMA_AVX512 inline __m512i fold(__m512i v, __m512i factors, __m512i next) {
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(v, factors, 0x00),
                                   _mm512_clmulepi64_epi128(v, factors, 0x11), next, 0x96);
}

template <int kBits>
ACTDMA_AVX512 inline __m512i factors() {
  constexpr auto kLow = static_cast<long long>(crc_fold_factor(kBits + 64));
  constexpr auto kHigh = static_cast<long long>(crc_fold_factor(kBits));
  return _mm512_set_epi64(kHigh, kLow, kHigh, kLow, kHigh, kLow, kHigh, kLow);
}

// The CRC-32C of rows of four vectors, before its last inversion.
class RowCrc {
 public:
  static constexpr size_t kRow = 4;

  ACTDMA_AVX512 explicit RowCrc(uint32_t crc)
      : first_(_mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(~crc)))) {
    for (__m512i& sum : sums_) sum = _mm512_setzero_si512();
  }

  ACTDMA_AVX512 void add(const __m512i row[kRow]) {
    const __m512i next = factors<512 * kRow>();
    sums_[0] = fold(sums_[0], next, _mm512_xor_si512(row[0], first_));
    for (size_t i = 1; i < kRow; i++) sums_[i] = fold(sums_[i], next, row[i]);
    first_ = _mm512_setzero_si512();
  }

  // Of the rows and the `chunks` at `data`.
  ACTDMA_AVX512 uint64_t finish(const uint8_t* data, size_t chunks) const {
    const __m512i one = factors<512>(), two = factors<1024>();
    __m512i v = fold(fold(sums_[0], two, sums_[2]), one, fold(sums_[1], two, sums_[3]));
    for (size_t i = 0; i < chunks; i++) v = fold(v, one, _mm512_loadu_si512(data + 64 * i));
    // The four lanes onto the last one: 384, 256, 128 and 0 bits on.
    const __m512i lanes = _mm512_set_epi64(
        0, 0, static_cast<long long>(crc_fold_factor(128)),
        static_cast<long long>(crc_fold_factor(192)), static_cast<long long>(crc_fold_factor(256)),
        static_cast<long long>(crc_fold_factor(320)), static_cast<long long>(crc_fold_factor(384)),
        static_cast<long long>(crc_fold_factor(448)));
    alignas(64) uint64_t lane[8];
    _mm512_store_si512(lane, fold(v, lanes, _mm512_maskz_mov_epi64(0xC0, v)));
    const uint64_t rest = _mm_crc32_u64(0, lane[0] ^ lane[2] ^ lane[4] ^ lane[6]);
    return _mm_crc32_u64(rest, lane[1] ^ lane[3] ^ lane[5] ^ lane[7]);
  }

 private:
  __m512i first_;  // what was before, added to the first vector
  __m512i sums_[kRow];
};

ACTDMA_AVX512 uint32_t crc32c(uint32_t crc, const uint8_t* data, size_t bytes) {
  uint64_t rest = static_cast<uint32_t>(~crc);
  if (bytes >= 256) {
    RowCrc rows(crc);
    for (; bytes >= 256; data += 256, bytes -= 256) {
      const __m512i row[] = {_mm512_loadu_si512(data), _mm512_loadu_si512(data + 64),
                             _mm512_loadu_si512(data + 128), _mm512_loadu_si512(data + 192)};
      rows.add(row);
    }
    rest = rows.finish(data, bytes / 64);
    data += bytes / 64 * 64;
    bytes %= 64;
  }
  for (; bytes >= 8; data += 8, bytes -= 8) rest = _mm_crc32_u64(rest, load<uint64_t>(data));
  for (; bytes; data++, bytes--) rest = _mm_crc32_u8(static_cast<uint32_t>(rest), *data);
  return ~static_cast<uint32_t>(rest);
}

ACTDMA_AVX512 inline __m512i load_ahead(const uint8_t* from) {
  ACTDMA_PREFETCH_READ(from);
  return _mm512_loadu_si512(from);
}

ACTDMA_AVX512 inline void store_ahead(uint8_t* to, __m512i v) {
  ACTDMA_PREFETCH_WRITE(to);
  _mm512_storeu_si512(to, v);
}

// Writes mask and data of a chunk, and moves on behind them.
template <int kLog2>
ACTDMA_AVX512 inline void compress_chunk(__m512i v, uint8_t*& mask, uint8_t*& data) {
  ACTDMA_PREFETCH_WRITE(data);
  __m512i packed;
  uint64_t bits;
  if constexpr (kLog2 == 0) {
    const __mmask64 set = _mm512_test_epi8_mask(v, v);
    packed = _mm512_maskz_compress_epi8(set, v);
    store<uint64_t>(mask, bits = set);
  } else if constexpr (kLog2 == 1) {
    const __mmask32 set = _mm512_test_epi16_mask(v, v);
    packed = _mm512_maskz_compress_epi16(set, v);
    store<uint32_t>(mask, static_cast<uint32_t>(bits = set));
  } else {
    const __mmask16 set = _mm512_test_epi32_mask(v, v);
    packed = _mm512_maskz_compress_epi32(set, v);
    store<uint16_t>(mask, static_cast<uint16_t>(bits = set));
  }
  mask += 8 >> kLog2;
  _mm512_storeu_si512(data, packed);
  data += static_cast<size_t>(__builtin_popcountll(bits)) << kLog2;
}

// The first `count` rows of a side, of which one is taken on at a time.
template <bool kCrc>
class SideRows {
 public:
  ACTDMA_AVX512 SideRows(const Side& side, size_t count)
      : crc_(side.frame_crc), from_(side.rows), to_(side.to), left_(count) {}

  ACTDMA_AVX512 void step() {
    if (left_ == 0) return;
    const __m512i row[] = {_mm512_loadu_si512(from_), _mm512_loadu_si512(from_ + 64),
                           _mm512_loadu_si512(from_ + 128), _mm512_loadu_si512(from_ + 192)};
    if constexpr (kCrc) crc_.add(row);
    if (to_) {
      for (const __m512i v : row) {
        _mm512_stream_si512(reinterpret_cast<__m512i*>(to_), v);
        to_ += 64;
      }
    }
    from_ += Side::kRowBytes;
    left_--;
  }

  ACTDMA_AVX512 void finish(Side& side, size_t count) {
    if (kCrc && count) side.frame_crc = ~static_cast<uint32_t>(crc_.finish(from_, 0));
    side.advance(count);
  }

 private:
  RowCrc crc_;
  const uint8_t* from_;
  uint8_t* to_;
  size_t left_;
};

template <int kLog2, bool kCrc>
ACTDMA_AVX512 inline uint8_t* compress_rows(const uint8_t* raw, size_t rows, uint8_t* mask,
                                            uint8_t* data, Side& side) {
  const size_t beside = std::min(rows, side.row_count);
  RowCrc crc(side.raw_crc);
  SideRows<kCrc> side_rows(side, beside);
  for (size_t i = 0; i < rows; i++, raw += Side::kRowBytes) {
    const __m512i row[] = {load_ahead(raw), load_ahead(raw + 64), load_ahead(raw + 128),
                           load_ahead(raw + 192)};
    for (const __m512i v : row) compress_chunk<kLog2>(v, mask, data);
    if constexpr (kCrc) crc.add(row);
    side_rows.step();
  }
  if constexpr (kCrc) side.raw_crc = ~static_cast<uint32_t>(crc.finish(raw, 0));
  side.raw_done = kCrc;
  side_rows.finish(side, beside);
  return data;
}

template <int kLog2>
ACTDMA_AVX512 uint8_t* compress(const uint8_t* raw, size_t chunks, uint8_t* mask, uint8_t* data,
                                Side& side) {
  const size_t rows = chunks / RowCrc::kRow;
  if (rows && chunks % RowCrc::kRow == 0) {
    return side.with_crc ? compress_rows<kLog2, true>(raw, rows, mask, data, side)
                         : compress_rows<kLog2, false>(raw, rows, mask, data, side);
  }
  for (size_t i = 0; i < chunks; i++, raw += kChunkBytes) {
    compress_chunk<kLog2>(load_ahead(raw), mask, data);
  }
  return data;
}

// A chunk; moves on behind its mask and data.
template <int kLog2>
ACTDMA_AVX512 inline __m512i expand_chunk(const uint8_t*& mask, const uint8_t*& data) {
  ACTDMA_PREFETCH_READ(data);
  const __m512i packed = _mm512_loadu_si512(data);
  __m512i v;
  uint64_t bits;
  if constexpr (kLog2 == 0) {
    v = _mm512_maskz_expand_epi8(bits = load<uint64_t>(mask), packed);
  } else if constexpr (kLog2 == 1) {
    bits = load<uint32_t>(mask);
    v = _mm512_maskz_expand_epi16(static_cast<__mmask32>(bits), packed);
  } else {
    bits = load<uint16_t>(mask);
    v = _mm512_maskz_expand_epi32(static_cast<__mmask16>(bits), packed);
  }
  mask += 8 >> kLog2;
  data += static_cast<size_t>(__builtin_popcountll(bits)) << kLog2;
  return v;
}

template <int kLog2, bool kCrc, bool kStream>
ACTDMA_AVX512 inline void expand_rows(const uint8_t* mask, const uint8_t* data, size_t rows,
                                      uint8_t* raw, Side& side) {
  const size_t beside = std::min(rows, side.row_count);
  RowCrc crc(side.raw_crc);
  SideRows<kCrc> side_rows(side, beside);
  for (size_t i = 0; i < rows; i++) {
    __m512i row[RowCrc::kRow];
    for (__m512i& v : row) {
      v = expand_chunk<kLog2>(mask, data);
      if constexpr (kStream) {
        _mm512_stream_si512(reinterpret_cast<__m512i*>(raw), v);
      } else {
        store_ahead(raw, v);
      }
      raw += kChunkBytes;
    }
    if constexpr (kCrc) crc.add(row);
    side_rows.step();
  }
  if constexpr (kCrc) side.raw_crc = ~static_cast<uint32_t>(crc.finish(raw, 0));
  side.raw_done = kCrc;
  side_rows.finish(side, beside);
}

template <int kLog2>
ACTDMA_AVX512 void expand(const uint8_t* mask, const uint8_t* data, size_t chunks, uint8_t* raw,
                          Side& side) {
  const size_t rows = chunks / RowCrc::kRow;
  if (rows && chunks % RowCrc::kRow == 0) {
    const auto expand_all = side.with_crc      ? side.past_caches ? expand_rows<kLog2, true, true>
                                                                  : expand_rows<kLog2, true, false>
                            : side.past_caches ? expand_rows<kLog2, false, true>
                                               : expand_rows<kLog2, false, false>;
    return expand_all(mask, data, rows, raw, side);
  }
  for (size_t i = 0; i < chunks; i++, raw += kChunkBytes) {
    store_ahead(raw, expand_chunk<kLog2>(mask, data));
  }
}

// Where the bytes of a vector come from.
struct Bytes {
  uint8_t at[64];

  ACTDMA_AVX512 __m512i indices() const { return _mm512_loadu_si512(at); }
};

// The orders of bytes that make bit planes of elements and back. `transposed` turns 8 bytes, the
// last first, into 8 bytes of which byte j has the bits j. Two bytes of 32 elements make a vector
// of 16 planes, so elements of 4 bytes make two; byte b of the 64 elements of 1 byte makes 8.
struct PlaneOrders {
  Bytes elements16;     // 32 elements of 2 bytes: 8 low ones, ..., 8 high ones
  Bytes elements32[2];  // 32 elements of 4 bytes in two vectors: bytes 0 and 1, bytes 2 and 3
  Bytes elements8;      // 64 elements of 1 byte
  Bytes planes;         // from there on to 16 planes
  Bytes planes8;        // from there on to 8 planes of 64
  Bytes from_planes;    // and back: 16 planes
  Bytes from_planes8;   // 8 planes of 64
  Bytes to_elements16;
  Bytes to_elements32[2];
};

constexpr PlaneOrders make_plane_orders() {
  PlaneOrders orders{};
  for (int q = 0; q < 8; q++) {  // quadwords
    for (int j = 0; j < 8; j++) {
      const int half = q / 4, element = 8 * (q % 4) + 7 - j;
      orders.elements16.at[8 * q + j] = static_cast<uint8_t>(2 * element + half);
      for (int v = 0; v < 2; v++) {
        orders.elements32[v].at[8 * q + j] = static_cast<uint8_t>(4 * element + 2 * v + half);
      }
      orders.elements8.at[8 * q + j] = static_cast<uint8_t>(8 * q + 7 - j);
      orders.planes.at[4 * (8 * half + j) + q % 4] = static_cast<uint8_t>(8 * q + j);
      orders.planes8.at[8 * j + q] = static_cast<uint8_t>(8 * q + j);
      orders.from_planes.at[8 * q + 7 - j] = static_cast<uint8_t>(4 * (8 * half + j) + q % 4);
      orders.from_planes8.at[8 * q + 7 - j] = static_cast<uint8_t>(8 * j + q);
    }
  }
  for (int e = 0; e < 32; e++) {
    for (int b = 0; b < 2; b++) {
      const int from = 8 * (4 * b + e / 8) + e % 8;
      orders.to_elements16.at[2 * e + b] = static_cast<uint8_t>(from);
      for (int v = 0; v < 2; v++) {  // bytes 2 and 3 come from the second vector
        orders.to_elements32[e / 16].at[4 * (e % 16) + 2 * v + b] =
            static_cast<uint8_t>(64 * v + from);
      }
    }
  }
  return orders;
}

constexpr PlaneOrders kOrders = make_plane_orders();

// Bit i of byte j: bit j of byte 7 - i of the same quadword.
ACTDMA_AVX512 inline __m512i transposed(__m512i quadwords) {
  return _mm512_gf2p8affine_epi64_epi8(_mm512_set1_epi64(0x8040201008040201), quadwords, 0);
}

template <int kLog2>
ACTDMA_AVX512 inline __m512i broadcast(uint32_t element) {
  if constexpr (kLog2 == 0) return _mm512_set1_epi8(static_cast<char>(element));
  if constexpr (kLog2 == 1) return _mm512_set1_epi16(static_cast<short>(element));
  return _mm512_set1_epi32(static_cast<int>(element));
}

// A group's elements in as many vectors as it takes, and their bit planes.
template <int kLog2>
struct Vectors {
  static constexpr int kCount = kLog2 == 2 ? 2 : 1;
  static constexpr size_t kLanes = 64 >> kLog2;
  static constexpr size_t kGroup = kCount * kLanes;
  static constexpr int kPlaneWords = kGroup / 32;
  __m512i v[kCount];

  ACTDMA_AVX512 static Vectors load(const uint8_t* from, size_t count) {
    Vectors group;
    for (int i = 0; i < kCount; i++) group.v[i] = _mm512_loadu_si512(from + 64 * i);
    if (count < kGroup) group.fill_from(count, broadcast<kLog2>(native::load<uint32_t>(from)));
    return group;
  }

  ACTDMA_AVX512 void write(uint8_t* to) const {
    for (int i = 0; i < kCount; i++) _mm512_storeu_si512(to + 64 * i, v[i]);
  }

  ACTDMA_AVX512 void clear_from(size_t count) { fill_from(count, _mm512_setzero_si512()); }

  ACTDMA_AVX512 void fill_from(size_t count, __m512i other) {
    for (int i = 0; i < kCount; i++) {
      const size_t before = i * kLanes;
      const uint64_t kept = count <= before            ? 0
                            : count >= before + kLanes ? ~uint64_t{0}
                                                       : (uint64_t{1} << (count - before)) - 1;
      if constexpr (kLog2 == 0) v[i] = _mm512_mask_mov_epi8(other, kept, v[i]);
      if constexpr (kLog2 == 1) {
        v[i] = _mm512_mask_mov_epi16(other, static_cast<__mmask32>(kept), v[i]);
      }
      if constexpr (kLog2 == 2) {
        v[i] = _mm512_mask_mov_epi32(other, static_cast<__mmask16>(kept), v[i]);
      }
    }
  }

  ACTDMA_AVX512 uint8_t* write_planes(uint32_t count, uint8_t* to) const {
    const __m512i order = (kLog2 == 0 ? kOrders.planes8 : kOrders.planes).indices();
    if constexpr (kLog2 == 2) {
      for (uint32_t i = 0; 16 * i < count; i++) {
        const __m512i bytes = _mm512_permutex2var_epi8(v[0], kOrders.elements32[i].indices(), v[1]);
        _mm512_storeu_si512(to + 64 * i, _mm512_permutexvar_epi8(order, transposed(bytes)));
      }
    } else {
      const Bytes& elements = kLog2 == 0 ? kOrders.elements8 : kOrders.elements16;
      const __m512i bytes = _mm512_permutexvar_epi8(elements.indices(), v[0]);
      _mm512_storeu_si512(to, _mm512_permutexvar_epi8(order, transposed(bytes)));
    }
    return to + 4 * kPlaneWords * count;
  }

  ACTDMA_AVX512 static Vectors read_planes(uint32_t count, const uint8_t* from) {
    const __m512i order = (kLog2 == 0 ? kOrders.from_planes8 : kOrders.from_planes).indices();
    const uint64_t words = (uint64_t{1} << kPlaneWords * count) - 1;
    __m512i bytes[kCount];
    for (int i = 0; i < kCount; i++) {
      const auto there = static_cast<__mmask16>(words >> 16 * i);
      const __m512i planes = _mm512_maskz_loadu_epi32(there, from + 64 * i);
      bytes[i] = transposed(_mm512_permutexvar_epi8(order, planes));
    }
    Vectors group;
    if constexpr (kLog2 == 2) {
      for (int i = 0; i < 2; i++) {
        group.v[i] =
            _mm512_permutex2var_epi8(bytes[0], kOrders.to_elements32[i].indices(), bytes[1]);
      }
    } else if constexpr (kLog2 == 1) {
      group.v[0] = _mm512_permutexvar_epi8(kOrders.to_elements16.indices(), bytes[0]);
    } else {
      group.v[0] = bytes[0];
    }
    return group;
  }
};

ACTDMA_AVX512 inline uint32_t least16(__m128i v) {
  return static_cast<uint32_t>(_mm_extract_epi16(_mm_minpos_epu16(v), 0));
}

// Of unsigned numbers of 16 bits.
ACTDMA_AVX512 inline Range range16(__m512i v) {
  const __m256i a = _mm512_castsi512_si256(v), b = _mm512_extracti64x4_epi64(v, 1);
  const __m256i low = _mm256_min_epu16(a, b), high = _mm256_max_epu16(a, b);
  const __m128i least =
      _mm_min_epu16(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
  const __m128i greatest =
      _mm_max_epu16(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
  return {least16(least), 0xFFFF ^ least16(_mm_xor_si128(greatest, _mm_set1_epi16(-1)))};
}

// Of the unsigned numbers in a group.
ACTDMA_AVX512 inline Range range(const Vectors<0>& group) {
  const __m512i low = _mm512_and_si512(group.v[0], _mm512_set1_epi16(0xFF));
  const __m512i high = _mm512_srli_epi16(group.v[0], 8);
  return {range16(_mm512_min_epu16(low, high)).least,
          range16(_mm512_max_epu16(low, high)).greatest};
}

ACTDMA_AVX512 inline Range range(const Vectors<1>& group) { return range16(group.v[0]); }

ACTDMA_AVX512 inline Range range(const Vectors<2>& group) {
  return {_mm512_reduce_min_epu32(_mm512_min_epu32(group.v[0], group.v[1])),
          _mm512_reduce_max_epu32(_mm512_max_epu32(group.v[0], group.v[1]))};
}

// Of a group's exponents, and whether an element is negative.
template <int kExponent, int kLog2>
ACTDMA_AVX512 inline Exponents exponents(const Vectors<kLog2>& group) {
  __m512i tops = group.v[0];  // sign and exponent, in any order
  if constexpr (kLog2 == 2) {
    tops =
        _mm512_packus_epi32(_mm512_srli_epi32(group.v[0], 16), _mm512_srli_epi32(group.v[1], 16));
  }
  const __m512i positive = _mm512_and_si512(tops, _mm512_set1_epi16(0x7FFF));
  const Range range = range16(_mm512_srli_epi16(positive, 15 - kExponent));
  return {range, _mm512_movepi16_mask(tops) != 0};
}

// The operations of record_vectors.hpp.
using Vector = __m512i;
using Shift = __m128i;

ACTDMA_AVX512 inline Shift make_shift(uint32_t bits) {
  return _mm_cvtsi32_si128(static_cast<int>(bits));
}

template <int kLog2>
ACTDMA_AVX512 inline Vector add(Vector a, Vector b) {
  if constexpr (kLog2 == 0) return _mm512_add_epi8(a, b);
  if constexpr (kLog2 == 1) return _mm512_add_epi16(a, b);
  return _mm512_add_epi32(a, b);
}

template <int kLog2>
ACTDMA_AVX512 inline Vector subtract(Vector a, Vector b) {
  return kLog2 == 1 ? _mm512_sub_epi16(a, b) : _mm512_sub_epi32(a, b);
}

template <int kLog2>
ACTDMA_AVX512 inline Vector left(Vector v, Shift by) {
  return kLog2 == 1 ? _mm512_sll_epi16(v, by) : _mm512_sll_epi32(v, by);
}

template <int kLog2>
ACTDMA_AVX512 inline Vector right(Vector v, Shift by) {
  return kLog2 == 1 ? _mm512_srl_epi16(v, by) : _mm512_srl_epi32(v, by);
}

template <int kLog2, int kBy>
ACTDMA_AVX512 inline Vector left(Vector v) {
  return kLog2 == 1 ? _mm512_slli_epi16(v, kBy) : _mm512_slli_epi32(v, kBy);
}

template <int kLog2, int kBy>
ACTDMA_AVX512 inline Vector right(Vector v) {
  return kLog2 == 1 ? _mm512_srli_epi16(v, kBy) : _mm512_srli_epi32(v, kBy);
}

#define ACTDMA_TARGET ACTDMA_AVX512
#include "record_loops.hpp"

struct Floats {
  static constexpr size_t kLanes = 16;
  __m512 v;

  ACTDMA_AVX512 static Floats load(const float* from) { return {_mm512_load_ps(from)}; }
  ACTDMA_AVX512 static Floats all(float value) { return {_mm512_set1_ps(value)}; }
  ACTDMA_AVX512 void store(float* to) const { _mm512_store_ps(to, v); }
  ACTDMA_AVX512 void add_product(Floats a, Floats b) { v = _mm512_fmadd_ps(a.v, b.v, v); }
};

constexpr size_t kTileColumns = 8;
#include "product_loops.hpp"
#include "record_vectors.hpp"

ACTDMA_AVX512 uint32_t count_bits(const uint8_t* mask, size_t words) {
  uint32_t total = 0;
  size_t i = 0;
  for (; i + 2 <= words; i += 2) total += __builtin_popcountll(load<uint64_t>(mask + 4 * i));
  for (; i < words; i++) total += __builtin_popcount(load<uint32_t>(mask + 4 * i));
  return total;
}

template <int kLog2>
ACTDMA_AVX512 size_t count_zeros(const uint8_t* raw, size_t chunks) {
  size_t zeros = 0;
  for (size_t i = 0; i < chunks; i++, raw += kChunkBytes) {
    const __m512i v = _mm512_loadu_si512(raw);
    const uint64_t unset = kLog2 == 0   ? _mm512_testn_epi8_mask(v, v)
                           : kLog2 == 1 ? _mm512_testn_epi16_mask(v, v)
                           : kLog2 == 2 ? _mm512_testn_epi32_mask(v, v)
                                        : _mm512_testn_epi64_mask(v, v);
    zeros += static_cast<size_t>(__builtin_popcountll(unset));
  }
  return zeros;
}

ACTDMA_AVX512 void stream(uint8_t* to, const uint8_t* from, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 64) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), _mm512_loadu_si512(from + i));
  }
}

ACTDMA_AVX512 void stream_end() { _mm_sfence(); }

}  // namespace

const Kernels* avx512_kernels() {
  static constexpr Kernels kSet{"avx512",
                                {compress<0>, compress<1>, compress<2>},
                                {expand<0>, expand<1>, expand<2>},
                                ACTDMA_RECORDS,
                                count_bits,
                                {count_zeros<0>, count_zeros<1>, count_zeros<2>, count_zeros<3>},
                                stream,
                                stream_end,
                                crc32c,
                                ACTDMA_PRODUCT};
  const bool there = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                     __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi") &&
                     __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("gfni") &&
                     __builtin_cpu_supports("vpclmulqdq") && avx2_kernels();
  return there ? &kSet : nullptr;
}

}  // namespace actdma::native

#else

const actdma::native::Kernels* actdma::native::avx512_kernels() { return nullptr; }

#endif
