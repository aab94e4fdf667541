// Codec bsr in the plain writing: the processor's own floating point, one element at a time.
#pragma once

#include <algorithm>
#include <cmath>

#include "golden.hpp"
#include "golden_float.hpp"

namespace golden {

struct BsrCase {
  uint32_t block, norm, kind, columns, blocks;
  double dropped;  // share of the blocks, about
};

inline float element(const uint8_t* at, uint32_t kind) {
  const uint32_t half = at[0] | at[1] << 8;
  if (kind == actdma::kBsrFp16) return fp16_value(half);
  return value(kind == actdma::kBsrBf16 ? half << 16 : half | at[2] << 16 | uint32_t(at[3]) << 24);
}

inline float norm(const uint8_t* block, const BsrCase& c) {
  std::vector<float> values;
  for (uint32_t i = 0; i < c.block * c.block; i++) {
    const float x = std::fabs(element(block + i * (c.kind == actdma::kBsrFp32 ? 4 : 2), c.kind));
    values.push_back(c.norm == actdma::kNormL2 ? x * x : x);
  }
  while (values.size() > 1) {
    std::vector<float> next;
    for (size_t i = 0; i < values.size(); i += 2) {
      const float a = values[i], b = values[i + 1];
      next.push_back(c.norm != actdma::kNormMax ? a + b : std::isnan(a) || a > b ? a : b);
    }
    values = next;
  }
  return values[0];
}

struct Pruned {
  Bytes request, frame, answer;
};

inline Pruned prune(const BsrCase& c, uint32_t seed) {
  const uint32_t element_bytes = c.kind == actdma::kBsrFp32 ? 4 : 2;
  const uint32_t block_bytes = c.block * c.block * element_bytes;
  const Bytes raw = random_raw(c.blocks * block_bytes, element_bytes, 0.5, seed, 63);
  std::vector<float> norms;
  for (uint32_t i = 0; i < c.blocks; i++) norms.push_back(norm(raw.data() + i * block_bytes, c));
  std::vector<float> sorted = norms;
  std::sort(sorted.begin(), sorted.end());
  const float threshold = c.dropped == 0 ? 0 : sorted[size_t(c.dropped * (c.blocks - 1))];

  Bytes head = descriptor(actdma::kCodecBsr, element_bytes, seed, uint32_t(raw.size()),
                          c.block | c.norm << 8 | c.kind << 16);
  for (int k = 0; k < 4; k++) {
    head[28 + k] = uint8_t(c.columns >> 8 * k);
    head[32 + k] = uint8_t(bits(threshold) >> 8 * k);
  }
  head.resize(60);
  put32(head, crc(head));

  Bytes payload, dense(raw.size());
  std::vector<uint32_t> counts(64);
  const uint32_t most = std::min(32u, 4096 / block_bytes);
  for (uint32_t i = 0, group; i < c.blocks; i += group) {
    group = std::min({most, c.columns - i % c.columns, c.blocks - i});
    uint32_t mask = 0;
    Bytes kept;
    for (uint32_t k = 0; k < group; k++) {
      counts[std::min(63, std::max(0, int(bits(norms[i + k]) >> 23) - 95))]++;
      if (norms[i + k] < threshold) continue;
      mask |= 1u << k;
      const size_t at = size_t(i + k) * block_bytes;
      kept.insert(kept.end(), raw.begin() + at, raw.begin() + at + block_bytes);
      std::copy_n(raw.begin() + at, block_bytes, dense.begin() + at);
    }
    put32(payload, mask);
    payload.insert(payload.end(), kept.begin(), kept.end());
  }
  Bytes frame = head;
  frame.insert(frame.end(), payload.begin(), payload.end());
  pad(frame);
  for (uint32_t count : counts) put32(frame, count);
  put_trailer(frame, 0, head, uint32_t(payload.size()), 0);
  pad(dense);
  Bytes answer = dense;
  put_trailer(answer, 0, head, uint32_t(payload.size()), crc(dense));
  return {request(head, raw), frame, answer};
}

}  // namespace golden
