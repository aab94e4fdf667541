#include "maxi_tops.hpp"

void actdma_compress_maxi(const Memory* in, Memory* out, uint32_t in_bytes, uint32_t capacity) {
  // clang-format off
#pragma HLS INTERFACE mode = m_axi port = in bundle = gmem_in offset = slave depth = 4096 \
    latency = 64 max_read_burst_length = 64 num_read_outstanding = 16
#pragma HLS INTERFACE mode = m_axi port = out bundle = gmem_out offset = slave depth = 4096 \
    latency = 64 max_write_burst_length = 64 num_write_outstanding = 16
// clang-format on
#pragma HLS INTERFACE mode = s_axilite port = in bundle = control
#pragma HLS INTERFACE mode = s_axilite port = out bundle = control
#pragma HLS INTERFACE mode = s_axilite port = in_bytes bundle = control
#pragma HLS INTERFACE mode = s_axilite port = capacity bundle = control
#pragma HLS INTERFACE mode = s_axilite port = return bundle = control
#pragma HLS INTERFACE mode = ap_ctrl_chain port = return
#pragma HLS DATAFLOW
  ACTDMA_TOP(actdma::compress_maxi<ACTDMA_LANES>(in, out, in_bytes, capacity));
}
