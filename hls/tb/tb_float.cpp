// Bench of the floating-point functions against the processor's own arithmetic.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "actdma/float.hpp"
#include "golden.hpp"

static_assert(sizeof(float) == 4 && __FLT_EVAL_METHOD__ == 0, "fp32 without excess precision");

static std::mt19937 rng(1);

static float value(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}

// With the canonical NaN for any.
static uint32_t bits(float x) {
  uint32_t b;
  std::memcpy(&b, &x, 4);
  return std::isnan(x) ? actdma::kFp32Nan : b;
}

static void same(uint32_t found, uint32_t expected, const char* what, uint32_t a, uint32_t b = 0) {
  if (found == expected) return;
  char where[80];
  std::snprintf(where, sizeof where, "0x%08x, 0x%08x: 0x%08x, expected 0x%08x", a, b, found,
                expected);
  golden::fail(what, where);
}

static void check_pair(uint32_t a, uint32_t b) {
  // volatile: computed by the processor when the bench runs, not by the compiler.
  volatile float x = value(a), y = value(b);
  same(actdma::fp32_add(a, b), bits(x + y), "fp32_add", a, b);
  same(actdma::fp32_multiply(a, b), bits(x * y), "fp32_multiply", a, b);
  if (!std::isnan(x) && !std::isnan(y))
    same(actdma::fp32_magnitude_less(a, b), std::fabs(x) < std::fabs(y), "magnitude", a, b);
}

// Every exponent, with fractions and signs at their borders.
static std::vector<uint32_t> specials() {
  std::vector<uint32_t> list;
  for (uint32_t exponent = 0; exponent < 256; exponent++)
    for (uint32_t fraction : {0u, 1u, 0x3FFFFFu, 0x400000u, 0x7FFFFFu})
      for (uint32_t sign : {0u, 1u}) list.push_back(sign << 31 | exponent << 23 | fraction);
  return list;
}

static long pairs() {
  long cases = 0;
  const std::vector<uint32_t> list = specials();
  for (uint32_t a : list)
    for (uint32_t b : list) check_pair(a, b), cases++;
  for (int n = 0; n < 4000000; n++, cases += 3) {
    const uint32_t a = rng(), b = rng();
    check_pair(a, b);
    // Exponents close to each other: cancellation, ties.
    check_pair(a, (b & 0x807FFFFF) | (((a >> 23) + rng() % 5 - 2) << 23 & 0x7F800000));
    // Few bits set: exact ties, products on the border of the denormals.
    check_pair(a & 0xFFFFF000, (b & 0xFFFC0000) | (rng() & 1));
  }
  return cases;
}

// `x` rounded to a multiple of 2^-24 or of the last of 11 bits, whichever is larger; then as fp16.
static uint32_t fp16_expected(float x) {
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

static float fp16_value(uint32_t h) {
  const uint32_t exponent = h >> 10 & 0x1F, fraction = h & 0x3FF;
  double x = exponent ? std::ldexp(1024 + fraction, int(exponent) - 25) : std::ldexp(fraction, -24);
  if (exponent == 31) x = fraction ? NAN : INFINITY;
  return float(h >> 15 ? -x : x);
}

static uint32_t bf16_expected(float x) {
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

static void check_narrow(uint32_t a) {
  same(actdma::fp16_from_fp32(a), fp16_expected(value(a)), "fp16_from_fp32", a);
  same(actdma::bf16_from_fp32(a), bf16_expected(value(a)), "bf16_from_fp32", a);
}

static long conversions() {
  long cases = 0;
  for (uint32_t h = 0; h < 0x10000; h++) {
    const uint32_t wide = bits(fp16_value(h));
    same(actdma::fp32_from_fp16(h), wide, "fp32_from_fp16", h);
    same(actdma::fp32_from_bf16(h), bits(value(h << 16)), "fp32_from_bf16", h);
    // Every 16-bit number, the middle to the next, and both of its sides.
    for (uint32_t d : {0u, 1u, 0xFFFu, 0x1000u, 0x1001u, 0x1FFFu, 0x7FFFu, 0x8000u, 0x8001u}) {
      check_narrow(wide + d);
      check_narrow((h << 16) + d);
      cases += 2;
    }
    cases += 2;
  }
  // Around every border of the fp16 denormals.
  for (uint32_t fraction = 0; fraction <= 0x800; fraction++) {
    const uint32_t border = bits(float(std::ldexp(fraction, -25)));
    for (uint32_t d : {-1, 0, 1}) check_narrow(border + d), cases++;
  }
  for (int n = 0; n < 4000000; n++, cases++) check_narrow(rng());
  return cases;
}

int main() {
  const long cases = pairs() + conversions();
  std::printf("float: %ld cases passed\n", cases);
  return 0;
}
