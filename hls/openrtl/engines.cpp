// Both engines, for the translator to Verilog: ACTDMA_LANES wide, with the codecs of the build
// flags.
#include "actdma/engine.hpp"

extern "C" {

void compress(actdma::AxiStream<ACTDMA_LANES>& in, actdma::AxiStream<ACTDMA_LANES>& out) {
  actdma::compress_engine<ACTDMA_LANES>(in, out);
}

void decompress(actdma::AxiStream<ACTDMA_LANES>& in, actdma::AxiStream<ACTDMA_LANES>& out) {
  actdma::decompress_engine<ACTDMA_LANES>(in, out);
}
}
