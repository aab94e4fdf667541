// hls::stream for a run of an engine's C++ without time: unbounded, and every token that is written
// goes to a file. Processes run one after the other, as no region has feedback.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>

namespace record {
inline std::FILE* file = nullptr;
inline int streams = 0;  // made so far in this run of the engine
}  // namespace record

namespace hls {

template <class T, int DEPTH>
class stream {
 public:
  explicit stream(const char*) : number_(record::streams++) {}
  // One at the engine's ports.
  stream() : number_(-1) {}

  T read() {
    if (tokens_.empty()) {
      std::fprintf(stderr, "stream %d is read empty\n", number_);
      std::abort();
    }
    const T token = tokens_.front();
    tokens_.pop_front();
    return token;
  }
  void write(const T& token) {
    tokens_.push_back(token);
    if (number_ < 0) return;
    const uint32_t head[2] = {uint32_t(number_), uint32_t(sizeof(T))};
    std::fwrite(head, 4, 2, record::file);
    std::fwrite(&token, 1, sizeof(T), record::file);
  }
  bool empty() const { return tokens_.empty(); }

 private:
  int number_;
  std::deque<T> tokens_;
};

}  // namespace hls
