#include "frames.hpp"

#include <algorithm>
#include <cstring>

#include "bits.hpp"

namespace actdma::fuzz {
namespace {

using native::kHeaderBytes;
using native::load;
using native::store;

const native::Kernels& kernels() { return *native::portable_kernels(); }

template <typename T, size_t N>
T pick(const T (&list)[N], Random& random) {
  return list[random.below(N)];
}

// Few bytes mostly: more inputs per second, and the same code is reached.
size_t raw_size(size_t most, Random& random) {
  const size_t size = random.one_in(8)   ? random.below(20000)
                      : random.one_in(8) ? 8192 - 70 + random.below(140)
                                         : random.below(pick({200, 1500}, random));
  return std::min(size, most);
}

// A descriptor of any codec for about `bytes` of data, good but for its CRC.
void describe(size_t bytes, Random& random, uint32_t d[kHeaderWords]) {
  const uint32_t codec = random.below(kCodecBsr + 1);
  uint32_t element = pick({1u, 2u, 4u, 8u}, random);
  uint32_t* const parameters = d + kDescParameters;
  if (codec == kCodecZve) {
    element = pick({2u, 4u}, random);
    parameters[0] = element == 2 && random.one_in(2) ? 5 : 8;
  } else if (codec == kCodecInts) {
    parameters[0] = random.below(2);
  } else if (codec == kCodecPool) {
    const uint32_t kind = random.below(kPoolInt8 + 1);
    element = 1u << pool_element_log2(kind);
    parameters[0] = pick({2u, 4u, 8u}, random) | kind << 8;
    const uint32_t height = parameters[1] = random.below(20) + 1;
    const uint32_t width = parameters[2] =
        std::min<uint32_t>(random.below(60) + 1, kPoolRowBytes / element);
    parameters[3] = static_cast<uint32_t>(bytes / (height * width * element));
    bytes = size_t{parameters[3]} * height * width * element;
  } else if (codec == kCodecBsr) {
    const uint32_t kind = random.below(kBsrFp16 + 1);
    element = kind == kBsrFp32 ? 4 : 2;
    parameters[0] = pick({4u, 8u, 16u, 32u}, random) | random.below(3) << 8 | kind << 16;
    parameters[1] = random.below(40) + 1;
    parameters[2] = random.one_in(4) ? 0 : random.below(kBsrLargestThreshold);
    const size_t block = 4u << BsrShape(d).words_log2();
    bytes = (bytes + block - 1) / block * block;
  }
  d[kDescMagic] = kMagic;
  d[kDescKind] = kVersion | kTransfer << 8 | codec << 16 | element << 24;
  d[kDescSequence] = random.below(3);
  d[kDescFlags] = random.below(2) | random.below(18) << 8;
  d[kDescRawLow] = static_cast<uint32_t>(bytes);
}

// Elements that are zero or not, often in runs, and often alike but for their low bits.
Bytes random_raw(const uint32_t d[kHeaderWords], Random& random) {
  Bytes raw(d[kDescRawLow]);
  const size_t element = d[kDescKind] >> 24, run = element * pick({1u, 1u, 1u, 40u, 200u}, random);
  const uint32_t zeros = pick({0u, 50u, 50u, 90u, 100u}, random);
  const uint64_t varies = ~uint64_t{0} >> random.below(64);
  const uint64_t common = (uint64_t{random()} << 32 | random()) & ~varies;
  bool zero = false;
  for (size_t i = 0; i < raw.size(); i += element) {
    if (i % run == 0) zero = random.below(100) < zeros;
    if (zero) continue;
    const uint64_t value = common | ((uint64_t{random()} << 32 | random()) & varies);
    std::memcpy(&raw[i], &value, std::min(element, raw.size() - i));
  }
  return raw;
}

uint8_t* last(Bytes& packet, size_t word) {
  return packet.data() + packet.size() - kHeaderBytes + 4 * word;
}

void seal_descriptor(Bytes& packet) {
  store(&packet[4 * kDescCrc], kernels().crc32c(0, packet.data(), 4 * kDescCrc));
}

// What the trailer has to say of the blocks, where they are good.
void seal_blocks(Bytes& packet) {
  uint32_t d[kHeaderWords];
  if (native::read_descriptor(kernels(), packet.data(), d) != kGood) return;
  const uint32_t codec = d[kDescKind] >> 16 & 0xFF;
  if (is_lossy(codec) || d[kDescRawLow] > (1 << 20) || packet.size() % 4) return;
  Bytes raw(d[kDescRawLow]);
  const native::Coding coding{codec, element_log2(d[kDescKind] >> 24), d[kDescParameters]};
  native::Side side{true};
  const uint8_t* const payload = packet.data() + kHeaderBytes;
  const uint8_t* in = payload;
  if (native::decode_blocks(kernels(), in, packet.size() - 2 * kHeaderBytes, raw.data(), raw.size(),
                            coding, side) != kGood)
    return;
  const auto payload_bytes = static_cast<uint32_t>(in - payload);
  // The trailer moves to where it belongs.
  const Bytes trailer(packet.end() - kHeaderBytes, packet.end());
  packet.resize(kHeaderBytes + padded(payload_bytes));
  packet.insert(packet.end(), trailer.begin(), trailer.end());
  store(last(packet, kTrailPayloadLow), payload_bytes);
  store(last(packet, kTrailRawCrc), side.raw_crc);
}

void seal_trailer(Bytes& packet) {
  std::memcpy(last(packet, kTrailSequence), &packet[4 * kDescSequence], 4);
  std::memcpy(last(packet, kTrailDescriptorCrc), &packet[4 * kDescCrc], 4);
  std::memcpy(last(packet, kTrailRawLow), &packet[4 * kDescRawLow], 8);
}

void seal(Bytes& packet, Packet kind, Random& random) {
  if (packet.size() < kHeaderBytes) return;
  if (!random.one_in(8)) seal_descriptor(packet);
  if (kind == Packet::kRequest || packet.size() < 2 * kHeaderBytes) return;
  if (!random.one_in(8)) seal_blocks(packet);
  if (!random.one_in(8)) seal_trailer(packet);
  if (!random.one_in(8))
    store(last(packet, kTrailCrc), kernels().crc32c(0, packet.data(), packet.size() - 4));
}

uint32_t interesting(uint32_t before, Random& random) {
  const uint32_t values[] = {0,
                             1,
                             ~0u,
                             0x7FFFFFFF,
                             kMaxRawBytes,
                             before + 1,
                             before - 1,
                             before + (1u << 16),
                             before - (1u << 16),
                             before ^ 1u << random.below(32),
                             before ^ 1u << random.below(32),
                             random.below(64),
                             random.below(20000),
                             random()};
  return pick(values, random);
}

void damage_once(Bytes& packet, Random& random) {
  const size_t words = packet.size() / 4;
  const uint32_t what = random.below(12);
  if (what == 0 || words < 2 * kHeaderWords) {  // another length
    packet.resize(random.one_in(2) ? random.below(packet.size() + 200)
                                   : padded(random.below(packet.size() + 200)));
  } else if (what == 1) {  // a bit anywhere
    packet[random.below(packet.size())] ^= static_cast<uint8_t>(1 << random.below(8));
  } else if (what == 2) {  // a byte of the descriptor
    packet[random.below(kHeaderBytes)] = static_cast<uint8_t>(interesting(0, random));
  } else if (what == 3) {  // a word of descriptor or trailer
    const size_t at = random.below(2 * kHeaderWords);
    uint8_t* const word = &packet[4 * (at < kHeaderWords ? at : words - at + kHeaderWords - 1)];
    store(word, interesting(load<uint32_t>(word), random));
  } else if (what == 4) {  // words taken out, or put in
    const size_t at = 4 * (kHeaderWords + random.below(words - 2 * kHeaderWords + 1));
    const size_t count = 4 * (random.below(20) + 1);
    if (random.one_in(2)) {
      packet.insert(packet.begin() + static_cast<long>(at), count, uint8_t(random()));
    } else {
      packet.erase(packet.begin() + static_cast<long>(at),
                   packet.begin() + static_cast<long>(std::min(at + count, packet.size())));
    }
  } else if (what == 5) {  // words copied
    const size_t count = std::min<size_t>(4 * (random.below(40) + 1), packet.size());
    std::memmove(&packet[4 * random.below((packet.size() - count) / 4 + 1)],
                 &packet[4 * random.below((packet.size() - count) / 4 + 1)], count);
  } else {  // a word of the payload, often a mode word, a mask or a header
    const size_t payload = words - 2 * kHeaderWords + 1;
    const size_t at = random.one_in(3)   ? 0
                      : random.one_in(2) ? random.below(std::min<size_t>(payload, 20))
                                         : random.below(payload);
    uint8_t* const word = &packet[kHeaderBytes + 4 * at];
    store(word, interesting(load<uint32_t>(word), random));
  }
}

}  // namespace

Bytes good(Packet kind, size_t max_size, Random& random) {
  uint32_t d[kHeaderWords] = {};
  describe(raw_size(max_size, random), random, d);
  Bytes packet(kHeaderBytes);
  std::memcpy(packet.data(), d, kHeaderBytes);
  seal_descriptor(packet);
  const Bytes raw = random_raw(d, random);
  if (kind == Packet::kFrame) {
    Bytes frame(frame_bound(d) + native::kEncodeSlack);
    frame.resize(native::encode_frame(kernels(), raw.data(), packet.data(), frame.data()));
    return frame;
  }
  packet.insert(packet.end(), raw.begin(), raw.end());
  packet.resize(padded(packet.size()));
  return packet;
}

void damage(Bytes& packet, Packet kind, size_t max_size, Random& random) {
  for (uint32_t n = 1 + random.below(3); n > 0; n--) damage_once(packet, random);
  if (packet.size() > max_size) packet.resize(max_size);
  seal(packet, kind, random);
}

Bytes splice(const Bytes& head, const Bytes& tail, Packet kind, size_t max_size, Random& random) {
  auto cut = [&](const Bytes& packet) {
    return static_cast<long>(std::min<size_t>(4 * random.below(packet.size() / 4 + 1), max_size));
  };
  Bytes packet(head.begin(), head.begin() + cut(head));
  packet.insert(packet.end(), tail.begin() + cut(tail), tail.end());
  packet.resize(std::min<size_t>(padded(packet.size()), max_size));
  seal(packet, kind, random);
  return packet;
}

}  // namespace actdma::fuzz
