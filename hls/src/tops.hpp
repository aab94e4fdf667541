// The synthesisable tops. The stream width is set by -DACTDMA_LANES (32-bit lanes per beat).
#pragma once

#include "actdma/top.hpp"

#ifndef ACTDMA_LANES
#define ACTDMA_LANES 4
#endif

using Port = actdma::AxiPort<ACTDMA_LANES>;

void actdma_compress(Port& in, Port& out);
void actdma_decompress(Port& in, Port& out);
