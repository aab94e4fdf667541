// An engine in csim that takes one packet after the other, as the one in fabric does.
#pragma once

#include "actdma/engine.hpp"
#include "target.hpp"

namespace actdma::fuzz {

// What an engine has answered: `bytes` are only the first ones where there are more than `size`.
struct Answer {
  Bytes bytes;
  uint32_t trailer[kHeaderWords];
  size_t size;

  Status status() const { return static_cast<Status>(trailer[kTrailStatus]); }
};

class Engine {
 public:
  static constexpr int L = ACTDMA_LANES;

  explicit Engine(bool compress) {
    network_.spawn("source", [this] { feed(); });
    network_.spawn("engine", [this, compress] {
      if (compress)
        compress_engine<L>(in_, out_);
      else
        decompress_engine<L>(in_, out_);
    });
    network_.spawn("sink", [this] { drain(); });
  }

  // The answer to a packet of at least one byte: exactly one, and nothing is left on the way.
  const Answer& exchange(const uint8_t* packet, size_t size) {
    packet_ = packet;
    size_ = size;
    moved_ = 0;
    answers_ = 0;
    answer_.bytes.clear();
    answer_.size = 0;
    network_.run();
    check(moved_ == size_, "the packet is not taken", uint32_t(moved_), uint32_t(size_));
    check(answers_ == 1, "not one answer to a packet", answers_);
    check(in_.empty() && out_.empty(), "data left in a stream");
    check(answer_.size >= sizeof answer_.trailer && answer_.size % 64 == 0, "the answer's length",
          uint32_t(answer_.size));
    check(answer_.trailer[kTrailMagic] == kTrailerMagic, "no trailer");
    if (answer_.bytes.size() == answer_.size) {
      const uint32_t crc =
          native::portable_kernels()->crc32c(0, answer_.bytes.data(), answer_.size - 4);
      check(crc == answer_.trailer[kTrailCrc], "CRC of the answer");
    }
    return answer_;
  }

 private:
  // A packet to be sent.
  struct Armed final : csim::Waitable {
    explicit Armed(const Engine& engine) : Waitable("packet"), engine(engine) {}
    bool can_read() const override { return engine.moved_ < engine.size_; }
    bool can_write() const override { return true; }
    const Engine& engine;
  };

  void feed() {
    for (;;) {
      if (!armed_.can_read()) csim::current()->wait(armed_, true);
      AxiBeat<L> beat = {};
      const size_t bytes = std::min<size_t>(4 * L, size_ - moved_);
      std::memcpy(beat.w, packet_ + moved_, bytes);
      beat.keep = bytes == 4 * L;
      beat.last = moved_ + bytes == size_;
      in_.write(beat);
      moved_ += bytes;
    }
  }
  void drain() {
    for (;;) {
      const AxiBeat<L> beat = out_.read();
      check(beat.keep, "TKEEP is not all ones");
      // The last 64 bytes that have come.
      std::memmove(answer_.trailer, answer_.trailer + L, sizeof answer_.trailer - sizeof beat.w);
      std::memcpy(answer_.trailer + kHeaderWords - L, beat.w, sizeof beat.w);
      const auto* const bytes = reinterpret_cast<const uint8_t*>(beat.w);
      if (answer_.size < kMostRaw + 4096)
        answer_.bytes.insert(answer_.bytes.end(), bytes, bytes + sizeof beat.w);
      answer_.size += sizeof beat.w;
      answers_ += beat.last;
    }
  }

  csim::Network network_{true, false};
  AxiStream<L> in_{"AXI input"}, out_{"AXI output"};
  Armed armed_{*this};
  const uint8_t* packet_ = nullptr;
  size_t size_ = 0, moved_ = 0;
  uint32_t answers_ = 0;
  Answer answer_;
};

}  // namespace actdma::fuzz
