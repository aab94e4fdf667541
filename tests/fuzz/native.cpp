// The native decoder on hostile frames, with every instruction set of this processor.
#include <algorithm>

#include "target.hpp"

using namespace actdma;
using namespace actdma::fuzz;

const Packet fuzz::kKind = Packet::kFrame;

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uint32_t words[kHeaderWords] = {};
  const Status head = descriptor_of(data, size, words);
  const size_t announced = head == kGood ? words[kDescRawLow] : 0;
  // Where too much is announced, the receiver has not expected it.
  const size_t raw_bytes = announced <= kMostRaw ? announced : 0;
  const auto packet = exact(data, size);
  const auto expected = exact(raw_bytes), raw = exact(raw_bytes);
  Status verdict = kGood;
  for (const native::Kernels* kernels : native::available_kernels()) {
    const bool first = kernels == native::portable_kernels();
    uint8_t* const out = first ? expected.get() : raw.get();
    for (const bool past_caches : {false, true}) {
      std::fill_n(out, raw_bytes, past_caches);
      const Status status =
          native::decode_frame(*kernels, packet.get(), size, out, raw_bytes, past_caches);
      if (first && !past_caches) verdict = status;
      check(status == verdict, kernels->name, status, verdict);
      if (!first && status == kGood)
        check(std::equal(out, out + raw_bytes, expected.get()), kernels->name);
    }
  }
  if (head != kGood) check(verdict == head, "the descriptor's status", verdict, head);
  if (announced != raw_bytes && operation(words) == kTransfer)
    check(verdict == kBadRawBytes, "more data than expected", verdict);
  return 0;
}
