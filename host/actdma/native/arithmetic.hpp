// Floating-point arithmetic as the frame format wants it, whatever the calling thread has set.
#pragma once

#include <cfenv>

namespace actdma::native {

// While this lives: rounding to nearest, denormals not flushed (torch.set_flush_denormal does).
class DefaultArithmetic {
 public:
  DefaultArithmetic() {
    std::fegetenv(&environment_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultArithmetic() { std::fesetenv(&environment_); }
  DefaultArithmetic(const DefaultArithmetic&) = delete;
  DefaultArithmetic& operator=(const DefaultArithmetic&) = delete;

 private:
  std::fenv_t environment_;
};

}  // namespace actdma::native
