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
    uint32_t words[kWords];
    for (int i = 0; i < kWords; i++) words[i] = actdma_read(this, uint32_t(i));
    T token;
    __builtin_memcpy(&token, words, sizeof(T));
    return token;
  }
  void write(const T& token) {
    uint32_t words[kWords];
    words[kWords - 1] = 0;
    __builtin_memcpy(words, &token, sizeof(T));
    for (int i = 0; i < kWords; i++) actdma_write(this, uint32_t(i), words[i]);
  }

 private:
  static constexpr int kWords = int((sizeof(T) + 3) / 4);
};

}  // namespace hls

// A process keeps a function of its own, everything it calls goes into it.
#define ACTDMA_PROCESS(...) [[clang::noinline]] __VA_ARGS__
