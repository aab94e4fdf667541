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

// Mask bits are gathered 16 at a time: a whole number of those fits any chunk and any register.
constexpr int kGroup = 16;

template <int kLog2>
uint8_t* compress(const uint8_t* raw, size_t chunks, uint8_t* mask, uint8_t* data) {
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
void expand(const uint8_t* mask, const uint8_t* data, size_t chunks, uint8_t* raw) {
  constexpr size_t kBytes = sizeof(Element<kLog2>);
  const uint8_t* const end = raw + chunks * kChunkBytes;
  for (; raw != end; raw += kGroup * kBytes, mask += kGroup / 8) {
    ACTDMA_PREFETCH_READ(data);
    const uint32_t bits = load<uint16_t>(mask);
#pragma GCC unroll 16
    for (int i = 0; i < kGroup; i++) {
      const uint32_t set = bits >> i & 1;
      store(raw + i * kBytes, static_cast<Element<kLog2>>(load<Element<kLog2>>(data) & (0u - set)));
      data += set * kBytes;
    }
  }
}

// The group of 32 (64 of one byte) as its bit planes, and back. Before: word k has element k in its
// lowest bits, then element k + kSide, and so on. After: word j is bit plane j.
template <int kLog2>
struct Planes {
  static constexpr int kSide = 8 << kLog2;
  static constexpr int kGroup = 1 << group_log2(kLog2);
  using Word = std::conditional_t<kLog2 == 0, uint64_t, uint32_t>;
  Word words[kSide];

  Element<kLog2> element(int i) const {
    return static_cast<Element<kLog2>>(words[i % kSide] >> i / kSide * kSide);
  }

  void set_element(int i, Word value) { words[i % kSide] |= value << i / kSide * kSide; }

  // Transposes the squares of kSide bits that the words hold side by side, by swapping quarters
  // (Warren, Hacker's Delight, 7-3). Its own inverse.
  void transpose() {
    // The lower half of every square.
    Word low = ~Word{0} / ((Word{1} << (kSide - 1) << 1) - 1) * ((Word{1} << kSide / 2) - 1);
    for (int step = kSide / 2; step; step /= 2, low ^= low << step) {
      for (int i = 0; i < kSide; i += 2 * step) {
        for (int k = i; k < i + step; k++) {
          const Word swapped = (words[k] >> step ^ words[k + step]) & low;
          words[k] ^= swapped << step;
          words[k + step] ^= swapped;
        }
      }
    }
  }

  uint8_t* write(uint32_t planes, uint8_t* to) {
    transpose();
    std::memcpy(to, words, planes * sizeof(Word));
    return to + planes * sizeof(Word);
  }

  const uint8_t* read(uint32_t planes, const uint8_t* from) {
    std::memcpy(words, from, planes * sizeof(Word));
    transpose();
    return from + planes * sizeof(Word);
  }
};

// Elements of group `g`, of `count` elements in all groups.
template <int kLog2>
inline int group_elements(size_t g, size_t count) {
  constexpr size_t kGroup = Planes<kLog2>::kGroup;
  return static_cast<int>(std::min(count - g * kGroup, kGroup));
}

template <int kLog2>
inline const uint8_t* element_at(const uint8_t* elements, size_t i) {
  return elements + (i << kLog2);
}

template <int kLog2>
void plan_zve(const uint8_t* elements, size_t count, uint32_t exponent_bits, Group* groups) {
  constexpr int kGroup = Planes<kLog2>::kGroup;
  const uint32_t m = mantissa_bits(kLog2, exponent_bits);
  const uint32_t field = (1u << exponent_bits) - 1;
  for (size_t g = 0; g * kGroup < count; g++, elements += kGroup << kLog2) {
    uint32_t least = field, largest = 0, sign = 0;
    for (int i = 0; i < group_elements<kLog2>(g, count); i++) {
      const uint32_t element = load<Element<kLog2>>(element_at<kLog2>(elements, i));
      const uint32_t exponent = element >> m & field;
      least = std::min(least, exponent);
      largest = std::max(largest, exponent);
      sign |= element >> (m + exponent_bits);
    }
    groups[g] = {largest, exponent_width(largest - least), static_cast<uint8_t>(sign)};
  }
}

// An element's fields come in the order of its record: mantissa, sign if present, distance.
template <int kLog2>
uint8_t* pack_zve(const uint8_t* elements, size_t count, uint32_t exponent_bits,
                  const Group* groups, uint8_t* records) {
  constexpr int kGroup = Planes<kLog2>::kGroup;
  const uint32_t m = mantissa_bits(kLog2, exponent_bits);
  const uint32_t field = (1u << exponent_bits) - 1;
  for (size_t g = 0; g * kGroup < count; g++, elements += kGroup << kLog2) {
    const Group& group = groups[g];
    Planes<kLog2> planes{};
    for (int i = 0; i < group_elements<kLog2>(g, count); i++) {
      const uint32_t element = load<Element<kLog2>>(element_at<kLog2>(elements, i));
      const uint32_t distance = group.base - (element >> m & field);
      const uint32_t sign = element >> (m + exponent_bits);
      planes.set_element(i, (element & ((1u << m) - 1)) | sign << m | distance << m << group.sign);
    }
    records = planes.write(m + group.sign + group.width, records);
  }
  return records;
}

template <int kLog2>
void unpack_zve(const uint8_t* records, const Group* groups, size_t count, uint32_t exponent_bits,
                uint8_t* elements) {
  constexpr int kGroup = Planes<kLog2>::kGroup;
  const uint32_t m = mantissa_bits(kLog2, exponent_bits);
  const uint32_t field = (1u << exponent_bits) - 1;
  for (size_t g = 0; g < count; g++, elements += kGroup << kLog2) {
    const Group& group = groups[g];
    Planes<kLog2> planes{};
    records = planes.read(m + group.sign + group.width, records);
    for (int i = 0; i < kGroup; i++) {
      const uint32_t packed = planes.element(i);
      const uint32_t sign = packed >> m & group.sign;
      const uint32_t exponent = (group.base - (packed >> m >> group.sign)) & field;
      const uint32_t element =
          sign << (m + exponent_bits) | exponent << m | (packed & ((1u << m) - 1));
      store(elements + (i << kLog2), static_cast<Element<kLog2>>(element));
    }
  }
}

template <int kLog2>
void plan_ints(const uint8_t* elements, size_t count, uint32_t is_signed, Group* groups) {
  constexpr int kGroup = Planes<kLog2>::kGroup;
  constexpr uint32_t kBits = 8 << kLog2;
  const uint32_t flip = flip_of(is_signed, kBits);
  for (size_t g = 0; g * kGroup < count; g++, elements += kGroup << kLog2) {
    uint32_t least = ~0u, greatest = 0;
    for (int i = 0; i < group_elements<kLog2>(g, count); i++) {
      const uint32_t number = load<Element<kLog2>>(element_at<kLog2>(elements, i)) ^ flip;
      least = std::min(least, number);
      greatest = std::max(greatest, number);
    }
    groups[g] = integer_group(least, greatest, flip, kBits);
  }
}

template <int kLog2>
uint8_t* pack_ints(const uint8_t* elements, size_t count, uint32_t, const Group* groups,
                   uint8_t* records) {
  constexpr int kGroup = Planes<kLog2>::kGroup;
  for (size_t g = 0; g * kGroup < count; g++, elements += kGroup << kLog2) {
    const Group& group = groups[g];
    Planes<kLog2> planes{};
    for (int i = 0; i < group_elements<kLog2>(g, count); i++) {
      const auto element = load<Element<kLog2>>(element_at<kLog2>(elements, i));
      planes.set_element(i, static_cast<Element<kLog2>>(element - group.base));
    }
    if (has_base_word(kLog2, group.width)) {
      store(records, group.base);
      records += 4;
    }
    records = planes.write(group.width, records);
  }
  return records;
}

template <int kLog2>
void unpack_ints(const uint8_t* records, const Group* groups, size_t count, uint32_t,
                 uint8_t* elements) {
  constexpr int kGroup = Planes<kLog2>::kGroup;
  for (size_t g = 0; g < count; g++, elements += kGroup << kLog2) {
    const Group& group = groups[g];
    uint32_t base = group.base;
    if (has_base_word(kLog2, group.width)) {
      base = load<uint32_t>(records);
      records += 4;
    }
    Planes<kLog2> planes{};
    records = planes.read(group.width, records);
    for (int i = 0; i < kGroup; i++) {
      store(elements + (i << kLog2), static_cast<Element<kLog2>>(planes.element(i) + base));
    }
  }
}

template <int kLog2>
constexpr RecordKernels kZve{plan_zve<kLog2>, pack_zve<kLog2>, unpack_zve<kLog2>};

template <int kLog2>
constexpr RecordKernels kInts{plan_ints<kLog2>, pack_ints<kLog2>, unpack_ints<kLog2>};

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

}  // namespace

const Kernels* portable_kernels() {
  static constexpr Kernels kSet{"portable",
                                {compress<0>, compress<1>, compress<2>},
                                {expand<0>, expand<1>, expand<2>},
                                {{}, kZve<1>, kZve<2>},
                                {kInts<0>, kInts<1>, kInts<2>},
                                count_bits,
                                nullptr,
                                nullptr,
                                crc32c};
  return &kSet;
}

}  // namespace actdma::native
