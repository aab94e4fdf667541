// Blocks of docs/format.md in and out of memory. Exception-free, and every byte that is read is
// taken for hostile.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels.hpp"
#include "records.hpp"

namespace actdma::native {

constexpr size_t kBlockBytes = 4 * kBlockWords;

// The codecs whose frames are blocks, a bit each.
constexpr uint32_t kBlockCodecs =
    1u << kCodecRaw | 1u << kCodecZvc | 1u << kCodecZve | 1u << kCodecInts | 1u << kCodecRle;

// Bytes that encode_block may write past the longest block: what a mask plane and a full data plane
// have more than a raw block, and a vector.
constexpr size_t kEncodeSlack = kBlockBytes / 8 + kVectorSlack;

// Bytes after a block that decode_block may read.
constexpr size_t kDecodeSlack = kVectorSlack;

// Writes the block of `raw` (a multiple of 64 long) to `out` and returns its end.
uint8_t* encode_block(const Kernels& kernels, const uint8_t* raw, size_t bytes, uint8_t* out,
                      const Coding& coding, Side& side);

// Reads the block at `in`, which ends at `end` at the latest, to `out` (exactly `bytes` long) and
// moves `in` to its end.
Status decode_block(const Kernels& kernels, const uint8_t*& in, const uint8_t* end, uint8_t* out,
                    size_t bytes, const Coding& coding, Side& side);

}  // namespace actdma::native
