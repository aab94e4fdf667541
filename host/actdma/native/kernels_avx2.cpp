// AVX2: eight elements at a time through a table of shuffles.
#include "kernels.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#include "bits.hpp"

#define ACTDMA_AVX2 __attribute__((target("avx2,pclmul,sse4.2,popcnt,prfchw")))

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
  } else {
    const auto quads = [](__m256i v) ACTDMA_AVX2 {
      return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(v)));
    };
    return (quads(_mm256_cmpeq_epi32(low, zero)) | quads(_mm256_cmpeq_epi32(high, zero)) << 8) ^
           0xFFFF;
  }
}

template <int kLog2>
ACTDMA_AVX2 uint8_t* compress(const uint8_t* raw, size_t chunks, uint8_t* mask, uint8_t* data) {
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
ACTDMA_AVX2 void expand(const uint8_t* mask, const uint8_t* data, size_t chunks, uint8_t* raw) {
  const uint8_t* const end = raw + chunks * kChunkBytes;
  for (; raw != end; raw += 8 << kLog2, mask++) {
    ACTDMA_PREFETCH_READ(data);
    shuffle<kLog2>(kTables.expand[*mask], data, raw);
    data += static_cast<size_t>(__builtin_popcount(*mask)) << kLog2;
  }
}

ACTDMA_AVX2 uint32_t count_bits(const uint8_t* mask, size_t words) {
  uint32_t total = 0;
  size_t i = 0;
  for (; i + 2 <= words; i += 2) total += __builtin_popcountll(load<uint64_t>(mask + 4 * i));
  for (; i < words; i++) total += __builtin_popcount(load<uint32_t>(mask + 4 * i));
  return total;
}

ACTDMA_AVX2 void stream(uint8_t* to, const uint8_t* from, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), load16(from + i));
  }
}

ACTDMA_AVX2 void stream_end() { _mm_sfence(); }

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

}  // namespace

const Kernels* avx2_kernels() {
  static const Kernels& portable = *portable_kernels();
  static const Kernels kSet{"avx2",
                            {compress<0>, compress<1>, compress<2>},
                            {expand<0>, expand<1>, expand<2>},
                            {{}, portable.zve[1], portable.zve[2]},
                            {portable.ints[0], portable.ints[1], portable.ints[2]},
                            count_bits,
                            stream,
                            stream_end,
                            crc32c};
  const bool there = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("pclmul") &&
                     __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
  return there ? &kSet : nullptr;
}

}  // namespace actdma::native

#else

const actdma::native::Kernels* actdma::native::avx2_kernels() { return nullptr; }

#endif
