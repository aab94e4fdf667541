// The synthesisable tops. The stream width is set by -DACTDMA_LANES (32-bit lanes per beat).
#pragma once

#include "actdma/top.hpp"

#ifndef ACTDMA_LANES
#define ACTDMA_LANES 4
#endif

using Port = actdma::AxiPort<ACTDMA_LANES>;

// Not "in" and "out": VHDL has those words, and the IP's ports would be called in_r and out_r.
void actdma_compress(Port& s_axis, Port& m_axis);
void actdma_decompress(Port& s_axis, Port& m_axis);
