// Block magnitude pruning (docs/format.md, bsr). Free of exceptions; every byte read is hostile.
#pragma once

#include <cstddef>
#include <cstdint>

#include "actdma/frame.hpp"

namespace actdma::native {

constexpr size_t kHistogramBytes = extension_bytes(kCodecBsr);

// Writes the payload of `raw_bytes` (whole blocks) to `out` and their histogram to `histogram`
// (kHistogramBytes, unaligned); returns the payload's end.
uint8_t* encode_bsr(const uint8_t* raw, size_t raw_bytes, const BsrShape& shape, uint8_t* out,
                    uint8_t* histogram);

// Reads the payload at `in`, of which not more than up to `end` may be taken, to `out` (exactly
// `raw_bytes`, whole blocks). Moves `in` to its end.
Status decode_bsr(const uint8_t*& in, const uint8_t* end, const BsrShape& shape, uint8_t* out,
                  size_t raw_bytes);

}  // namespace actdma::native
