// Average pooling and nearest upsampling (docs/format.md, pool). Free of exceptions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "actdma/frame.hpp"

namespace actdma::native {

// Writes the payload of the maps at `raw` to `out`; returns its end.
uint8_t* encode_pool(const uint8_t* raw, const PoolShape& shape, uint8_t* out);

// Reads the payload at `in`, of which not more than up to `end` may be taken, to the maps at `out`.
// Moves `in` to its end.
Status decode_pool(const uint8_t*& in, const uint8_t* end, const PoolShape& shape, uint8_t* out);

}  // namespace actdma::native
