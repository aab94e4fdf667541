// IEEE 754 arithmetic on bit patterns, in integers: the same on every processor and in fabric,
// where the vendor's operators flush denormals. Rounds to nearest, ties to even; denormals are
// kept; every NaN that comes out is the canonical one, whatever came in.
#pragma once

#include <cstdint>

namespace actdma {

constexpr uint32_t kFp32Nan = 0x7FC00000;
constexpr uint32_t kFp32Infinity = 0x7F800000;
constexpr uint32_t kFp32Sign = 0x80000000;

constexpr bool fp32_is_nan(uint32_t a) { return (a & ~kFp32Sign) > kFp32Infinity; }

// |a| < |b|. Sorts NaN above infinity.
constexpr bool fp32_magnitude_less(uint32_t a, uint32_t b) {
  return (a & ~kFp32Sign) < (b & ~kFp32Sign);
}

// A positive number `significand` * 2^(exponent - 127 - 26): bits 26 to 3 become the fp32 one's
// significand, what lies below is rounded (bit 0 is sticky). Exponents from 1 on; a number without
// bit 26 has exponent 1 (denormal).
struct Fp32Parts {
  uint32_t significand;
  uint32_t exponent;
};

// Shifts bit 26 up to its place, as far as the exponent allows. `significand` < 2^27.
inline Fp32Parts fp32_normalise(Fp32Parts x) {
#pragma HLS INLINE
  for (int k = 4; k >= 0; k--) {
#pragma HLS UNROLL
    const uint32_t shift = 1u << k;
    if (x.significand >> (27 - shift) == 0 && x.exponent > shift) {
      x.significand <<= shift;
      x.exponent -= shift;
    }
  }
  return x;
}

// The shift with what falls off gathered in bit 0; `shift` < 32.
constexpr uint32_t shift_right_sticky(uint32_t x, uint32_t shift) {
  return x >> shift | uint32_t((x & ((1u << shift) - 1)) != 0);
}

inline uint32_t fp32_round(uint32_t sign, Fp32Parts x) {
#pragma HLS INLINE
  if (x.exponent >= 255) return sign | kFp32Infinity;
  const uint32_t kept = x.significand >> 3, rest = x.significand & 7;
  const uint32_t up = rest > 4 || (rest == 4 && (kept & 1));
  // The hidden bit counts the exponent up, as does a carry out of the fraction.
  return sign | (((x.exponent - 1) << 23) + kept + up);
}

inline Fp32Parts fp32_parts(uint32_t a) {
#pragma HLS INLINE
  const uint32_t exponent = a >> 23 & 0xFF, fraction = a & 0x7FFFFF;
  const bool normal = exponent != 0;
  return {(fraction | uint32_t(normal) << 23) << 3, normal ? exponent : 1};
}

inline uint32_t fp32_add(uint32_t a, uint32_t b) {
#pragma HLS INLINE
  const bool swap = fp32_magnitude_less(a, b);
  const uint32_t large = swap ? b : a, small = swap ? a : b;
  const bool differ = (a ^ b) >> 31;
  const Fp32Parts x = fp32_parts(large), y = fp32_parts(small);
  const uint32_t distance = x.exponent - y.exponent;
  const uint32_t aligned = shift_right_sticky(y.significand, distance < 31 ? distance : 31);
  const uint32_t sum = differ ? x.significand - aligned : x.significand + aligned;
  const Fp32Parts carried = {shift_right_sticky(sum, 1), x.exponent + 1};
  const Fp32Parts result = sum >> 27 ? carried : fp32_normalise({sum, x.exponent});

  const bool infinite = (large & ~kFp32Sign) == kFp32Infinity;
  const bool invalid = infinite && differ && (small & ~kFp32Sign) == kFp32Infinity;
  if (fp32_is_nan(large) || invalid) return kFp32Nan;
  if (infinite) return large;
  if (sum == 0) return a & b & kFp32Sign;
  return fp32_round(large & kFp32Sign, result);
}

inline uint32_t fp32_multiply(uint32_t a, uint32_t b) {
#pragma HLS INLINE
  const uint32_t sign = (a ^ b) & kFp32Sign;
  // Exponents are lifted by 32 so that denormals can be normalised below exponent 1.
  Fp32Parts x = fp32_parts(a), y = fp32_parts(b);
  x = fp32_normalise({x.significand, x.exponent + 32});
  y = fp32_normalise({y.significand, y.exponent + 32});
  const uint64_t product = uint64_t(x.significand >> 3) * (y.significand >> 3);  // 47 or 48 bits
  const bool carry = product >> 47;
  // Bit 26 is the leading one; 20 or 21 bits fall off into the sticky one.
  const uint64_t aligned = carry ? product : product << 1;
  const uint32_t significand = uint32_t(aligned >> 21) | uint32_t((aligned & 0x1FFFFF) != 0);
  const int exponent = int(x.exponent + y.exponent) - 64 - 127 + carry;
  const int missing = 1 - exponent;  // below the smallest exponent
  const Fp32Parts result =
      missing > 0 ? Fp32Parts{shift_right_sticky(significand, missing < 31 ? missing : 31), 1}
                  : Fp32Parts{significand, uint32_t(exponent)};

  const bool a_infinite = (a & ~kFp32Sign) == kFp32Infinity;
  const bool b_infinite = (b & ~kFp32Sign) == kFp32Infinity;
  const bool zero = (a & ~kFp32Sign) == 0 || (b & ~kFp32Sign) == 0;
  if (fp32_is_nan(a) || fp32_is_nan(b) || ((a_infinite || b_infinite) && zero)) return kFp32Nan;
  if (a_infinite || b_infinite) return sign | kFp32Infinity;
  if (zero) return sign;
  return fp32_round(sign, result);
}

constexpr uint32_t fp32_from_bf16(uint32_t h) {
  const uint32_t a = h << 16;
  return fp32_is_nan(a) ? kFp32Nan : a;
}

constexpr uint32_t bf16_from_fp32(uint32_t a) {
  if (fp32_is_nan(a)) return kFp32Nan >> 16;
  return (a + 0x7FFF + (a >> 16 & 1)) >> 16;
}

inline uint32_t fp32_from_fp16(uint32_t h) {
#pragma HLS INLINE
  const uint32_t sign = (h & 0x8000) << 16, exponent = h >> 10 & 0x1F, fraction = h & 0x3FF;
  if (exponent == 31) return fraction ? kFp32Nan : sign | kFp32Infinity;
  if (exponent) return sign | (exponent + 112) << 23 | fraction << 13;
  // A denormal is `fraction` * 2^-24: exact, and normal in fp32.
  return fraction ? fp32_round(sign, fp32_normalise({fraction << 16, 113})) : sign;
}

inline uint32_t fp16_from_fp32(uint32_t a) {
#pragma HLS INLINE
  const uint32_t sign = a >> 16 & 0x8000;
  const Fp32Parts x = fp32_parts(a);
  if (fp32_is_nan(a)) return 0x7E00;
  if (x.exponent >= 127 + 16) return sign | 0x7C00;
  // Below 2^-14 the significand moves down until the exponent is the smallest one.
  const uint32_t missing = x.exponent < 113 ? 113 - x.exponent : 0;
  const uint32_t significand = shift_right_sticky(x.significand, missing < 31 ? missing : 31);
  const uint32_t exponent = missing ? 1 : x.exponent - 112;
  const uint32_t kept = significand >> 16, rest = significand & 0xFFFF;
  const uint32_t up = rest > 0x8000 || (rest == 0x8000 && (kept & 1));
  return sign | (((exponent - 1) << 10) + kept + up);
}

}  // namespace actdma
