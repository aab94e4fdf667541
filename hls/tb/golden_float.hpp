// Conversions as the processor and plain arithmetic do them, for the benches to compare with.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "actdma/float.hpp"

namespace golden {

inline float value(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}

// With the canonical NaN for any.
inline uint32_t bits(float x) {
  uint32_t b;
  std::memcpy(&b, &x, 4);
  return std::isnan(x) ? actdma::kFp32Nan : b;
}

// `x` rounded to a multiple of 2^-24 or of the last of 11 bits, whichever is larger; then as fp16.
inline uint32_t fp16_bits(float x) {
  if (std::isnan(x)) return 0x7E00;
  const uint32_t sign = std::signbit(x) ? 0x8000 : 0;
  const double a = std::fabs(double(x));
  if (a == 0) return sign;
  if (std::isinf(a)) return sign | 0x7C00;
  const int unit = std::max(std::ilogb(a), -14) - 10;
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(a, -unit)), unit);
  if (rounded >= 65520) return sign | 0x7C00;
  if (rounded < std::ldexp(1, -14)) return sign | uint32_t(std::ldexp(rounded, 24));
  const int exponent = std::ilogb(rounded);
  return sign | uint32_t(exponent + 15) << 10 |
         (uint32_t(std::ldexp(rounded, 10 - exponent)) & 0x3FF);
}

inline float fp16_value(uint32_t h) {
  const uint32_t exponent = h >> 10 & 0x1F, fraction = h & 0x3FF;
  double x = exponent ? std::ldexp(1024 + fraction, int(exponent) - 25) : std::ldexp(fraction, -24);
  if (exponent == 31) x = fraction ? NAN : INFINITY;
  return float(h >> 15 ? -x : x);
}

inline uint32_t bf16_bits(float x) {
  if (std::isnan(x)) return 0x7FC0;
  const uint32_t low = bits(x) & 0xFFFF0000, high = low + 0x10000;
  if ((low & 0x7F800000) == 0x7F800000) return low >> 16;
  // In double the border beyond the largest number has a value, too.
  const double next = (high & 0x7F800000) == 0x7F800000 ? std::copysign(std::ldexp(1, 128), x)
                                                        : double(value(high));
  const double below = std::fabs(double(x) - value(low)), above = std::fabs(next - double(x));
  const bool up = above < below || (above == below && (low >> 16 & 1));
  return (up ? high : low) >> 16;
}

}  // namespace golden
