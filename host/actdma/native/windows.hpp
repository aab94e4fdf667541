// Indices of max pooling as places in their windows, and back.
#pragma once

#include <cstddef>
#include <cstdint>

namespace actdma::native {

// How windows lie in a map, rows before columns.
struct Windows {
  int64_t width;  // of the map
  int64_t kernel[2], stride[2], padding[2], dilation[2];

  // Whether a byte can name a place, and places tell rows from columns.
  bool possible() const {
    const bool positive = width > 0 && kernel[0] > 0 && kernel[1] > 0 && stride[0] > 0 &&
                          stride[1] > 0 && padding[0] >= 0 && padding[1] >= 0 && dilation[0] > 0 &&
                          dilation[1] > 0;
    constexpr int64_t kMost = 1 << 20;  // products of two stay far from overflow
    return positive && width < kMost && kernel[0] <= 256 && kernel[1] <= 256 && stride[0] < kMost &&
           stride[1] < kMost && padding[0] < kMost && padding[1] < kMost && dilation[0] < kMost &&
           dilation[1] < kMost && kernel[0] * kernel[1] <= 256 &&
           (kernel[1] - 1) * dilation[1] < width;
  }
};

// An array (maps, rows, columns, channels) in memory, one element for each window.
struct WindowArray {
  size_t maps, rows, columns, channels;
};

// The place in its window of each of `indices`, which tell where in its map that lies; any byte for
// an index outside of its window.
void window_codes(const int64_t* indices, const WindowArray& array, const Windows& windows,
                  uint8_t* codes, size_t threads);

// The indices that `codes` stand for; any index for a code that is none.
void window_indices(const uint8_t* codes, const WindowArray& array, const Windows& windows,
                    int64_t* indices, size_t threads);

}  // namespace actdma::native
