// AVX-512 with VBMI2 and VPCLMULQDQ (Ice Lake, Zen 4 and later): the processor compresses and
// expands a vector in one instruction. Always in registers: the form of it that stores to memory is
// slow.
#include "kernels.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#include "bits.hpp"

#define ACTDMA_AVX512 \
  __attribute__((target("avx512f,avx512bw,avx512vbmi2,vpclmulqdq,pclmul,sse4.2,popcnt,prfchw")))

namespace actdma::native {
namespace {

template <int kLog2>
ACTDMA_AVX512 uint8_t* compress(const uint8_t* raw, size_t chunks, uint8_t* mask, uint8_t* data) {
  for (size_t i = 0; i < chunks; i++, raw += kChunkBytes) {
    ACTDMA_PREFETCH_READ(raw);
    ACTDMA_PREFETCH_WRITE(data);
    const __m512i v = _mm512_loadu_si512(raw);
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
  return data;
}

template <int kLog2>
ACTDMA_AVX512 void expand(const uint8_t* mask, const uint8_t* data, size_t chunks, uint8_t* raw) {
  for (size_t i = 0; i < chunks; i++, raw += kChunkBytes) {
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
    _mm512_storeu_si512(raw, v);
    data += static_cast<size_t>(__builtin_popcountll(bits)) << kLog2;
  }
}

ACTDMA_AVX512 uint32_t count_bits(const uint8_t* mask, size_t words) {
  uint32_t total = 0;
  size_t i = 0;
  for (; i + 2 <= words; i += 2) total += __builtin_popcountll(load<uint64_t>(mask + 4 * i));
  for (; i < words; i++) total += __builtin_popcount(load<uint32_t>(mask + 4 * i));
  return total;
}

ACTDMA_AVX512 void stream(uint8_t* to, const uint8_t* from, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
  }
}

ACTDMA_AVX512 void stream_end() { _mm_sfence(); }

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

ACTDMA_AVX512 uint32_t crc32c(uint32_t crc, const uint8_t* data, size_t bytes) {
  uint64_t rest = static_cast<uint32_t>(~crc);
  if (bytes >= 256) {
    __m512i a = _mm512_xor_si512(_mm512_loadu_si512(data),
                                 _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(rest))));
    __m512i b = _mm512_loadu_si512(data + 64);
    __m512i c = _mm512_loadu_si512(data + 128);
    __m512i d = _mm512_loadu_si512(data + 192);
    const __m512i next = factors<2048>();
    for (data += 256, bytes -= 256; bytes >= 256; data += 256, bytes -= 256) {
      a = fold(a, next, _mm512_loadu_si512(data));
      b = fold(b, next, _mm512_loadu_si512(data + 64));
      c = fold(c, next, _mm512_loadu_si512(data + 128));
      d = fold(d, next, _mm512_loadu_si512(data + 192));
    }
    const __m512i half = factors<1024>();
    const __m512i one = factors<512>();
    a = fold(fold(a, half, c), one, fold(b, half, d));
    for (; bytes >= 64; data += 64, bytes -= 64) a = fold(a, one, _mm512_loadu_si512(data));
    // The four lanes onto the last one: 384, 256, 128 and 0 bits on.
    const __m512i lanes = _mm512_set_epi64(
        0, 0, static_cast<long long>(crc_fold_factor(128)),
        static_cast<long long>(crc_fold_factor(192)), static_cast<long long>(crc_fold_factor(256)),
        static_cast<long long>(crc_fold_factor(320)), static_cast<long long>(crc_fold_factor(384)),
        static_cast<long long>(crc_fold_factor(448)));
    alignas(64) uint64_t lane[8];
    _mm512_store_si512(lane, fold(a, lanes, _mm512_maskz_mov_epi64(0xC0, a)));
    rest = _mm_crc32_u64(0, lane[0] ^ lane[2] ^ lane[4] ^ lane[6]);
    rest = _mm_crc32_u64(rest, lane[1] ^ lane[3] ^ lane[5] ^ lane[7]);
  }
  for (; bytes >= 8; data += 8, bytes -= 8) rest = _mm_crc32_u64(rest, load<uint64_t>(data));
  for (; bytes; data++, bytes--) rest = _mm_crc32_u8(static_cast<uint32_t>(rest), *data);
  return ~static_cast<uint32_t>(rest);
}

}  // namespace

const Kernels* avx512_kernels() {
  static const Kernels& portable = *portable_kernels();
  static const Kernels kSet{"avx512",
                            {compress<0>, compress<1>, compress<2>},
                            {expand<0>, expand<1>, expand<2>},
                            {{}, portable.zve[1], portable.zve[2]},
                            {portable.ints[0], portable.ints[1], portable.ints[2]},
                            count_bits,
                            stream,
                            stream_end,
                            crc32c};
  const bool there = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                     __builtin_cpu_supports("avx512vbmi2") &&
                     __builtin_cpu_supports("vpclmulqdq") && avx2_kernels();
  return there ? &kSet : nullptr;
}

}  // namespace actdma::native

#else

const actdma::native::Kernels* actdma::native::avx512_kernels() { return nullptr; }

#endif
