// AVX2: eight elements at a time through a table of shuffles; bit planes through byte masks, and
// back by swapping bits within squares of 8 x 8.
#include "kernels.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#include "bits.hpp"
#include "records.hpp"

#define ACTDMA_AVX2 __attribute__((target("avx2,fma,pclmul,sse4.2,popcnt,lzcnt,prfchw")))

namespace actdma::native {
namespace {

constexpr ShuffleTables kTables = make_shuffle_tables();

ACTDMA_AVX2 inline __m128i load8(const uint8_t* from) {
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
}

ACTDMA_AVX2 inline __m128i load16(const uint8_t* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

ACTDMA_AVX2 inline __m256i load32(const uint8_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

// `v` moved on by as many bits as `factors` say, plus `next`.
ACTDMA_AVX2 inline __m128i fold(__m128i v, __m128i factors, __m128i next) {
  const __m128i low = _mm_clmulepi64_si128(v, factors, 0x00);
  const __m128i high = _mm_clmulepi64_si128(v, factors, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

template <int kBits>
ACTDMA_AVX2 inline __m128i factors() {
  constexpr auto kLow = static_cast<long long>(crc_fold_factor(kBits + 64));
  constexpr auto kHigh = static_cast<long long>(crc_fold_factor(kBits));
  return _mm_set_epi64x(kHigh, kLow);
}

ACTDMA_AVX2 uint32_t crc32c(uint32_t crc, const uint8_t* data, size_t bytes) {
  uint64_t rest = static_cast<uint32_t>(~crc);
  if (bytes >= 64) {
    __m128i a = _mm_xor_si128(load16(data), _mm_cvtsi32_si128(static_cast<int>(rest)));
    __m128i b = load16(data + 16);
    __m128i c = load16(data + 32);
    __m128i d = load16(data + 48);
    const __m128i next = factors<512>();
    for (data += 64, bytes -= 64; bytes >= 64; data += 64, bytes -= 64) {
      a = fold(a, next, load16(data));
      b = fold(b, next, load16(data + 16));
      c = fold(c, next, load16(data + 32));
      d = fold(d, next, load16(data + 48));
    }
    a = fold(a, factors<256>(), c);
    b = fold(b, factors<256>(), d);
    const __m128i v = fold(a, factors<128>(), b);
    rest = _mm_crc32_u64(0, static_cast<uint64_t>(_mm_cvtsi128_si64(v)));
    rest = _mm_crc32_u64(rest, static_cast<uint64_t>(_mm_extract_epi64(v, 1)));
  }
  for (; bytes >= 8; data += 8, bytes -= 8) rest = _mm_crc32_u64(rest, load<uint64_t>(data));
  for (; bytes; data++, bytes--) rest = _mm_crc32_u8(static_cast<uint32_t>(rest), *data);
  return ~static_cast<uint32_t>(rest);
}

// Shuffles the first eight elements of `from` to `to`, whole vectors at a time.
template <int kLog2>
ACTDMA_AVX2 inline void shuffle(const uint8_t index[8], const uint8_t* from, uint8_t* to) {
  const __m128i order = load8(index);
  if constexpr (kLog2 == 0) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_shuffle_epi8(load8(from), order));
  } else if constexpr (kLog2 == 1) {
    // Twice the index, and one more, per element; saturated so that 0x80 keeps its top bit.
    const __m128i pairs = _mm_unpacklo_epi8(order, order);
    const __m128i bytes = _mm_or_si128(_mm_adds_epu8(pairs, pairs), _mm_set1_epi16(0x0100));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_shuffle_epi8(load16(from), bytes));
  } else {
    const __m256i words = _mm256_cvtepi8_epi32(order);
    const __m256i v = _mm256_permutevar8x32_epi32(load32(from), words);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                        _mm256_andnot_si256(_mm256_srai_epi32(words, 31), v));
  }
}

// One bit for each element of a chunk, 1 where it has any bit set.
template <int kLog2>
ACTDMA_AVX2 inline uint64_t nonzero(const uint8_t* chunk) {
  const __m256i zero = _mm256_setzero_si256();
  const __m256i low = load32(chunk);
  const __m256i high = load32(chunk + 32);
  const auto bits = [](__m256i v)
                        ACTDMA_AVX2 { return static_cast<uint32_t>(_mm256_movemask_epi8(v)); };
  if constexpr (kLog2 == 0) {
    const uint64_t zeros = bits(_mm256_cmpeq_epi8(low, zero)) |
                           static_cast<uint64_t>(bits(_mm256_cmpeq_epi8(high, zero))) << 32;
    return ~zeros;
  } else if constexpr (kLog2 == 1) {
    // Packing goes by 128-bit lanes: put the quarters back in order.
    const __m256i packed =
        _mm256_packs_epi16(_mm256_cmpeq_epi16(low, zero), _mm256_cmpeq_epi16(high, zero));
    return static_cast<uint32_t>(~bits(_mm256_permute4x64_epi64(packed, 0xD8)));
  } else if constexpr (kLog2 == 3) {
    const auto pairs = [](__m256i v) ACTDMA_AVX2 {
      return static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(v)));
    };
    return (pairs(_mm256_cmpeq_epi64(low, zero)) | pairs(_mm256_cmpeq_epi64(high, zero)) << 4) ^
           0xFF;
  } else {
    const auto quads = [](__m256i v) ACTDMA_AVX2 {
      return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(v)));
    };
    return (quads(_mm256_cmpeq_epi32(low, zero)) | quads(_mm256_cmpeq_epi32(high, zero)) << 8) ^
           0xFFFF;
  }
}

template <int kLog2>
ACTDMA_AVX2 uint8_t* compress(const uint8_t* raw, size_t chunks, uint8_t* mask, uint8_t* data,
                              Side&) {
  for (size_t i = 0; i < chunks; i++, raw += kChunkBytes, mask += 8 >> kLog2) {
    ACTDMA_PREFETCH_READ(raw);
    ACTDMA_PREFETCH_WRITE(data);
    const uint64_t set = nonzero<kLog2>(raw);
    if constexpr (kLog2 == 0) store<uint64_t>(mask, set);
    if constexpr (kLog2 == 1) store<uint32_t>(mask, static_cast<uint32_t>(set));
    if constexpr (kLog2 == 2) store<uint16_t>(mask, static_cast<uint16_t>(set));
#pragma GCC unroll 8
    for (int j = 0; j < 8 >> kLog2; j++) {
      const uint32_t bits = set >> 8 * j & 0xFF;
      shuffle<kLog2>(kTables.compress[bits], raw + (8 * j << kLog2), data);
      data += static_cast<size_t>(__builtin_popcount(bits)) << kLog2;
    }
  }
  return data;
}

template <int kLog2>
ACTDMA_AVX2 void expand(const uint8_t* mask, const uint8_t* data, size_t chunks, uint8_t* raw,
                        Side&) {
  const uint8_t* const end = raw + chunks * kChunkBytes;
  for (; raw != end; raw += 8 << kLog2, mask++) {
    ACTDMA_PREFETCH_READ(data);
    ACTDMA_PREFETCH_WRITE(raw);
    shuffle<kLog2>(kTables.expand[*mask], data, raw);
    data += static_cast<size_t>(__builtin_popcount(*mask)) << kLog2;
  }
}

ACTDMA_AVX2 inline void store32(uint8_t* to, __m256i v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), v);
}

template <int kLog2>
ACTDMA_AVX2 inline __m256i broadcast(uint32_t element) {
  if constexpr (kLog2 == 0) return _mm256_set1_epi8(static_cast<char>(element));
  if constexpr (kLog2 == 1) return _mm256_set1_epi16(static_cast<short>(element));
  return _mm256_set1_epi32(static_cast<int>(element));
}

// The low and the high 16 bits of each of 16 elements. (Within 128 bits, packing goes by lanes.)
struct Halves {
  __m256i low, high;
};

ACTDMA_AVX2 inline Halves halves(__m256i a, __m256i b) {
  const __m256i field = _mm256_set1_epi32(0xFFFF);
  return {_mm256_packus_epi32(_mm256_and_si256(a, field), _mm256_and_si256(b, field)),
          _mm256_packus_epi32(_mm256_srli_epi32(a, 16), _mm256_srli_epi32(b, 16))};
}

// The low and the high byte of each of 32 elements, likewise.
ACTDMA_AVX2 inline Halves bytes(__m256i a, __m256i b) {
  const __m256i field = _mm256_set1_epi16(0xFF);
  return {_mm256_packus_epi16(_mm256_and_si256(a, field), _mm256_and_si256(b, field)),
          _mm256_packus_epi16(_mm256_srli_epi16(a, 8), _mm256_srli_epi16(b, 8))};
}

// Writes the eight bit planes of a row of 32 bytes, `kWords` words apart.
template <int kWords>
ACTDMA_AVX2 inline void write_row(__m256i row, uint8_t* to) {
#pragma GCC unroll 8
  for (int j = 7; j >= 0; j--) {
    store(to + 4 * kWords * j, static_cast<uint32_t>(_mm256_movemask_epi8(row)));
    row = _mm256_add_epi8(row, row);
  }
}

template <int kStep>
ACTDMA_AVX2 inline __m256i swap_bits(__m256i v, int64_t pattern) {
  const __m256i swapped = _mm256_and_si256(_mm256_xor_si256(v, _mm256_srli_epi64(v, kStep)),
                                           _mm256_set1_epi64x(pattern));
  return _mm256_xor_si256(v, _mm256_xor_si256(swapped, _mm256_slli_epi64(swapped, kStep)));
}

// The row of 32 bytes that has these eight bit planes.
ACTDMA_AVX2 inline __m256i row_of(__m256i planes) {
  // Byte q of plane j becomes byte j of quadword q: a square of 8 x 8 bits.
  const __m256i by_byte = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  __m256i v = _mm256_shuffle_epi8(planes, by_byte);
  v = _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  v = swap_bits<7>(v, 0x00AA00AA00AA00AA);  // Warren, Hacker's Delight, 7-3
  v = swap_bits<14>(v, 0x0000CCCC0000CCCC);
  return swap_bits<28>(v, 0x00000000F0F0F0F0);
}

// The first `words` words at `from`, at most eight; reads nothing else.
ACTDMA_AVX2 inline __m256i load_words(const uint8_t* from, int words) {
  const __m256i there =
      _mm256_cmpgt_epi32(_mm256_set1_epi32(words), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  return _mm256_maskload_epi32(reinterpret_cast<const int*>(from), there);
}

// A group's elements in as many vectors as it takes, and their bit planes.
template <int kLog2>
struct Vectors {
  static constexpr int kCount = kLog2 == 2 ? 4 : 2;
  static constexpr size_t kBytes = 32 * kCount;
  static constexpr size_t kGroup = kBytes >> kLog2;
  static constexpr int kPlaneWords = kGroup / 32;
  __m256i v[kCount];

  ACTDMA_AVX2 static Vectors load(const uint8_t* from, size_t count) {
    Vectors group;
    for (int i = 0; i < kCount; i++) group.v[i] = load32(from + 32 * i);
    if (count < kGroup) group.fill_from(count, broadcast<kLog2>(native::load<uint32_t>(from)));
    return group;
  }

  ACTDMA_AVX2 void write(uint8_t* to) const {
    for (int i = 0; i < kCount; i++) store32(to + 32 * i, v[i]);
  }

  ACTDMA_AVX2 void clear_from(size_t count) { fill_from(count, _mm256_setzero_si256()); }

  ACTDMA_AVX2 void fill_from(size_t count, __m256i other) {
    uint8_t all[2 * kBytes];
    for (int i = 0; i < kCount; i++) store32(all + kBytes + 32 * i, other);
    const size_t kept = count << kLog2;
    write(all);
    std::memcpy(all + kept, all + kBytes, kBytes - kept);
    for (int i = 0; i < kCount; i++) v[i] = load32(all + 32 * i);
  }

  ACTDMA_AVX2 uint8_t* write_planes(uint32_t count, uint8_t* to) const {
    if constexpr (kLog2 == 0) {
      if (count) {
        write_row<2>(v[0], to);
        write_row<2>(v[1], to + 4);
      }
    } else if constexpr (kLog2 == 1) {
      const auto [low, high] = bytes(v[0], v[1]);
      if (count) write_row<1>(_mm256_permute4x64_epi64(low, 0xD8), to);
      if (count > 8) write_row<1>(_mm256_permute4x64_epi64(high, 0xD8), to + 32);
    } else {
      const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
      const Halves a = halves(v[0], v[1]), b = halves(v[2], v[3]);
      const Halves low = bytes(a.low, b.low), high = bytes(a.high, b.high);
      const __m256i rows[4] = {low.low, low.high, high.low, high.high};
#pragma GCC unroll 4
      for (uint32_t i = 0; i < 4; i++) {
        if (count > 8 * i) {
          write_row<1>(_mm256_permutevar8x32_epi32(rows[i], order), to + 32 * i);
        }
      }
    }
    return to + 4 * kPlaneWords * count;
  }

  ACTDMA_AVX2 static Vectors read_planes(uint32_t count, const uint8_t* from) {
    const int words = static_cast<int>(kPlaneWords * count);
    if constexpr (kLog2 == 0) {
      const __m256 a = _mm256_castsi256_ps(load_words(from, words));
      const __m256 b = _mm256_castsi256_ps(load_words(from + 32, words - 8));
      const __m256i low = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88));
      const __m256i high = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xDD));
      return {row_of(_mm256_permute4x64_epi64(low, 0xD8)),
              row_of(_mm256_permute4x64_epi64(high, 0xD8))};
    } else if constexpr (kLog2 == 1) {
      const __m256i low = _mm256_permute4x64_epi64(row_of(load_words(from, words)), 0xD8);
      const __m256i high = _mm256_permute4x64_epi64(row_of(load_words(from + 32, words - 8)), 0xD8);
      return {_mm256_unpacklo_epi8(low, high), _mm256_unpackhi_epi8(low, high)};
    } else {
      const __m256i order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
      __m256i rows[4];
      for (int i = 0; i < 4; i++) {
        rows[i] =
            _mm256_permutevar8x32_epi32(row_of(load_words(from + 32 * i, words - 8 * i)), order);
      }
      const __m256i a = _mm256_unpacklo_epi8(rows[0], rows[1]);
      const __m256i b = _mm256_unpacklo_epi8(rows[2], rows[3]);
      const __m256i c = _mm256_unpackhi_epi8(rows[0], rows[1]);
      const __m256i d = _mm256_unpackhi_epi8(rows[2], rows[3]);
      return {_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b), _mm256_unpacklo_epi16(c, d),
              _mm256_unpackhi_epi16(c, d)};
    }
  }
};

ACTDMA_AVX2 inline uint32_t least16(__m128i v) {
  return static_cast<uint32_t>(_mm_extract_epi16(_mm_minpos_epu16(v), 0));
}

// Of the unsigned numbers of 16 bits in both vectors.
ACTDMA_AVX2 inline Range range16(__m256i a, __m256i b) {
  const __m256i low = _mm256_min_epu16(a, b), high = _mm256_max_epu16(a, b);
  const __m128i least =
      _mm_min_epu16(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
  const __m128i greatest =
      _mm_max_epu16(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
  return {least16(least), 0xFFFF ^ least16(_mm_xor_si128(greatest, _mm_set1_epi16(-1)))};
}

// Of the unsigned numbers in a group.
ACTDMA_AVX2 inline Range range(const Vectors<0>& group) {
  const auto [low, high] = bytes(group.v[0], group.v[1]);
  const __m256i zero = _mm256_setzero_si256();
  const __m256i least = _mm256_min_epu8(low, high), greatest = _mm256_max_epu8(low, high);
  return {
      range16(_mm256_unpacklo_epi8(least, zero), _mm256_unpackhi_epi8(least, zero)).least,
      range16(_mm256_unpacklo_epi8(greatest, zero), _mm256_unpackhi_epi8(greatest, zero)).greatest};
}

ACTDMA_AVX2 inline Range range(const Vectors<1>& group) { return range16(group.v[0], group.v[1]); }

ACTDMA_AVX2 inline Range range(const Vectors<2>& group) {
  const __m256i* const v = group.v;
  const __m256i low = _mm256_min_epu32(_mm256_min_epu32(v[0], v[1]), _mm256_min_epu32(v[2], v[3]));
  const __m256i high = _mm256_max_epu32(_mm256_max_epu32(v[0], v[1]), _mm256_max_epu32(v[2], v[3]));
  __m128i least = _mm_min_epu32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
  __m128i greatest = _mm_max_epu32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
  least = _mm_min_epu32(least, _mm_shuffle_epi32(least, 0x4E));
  least = _mm_min_epu32(least, _mm_shuffle_epi32(least, 0xB1));
  greatest = _mm_max_epu32(greatest, _mm_shuffle_epi32(greatest, 0x4E));
  greatest = _mm_max_epu32(greatest, _mm_shuffle_epi32(greatest, 0xB1));
  return {static_cast<uint32_t>(_mm_cvtsi128_si32(least)),
          static_cast<uint32_t>(_mm_cvtsi128_si32(greatest))};
}

// Of a group's exponents, and whether an element is negative.
template <int kExponent, int kLog2>
ACTDMA_AVX2 inline Exponents exponents(const Vectors<kLog2>& group) {
  Halves tops{group.v[0], group.v[1]};  // sign and exponent are in them, in any order
  if constexpr (kLog2 == 2) {
    tops = {halves(group.v[0], group.v[1]).high, halves(group.v[2], group.v[3]).high};
  }
  const __m256i positive = _mm256_set1_epi16(0x7FFF);
  const Range range =
      range16(_mm256_srli_epi16(_mm256_and_si256(tops.low, positive), 15 - kExponent),
              _mm256_srli_epi16(_mm256_and_si256(tops.high, positive), 15 - kExponent));
  const __m256i signs = _mm256_or_si256(tops.low, tops.high);
  return {range, !_mm256_testz_si256(signs, _mm256_set1_epi16(-0x8000))};
}

// The operations of record_vectors.hpp.
using Vector = __m256i;
using Shift = __m128i;

ACTDMA_AVX2 inline Shift make_shift(uint32_t bits) {
  return _mm_cvtsi32_si128(static_cast<int>(bits));
}

template <int kLog2>
ACTDMA_AVX2 inline Vector add(Vector a, Vector b) {
  if constexpr (kLog2 == 0) return _mm256_add_epi8(a, b);
  if constexpr (kLog2 == 1) return _mm256_add_epi16(a, b);
  return _mm256_add_epi32(a, b);
}

template <int kLog2>
ACTDMA_AVX2 inline Vector subtract(Vector a, Vector b) {
  return kLog2 == 1 ? _mm256_sub_epi16(a, b) : _mm256_sub_epi32(a, b);
}

template <int kLog2>
ACTDMA_AVX2 inline Vector left(Vector v, Shift by) {
  return kLog2 == 1 ? _mm256_sll_epi16(v, by) : _mm256_sll_epi32(v, by);
}

template <int kLog2>
ACTDMA_AVX2 inline Vector right(Vector v, Shift by) {
  return kLog2 == 1 ? _mm256_srl_epi16(v, by) : _mm256_srl_epi32(v, by);
}

template <int kLog2, int kBy>
ACTDMA_AVX2 inline Vector left(Vector v) {
  return kLog2 == 1 ? _mm256_slli_epi16(v, kBy) : _mm256_slli_epi32(v, kBy);
}

template <int kLog2, int kBy>
ACTDMA_AVX2 inline Vector right(Vector v) {
  return kLog2 == 1 ? _mm256_srli_epi16(v, kBy) : _mm256_srli_epi32(v, kBy);
}

#define ACTDMA_TARGET ACTDMA_AVX2
#include "record_loops.hpp"

struct Floats {
  static constexpr size_t kLanes = 8;
  __m256 v;

  ACTDMA_AVX2 static Floats load(const float* from) { return {_mm256_load_ps(from)}; }
  ACTDMA_AVX2 static Floats all(float value) { return {_mm256_set1_ps(value)}; }
  ACTDMA_AVX2 void store(float* to) const { _mm256_store_ps(to, v); }
  ACTDMA_AVX2 void add_product(Floats a, Floats b) { v = _mm256_fmadd_ps(a.v, b.v, v); }
};

constexpr size_t kTileColumns = 4;
#include "product_loops.hpp"
#include "record_vectors.hpp"

ACTDMA_AVX2 uint32_t count_bits(const uint8_t* mask, size_t words) {
  uint32_t total = 0;
  size_t i = 0;
  for (; i + 2 <= words; i += 2) total += __builtin_popcountll(load<uint64_t>(mask + 4 * i));
  for (; i < words; i++) total += __builtin_popcount(load<uint32_t>(mask + 4 * i));
  return total;
}

template <int kLog2>
ACTDMA_AVX2 size_t count_zeros(const uint8_t* raw, size_t chunks) {
  size_t set = 0;
  for (size_t i = 0; i < chunks; i++, raw += kChunkBytes) {
    set += static_cast<size_t>(__builtin_popcountll(nonzero<kLog2>(raw)));
  }
  return chunks * (kChunkBytes >> kLog2) - set;
}

ACTDMA_AVX2 void stream(uint8_t* to, const uint8_t* from, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 32) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i), load32(from + i));
  }
}

ACTDMA_AVX2 void stream_end() { _mm_sfence(); }

}  // namespace

const Kernels* avx2_kernels() {
  static constexpr Kernels kSet{"avx2",
                                {compress<0>, compress<1>, compress<2>},
                                {expand<0>, expand<1>, expand<2>},
                                ACTDMA_RECORDS,
                                count_bits,
                                {count_zeros<0>, count_zeros<1>, count_zeros<2>, count_zeros<3>},
                                stream,
                                stream_end,
                                crc32c,
                                ACTDMA_PRODUCT};
  const bool there = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                     __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.2") &&
                     __builtin_cpu_supports("popcnt");
  return there ? &kSet : nullptr;
}

}  // namespace actdma::native

#else

const actdma::native::Kernels* actdma::native::avx2_kernels() { return nullptr; }

#endif
