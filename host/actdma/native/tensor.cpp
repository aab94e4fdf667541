#include "tensor.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>

#include "workers.hpp"

namespace actdma::native {
namespace {

// Where frames begin: each is known once the one before has been coded.
class Places {
 public:
  explicit Places(uint8_t* first) : next_(first) {}

  // Waits for the place of frame `number`, and gives the next one its own.
  uint8_t* take(size_t number, size_t bytes) {
    std::unique_lock<std::mutex> locked(mutex_);
    turn_.wait(locked, [&] { return number_ == number; });
    uint8_t* const place = next_;
    next_ += bytes;
    number_++;
    turn_.notify_all();
    return place;
  }

 private:
  std::mutex mutex_;
  std::condition_variable turn_;
  size_t number_ = 0;
  uint8_t* next_;
};

size_t encode(const Kernels& kernels, const RawFrame& frame, uint8_t* out, bool past_caches,
              size_t* set) {
  return encode_frame(kernels, frame.raw, frame.descriptor, out, past_caches, set,
                      frame.blocks ? &*frame.blocks : nullptr);
}

void copy(const Kernels& kernels, uint8_t* to, const uint8_t* from, size_t bytes,
          bool past_caches) {
  if (past_caches) {
    kernels.stream(to, from, bytes);
    kernels.stream_end();
  } else {
    std::memcpy(to, from, bytes);
  }
}

}  // namespace

void encode_frames(const Kernels& kernels, const std::vector<RawFrame>& frames, uint8_t* out,
                   bool past_caches, size_t threads, size_t* lengths, size_t* set) {
  threads = std::min(threads, frames.size());
  std::vector<size_t> sets(frames.size());
  if (threads <= 1) {
    for (size_t i = 0; i < frames.size(); i++) {
      lengths[i] = encode(kernels, frames[i], out, past_caches, &sets[i]);
      out += lengths[i];
    }
  } else {
    size_t bound = 0;
    for (const RawFrame& frame : frames) bound = std::max(bound, frame.bound);
    std::vector<std::unique_ptr<Room>> rooms(threads);
    for (auto& room : rooms) room = std::make_unique<Room>(bound + kEncodeSlack);
    past_caches = past_caches && can_stream(kernels, out);
    Places places(out);
    std::atomic<size_t> next{0}, workers{0};
    run_in(threads, [&] {
      uint8_t* const room = rooms[workers++]->data();
      for (size_t i; (i = next++) < frames.size();) {
        lengths[i] = encode(kernels, frames[i], room, false, &sets[i]);
        copy(kernels, places.take(i, lengths[i]), room, lengths[i], past_caches);
      }
    });
  }
  if (set) *set = std::accumulate(sets.begin(), sets.end(), size_t{0});
}

Status decode_frames(const Kernels& kernels, const std::vector<Packet>& packets, bool past_caches,
                     size_t threads) {
  std::vector<Status> statuses(packets.size(), kGood);
  std::atomic<size_t> next{0};
  run_in(std::min(threads, packets.size()), [&] {
    for (size_t i; (i = next++) < packets.size();) {
      const Packet& packet = packets[i];
      statuses[i] = decode_frame(kernels, packet.data, packet.bytes, packet.out, packet.out_bytes,
                                 past_caches);
    }
  });
  const auto bad = std::find_if(statuses.begin(), statuses.end(), [](Status s) { return s; });
  return bad == statuses.end() ? kGood : *bad;
}

void padded_crcs(const Kernels& kernels, const uint8_t* data, const std::vector<size_t>& borders,
                 size_t threads, uint32_t* crcs) {
  static constexpr uint8_t kZeros[kChunkBytes] = {};
  const size_t parts = borders.size() - 1;
  std::atomic<size_t> next{0};
  run_in(std::min(threads, parts), [&] {
    for (size_t i; (i = next++) < parts;) {
      const size_t bytes = borders[i + 1] - borders[i];
      crcs[i] = kernels.crc32c(0, data + borders[i], bytes);
      crcs[i] = kernels.crc32c(crcs[i], kZeros, padded(bytes) - bytes);
    }
  });
}

}  // namespace actdma::native
