// hls::stream as the translator to Verilog sees it: a token is words, and its way into a stream or
// out of it is a call that no compiler looks into.
#pragma once

#include <cstdint>

extern "C" {
void actdma_stream(const void* stream, const char* name, uint32_t bytes, uint32_t depth);
uint32_t actdma_read(const void* stream, uint32_t word);
void actdma_write(const void* stream, uint32_t word, uint32_t value);
}

namespace hls {

template <class T, int DEPTH>
class stream {
 public:
  explicit stream(const char* name) { actdma_stream(this, name, sizeof(T), DEPTH); }
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;

  T read() {
    T token;
    for (int i = 0; i < kWords; i++) {
      const uint32_t word = actdma_read(this, uint32_t(i));
      __builtin_memcpy(reinterpret_cast<char*>(&token) + 4 * i, &word, size(i));
    }
    return token;
  }
  void write(const T& token) {
    for (int i = 0; i < kWords; i++) {
      uint32_t word = 0;
      __builtin_memcpy(&word, reinterpret_cast<const char*>(&token) + 4 * i, size(i));
      actdma_write(this, uint32_t(i), word);
    }
  }

 private:
  static constexpr int size(int word) {
    return int(sizeof(T)) - 4 * word < 4 ? int(sizeof(T)) - 4 * word : 4;
  }
  static constexpr int kWords = int((sizeof(T) + 3) / 4);
};

}  // namespace hls

// A process keeps a function of its own, everything it calls goes into it.
#define ACTDMA_PROCESS(...) [[clang::noinline]] __VA_ARGS__
