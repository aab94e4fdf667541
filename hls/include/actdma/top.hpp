// AXI4-Stream ports of the tops: vendor types on one side, beats on the other.
#pragma once

#include <ap_axi_sdata.h>
#include <ap_int.h>
#include <hls_stream.h>

#include "engine.hpp"

namespace actdma {

template <int L>
using AxiWord = ap_axiu<32 * L, 0, 0, 0>;
template <int L>
using AxiPort = hls::stream<AxiWord<L>>;

template <int L>
AxiWord<L> read_port(AxiPort<L>& port) {
#ifndef __SYNTHESIS__
  static const csim::EmptyPort nothing("the top's input port");
  if (port.empty()) csim::current()->wait(nothing, true);
#endif
  return port.read();
}

template <int L>
void from_port(AxiPort<L>& port, AxiStream<L>& out) {
  AxiBeat<L> beat;
  do {
#pragma HLS PIPELINE II = 1 style = flp
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    cycle();
    const AxiWord<L> word = read_port<L>(port);
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      beat.w[i] = uint32_t(word.data.range(32 * i + 31, 32 * i).to_uint());
    }
    beat.keep = word.keep == ap_uint<4 * L>(~ap_uint<4 * L>(0));
    beat.last = word.last;
    out.write(beat);
  } while (!beat.last);
}

template <int L>
void to_port(AxiStream<L>& in, AxiPort<L>& port) {
  AxiBeat<L> beat;
  do {
#pragma HLS PIPELINE II = 1 style = flp
#pragma HLS LOOP_TRIPCOUNT min = 1 max = kMaxBeats
    cycle();
    beat = in.read();
    AxiWord<L> word;
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      word.data.range(32 * i + 31, 32 * i) = beat.w[i];
    }
    word.keep = beat.keep ? ~ap_uint<4 * L>(0) : ap_uint<4 * L>(0);
    word.strb = word.keep;
    word.last = beat.last;
    port.write(word);
  } while (!beat.last);
}

// Inlined into the top's dataflow region, so that processes start again by themselves and frames
// overlap.
template <int L>
void compress_top(AxiPort<L>& in, AxiPort<L>& out) {
#pragma HLS INLINE
  AxiStream<L> from("from_port"), to("to_port");
  ACTDMA_PROCESS(from_port<L>(in, from));
  ACTDMA_PROCESS(compress_engine<L>(from, to));
  ACTDMA_PROCESS(to_port<L>(to, out));
  ACTDMA_REGION_END();
}

template <int L>
void decompress_top(AxiPort<L>& in, AxiPort<L>& out) {
#pragma HLS INLINE
  AxiStream<L> from("from_port"), to("to_port");
  ACTDMA_PROCESS(from_port<L>(in, from));
  ACTDMA_PROCESS(decompress_engine<L>(from, to));
  ACTDMA_PROCESS(to_port<L>(to, out));
  ACTDMA_REGION_END();
}

}  // namespace actdma
