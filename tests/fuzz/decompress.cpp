// The decompress engine on hostile frames: it has the native decoder's verdict, and its data.
#include <algorithm>

#include "engine.hpp"

using namespace actdma;
using namespace actdma::fuzz;

const Packet fuzz::kKind = Packet::kFrame;

namespace {

// Of a frame whose descriptor is good.
void compare(const uint8_t* data, size_t size, const uint32_t words[kHeaderWords],
             const Answer& answer) {
  const size_t raw_bytes = words[kDescRawLow];
  if (raw_bytes > kMostRaw) return;
  const auto raw = exact(raw_bytes);
  const Status verdict =
      native::decode_frame(*native::portable_kernels(), data, size, raw.get(), raw_bytes, false);
  check(answer.status() == verdict, "another verdict", answer.status(), verdict);
  if (verdict != kGood) return;
  check(answer.size == answer_bytes(raw_bytes), "the answer's length", uint32_t(answer.size));
  check(std::equal(raw.get(), raw.get() + raw_bytes, answer.bytes.data()), "other data");
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Engine engine(false);
  if (size == 0) return 0;  // no packet
  const auto packet = exact(data, size);
  const Answer& answer = engine.exchange(packet.get(), size);
  uint32_t words[kHeaderWords] = {};
  const Status head = descriptor_of(data, size, words);
  if (head != kGood) {
    check(answer.status() == head, "the descriptor's status", answer.status(), head);
    check(answer.size == sizeof words, "data though refused", uint32_t(answer.size));
  } else if (operation(words) == kTransfer) {
    compare(packet.get(), size, words, answer);
  }
  return 0;
}
