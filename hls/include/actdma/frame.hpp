// The frame format of docs/format.md: the one C++ definition, shared by the engines in fabric,
// their benches and the CPU's codec. host/actdma/frame.py is its counterpart; a test compares the
// two.
#pragma once

#include <cstdint>

namespace actdma {

constexpr uint32_t kMagic = 0x414D4441;         // "ADMA"
constexpr uint32_t kTrailerMagic = 0x544D4441;  // "ADMT"
constexpr uint32_t kVersion = 1;
constexpr int kHeaderWords = 16;  // descriptor and trailer, in 32-bit words
constexpr int kBlockWords = 2048;
constexpr int kAlignWords = 16;
constexpr uint32_t kMaxRawBytes = 1u << 30;

enum Operation : uint32_t { kIdentify = 0, kTransfer = 1 };
enum Codec : uint32_t { kCodecRaw = 0, kCodecZvc = 1 };
enum Mode : uint32_t { kModeRaw = 0, kModeZero = 1, kModeZvc = 2 };
enum EngineKind : uint32_t { kCompressor = 1, kDecompressor = 2 };

enum Status : uint32_t {
  kGood = 0,
  kBadMagic = 1,
  kBadDescriptorCrc = 2,
  kBadVersion = 3,
  kBadOperation = 4,
  kBadCodec = 5,
  kBadElement = 6,
  kBadReserved = 7,
  kBadRawBytes = 8,
  kBadBlock = 9,
  kBadLength = 10,
  kBadTrailer = 11,
  kBadFrameCrc = 12,
  kBadRawCrc = 13,
};

// Words of the descriptor.
enum DescriptorWord : int {
  kDescMagic = 0,
  kDescKind = 1,  // version, operation, codec, element bytes: 8 bits each
  kDescSequence = 2,
  kDescFlags = 3,  // flags (8), dtype (8), reserved (16)
  kDescRawLow = 4,
  kDescRawHigh = 5,
  kDescParameters = 6,  // eight words
  kDescReserved = 14,
  kDescCrc = 15,
};

// Words of the trailer.
enum TrailerWord : int {
  kTrailMagic = 0,
  kTrailStatus = 1,
  kTrailSequence = 2,
  kTrailDescriptorCrc = 3,
  kTrailRawLow = 4,
  kTrailRawHigh = 5,
  kTrailPayloadLow = 6,
  kTrailPayloadHigh = 7,
  kTrailRawCrc = 8,
  kTrailIdentity = 9,
  kTrailCodecs = 10,
  kTrailCrc = 15,
};

constexpr uint32_t kLastFrameFlag = 1;

// Bytes rounded up to a multiple of 64.
constexpr uint64_t padded(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

// Blocks that hold `raw_bytes` of data.
constexpr uint64_t blocks(uint64_t raw_bytes) {
  return (padded(raw_bytes) + 4 * kBlockWords - 1) / (4 * kBlockWords);
}

// Largest frame that `raw_bytes` of data can make: every block raw.
constexpr uint64_t frame_bound(uint64_t raw_bytes) {
  return 128 + padded(padded(raw_bytes) + 4 * blocks(raw_bytes));
}

// Length of the decompressor's answer to a good frame.
constexpr uint64_t answer_bytes(uint64_t raw_bytes) { return padded(raw_bytes) + 64; }

// log2 of the bytes a codec looks at as one element (8-byte elements are coded as pairs of 4).
constexpr uint32_t element_log2(uint32_t element_bytes) {
  return element_bytes == 1 ? 0 : element_bytes == 2 ? 1 : 2;
}

// Words of the mask plane of a block of `block_words` words.
constexpr uint32_t mask_words(uint32_t block_words, uint32_t element_log2) {
  return ((block_words << (2 - element_log2)) + 31) / 32;
}

// First word of a block.
constexpr uint32_t block_word(Mode mode, uint32_t length) { return mode | length << 16; }

// Whether `mode` may occur in a frame of `codec`, and the words that may follow W0 then.
constexpr bool block_length_ok(uint32_t codec, uint32_t w0, uint32_t block_words,
                               uint32_t mask_words) {
  return w0 == block_word(kModeRaw, block_words) ||
         (codec == kCodecZvc &&
          (w0 == block_word(kModeZero, 0) ||
           ((w0 & 0xFFFF) == kModeZvc && (w0 >> 16) > mask_words && (w0 >> 16) < block_words)));
}

// What is wrong with a descriptor whose CRC is good or not as `crc_good` says: the lowest status.
// Codec bits not in `codecs` are not built in.
inline Status check_descriptor(const uint32_t d[kHeaderWords], bool crc_good, uint32_t codecs) {
#pragma HLS INLINE
  const uint32_t version = d[kDescKind] & 0xFF;
  const uint32_t operation = d[kDescKind] >> 8 & 0xFF;
  const uint32_t codec = d[kDescKind] >> 16 & 0xFF;
  const uint32_t element = d[kDescKind] >> 24;
  uint32_t reserved = (d[kDescFlags] & ~(0xFF00u | kLastFrameFlag)) | d[kDescReserved];
  for (int i = 0; i < 8; i++) {
#pragma HLS UNROLL
    reserved |= d[kDescParameters + i];
  }
  if (d[kDescMagic] != kMagic) return kBadMagic;
  if (!crc_good) return kBadDescriptorCrc;
  if (version != kVersion) return kBadVersion;
  if (operation != kIdentify && operation != kTransfer) return kBadOperation;
  if (operation == kTransfer) {
    if (codec > 31 || !(codecs >> (codec & 31) & 1)) return kBadCodec;
    if (element != 1 && element != 2 && element != 4 && element != 8) return kBadElement;
  }
  if (reserved) return kBadReserved;
  if (d[kDescRawHigh] || d[kDescRawLow] > kMaxRawBytes) return kBadRawBytes;
  return kGood;
}

}  // namespace actdma
