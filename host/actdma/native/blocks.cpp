#include "blocks.hpp"

#include <algorithm>
#include <cstring>

#include "bits.hpp"

namespace actdma::native {
namespace {

constexpr size_t kMostGroups = kBlockBytes / 64;
constexpr size_t kMaskBytes = kBlockBytes / 8;
// For the elements of a block in groups, the last of which may not be full, and a vector.
constexpr size_t kElementsRoom = kBlockBytes + kGroupBytes + kVectorSlack;

// Tags, two bits per word of the mask plane (docs/format.md, tag plane).
enum Tag : uint32_t { kZeros = 0, kOnes = 1, kLiteral = 2 };
constexpr uint32_t kTagsPerWord = 16;

const RecordKernels& record_kernels(const Kernels& kernels, const Coding& coding) {
  if (coding.codec == kCodecInts) return kernels.ints[coding.element_log2][coding.parameter];
  if (coding.element_log2 == 2) return kernels.float32;
  return coding.parameter == 8 ? kernels.bfloat16 : kernels.float16;
}

// Two headers are three bytes.
void write_headers(const Coding& coding, const Group* groups, uint32_t count, uint8_t* plane) {
  store<uint32_t>(plane + 4 * header_words(count) - 4, 0);
  for (uint32_t g = 0; g < count; g += 2, plane += 3) {
    const uint32_t second = g + 1 < count ? coding.header(groups[g + 1]) : 0;
    store(plane, coding.header(groups[g]) | second << kHeaderBits);  // the next overwrites its end
  }
}

// The groups that `count` headers describe, and in `words` the length of their records; false if
// one of them is impossible.
bool read_headers(const Coding& coding, const uint8_t* plane, uint32_t count, Group* groups,
                  uint32_t& words) {
  bool possible = true;
  words = 0;
  for (uint32_t g = 0; g < count; g++) {
    const auto pair = load<uint32_t>(plane + 3 * (g / 2));
    const Group group = coding.group(pair >> g % 2 * kHeaderBits & 0xFFF);
    possible &= group.width <= coding.widest();
    words += coding.record_words(group);
    group.write(groups + g);
  }
  return possible;
}

// Writes header and record plane of `count` elements to `out`, unless they have `limit` words or
// more; returns their end.
uint8_t* encode_records(const Kernels& kernels, const Coding& coding, const uint8_t* elements,
                        uint32_t count, uint32_t limit, uint8_t* out) {
  const RecordKernels& records = record_kernels(kernels, coding);
  const uint32_t number = groups_of(count, coding.element_log2);
  const uint32_t headers = header_words(number);
  Group groups[kMostGroups];
  if (headers + records.plan(elements, count, groups) >= limit) return nullptr;
  write_headers(coding, groups, number, out);
  return records.pack(elements, count, groups, out + 4 * headers);
}

// Writes tag and literal plane of a mask plane of `m` words; returns the number of literals.
uint32_t write_tags(const uint8_t* mask, uint32_t m, uint8_t* planes) {
  uint32_t tags[tag_words(kMaskBytes / 4)] = {};
  uint8_t* const plane = planes + 4 * tag_words(m);
  uint32_t literals = 0;
  for (uint32_t i = 0; i < m; i++) {
    const auto word = load<uint32_t>(mask + 4 * i);
    const uint32_t tag = word == 0 ? kZeros : word == ~0u ? kOnes : kLiteral;
    tags[i / kTagsPerWord] |= tag << 2 * (i % kTagsPerWord);
    store(plane + 4 * literals, word);  // the next literal overwrites what is none
    literals += tag == kLiteral;
  }
  std::memcpy(planes, tags, 4 * tag_words(m));
  return literals;
}

// The inverse; false if the tags are not those of a mask plane with so many literals.
bool read_tags(const uint8_t* planes, uint32_t m, uint32_t literals, uint8_t* mask) {
  const uint8_t* const plane = planes + 4 * tag_words(m);
  uint32_t seen = 0;
  for (uint32_t i = 0; i < kTagsPerWord * tag_words(m); i++) {
    const auto word = load<uint32_t>(planes + 4 * (i / kTagsPerWord));
    const uint32_t tag = word >> 2 * (i % kTagsPerWord) & 3;
    if (tag > kLiteral || (i >= m && tag) || (tag == kLiteral && seen == literals)) return false;
    if (i >= m) continue;
    const uint32_t run = tag == kOnes ? ~0u : 0;
    store(mask + 4 * i, tag == kLiteral ? load<uint32_t>(plane + 4 * seen) : run);
    seen += tag == kLiteral;
  }
  return seen == literals;
}

uint8_t* encode_raw(const uint8_t* raw, size_t bytes, uint8_t* out) {
  store(out, block_word(kModeRaw, static_cast<uint32_t>(bytes / 4)));
  std::memcpy(out + 4, raw, bytes);
  return out + 4 + bytes;
}

// Sets `count` to the bits set in the mask plane of `elements` elements; false if one is set beyond
// them.
bool count_elements(const Kernels& kernels, const uint8_t* mask, uint32_t elements,
                    uint32_t& count) {
  const uint32_t words = (elements + 31) / 32, unused = 32 * words - elements;
  count = kernels.count_bits(mask, words);
  return !unused || load<uint32_t>(mask + 4 * words - 4) >> (32 - unused) == 0;
}

constexpr uint8_t kZeroBlock[kBlockBytes] = {};

// Copies a block that is all there to `out`.
void deliver(const Kernels& kernels, const uint8_t* block, size_t bytes, uint8_t* out, Side& side) {
  if (!side.past_caches) {
    std::memcpy(out, block, bytes);
    return;
  }
  if (side.with_crc) side.raw_crc = kernels.crc32c(side.raw_crc, block, bytes);  // still in a cache
  side.raw_done = true;
  kernels.stream(out, block, bytes);
}

bool decode_zvc(const Kernels& kernels, const uint8_t* mask, const uint8_t* data,
                uint32_t data_words, uint8_t* out, size_t bytes, uint32_t element_log2,
                Side& side) {
  const auto elements = static_cast<uint32_t>(bytes >> element_log2);
  uint32_t count;
  if (!count_elements(kernels, mask, elements, count)) return false;
  if (data_words != ((count << element_log2) + 3) / 4) return false;
  kernels.expand[element_log2](mask, data, bytes / kChunkBytes, out, side);
  return true;
}

bool decode_rle(const Kernels& kernels, const uint8_t* planes, const Layout& layout, uint8_t* out,
                size_t bytes, uint32_t element_log2, Side& side) {
  const uint32_t m = mask_words(static_cast<uint32_t>(bytes / 4), element_log2);
  uint8_t mask[kMaskBytes];
  if (!read_tags(planes, m, layout.literal_words, mask)) return false;
  const uint8_t* const data = planes + 4 * (layout.tag_words + layout.literal_words);
  return decode_zvc(kernels, mask, data, layout.data_words, out, bytes, element_log2, side);
}

bool decode_records(const Kernels& kernels, const uint8_t* planes, const Layout& layout,
                    uint8_t* out, size_t bytes, const Coding& coding, Side& side) {
  const bool dense = layout.mask_words == 0;
  const auto elements = static_cast<uint32_t>(bytes >> coding.element_log2);
  uint32_t count = elements;
  if (!dense && !count_elements(kernels, planes, elements, count)) return false;
  if (layout.groups != groups_of(count, coding.element_log2)) return false;
  const uint8_t* const headers = planes + 4 * layout.mask_words;
  Group groups[kMostGroups];
  uint32_t words;
  if (!read_headers(coding, headers, layout.groups, groups, words)) return false;
  if (words != layout.data_words) return false;
  alignas(64) uint8_t room[kElementsRoom];
  const bool direct = dense && bytes % kGroupBytes == 0 && !side.past_caches;
  uint8_t* const unpacked = direct ? out : room;
  record_kernels(kernels, coding)
      .unpack(headers + 4 * layout.header_words, groups, layout.groups, unpacked);
  if (!dense) {
    kernels.expand[coding.element_log2](planes, room, bytes / kChunkBytes, out, side);
  } else if (!direct) {
    deliver(kernels, room, bytes, out, side);
  }
  return true;
}

}  // namespace

uint8_t* encode_block(const Kernels& kernels, const uint8_t* raw, size_t bytes, uint8_t* out,
                      const Coding& coding, Side& side) {
  if (coding.codec == kCodecRaw) return encode_raw(raw, bytes, out);
  const auto n = static_cast<uint32_t>(bytes / 4);
  const uint32_t m = mask_words(n, coding.element_log2);
  uint8_t* const mask = out + 4;
  uint8_t* const plane = mask + 4 * m;
  alignas(64) uint8_t room[kElementsRoom];
  uint8_t* const data = coding.codec == kCodecZvc ? plane : room;

  store<uint32_t>(plane - 4, 0);  // half of the last mask word may stay unused
  uint8_t* const end =
      kernels.compress[coding.element_log2](raw, bytes / kChunkBytes, mask, data, side);
  store<uint32_t>(end, 0);  // up to a whole word
  const auto packed = static_cast<uint32_t>(end - data);
  const uint32_t p = (packed + 3) / 4;
  side.set += packed >> coding.element_log2;
  if (packed == 0) {
    store(out, block_word(kModeZero, 0));
    return mask;
  }
  const uint32_t limit = std::min(m + p, n);  // words of zvc or raw
  if (record_mode(coding.codec) != kModeRaw) {
    const uint32_t count = packed >> coding.element_log2;
    const bool dense = packed == bytes;
    const uint32_t before = dense ? 0 : m;
    uint8_t* const stop =
        encode_records(kernels, coding, data, count, limit - before, mask + 4 * before);
    if (stop) {
      const uint32_t extra = record_extra(groups_of(count, coding.element_log2), dense);
      store(out,
            block_word(record_mode(coding.codec), static_cast<uint32_t>(stop - mask) / 4, extra));
      return stop;
    }
  } else if (coding.codec == kCodecRle) {
    uint8_t planes[4 * tag_words(kMaskBytes / 4) + kMaskBytes + 4];
    const uint32_t literals = write_tags(mask, m, planes);
    const uint32_t before = tag_words(m) + literals;
    if (literals <= kMaxLiterals && before + p < limit) {
      std::memcpy(mask, planes, 4 * before);
      std::memcpy(mask + 4 * before, data, 4 * p);
      store(out, block_word(kModeRle, before + p, literals));
      return mask + 4 * (before + p);
    }
  }
  if (limit == n) return encode_raw(raw, bytes, out);
  if (data == room) std::memcpy(plane, room, 4 * p);
  store(out, block_word(kModeZvc, m + p));
  return plane + 4 * p;
}

Status decode_block(const Kernels& kernels, const uint8_t*& in, const uint8_t* end, uint8_t* out,
                    size_t bytes, const Coding& coding, Side& side) {
  if (in == end) return kBadLength;
  const auto w0 = load<uint32_t>(in);
  const uint32_t length = w0 >> 16;
  const Layout layout =
      block_layout(coding.codec, coding.element_log2, w0, static_cast<uint32_t>(bytes / 4));
  if (!layout.good) return kBadBlock;
  if (length >= static_cast<size_t>(end - in) / 4) return kBadLength;
  const uint8_t* const planes = in + 4;
  bool agree = true;
  switch (layout.mode) {
    case kModeRaw:
      deliver(kernels, planes, bytes, out, side);
      break;
    case kModeZero:
      deliver(kernels, kZeroBlock, bytes, out, side);
      break;
    case kModeZvc:
      agree = decode_zvc(kernels, planes, planes + 4 * layout.mask_words, layout.data_words, out,
                         bytes, coding.element_log2, side);
      break;
    case kModeRle:
      agree = decode_rle(kernels, planes, layout, out, bytes, coding.element_log2, side);
      break;
    default:
      agree = decode_records(kernels, planes, layout, out, bytes, coding, side);
  }
  if (!agree) return kBadBlock;
  in = planes + 4 * length;
  return kGood;
}

}  // namespace actdma::native
