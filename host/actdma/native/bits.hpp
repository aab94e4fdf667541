// Unaligned little-endian loads and stores, and the tables that the instruction sets share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the codec copies words as they are and needs a little-endian processor"
#endif

namespace actdma::native {

template <typename T>
inline T load(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename T>
inline void store(uint8_t* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

// Asks for data that is read or written soon: a processor's own prefetching stops at the end of a
// page. Past the end of a buffer this is a hint without effect. (Distances: the best measured.)
#define ACTDMA_PREFETCH_READ(from) __builtin_prefetch((from) + 8192, 0, 2)
#define ACTDMA_PREFETCH_WRITE(to) __builtin_prefetch((to) + 2048, 1)

// Where eight elements go, for every mask of eight bits. 0x80 makes a byte shuffle write zero.
struct ShuffleTables {
  // Element j of the packed vector is element compress[mask][j] of the raw one.
  uint8_t compress[256][8];
  // Element j of the raw vector is element expand[mask][j] of the packed one.
  uint8_t expand[256][8];
};

constexpr ShuffleTables make_shuffle_tables() {
  ShuffleTables tables{};
  for (int mask = 0; mask < 256; mask++) {
    int packed = 0;
    for (int j = 0; j < 8; j++) {
      tables.compress[mask][j] = 0x80;
      tables.expand[mask][j] = 0x80;
    }
    for (int j = 0; j < 8; j++) {
      if (mask >> j & 1) {
        tables.compress[mask][packed] = static_cast<uint8_t>(j);
        tables.expand[mask][j] = static_cast<uint8_t>(packed++);
      }
    }
  }
  return tables;
}

// CRC-32C, bits reflected: bit i of a register holds the coefficient of x^(31 - i).
constexpr uint32_t kCrcPolynomial = 0x82F63B78;

constexpr uint32_t crc_times_x(uint32_t crc) { return crc >> 1 ^ (crc & 1 ? kCrcPolynomial : 0); }

// The factor that moves a 64-bit half of a folding register on by `bits`: x^(bits - 1) modulo the
// polynomial, in the upper half of 64 reflected bits. (-1: a carry-less product of two reflected
// numbers comes out multiplied by x.)
constexpr uint64_t crc_fold_factor(int bits) {
  uint32_t crc = 0x80000000;
  for (int i = 1; i < bits; i++) crc = crc_times_x(crc);
  return static_cast<uint64_t>(crc) << 32;
}

}  // namespace actdma::native
