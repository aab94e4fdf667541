// NEON on 64-bit ARM: eight elements at a time through a table of shuffles; bit planes by swapping
// bits within squares of 8 x 8.
#include "kernels.hpp"

#if defined(__aarch64__) && defined(__linux__)
#include <arm_acle.h>
#include <arm_neon.h>
#include <sys/auxv.h>

#include "bits.hpp"
#include "records.hpp"

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

using Vector = uint8x16_t;

// A Vector's elements of 1 << kLog2 bytes, on which + - << >> work.
template <int kLog2>
struct LanesOf {
  using Type = uint8x16_t;
};
template <>
struct LanesOf<1> {
  using Type = uint16x8_t;
};
template <>
struct LanesOf<2> {
  using Type = uint32x4_t;
};
template <>
struct LanesOf<3> {
  using Type = uint64x2_t;
};
template <int kLog2>
using Lanes = typename LanesOf<kLog2>::Type;

template <int kLog2>
inline Lanes<kLog2> lanes(Vector v) {
  return reinterpret_cast<Lanes<kLog2>>(v);
}

template <typename T>
inline Vector vector(T lanes) {
  return reinterpret_cast<Vector>(lanes);
}

// The operations of record_vectors.hpp.
using Shift = uint32_t;

constexpr Shift make_shift(uint32_t bits) { return bits; }

template <int kLog2>
inline Vector broadcast(uint32_t element) {
  if constexpr (kLog2 == 0) return vdupq_n_u8(static_cast<uint8_t>(element));
  if constexpr (kLog2 == 1) return vector(vdupq_n_u16(static_cast<uint16_t>(element)));
  return vector(vdupq_n_u32(element));
}

template <int kLog2>
inline Vector add(Vector a, Vector b) {
  return vector(lanes<kLog2>(a) + lanes<kLog2>(b));
}

template <int kLog2>
inline Vector subtract(Vector a, Vector b) {
  return vector(lanes<kLog2>(a) - lanes<kLog2>(b));
}

template <int kLog2>
inline Vector left(Vector v, Shift by) {
  return vector(lanes<kLog2>(v) << by);
}

template <int kLog2>
inline Vector right(Vector v, Shift by) {
  return vector(lanes<kLog2>(v) >> by);
}

template <int kLog2, int kBy>
inline Vector left(Vector v) {
  return left<kLog2>(v, kBy);
}

template <int kLog2, int kBy>
inline Vector right(Vector v) {
  return right<kLog2>(v, kBy);
}

struct Pair {
  Vector v[2];
};

// The even and the odd elements of both vectors, in order, and the inverse.
template <int kLog2>
inline Pair split(Vector a, Vector b) {
  if constexpr (kLog2 == 0) return {{vuzp1q_u8(a, b), vuzp2q_u8(a, b)}};
  const Lanes<kLog2> x = lanes<kLog2>(a), y = lanes<kLog2>(b);
  if constexpr (kLog2 == 1) return {{vector(vuzp1q_u16(x, y)), vector(vuzp2q_u16(x, y))}};
  if constexpr (kLog2 == 2) return {{vector(vuzp1q_u32(x, y)), vector(vuzp2q_u32(x, y))}};
}

template <int kLog2>
inline Pair merge(Vector even, Vector odd) {
  if constexpr (kLog2 == 0) return {{vzip1q_u8(even, odd), vzip2q_u8(even, odd)}};
  const Lanes<kLog2> x = lanes<kLog2>(even), y = lanes<kLog2>(odd);
  if constexpr (kLog2 == 1) return {{vector(vzip1q_u16(x, y)), vector(vzip2q_u16(x, y))}};
  if constexpr (kLog2 == 2) return {{vector(vzip1q_u32(x, y)), vector(vzip2q_u32(x, y))}};
}

template <int kStep>
inline Vector swap_bits(Vector v, uint64_t pattern) {
  const Vector swapped = (v ^ right<3, kStep>(v)) & vector(vdupq_n_u64(pattern));
  return v ^ swapped ^ left<3, kStep>(swapped);
}

// Transposes the square of 8 x 8 bits in each half.
inline Vector transpose(Vector v) {
  v = swap_bits<7>(v, 0x00AA00AA00AA00AA);  // Warren, Hacker's Delight, 7-3
  v = swap_bits<14>(v, 0x0000CCCC0000CCCC);
  return swap_bits<28>(v, 0x00000000F0F0F0F0);
}

// The eight bit planes of a row of 32 bytes, and the inverse.
inline Pair planes_of(Pair row) {
  // Byte j of quadword q becomes byte q of plane j.
  const Pair bytes = merge<0>(transpose(row.v[0]), transpose(row.v[1]));
  return merge<0>(bytes.v[0], bytes.v[1]);
}

inline Pair row_of(Pair planes) {
  const Pair bytes = split<0>(planes.v[0], planes.v[1]);
  const Pair squares = split<0>(bytes.v[0], bytes.v[1]);
  return {{transpose(squares.v[0]), transpose(squares.v[1])}};
}

inline void store_pair(uint8_t* to, Pair pair) {
  vst1q_u8(to, pair.v[0]);
  vst1q_u8(to + 16, pair.v[1]);
}

// The first `bytes` bytes at `from`, zeros after them; reads a whole vector, or nothing.
inline Vector load_first(const uint8_t* from, int bytes) {
  static constexpr uint8_t kIndex[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  if (bytes <= 0) return vdupq_n_u8(0);
  const Vector v = vld1q_u8(from);
  return bytes >= 16 ? v : v & vcltq_u8(vld1q_u8(kIndex), vdupq_n_u8(static_cast<uint8_t>(bytes)));
}

inline Pair load_pair(const uint8_t* from, int bytes) {
  return {{load_first(from, bytes), load_first(from + 16, bytes - 16)}};
}

// A group's elements in as many vectors as it takes, and their bit planes.
template <int kLog2>
struct Vectors {
  static constexpr int kCount = kLog2 == 2 ? 8 : 4;
  static constexpr size_t kBytes = 16 * kCount;
  static constexpr size_t kGroup = kBytes >> kLog2;
  static constexpr int kPlaneBytes = kGroup / 8;
  Vector v[kCount];

  static Vectors load(const uint8_t* from, size_t count) {
    Vectors group;
    for (int i = 0; i < kCount; i++) group.v[i] = vld1q_u8(from + 16 * i);
    if (count < kGroup) group.fill_from(count, broadcast<kLog2>(native::load<uint32_t>(from)));
    return group;
  }

  void write(uint8_t* to) const {
    for (int i = 0; i < kCount; i++) vst1q_u8(to + 16 * i, v[i]);
  }

  void clear_from(size_t count) { fill_from(count, vdupq_n_u8(0)); }

  void fill_from(size_t count, Vector other) {
    uint8_t all[2 * kBytes];
    for (int i = 0; i < kCount; i++) vst1q_u8(all + kBytes + 16 * i, other);
    const size_t kept = count << kLog2;
    write(all);
    std::memcpy(all + kept, all + kBytes, kBytes - kept);
    for (int i = 0; i < kCount; i++) v[i] = vld1q_u8(all + 16 * i);
  }

  uint8_t* write_planes(uint32_t count, uint8_t* to) const {
    if constexpr (kLog2 == 0) {
      if (count) {
        const Pair low = planes_of({{v[0], v[1]}}), high = planes_of({{v[2], v[3]}});
        store_pair(to, merge<2>(low.v[0], high.v[0]));
        store_pair(to + 32, merge<2>(low.v[1], high.v[1]));
      }
    } else if constexpr (kLog2 == 1) {
      const Pair a = split<0>(v[0], v[1]), b = split<0>(v[2], v[3]);
      for (uint32_t i = 0; i < 2; i++) {
        if (count > 8 * i) store_pair(to + 32 * i, planes_of({{a.v[i], b.v[i]}}));
      }
    } else {
      Pair halves[4];
      for (int i = 0; i < 4; i++) halves[i] = split<1>(v[2 * i], v[2 * i + 1]);
      for (uint32_t i = 0; i < 2; i++) {
        const Pair a = split<0>(halves[0].v[i], halves[1].v[i]);
        const Pair b = split<0>(halves[2].v[i], halves[3].v[i]);
        for (uint32_t j = 0; j < 2; j++) {
          const uint32_t row = 2 * i + j;
          if (count > 8 * row) store_pair(to + 32 * row, planes_of({{a.v[j], b.v[j]}}));
        }
      }
    }
    return to + kPlaneBytes * count;
  }

  static Vectors read_planes(uint32_t count, const uint8_t* from) {
    const int there = static_cast<int>(kPlaneBytes * count);
    Vectors group;
    if constexpr (kLog2 == 0) {
      const Pair a = load_pair(from, there), b = load_pair(from + 32, there - 32);
      const Pair low = split<2>(a.v[0], a.v[1]), high = split<2>(b.v[0], b.v[1]);
      for (int i = 0; i < 2; i++) group.set(2 * i, row_of({{low.v[i], high.v[i]}}));
    } else {
      Pair rows[1 << kLog2];
      for (int i = 0; i < 1 << kLog2; i++) {
        rows[i] = row_of(load_pair(from + 32 * i, there - 32 * i));
      }
      for (int i = 0; i < 2; i++) {
        const Pair low = merge<0>(rows[0].v[i], rows[1].v[i]);
        if constexpr (kLog2 == 1) {
          group.set(2 * i, low);
        } else {
          const Pair high = merge<0>(rows[2].v[i], rows[3].v[i]);
          for (int j = 0; j < 2; j++) group.set(4 * i + 2 * j, merge<1>(low.v[j], high.v[j]));
        }
      }
    }
    return group;
  }

 private:
  void set(int i, Pair pair) {
    v[i] = pair.v[0];
    v[i + 1] = pair.v[1];
  }
};

// The lesser and the greater of each two elements, as unsigned numbers; of all in a vector.
template <int kLog2>
inline Vector lesser(Vector a, Vector b) {
  if constexpr (kLog2 == 0) return vminq_u8(a, b);
  if constexpr (kLog2 == 1) return vector(vminq_u16(lanes<1>(a), lanes<1>(b)));
  if constexpr (kLog2 == 2) return vector(vminq_u32(lanes<2>(a), lanes<2>(b)));
}

template <int kLog2>
inline Vector greater(Vector a, Vector b) {
  if constexpr (kLog2 == 0) return vmaxq_u8(a, b);
  if constexpr (kLog2 == 1) return vector(vmaxq_u16(lanes<1>(a), lanes<1>(b)));
  if constexpr (kLog2 == 2) return vector(vmaxq_u32(lanes<2>(a), lanes<2>(b)));
}

template <int kLog2>
inline uint32_t least(Vector v) {
  if constexpr (kLog2 == 0) return vminvq_u8(v);
  if constexpr (kLog2 == 1) return vminvq_u16(lanes<1>(v));
  if constexpr (kLog2 == 2) return vminvq_u32(lanes<2>(v));
}

template <int kLog2>
inline uint32_t greatest(Vector v) {
  if constexpr (kLog2 == 0) return vmaxvq_u8(v);
  if constexpr (kLog2 == 1) return vmaxvq_u16(lanes<1>(v));
  if constexpr (kLog2 == 2) return vmaxvq_u32(lanes<2>(v));
}

// Of the unsigned numbers in a group.
template <int kLog2>
inline Range range(const Vectors<kLog2>& group) {
  Vector low = group.v[0], high = group.v[0];
  for (const Vector v : group.v) {
    low = lesser<kLog2>(low, v);
    high = greater<kLog2>(high, v);
  }
  return {least<kLog2>(low), greatest<kLog2>(high)};
}

// Of a group's exponents, and whether an element is negative.
template <int kExponent, int kLog2>
inline Exponents exponents(Vectors<kLog2> group) {
  constexpr int kBits = 8 << kLog2;
  Vector any = vdupq_n_u8(0);
  for (Vector& v : group.v) {
    any |= v;
    v = left<kLog2, 1>(v);
  }
  const Range doubled = range<kLog2>(group);
  return {{doubled.least >> (kBits - kExponent), doubled.greatest >> (kBits - kExponent)},
          (greatest<kLog2>(any) >> (kBits - 1)) != 0};
}

#define ACTDMA_TARGET
#include "record_loops.hpp"
#include "record_vectors.hpp"

struct Floats {
  static constexpr size_t kLanes = 4;
  float32x4_t v;

  static Floats load(const float* from) { return {vld1q_f32(from)}; }
  static Floats all(float value) { return {vdupq_n_f32(value)}; }
  void store(float* to) const { vst1q_f32(to, v); }
  void add_product(Floats a, Floats b) { v = vfmaq_f32(v, a.v, b.v); }
};

constexpr size_t kTileColumns = 8;
#include "product_loops.hpp"

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
                            ACTDMA_RECORDS,
                            count_bits,
                            {portable.count_zeros[0], portable.count_zeros[1],
                             portable.count_zeros[2], portable.count_zeros[3]},
                            nullptr,
                            nullptr,
                            getauxval(AT_HWCAP) & HWCAP_CRC32 ? crc32c : portable.crc32c,
                            ACTDMA_PRODUCT};
  return &kSet;
}

}  // namespace actdma::native

#else

const actdma::native::Kernels* actdma::native::neon_kernels() { return nullptr; }

#endif
