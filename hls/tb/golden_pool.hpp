// A second, plain writing of docs/format.md's pool, with the processor's own floats.
#pragma once

#include <algorithm>
#include <cmath>

#include "golden.hpp"
#include "golden_float.hpp"

namespace golden {

struct PoolCase {
  uint32_t k, kind, height, width, maps;
};
struct Pooled {
  Bytes request, frame, answer;
};

inline float pool_value(const Bytes& raw, size_t element, uint32_t kind) {
  if (kind == actdma::kPoolInt8) return float(int8_t(raw[element]));
  if (kind == actdma::kPoolFp32) return value(get32(raw, 4 * element));
  const uint32_t half = raw[2 * element] | raw[2 * element + 1] << 8;
  return kind == actdma::kPoolBf16 ? value(half << 16) : fp16_value(half);
}

// The sum of `n` values, halves first; those that are not there are left out.
inline bool pool_tree(const float* values, const bool* there, size_t n, float& sum) {
  if (n == 1) {
    sum = values[0];
    return there[0];
  }
  float left, right;
  const bool a = pool_tree(values, there, n / 2, left);
  const bool b = pool_tree(values + n / 2, there + n / 2, n / 2, right);
  volatile float both = a && b ? left + right : a ? left : right;
  sum = both;
  return a || b;
}

inline void put_mean(Bytes& out, float sum, uint32_t count, uint32_t kind) {
  if (kind == actdma::kPoolInt8) {
    out.push_back(uint8_t(int8_t(std::round(double(sum) / count))));
    return;
  }
  volatile float reciprocal = 1.0f / float(count);
  volatile float mean = sum * reciprocal;
  const uint32_t stored = kind == actdma::kPoolFp32   ? bits(mean)
                          : kind == actdma::kPoolBf16 ? bf16_bits(mean)
                                                      : fp16_bits(mean);
  for (int i = 0; i < (kind == actdma::kPoolFp32 ? 4 : 2); i++)
    out.push_back(uint8_t(stored >> 8 * i));
}

inline Pooled pool(const PoolCase& c, uint32_t seed) {
  const uint32_t size = 1u << actdma::pool_element_log2(c.kind);
  const size_t map = size_t(c.height) * c.width;
  Bytes raw = random_raw(map * c.maps * size, 1, 0.9, seed);
  Bytes head = descriptor(actdma::kCodecPool, size, seed, uint32_t(raw.size()), c.k | c.kind << 8);
  for (int i = 0; i < 4; i++) {
    head[28 + i] = uint8_t(c.height >> 8 * i);
    head[32 + i] = uint8_t(c.width >> 8 * i);
    head[36 + i] = uint8_t(c.maps >> 8 * i);
  }
  head.resize(60);
  put32(head, crc(head));

  Bytes payload, data(raw.size());
  for (uint32_t m = 0; m < c.maps; m++)
    for (uint32_t y = 0; y < c.height; y += c.k)
      for (uint32_t x = 0; x < c.width; x += c.k) {
        const uint32_t rows = std::min(c.k, c.height - y), columns = std::min(c.k, c.width - x);
        float sum = 0;
        for (uint32_t j = 0; j < rows; j++) {
          float values[8] = {}, across;
          bool there[8] = {};
          for (uint32_t i = 0; i < columns; i++) {
            values[i] = pool_value(raw, m * map + size_t(y + j) * c.width + x + i, c.kind);
            there[i] = true;
          }
          pool_tree(values, there, c.k, across);
          volatile float so_far = j == 0 ? across : sum + across;
          sum = so_far;
        }
        put_mean(payload, sum, rows * columns, c.kind);
        for (uint32_t j = 0; j < rows; j++)
          for (uint32_t i = 0; i < columns; i++)
            std::copy_n(payload.end() - size, size,
                        data.begin() + (m * map + size_t(y + j) * c.width + x + i) * size);
      }
  while (payload.size() % 4) payload.push_back(0);
  Bytes frame = head;
  frame.insert(frame.end(), payload.begin(), payload.end());
  pad(frame);
  put_trailer(frame, 0, head, uint32_t(payload.size()), 0);
  pad(data);
  Bytes answer = data;
  put_trailer(answer, 0, head, uint32_t(payload.size()), crc(data));
  return {request(head, raw), frame, answer};
}

}  // namespace golden
