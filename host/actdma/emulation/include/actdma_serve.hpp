// A user's top as a process: it takes packets from its parent, calls the top for each as hardware
// starts it, and answers with the packets that come out. emulation/hls_top.py is the other end.
#pragma once

#include <sys/time.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "ap_axi_sdata.h"
#include "hls_stream.h"

namespace actdma::emulated {

using Bytes = std::vector<uint8_t>;

template <class Beat, class = void>
constexpr bool is_beat = false;
template <class Beat>
constexpr bool is_beat<Beat, decltype(void(Beat::data), void(Beat::last))> = true;
template <class Beat, class = void>
constexpr bool has_keep = false;
template <class Beat>
constexpr bool has_keep<Beat, decltype(void(Beat::keep))> = true;
template <class Beat, class = void>
constexpr bool has_strb = false;
template <class Beat>
constexpr bool has_strb<Beat, decltype(void(Beat::strb))> = true;

template <class Data, class = void>
constexpr bool is_ap = false;
template <class Data>
constexpr bool is_ap<Data, decltype(void(Data::width))> = true;

template <class Data>
constexpr int bits() {
  if constexpr (is_ap<Data>)
    return Data::width;
  else
    return 8 * sizeof(Data);
}

template <class Data>
void load(Data& data, const uint8_t* bytes) {
  if constexpr (is_ap<Data>) {
    for (int i = 0; i < Data::width / 32; i++) {
      uint32_t word;
      std::memcpy(&word, bytes + 4 * i, 4);
      data.range(32 * i + 31, 32 * i) = word;
    }
  } else {
    std::memcpy(&data, bytes, sizeof data);
  }
}

template <class Data>
void store(const Data& data, uint8_t* bytes) {
  if constexpr (is_ap<Data>) {
    for (int i = 0; i < Data::width / 32; i++) {
      const uint32_t word = uint32_t(Data(data).range(32 * i + 31, 32 * i).to_uint());
      std::memcpy(bytes + 4 * i, &word, 4);
    }
  } else {
    std::memcpy(bytes, &data, sizeof data);
  }
}

// TKEEP of so many bytes.
inline uint64_t keep_of(size_t bytes) { return bytes < 64 ? (uint64_t(1) << bytes) - 1 : ~0ull; }

template <class In, class Out>
class Server {
 public:
  using Top = void (*)(hls::stream<In>&, hls::stream<Out>&);
  static constexpr int kBits = bits<decltype(In::data)>();
  static constexpr int kBytes = kBits / 8;
  static_assert(kBits == bits<decltype(Out::data)>(),
                "both streams of a top must have the same width");
  static_assert(kBits >= 32 && kBits <= 512 && (kBits & (kBits - 1)) == 0,
                "the streams of a top must have 32, 64, 128, 256 or 512 bit");

  explicit Server(Top top) : top_(top) {}

  std::vector<Bytes> serve(const Bytes& packet) {
    fill(packet);
    const size_t beats = in_.size();
    int call = 0;
    try {
      // As hardware, which starts a top again as soon as it has returned.
      while (!in_.empty()) {
        call++;
        const size_t before = in_.size();
        top_(in_, out_);
        if (in_.size() == before) throw std::runtime_error("the top returns without reading");
        take();
        const std::vector<std::string> left = hls::emulated::Listed::left_over(in_);
        if (!left.empty()) throw std::runtime_error(left.front());
      }
      if (!begun_.empty())
        throw std::runtime_error(
            "the packet has been read, and stream 'm_axis' has no TLAST: a "
            "DMA would receive for ever");
    } catch (const std::exception& error) {
      throw std::runtime_error(std::string(error.what()) + " (in call " + std::to_string(call) +
                               ", beats of the packet: " + std::to_string(beats) + ")");
    }
    return std::exchange(packets_, {});
  }

 private:
  void fill(const Bytes& packet) {
    for (size_t at = 0; at < packet.size(); at += kBytes) {
      const size_t count = std::min<size_t>(kBytes, packet.size() - at);
      uint8_t bytes[kBytes] = {};
      std::memcpy(bytes, &packet[at], count);
      In beat{};
      load(beat.data, bytes);
      if constexpr (has_keep<In>) beat.keep = keep_of(count);
      if constexpr (has_strb<In>) beat.strb = keep_of(count);
      beat.last = at + count == packet.size();
      in_.write(beat);
    }
  }
  // What the top has written, packet by packet.
  void take() {
    while (!out_.empty()) {
      const Out beat = out_.read();
      uint8_t bytes[kBytes];
      store(beat.data, bytes);
      begun_.insert(begun_.end(), bytes, bytes + kept(beat));
      if (beat.last) packets_.push_back(std::exchange(begun_, {}));
    }
  }
  // Bytes of a beat. A DMA takes whole ones, and of the last of a packet its first bytes.
  size_t kept(const Out& beat) const {
    if constexpr (has_keep<Out>) {
      const uint64_t keep = static_cast<uint64_t>(beat.keep);
      const size_t count = size_t(__builtin_popcountll(keep));
      const bool good = beat.last ? count && keep == keep_of(count) : count == kBytes;
      if (!good) {
        char text[160];
        std::snprintf(text, sizeof text,
                      "beat %zu of a packet on stream 'm_axis' has TKEEP 0x%llx and %sTLAST: all "
                      "of a beat must be kept, or in the last one its first bytes (keep = -1)",
                      begun_.size() / kBytes, (unsigned long long)keep, beat.last ? "" : "no ");
        throw std::runtime_error(text);
      }
      return count;
    }
    return kBytes;
  }

  Top top_;
  hls::stream<In> in_{"s_axis"};
  hls::stream<Out> out_{"m_axis"};
  Bytes begun_;
  std::vector<Bytes> packets_;
};

inline void limit_seconds(double seconds) {
  itimerval timer{};
  timer.it_value.tv_sec = time_t(seconds);
  timer.it_value.tv_usec = suseconds_t((seconds - double(time_t(seconds))) * 1e6);
  setitimer(ITIMER_PROF, &timer, nullptr);
}

// The parent's end of the pipes; without it there is nothing left to do.
class Parent {
 public:
  explicit Parent(int answers) : answers_(answers) {}

  // False at the end of the session.
  bool read(Bytes& packet) {
    uint64_t size = 0;
    if (!read_all(&size, sizeof size)) return false;
    packet.resize(size);
    return read_all(packet.data(), size);
  }
  void write(char kind, const void* data, uint64_t size) {
    char head[9] = {kind};
    std::memcpy(head + 1, &size, sizeof size);
    write_all(head, sizeof head);
    write_all(data, size);
  }

 private:
  static bool read_all(void* data, size_t size) {
    return size == 0 || std::fread(data, size, 1, stdin) == 1;
  }
  void write_all(const void* data, size_t size) {
    for (auto* at = static_cast<const char*>(data); size;) {
      const ssize_t count = ::write(answers_, at, size);
      if (count <= 0) _exit(1);
      at += count;
      size -= size_t(count);
    }
  }
  int answers_;
};

// argv: the descriptor that answers go to, and the seconds of CPU time that a packet may take.
template <class In, int DI, class Out, int DO>
int serve(char** argv, void (*top)(hls::stream<In, DI>&, hls::stream<Out, DO>&)) {
  static_assert(DI == 0 && DO == 0, "a port has no depth: hls::stream<beat>&");
  if constexpr (!is_beat<In> || !is_beat<Out>) {
    static_assert(is_beat<In> && is_beat<Out>,
                  "a beat must have data and last, as ap_axiu<W, 0, 0, 0> has: without TLAST a DMA "
                  "never ends");
  } else {
    std::signal(SIGINT, SIG_IGN);  // Ctrl-C is the parent's, which may go on
    Parent parent(std::atoi(argv[1]));
    const double seconds = std::atof(argv[2]);
    Server<In, Out> server(top);
    const int32_t lanes = server.kBits / 32;
    parent.write('L', &lanes, sizeof lanes);
    for (Bytes packet; parent.read(packet);) {
      try {
        limit_seconds(seconds);
        const std::vector<Bytes> answers = server.serve(packet);
        limit_seconds(0);
        std::cout.flush();
        std::fflush(stdout);
        for (const Bytes& answer : answers) parent.write('P', answer.data(), answer.size());
        parent.write('D', nullptr, 0);
      } catch (const std::exception& error) {
        std::cout.flush();
        std::fflush(stdout);
        parent.write('E', error.what(), std::strlen(error.what()));
        break;
      }
    }
  }
  _exit(0);  // streams that are still there are no matter any more
}

template <class Other>
int serve(char**, Other) {
  static_assert(!std::is_same_v<Other, Other>,
                "a top must be void top(hls::stream<beat>& s_axis, hls::stream<beat>& m_axis)");
  return 1;
}

}  // namespace actdma::emulated
