#include "pool.hpp"

#include <algorithm>
#include <cstring>

#include "actdma/float.hpp"
#include "arithmetic.hpp"
#include "bits.hpp"

namespace actdma::native {
namespace {

float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// Divides sums of `count` elements.
struct FloatDivisor {
  float reciprocal;
  explicit FloatDivisor(uint32_t count) : reciprocal(1.0f / static_cast<float>(count)) {}
  // The bits of the mean, NaN the canonical one.
  uint32_t operator()(float sum) const {
    const uint32_t bits = bits_of(sum * reciprocal);
    return fp32_is_nan(bits) ? kFp32Nan : bits;
  }
};
struct IntegerDivisor {
  uint32_t count, fixed;  // 2^22 / 2 count, rounded up
  explicit IntegerDivisor(uint32_t n) : count(n), fixed((1u << 22) / (2 * n) + 1) {}
  // Ties go away from zero.
  int32_t operator()(int32_t sum) const {
    const auto magnitude = static_cast<uint32_t>(sum < 0 ? -sum : sum);
    const auto mean = static_cast<int32_t>(uint64_t{2 * magnitude + count} * fixed >> 22);
    return sum < 0 ? -mean : mean;
  }
};

// As fp16_from_fp32, of what is no other NaN than the canonical one, without branches.
uint16_t fp16_of(uint32_t bits) {
  const uint32_t magnitude = bits & ~kFp32Sign;
  const uint32_t normal = (magnitude - (112u << 23) + 0xFFF + (magnitude >> 13 & 1)) >> 13;
  // At 1/2 a float's last place is that of the denormals.
  const uint32_t denormal = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
  const uint32_t huge = magnitude == kFp32Nan ? 0x7E00 : 0x7C00;
  const uint32_t h = magnitude < 0x38800000 ? denormal : magnitude < 0x477FF000 ? normal : huge;
  return static_cast<uint16_t>(h | (bits >> 16 & 0x8000));
}

// What differs between the kinds of element. Adding kNothing changes no bit.
struct Fp32 {
  using Stored = uint32_t;
  using Sum = float;
  using Divisor = FloatDivisor;
  static constexpr float kNothing = -0.0f;
  static float widen(Stored bits) { return float_of(bits); }
  static Stored narrow(uint32_t mean) { return mean; }
};
struct Bf16 {
  using Stored = uint16_t;
  using Sum = float;
  using Divisor = FloatDivisor;
  static constexpr float kNothing = -0.0f;
  static float widen(Stored bits) { return float_of(static_cast<uint32_t>(bits) << 16); }
  static Stored narrow(uint32_t mean) { return static_cast<Stored>(bf16_from_fp32(mean)); }
};
struct Fp16 {
  using Stored = uint16_t;
  using Sum = float;
  using Divisor = FloatDivisor;
  static constexpr float kNothing = -0.0f;
  static float widen(Stored bits) {
    // Exponent and fraction in their places; the product corrects the bias, also of denormals.
    const uint32_t wide = bits_of(float_of((bits & 0x7FFFu) << 13) * 0x1p112f) | (bits & 0x8000u)
                                                                                     << 16;
    return float_of((bits & 0x7C00) == 0x7C00 ? wide | kFp32Infinity : wide);
  }
  static Stored narrow(uint32_t mean) { return fp16_of(mean); }
};
struct Int8 {
  using Stored = int8_t;
  using Sum = int32_t;
  using Divisor = IntegerDivisor;
  static constexpr int32_t kNothing = 0;
  static int32_t widen(Stored value) { return value; }
  static Stored narrow(int32_t mean) { return static_cast<Stored>(mean); }
};

template <class Kind, size_t N>
typename Kind::Sum tree(const typename Kind::Sum* v) {
  if constexpr (N == 1) {
    return v[0];
  } else {
    return tree<Kind, N / 2>(v) + tree<Kind, N / 2>(v + N / 2);
  }
}

// The sum of `columns` elements, at most K.
template <class Kind, size_t K>
typename Kind::Sum sum_across(const uint8_t* row, size_t columns) {
  using Stored = typename Kind::Stored;
  typename Kind::Sum v[K];
  for (size_t i = 0; i < K; i++)
    v[i] = i < columns ? Kind::widen(load<Stored>(row + i * sizeof(Stored))) : Kind::kNothing;
  return tree<Kind, K>(v);
}

template <class Kind, size_t K>
void add_row(const uint8_t* row, size_t width, bool first, typename Kind::Sum* sums) {
  const size_t whole = width / K, bytes = K * sizeof(typename Kind::Stored);
  if (first) {
    for (size_t j = 0; j < whole; j++) sums[j] = sum_across<Kind, K>(row + j * bytes, K);
  } else {
    for (size_t j = 0; j < whole; j++) sums[j] += sum_across<Kind, K>(row + j * bytes, K);
  }
  if (width % K == 0) return;
  const auto edge = sum_across<Kind, K>(row + whole * bytes, width % K);
  sums[whole] = first ? edge : sums[whole] + edge;
}

template <class Kind, size_t K>
uint8_t* encode(const uint8_t* raw, const PoolShape& shape, uint8_t* out) {
  using Stored = typename Kind::Stored;
  typename Kind::Sum sums[kPoolRowBytes / sizeof(Stored) / 2];
  const size_t whole = shape.width / K, edge = shape.width % K;
  for (uint32_t map = 0; map < shape.maps; map++) {
    for (uint32_t y = 0; y < shape.height; y += K) {
      const auto rows = std::min<uint32_t>(K, shape.height - y);
      for (uint32_t row = 0; row < rows; row++) {
        add_row<Kind, K>(raw, shape.width, row == 0, sums);
        raw += shape.row_bytes();
      }
      const typename Kind::Divisor mean(rows * K);
      for (size_t j = 0; j < whole; j++)
        store(out + j * sizeof(Stored), Kind::narrow(mean(sums[j])));
      out += whole * sizeof(Stored);
      if (edge == 0) continue;
      const typename Kind::Divisor edge_mean(rows * static_cast<uint32_t>(edge));
      store(out, Kind::narrow(edge_mean(sums[whole])));
      out += sizeof(Stored);
    }
  }
  return out;
}

template <class Stored, size_t K>
void repeat_row(const uint8_t* in, size_t width, uint8_t* out) {
  const size_t whole = width / K;
  for (size_t j = 0; j < whole; j++) {
    const auto value = load<Stored>(in + j * sizeof(Stored));
    for (size_t i = 0; i < K; i++) store(out + (j * K + i) * sizeof(Stored), value);
  }
  for (size_t i = whole * K; i < width; i++)
    store(out + i * sizeof(Stored), load<Stored>(in + whole * sizeof(Stored)));
}

template <class Stored, size_t K>
void decode(const uint8_t* in, const PoolShape& shape, uint8_t* out) {
  const size_t row_bytes = shape.row_bytes();
  for (uint32_t map = 0; map < shape.maps; map++) {
    for (uint32_t y = 0; y < shape.height; y += K) {
      repeat_row<Stored, K>(in, shape.width, out);
      in += (shape.width + K - 1) / K * sizeof(Stored);
      const auto rows = std::min<uint32_t>(K, shape.height - y);
      for (uint32_t row = 1; row < rows; row++) std::memcpy(out + row * row_bytes, out, row_bytes);
      out += rows * row_bytes;
    }
  }
}

template <class Kind>
constexpr decltype(&encode<Kind, 2>) kEncode[] = {encode<Kind, 2>, encode<Kind, 4>,
                                                  encode<Kind, 8>};
template <class Stored>
constexpr decltype(&decode<Stored, 2>) kDecode[] = {decode<Stored, 2>, decode<Stored, 4>,
                                                    decode<Stored, 8>};

size_t pooled_bytes(const PoolShape& shape) {
  const uint64_t k = shape.k();
  const uint64_t elements = (shape.height + k - 1) / k * ((shape.width + k - 1) / k) * shape.maps;
  return static_cast<size_t>(elements << shape.element_log2());
}

}  // namespace

uint8_t* encode_pool(const uint8_t* raw, const PoolShape& shape, uint8_t* out) {
  const DefaultArithmetic arithmetic;
  const uint32_t k = shape.k_log2() - 1;
  const auto encoder = shape.kind() == kPoolFp32   ? kEncode<Fp32>[k]
                       : shape.kind() == kPoolBf16 ? kEncode<Bf16>[k]
                       : shape.kind() == kPoolFp16 ? kEncode<Fp16>[k]
                                                   : kEncode<Int8>[k];
  uint8_t* end = encoder(raw, shape, out);
  while ((end - out) % 4) *end++ = 0;
  return end;
}

Status decode_pool(const uint8_t*& in, const uint8_t* end, const PoolShape& shape, uint8_t* out) {
  const size_t payload = (pooled_bytes(shape) + 3) / 4 * 4;
  if (static_cast<size_t>(end - in) < payload) return kBadLength;
  const uint32_t k = shape.k_log2() - 1;
  const auto decoder = shape.element_log2() == 2   ? kDecode<uint32_t>[k]
                       : shape.element_log2() == 1 ? kDecode<uint16_t>[k]
                                                   : kDecode<uint8_t>[k];
  decoder(in, shape, out);
  in += payload;
  return kGood;
}

}  // namespace actdma::native
