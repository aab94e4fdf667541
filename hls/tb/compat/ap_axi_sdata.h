// AXI4-Stream word with side channels, for csim without the vendor's header (Vitis brings its own,
// which is then found first). Only what our tops use: no TUSER, TID or TDEST.
#pragma once

#include <ap_int.h>

template <int D, int U, int TI, int TD>
struct ap_axiu {
  static_assert(U == 0 && TI == 0 && TD == 0, "side channels are not modelled");
  ap_uint<D> data;
  ap_uint<D / 8> keep;
  ap_uint<D / 8> strb;
  ap_uint<1> last;
};
