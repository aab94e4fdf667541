// Runs every instruction set of the native codec on buffers of exactly the allowed size, on good
// frames and on hostile ones, and compares them with each other. Built by test_native.py with
// sanitizers, and for ARM where a cross-compiler and an emulator are installed.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <vector>

#include "actdma/float.hpp"
#include "block_sparse.hpp"
#include "codec.hpp"

namespace {

using namespace actdma;
using namespace actdma::native;

using Bytes = std::vector<uint8_t>;
std::mt19937 random_bits(1);

struct Free {
  void operator()(uint8_t* memory) const { operator delete[](memory, kLine); }
  static constexpr std::align_val_t kLine{64};
};

// A copy on the heap without a byte to spare, so that a sanitizer sees every byte past it. It
// begins with a line of the caches, as streaming wants it.
std::unique_ptr<uint8_t[], Free> exact(const Bytes& bytes) {
  std::unique_ptr<uint8_t[], Free> copy(new (Free::kLine) uint8_t[bytes.size()]);
  if (!bytes.empty()) std::memcpy(copy.get(), bytes.data(), bytes.size());
  return copy;
}

[[noreturn]] void fail(const Kernels& kernels, const char* what, size_t raw_bytes) {
  std::fprintf(stderr, "%s: %s (%zu bytes)\n", kernels.name, what, raw_bytes);
  std::exit(1);
}

uint32_t word(const uint8_t* at) {
  uint32_t value;
  std::memcpy(&value, at, 4);
  return value;
}

void set_word(uint8_t* at, uint32_t value) { std::memcpy(at, &value, 4); }

struct Case {
  uint32_t codec;
  uint32_t element_bytes;
  uint32_t parameter;
};

constexpr Case kCases[] = {
    {kCodecRaw, 4, 0},  {kCodecZvc, 1, 0},  {kCodecZvc, 2, 0},  {kCodecZvc, 4, 0},
    {kCodecZvc, 8, 0},  {kCodecZve, 4, 8},  {kCodecZve, 2, 8},  {kCodecZve, 2, 5},
    {kCodecInts, 1, 0}, {kCodecInts, 1, 1}, {kCodecInts, 2, 0}, {kCodecInts, 2, 1},
    {kCodecInts, 4, 0}, {kCodecInts, 4, 1}, {kCodecInts, 8, 1}, {kCodecRle, 1, 0},
    {kCodecRle, 2, 0},  {kCodecRle, 4, 0},
};

// Elements of which `nonzero_percent` are not zero; with records to be made, neighbours differ in
// some of their bits only.
Bytes random_raw(size_t size, const Case& c, uint32_t nonzero_percent) {
  Bytes raw(size);
  const uint32_t alike = record_mode(c.codec) != kModeRaw ? random_bits() % 33 : 0;
  // Runs of zeros and of others, for rle; else every element by itself.
  const size_t run = c.codec == kCodecRle ? 64 * c.element_bytes : c.element_bytes;
  bool zero = false;
  const uint64_t varies = (uint64_t{1} << (32 - alike)) - 1;
  uint64_t common = 0;
  for (size_t i = 0; i < size; i += c.element_bytes) {
    if (i % 2048 == 0) common = (uint64_t{random_bits()} << 32 | random_bits()) & ~varies;
    if (i % run == 0) zero = random_bits() % 100 >= nonzero_percent;
    if (zero) continue;
    const uint64_t element = common | (random_bits() & varies);
    std::memcpy(&raw[i], &element, std::min<size_t>(c.element_bytes, size - i));
  }
  return raw;
}

Bytes descriptor_of(const Kernels& kernels, const Case& c, size_t size) {
  Bytes bytes(kHeaderBytes);
  set_word(&bytes[0], kMagic);
  set_word(&bytes[4], kVersion | kTransfer << 8 | c.codec << 16 | c.element_bytes << 24);
  set_word(&bytes[4 * kDescFlags], kLastFrameFlag);
  set_word(&bytes[4 * kDescRawLow], static_cast<uint32_t>(size));
  set_word(&bytes[4 * kDescParameters], c.parameter);
  set_word(&bytes[4 * kDescCrc], kernels.crc32c(0, bytes.data(), 4 * kDescCrc));
  return bytes;
}

Bytes encode(const Kernels& kernels, const Bytes& raw, const Bytes& descriptor,
             bool past_caches = false) {
  const auto from = exact(raw);
  const auto head = exact(descriptor);
  uint32_t words[kHeaderWords];
  std::memcpy(words, descriptor.data(), kHeaderBytes);
  const auto out = exact(Bytes(frame_bound(words) + kEncodeSlack));
  const size_t length = encode_frame(kernels, from.get(), head.get(), out.get(), past_caches);
  if (length > frame_bound(words)) fail(kernels, "longer than its bound", raw.size());
  return Bytes(out.get(), out.get() + length);
}

// The status, and the data where it is good.
Status decode(const Kernels& kernels, const Bytes& packet, bool past_caches, Bytes& raw) {
  const auto from = exact(packet);
  const auto out = exact(raw);
  const Status status =
      decode_frame(kernels, from.get(), packet.size(), out.get(), raw.size(), past_caches);
  if (status == kGood && !raw.empty()) std::memcpy(raw.data(), out.get(), raw.size());
  return status;
}

// Changes some bits or words of the blocks and makes the frame CRC fit again.
Bytes damaged(const Kernels& kernels, Bytes packet) {
  const size_t first = kHeaderBytes;
  const size_t words = (packet.size() - 2 * kHeaderBytes) / 4;
  for (uint32_t changes = random_bits() % 3 + 1; words && changes; changes--) {
    // Often the first words: a mode word and a mask.
    const size_t at = random_bits() % (random_bits() % 2 ? words : std::min<size_t>(words, 66));
    const uint32_t before = word(&packet[first + 4 * at]);
    const uint32_t choices[] = {
        before ^ 1u << random_bits() % 32,    before + (1u << 16), before - (1u << 16),
        static_cast<uint32_t>(random_bits()), 0xFFFFFFFF,          0};
    set_word(&packet[first + 4 * at], choices[random_bits() % 6]);
  }
  uint8_t* const crc = &packet[packet.size() - 4];
  set_word(crc, kernels.crc32c(0, packet.data(), packet.size() - 4));
  return packet;
}

// Pooled maps of every kind and k, on buffers of exactly the allowed size.
void check_pool(const Kernels& kernels) {
  for (const uint32_t kind : {kPoolFp32, kPoolBf16, kPoolFp16, kPoolInt8}) {
    for (const uint32_t k : {2u, 4u, 8u}) {
      for (const uint32_t width : {1u, 7u, 8u, 33u, kPoolRowBytes >> pool_element_log2(kind)}) {
        const uint32_t height = random_bits() % 10 + 1, maps = random_bits() % 3;
        const Case c = {kCodecPool, 1u << pool_element_log2(kind), k | kind << 8};
        const size_t size = size_t{height} * width * maps * c.element_bytes;
        Bytes descriptor = descriptor_of(kernels, c, size);
        const uint32_t extents[] = {height, width, maps};
        std::memcpy(&descriptor[4 * (kDescParameters + 1)], extents, sizeof extents);
        set_word(&descriptor[4 * kDescCrc], kernels.crc32c(0, descriptor.data(), 4 * kDescCrc));
        const Bytes packet = encode(kernels, random_raw(size, c, 90), descriptor);
        Bytes back(size), again(size);
        if (decode(kernels, packet, false, back)) fail(kernels, "pool: refused", size);
        // The means of the means are the same, but for the rounding of floating point.
        if (kind == kPoolInt8) {
          const Bytes second = encode(kernels, back, descriptor);
          if (decode(kernels, second, false, again)) fail(kernels, "pool: refused", size);
          if (again != back) fail(kernels, "pool: other means", size);
        }
        for (size_t cut = 0; cut < packet.size(); cut += random_bits() % 256 + 1) {
          const Bytes hostile(packet.begin(), packet.begin() + static_cast<long>(cut));
          if (decode(kernels, hostile, false, again) == kGood) fail(kernels, "pool: cut off", size);
        }
      }
    }
  }
}

// A block's norm by the fabric's integer arithmetic.
uint32_t norm_of(const uint8_t* block, const BsrShape& shape) {
  std::vector<uint32_t> values;
  for (uint32_t i = 0; i < shape.block * shape.block; i++) {
    const uint8_t* const at = block + i * (shape.kind == kBsrFp32 ? 4 : 2);
    const uint32_t half = at[0] | at[1] << 8;
    const uint32_t value = shape.kind == kBsrFp32   ? word(at)
                           : shape.kind == kBsrBf16 ? fp32_from_bf16(half)
                                                    : fp32_from_fp16(half);
    const uint32_t magnitude = value & ~kFp32Sign;
    values.push_back(shape.norm == kNormL2 ? fp32_multiply(magnitude, magnitude) : magnitude);
  }
  for (size_t n = values.size() / 2; n > 0; n /= 2) {
    for (size_t i = 0; i < n; i++) {
      const uint32_t a = values[2 * i], b = values[2 * i + 1];
      values[i] = shape.norm == kNormMax ? std::max(a, b) : fp32_add(a, b);
    }
  }
  return values[0];
}

// Blocks of every size, norm and kind, on buffers of exactly the allowed size.
void check_bsr(const Kernels& kernels) {
  for (const uint32_t block : {4u, 8u, 16u, 32u}) {
    for (const uint32_t parameter : {0u, 1u, 2u, 0x100u, 0x101u, 0x102u, 0x200u, 0x201u, 0x202u}) {
      const uint32_t kind = parameter >> 8, norm = parameter & 0xFF;
      const Case c = {kCodecBsr, kind == kBsrFp32 ? 4u : 2u, block | norm << 8 | kind << 16};
      const size_t block_bytes = size_t{block} * block * c.element_bytes;
      const size_t size = (random_bits() % 70 + 1) * block_bytes;
      Bytes raw = random_raw(size, c, 60);
      // Smaller exponents: else every large block has a NaN.
      for (size_t i = c.element_bytes - 1; i < size; i += c.element_bytes) raw[i] &= 0xBF;
      Bytes descriptor = descriptor_of(kernels, c, size);
      set_word(&descriptor[4 * (kDescParameters + 1)], random_bits() % 40 + 1);
      uint32_t words[kHeaderWords];
      std::memcpy(words, descriptor.data(), kHeaderBytes);
      const uint32_t threshold = norm_of(raw.data(), BsrShape(words));
      set_word(&descriptor[4 * (kDescParameters + 2)], threshold);
      set_word(&descriptor[4 * kDescCrc], kernels.crc32c(0, descriptor.data(), 4 * kDescCrc));
      std::memcpy(words, descriptor.data(), kHeaderBytes);
      const Bytes packet = encode(kernels, raw, descriptor);
      Bytes back(size);
      if (decode(kernels, packet, false, back)) fail(kernels, "bsr: refused", size);
      for (size_t i = 0; i < size; i += block_bytes) {
        if (norm_of(&raw[i], BsrShape(words)) < threshold) std::memset(&raw[i], 0, block_bytes);
      }
      if (back != raw) fail(kernels, "bsr: other blocks kept", size);
      for (int i = 0; i < 20; i++) {
        Bytes hostile = damaged(kernels, packet);
        hostile.resize(random_bits() % (hostile.size() + 1));
        decode(kernels, hostile, false, back);
      }
    }
  }
}

// Stores small integers as fp32 or bf16: sums of their products are exact in any order.
Bytes stored(const std::vector<int>& numbers, Real real) {
  const size_t size = real == Real::kFp32 ? 4 : 2;
  Bytes bytes(numbers.size() * size);
  for (size_t i = 0; i < numbers.size(); i++) {
    const auto value = static_cast<float>(numbers[i]);
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    if (real == Real::kBf16) bits = bf16_from_fp32(bits);
    std::memcpy(&bytes[i * size], &bits, size);
  }
  return bytes;
}

// Block-sparse products of every block size, on buffers of exactly the allowed size.
void check_product(const Kernels& kernels) {
  const size_t shapes[][3] = {{1, 1, 1}, {0, 3, 5}, {8, 0, 4}, {37, 49, 53}, {1059, 7, 33}};
  for (const size_t block : {4, 8, 16, 32}) {
    for (const auto& [rows, outputs, columns] : shapes) {
      const size_t block_columns = (columns + block - 1) / block;
      std::vector<int> gradient(rows * outputs), values, expected(outputs * columns);
      std::vector<int64_t> crow{0}, col;
      for (int& number : gradient) number = static_cast<int>(random_bits() % 7) - 3;
      for (size_t row = 0; row < rows; row += block) {
        for (size_t c = 0; c < block_columns; c++) {
          if (random_bits() % 2) continue;
          col.push_back(static_cast<int64_t>(c));
          for (size_t i = 0; i < block * block; i++) {
            const size_t r = row + i / block, at = c * block + i % block;
            values.push_back(static_cast<int>(random_bits() % 7) - 3);
            if (r >= rows || at >= columns) continue;
            for (size_t o = 0; o < outputs; o++) {
              expected[o * columns + at] += gradient[r * outputs + o] * values.back();
            }
          }
        }
        crow.push_back(static_cast<int64_t>(col.size()));
      }
      for (const Real real : {Real::kFp32, Real::kBf16}) {
        const Bytes wanted = stored(expected, real);
        const auto kept = exact(stored(values, real)), from = exact(stored(gradient, real));
        const BlockSparse matrix{rows, columns, block, crow.data(), col.data(), kept.get()};
        if (!check_indices(matrix, col.size()).empty()) fail(kernels, "product: refused", rows);
        for (const size_t threads : {1, 3}) {
          const auto out = exact(Bytes(wanted.size()));
          weight_gradient(kernels, matrix, from.get(), outputs, real, out.get(), threads);
          if (!std::equal(wanted.begin(), wanted.end(), out.get())) {
            fail(kernels, "product: other sums", rows);
          }
        }
      }
    }
  }
}

}  // namespace

int main() {
  check_pool(*portable_kernels());
  check_bsr(*portable_kernels());
  for (const Kernels* kernels : available_kernels()) check_product(*kernels);
  const Kernels& portable = *portable_kernels();
  const size_t sizes[] = {0, 1, 3, 60, 63, 64, 65, 127, 192, 4096, 8191, 8192, 8193, 8256, 20000};
  for (const size_t size : sizes) {
    for (const Case& c : kCases) {
      for (const uint32_t percent : {0u, 3u, 50u, 85u, 100u}) {
        const Bytes raw = random_raw(size, c, percent);
        const Bytes descriptor = descriptor_of(portable, c, size);
        const Bytes packet = encode(portable, raw, descriptor);
        for (const Kernels* kernels : available_kernels()) {
          for (const bool past_caches : {false, true}) {
            if (encode(*kernels, raw, descriptor, past_caches) != packet)
              fail(*kernels, "other bytes", size);
            Bytes back(size);
            if (decode(*kernels, packet, past_caches, back)) fail(*kernels, "refused", size);
            if (back != raw) fail(*kernels, "not the data", size);
          }
        }
        for (int i = 0; i < 10; i++) {
          Bytes hostile = damaged(portable, packet);
          if (i % 4 == 0) hostile.resize(random_bits() % (hostile.size() + 1));
          Bytes expected(size);
          const Status status = decode(portable, hostile, false, expected);
          for (const Kernels* kernels : available_kernels()) {
            Bytes back(size);
            if (decode(*kernels, hostile, i % 2, back) != status || back != expected) {
              fail(*kernels, "another verdict", size);
            }
          }
        }
      }
    }
  }
  for (const Kernels* kernels : available_kernels()) std::printf("%s\n", kernels->name);
}
