// The frames of a tensor, in and out of memory, in several threads. Throws std::bad_alloc where
// there is no memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "codec.hpp"

namespace actdma::native {

// A frame to be made, whose good descriptor says what of.
struct RawFrame {
  const uint8_t* raw;
  size_t raw_bytes;
  const uint8_t* descriptor;
  size_t bound;                               // its frame_bound
  std::optional<MeasuredBlocks> blocks = {};  // what it is made of in place of `raw`
};

// Writes the frames, one after the other, to `out` (their bounds and kEncodeSlack long); `lengths`
// gets the length of each, and `set` (unless null) how many elements of all have a bit set. With
// several threads, each codes frames in memory of its own and copies them to their places.
void encode_frames(const Kernels& kernels, const std::vector<RawFrame>& frames, uint8_t* out,
                   bool past_caches, size_t threads, size_t* lengths, size_t* set);

// A frame to be read, and its part of the tensor.
struct Packet {
  const uint8_t* data;
  size_t bytes;
  uint8_t* out;
  size_t out_bytes;
};

// The status of the first that is not good.
Status decode_frames(const Kernels& kernels, const std::vector<Packet>& packets, bool past_caches,
                     size_t threads);

// CRC-32C of the parts of `data` between `borders`, the first of which is 0; each padded with zeros
// to whole chunks.
void padded_crcs(const Kernels& kernels, const uint8_t* data, const std::vector<size_t>& borders,
                 size_t threads, uint32_t* crcs);

}  // namespace actdma::native
