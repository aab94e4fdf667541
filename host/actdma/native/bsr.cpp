#include "bsr.hpp"

#include <algorithm>
#include <cstring>

#include "arithmetic.hpp"
#include "bits.hpp"

namespace actdma::native {
namespace {

constexpr size_t kMaskBytes = 4;

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

template <class Element, uint32_t (*Magnitude)(Element), uint32_t NORM, size_t ELEMENTS>
uint32_t block_norm(const uint8_t* block) {
  uint32_t bits[ELEMENTS];
  for (size_t i = 0; i < ELEMENTS; i++)
    bits[i] = Magnitude(load<Element>(block + i * sizeof(Element)));
  if (NORM == kNormMax) {
    uint32_t most = 0;
    for (size_t i = 0; i < ELEMENTS; i++) most = std::max(most, bits[i]);
    return most;
  }
  float values[ELEMENTS];
  std::memcpy(values, bits, sizeof bits);
  if (NORM == kNormL2)
    for (size_t i = 0; i < ELEMENTS; i++) values[i] *= values[i];
  const float sum = tree_sum<ELEMENTS>(values);
  std::memcpy(bits, &sum, 4);
  return bits[0];
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

}  // namespace

uint8_t* encode_bsr(const uint8_t* raw, size_t raw_bytes, const BsrShape& shape, uint8_t* out,
                    uint8_t* histogram) {
  const DefaultArithmetic arithmetic;
  const NormOf norm_of_block = norm_of(shape);
  const size_t block_bytes = size_t(4) << shape.words_log2();
  uint32_t counts[kHistogramBins] = {};
  for_groups(raw_bytes / block_bytes, shape, [&](size_t group) {
    uint8_t* const mask_at = out;
    uint32_t mask = 0;
    out += kMaskBytes;
    for (size_t i = 0; i < group; i++, raw += block_bytes) {
      const uint32_t norm = norm_of_block(raw);
      counts[histogram_bin(norm)]++;
      if (norm < shape.threshold) continue;
      mask |= 1u << i;
      std::memcpy(out, raw, block_bytes);
      out += block_bytes;
    }
    store(mask_at, mask);
    return kGood;
  });
  std::memcpy(histogram, counts, kHistogramBytes);
  return out;
}

Status decode_bsr(const uint8_t*& in, const uint8_t* end, const BsrShape& shape, uint8_t* out,
                  size_t raw_bytes) {
  const size_t block_bytes = size_t(4) << shape.words_log2();
  return for_groups(raw_bytes / block_bytes, shape, [&](size_t group) {
    if (size_t(end - in) < kMaskBytes) return kBadLength;
    const auto mask = load<uint32_t>(in);
    in += kMaskBytes;
    if (group < 32 && mask >> group) return kBadBlock;
    for (size_t i = 0; i < group; i++, out += block_bytes) {
      if (!(mask >> i & 1)) {
        std::memset(out, 0, block_bytes);
        continue;
      }
      if (size_t(end - in) < block_bytes) return kBadLength;
      std::memcpy(out, in, block_bytes);
      in += block_bytes;
    }
    return kGood;
  });
}

}  // namespace actdma::native
