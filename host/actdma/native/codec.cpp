#include "codec.hpp"

#include <algorithm>
#include <cstring>

#include "bits.hpp"
#include "bsr.hpp"
#include "pool.hpp"

namespace actdma::native {
namespace {

constexpr uint32_t kBuiltIn = kBlockCodecs | 1u << kCodecPool | 1u << kCodecBsr;

Stream stream_of(const uint32_t descriptor[kHeaderWords]) {
  const Coding coding{descriptor[kDescKind] >> 16 & 0xFF, element_log2(descriptor[kDescKind] >> 24),
                      descriptor[kDescParameters]};
  return {coding, true};
}

}  // namespace

uint8_t* encode_blocks(const Kernels& kernels, const uint8_t* raw, size_t raw_bytes, uint8_t* out,
                       Stream& stream) {
  alignas(64) uint8_t tail[kBlockBytes];
  while (raw_bytes) {
    const size_t taken = std::min(raw_bytes, kBlockBytes);
    const size_t bytes = padded(taken);
    const uint8_t* block = raw;
    if (bytes != taken) {
      std::memset(tail + bytes - kChunkBytes, 0, kChunkBytes);
      std::memcpy(tail, raw, taken);
      block = tail;
    }
    uint8_t* const end = encode_block(kernels, block, bytes, out, stream.coding);
    if (stream.with_crc) {  // both while the block is in the first-level cache
      stream.raw_crc = kernels.crc32c(stream.raw_crc, block, bytes);
      stream.frame_crc = kernels.crc32c(stream.frame_crc, out, static_cast<size_t>(end - out));
    }
    out = end;
    raw += taken;
    raw_bytes -= taken;
  }
  return out;
}

Status decode_blocks(const Kernels& kernels, const uint8_t*& in, size_t bytes, uint8_t* out,
                     size_t raw_bytes, bool past_caches, Stream& stream) {
  alignas(64) uint8_t buffer[kBlockBytes];
  const uint8_t* const end = in + bytes;
  past_caches =
      past_caches && kernels.stream && reinterpret_cast<uintptr_t>(out) % kStreamAlign == 0;
  while (raw_bytes) {
    const size_t taken = std::min(raw_bytes, kBlockBytes);
    const size_t block_bytes = padded(taken);
    const bool partial = block_bytes != taken;
    uint8_t* const block = partial || past_caches ? buffer : out;
    const uint8_t* const start = in;
    const Status status = decode_block(kernels, in, end, block, block_bytes, stream.coding);
    if (status != kGood) return status;
    if (stream.with_crc) {  // both while the block is in the first-level cache
      stream.frame_crc = kernels.crc32c(stream.frame_crc, start, static_cast<size_t>(in - start));
      stream.raw_crc = kernels.crc32c(stream.raw_crc, block, block_bytes);
    }
    if (partial) {
      std::memcpy(out, block, taken);
    } else if (past_caches) {
      kernels.stream(out, block, taken);
    }
    out += taken;
    raw_bytes -= taken;
  }
  if (past_caches) kernels.stream_end();
  return kGood;
}

// Writes the payload, and to `extension` what lies between it and the trailer.
static uint8_t* encode_payload(const Kernels& kernels, const uint8_t* raw,
                               const uint32_t d[kHeaderWords], uint8_t* out, uint8_t* extension,
                               Stream& stream) {
  switch (stream.coding.codec) {
    case kCodecPool:
      return encode_pool(raw, PoolShape(d), out);
    case kCodecBsr:
      return encode_bsr(raw, d[kDescRawLow], BsrShape(d), out, extension);
    default:
      return encode_blocks(kernels, raw, d[kDescRawLow], out, stream);
  }
}

static Status decode_payload(const Kernels& kernels, const uint8_t*& in, const uint8_t* end,
                             const uint32_t d[kHeaderWords], uint8_t* out, bool past_caches,
                             Stream& stream) {
  switch (stream.coding.codec) {
    case kCodecPool:
      return decode_pool(in, end, PoolShape(d), out);
    case kCodecBsr:
      return decode_bsr(in, end, BsrShape(d), out, d[kDescRawLow]);
    default:
      return decode_blocks(kernels, in, static_cast<size_t>(end - in), out, d[kDescRawLow],
                           past_caches, stream);
  }
}

size_t encode_frame(const Kernels& kernels, const uint8_t* raw, const uint8_t* descriptor,
                    uint8_t* out) {
  uint32_t d[kHeaderWords];
  std::memcpy(d, descriptor, kHeaderBytes);
  std::memcpy(out, d, kHeaderBytes);
  Stream stream = stream_of(d);
  stream.frame_crc = kernels.crc32c(0, out, kHeaderBytes);
  uint8_t* const payload = out + kHeaderBytes;
  uint8_t extension[kHistogramBytes];
  uint8_t* const end = encode_payload(kernels, raw, d, payload, extension, stream);
  const auto payload_bytes = static_cast<size_t>(end - payload);
  uint8_t* const padded_end = payload + padded(payload_bytes);
  uint8_t* const trailer = padded_end + extension_bytes(stream.coding.codec);
  if (is_lossy(stream.coding.codec))
    stream.frame_crc = kernels.crc32c(stream.frame_crc, payload, payload_bytes);
  std::memset(end, 0, static_cast<size_t>(padded_end - end));
  std::memcpy(padded_end, extension, extension_bytes(stream.coding.codec));

  uint32_t t[kHeaderWords] = {};
  t[kTrailMagic] = kTrailerMagic;
  t[kTrailStatus] = kGood;
  t[kTrailSequence] = d[kDescSequence];
  t[kTrailDescriptorCrc] = d[kDescCrc];
  t[kTrailRawLow] = d[kDescRawLow];
  t[kTrailRawHigh] = d[kDescRawHigh];
  t[kTrailPayloadLow] = static_cast<uint32_t>(payload_bytes);
  t[kTrailRawCrc] = stream.raw_crc;
  std::memcpy(trailer, t, kHeaderBytes);
  const size_t rest = static_cast<size_t>(trailer - end) + 4 * kTrailCrc;
  store(trailer + 4 * kTrailCrc, kernels.crc32c(stream.frame_crc, end, rest));
  return static_cast<size_t>(trailer - out) + kHeaderBytes;
}

Status read_descriptor(const Kernels& kernels, const uint8_t* bytes, uint32_t words[kHeaderWords]) {
  std::memcpy(words, bytes, kHeaderBytes);
  return check_descriptor(words, words[kDescCrc] == kernels.crc32c(0, bytes, 4 * kDescCrc),
                          kBuiltIn);
}

Status decode_frame(const Kernels& kernels, const uint8_t* packet, size_t packet_bytes,
                    uint8_t* out, size_t out_bytes, bool past_caches) {
  if (packet_bytes < kHeaderBytes) return kBadLength;
  uint32_t d[kHeaderWords];
  const Status status = read_descriptor(kernels, packet, d);
  if (status != kGood) return status;
  if ((d[kDescKind] >> 8 & 0xFF) != kTransfer) return kBadOperation;
  if (d[kDescRawLow] != out_bytes) return kBadRawBytes;
  if (packet_bytes % 64 || packet_bytes < 2 * kHeaderBytes) return kBadLength;

  Stream stream = stream_of(d);
  stream.frame_crc = kernels.crc32c(0, packet, kHeaderBytes);
  const uint8_t* const payload = packet + kHeaderBytes;
  const uint8_t* const trailer = packet + packet_bytes - kHeaderBytes;
  const uint8_t* in = payload;
  const Status payload_status = decode_payload(kernels, in, trailer, d, out, past_caches, stream);
  if (payload_status != kGood) return payload_status;
  const auto payload_bytes = static_cast<size_t>(in - payload);
  if (payload + padded(payload_bytes) + extension_bytes(stream.coding.codec) != trailer)
    return kBadLength;
  if (is_lossy(stream.coding.codec))
    stream.frame_crc = kernels.crc32c(stream.frame_crc, payload, payload_bytes);

  uint32_t t[kHeaderWords];
  std::memcpy(t, trailer, kHeaderBytes);
  if (t[kTrailMagic] != kTrailerMagic || t[kTrailStatus] != kGood ||
      t[kTrailSequence] != d[kDescSequence] || t[kTrailDescriptorCrc] != d[kDescCrc] ||
      t[kTrailRawLow] != d[kDescRawLow] || t[kTrailRawHigh] != d[kDescRawHigh] ||
      t[kTrailPayloadLow] != payload_bytes || t[kTrailPayloadHigh] != 0) {
    return kBadTrailer;
  }
  const size_t rest = static_cast<size_t>(trailer - in) + 4 * kTrailCrc;
  if (t[kTrailCrc] != kernels.crc32c(stream.frame_crc, in, rest)) return kBadFrameCrc;
  if (t[kTrailRawCrc] != stream.raw_crc) return kBadRawCrc;
  return kGood;
}

}  // namespace actdma::native
