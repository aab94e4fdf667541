// Bench of engines that were built without their optional codecs: they say so, refuse those frames,
// and do all others. -DACTDMA_POOL=0 -DACTDMA_BSR=0
#include <cstdio>

#include "golden_bsr.hpp"
#include "golden_pool.hpp"
#include "harness.hpp"

template <int L>
int left_out() {
  const Pattern& none = kPatterns[0].pause;
  const Bytes raw = golden::random_raw(10000, 4, 0.3, 3);
  const Bytes head = golden::descriptor(actdma::kCodecZvc, 4, 1, 10000);
  const Bytes request = golden::request(head, raw), frame = golden::frame(head, raw);
  const golden::Pooled pooled = golden::pool({2, actdma::kPoolFp32, 5, 9, 2}, 1);
  const golden::Pruned pruned = golden::prune({4, 0, 0, 3, 6, 0.5}, 1);
  for (bool compress : {true, false}) {
    const Bytes& good = compress ? request : frame;
    const Bytes& pool = compress ? pooled.request : pooled.frame;
    const Bytes& bsr = compress ? pruned.request : pruned.frame;
    const auto answers =
        run<L>(compress, {good, pool, good, bsr, good}, none, none, "left out").packets;
    const Bytes expected = compress ? frame : golden::answer(frame, head, raw);
    for (int i : {0, 2, 4})
      golden::check(answers[i] == expected, "a good packet suffered", "left out");
    for (int i : {1, 3})
      golden::check(answers[i].size() == 64 && status(answers[i]) == actdma::kBadCodec,
                    "a codec that is not there is not refused", "left out");
  }
  const uint32_t optional = 1u << actdma::kCodecPool | 1u << actdma::kCodecBsr;
  golden::check(!(actdma::kCodecsBuiltIn & optional), "codecs", "left out");
  return 2;
}

int main() {
  const int cases = left_out<2>() + left_out<4>() + left_out<8>() + left_out<16>();
  std::printf("left out: %d cases passed\n", cases);
  return 0;
}
