// The compress engine on hostile requests: good ones get the frame that the native encoder makes
// with every instruction set.
#include <algorithm>

#include "engine.hpp"

using namespace actdma;
using namespace actdma::fuzz;

const Packet fuzz::kKind = Packet::kRequest;

namespace {

Bytes frame_of(const uint8_t* packet, const uint32_t words[kHeaderWords]) {
  const auto raw = exact(packet + native::kHeaderBytes, words[kDescRawLow]);
  Bytes expected;
  for (const native::Kernels* kernels : native::available_kernels()) {
    for (const bool past_caches : {false, true}) {
      const auto frame = exact(frame_bound(words) + native::kEncodeSlack);
      const size_t length =
          native::encode_frame(*kernels, raw.get(), packet, frame.get(), past_caches);
      check(length <= frame_bound(words), "longer than its bound", uint32_t(length));
      if (expected.empty()) expected.assign(frame.get(), frame.get() + length);
      check(std::equal(expected.begin(), expected.end(), frame.get(), frame.get() + length),
            kernels->name, past_caches);
    }
  }
  return expected;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Engine engine(true);
  if (size == 0) return 0;  // no packet
  const auto packet = exact(data, size);
  uint32_t words[kHeaderWords] = {};
  const Status head = descriptor_of(data, size, words);
  const size_t whole = native::kHeaderBytes + padded(words[kDescRawLow]);
  const bool transfer = head == kGood && operation(words) == kTransfer;
  if (transfer && size == whole)  // padding is zeros, as the sender promises
    std::fill(packet.get() + native::kHeaderBytes + words[kDescRawLow], packet.get() + size, 0);
  const Answer& answer = engine.exchange(packet.get(), size);
  if (head != kGood) {
    check(answer.status() == head, "the descriptor's status", answer.status(), head);
    check(answer.size == sizeof words, "data though refused", uint32_t(answer.size));
  } else if (transfer && size != whole) {
    check(answer.status() == kBadLength, "another length than announced", answer.status());
  } else if (transfer) {
    check(answer.bytes == frame_of(packet.get(), words), "another frame", answer.status());
  }
  return 0;
}
