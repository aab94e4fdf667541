// Inputs for the fuzzers: good frames and requests of every codec, and damage that reaches the code
// behind the checksums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "codec.hpp"

namespace actdma::fuzz {

using Bytes = std::vector<uint8_t>;

// What a decompressor or a compressor takes.
enum class Packet { kFrame, kRequest };

// SplitMix64: starts from any seed in no time.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint32_t operator()() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return static_cast<uint32_t>(z >> 32);
  }
  uint32_t below(size_t bound) { return (*this)() % static_cast<uint32_t>(bound); }
  // True once in `n` times.
  bool one_in(uint32_t n) { return below(n) == 0; }

 private:
  uint64_t state_;
};

// A good packet, of at most about `max_size` bytes.
Bytes good(Packet kind, size_t max_size, Random& random);

// Damages `packet`, and makes its checksums and lengths fit again where that is possible, mostly.
void damage(Bytes& packet, Packet kind, size_t max_size, Random& random);

// Parameters or blocks of `head` followed by blocks of `tail`.
Bytes splice(const Bytes& head, const Bytes& tail, Packet kind, size_t max_size, Random& random);

}  // namespace actdma::fuzz
