// hls::stream as Vitis HLS declares it for synthesis (UG1399, HLS Stream Library), for the check:
// hls4ml's has no DEPTH. Declarations only.
#pragma once

namespace hls {

template <class T, int DEPTH = 0>
class stream : public stream<T, 0> {
 public:
  stream();
  explicit stream(const char* name);
};

template <class T>
class stream<T, 0> {
 public:
  stream();
  explicit stream(const char* name);
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;
  T read();
  void read(T& value);
  void write(const T& value);
  bool read_nb(T& value);
  bool write_nb(const T& value);
  bool empty() const;
  bool full() const;
  unsigned size() const;
  unsigned capacity() const;
};

}  // namespace hls
