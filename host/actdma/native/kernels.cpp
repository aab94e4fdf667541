#include "kernels.hpp"

#include <atomic>

namespace actdma::native {
namespace {

std::atomic<const Kernels*>& active() {
  static std::atomic<const Kernels*> chosen{available_kernels().back()};
  return chosen;
}

}  // namespace

const std::vector<const Kernels*>& available_kernels() {
  static const std::vector<const Kernels*> sets = [] {
    std::vector<const Kernels*> found;
    for (const Kernels* set :
         {portable_kernels(), neon_kernels(), avx2_kernels(), avx512_kernels()}) {
      if (set) found.push_back(set);
    }
    return found;
  }();
  return sets;
}

const Kernels& active_kernels() { return *active().load(std::memory_order_relaxed); }

bool choose_kernels(const std::string& name) {
  for (const Kernels* set : available_kernels()) {
    if (name == set->name) {
      active().store(set, std::memory_order_relaxed);
      return true;
    }
  }
  return false;
}

}  // namespace actdma::native
