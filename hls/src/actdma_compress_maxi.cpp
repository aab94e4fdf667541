#include "maxi_tops.hpp"

void actdma_compress_maxi(const Memory* packet, Memory* answer, uint32_t packet_bytes,
                          uint32_t capacity) {
  // clang-format off
#pragma HLS INTERFACE mode = m_axi port = packet bundle = gmem_in offset = slave depth = 4096 \
    latency = 64 max_read_burst_length = 64 num_read_outstanding = 16
#pragma HLS INTERFACE mode = m_axi port = answer bundle = gmem_out offset = slave depth = 4096 \
    latency = 64 max_write_burst_length = 64 num_write_outstanding = 16
// clang-format on
#pragma HLS INTERFACE mode = s_axilite port = packet bundle = control
#pragma HLS INTERFACE mode = s_axilite port = answer bundle = control
#pragma HLS INTERFACE mode = s_axilite port = packet_bytes bundle = control
#pragma HLS INTERFACE mode = s_axilite port = capacity bundle = control
#pragma HLS INTERFACE mode = s_axilite port = return bundle = control
#pragma HLS INTERFACE mode = ap_ctrl_chain port = return
#pragma HLS DATAFLOW
  ACTDMA_TOP(actdma::compress_maxi<ACTDMA_LANES>(packet, answer, packet_bytes, capacity));
}
