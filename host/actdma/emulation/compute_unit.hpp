// The HLS tops with memory ports as the compute units of an emulated Alveo card: the template that
// is synthesised, called once per run on buffers that stand for the card's memory.
#pragma once

#include <pybind11/pybind11.h>

#include <stdexcept>
#include <string>
#include <type_traits>

#include "actdma/maxi.hpp"

namespace actdma {

namespace py = pybind11;

inline py::buffer_info flat_buffer(const py::buffer& buffer, bool writable) {
  py::buffer_info info = buffer.request(writable);
  if (info.ndim > 1 || (info.ndim == 1 && info.strides[0] != info.itemsize))
    throw py::value_error("expected a one-dimensional contiguous buffer");
  return info;
}

// Whether an engine of that kind is a compressor.
inline bool compresses(const std::string& kind) {
  if (kind == "compress") return true;
  if (kind == "decompress") return false;
  throw py::value_error("kind is '" + kind + "', allowed are 'compress' and 'decompress'");
}

// `make` of the number of lanes as a compile-time constant.
template <class Make>
auto with_lanes(int lanes, Make make) {
  switch (lanes) {
    case 2:
      return make(std::integral_constant<int, 2>());
    case 4:
      return make(std::integral_constant<int, 4>());
    case 8:
      return make(std::integral_constant<int, 8>());
    case 16:
      return make(std::integral_constant<int, 16>());
  }
  throw py::value_error("lanes is " + std::to_string(lanes) + ", allowed are 2, 4, 8 and 16");
}

class ComputeUnit {
 public:
  ComputeUnit(const std::string& kind, int lanes, bool timed)
      : call_(choose(compresses(kind), lanes)), lanes_(lanes), timed_(timed) {}

  int lanes() const { return lanes_; }

  // In hardware nothing keeps a unit from memory beyond its buffers: here a call that would go
  // there is refused.
  uint64_t run(const py::buffer& in_memory, const py::buffer& out_memory, uint32_t packet_bytes,
               uint32_t capacity) const {
    const py::buffer_info in = flat_buffer(in_memory, false), out = flat_buffer(out_memory, true);
    check("read", packet_bytes, in);
    check("write", uint64_t(capacity) + 4 * kResultWords, out);
    const py::gil_scoped_release release;
    csim::Network network(false, timed_);
    network.spawn("top", [&] { call_(in.ptr, out.ptr, packet_bytes, capacity); });
    network.run();
    if (network.finished()) return timed_ ? network.now() : 0;
    std::string message = "deadlock:";
    for (const std::string& line : network.waiting()) message += "\n  " + line;
    throw std::runtime_error(message);
  }

 private:
  using Call = void (*)(const void*, void*, uint32_t, uint32_t);

  template <int L>
  static void compress(const void* in, void* out, uint32_t packet_bytes, uint32_t capacity) {
    compress_maxi<L>(static_cast<const MemoryWord<L>*>(in), static_cast<MemoryWord<L>*>(out),
                     packet_bytes, capacity);
  }
  template <int L>
  static void decompress(const void* in, void* out, uint32_t packet_bytes, uint32_t capacity) {
    decompress_maxi<L>(static_cast<const MemoryWord<L>*>(in), static_cast<MemoryWord<L>*>(out),
                       packet_bytes, capacity);
  }
  static Call choose(bool forth, int lanes) {
    return with_lanes(
        lanes, [&](auto width) -> Call { return forth ? compress<width> : decompress<width>; });
  }
  static void check(const char* what, uint64_t bytes, const py::buffer_info& memory) {
    const uint64_t size = uint64_t(memory.size * memory.itemsize);
    if (bytes > size)
      throw py::value_error("the unit would " + std::string(what) + " " + std::to_string(bytes) +
                            " bytes in a buffer of " + std::to_string(size));
  }

  Call call_;
  int lanes_;
  bool timed_;
};

}  // namespace actdma
