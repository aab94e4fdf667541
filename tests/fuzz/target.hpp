// What the fuzzers have in common: libFuzzer's entry points, and how a check fails.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "frames.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed);
extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* data1, size_t size1,
                                            const uint8_t* data2, size_t size2, uint8_t* out,
                                            size_t max_size, unsigned seed);

namespace actdma::fuzz {

// What the target is fed with; each target says it.
extern const Packet kKind;

// Data of frames is compared up to this length: a frame of zeros is 2048 times smaller than its
// data.
constexpr size_t kMostRaw = 1 << 18;

inline void check(bool good, const char* what, uint32_t a = 0, uint32_t b = 0) {
  if (good) return;
  std::fprintf(stderr, "FAILED: %s (%u, %u)\n", what, a, b);
  std::abort();
}

struct Free {
  void operator()(uint8_t* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<uint8_t[], Free>;

// Memory without a byte to spare, so that a sanitizer sees every access past it. It begins with a
// line of the caches, as what is written past them has to.
inline Memory exact(size_t size) {
  void* memory = nullptr;
  check(posix_memalign(&memory, 64, size) == 0, "no memory");
  return Memory(static_cast<uint8_t*>(memory));
}
inline Memory exact(const uint8_t* data, size_t size) {
  auto copy = exact(size);
  if (size) std::memcpy(copy.get(), data, size);
  return copy;
}

// The words of the descriptor, and what is wrong with it.
inline Status descriptor_of(const uint8_t* data, size_t size, uint32_t words[kHeaderWords]) {
  if (size < native::kHeaderBytes) return kBadLength;
  return native::read_descriptor(*native::portable_kernels(), data, words);
}

inline uint32_t operation(const uint32_t words[kHeaderWords]) {
  return words[kDescKind] >> 8 & 0xFF;
}

}  // namespace actdma::fuzz
