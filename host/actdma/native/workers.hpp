// Threads that share a piece of work, and memory to work in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <system_error>
#include <thread>
#include <vector>

namespace actdma::native {

// Memory that is kept for the next one who needs some: the first touch of fresh memory is slow.
// Throws std::bad_alloc where there is none.
class Room {
 public:
  explicit Room(size_t bytes);
  ~Room();
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  uint8_t* data() const { return memory_.data.get(); }

 private:
  struct Memory {
    std::unique_ptr<uint8_t[]> data;
    size_t bytes = 0;
  };
  static std::vector<Memory>& spare();

  Memory memory_;
};

// Of OpenMP's runtime in GCC's libgomp or LLVM's libomp.
using RunTeam = void (*)(void (*work)(void*), void* data, unsigned threads, unsigned flags);

// The OpenMP that PyTorch or another has brought into this process, or null. Its threads spin for a
// while after each of their tasks, and would be in the way of others than themselves.
RunTeam run_team();

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

}  // namespace actdma::native
