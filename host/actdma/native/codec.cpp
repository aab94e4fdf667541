#include "codec.hpp"

#include <algorithm>
#include <cstring>

#include "bits.hpp"
#include "pool.hpp"

namespace actdma::native {
namespace {

constexpr uint32_t kBuiltIn = kBlockCodecs | 1u << kCodecPool | 1u << kCodecBsr;

Coding coding_of(const uint32_t descriptor[kHeaderWords]) {
  return {descriptor[kDescKind] >> 16 & 0xFF, element_log2(descriptor[kDescKind] >> 24),
          descriptor[kDescParameters]};
}

// Where encoded blocks go: to memory at once, or in two rooms in turn, whose whole rows are copied
// past the caches beside the coding of the next block.
class Output {
 public:
  Output(uint8_t* out, Side& side) : side_(side), next_(out), to_(out) {
    side.rows = out;
    if (side.past_caches) next_ = rooms_[0];
  }

  // Where the next block goes.
  uint8_t* next() { return next_; }

  // Takes what was written there, up to `end`.
  void take(uint8_t* end) {
    next_ = end;
    if (!side_.past_caches) {
      side_.row_count = static_cast<size_t>(end - side_.rows) / Side::kRowBytes;
      return;
    }
    side_.rows = rooms_[room_];
    side_.to = to_;
    side_.row_count = static_cast<size_t>(end - side_.rows) / Side::kRowBytes;
    const size_t whole = Side::kRowBytes * side_.row_count;
    const uint8_t* const rest = side_.rows + whole;
    room_ ^= 1;
    next_ = rooms_[room_] + (end - rest);
    std::memcpy(rooms_[room_], rest, Side::kRowBytes);
    to_ += whole;
  }

  // Writes what is left; returns the end of all.
  uint8_t* finish(const Kernels& kernels) {
    if (!side_.past_caches) return next_;
    const auto held = static_cast<size_t>(next_ - rooms_[room_]);
    std::memcpy(to_, rooms_[room_], held);
    kernels.stream_end();
    side_.rows = to_;
    side_.to = nullptr;
    return to_ + held;
  }

 private:
  Side& side_;
  uint8_t* next_;
  uint8_t* to_;
  int room_ = 0;
  alignas(64) uint8_t rooms_[2][Side::kRowBytes + 4 + kBlockBytes + kEncodeSlack];
};

}  // namespace

bool can_stream(const Kernels& kernels, const uint8_t* to) {
  return kernels.stream && reinterpret_cast<uintptr_t>(to) % kLineBytes == 0;
}

uint8_t* encode_blocks(const Kernels& kernels, const uint8_t* raw, size_t raw_bytes, uint8_t* out,
                       const Coding& coding, Side& side) {
  side.past_caches = side.past_caches && can_stream(kernels, out);
  Output output(out, side);
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
    uint8_t* const end = encode_block(kernels, block, bytes, output.next(), coding, side);
    side.finish(kernels, block, bytes);
    output.take(end);
    raw += taken;
    raw_bytes -= taken;
  }
  side.finish(kernels, raw, 0);
  return output.finish(kernels);
}

Status decode_blocks(const Kernels& kernels, const uint8_t*& in, size_t bytes, uint8_t* out,
                     size_t raw_bytes, const Coding& coding, Side& side) {
  const bool past_caches = side.past_caches && can_stream(kernels, out);
  const uint8_t* const end = in + bytes;
  side.rows = in;
  alignas(64) uint8_t tail[kBlockBytes];
  while (raw_bytes) {
    const size_t taken = std::min(raw_bytes, kBlockBytes);
    const size_t block_bytes = padded(taken);
    const bool partial = block_bytes != taken;
    uint8_t* const block = partial ? tail : out;
    side.past_caches = past_caches && !partial;
    const Status status = decode_block(kernels, in, end, block, block_bytes, coding, side);
    if (status != kGood) return status;
    side.finish(kernels, block, block_bytes);
    side.row_count = static_cast<size_t>(in - side.rows) / Side::kRowBytes;
    if (partial) std::memcpy(out, block, taken);
    out += taken;
    raw_bytes -= taken;
  }
  side.finish(kernels, out, 0);
  if (past_caches) kernels.stream_end();
  return kGood;
}

// Writes the payload, and to `extension` what lies between it and the trailer.
static uint8_t* encode_payload(const Kernels& kernels, const uint8_t* raw,
                               const uint32_t d[kHeaderWords], uint8_t* out, uint8_t* extension,
                               Side& side, const MeasuredBlocks* blocks) {
  const Coding coding = coding_of(d);
  side.rows = out;
  switch (coding.codec) {
    case kCodecPool:
      return encode_pool(raw, PoolShape(d), out);
    case kCodecBsr:
      return blocks ? encode_bsr(*blocks, d[kDescRawLow], BsrShape(d), out, extension)
                    : encode_bsr(raw, d[kDescRawLow], BsrShape(d), out, extension);
    default:
      return encode_blocks(kernels, raw, d[kDescRawLow], out, coding, side);
  }
}

static Status decode_payload(const Kernels& kernels, const uint8_t*& in, const uint8_t* end,
                             const uint32_t d[kHeaderWords], uint8_t* out, Side& side) {
  const Coding coding = coding_of(d);
  side.rows = in;
  switch (coding.codec) {
    case kCodecPool:
      return decode_pool(in, end, PoolShape(d), out);
    case kCodecBsr:
      return decode_bsr(in, end, BsrShape(d), out, d[kDescRawLow]);
    default:
      return decode_blocks(kernels, in, static_cast<size_t>(end - in), out, d[kDescRawLow], coding,
                           side);
  }
}

size_t encode_frame(const Kernels& kernels, const uint8_t* raw, const uint8_t* descriptor,
                    uint8_t* out, bool past_caches, size_t* set, const MeasuredBlocks* blocks) {
  uint32_t d[kHeaderWords];
  std::memcpy(d, descriptor, kHeaderBytes);
  std::memcpy(out, d, kHeaderBytes);
  Side side{true, past_caches};
  side.frame_crc = kernels.crc32c(0, out, kHeaderBytes);
  uint8_t* const payload = out + kHeaderBytes;
  uint8_t extension[kHistogramBytes];
  uint8_t* const end = encode_payload(kernels, raw, d, payload, extension, side, blocks);
  const auto payload_bytes = static_cast<size_t>(end - payload);
  uint8_t* const padded_end = payload + padded(payload_bytes);
  const size_t extended = extension_bytes(coding_of(d).codec);
  uint8_t* const trailer = padded_end + extended;
  std::memset(end, 0, static_cast<size_t>(padded_end - end));
  std::memcpy(padded_end, extension, extended);

  uint32_t t[kHeaderWords] = {};
  t[kTrailMagic] = kTrailerMagic;
  t[kTrailStatus] = kGood;
  t[kTrailSequence] = d[kDescSequence];
  t[kTrailDescriptorCrc] = d[kDescCrc];
  t[kTrailRawLow] = d[kDescRawLow];
  t[kTrailRawHigh] = d[kDescRawHigh];
  t[kTrailPayloadLow] = static_cast<uint32_t>(payload_bytes);
  t[kTrailRawCrc] = side.raw_crc;
  std::memcpy(trailer, t, kHeaderBytes);
  const size_t rest = static_cast<size_t>(trailer - side.rows) + 4 * kTrailCrc;
  store(trailer + 4 * kTrailCrc, kernels.crc32c(side.frame_crc, side.rows, rest));
  if (set) *set = side.set;
  return static_cast<size_t>(trailer - out) + kHeaderBytes;
}

Status read_descriptor(const Kernels& kernels, const uint8_t* bytes, uint32_t words[kHeaderWords]) {
  std::memcpy(words, bytes, kHeaderBytes);
  return check_descriptor(words, words[kDescCrc] == kernels.crc32c(0, bytes, 4 * kDescCrc),
                          kBuiltIn);
}

// What is wrong with the descriptor of the frame `packet`; `d` gets its words.
static Status begin_frame(const Kernels& kernels, const uint8_t* packet, size_t packet_bytes,
                          uint32_t d[kHeaderWords]) {
  if (packet_bytes < kHeaderBytes) return kBadLength;
  const Status status = read_descriptor(kernels, packet, d);
  if (status != kGood) return status;
  return (d[kDescKind] >> 8 & 0xFF) == kTransfer ? kGood : kBadOperation;
}

// What is wrong with the rest, of which read(in, end, side) reads the payload and moves `in` to its
// end.
template <class Read>
static Status read_frame(const Kernels& kernels, const uint8_t* packet, size_t packet_bytes,
                         const uint32_t d[kHeaderWords], Side side, Read read) {
  if (packet_bytes % 64 || packet_bytes < 2 * kHeaderBytes) return kBadLength;

  side.frame_crc = kernels.crc32c(0, packet, kHeaderBytes);
  const uint8_t* const payload = packet + kHeaderBytes;
  const uint8_t* const trailer = packet + packet_bytes - kHeaderBytes;
  const uint8_t* in = payload;
  const Status payload_status = read(in, trailer, side);
  if (payload_status != kGood) return payload_status;
  const auto payload_bytes = static_cast<size_t>(in - payload);
  if (payload + padded(payload_bytes) + extension_bytes(coding_of(d).codec) != trailer)
    return kBadLength;

  uint32_t t[kHeaderWords];
  std::memcpy(t, trailer, kHeaderBytes);
  if (t[kTrailMagic] != kTrailerMagic || t[kTrailStatus] != kGood ||
      t[kTrailSequence] != d[kDescSequence] || t[kTrailDescriptorCrc] != d[kDescCrc] ||
      t[kTrailRawLow] != d[kDescRawLow] || t[kTrailRawHigh] != d[kDescRawHigh] ||
      t[kTrailPayloadLow] != payload_bytes || t[kTrailPayloadHigh] != 0) {
    return kBadTrailer;
  }
  const size_t rest = static_cast<size_t>(trailer - side.rows) + 4 * kTrailCrc;
  if (t[kTrailCrc] != kernels.crc32c(side.frame_crc, side.rows, rest)) return kBadFrameCrc;
  if (t[kTrailRawCrc] != side.raw_crc) return kBadRawCrc;
  return kGood;
}

Status decode_frame(const Kernels& kernels, const uint8_t* packet, size_t packet_bytes,
                    uint8_t* out, size_t out_bytes, bool past_caches) {
  uint32_t d[kHeaderWords];
  const Status status = begin_frame(kernels, packet, packet_bytes, d);
  if (status != kGood) return status;
  if (d[kDescRawLow] != out_bytes) return kBadRawBytes;
  return read_frame(kernels, packet, packet_bytes, d, Side{true, past_caches},
                    [&](const uint8_t*& in, const uint8_t* end, Side& side) {
                      return decode_payload(kernels, in, end, d, out, side);
                    });
}

Status take_kept_blocks(const Kernels& kernels, const uint8_t* packet, size_t packet_bytes,
                        KeptBlocks& blocks) {
  uint32_t d[kHeaderWords];
  const Status status = begin_frame(kernels, packet, packet_bytes, d);
  if (status != kGood) return status;
  if (coding_of(d).codec != kCodecBsr) return kBadCodec;
  return read_frame(kernels, packet, packet_bytes, d, Side{true},
                    [&](const uint8_t*& in, const uint8_t* end, Side& side) {
                      side.rows = in;
                      return blocks.take(in, end, BsrShape(d), d[kDescRawLow]);
                    });
}

}  // namespace actdma::native
