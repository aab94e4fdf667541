#include "kernels.hpp"

#include <atomic>
#include <cstring>

namespace actdma::native {
namespace {

std::atomic<const Kernels*>& active() {
  static std::atomic<const Kernels*> chosen{available_kernels().back()};
  return chosen;
}

}  // namespace

void Side::finish(const Kernels& kernels, const uint8_t* raw, size_t bytes) {
  const size_t left = kRowBytes * row_count;
  if (with_crc && !raw_done) raw_crc = kernels.crc32c(raw_crc, raw, bytes);
  if (with_crc) frame_crc = kernels.crc32c(frame_crc, rows, left);
  if (to) kernels.stream(to, rows, left);
  raw_done = false;
  advance(row_count);
}

size_t Kernels::zeros(const uint8_t* data, size_t bytes, int element_log2) const {
  const size_t chunks = bytes / kChunkBytes;
  uint8_t tail[kChunkBytes];
  std::memset(tail, 1, kChunkBytes);
  std::memcpy(tail, data + kChunkBytes * chunks, bytes % kChunkBytes);
  return count_zeros[element_log2](data, chunks) + count_zeros[element_log2](tail, 1);
}

const std::vector<const Kernels*>& available_kernels() {
  static const std::vector<const Kernels*> sets = [] {
    std::vector<const Kernels*> found;
    for (const Kernels* set :
         {portable_kernels(), neon_kernels(), avx2_kernels(), avx512_kernels()}) {
      if (set) found.push_back(set);
    }
    return found;
  }();
  return sets;
}

const Kernels& active_kernels() { return *active().load(std::memory_order_relaxed); }

bool choose_kernels(const std::string& name) {
  for (const Kernels* set : available_kernels()) {
    if (name == set->name) {
      active().store(set, std::memory_order_relaxed);
      return true;
    }
  }
  return false;
}

}  // namespace actdma::native
