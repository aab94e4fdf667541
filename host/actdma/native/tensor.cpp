#include "tensor.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <system_error>
#include <thread>

namespace actdma::native {
namespace {

// Memory that is kept for the next one who needs some: the first touch of fresh memory is slow.
class Room {
 public:
  explicit Room(size_t bytes) {
    {
      const std::lock_guard<std::mutex> locked(mutex());
      if (!spare().empty()) {
        memory_ = std::move(spare().back());
        spare().pop_back();
      }
    }
    if (memory_.bytes < bytes) memory_ = {std::unique_ptr<uint8_t[]>(new uint8_t[bytes]), bytes};
  }
  ~Room() {
    const std::lock_guard<std::mutex> locked(mutex());
    if (spare().size() < kMostSpare) spare().push_back(std::move(memory_));
  }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  uint8_t* data() const { return memory_.data.get(); }

 private:
  struct Memory {
    std::unique_ptr<uint8_t[]> data;
    size_t bytes = 0;
  };
  static constexpr size_t kMostSpare = 16;

  static std::vector<Memory>& spare() {
    static std::vector<Memory> memories = [] {
      std::vector<Memory> room;
      room.reserve(kMostSpare);  // so that giving back cannot fail
      return room;
    }();
    return memories;
  }
  static std::mutex& mutex() {
    static std::mutex lock;
    return lock;
  }

  Memory memory_;
};

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

// Of OpenMP's runtime in GCC's libgomp or LLVM's libomp.
using RunTeam = void (*)(void (*work)(void*), void* data, unsigned threads, unsigned flags);

// The OpenMP that PyTorch or another has brought into this process, if there is one. Its threads
// spin for a while after each of their tasks, and would be in the way of others than themselves.
RunTeam run_team() {
  static const auto run = reinterpret_cast<RunTeam>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
  return run;
}

// Runs `work` in `threads` threads, one of them this.
template <class Work>
void run_in(size_t threads, Work work) {
  if (threads <= 1) return work();
  if (const RunTeam run = run_team()) {
    return run([](void* w) { (*static_cast<Work*>(w))(); }, &work, static_cast<unsigned>(threads),
               0);
  }
  std::vector<std::thread> others;
  try {
    while (others.size() + 1 < threads) others.emplace_back(work);
  } catch (const std::system_error&) {  // there are no more to be had
  }
  work();
  for (std::thread& other : others) other.join();
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
      lengths[i] =
          encode_frame(kernels, frames[i].raw, frames[i].descriptor, out, past_caches, &sets[i]);
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
        lengths[i] =
            encode_frame(kernels, frames[i].raw, frames[i].descriptor, room, false, &sets[i]);
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
