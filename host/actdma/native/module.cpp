// The Python module actdma.native._native. Functions take anything with the buffer protocol that is
// contiguous, and work without the GIL.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bits.hpp"
#include "block_sparse.hpp"
#include "codec.hpp"
#include "tensor.hpp"
#include "windows.hpp"

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

// Work on fewer bytes takes less time than handing over the GIL does.
constexpr size_t kLongBytes = 4096;

Coding plain_coding(uint32_t codec, uint32_t element_bytes, uint32_t parameter) {
  uint32_t words[kHeaderWords] = {kMagic,
                                  kVersion | kTransfer << 8 | codec << 16 | element_bytes << 24};
  words[kDescParameters] = parameter;
  const Status status = check_descriptor(words, true, kBlockCodecs);
  if (codec > 0xFF || status == kBadCodec) throw py::value_error("unknown codec");
  if (element_bytes > 0xFF || status == kBadElement) {
    throw py::value_error("element_bytes is not 1, 2, 4 or 8, or none that the codec takes");
  }
  if (status != kGood) throw py::value_error("the parameter is none of the codec's");
  return {codec, element_log2(element_bytes), parameter};
}

// The good descriptor of a frame that is to be made of data.
RawFrame raw_frame(const Kernels& kernels, const uint8_t* raw, size_t raw_bytes,
                   const uint8_t* descriptor) {
  uint32_t words[kHeaderWords];
  if (read_descriptor(kernels, descriptor, words) != kGood ||
      (words[kDescKind] >> 8 & 0xFF) != kTransfer || words[kDescRawLow] > raw_bytes) {
    throw py::value_error("the descriptor is not that of the data");
  }
  return {raw, words[kDescRawLow], descriptor, frame_bound(words)};
}

// Elements without a bit set, where the codec looks at whole elements.
std::optional<size_t> zeros_of(const uint8_t* descriptor, size_t raw_bytes, size_t set) {
  constexpr uint32_t kLooking = kBlockCodecs & ~(1u << kCodecRaw);
  const uint8_t codec = descriptor[6], element_bytes = descriptor[7];
  if (!(kLooking >> codec & 1) || element_bytes > 4) return std::nullopt;
  return (raw_bytes + element_bytes - 1) / element_bytes - set;
}

using Frames = std::pair<std::vector<size_t>, std::optional<size_t>>;

Frames py_encode_frames(const py::object& raw, const py::object& descriptors, const py::object& out,
                        bool past_caches, size_t threads) {
  const Buffer from(raw, PyBUF_SIMPLE), heads(descriptors, PyBUF_SIMPLE), to(out, PyBUF_WRITABLE);
  const Kernels& kernels = active_kernels();
  std::vector<RawFrame> frames;
  size_t start = 0, bound = kEncodeSlack;
  for (size_t at = 0; at + kHeaderBytes <= heads.size(); at += kHeaderBytes) {
    frames.push_back(
        raw_frame(kernels, from.data() + start, from.size() - start, heads.data() + at));
    start += frames.back().raw_bytes;
    bound += frames.back().bound;
  }
  if (frames.empty() || heads.size() % kHeaderBytes || start != from.size()) {
    throw py::value_error("the descriptors are not those of the data");
  }
  if (to.size() < bound) throw py::value_error("out is short");
  std::vector<size_t> lengths(frames.size());
  size_t set;
  {
    const py::gil_scoped_release unlocked;
    encode_frames(kernels, frames, to.data(), past_caches, threads, lengths.data(), &set);
  }
  return {std::move(lengths), zeros_of(heads.data(), from.size(), set)};
}

// Whether `bytes` are those of so many elements in three dimensions.
bool holds(size_t bytes, size_t element_bytes, std::initializer_list<size_t> shape) {
  size_t product = element_bytes;
  for (const size_t size : shape) {
    if (__builtin_mul_overflow(product, size, &product)) return false;
  }
  return product == bytes;
}

// A matrix' shape in blocks, as parameter 0 of a descriptor says; the threshold is not looked at.
BsrShape bsr_shape(const Matrix& matrix, uint32_t parameter) {
  uint32_t words[kHeaderWords] = {};
  words[kDescParameters] = parameter;
  BsrShape shape(words);
  shape.columns = 1;
  if (!shape.good(shape.kind == kBsrFp32 ? 4 : 2)) {
    throw py::value_error("the parameter is none of codec bsr");
  }
  const size_t columns = matrix.columns / shape.block + (matrix.columns % shape.block != 0);
  if (matrix.rows == 0 || columns == 0 || columns > UINT32_MAX) {
    throw py::value_error("the matrix is empty or too wide");
  }
  shape.columns = static_cast<uint32_t>(columns);
  return shape;
}

// The bytes of a matrix' elements, checked.
Matrix matrix_of(const Buffer& elements, size_t rows, size_t columns, uint32_t parameter) {
  const uint32_t kind = parameter >> 16 & 0xFF;
  if (!holds(elements.size(), kind == kBsrFp32 ? 4 : 2, {rows, columns})) {
    throw py::value_error("the data is not that of the matrix");
  }
  return {elements.data(), rows, columns};
}

// The norms of a matrix' blocks, checked.
uint32_t* norms_of(const Buffer& norms, const Matrix& matrix, const BsrShape& shape) {
  if (!holds(norms.size(), sizeof(uint32_t), {blocks_of(matrix, shape)}) ||
      reinterpret_cast<uintptr_t>(norms.data()) % sizeof(uint32_t)) {
    throw py::value_error("norms are not those of the matrix' blocks, or not aligned");
  }
  return reinterpret_cast<uint32_t*>(norms.data());
}

size_t py_measure_blocks(const py::object& elements, size_t rows, size_t columns,
                         uint32_t parameter, const py::object& norms, size_t threads) {
  const Buffer from(elements, PyBUF_SIMPLE), to(norms, PyBUF_WRITABLE);
  const Matrix matrix = matrix_of(from, rows, columns, parameter);
  const BsrShape shape = bsr_shape(matrix, parameter);
  uint32_t* const measured = norms_of(to, matrix, shape);
  const py::gil_scoped_release unlocked;
  return measure_blocks(active_kernels(), matrix, shape, measured, threads);
}

std::vector<size_t> py_encode_matrix(const py::object& elements, size_t rows, size_t columns,
                                     const py::object& norms, const py::object& descriptors,
                                     const py::object& out, size_t threads) {
  const Buffer from(elements, PyBUF_SIMPLE), measured(norms, PyBUF_SIMPLE),
      heads(descriptors, PyBUF_SIMPLE), to(out, PyBUF_WRITABLE);
  if (heads.size() == 0 || heads.size() % kHeaderBytes) {
    throw py::value_error("the descriptors are not whole, or there is none");
  }
  const auto parameter = load<uint32_t>(heads.data() + 4 * kDescParameters);
  const Matrix matrix = matrix_of(from, rows, columns, parameter);
  const BsrShape shape = bsr_shape(matrix, parameter);
  const uint32_t* const known = norms_of(measured, matrix, shape);
  const Kernels& kernels = active_kernels();
  std::vector<RawFrame> frames;
  size_t first = 0, bound = kEncodeSlack;
  bool fit = true;
  for (size_t at = 0; at < heads.size(); at += kHeaderBytes) {
    const uint8_t* const head = heads.data() + at;
    frames.push_back(raw_frame(kernels, nullptr, SIZE_MAX, head));
    uint32_t words[kHeaderWords];
    std::memcpy(words, head, kHeaderBytes);
    fit &= (words[kDescKind] >> 16 & 0xFF) == kCodecBsr && words[kDescParameters] == parameter &&
           BsrShape(words).columns == shape.columns;
    frames.back().blocks = {matrix, known, first};
    first += frames.back().raw_bytes >> (2 + shape.words_log2());
    bound += frames.back().bound;
  }
  if (!fit || first != blocks_of(matrix, shape)) {
    throw py::value_error("the descriptors are not those of the matrix");
  }
  if (to.size() < bound) throw py::value_error("out is short");
  std::vector<size_t> lengths(frames.size());
  const py::gil_scoped_release unlocked;
  encode_frames(kernels, frames, to.data(), false, threads, lengths.data(), nullptr);
  return lengths;
}

std::pair<size_t, std::optional<size_t>> py_encode_frame(const py::object& raw,
                                                         const py::object& descriptor,
                                                         const py::object& out, bool past_caches) {
  const auto [lengths, zeros] = py_encode_frames(raw, descriptor, out, past_caches, 1);
  if (lengths.size() != 1) throw py::value_error("the descriptor is not that of the data");
  return {lengths[0], zeros};
}

// Whether they divide `end` bytes into parts.
bool divide(const std::vector<size_t>& borders, size_t end) {
  return !borders.empty() && std::is_sorted(borders.begin(), borders.end()) &&
         borders.back() <= end;
}

uint32_t py_decode_frames(const py::object& data, const std::vector<size_t>& offsets,
                          const std::vector<size_t>& starts, const py::object& out,
                          bool past_caches, size_t threads) {
  const Buffer from(data, PyBUF_SIMPLE), to(out, PyBUF_WRITABLE);
  if (offsets.size() != starts.size() || !divide(offsets, from.size()) ||
      !divide(starts, to.size())) {
    throw py::value_error("the offsets are not those of the data");
  }
  std::vector<Packet> packets;
  for (size_t i = 0; i + 1 < offsets.size(); i++) {
    packets.push_back({from.data() + offsets[i], offsets[i + 1] - offsets[i], to.data() + starts[i],
                       starts[i + 1] - starts[i]});
  }
  const py::gil_scoped_release unlocked;
  return decode_frames(active_kernels(), packets, past_caches, threads);
}

uint32_t py_decode_frame(const py::object& packet, const py::object& out, bool past_caches) {
  const Buffer from(packet, PyBUF_SIMPLE), to(out, PyBUF_WRITABLE);
  const py::gil_scoped_release unlocked;
  return decode_frame(active_kernels(), from.data(), from.size(), to.data(), to.size(),
                      past_caches);
}

std::pair<uint32_t, size_t> py_kept_blocks(const py::object& data,
                                           const std::vector<size_t>& offsets, size_t columns,
                                           size_t block_bytes, const py::object& crow,
                                           const py::object& col, const py::object& values) {
  const Buffer from(data, PyBUF_SIMPLE), before(crow, PyBUF_WRITABLE), places(col, PyBUF_WRITABLE),
      to(values, PyBUF_WRITABLE);
  if (!divide(offsets, from.size())) throw py::value_error("the offsets are not those of the data");
  const size_t rows = before.size() / sizeof(int64_t), most = places.size() / sizeof(int64_t);
  if (rows == 0 || !holds(before.size(), sizeof(int64_t), {rows}) ||
      !holds(places.size(), sizeof(int64_t), {most}) || !holds(to.size(), block_bytes, {most})) {
    throw py::value_error("there is not room for a matrix' blocks");
  }
  if ((reinterpret_cast<uintptr_t>(before.data()) | reinterpret_cast<uintptr_t>(places.data())) %
      sizeof(int64_t)) {
    throw py::value_error("the indices are not aligned");
  }
  KeptBlocks blocks{rows - 1,
                    columns,
                    block_bytes,
                    most,
                    reinterpret_cast<int64_t*>(before.data()),
                    reinterpret_cast<int64_t*>(places.data()),
                    to.data()};
  const py::gil_scoped_release unlocked;
  blocks.crow[0] = 0;
  for (size_t i = 0; i + 1 < offsets.size(); i++) {
    const Status status = take_kept_blocks(active_kernels(), from.data() + offsets[i],
                                           offsets[i + 1] - offsets[i], blocks);
    if (status != kGood) return {status, 0};
  }
  if (blocks.row != blocks.rows) return {kBadRawBytes, 0};
  return {kGood, blocks.kept};
}

size_t py_encode_blocks(const py::object& raw, uint32_t codec, uint32_t element_bytes,
                        const py::object& out, bool past_caches, uint32_t parameter) {
  const Buffer from(raw, PyBUF_SIMPLE), to(out, PyBUF_WRITABLE);
  const Coding coding = plain_coding(codec, element_bytes, parameter);
  if (to.size() < frame_bound(from.size()) + kEncodeSlack) throw py::value_error("out is short");
  const py::gil_scoped_release unlocked;
  Side side{false, past_caches};
  return static_cast<size_t>(
      encode_blocks(active_kernels(), from.data(), from.size(), to.data(), coding, side) -
      to.data());
}

uint32_t py_decode_blocks(const py::object& payload, uint32_t codec, uint32_t element_bytes,
                          const py::object& out, bool past_caches, uint32_t parameter) {
  const Buffer from(payload, PyBUF_SIMPLE), to(out, PyBUF_WRITABLE);
  const Coding coding = plain_coding(codec, element_bytes, parameter);
  if (from.size() < kDecodeSlack || from.size() % 4) throw py::value_error("payload is short");
  const py::gil_scoped_release unlocked;
  Side side{false, past_caches};
  const uint8_t* in = from.data();
  return decode_blocks(active_kernels(), in, from.size() - kDecodeSlack, to.data(), to.size(),
                       coding, side);
}

size_t py_count_zeros(const py::object& data, uint32_t element_bytes) {
  const Buffer from(data, PyBUF_SIMPLE);
  if (element_bytes != 1 && element_bytes != 2 && element_bytes != 4 && element_bytes != 8) {
    throw py::value_error("element_bytes is not 1, 2, 4 or 8");
  }
  if (from.size() % element_bytes) {
    throw py::value_error("the data is not a whole number of elements");
  }
  const py::gil_scoped_release unlocked;
  return active_kernels().zeros(from.data(), from.size(), __builtin_ctz(element_bytes));
}

std::vector<uint32_t> py_padded_crcs(const py::object& data, const std::vector<size_t>& borders,
                                     size_t threads) {
  const Buffer from(data, PyBUF_SIMPLE);
  if (!divide(borders, from.size())) throw py::value_error("the borders are not those of the data");
  std::vector<uint32_t> crcs(borders.size() - 1);
  const py::gil_scoped_release unlocked;
  padded_crcs(active_kernels(), from.data(), borders, threads, crcs.data());
  return crcs;
}

// The windows and the array of their places, checked.
Windows windows_of(const std::array<int64_t, 9>& sizes, const std::array<size_t, 4>& shape) {
  const Windows windows = {sizes[0],
                           {sizes[1], sizes[2]},
                           {sizes[3], sizes[4]},
                           {sizes[5], sizes[6]},
                           {sizes[7], sizes[8]}};
  if (!windows.possible() || shape[1] > size_t(INT32_MAX / windows.stride[0]) ||
      shape[2] > size_t(INT32_MAX / windows.stride[1])) {
    throw py::value_error("these are no windows of at most 256 places, or of too large a map");
  }
  return windows;
}

void py_window(const py::object& indices, const py::object& codes, bool encode,
               const std::array<size_t, 4>& shape, const std::array<int64_t, 9>& sizes,
               size_t threads) {
  const Windows windows = windows_of(sizes, shape);
  const WindowArray array = {shape[0], shape[1], shape[2], shape[3]};
  const Buffer wide(indices, encode ? PyBUF_SIMPLE : PyBUF_WRITABLE),
      narrow(codes, encode ? PyBUF_WRITABLE : PyBUF_SIMPLE);
  if (!holds(wide.size(), sizeof(int64_t), {shape[0], shape[1], shape[2], shape[3]}) ||
      narrow.size() != wide.size() / sizeof(int64_t) ||
      reinterpret_cast<uintptr_t>(wide.data()) % sizeof(int64_t)) {
    throw py::value_error("indices and codes are not of this shape, or not aligned");
  }
  auto* const places = reinterpret_cast<int64_t*>(wide.data());
  const py::gil_scoped_release unlocked;
  if (encode) {
    window_codes(places, array, windows, narrow.data(), threads);
  } else {
    window_indices(narrow.data(), array, windows, places, threads);
  }
}

uint32_t py_crc32c(const py::object& data, uint32_t value) {
  const Buffer from(data, PyBUF_SIMPLE);
  const Kernels& kernels = active_kernels();
  if (from.size() < kLongBytes) return kernels.crc32c(value, from.data(), from.size());
  const py::gil_scoped_release unlocked;
  return kernels.crc32c(value, from.data(), from.size());
}

std::vector<int64_t> indices(const py::object& object, const char* name) {
  const Buffer from(object, PyBUF_SIMPLE);
  if (from.size() % sizeof(int64_t)) {
    throw py::value_error(std::string(name) + " are not whole int64 numbers");
  }
  std::vector<int64_t> copy(from.size() / sizeof(int64_t));
  if (!copy.empty()) std::memcpy(copy.data(), from.data(), from.size());
  return copy;
}

void py_weight_gradient(const py::object& gradient, const py::object& crow, const py::object& col,
                        const py::object& values, const py::object& out, size_t rows,
                        size_t outputs, size_t columns, size_t block, uint32_t element_bytes,
                        size_t threads) {
  const Buffer from(gradient, PyBUF_SIMPLE), kept(values, PyBUF_SIMPLE), to(out, PyBUF_WRITABLE);
  if (block != 4 && block != 8 && block != 16 && block != 32) {
    throw py::value_error("block is " + std::to_string(block) + ", allowed are 4, 8, 16 and 32");
  }
  if (element_bytes != 4 && element_bytes != 2) {
    throw py::value_error("element_bytes is " + std::to_string(element_bytes) +
                          ", allowed are 4 and 2");
  }
  const auto rows_before = indices(crow, "crow indices"), places = indices(col, "column indices");
  const BlockSparse matrix{rows, columns, block, rows_before.data(), places.data(), kept.data()};
  if (rows_before.size() != matrix.block_rows() + 1) {
    throw py::value_error("there are " + std::to_string(rows_before.size()) +
                          " crow indices, allowed are " + std::to_string(matrix.block_rows() + 1));
  }
  if (!holds(kept.size(), element_bytes, {places.size(), block, block})) {
    throw py::value_error("the values are not those of " + std::to_string(places.size()) +
                          " column indices");
  }
  if (reinterpret_cast<uintptr_t>(kept.data()) % element_bytes) {
    throw py::value_error("the values are not aligned");
  }
  if (!holds(from.size(), element_bytes, {rows, outputs}) ||
      !holds(to.size(), element_bytes, {outputs, columns})) {
    throw py::value_error("gradient or out is not of its shape");
  }
  const std::string wrong = check_indices(matrix, places.size());
  if (!wrong.empty()) throw py::value_error(wrong);
  const py::gil_scoped_release unlocked;
  weight_gradient(active_kernels(), matrix, from.data(), outputs,
                  element_bytes == 4 ? Real::kFp32 : Real::kBf16, to.data(), threads);
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
        py::arg("past_caches") = false,
        "Writes the frame of `raw`, described by the 64 bytes of `descriptor`, to `out` (its "
        "frame_bound + ENCODE_SLACK bytes). Returns its length in bytes, and how many elements "
        "have no bit set (None: the codec does not count). `past_caches`: worth it where the frame "
        "is large and not read again soon; no more than a hint.");
  m.def("encode_frames", &py_encode_frames, py::arg("raw"), py::arg("descriptors"), py::arg("out"),
        py::arg("past_caches") = false, py::arg("threads") = 1,
        "Writes frames, described by 64 bytes of `descriptors` each, one after the other to `out` "
        "(their frame_bounds + ENCODE_SLACK bytes), in so many threads. Returns their lengths and "
        "the zeros of all.");
  m.def("decode_frames", &py_decode_frames, py::arg("data"), py::arg("offsets"), py::arg("starts"),
        py::arg("out"), py::arg("past_caches") = false, py::arg("threads") = 1,
        "Reads frames that lie between the `offsets` in `data` to between the `starts` in `out`, "
        "in so many threads. Returns the status of the first that is not good.");
  m.def("decode_frame", &py_decode_frame, py::arg("packet"), py::arg("out"),
        py::arg("past_caches") = false,
        "Reads the frame `packet` to `out`, exactly as long as its raw data. Returns the status.");
  m.def("measure_blocks", &py_measure_blocks, py::arg("elements"), py::arg("rows"),
        py::arg("columns"), py::arg("parameter"), py::arg("norms"), py::arg("threads") = 1,
        "Writes the norms (float32) of a matrix' blocks, in their order, to `norms`; codec bsr's "
        "`parameter` 0 says what blocks and norms these are. Returns how many elements have no bit "
        "set.");
  m.def("encode_matrix", &py_encode_matrix, py::arg("elements"), py::arg("rows"),
        py::arg("columns"), py::arg("norms"), py::arg("descriptors"), py::arg("out"),
        py::arg("threads") = 1,
        "As encode_frames, of a matrix whose elements lie row by row and whose blocks' `norms` are "
        "known, to frames of codec bsr. Returns their lengths.");
  m.def("kept_blocks", &py_kept_blocks, py::arg("data"), py::arg("offsets"), py::arg("columns"),
        py::arg("block_bytes"), py::arg("crow"), py::arg("col"), py::arg("values"),
        "Reads the kept blocks of bsr frames that lie between the `offsets` in `data`, of a matrix "
        "with so many block columns, to Block Sparse Row format. Returns the status of the first "
        "frame that is not good, and how many blocks there are.");
  m.def("encode_blocks", &py_encode_blocks, py::arg("raw"), py::arg("codec"),
        py::arg("element_bytes"), py::arg("out"), py::arg("past_caches") = false,
        py::arg("parameter") = 0,
        "Writes the blocks of `raw` alone, without CRC, to `out` and returns their length.");
  m.def("decode_blocks", &py_decode_blocks, py::arg("payload"), py::arg("codec"),
        py::arg("element_bytes"), py::arg("out"), py::arg("past_caches") = false,
        py::arg("parameter") = 0,
        "Reads blocks alone, without CRC, to `out`. The last DECODE_SLACK bytes of `payload` do "
        "not belong to them. Returns the status.");
  m.def("crc32c", &py_crc32c, py::arg("data"), py::arg("value") = 0,
        "CRC-32C of `data`, continuing `value`.");
  m.def("count_zeros", &py_count_zeros, py::arg("data"), py::arg("element_bytes"),
        "Elements of 1, 2, 4 or 8 bytes in `data` that have no bit set.");
  m.def("padded_crcs", &py_padded_crcs, py::arg("data"), py::arg("borders"), py::arg("threads") = 1,
        "CRC-32C of each part of `data` between the `borders`, padded with zeros to 64 bytes.");
  m.def(
      "window_codes",
      [](const py::object& indices, const py::object& codes, const std::array<size_t, 4>& shape,
         const std::array<int64_t, 9>& windows,
         size_t threads) { py_window(indices, codes, true, shape, windows, threads); },
      py::arg("indices"), py::arg("codes"), py::arg("shape"), py::arg("windows"),
      py::arg("threads") = 1,
      "Writes the place in its window of each of max pooling's int64 `indices` to `codes` (uint8). "
      "Both are arrays (maps, rows, columns, channels); `windows`: width of the map, then kernel, "
      "stride, padding and dilation, each of rows and columns.");
  m.def(
      "window_indices",
      [](const py::object& codes, const py::object& indices, const std::array<size_t, 4>& shape,
         const std::array<int64_t, 9>& windows,
         size_t threads) { py_window(indices, codes, false, shape, windows, threads); },
      py::arg("codes"), py::arg("indices"), py::arg("shape"), py::arg("windows"),
      py::arg("threads") = 1, "What window_codes was given: its inverse.");
  m.def("weight_gradient", &py_weight_gradient, py::arg("gradient"), py::arg("crow"),
        py::arg("col"), py::arg("values"), py::arg("out"), py::arg("rows"), py::arg("outputs"),
        py::arg("columns"), py::arg("block"), py::arg("element_bytes"), py::arg("threads") = 1,
        "Writes gradient^T x matrix (outputs x columns) to `out`, of `gradient` (rows x outputs) "
        "and the matrix' parts in Block Sparse Row format, fp32 or (2 bytes) bf16. ValueError for "
        "parts that are not those of a matrix of rows x columns.");
  m.def("isas", &isas, "Instruction sets this processor can run, the slowest first.");
  m.def("isa", [] { return active_kernels().name; }, "The instruction set in use.");
  m.def("set_isa", &set_isa, py::arg("name"), "Use the instruction set `name`, in all threads.");
}

}  // namespace actdma::native
