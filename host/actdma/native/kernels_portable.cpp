// Plain C++ without a branch per element, for every processor.
#include <algorithm>
#include <type_traits>

#include "bits.hpp"
#include "kernels.hpp"
#include "records.hpp"

namespace actdma::native {
namespace {

template <int kLog2>
using Element =
    std::conditional_t<kLog2 == 0, uint8_t, std::conditional_t<kLog2 == 1, uint16_t, uint32_t>>;

constexpr int kSlices = 16;  // bytes of CRC at a time

struct CrcTables {
  uint32_t of[kSlices][256];  // of[k][b]: the CRC of byte b followed by k zero bytes
};

constexpr CrcTables make_crc_tables() {
  CrcTables tables{};
  for (uint32_t b = 0; b < 256; b++) {
    uint32_t crc = b;
    for (int bit = 0; bit < 8; bit++) crc = crc_times_x(crc);
    tables.of[0][b] = crc;
  }
  for (int k = 1; k < kSlices; k++) {
    for (uint32_t b = 0; b < 256; b++) {
      const uint32_t before = tables.of[k - 1][b];
      tables.of[k][b] = before >> 8 ^ tables.of[0][before & 0xFF];
    }
  }
  return tables;
}

constexpr CrcTables kCrcTables = make_crc_tables();

// The part of a CRC that `word` adds when `after` bytes of the slice follow it.
inline uint32_t crc_of_word(uint32_t word, int after) {
  const auto* const of = kCrcTables.of + after;
  return of[3][word & 0xFF] ^ of[2][word >> 8 & 0xFF] ^ of[1][word >> 16 & 0xFF] ^
         of[0][word >> 24];
}

uint32_t crc32c(uint32_t crc, const uint8_t* data, size_t bytes) {
  crc = ~crc;
  for (; bytes >= kSlices; bytes -= kSlices, data += kSlices) {
    crc = crc_of_word(load<uint32_t>(data) ^ crc, 12) ^ crc_of_word(load<uint32_t>(data + 4), 8) ^
          crc_of_word(load<uint32_t>(data + 8), 4) ^ crc_of_word(load<uint32_t>(data + 12), 0);
  }
  for (; bytes; bytes--, data++) crc = crc >> 8 ^ kCrcTables.of[0][(crc ^ *data) & 0xFF];
  return ~crc;
}

// Mask bits are gathered 16 at a time: a whole number of those fits any chunk and any register.
constexpr int kGroup = 16;

template <int kLog2>
uint8_t* compress(const uint8_t* raw, size_t chunks, uint8_t* mask, uint8_t* data, Side&) {
  constexpr size_t kBytes = sizeof(Element<kLog2>);
  const uint8_t* const end = raw + chunks * kChunkBytes;
  for (; raw != end; raw += kGroup * kBytes, mask += kGroup / 8) {
    ACTDMA_PREFETCH_READ(raw);
    ACTDMA_PREFETCH_WRITE(data);
    uint32_t bits = 0;
#pragma GCC unroll 16
    for (int i = 0; i < kGroup; i++) {
      const auto element = load<Element<kLog2>>(raw + i * kBytes);
      const uint32_t set = element != 0;
      store(data, element);  // the next element overwrites a zero
      data += set * kBytes;
      bits |= set << i;
    }
    store(mask, static_cast<uint16_t>(bits));
  }
  return data;
}

template <int kLog2>
void expand(const uint8_t* mask, const uint8_t* data, size_t chunks, uint8_t* raw, Side&) {
  constexpr size_t kBytes = sizeof(Element<kLog2>);
  const uint8_t* const end = raw + chunks * kChunkBytes;
  for (; raw != end; raw += kGroup * kBytes, mask += kGroup / 8) {
    ACTDMA_PREFETCH_READ(data);
    ACTDMA_PREFETCH_WRITE(raw);
    const uint32_t bits = load<uint16_t>(mask);
#pragma GCC unroll 16
    for (int i = 0; i < kGroup; i++) {
      const uint32_t set = bits >> i & 1;
      store(raw + i * kBytes, static_cast<Element<kLog2>>(load<Element<kLog2>>(data) & (0u - set)));
      data += set * kBytes;
    }
  }
}

template <class Item>
size_t count_zeros(const uint8_t* raw, size_t chunks) {
  size_t zeros = 0;
  for (size_t c = 0; c < chunks; c++, raw += kChunkBytes) {
    Item in_chunk = 0;
    for (size_t i = 0; i < kChunkBytes; i += sizeof(Item)) in_chunk += load<Item>(raw + i) == 0;
    zeros += in_chunk;
  }
  return zeros;
}

// A group. Loops over it have a length that is known.
template <int kLog2>
struct Elements {
  using Item = Element<kLog2>;
  static constexpr size_t kGroup = 1 << group_log2(kLog2);
  Item at[kGroup];

  static Elements load(const uint8_t* from, size_t count) {
    Elements group;
    std::memcpy(group.at, from, sizeof group.at);  // of known length, which is faster
    if (count < kGroup) std::fill(group.at + count, group.at + kGroup, group.at[0]);
    return group;
  }

  void write(uint8_t* to) const { std::memcpy(to, at, sizeof at); }

  void clear_from(size_t count) { std::fill(at + count, at + kGroup, Item{0}); }

  uint8_t* write_planes(uint32_t count, uint8_t* to) const {
    Planes planes;
    for (int k = 0; k < kSide; k++) {
      planes.words[k] = at[k];
      for (int square = 1; square < kSquares; square++) {
        planes.words[k] |= static_cast<Word>(at[square * kSide + k]) << square * kSide;
      }
    }
    planes.transpose();
    std::memcpy(to, planes.words, kVectorSlack);
    if (count > kInVector)
      std::memcpy(to + kVectorSlack, planes.words + kInVector, sizeof planes.words - kVectorSlack);
    return to + count * sizeof(Word);
  }

  static Elements read_planes(uint32_t count, const uint8_t* from) {
    Planes planes{};
    std::memcpy(planes.words, from, kVectorSlack);
    if (count > kInVector) {
      std::memcpy(planes.words + kInVector, from + kVectorSlack,
                  sizeof planes.words - kVectorSlack);
    }
    for (uint32_t k = 0; k < kSide; k++) planes.words[k] &= k < count ? ~Word{0} : 0;
    planes.transpose();
    Elements group;
    for (int square = 0; square < kSquares; square++) {
      for (int k = 0; k < kSide; k++) {
        group.at[square * kSide + k] = static_cast<Item>(planes.words[k] >> square * kSide);
      }
    }
    return group;
  }

 private:
  static constexpr int kSide = 8 << kLog2;
  using Word = std::conditional_t<kLog2 == 0, uint64_t, uint32_t>;
  static constexpr int kSquares = 8 * sizeof(Word) / kSide;
  static constexpr size_t kInVector = kVectorSlack / sizeof(Word);

  // A word per bit plane, or before transposing: word k has element k, beside it k + kSide, ...
  struct Planes {
    Word words[kSide];

    // Transposes the squares of kSide bits that the words hold side by side, by swapping quarters
    // (Warren, Hacker's Delight, 7-3). Its own inverse.
    void transpose() {
      // The lower half of every square.
      Word low = ~Word{0} / ((Word{1} << (kSide - 1) << 1) - 1) * ((Word{1} << kSide / 2) - 1);
#pragma GCC unroll 5
      for (int step = kSide / 2; step; step /= 2, low ^= low << step) {
#pragma GCC unroll 16
        for (int i = 0; i < kSide / 2; i++) {
          const int k = 2 * i - i % step;
          const Word swapped = (words[k] >> step ^ words[k + step]) & low;
          words[k] ^= swapped << step;
          words[k + step] ^= swapped;
        }
      }
    }
  };
};

template <int kLog2, int kExponent>
struct Zve : ZveRecord<kLog2, kExponent> {
  using R = ZveRecord<kLog2, kExponent>;
  using V = Elements<kLog2>;
  using Item = Element<kLog2>;

  static Group plan(const V& group) {
    Item least = R::kExponentField, largest = 0, all = 0;
    for (const Item element : group.at) {
      const Item exponent = element & R::kExponentField;
      least = std::min(least, exponent);
      largest = std::max(largest, exponent);
      all |= element;
    }
    return {static_cast<uint32_t>(largest) >> R::kMantissa,
            exponent_width((largest - least) >> R::kMantissa), (all & R::kSignField) != 0};
  }

  static V fields(V group, const Group& common) {
    const uint32_t base = common.base << R::kMantissa;
    for (Item& element : group.at) {
      const uint32_t distance = base - (element & R::kExponentField);
      const uint32_t sign = (element & R::kSignField) >> kExponent;
      element = static_cast<Item>(distance << common.sign | sign | (element & R::kMantissaField));
    }
    return group;
  }

  static V elements(V fields, const Group& common) {
    const uint32_t base = common.base << R::kMantissa;
    const uint32_t sign_field = common.sign ? R::kSignField : 0;
    for (Item& element : fields.at) {
      const uint32_t packed = element;
      const uint32_t distance = packed >> common.sign & R::kExponentField;
      element =
          static_cast<Item>(((base - distance) & R::kExponentField) |
                            (packed << kExponent & sign_field) | (packed & R::kMantissaField));
    }
    return fields;
  }
};

template <int kLog2, bool kSigned>
struct Ints : IntsRecord<kLog2, kSigned> {
  using R = IntsRecord<kLog2, kSigned>;
  using V = Elements<kLog2>;
  using Item = Element<kLog2>;

  static Group plan(const V& group) {
    Item least = static_cast<Item>(~Item{0}), greatest = 0;
    for (const Item element : group.at) {
      const Item number = element ^ R::kFlip;
      least = std::min(least, number);
      greatest = std::max(greatest, number);
    }
    return R::group(least, greatest);
  }

  static V fields(V group, const Group& common) {
    for (Item& element : group.at) element -= static_cast<Item>(common.base);
    return group;
  }

  static V elements(V fields, const Group& common) {
    for (Item& element : fields.at) element += static_cast<Item>(common.base);
    return fields;
  }
};

#define ACTDMA_TARGET
#include "record_loops.hpp"

// Four numbers, which the compiler puts into a vector where the processor has such.
struct Floats {
  static constexpr size_t kLanes = 4;
  using Vector __attribute__((vector_size(16))) = float;
  Vector v;

  static Floats load(const float* from) {
    Floats result;
    std::memcpy(&result.v, from, sizeof result.v);
    return result;
  }
  static Floats all(float value) { return {Vector{value, value, value, value}}; }
  void store(float* to) const { std::memcpy(to, &v, sizeof v); }
  void add_product(Floats a, Floats b) { v += a.v * b.v; }
};

constexpr size_t kTileColumns = 4;
#include "product_loops.hpp"

uint32_t count_bits(const uint8_t* mask, size_t words) {
  uint32_t total = 0;
  for (size_t i = 0; i < words; i++) {
    uint32_t v = load<uint32_t>(mask + 4 * i);
    v -= v >> 1 & 0x55555555;
    v = (v & 0x33333333) + (v >> 2 & 0x33333333);
    v = (v + (v >> 4)) & 0x0F0F0F0F;
    total += v * 0x01010101 >> 24;
  }
  return total;
}

}  // namespace

const Kernels* portable_kernels() {
  static constexpr Kernels kSet{
      "portable",
      {compress<0>, compress<1>, compress<2>},
      {expand<0>, expand<1>, expand<2>},
      ACTDMA_RECORDS,
      count_bits,
      {count_zeros<uint8_t>, count_zeros<uint16_t>, count_zeros<uint32_t>, count_zeros<uint64_t>},
      nullptr,
      nullptr,
      crc32c,
      ACTDMA_PRODUCT};
  return &kSet;
}

}  // namespace actdma::native
