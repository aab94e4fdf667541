// Plain C++ without a branch per element, for every processor.
#include <type_traits>

#include "bits.hpp"
#include "kernels.hpp"

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
                                count_bits,
                                nullptr,
                                nullptr,
                                crc32c};
  return &kSet;
}

}  // namespace actdma::native
