#include "block_sparse.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "actdma/float.hpp"
#include "arithmetic.hpp"
#include "bits.hpp"
#include "workers.hpp"

namespace actdma::native {
namespace {

// What a thread works on at a time, which is to stay in its cache: rows of the panel of the
// gradient, and columns of the result. Whole blocks.
constexpr size_t kChunkRows = 1024;
constexpr size_t kMostColumns = 1024;

struct Fp32 {
  using Stored = float;
  static float widen(Stored value) { return value; }
  static Stored narrow(float value) { return value; }
};
struct Bf16 {
  using Stored = uint16_t;
  static float widen(Stored bits) {
    const uint32_t wide = uint32_t(bits) << 16;
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
  }
  static Stored narrow(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return static_cast<Stored>(bf16_from_fp32(bits));
  }
};

template <class Kind>
void widen(const uint8_t* from, size_t count, float* to) {
  using Stored = typename Kind::Stored;
  for (size_t i = 0; i < count; i++) to[i] = Kind::widen(load<Stored>(from + i * sizeof(Stored)));
}

// The kept blocks in the order in which they are multiplied: by chunks of rows, then by columns.
class BlockColumns {
 public:
  BlockColumns(const BlockSparse& matrix, const float* values)
      : columns_(matrix.block_columns()),
        starts_((matrix.rows + kChunkRows - 1) / kChunkRows * columns_ + 1),
        blocks_(static_cast<size_t>(matrix.crow[matrix.block_rows()])) {
    const auto for_blocks = [&](auto step) {
      for (size_t r = 0; r < matrix.block_rows(); r++) {
        const size_t row = r * matrix.block, chunk = row / kChunkRows;
        for (int64_t i = matrix.crow[r]; i < matrix.crow[r + 1]; i++) {
          const auto index = static_cast<size_t>(i);
          step(chunk * columns_ + static_cast<size_t>(matrix.col[index]),
               ProductBlock{values + index * matrix.block * matrix.block, row % kChunkRows});
        }
      }
    };
    for_blocks([&](size_t at, ProductBlock) { starts_[at + 1]++; });
    for (size_t i = 1; i < starts_.size(); i++) starts_[i] += starts_[i - 1];
    std::vector<size_t> next(starts_.begin(), starts_.end() - 1);
    for_blocks([&](size_t at, ProductBlock block) { blocks_[next[at]++] = block; });
  }

  const ProductBlock* begin(size_t chunk, size_t column) const {
    return blocks_.data() + starts_[chunk * columns_ + column];
  }
  const ProductBlock* end(size_t chunk, size_t column) const {
    return blocks_.data() + starts_[chunk * columns_ + column + 1];
  }

 private:
  size_t columns_;
  std::vector<size_t> starts_;
  std::vector<ProductBlock> blocks_;
};

// The product for panels of outputs and ranges of columns, each in the memory of its worker.
template <class Kind>
class Product {
  using Stored = typename Kind::Stored;

 public:
  Product(const ProductKernel& kernel, const BlockSparse& matrix, const float* values,
          const uint8_t* gradient, size_t outputs, uint8_t* out, size_t threads)
      : kernel_(kernel),
        matrix_(matrix),
        gradient_(gradient),
        outputs_(outputs),
        out_(out),
        blocks_(matrix, values),
        panels_((outputs + kernel.outputs - 1) / kernel.outputs) {
    const size_t columns = matrix.block_columns();
    // Every range packs the panels again: no more of them than it takes to employ all threads.
    const size_t ranges = (threads + panels_ - 1) / panels_;
    range_ = std::max<size_t>(1, std::min(kMostColumns / matrix.block, columns / ranges));
    pieces_ = panels_ * ((columns + range_ - 1) / range_);
  }

  size_t pieces() const { return pieces_; }

  // Of the memory that a worker needs.
  size_t bytes() const {
    const size_t rows = std::min(kChunkRows, matrix_.rows) + range_ * matrix_.block;
    return rows * kernel_.outputs * sizeof(float) + kLineBytes;
  }

  void compute(size_t piece, uint8_t* room) const {
    const size_t output = piece % panels_ * kernel_.outputs, column = piece / panels_ * range_;
    const size_t columns = std::min(range_, matrix_.block_columns() - column);
    const auto address = reinterpret_cast<uintptr_t>(room);
    auto* const sums = reinterpret_cast<float*>(address + (-address) % kLineBytes);
    float* const panel = sums + range_ * matrix_.block * kernel_.outputs;
    std::fill(sums, panel, 0.0f);
    for (size_t row = 0; row < matrix_.rows; row += kChunkRows) {
      const size_t rows = std::min(kChunkRows, matrix_.rows - row), chunk = row / kChunkRows;
      pack(row, rows, output, panel);
      for (size_t c = 0; c < columns; c++) {
        kernel_.add({panel, rows, blocks_.begin(chunk, column + c), blocks_.end(chunk, column + c),
                     matrix_.block},
                    sums + c * matrix_.block * kernel_.outputs);
      }
    }
    write(sums, output, column * matrix_.block, columns * matrix_.block);
  }

 private:
  // The panel from `output` on, of `rows` rows; zeros where there are no more outputs.
  void pack(size_t row, size_t rows, size_t output, float* to) const {
    const size_t width = std::min(kernel_.outputs, outputs_ - output);
    for (size_t r = row; r < row + rows; r++, to += kernel_.outputs) {
      widen<Kind>(gradient_ + (r * outputs_ + output) * sizeof(Stored), width, to);
      std::fill(to + width, to + kernel_.outputs, 0.0f);
    }
  }

  // Sums, as they are in memory (columns x outputs), to their places in the result.
  void write(const float* sums, size_t output, size_t column, size_t columns) const {
    const size_t width = std::min(kernel_.outputs, outputs_ - output);
    const size_t end = std::min(columns, matrix_.columns - column);
    for (size_t first = 0; first < end; first += kWritten) {
      const size_t count = std::min(kWritten, end - first);
      for (size_t o = 0; o < width; o++) {
        uint8_t* const to =
            out_ + ((output + o) * matrix_.columns + column + first) * sizeof(Stored);
        for (size_t c = 0; c < count; c++) {
          store(to + c * sizeof(Stored), Kind::narrow(sums[(first + c) * kernel_.outputs + o]));
        }
      }
    }
  }

  static constexpr size_t kWritten = 16;  // columns at a time: a line of the caches

  const ProductKernel& kernel_;
  const BlockSparse& matrix_;
  const uint8_t* gradient_;
  size_t outputs_;
  uint8_t* out_;
  BlockColumns blocks_;
  size_t panels_, range_, pieces_;
};

template <class Kind>
void compute(const ProductKernel& kernel, const BlockSparse& matrix, const uint8_t* gradient,
             size_t outputs, uint8_t* out, size_t threads) {
  if (outputs == 0 || matrix.columns == 0) return;
  const size_t elements =
      static_cast<size_t>(matrix.crow[matrix.block_rows()]) * matrix.block * matrix.block;
  std::optional<Room> wide;
  const auto* values = reinterpret_cast<const float*>(matrix.values);
  if constexpr (sizeof(typename Kind::Stored) < sizeof(float)) {
    wide.emplace(elements * sizeof(float));
    widen<Kind>(matrix.values, elements, reinterpret_cast<float*>(wide->data()));
    values = reinterpret_cast<const float*>(wide->data());
  }
  const Product<Kind> product(kernel, matrix, values, gradient, outputs, out, threads);
  threads = std::min(threads, product.pieces());
  std::vector<std::unique_ptr<Room>> rooms(threads);
  for (auto& room : rooms) room = std::make_unique<Room>(product.bytes());
  std::atomic<size_t> next{0}, workers{0};
  run_in(threads, [&] {
    const DefaultArithmetic arithmetic;
    uint8_t* const room = rooms[workers++]->data();
    for (size_t piece; (piece = next++) < product.pieces();) product.compute(piece, room);
  });
}

}  // namespace

std::string check_indices(const BlockSparse& matrix, size_t kept) {
  const size_t rows = matrix.block_rows();
  const auto columns = static_cast<int64_t>(matrix.block_columns());
  const auto text = [](auto number) { return std::to_string(number); };
  if (matrix.crow[0] != 0) return "the first crow index is " + text(matrix.crow[0]) + ", not 0";
  for (size_t r = 0; r < rows; r++) {
    const int64_t start = matrix.crow[r], end = matrix.crow[r + 1];
    if (end < start || static_cast<uint64_t>(end) > kept) {
      return "crow index " + text(r + 1) + " is " + text(end) + ", allowed are " + text(start) +
             " to " + text(kept);
    }
    int64_t least = 0;
    for (int64_t i = start; i < end; i++) {
      if (matrix.col[i] < least || matrix.col[i] >= columns) {
        return "column index " + text(i) + ", in block row " + text(r) + ", is " +
               text(matrix.col[i]) + ", allowed are " + text(least) + " to " + text(columns - 1);
      }
      least = matrix.col[i] + 1;
    }
  }
  if (static_cast<uint64_t>(matrix.crow[rows]) == kept) return {};
  return "the last crow index is " + text(matrix.crow[rows]) + ", not the " + text(kept) +
         " kept blocks";
}

void weight_gradient(const Kernels& kernels, const BlockSparse& matrix, const uint8_t* gradient,
                     size_t outputs, Real real, uint8_t* out, size_t threads) {
  const auto run = real == Real::kFp32 ? compute<Fp32> : compute<Bf16>;
  run(kernels.product, matrix, gradient, outputs, out, std::max<size_t>(1, threads));
}

}  // namespace actdma::native
