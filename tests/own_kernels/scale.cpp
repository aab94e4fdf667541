// y = max(gain * x, 0) of float32, WIDTH / 32 values per beat: a kernel as tutorials write them.
#include <ap_axi_sdata.h>
#include <ap_int.h>
#include <hls_stream.h>

#ifndef WIDTH
#define WIDTH 128
#endif
#ifndef GAIN
#define GAIN 2.0f
#endif

typedef ap_axiu<WIDTH, 0, 0, 0> packet;

void scale(hls::stream<packet>& s_axis, hls::stream<packet>& m_axis) {
#pragma HLS INTERFACE axis port = s_axis
#pragma HLS INTERFACE axis port = m_axis
#pragma HLS INTERFACE ap_ctrl_none port = return
  packet beat;
  do {
#pragma HLS PIPELINE II = 1
    s_axis >> beat;
    for (int i = 0; i < WIDTH / 32; i++) {
#pragma HLS UNROLL
      union {
        unsigned bits;
        float value;
      } lane;
      lane.bits = beat.data.range(32 * i + 31, 32 * i).to_uint();
      lane.value = lane.value > 0 ? GAIN * lane.value : 0;
      beat.data.range(32 * i + 31, 32 * i) = lane.bits;
    }
    m_axis << beat;
  } while (!beat.last);
}
