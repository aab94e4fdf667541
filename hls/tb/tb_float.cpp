// Bench of the floating-point functions against the processor's own arithmetic.
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "actdma/float.hpp"
#include "golden.hpp"
#include "golden_float.hpp"

using golden::bf16_bits;
using golden::bits;
using golden::fp16_bits;
using golden::fp16_value;
using golden::value;

static_assert(sizeof(float) == 4 && __FLT_EVAL_METHOD__ == 0, "fp32 without excess precision");

static std::mt19937 rng(1);

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

static void check_narrow(uint32_t a) {
  same(actdma::fp16_from_fp32(a), fp16_bits(value(a)), "fp16_from_fp32", a);
  same(actdma::bf16_from_fp32(a), bf16_bits(value(a)), "bf16_from_fp32", a);
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
