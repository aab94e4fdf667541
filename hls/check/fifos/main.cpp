// Lists the FIFOs and line buffers of an engine, as fifos.py counts them: the regions make their
// streams, no process runs.
#define __SYNTHESIS__
#include "actdma/stream.hpp"
#undef ACTDMA_PROCESS
#define ACTDMA_PROCESS(...) (void)sizeof((__VA_ARGS__, 0))

#include <cstring>

#include "actdma/engine.hpp"

using namespace actdma;

namespace {

constexpr int L = ACTDMA_LANES;
constexpr int P = kPoolLanes<L>;

AxiStream<L> from("from_port"), to("to_port");
BeatStream<L> beats;
VerdictStream verdict;

void line_buffer(int words) { std::printf("pool line\t%d\t%d\n", 32 * words, kPoolWindows<P>); }

void compressor() {
  compress_engine<L>(from, to);
#if ACTDMA_POOL
  pool_compress<L>(beats, beats, verdict);
  line_buffer(P);
#endif
#if ACTDMA_BSR
  bsr_compress<L>(beats, beats, verdict);
#endif
}

void decompressor() {
  decompress_engine<L>(from, to);
#if ACTDMA_POOL
  pool_decompress<L>(beats, beats, verdict);
  line_buffer(Unpool<P>::kHalf);
#endif
}

}  // namespace

int main(int, char** argv) {
  if (std::strcmp(argv[1], "compress") == 0)
    compressor();
  else
    decompressor();
}
