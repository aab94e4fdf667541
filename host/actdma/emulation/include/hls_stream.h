// hls::stream of our benches and of a user's tops on the emulated board, found before hls4ml's.
// That one only warns of a stream that is read while empty or left with data, where hardware would
// hang or mix up packets: here both are errors. A FIFO's depth is not modelled.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace hls {
namespace emulated {

// The longest packet of an AXI DMA, in the narrowest beats: 64 MiB.
constexpr size_t kMostTokens = size_t(1) << 24;

// A stream as the list of all streams knows it.
class Listed {
 public:
  explicit Listed(std::string name) : name_(std::move(name)) { alive().push_back(this); }
  Listed(const Listed&) = delete;
  Listed& operator=(const Listed&) = delete;
  virtual size_t size() const = 0;

  // One line per stream that holds tokens, or did at its end, but for `port`.
  static std::vector<std::string> left_over(const Listed& port) {
    std::vector<std::string> lines = std::exchange(ended(), {});
    for (const Listed* stream : alive())
      if (stream != &port && stream->size()) lines.push_back(stream->line(stream->size()));
    return lines;
  }

 protected:
  ~Listed() { alive().erase(std::find(alive().begin(), alive().end(), this)); }
  void end(size_t tokens) {
    if (tokens) ended().push_back(line(tokens));
  }
  [[noreturn]] void fail(const char* what) const {
    throw std::runtime_error("stream '" + name_ + "' " + what);
  }

 private:
  std::string line(size_t tokens) const {
    return "stream '" + name_ +
           "' is not empty when the top returns, tokens left: " + std::to_string(tokens);
  }
  static std::vector<Listed*>& alive() {
    static std::vector<Listed*> streams;
    return streams;
  }
  static std::vector<std::string>& ended() {
    static std::vector<std::string> lines;
    return lines;
  }
  std::string name_;
};

}  // namespace emulated

template <class T, int DEPTH = 0>
class stream;

template <class T>
class stream<T, 0> : public emulated::Listed {
 public:
  explicit stream(std::string name = "without a name") : Listed(std::move(name)) {}
  ~stream() { end(tokens_.size()); }

  T read() {
    if (empty()) fail("is read while it is empty");
    T token = tokens_.front();
    tokens_.pop_front();
    return token;
  }
  void read(T& token) { token = read(); }
  bool read_nb(T& token) {
    if (empty()) return false;
    token = read();
    return true;
  }
  void write(const T& token) {
    if (size() == emulated::kMostTokens) fail("holds more tokens than the longest packet has");
    tokens_.push_back(token);
  }
  bool write_nb(const T& token) {
    write(token);
    return true;
  }
  void operator>>(T& token) { read(token); }
  void operator<<(const T& token) { write(token); }
  bool empty() const { return tokens_.empty(); }
  bool full() const { return false; }
  size_t size() const final { return tokens_.size(); }

 private:
  std::deque<T> tokens_;
};

template <class T, int DEPTH>
class stream : public stream<T, 0> {
 public:
  using stream<T, 0>::stream;
};

}  // namespace hls
