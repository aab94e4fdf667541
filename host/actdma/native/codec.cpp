#include "codec.hpp"

#include <algorithm>
#include <cstring>

#include "bits.hpp"
#include "records.hpp"

namespace actdma::native {
namespace {

constexpr size_t kMostGroups = kBlockBytes / 64;
// For the elements of a block in groups, the last of which may not be full, and a vector.
constexpr size_t kElementsRoom = kBlockBytes + kGroupBytes + kVectorSlack;

Stream stream_of(const uint32_t descriptor[kHeaderWords]) {
  return {descriptor[kDescKind] >> 16 & 0xFF, element_log2(descriptor[kDescKind] >> 24),
          descriptor[kDescParameters], true};
}

Split split_of(const Stream& stream) {
  return {record_mode(stream.codec), stream.element_log2, stream.parameter};
}

const RecordKernels& record_kernels(const Kernels& kernels, const Split& split) {
  if (split.mode == kModeInts) return kernels.ints[split.element_log2][split.parameter];
  if (split.element_log2 == 2) return kernels.float32;
  return split.parameter == 8 ? kernels.bfloat16 : kernels.float16;
}

// Two headers are three bytes.
void write_headers(const Split& split, const Group* groups, uint32_t count, uint8_t* plane) {
  store<uint32_t>(plane + 4 * header_words(count) - 4, 0);
  for (uint32_t g = 0; g < count; g += 2, plane += 3) {
    const uint32_t second = g + 1 < count ? split.header(groups[g + 1]) : 0;
    store(plane, split.header(groups[g]) | second << kHeaderBits);  // the next overwrites its end
  }
}

Group read_header(const Split& split, const uint8_t* plane, uint32_t number) {
  const auto pair = load<uint32_t>(plane + 3 * (number / 2));
  return split.group(pair >> number % 2 * kHeaderBits & 0xFFF);
}

uint32_t words_of(const Split& split, const Group* groups, uint32_t count) {
  uint32_t words = 0;
  for (uint32_t g = 0; g < count; g++) words += split.length(groups[g]);
  return words;
}

// Writes header and record plane of `count` elements to `out`, unless they have `limit` words or
// more; returns their end.
uint8_t* encode_records(const Kernels& kernels, const Stream& stream, const uint8_t* elements,
                        uint32_t count, uint32_t limit, uint8_t* out) {
  const Split split = split_of(stream);
  const RecordKernels& records = record_kernels(kernels, split);
  const uint32_t number = groups_of(count, stream.element_log2);
  const uint32_t headers = header_words(number);
  Group groups[kMostGroups];
  records.plan(elements, count, groups);
  if (headers + words_of(split, groups, number) >= limit) return nullptr;
  write_headers(split, groups, number, out);
  return records.pack(elements, count, groups, out + 4 * headers);
}

// Writes a raw block's words.
uint8_t* encode_raw(const uint8_t* raw, size_t bytes, uint8_t* out) {
  store(out, block_word(kModeRaw, static_cast<uint32_t>(bytes / 4)));
  std::memcpy(out + 4, raw, bytes);
  return out + 4 + bytes;
}

uint8_t* encode_block(const Kernels& kernels, const uint8_t* raw, size_t bytes, uint8_t* out,
                      const Stream& stream) {
  if (stream.codec == kCodecRaw) return encode_raw(raw, bytes, out);
  const auto n = static_cast<uint32_t>(bytes / 4);
  const uint32_t m = mask_words(n, stream.element_log2);
  const Mode with_records = record_mode(stream.codec);
  uint8_t* const mask = out + 4;
  uint8_t* const plane = mask + 4 * m;
  alignas(64) uint8_t room[kElementsRoom];
  uint8_t* const data = with_records == kModeRaw ? plane : room;

  store<uint32_t>(plane - 4, 0);  // half of the last mask word may stay unused
  uint8_t* const end = kernels.compress[stream.element_log2](raw, bytes / kChunkBytes, mask, data);
  store<uint32_t>(end, 0);  // up to a whole word
  const auto packed = static_cast<uint32_t>(end - data);
  const uint32_t zvc = m + (packed + 3) / 4;
  if (packed == 0) {
    store(out, block_word(kModeZero, 0));
    return mask;
  }
  if (with_records != kModeRaw) {
    const uint32_t count = packed >> stream.element_log2;
    const bool dense = packed == bytes;
    const uint32_t before = dense ? 0 : m;
    const uint32_t limit = std::min(zvc, n);
    uint8_t* const stop =
        encode_records(kernels, stream, data, count, limit - before, mask + 4 * before);
    if (stop) {
      store(out, block_word(with_records, static_cast<uint32_t>(stop - mask) / 4,
                            groups_of(count, stream.element_log2), dense));
      return stop;
    }
  }
  if (zvc >= n) return encode_raw(raw, bytes, out);
  if (data == room) std::memcpy(plane, room, 4 * (zvc - m));
  store(out, block_word(kModeZvc, zvc));
  return mask + 4 * zvc;
}

// Bits set in a mask plane for `elements` elements; false if one is set beyond them.
bool count_elements(const Kernels& kernels, const uint8_t* mask, uint32_t words, uint32_t elements,
                    uint32_t& count) {
  const uint32_t unused = 32 * words - elements;
  if (unused && load<uint32_t>(mask + 4 * words - 4) >> (32 - unused)) return false;
  count = kernels.count_bits(mask, words);
  return true;
}

bool decode_zvc(const Kernels& kernels, const uint8_t* planes, const Layout& layout, uint8_t* out,
                size_t bytes, const Stream& stream) {
  const uint8_t* const data = planes + 4 * layout.mask_words;
  const auto elements = static_cast<uint32_t>(bytes >> stream.element_log2);
  uint32_t count;
  if (!count_elements(kernels, planes, layout.mask_words, elements, count)) return false;
  if (layout.data_words != ((count << stream.element_log2) + 3) / 4) return false;
  kernels.expand[stream.element_log2](planes, data, bytes / kChunkBytes, out);
  return true;
}

bool decode_records(const Kernels& kernels, const uint8_t* planes, const Layout& layout,
                    uint8_t* out, size_t bytes, const Stream& stream) {
  const Split split = split_of(stream);
  const auto elements = static_cast<uint32_t>(bytes >> stream.element_log2);
  uint32_t count = elements;
  if (layout.mask_words && !count_elements(kernels, planes, layout.mask_words, elements, count)) {
    return false;
  }
  if (layout.groups != groups_of(count, stream.element_log2)) return false;
  const uint8_t* const headers = planes + 4 * layout.mask_words;
  Group groups[kMostGroups];
  for (uint32_t g = 0; g < layout.groups; g++) {
    groups[g] = read_header(split, headers, g);
    if (groups[g].width > split.widest()) return false;
  }
  if (words_of(split, groups, layout.groups) != layout.data_words) return false;
  alignas(64) uint8_t room[kElementsRoom];
  const bool in_place = !layout.mask_words && bytes % kBlockBytes == 0;
  record_kernels(kernels, split)
      .unpack(headers + 4 * layout.header_words, groups, layout.groups, in_place ? out : room);
  if (layout.mask_words) {
    kernels.expand[stream.element_log2](planes, room, bytes / kChunkBytes, out);
  } else if (!in_place) {
    std::memcpy(out, room, bytes);
  }
  return true;
}

Status decode_block(const Kernels& kernels, const uint8_t*& in, const uint8_t* end, uint8_t* out,
                    size_t bytes, const Stream& stream) {
  if (in == end) return kBadLength;
  const auto w0 = load<uint32_t>(in);
  const uint32_t length = w0 >> 16;
  const Layout layout =
      block_layout(stream.codec, stream.element_log2, w0, static_cast<uint32_t>(bytes / 4));
  if (!layout.good) return kBadBlock;
  if (length >= static_cast<size_t>(end - in) / 4) return kBadLength;
  const uint8_t* const planes = in + 4;
  switch (layout.mode) {
    case kModeRaw:
      std::memcpy(out, planes, bytes);
      break;
    case kModeZero:
      std::memset(out, 0, bytes);
      break;
    case kModeZvc:
      if (!decode_zvc(kernels, planes, layout, out, bytes, stream)) return kBadBlock;
      break;
    default:
      if (!decode_records(kernels, planes, layout, out, bytes, stream)) return kBadBlock;
  }
  in = planes + 4 * length;
  return kGood;
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
    uint8_t* const end = encode_block(kernels, block, bytes, out, stream);
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
    const Status status = decode_block(kernels, in, end, block, block_bytes, stream);
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

size_t encode_frame(const Kernels& kernels, const uint8_t* raw, const uint8_t* descriptor,
                    uint8_t* out) {
  uint32_t d[kHeaderWords];
  std::memcpy(d, descriptor, kHeaderBytes);
  std::memcpy(out, d, kHeaderBytes);
  Stream stream = stream_of(d);
  stream.frame_crc = kernels.crc32c(0, out, kHeaderBytes);
  uint8_t* const payload = out + kHeaderBytes;
  uint8_t* const end = encode_blocks(kernels, raw, d[kDescRawLow], payload, stream);
  const auto payload_bytes = static_cast<size_t>(end - payload);
  uint8_t* const trailer = payload + padded(payload_bytes);
  std::memset(end, 0, static_cast<size_t>(trailer - end));

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
                          kCodecs);
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
  const Status blocks_status = decode_blocks(kernels, in, static_cast<size_t>(trailer - payload),
                                             out, out_bytes, past_caches, stream);
  if (blocks_status != kGood) return blocks_status;
  const auto payload_bytes = static_cast<size_t>(in - payload);
  if (payload + padded(payload_bytes) != trailer) return kBadLength;

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
