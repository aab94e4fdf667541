#include "workers.hpp"

#include <dlfcn.h>

#include <mutex>
#include <utility>

namespace actdma::native {
namespace {

constexpr size_t kMostSpare = 16;

std::mutex& spare_mutex() {
  static std::mutex lock;
  return lock;
}

}  // namespace

Room::Room(size_t bytes) {
  {
    const std::lock_guard<std::mutex> locked(spare_mutex());
    if (!spare().empty()) {
      memory_ = std::move(spare().back());
      spare().pop_back();
    }
  }
  if (memory_.bytes < bytes) memory_ = {std::unique_ptr<uint8_t[]>(new uint8_t[bytes]), bytes};
}

Room::~Room() {
  const std::lock_guard<std::mutex> locked(spare_mutex());
  if (spare().size() < kMostSpare) spare().push_back(std::move(memory_));
}

std::vector<Room::Memory>& Room::spare() {
  static std::vector<Memory> memories = [] {
    std::vector<Memory> room;
    room.reserve(kMostSpare);  // so that giving back cannot fail
    return room;
  }();
  return memories;
}

RunTeam run_team() {
  static const auto run = reinterpret_cast<RunTeam>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
  return run;
}

}  // namespace actdma::native
