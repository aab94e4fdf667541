// AXI4-Stream words with side channels, where Vitis's own header is not to be had: csim of our
// tops, and a user's tops on the emulated board. TUSER, TID and TDEST are there where their width
// is not 0. Everything begins as 0, so a TKEEP that a top forgets to set is found.
#pragma once

#include <ap_int.h>

namespace hls {
namespace emulated {

template <int N>
struct User {
  ap_uint<N> user = 0;
};
template <>
struct User<0> {};
template <int N>
struct Id {
  ap_uint<N> id = 0;
};
template <>
struct Id<0> {};
template <int N>
struct Dest {
  ap_uint<N> dest = 0;
};
template <>
struct Dest<0> {};

// Bytes of TDATA. Types with a width of their own: ap_uint, ap_int, ap_fixed, ap_ufixed.
template <class T, class = void>
constexpr int bytes_of = sizeof(T);
template <class T>
constexpr int bytes_of<T, decltype(void(T::width))> = (T::width + 7) / 8;

}  // namespace emulated

template <class T, int U = 0, int I = 0, int D = 0>
struct axis : emulated::User<U>, emulated::Id<I>, emulated::Dest<D> {
  T data = 0;
  ap_uint<emulated::bytes_of<T>> keep = 0;
  ap_uint<emulated::bytes_of<T>> strb = 0;
  ap_uint<1> last = 0;
};

}  // namespace hls

template <int W, int U, int I, int D>
using ap_axiu = hls::axis<ap_uint<W>, U, I, D>;
template <int W, int U, int I, int D>
using ap_axis = hls::axis<ap_int<W>, U, I, D>;
