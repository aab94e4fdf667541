// Block magnitude pruning (docs/format.md, bsr). Free of exceptions; every byte read is hostile.
#pragma once

#include <cstddef>
#include <cstdint>

#include "actdma/frame.hpp"
#include "kernels.hpp"

namespace actdma::native {

constexpr size_t kHistogramBytes = extension_bytes(kCodecBsr);

// Writes the payload of `raw_bytes` (whole blocks) to `out` and their histogram to `histogram`
// (kHistogramBytes, unaligned); returns the payload's end.
uint8_t* encode_bsr(const uint8_t* raw, size_t raw_bytes, const BsrShape& shape, uint8_t* out,
                    uint8_t* histogram);

// A matrix as it lies in memory, row-major, that is cut into blocks. Zeros stand for what the ones
// at its edges lack.
struct Matrix {
  const uint8_t* elements;
  size_t rows, columns;
};

// How many blocks of `shape` it is cut into.
size_t blocks_of(const Matrix& matrix, const BsrShape& shape);

// Writes the norms (float32 bits) of a matrix' blocks, in their order, to `norms`; in so many
// threads. Returns how many elements have no bit set.
size_t measure_blocks(const Kernels& kernels, const Matrix& matrix, const BsrShape& shape,
                      uint32_t* norms, size_t threads);

// The blocks of a matrix from `first` on, and the norms of all of them.
struct MeasuredBlocks {
  Matrix matrix;
  const uint32_t* norms;
  size_t first;
};

// As above, from where the blocks lie.
uint8_t* encode_bsr(const MeasuredBlocks& blocks, size_t raw_bytes, const BsrShape& shape,
                    uint8_t* out, uint8_t* histogram);

// Reads the payload at `in`, of which not more than up to `end` may be taken, to `out` (exactly
// `raw_bytes`, whole blocks). Moves `in` to its end.
Status decode_bsr(const uint8_t*& in, const uint8_t* end, const BsrShape& shape, uint8_t* out,
                  size_t raw_bytes);

// The kept blocks of a matrix in Block Sparse Row format, as they come from one frame after the
// other, for which there is room.
struct KeptBlocks {
  size_t rows, columns, block_bytes, most;
  int64_t* crow;                         // rows + 1, the first one 0
  int64_t* col;                          // most
  uint8_t* values;                       // of `most` blocks
  size_t kept = 0, row = 0, column = 0;  // so far

  // Takes those of a payload, as decode_bsr does. kBadReserved: they are not of this matrix;
  // kBadLength: there is no room for them.
  Status take(const uint8_t*& in, const uint8_t* end, const BsrShape& shape, size_t raw_bytes);
};

}  // namespace actdma::native
