// The Python module actdma.native._native. Functions take anything with the buffer protocol that is
// contiguous, and work without the GIL.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "codec.hpp"

namespace py = pybind11;

namespace actdma::native {
namespace {

// The bytes of a Python object, held for as long as this lives.
class Buffer {
 public:
  Buffer(const py::object& object, int flags) {
    if (PyObject_GetBuffer(object.ptr(), &view_, flags) != 0) throw py::error_already_set();
  }
  ~Buffer() { PyBuffer_Release(&view_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  uint8_t* data() const { return static_cast<uint8_t*>(view_.buf); }
  size_t size() const { return static_cast<size_t>(view_.len); }

 private:
  Py_buffer view_;
};

Stream plain_stream(uint32_t codec, uint32_t element_bytes, uint32_t parameter) {
  uint32_t words[kHeaderWords] = {kMagic,
                                  kVersion | kTransfer << 8 | codec << 16 | element_bytes << 24};
  words[kDescParameters] = parameter;
  const Status status = check_descriptor(words, true, kBlockCodecs);
  if (codec > 0xFF || status == kBadCodec) throw py::value_error("unknown codec");
  if (element_bytes > 0xFF || status == kBadElement) {
    throw py::value_error("element_bytes is not 1, 2, 4 or 8, or none that the codec takes");
  }
  if (status != kGood) throw py::value_error("the parameter is none of the codec's");
  return {{codec, element_log2(element_bytes), parameter}, false};
}

size_t py_encode_frame(const py::object& raw, const py::object& descriptor, const py::object& out) {
  const Buffer from(raw, PyBUF_SIMPLE), head(descriptor, PyBUF_SIMPLE), to(out, PyBUF_WRITABLE);
  const Kernels& kernels = active_kernels();
  uint32_t words[kHeaderWords];
  if (head.size() != kHeaderBytes || read_descriptor(kernels, head.data(), words) != kGood ||
      (words[kDescKind] >> 8 & 0xFF) != kTransfer || words[kDescRawLow] != from.size()) {
    throw py::value_error("the descriptor is not that of the data");
  }
  if (to.size() < frame_bound(words) + kEncodeSlack) throw py::value_error("out is short");
  const py::gil_scoped_release unlocked;
  return encode_frame(kernels, from.data(), head.data(), to.data());
}

uint32_t py_decode_frame(const py::object& packet, const py::object& out, bool past_caches) {
  const Buffer from(packet, PyBUF_SIMPLE), to(out, PyBUF_WRITABLE);
  const py::gil_scoped_release unlocked;
  return decode_frame(active_kernels(), from.data(), from.size(), to.data(), to.size(),
                      past_caches);
}

size_t py_encode_blocks(const py::object& raw, uint32_t codec, uint32_t element_bytes,
                        const py::object& out, uint32_t parameter) {
  const Buffer from(raw, PyBUF_SIMPLE), to(out, PyBUF_WRITABLE);
  Stream stream = plain_stream(codec, element_bytes, parameter);
  if (to.size() < frame_bound(from.size()) + kEncodeSlack) throw py::value_error("out is short");
  const py::gil_scoped_release unlocked;
  return static_cast<size_t>(
      encode_blocks(active_kernels(), from.data(), from.size(), to.data(), stream) - to.data());
}

uint32_t py_decode_blocks(const py::object& payload, uint32_t codec, uint32_t element_bytes,
                          const py::object& out, bool past_caches, uint32_t parameter) {
  const Buffer from(payload, PyBUF_SIMPLE), to(out, PyBUF_WRITABLE);
  Stream stream = plain_stream(codec, element_bytes, parameter);
  if (from.size() < kDecodeSlack || from.size() % 4) throw py::value_error("payload is short");
  const py::gil_scoped_release unlocked;
  const uint8_t* in = from.data();
  return decode_blocks(active_kernels(), in, from.size() - kDecodeSlack, to.data(), to.size(),
                       past_caches, stream);
}

uint32_t py_crc32c(const py::object& data, uint32_t value) {
  const Buffer from(data, PyBUF_SIMPLE);
  const py::gil_scoped_release unlocked;
  return active_kernels().crc32c(value, from.data(), from.size());
}

std::vector<std::string> isas() {
  std::vector<std::string> names;
  for (const Kernels* set : available_kernels()) names.emplace_back(set->name);
  return names;
}

void set_isa(const std::string& name) {
  if (choose_kernels(name)) return;
  std::string known;
  for (const std::string& isa : isas()) known += (known.empty() ? "" : ", ") + isa;
  throw py::value_error("no instruction set '" + name + "' here; there are " + known);
}

}  // namespace

PYBIND11_MODULE(_native, m) {
  m.doc() = "The codec of docs/format.md for the CPU; actdma.native is its public face.";
  m.attr("ENCODE_SLACK") = kEncodeSlack;
  m.attr("DECODE_SLACK") = kDecodeSlack;
  m.def("encode_frame", &py_encode_frame, py::arg("raw"), py::arg("descriptor"), py::arg("out"),
        "Writes the frame of `raw`, described by the 64 bytes of `descriptor`, to `out` "
        "(its frame_bound + ENCODE_SLACK bytes) and returns its length in bytes.");
  m.def("decode_frame", &py_decode_frame, py::arg("packet"), py::arg("out"),
        py::arg("past_caches") = false,
        "Reads the frame `packet` to `out`, exactly as long as its raw data. Returns the status.");
  m.def("encode_blocks", &py_encode_blocks, py::arg("raw"), py::arg("codec"),
        py::arg("element_bytes"), py::arg("out"), py::arg("parameter") = 0,
        "Writes the blocks of `raw` alone, without CRC, to `out` and returns their length.");
  m.def("decode_blocks", &py_decode_blocks, py::arg("payload"), py::arg("codec"),
        py::arg("element_bytes"), py::arg("out"), py::arg("past_caches") = false,
        py::arg("parameter") = 0,
        "Reads blocks alone, without CRC, to `out`. The last DECODE_SLACK bytes of `payload` do "
        "not belong to them. Returns the status.");
  m.def("crc32c", &py_crc32c, py::arg("data"), py::arg("value") = 0,
        "CRC-32C of `data`, continuing `value`.");
  m.def("isas", &isas, "Instruction sets this processor can run, the slowest first.");
  m.def("isa", [] { return active_kernels().name; }, "The instruction set in use.");
  m.def("set_isa", &set_isa, py::arg("name"), "Use the instruction set `name`, in all threads.");
}

}  // namespace actdma::native
