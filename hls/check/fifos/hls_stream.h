// hls::stream as a line of a list: its name, bits of a token, depth.
#pragma once

#include <cstdio>

namespace hls {

template <class T, int DEPTH>
struct stream {
  stream() = default;  // one that stands for an argument
  explicit stream(const char* name) {
    std::printf("%s\t%d\t%d\n", name, int(8 * sizeof(T)), DEPTH);
  }
  T read();
  void write(const T& value);
};

}  // namespace hls
