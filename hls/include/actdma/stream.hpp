// Streams and processes of a dataflow region, as the vendor's tools see them and as csim runs them.
//
//   ACTDMA_PROCESS(call);  one process of the region. Every process works through one frame and
//                          returns; the region starts it again.
//   ACTDMA_REGION_END();   last line of a region.
//   ACTDMA_TOP(call);      the one call of a synthesisable top.
//   cycle();               first line of a process' pipelined loop: one clock cycle.
//   stall(cycles);         where a process waits for what csim does not run: a memory.
//
// Pipelines flush (style = flp, which HLS does not always choose by itself): where input pauses,
// what is under way must come out. A block's mode waits for its last record, which might else stand
// in a stalled pipeline while the block FIFOs are full.
#pragma once

#include <cstdint>

#ifdef __SYNTHESIS__

#include <hls_stream.h>

namespace actdma {
template <class T, int DEPTH>
using Stream = hls::stream<T, DEPTH>;
inline void cycle() {}
inline void stall(uint32_t) {}
}  // namespace actdma
#ifndef ACTDMA_PROCESS  // openrtl's hls_stream.h has its own
#define ACTDMA_PROCESS(...) __VA_ARGS__
#endif
#define ACTDMA_REGION_END()
#define ACTDMA_TOP(...) __VA_ARGS__

#else

#include "csim.hpp"

namespace actdma {
template <class T, int DEPTH>
using Stream = csim::Stream<T, DEPTH>;
inline void cycle() { csim::current()->now++; }
inline void stall(uint32_t cycles) { csim::current()->now += cycles; }
}  // namespace actdma
#define ACTDMA_PROCESS(...) ::actdma::csim::fork(#__VA_ARGS__, [&] { __VA_ARGS__; })
#define ACTDMA_REGION_END() ::actdma::csim::current()->wait_children()
#define ACTDMA_TOP(...) ::actdma::csim::run_top([&] { __VA_ARGS__; })

#endif
