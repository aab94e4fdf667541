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
constexpr uint32_t kPoolRowBytes = 16384;  // longest row of a map: the engines' line buffer

enum Operation : uint32_t { kIdentify = 0, kTransfer = 1 };
enum Codec : uint32_t {
  kCodecRaw = 0,
  kCodecZvc = 1,
  kCodecZve = 2,
  kCodecInts = 3,
  kCodecRle = 4,
  kCodecPool = 5,
  kCodecBsr = 6,
};
enum PoolKind : uint32_t { kPoolFp32 = 0, kPoolBf16 = 1, kPoolFp16 = 2, kPoolInt8 = 3 };
enum Mode : uint32_t {
  kModeRaw = 0,
  kModeZero = 1,
  kModeZvc = 2,
  kModeZve = 3,
  kModeInts = 4,
  kModeRle = 5,
};
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

// Words of the descriptor. Parameter 0: exponent bits of zve, whether elements of ints are signed;
// k (8 bits) and kind (8 bits) of pool, followed by height, width and number of the maps;
// BsrShape.
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

// Words likewise.
constexpr uint32_t padded_words(uint32_t words) {
  return (words + kAlignWords - 1) / kAlignWords * kAlignWords;
}

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

// First word of a block; `extra` is what its mode has in bits 4 to 12.
constexpr uint32_t block_word(Mode mode, uint32_t length, uint32_t extra = 0) {
  return mode | extra << 4 | length << 16;
}

// `extra` of a mode with records.
constexpr uint32_t record_extra(uint32_t groups, bool dense) {
  return (groups - 1) | uint32_t(dense) << 8;
}

// Words of the tag plane, two bits per word of the mask plane, and how many literals there may be.
constexpr uint32_t tag_words(uint32_t mask_words) { return (mask_words + 15) / 16; }
constexpr uint32_t kMaxLiterals = 255;

// log2 of the elements in a group: 32 of them, 64 where they have 1 byte.
constexpr uint32_t group_log2(uint32_t element_log2) { return element_log2 == 0 ? 6 : 5; }

// Groups that `elements` make.
constexpr uint32_t groups_of(uint32_t elements, uint32_t element_log2) {
  return (elements + (1u << group_log2(element_log2)) - 1) >> group_log2(element_log2);
}

// Words of the header plane: 12 bits per group.
constexpr uint32_t header_words(uint32_t groups) { return (groups * 12 + 31) / 32; }

// The mode with records that a codec allows; raw where it has none.
constexpr Mode record_mode(uint32_t codec) {
  return codec == kCodecZve ? kModeZve : codec == kCodecInts ? kModeInts : kModeRaw;
}

// How a block is laid out, from its first word: planes follow each other in this order.
struct Layout {
  bool good;  // mode allowed, length possible
  Mode mode;
  uint32_t tag_words;
  uint32_t literal_words;
  uint32_t mask_words;
  uint32_t header_words;
  uint32_t data_words;  // raw copy, data plane or record plane
  uint32_t groups;
};

constexpr Layout block_layout(uint32_t codec, uint32_t element_log2, uint32_t w0,
                              uint32_t block_words) {
#pragma HLS INLINE
  const uint32_t mode = w0 & 0xF, extra = w0 >> 4 & 0xFFF, length = w0 >> 16;
  const uint32_t n = block_words, m = mask_words(n, element_log2);
  if (mode == kModeRaw) return {!extra && length == n, kModeRaw, 0, 0, 0, 0, length, 0};
  if (codec != kCodecRaw && mode == kModeZero)
    return {!extra && length == 0, kModeZero, 0, 0, 0, 0, 0, 0};
  if (codec != kCodecRaw && mode == kModeZvc)
    return {!extra && length > m && length < n, kModeZvc, 0, 0, m, 0, length - m, 0};
  if (codec == kCodecRle && mode == kModeRle) {
    const uint32_t tags = tag_words(m), planes = tags + extra;
    const bool good = extra <= kMaxLiterals && length > planes && length < n;
    return {good, kModeRle, tags, extra, 0, 0, length - planes, 0};
  }
  if (mode != kModeRaw && mode == record_mode(codec)) {
    const uint32_t groups = (extra & 0xFF) + 1, headers = header_words(groups);
    const uint32_t most = groups_of(n << (2 - element_log2), element_log2);
    const bool dense = extra >> 8 & 1;
    const uint32_t mask = dense ? 0 : m;
    const bool good = extra >> 9 == 0 && (dense ? groups == most : groups <= most) &&
                      length >= mask + headers && length < n;
    return {good, Mode(mode), 0, 0, mask, headers, length - mask - headers, groups};
  }
  return {false, kModeRaw, 0, 0, 0, 0, 0, 0};
}

// Whether what comes back may differ from what went in. Such a frame's raw CRC is 0.
constexpr bool is_lossy(uint32_t codec) { return codec == kCodecPool || codec == kCodecBsr; }

// log2 of the bytes of an element.
constexpr uint32_t pool_element_log2(uint32_t kind) {
  return kind == kPoolFp32 ? 2 : kind == kPoolInt8 ? 0 : 1;
}

// The parameters of codec pool, as they are.
struct PoolShape {
  uint32_t first = 2, height = 0, width = 0, maps = 0;

  constexpr PoolShape() = default;
  constexpr explicit PoolShape(const uint32_t d[kHeaderWords])
      : first(d[kDescParameters]),
        height(d[kDescParameters + 1]),
        width(d[kDescParameters + 2]),
        maps(d[kDescParameters + 3]) {}

  constexpr uint32_t k() const { return first & 0xFF; }
  constexpr uint32_t k_log2() const { return k() == 8 ? 3 : k() == 4 ? 2 : 1; }
  constexpr uint32_t kind() const { return first >> 8 & 0xFF; }
  constexpr uint32_t element_log2() const { return pool_element_log2(kind()); }
  constexpr uint32_t row_bytes() const { return width << element_log2(); }
  constexpr bool good(uint32_t element_bytes) const {
    return (first >> 16) == 0 && (k() == 2 || k() == 4 || k() == 8) && kind() <= kPoolInt8 &&
           element_bytes == 1u << element_log2() && height > 0 && width > 0 &&
           width <= kPoolRowBytes >> element_log2();
  }
};

// Parameters of codec bsr.
enum BsrNorm : uint32_t { kNormL1 = 0, kNormL2 = 1, kNormMax = 2 };
enum BsrKind : uint32_t { kBsrFp32 = 0, kBsrBf16 = 1, kBsrFp16 = 2 };
constexpr uint32_t kBsrGroupWords = 1024;              // of a group's blocks, at most
constexpr uint32_t kBsrLargestThreshold = 0x7F800000;  // infinity

struct BsrShape {
  uint32_t block;  // rows and columns of a block
  uint32_t norm;
  uint32_t kind;
  uint32_t unused;
  uint32_t columns;    // blocks in a block row
  uint32_t threshold;  // float32 bits, for L2 of the square

  constexpr BsrShape() : block(0), norm(0), kind(0), unused(0), columns(0), threshold(0) {}
  constexpr explicit BsrShape(const uint32_t d[kHeaderWords])
      : block(d[kDescParameters] & 0xFF),
        norm(d[kDescParameters] >> 8 & 0xFF),
        kind(d[kDescParameters] >> 16 & 0xFF),
        unused(d[kDescParameters] >> 24),
        columns(d[kDescParameters + 1]),
        threshold(d[kDescParameters + 2]) {}

  constexpr uint32_t block_log2() const {
    return block == 4 ? 2 : block == 8 ? 3 : block == 16 ? 4 : 5;
  }
  // log2 of the words of a block.
  constexpr uint32_t words_log2() const { return 2 * block_log2() - (kind != kBsrFp32); }
  // log2 of the blocks that a mask stands before.
  constexpr uint32_t group_log2() const { return words_log2() < 5 ? 5 : 10 - words_log2(); }
  constexpr bool good(uint32_t element_bytes) const {
    return (block == 4 || block == 8 || block == 16 || block == 32) && norm <= kNormMax &&
           kind <= kBsrFp16 && unused == 0 && element_bytes == (kind == kBsrFp32 ? 4 : 2) &&
           columns > 0 && threshold <= kBsrLargestThreshold;
  }
};

// The extension of bsr's frames: how many norms have which exponents.
constexpr uint32_t kHistogramBins = 64;
constexpr uint32_t kHistogramBase = 95;  // exponent field of the first bin

constexpr uint32_t histogram_bin(uint32_t norm) {
  const uint32_t exponent = norm >> 23;
  return exponent < kHistogramBase                    ? 0
         : exponent < kHistogramBase + kHistogramBins ? exponent - kHistogramBase
                                                      : kHistogramBins - 1;
}

// Bytes between the padded payload and the trailer.
constexpr uint32_t extension_bytes(uint32_t codec) {
  return codec == kCodecBsr ? 4 * kHistogramBins : 0;
}

// Largest bsr frame: every block kept.
constexpr uint64_t bsr_frame_bound(uint64_t raw_bytes, const BsrShape& shape) {
  const uint64_t blocks = raw_bytes >> (2 + shape.words_log2());
  const uint64_t rows = blocks / shape.columns, rest = blocks % shape.columns;
  const uint64_t g = uint64_t(1) << shape.group_log2();
  const uint64_t groups = rows * ((shape.columns + g - 1) / g) + (rest + g - 1) / g;
  return 128 + padded(raw_bytes + 4 * groups) + 4 * kHistogramBins;
}

// Largest frame that a good descriptor's data can make.
constexpr uint64_t frame_bound(const uint32_t d[kHeaderWords]) {
  return (d[kDescKind] >> 16 & 0xFF) == kCodecBsr ? bsr_frame_bound(d[kDescRawLow], BsrShape(d))
                                                  : frame_bound(uint64_t(d[kDescRawLow]));
}

// What is wrong with a descriptor whose CRC is good or not as `crc_good` says: the lowest status,
// but for extents_fit(). Codec bits not in `codecs` are not built in.
inline Status check_fields(const uint32_t d[kHeaderWords], bool crc_good, uint32_t codecs) {
#pragma HLS INLINE
  const uint32_t version = d[kDescKind] & 0xFF;
  const uint32_t operation = d[kDescKind] >> 8 & 0xFF;
  const uint32_t codec = operation == kTransfer ? d[kDescKind] >> 16 & 0xFF : uint32_t(kCodecRaw);
  const uint32_t element = d[kDescKind] >> 24;
  const uint32_t first = d[kDescParameters];
  const int own = codec == kCodecPool ? 4 : codec == kCodecBsr ? 3 : 1;  // parameters
  uint32_t reserved = (d[kDescFlags] & ~(0xFF00u | kLastFrameFlag)) | d[kDescReserved];
  for (int i = 1; i < 8; i++) {
#pragma HLS UNROLL
    if (i >= own) reserved |= d[kDescParameters + i];
  }
  const bool parameters_ok = codec == kCodecZve    ? first == 8 || (first == 5 && element == 2)
                             : codec == kCodecInts ? first <= 1
                             : codec == kCodecPool ? PoolShape(d).good(element)
                             : codec == kCodecBsr  ? BsrShape(d).good(element)
                                                   : first == 0;
  // bsr's data is whole blocks.
  const uint32_t rest = codec == kCodecBsr ? (4u << BsrShape(d).words_log2()) - 1 : 0;
  if (d[kDescMagic] != kMagic) return kBadMagic;
  if (!crc_good) return kBadDescriptorCrc;
  if (version != kVersion) return kBadVersion;
  if (operation != kIdentify && operation != kTransfer) return kBadOperation;
  if (operation == kTransfer) {
    if (codec > 31 || !(codecs >> (codec & 31) & 1)) return kBadCodec;
    if (element != 1 && element != 2 && element != 4 && element != 8) return kBadElement;
    if ((codec == kCodecZve || codec == kCodecBsr) && element != 2 && element != 4)
      return kBadElement;
    if (codec == kCodecPool && element == 8) return kBadElement;
  }
  if (reserved || !parameters_ok) return kBadReserved;
  if (d[kDescRawHigh] || d[kDescRawLow] > kMaxRawBytes || (d[kDescRawLow] & rest))
    return kBadRawBytes;
  return kGood;
}

// Parameters 1 to 3 of some codecs are extents: with the element bytes, they multiply to the raw
// bytes.
constexpr int kExtents = 3;
constexpr bool has_extents(const uint32_t d[kHeaderWords]) {
  return (d[kDescKind] >> 8 & 0xFF) == kTransfer && (d[kDescKind] >> 16 & 0xFF) == kCodecPool;
}

#ifndef __SYNTHESIS__  // the engines multiply bit by bit: Extents in ingest.hpp
// Whether a descriptor that is good so far announces the raw bytes that its extents make, with no
// more than kMaxRawBytes on the way; true where the codec has none.
constexpr bool extents_fit(const uint32_t d[kHeaderWords]) {
  if (!has_extents(d)) return true;
  uint64_t product = d[kDescKind] >> 24;
  for (int n = 0; n < kExtents; n++) {
    product *= d[kDescParameters + 1 + n];
    if (product > kMaxRawBytes) return false;
  }
  return product == d[kDescRawLow];
}

// The lowest status of all. Codec bits not in `codecs` are not built in.
inline Status check_descriptor(const uint32_t d[kHeaderWords], bool crc_good, uint32_t codecs) {
  const Status status = check_fields(d, crc_good, codecs);
  return status == kGood && !extents_fit(d) ? kBadRawBytes : status;
}
#endif

}  // namespace actdma
