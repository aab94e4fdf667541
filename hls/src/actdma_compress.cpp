#include "tops.hpp"

void actdma_compress(Port& s_axis, Port& m_axis) {
#pragma HLS INTERFACE mode = axis port = s_axis
#pragma HLS INTERFACE mode = axis port = m_axis
#pragma HLS INTERFACE mode = ap_ctrl_none port = return
#pragma HLS DATAFLOW
  ACTDMA_TOP(actdma::compress_top<ACTDMA_LANES>(s_axis, m_axis));
}
