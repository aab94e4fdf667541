// A second, plain writing of docs/format.md for the benches to compare with: byte by byte, no
// cleverness.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "actdma/frame.hpp"

namespace golden {

using Bytes = std::vector<uint8_t>;

inline uint32_t crc(const Bytes& data) {
  uint32_t r = ~0u;
  for (uint8_t byte : data) {
    r ^= byte;
    for (int k = 0; k < 8; k++) r = r >> 1 ^ (r & 1 ? 0x82F63B78u : 0);
  }
  return ~r;
}

inline void put32(Bytes& out, uint32_t w) {
  for (int k = 0; k < 4; k++) out.push_back(uint8_t(w >> 8 * k));
}

inline uint32_t get32(const Bytes& in, size_t at) {
  return in[at] | in[at + 1] << 8 | in[at + 2] << 16 | uint32_t(in[at + 3]) << 24;
}

inline void pad(Bytes& out) {
  while (out.size() % 64) out.push_back(0);
}

inline Bytes descriptor(uint32_t codec, uint32_t element, uint32_t sequence, uint32_t raw_bytes,
                        uint32_t parameter = 0, uint32_t operation = actdma::kTransfer) {
  Bytes d;
  put32(d, actdma::kMagic);
  put32(d, actdma::kVersion | operation << 8 | codec << 16 | element << 24);
  put32(d, sequence);
  put32(d, 1);
  put32(d, raw_bytes);
  put32(d, 0);
  put32(d, parameter);
  while (d.size() < 60) d.push_back(0);
  put32(d, crc(d));
  return d;
}

inline Bytes request(const Bytes& descriptor, const Bytes& raw) {
  Bytes packet = descriptor;
  packet.insert(packet.end(), raw.begin(), raw.end());
  pad(packet);
  return packet;
}

// Bits, lowest first, in words.
struct Bits {
  Bytes bytes;
  size_t count = 0;
  void put(uint64_t value, size_t n) {
    for (size_t k = 0; k < n; k++, count++) {
      if (count % 32 == 0) bytes.resize(bytes.size() + 4);
      bytes[count / 8] |= uint8_t((value >> k & 1) << count % 8);
    }
  }
};

inline size_t bit_length(uint64_t x) { return x ? 1 + bit_length(x / 2) : 0; }

// One group of elements: its header and its record.
inline void put_group(Bits& headers, Bits& records, const std::vector<uint32_t>& group,
                      uint32_t codec, size_t element, uint32_t parameter) {
  const size_t lanes = element == 1 ? 64 : 32, bits = 8 * element;
  auto planes = [&](size_t n, auto value) {
    for (size_t j = 0; j < n; j++)
      for (size_t i = 0; i < lanes; i++)
        records.put(i < group.size() ? value(group[i]) >> j : 0, 1);
  };
  if (codec == actdma::kCodecZve) {
    const size_t mantissa = bits - 1 - parameter;
    auto exponent = [&](uint32_t x) { return x >> mantissa & ((1u << parameter) - 1); };
    uint32_t most = 0, least = 255, sign = 0;
    for (uint32_t x : group) {
      most = std::max(most, exponent(x));
      least = std::min(least, exponent(x));
      sign |= x >> (bits - 1);
    }
    const size_t needed = bit_length(most - least);
    headers.put(most, 8);
    headers.put(sign, 1);
    headers.put(std::min<size_t>(needed, 7), 3);
    planes(mantissa, [](uint32_t x) { return x; });
    planes(sign, [&](uint32_t x) { return x >> (bits - 1); });
    planes(needed == 7 ? 8 : needed, [&](uint32_t x) { return most - exponent(x); });
    return;
  }
  auto number = [&](uint32_t x) -> int64_t {
    return parameter && x >> (bits - 1) ? int64_t(x) - (int64_t(1) << bits) : int64_t(x);
  };
  int64_t least = number(group[0]), most = least;
  for (uint32_t x : group) {
    least = std::min(least, number(x));
    most = std::max(most, number(x));
  }
  const size_t width = bit_length(uint64_t(most - least));
  if (width == bits) least = 0;
  if (element == 1) headers.put(uint64_t(least), 8);
  headers.put(width, element == 1 ? 4 : 12);
  if (element > 1 && width < bits) {
    records.put(uint64_t(least), bits);
    records.put(0, 32 - bits);
  }
  planes(width, [&](uint32_t x) { return uint64_t(number(x) - least); });
}

inline void put_block(Bytes& out, const uint8_t* block, size_t size, uint32_t codec, size_t element,
                      uint32_t parameter) {
  if (element == 8) element = 4;
  Bits mask, data, headers, records;
  std::vector<uint32_t> group;
  size_t groups = 0, kept = 0;
  auto end_group = [&] {
    if (group.empty()) return;
    put_group(headers, records, group, codec, element, parameter);
    group.clear();
    groups++;
  };
  for (size_t i = 0; i < size; i += element) {
    uint32_t x = 0;
    for (size_t k = 0; k < element; k++) x |= uint32_t(block[i + k]) << 8 * k;
    mask.put(x != 0, 1);
    if (!x) continue;
    kept++;
    data.put(x, 8 * element);
    if (codec != actdma::kCodecZve && codec != actdma::kCodecInts) continue;
    group.push_back(x);
    if (group.size() == (element == 1 ? 64u : 32u)) end_group();
  }
  end_group();
  const bool dense = kept == size / element;
  const uint32_t zvc = uint32_t(mask.bytes.size() + data.bytes.size()) / 4;
  uint32_t length = uint32_t(size / 4), w0 = actdma::kModeRaw;
  std::vector<Bytes> planes = {Bytes(block, block + size)};
  if (codec != actdma::kCodecRaw && zvc < length) {
    w0 = actdma::kModeZvc, length = zvc, planes = {mask.bytes, data.bytes};
  }
  Bits tags, literals;
  for (size_t i = 0; i < mask.bytes.size(); i += 4) {
    const uint32_t word = get32(mask.bytes, i);
    tags.put(word == 0 ? 0 : word == ~0u ? 1 : 2, 2);
    if (word != 0 && word != ~0u) literals.put(word, 32);
  }
  const uint32_t tagged =
      uint32_t(tags.bytes.size() + literals.bytes.size() + data.bytes.size()) / 4;
  if (codec == actdma::kCodecRle && literals.bytes.size() < 1024 && tagged < length) {
    w0 = actdma::kModeRle | uint32_t(literals.bytes.size() / 4) << 4;
    length = tagged, planes = {tags.bytes, literals.bytes, data.bytes};
  }
  if (dense) mask.bytes.clear();
  const uint32_t recorded =
      uint32_t(mask.bytes.size() + headers.bytes.size() + records.bytes.size()) / 4;
  if (groups > 0 && recorded < length) {
    w0 = (codec == actdma::kCodecZve ? actdma::kModeZve : actdma::kModeInts) |
         uint32_t(groups - 1) << 4 | uint32_t(dense) << 12;
    length = recorded, planes = {mask.bytes, headers.bytes, records.bytes};
  }
  if (codec != actdma::kCodecRaw && kept == 0) w0 = actdma::kModeZero, length = 0, planes = {};
  put32(out, w0 | length << 16);
  for (const Bytes& plane : planes) out.insert(out.end(), plane.begin(), plane.end());
}

inline void put_trailer(Bytes& out, uint32_t status, const Bytes& descriptor, uint32_t payload,
                        uint32_t raw_crc) {
  Bytes t;
  put32(t, actdma::kTrailerMagic);
  put32(t, status);
  put32(t, get32(descriptor, 8));
  put32(t, get32(descriptor, 60));
  put32(t, get32(descriptor, 16));
  put32(t, get32(descriptor, 20));
  put32(t, payload);
  put32(t, 0);
  put32(t, raw_crc);
  while (t.size() < 60) t.push_back(0);
  out.insert(out.end(), t.begin(), t.end());
  put32(out, crc(out));
}

// The frame the compressor must answer to `request(descriptor, raw)`.
inline Bytes frame(const Bytes& descriptor, Bytes raw) {
  pad(raw);
  Bytes out = descriptor, blocks;
  for (size_t i = 0; i < raw.size(); i += 8192)
    put_block(blocks, raw.data() + i, std::min<size_t>(8192, raw.size() - i), descriptor[6],
              descriptor[7], descriptor[24]);
  const uint32_t payload = uint32_t(blocks.size());
  out.insert(out.end(), blocks.begin(), blocks.end());
  pad(out);
  put_trailer(out, 0, descriptor, payload, crc(raw));
  return out;
}

// What the decompressor must answer to `frame`, which is `frame(descriptor, raw)`.
inline Bytes answer(const Bytes& frame, const Bytes& descriptor, Bytes raw) {
  const uint32_t payload = get32(frame, frame.size() - 40);
  pad(raw);
  Bytes out = raw;
  put_trailer(out, 0, descriptor, payload, crc(raw));
  return out;
}

// `spread`: the highest byte of an element varies that much only, as exponents and indices do.
// `run`: elements in a row are zero or not.
inline Bytes random_raw(size_t size, size_t element, double density, uint32_t seed,
                        uint32_t spread = 255, size_t run = 1) {
  Bytes raw(size);
  uint64_t state = seed * 0x9E3779B97F4A7C15ull + 1;
  auto next = [&state] {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return uint32_t(state >> 32);
  };
  bool zero = false;
  for (size_t i = 0; i < size; i += element) {
    if (i / element % run == 0) zero = next() >= density * 4294967296.0;
    if (zero) continue;
    for (size_t k = i; k < i + element && k < size; k++) {
      raw[k] = uint8_t(k + 1 < i + element ? 1 + next() % 255 : 1 + next() % spread);
    }
  }
  return raw;
}

// What an element size is tried with: every codec that takes it, with every parameter.
struct Coding {
  uint32_t codec;
  uint32_t parameter;
  uint32_t spread;
  size_t run;
};

inline Bytes random_raw(size_t size, size_t element, double density, uint32_t seed,
                        const Coding& coding) {
  return random_raw(size, element, density, seed, coding.spread, coding.run);
}

inline std::vector<Coding> codings(uint32_t element) {
  std::vector<Coding> list = {{actdma::kCodecRaw, 0, 255, 1},
                              {actdma::kCodecZvc, 0, 255, 1},
                              {actdma::kCodecRle, 0, 255, 1},
                              {actdma::kCodecRle, 0, 255, 100}};
  for (uint32_t spread : {2u, 255u}) {
    for (uint32_t is_signed : {0u, 1u}) list.push_back({actdma::kCodecInts, is_signed, spread, 1});
    if (element == 2) list.push_back({actdma::kCodecZve, 5, spread, 1});
    if (element == 2 || element == 4) list.push_back({actdma::kCodecZve, 8, spread, 1});
  }
  return list;
}

[[noreturn]] inline void fail(const char* what, const char* where) {
  std::fprintf(stderr, "FAILED: %s (%s)\n", what, where);
  std::exit(1);
}

inline void check(bool good, const char* what, const char* where) {
  if (!good) fail(what, where);
}

}  // namespace golden
