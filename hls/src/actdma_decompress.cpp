#include "tops.hpp"

void actdma_decompress(Port& in, Port& out) {
#pragma HLS INTERFACE mode = axis port = in
#pragma HLS INTERFACE mode = axis port = out
#pragma HLS INTERFACE mode = ap_ctrl_none port = return
#pragma HLS DATAFLOW
  ACTDMA_TOP(actdma::decompress_top<ACTDMA_LANES>(in, out));
}
