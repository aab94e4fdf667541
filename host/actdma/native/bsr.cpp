#include "bsr.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "arithmetic.hpp"
#include "bits.hpp"
#include "workers.hpp"

namespace actdma::native {
namespace {

constexpr size_t kMaskBytes = 4;
constexpr size_t kMostBlockBytes = 32 * 32 * sizeof(uint32_t);

// An element's absolute value as float32 bits.
constexpr uint32_t kExponent = 0x7F800000;
uint32_t magnitude_fp32(uint32_t bits) { return bits & 0x7FFFFFFF; }
uint32_t magnitude_bf16(uint16_t bits) { return uint32_t(bits & 0x7FFF) << 16; }
uint32_t magnitude_fp16(uint16_t bits) {
  // Exponent and fraction in their new places; the product mends the bias, of denormals too.
  const uint32_t moved = uint32_t(bits & 0x7FFF) << 13;
  float value;
  std::memcpy(&value, &moved, 4);
  value *= 0x1p112f;
  uint32_t result;
  std::memcpy(&result, &value, 4);
  return (bits & 0x7C00) == 0x7C00 ? result | kExponent : result;
}

// The norm of a block as float32 bits.
using NormOf = uint32_t (*)(const uint8_t* block);

// Sums of two neighbours, of two of these, and so on. (Levels of their own stay in registers.)
template <size_t ELEMENTS>
inline float tree_sum(const float* values) {
  if constexpr (ELEMENTS == 1) {
    return values[0];
  } else {
    float sums[ELEMENTS / 2];
    for (size_t i = 0; i < ELEMENTS / 2; i++) sums[i] = values[2 * i] + values[2 * i + 1];
    return tree_sum<ELEMENTS / 2>(sums);
  }
}

// What the norms, or terms, of parts that lie side by side make together.
template <uint32_t NORM, size_t PARTS>
inline uint32_t join(const uint32_t (&parts)[PARTS]) {
  if (NORM == kNormMax) {
    uint32_t most = 0;
    for (const uint32_t part : parts) most = std::max(most, part);
    return most;
  }
  float values[PARTS];
  std::memcpy(values, parts, sizeof values);
  const float sum = tree_sum<PARTS>(values);
  uint32_t bits;
  std::memcpy(&bits, &sum, sizeof bits);
  return bits;
}

// Elements at a time, for which the registers have room.
constexpr size_t kPiece = 64;

template <class Element, uint32_t (*Magnitude)(Element), uint32_t NORM, size_t ELEMENTS>
uint32_t block_norm(const uint8_t* block) {
  if constexpr (ELEMENTS > kPiece) {
    uint32_t pieces[ELEMENTS / kPiece];
    for (uint32_t& piece : pieces) {
      piece = block_norm<Element, Magnitude, NORM, kPiece>(block);
      block += kPiece * sizeof(Element);
    }
    return join<NORM>(pieces);
  }
  uint32_t bits[ELEMENTS];
  for (size_t i = 0; i < ELEMENTS; i++)
    bits[i] = Magnitude(load<Element>(block + i * sizeof(Element)));
  if (NORM == kNormL2) {
    float values[ELEMENTS];
    std::memcpy(values, bits, sizeof bits);
    for (float& value : values) value *= value;
    std::memcpy(bits, values, sizeof bits);
  }
  return join<NORM>(bits);
}

template <class Element, uint32_t (*Magnitude)(Element), uint32_t NORM>
NormOf norm_of_size(size_t elements) {
  return elements == 16    ? block_norm<Element, Magnitude, NORM, 16>
         : elements == 64  ? block_norm<Element, Magnitude, NORM, 64>
         : elements == 256 ? block_norm<Element, Magnitude, NORM, 256>
                           : block_norm<Element, Magnitude, NORM, 1024>;
}

template <class Element, uint32_t (*Magnitude)(Element)>
NormOf norm_of_kind(uint32_t norm, size_t elements) {
  return norm == kNormL1   ? norm_of_size<Element, Magnitude, kNormL1>(elements)
         : norm == kNormL2 ? norm_of_size<Element, Magnitude, kNormL2>(elements)
                           : norm_of_size<Element, Magnitude, kNormMax>(elements);
}

NormOf norm_of(const BsrShape& shape) {
  const size_t elements = size_t(1) << (shape.words_log2() + (shape.kind != kBsrFp32));
  return shape.kind == kBsrFp32   ? norm_of_kind<uint32_t, magnitude_fp32>(shape.norm, elements)
         : shape.kind == kBsrBf16 ? norm_of_kind<uint16_t, magnitude_bf16>(shape.norm, elements)
                                  : norm_of_kind<uint16_t, magnitude_fp16>(shape.norm, elements);
}

// Calls step(blocks of the group) for every group of `blocks` blocks, until one is not good.
template <class Step>
Status for_groups(size_t blocks, const BsrShape& shape, Step step) {
  const size_t most = size_t(1) << shape.group_log2();
  for (size_t row_left = shape.columns; blocks > 0;) {
    const size_t group = std::min({most, row_left, blocks});
    const Status status = step(group);
    if (status != kGood) return status;
    blocks -= group;
    row_left -= group;
    if (row_left == 0) row_left = shape.columns;
  }
  return kGood;
}

// Blocks as they are, to be measured.
class RawBlocks {
 public:
  RawBlocks(const uint8_t* raw, const BsrShape& shape)
      : raw_(raw), block_bytes_(size_t(4) << shape.words_log2()), norm_(norm_of(shape)) {}

  uint32_t norm(size_t block) const { return norm_(raw_ + block * block_bytes_); }
  void copy(size_t block, uint8_t* to) const {
    std::memcpy(to, raw_ + block * block_bytes_, block_bytes_);
  }

 private:
  const uint8_t* raw_;
  size_t block_bytes_;
  NormOf norm_;
};

// Blocks of a matrix.
class MatrixBlocks {
 public:
  MatrixBlocks(const Matrix& matrix, const BsrShape& shape)
      : matrix_(matrix),
        columns_(shape.columns),
        block_(shape.block),
        element_(shape.kind == kBsrFp32 ? 4 : 2) {}

  void copy(size_t block, uint8_t* to) const {
    const size_t row = block / columns_ * block_, column = block % columns_ * block_;
    const size_t rows = std::min(block_, matrix_.rows - row);
    const size_t columns = std::min(block_, matrix_.columns - column);
    const uint8_t* from = matrix_.elements + (row * matrix_.columns + column) * element_;
    const size_t pitch = matrix_.columns * element_;
    if (columns == block_) {
      for (size_t r = 0; r < rows; r++) copy_row(from + r * pitch, to + r * block_ * element_);
    } else {
      std::memset(to, 0, rows * block_ * element_);
      for (size_t r = 0; r < rows; r++) {
        std::memcpy(to + r * block_ * element_, from + r * pitch, columns * element_);
      }
    }
    std::memset(to + rows * block_ * element_, 0, (block_ - rows) * block_ * element_);
  }

 private:
  // A whole one: 8, 16, 32, 64 or 128 bytes.
  void copy_row(const uint8_t* from, uint8_t* to) const {
    const size_t bytes = block_ * element_;
    if (bytes == 8) {
      std::memcpy(to, from, 8);
    } else {
      for (size_t i = 0; i < bytes; i += 16) std::memcpy(to + i, from + i, 16);
    }
  }

  Matrix matrix_;
  size_t columns_, block_, element_;
};

// Blocks of a matrix whose norms are known.
class KnownBlocks {
 public:
  KnownBlocks(const MeasuredBlocks& blocks, const BsrShape& shape)
      : blocks_(blocks.matrix, shape), norms_(blocks.norms), first_(blocks.first) {}

  uint32_t norm(size_t block) const { return norms_[first_ + block]; }
  void copy(size_t block, uint8_t* to) const { blocks_.copy(first_ + block, to); }

 private:
  MatrixBlocks blocks_;
  const uint32_t* norms_;
  size_t first_;
};

template <class Blocks>
uint8_t* encode(const Blocks& blocks, size_t raw_bytes, const BsrShape& shape, uint8_t* out,
                uint8_t* histogram) {
  const size_t block_bytes = size_t(4) << shape.words_log2();
  uint32_t counts[kHistogramBins] = {};
  size_t block = 0;
  for_groups(raw_bytes / block_bytes, shape, [&](size_t group) {
    uint8_t* const mask_at = out;
    uint32_t mask = 0;
    out += kMaskBytes;
    for (size_t i = 0; i < group; i++, block++) {
      const uint32_t norm = blocks.norm(block);
      counts[histogram_bin(norm)]++;
      if (norm < shape.threshold) continue;
      mask |= 1u << i;
      blocks.copy(block, out);
      out += block_bytes;
    }
    store(mask_at, mask);
    return kGood;
  });
  std::memcpy(histogram, counts, kHistogramBytes);
  return out;
}

// Calls step(where it lies in the payload, or null) for every block, until one is not good.
template <class Step>
Status walk(const uint8_t*& in, const uint8_t* end, const BsrShape& shape, size_t raw_bytes,
            Step step) {
  const size_t block_bytes = size_t(4) << shape.words_log2();
  return for_groups(raw_bytes / block_bytes, shape, [&](size_t group) {
    if (size_t(end - in) < kMaskBytes) return kBadLength;
    const auto mask = load<uint32_t>(in);
    in += kMaskBytes;
    if (group < 32 && mask >> group) return kBadBlock;
    for (size_t i = 0; i < group; i++) {
      const bool kept = mask >> i & 1;
      if (kept && size_t(end - in) < block_bytes) return kBadLength;
      const Status status = step(kept ? in : nullptr);
      if (status != kGood) return status;
      if (kept) in += block_bytes;
    }
    return kGood;
  });
}

}  // namespace

size_t blocks_of(const Matrix& matrix, const BsrShape& shape) {
  const auto whole = [&](size_t size) { return size / shape.block + (size % shape.block != 0); };
  return whole(matrix.rows) * whole(matrix.columns);
}

size_t measure_blocks(const Kernels& kernels, const Matrix& matrix, const BsrShape& shape,
                      uint32_t* norms, size_t threads) {
  const NormOf norm_of_block = norm_of(shape);
  const MatrixBlocks blocks(matrix, shape);
  const size_t rows = blocks_of(matrix, shape) / shape.columns;
  const int element_log2 = shape.kind == kBsrFp32 ? 2 : 1;
  const size_t row_bytes = matrix.columns << element_log2;
  std::atomic<size_t> next{0}, zeros{0};
  run_in(std::min(threads, rows), [&] {
    const DefaultArithmetic arithmetic;
    alignas(kLineBytes) uint8_t copy[kMostBlockBytes];
    for (size_t row; (row = next++) < rows;) {
      for (size_t block = row * shape.columns; block < (row + 1) * shape.columns; block++) {
        blocks.copy(block, copy);
        norms[block] = norm_of_block(copy);
      }
      const size_t first = row * shape.block;
      const size_t bytes = std::min<size_t>(shape.block, matrix.rows - first) * row_bytes;
      zeros += kernels.zeros(matrix.elements + first * row_bytes, bytes, element_log2);
    }
  });
  return zeros;
}

uint8_t* encode_bsr(const uint8_t* raw, size_t raw_bytes, const BsrShape& shape, uint8_t* out,
                    uint8_t* histogram) {
  const DefaultArithmetic arithmetic;
  return encode(RawBlocks(raw, shape), raw_bytes, shape, out, histogram);
}

uint8_t* encode_bsr(const MeasuredBlocks& blocks, size_t raw_bytes, const BsrShape& shape,
                    uint8_t* out, uint8_t* histogram) {
  return encode(KnownBlocks(blocks, shape), raw_bytes, shape, out, histogram);
}

Status decode_bsr(const uint8_t*& in, const uint8_t* end, const BsrShape& shape, uint8_t* out,
                  size_t raw_bytes) {
  const size_t block_bytes = size_t(4) << shape.words_log2();
  return walk(in, end, shape, raw_bytes, [&](const uint8_t* kept) {
    if (kept) {
      std::memcpy(out, kept, block_bytes);
    } else {
      std::memset(out, 0, block_bytes);
    }
    out += block_bytes;
    return kGood;
  });
}

Status KeptBlocks::take(const uint8_t*& in, const uint8_t* end, const BsrShape& shape,
                        size_t raw_bytes) {
  if (shape.columns != columns || size_t(4) << shape.words_log2() != block_bytes)
    return kBadReserved;
  return walk(in, end, shape, raw_bytes, [&](const uint8_t* block) {
    if (row == rows || (block && kept == most)) return kBadLength;
    if (block) {
      std::memcpy(values + kept * block_bytes, block, block_bytes);
      col[kept++] = static_cast<int64_t>(column);
    }
    if (++column == columns) {
      column = 0;
      crow[++row] = static_cast<int64_t>(kept);
    }
    return kGood;
  });
}

}  // namespace actdma::native
