// NEON on 64-bit ARM: eight elements at a time through a table of shuffles.
#include "kernels.hpp"

#if defined(__aarch64__) && defined(__linux__)
#include <arm_acle.h>
#include <arm_neon.h>
#include <sys/auxv.h>

#include "bits.hpp"

namespace actdma::native {
namespace {

constexpr ShuffleTables kTables = make_shuffle_tables();

// Shuffles the first eight elements of `from` to `to`, whole vectors at a time. The index of an
// element becomes those of its bytes; saturated, so that 0x80 stays out of range and gives zero.
template <int kLog2>
inline void shuffle(const uint8_t index[8], const uint8_t* from, uint8_t* to) {
  const uint8x8_t order = vld1_u8(index);
  if constexpr (kLog2 == 0) {
    vst1_u8(to, vtbl1_u8(vld1_u8(from), order));
    return;
  }
  const uint8x8x2_t zipped = vzip_u8(order, order);
  uint8x16_t pairs = vcombine_u8(zipped.val[0], zipped.val[1]);
  pairs = vorrq_u8(vqaddq_u8(pairs, pairs), vreinterpretq_u8_u16(vdupq_n_u16(0x0100)));
  if constexpr (kLog2 == 1) {
    vst1q_u8(to, vqtbl1q_u8(vld1q_u8(from), pairs));
  } else {
    const uint8x16x2_t all = vzipq_u8(pairs, pairs);
    const uint8x16x2_t v = {{vld1q_u8(from), vld1q_u8(from + 16)}};
    const uint8x16_t odd = vreinterpretq_u8_u16(vdupq_n_u16(0x0100));
    for (int i = 0; i < 2; i++) {
      const uint8x16_t bytes = vorrq_u8(vqaddq_u8(all.val[i], all.val[i]), odd);
      vst1q_u8(to + 16 * i, vqtbl2q_u8(v, bytes));
    }
  }
}

// One bit for each of eight elements, 1 where it has any bit set.
template <int kLog2>
inline uint32_t nonzero(const uint8_t* from) {
  static constexpr uint8_t kBits[8] = {1, 2, 4, 8, 16, 32, 64, 128};
  uint8x8_t set;
  if constexpr (kLog2 == 0) {
    const uint8x8_t v = vld1_u8(from);
    set = vtst_u8(v, v);
  } else if constexpr (kLog2 == 1) {
    const uint16x8_t v = vreinterpretq_u16_u8(vld1q_u8(from));
    set = vmovn_u16(vtstq_u16(v, v));
  } else {
    const uint32x4_t low = vreinterpretq_u32_u8(vld1q_u8(from));
    const uint32x4_t high = vreinterpretq_u32_u8(vld1q_u8(from + 16));
    set = vmovn_u16(vcombine_u16(vmovn_u32(vtstq_u32(low, low)), vmovn_u32(vtstq_u32(high, high))));
  }
  return vaddv_u8(vand_u8(set, vld1_u8(kBits)));
}

template <int kLog2>
uint8_t* compress(const uint8_t* raw, size_t chunks, uint8_t* mask, uint8_t* data, Side&) {
  const uint8_t* const end = raw + chunks * kChunkBytes;
  for (; raw != end; raw += 8 << kLog2) {
    ACTDMA_PREFETCH_READ(raw);
    ACTDMA_PREFETCH_WRITE(data);
    const uint32_t bits = nonzero<kLog2>(raw);
    *mask++ = static_cast<uint8_t>(bits);
    shuffle<kLog2>(kTables.compress[bits], raw, data);
    data += static_cast<size_t>(__builtin_popcount(bits)) << kLog2;
  }
  return data;
}

template <int kLog2>
void expand(const uint8_t* mask, const uint8_t* data, size_t chunks, uint8_t* raw, Side&) {
  const uint8_t* const end = raw + chunks * kChunkBytes;
  for (; raw != end; raw += 8 << kLog2, mask++) {
    ACTDMA_PREFETCH_READ(data);
    ACTDMA_PREFETCH_WRITE(raw);
    shuffle<kLog2>(kTables.expand[*mask], data, raw);
    data += static_cast<size_t>(__builtin_popcount(*mask)) << kLog2;
  }
}

uint32_t count_bits(const uint8_t* mask, size_t words) {
  uint32_t total = 0;
  for (size_t i = 0; i < words; i++) total += __builtin_popcount(load<uint32_t>(mask + 4 * i));
  return total;
}

__attribute__((target("+crc"))) uint32_t crc32c(uint32_t crc, const uint8_t* data, size_t bytes) {
  crc = ~crc;
  for (; bytes >= 8; data += 8, bytes -= 8) crc = __crc32cd(crc, load<uint64_t>(data));
  for (; bytes; data++, bytes--) crc = __crc32cb(crc, *data);
  return ~crc;
}

}  // namespace

const Kernels* neon_kernels() {
  const Kernels& portable = *portable_kernels();
  static const Kernels kSet{"neon",
                            {compress<0>, compress<1>, compress<2>},
                            {expand<0>, expand<1>, expand<2>},
                            portable.float16,
                            portable.bfloat16,
                            portable.float32,
                            {{portable.ints[0][0], portable.ints[0][1]},
                             {portable.ints[1][0], portable.ints[1][1]},
                             {portable.ints[2][0], portable.ints[2][1]}},
                            count_bits,
                            {portable.count_zeros[0], portable.count_zeros[1],
                             portable.count_zeros[2], portable.count_zeros[3]},
                            nullptr,
                            nullptr,
                            getauxval(AT_HWCAP) & HWCAP_CRC32 ? crc32c : portable.crc32c,
                            portable.product};
  return &kSet;
}

}  // namespace actdma::native

#else

const actdma::native::Kernels* actdma::native::neon_kernels() { return nullptr; }

#endif
