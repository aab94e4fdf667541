// A second, plain writing of docs/format.md for the benches to compare with: byte by byte, no
// cleverness.
#pragma once

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
                        uint32_t operation = actdma::kTransfer) {
  Bytes d;
  put32(d, actdma::kMagic);
  put32(d, actdma::kVersion | operation << 8 | codec << 16 | element << 24);
  put32(d, sequence);
  put32(d, 1);
  put32(d, raw_bytes);
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

inline void put_block(Bytes& out, const uint8_t* block, size_t size, uint32_t codec,
                      size_t element) {
  if (element == 8) element = 4;
  Bytes mask((size / element + 31) / 32 * 4), data;
  for (size_t i = 0; i < size / element; i++) {
    bool any = false;
    for (size_t k = 0; k < element; k++) any |= block[i * element + k] != 0;
    if (!any) continue;
    mask[i / 8] |= uint8_t(1 << i % 8);
    data.insert(data.end(), block + i * element, block + (i + 1) * element);
  }
  while (data.size() % 4) data.push_back(0);
  if (codec == actdma::kCodecZvc && data.empty()) {
    put32(out, actdma::kModeZero);
  } else if (codec == actdma::kCodecZvc && mask.size() + data.size() < size) {
    put32(out, actdma::kModeZvc | uint32_t(mask.size() + data.size()) / 4 << 16);
    out.insert(out.end(), mask.begin(), mask.end());
    out.insert(out.end(), data.begin(), data.end());
  } else {
    put32(out, actdma::kModeRaw | uint32_t(size / 4) << 16);
    out.insert(out.end(), block, block + size);
  }
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
              descriptor[7]);
  const uint32_t payload = uint32_t(blocks.size());
  out.insert(out.end(), blocks.begin(), blocks.end());
  pad(out);
  put_trailer(out, 0, descriptor, payload, crc(raw));
  return out;
}

// What the decompressor must answer to `frame(descriptor, raw)`.
inline Bytes answer(const Bytes& descriptor, Bytes raw) {
  const uint32_t payload = get32(frame(descriptor, raw), frame(descriptor, raw).size() - 40);
  pad(raw);
  Bytes out = raw;
  put_trailer(out, 0, descriptor, payload, crc(raw));
  return out;
}

inline Bytes random_raw(size_t size, size_t element, double density, uint32_t seed) {
  Bytes raw(size);
  uint64_t state = seed * 0x9E3779B97F4A7C15ull + 1;
  auto next = [&state] {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return uint32_t(state >> 32);
  };
  for (size_t i = 0; i < size; i += element) {
    if (next() >= density * 4294967296.0) continue;
    for (size_t k = i; k < i + element && k < size; k++) raw[k] = uint8_t(1 + next() % 255);
  }
  return raw;
}

[[noreturn]] inline void fail(const char* what, const char* where) {
  std::fprintf(stderr, "FAILED: %s (%s)\n", what, where);
  std::exit(1);
}

inline void check(bool good, const char* what, const char* where) {
  if (!good) fail(what, where);
}

}  // namespace golden
