#include "windows.hpp"

#include <atomic>
#include <vector>

#include "workers.hpp"

namespace actdma::native {
namespace {

// Lines of windows that a thread takes at a time are of this many elements, or one line.
constexpr size_t kElements = 1 << 15;
// Elements whose places lie in registers and the first cache.
constexpr size_t kPiece = 64;

// Calls line(first element, place in the map of the row's corner) for each line of `array`.
template <class Line>
void each_line(const WindowArray& array, const Windows& windows, size_t threads, Line line) {
  const size_t lines = array.maps * array.rows, elements = array.columns * array.channels;
  if (lines == 0 || elements == 0) return;
  const size_t taken = kElements / elements + 1;
  std::atomic<size_t> next{0};
  run_in(threads < lines / taken + 1 ? threads : lines / taken + 1, [&] {
    for (size_t first; (first = next.fetch_add(taken)) < lines;) {
      for (size_t i = first; i < lines && i < first + taken; i++) {
        const int64_t row = static_cast<int64_t>(i % array.rows);
        line(i * elements, (row * windows.stride[0] - windows.padding[0]) * windows.width);
      }
    }
  });
}

// Where the windows of a line begin, seen from its corner: one for each element.
std::vector<int32_t> beginnings(const WindowArray& array, const Windows& windows) {
  std::vector<int32_t> begin;
  begin.reserve(array.columns * array.channels);
  for (size_t column = 0; column < array.columns; column++) {
    const int64_t at = static_cast<int64_t>(column) * windows.stride[1] - windows.padding[1];
    begin.insert(begin.end(), array.channels, static_cast<int32_t>(at));
  }
  return begin;
}

}  // namespace

void window_codes(const int64_t* indices, const WindowArray& array, const Windows& windows,
                  uint8_t* codes, size_t threads) {
  const std::vector<int32_t> begin = beginnings(array, windows);
  const auto line = static_cast<int32_t>(windows.dilation[0] * windows.width);
  const auto rows = static_cast<int32_t>(windows.kernel[0]);
  const auto columns = static_cast<int32_t>(windows.kernel[1]);
  const auto step = static_cast<int32_t>(windows.dilation[1]);
  each_line(array, windows, threads, [&](size_t first, int64_t corner) {
    for (size_t at = 0; at < begin.size(); at += kPiece) {
      const size_t count = begin.size() - at < kPiece ? begin.size() - at : kPiece;
      const int64_t* const from = indices + first + at;
      uint8_t* const to = codes + first + at;
      uint32_t place[kPiece], row[kPiece] = {};
      for (size_t i = 0; i < count; i++) {
        place[i] = static_cast<uint32_t>(from[i] - corner) - static_cast<uint32_t>(begin[at + i]);
      }
      for (int32_t number = 1; number < rows; number++) {
        const int64_t least = int64_t(number) * line;
        if (least > INT32_MAX) break;
        for (size_t i = 0; i < count; i++) {
          row[i] += static_cast<int32_t>(place[i]) >= static_cast<int32_t>(least);
        }
      }
      for (size_t i = 0; i < count; i++) place[i] -= row[i] * static_cast<uint32_t>(line);
      if (step > 1) {
        for (size_t i = 0; i < count; i++) place[i] /= static_cast<uint32_t>(step);
      }
      for (size_t i = 0; i < count; i++) {
        to[i] = static_cast<uint8_t>(row[i] * static_cast<uint32_t>(columns) + place[i]);
      }
    }
  });
}

void window_indices(const uint8_t* codes, const WindowArray& array, const Windows& windows,
                    int64_t* indices, size_t threads) {
  const std::vector<int32_t> begin = beginnings(array, windows);
  int64_t places[256] = {};
  for (int64_t code = 0; code < windows.kernel[0] * windows.kernel[1]; code++) {
    const int64_t row = code / windows.kernel[1], column = code % windows.kernel[1];
    places[code] = row * windows.dilation[0] * windows.width + column * windows.dilation[1];
  }
  each_line(array, windows, threads, [&](size_t first, int64_t corner) {
    for (size_t i = 0; i < begin.size(); i++) {
      indices[first + i] = corner + begin[i] + places[codes[first + i]];
    }
  });
}

}  // namespace actdma::native
