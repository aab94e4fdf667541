// libFuzzer's hooks for inputs with a structure.
#include <algorithm>

#include "target.hpp"

using namespace actdma::fuzz;

namespace {

size_t give(const Bytes& packet, uint8_t* to, size_t max_size) {
  const size_t size = std::min(packet.size(), max_size);
  if (size) std::memcpy(to, packet.data(), size);
  return size;
}

}  // namespace

size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  Random random(seed);
  const bool fresh = size == 0 || random.one_in(4);
  Bytes packet = fresh ? good(kKind, max_size, random) : Bytes(data, data + size);
  if (!fresh || !random.one_in(4)) damage(packet, kKind, max_size, random);
  return give(packet, data, max_size);
}

size_t LLVMFuzzerCustomCrossOver(const uint8_t* data1, size_t size1, const uint8_t* data2,
                                 size_t size2, uint8_t* out, size_t max_size, unsigned seed) {
  Random random(seed);
  const Bytes head(data1, data1 + size1), tail(data2, data2 + size2);
  return give(splice(head, tail, kKind, max_size, random), out, max_size);
}
