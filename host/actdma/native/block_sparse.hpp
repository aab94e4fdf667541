// The weight gradient of a linear layer whose saved input is in Block Sparse Row format (structured
// activation pruning, arXiv 2311.16883).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels.hpp"

namespace actdma::native {

// A matrix of `rows` x `columns` in square blocks, its edges padded to whole ones.
struct BlockSparse {
  size_t rows, columns;
  size_t block;           // rows and columns of a block: 4, 8, 16 or 32
  const int64_t* crow;    // block_rows() + 1
  const int64_t* col;     // kept blocks
  const uint8_t* values;  // of each; aligned to an element

  size_t block_rows() const { return rows / block + (rows % block != 0); }
  size_t block_columns() const { return columns / block + (columns % block != 0); }
};

enum class Real { kFp32, kBf16 };

// What is wrong with the indices of `kept` blocks; empty if nothing is.
std::string check_indices(const BlockSparse& matrix, size_t kept);

// Writes gradient^T x matrix (`outputs` x columns, row-major) to `out`, of a `gradient` of rows x
// `outputs`, row-major. Blocks that are not kept and padding are left out, whatever the gradient
// has there. Sums are of fp32, in an order that hangs on the instruction set alone; bf16 results
// are rounded once. Throws std::bad_alloc where there is no memory.
void weight_gradient(const Kernels& kernels, const BlockSparse& matrix, const uint8_t* gradient,
                     size_t outputs, Real real, uint8_t* out, size_t threads);

}  // namespace actdma::native
