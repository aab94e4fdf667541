// Simulation of a dataflow region without vendor tools: every process is a coroutine with a clock
// of its own, every stream a bounded FIFO whose tokens carry the cycle they become visible. A read
// waits for its token's time, a write for the time its slot was freed, so a process' clock is the
// cycle a pipeline with II=1 and these FIFO depths would have reached, whatever order the
// coroutines ran in (a Kahn process network is deterministic). Nothing here is seen by a synthesis
// tool.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>
#endif

// The address sanitizer wants to know when stacks are swapped, and when memory that was one is used
// anew. (g++ has the macro, clang the feature.)
#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
extern "C" void __sanitizer_start_switch_fiber(void** save, const void* bottom, size_t size);
extern "C" void __sanitizer_finish_switch_fiber(void* save, const void** bottom, size_t* size);
extern "C" void __asan_unpoison_memory_region(const volatile void* address, size_t size);
#else
inline void __sanitizer_start_switch_fiber(void**, const void*, size_t) {}
inline void __sanitizer_finish_switch_fiber(void*, const void**, size_t*) {}
inline void __asan_unpoison_memory_region(const volatile void*, size_t) {}
#endif

namespace actdma::csim {

class Network;
class Process;

// Something a process can wait for.
class Waitable {
 public:
  explicit Waitable(const char* name) : name_(name) {}
  virtual bool can_read() const = 0;
  virtual bool can_write() const = 0;
  const char* name() const { return name_; }

 protected:
  ~Waitable() = default;

 private:
  const char* name_;
};

#if defined(__x86_64__) || defined(__aarch64__)
extern "C" void actdma_csim_switch(void** save, void* load);
#endif

// Memory of a coroutine's stack: pages come when they are touched and go with the process; running
// over its end hits a page that nobody may touch.
class Stack {
 public:
  // A region's FIFOs are locals of its process.
  static constexpr size_t kBytes = 4 << 20;

  Stack() {
    memory_ = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    mprotect(memory_, size_t(sysconf(_SC_PAGESIZE)), PROT_NONE);
  }
  ~Stack() {
    // A coroutine that is dropped has not left its frames.
    __asan_unpoison_memory_region(memory_, kBytes);
    munmap(memory_, kBytes);
  }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;
  char* bottom() const { return static_cast<char*>(memory_); }
  char* top() const { return bottom() + kBytes; }

 private:
  void* memory_;
};

class Process {
 public:
  Process(Network& network, const char* name, std::function<void()> body);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Give up the processor until `what` can be read (or written).
  void wait(const Waitable& what, bool for_data) {
    what_ = &what;
    for_data_ = for_data;
    do leave();
    while (!ready());
    what_ = nullptr;
  }
  // Give up the processor until every child has returned.
  void wait_children() {
    while (std::any_of(children_.begin(), children_.end(), [](Process* p) { return !p->done_; }))
      leave();
    children_.clear();
  }
  bool ready() const { return !what_ || (for_data_ ? what_->can_read() : what_->can_write()); }
  bool done() const { return done_; }
  bool blocked() const { return what_ && !ready(); }
  std::string waits() const {
    return std::string(name_) + (for_data_ ? " waits for data on " : " waits for room on ") +
           what_->name();
  }
  void resume();

  uint64_t now = 0;  // cycle this process has reached
  Network& network;
  std::vector<Process*> children_;

 private:
  friend class Network;
  static void entry(Process* self) {
    __sanitizer_finish_switch_fiber(nullptr, &self->outer_bottom_, &self->outer_bytes_);
    try {
      self->body_();
    } catch (...) {
      self->error_ = std::current_exception();  // no frame below this one could catch it
    }
    self->done_ = true;
    for (;;) self->leave();
  }
  static void trampoline();
  void leave();

  const char* name_;
  std::function<void()> body_;
  Stack stack_;
  std::exception_ptr error_;
  const void* outer_bottom_ = nullptr;  // the scheduler's stack, for the sanitizer
  size_t outer_bytes_ = 0;
  const Waitable* what_ = nullptr;
  bool for_data_ = false;
  bool done_ = false;
#if defined(__x86_64__) || defined(__aarch64__)
  void* self_context_ = nullptr;
  void* scheduler_context_ = nullptr;
#else
  ucontext_t self_context_, scheduler_context_;
#endif
};

// The process that runs on this thread. The TLS model keeps the access to one instruction in a
// shared library.
inline __thread Process* running __attribute__((tls_model("initial-exec"))) = nullptr;
// Not inlined: a compiler may keep the address of thread-local data across a switch, and a network
// may go on in another thread.
#if defined(__aarch64__)
__attribute__((noinline))
#endif
inline Process* current() {
  return running;
}

// A set of processes, run in turn until none can go on.
class Network {
 public:
  // `forever`: processes of a dataflow region start again when they have returned, as a
  // free-running (ap_ctrl_none) region does. `timed`: streams keep time.
  explicit Network(bool forever, bool timed = true) : forever(forever), timed(timed) {}

  Process* spawn(const char* name, std::function<void()> body) {
    processes_.push_back(std::make_unique<Process>(*this, name, std::move(body)));
    return processes_.back().get();
  }
  // Until every process has returned or is blocked. Throws what a process threw.
  void run() {
    for (bool moved = true; moved;) {
      moved = false;
      // By index: a process may spawn others.
      for (size_t i = 0; i < processes_.size(); i++) {
        Process* p = processes_[i].get();
        if (p->done() || p->blocked() || is_parent_waiting(p)) continue;
        p->resume();
        if (p->error_) std::rethrow_exception(std::exchange(p->error_, nullptr));
        moved = true;
      }
    }
  }
  bool finished() const {
    return std::all_of(processes_.begin(), processes_.end(), [](auto& p) { return p->done(); });
  }
  // One line per blocked process: its name and what it waits for.
  std::vector<std::string> waiting() const {
    std::vector<std::string> lines;
    for (auto& p : processes_)
      if (!p->done() && p->blocked()) lines.push_back(p->waits());
    return lines;
  }
  // The latest cycle any process has reached.
  uint64_t now() const {
    uint64_t latest = 0;
    for (auto& p : processes_) latest = std::max(latest, p->now);
    return latest;
  }

  const bool forever;
  const bool timed;

 private:
  static bool is_parent_waiting(const Process* p) {
    return !p->children_.empty() && std::any_of(p->children_.begin(), p->children_.end(),
                                                [](Process* c) { return !c->done(); });
  }
  std::vector<std::unique_ptr<Process>> processes_;
};

#if defined(__x86_64__)
// Saves the callee-saved registers on the running stack, swaps stacks, restores.
__asm__(
    ".text\n.weak actdma_csim_switch\n.type actdma_csim_switch,@function\n"
    "actdma_csim_switch:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
    ".size actdma_csim_switch,.-actdma_csim_switch\n");
#elif defined(__aarch64__)
__asm__(
    ".text\n.weak actdma_csim_switch\n.type actdma_csim_switch,%function\n"
    "actdma_csim_switch:\n"
    "sub sp,sp,#176\n"
    "stp x19,x20,[sp,#0]\nstp x21,x22,[sp,#16]\nstp x23,x24,[sp,#32]\nstp x25,x26,[sp,#48]\n"
    "stp x27,x28,[sp,#64]\nstp x29,x30,[sp,#80]\n"
    "stp d8,d9,[sp,#96]\nstp d10,d11,[sp,#112]\nstp d12,d13,[sp,#128]\nstp d14,d15,[sp,#144]\n"
    "mov x9,sp\nstr x9,[x0]\nmov sp,x1\n"
    "ldp x19,x20,[sp,#0]\nldp x21,x22,[sp,#16]\nldp x23,x24,[sp,#32]\nldp x25,x26,[sp,#48]\n"
    "ldp x27,x28,[sp,#64]\nldp x29,x30,[sp,#80]\n"
    "ldp d8,d9,[sp,#96]\nldp d10,d11,[sp,#112]\nldp d12,d13,[sp,#128]\nldp d14,d15,[sp,#144]\n"
    "add sp,sp,#176\nret\n"
    ".size actdma_csim_switch,.-actdma_csim_switch\n");
#endif

inline void Process::trampoline() { entry(current()); }

inline Process::Process(Network& network, const char* name, std::function<void()> body)
    : network(network), name_(name), body_(std::move(body)) {
#if defined(__x86_64__)
  // As if called: the return address above six saved registers, and an aligned stack at entry.
  void** top = reinterpret_cast<void**>(stack_.top()) - 2;
  *top = reinterpret_cast<void*>(&Process::trampoline);
  self_context_ = top - 6;
#elif defined(__aarch64__)
  char* frame = stack_.top() - 176;
  reinterpret_cast<void**>(frame)[11] = reinterpret_cast<void*>(&Process::trampoline);  // x30
  self_context_ = frame;
#else
  getcontext(&self_context_);
  self_context_.uc_stack.ss_sp = stack_.bottom();
  self_context_.uc_stack.ss_size = Stack::kBytes;
  self_context_.uc_link = nullptr;
  makecontext(&self_context_, &Process::trampoline, 0);
#endif
}

inline void Process::resume() {
  Process* outer = running;
  running = this;
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, stack_.bottom(), Stack::kBytes);
#if defined(__x86_64__) || defined(__aarch64__)
  actdma_csim_switch(&scheduler_context_, self_context_);
#else
  swapcontext(&scheduler_context_, &self_context_);
#endif
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
  running = outer;
}

inline void Process::leave() {
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, outer_bottom_, outer_bytes_);
#if defined(__x86_64__) || defined(__aarch64__)
  actdma_csim_switch(&self_context_, scheduler_context_);
#else
  swapcontext(&self_context_, &scheduler_context_);
#endif
  __sanitizer_finish_switch_fiber(fake, &outer_bottom_, &outer_bytes_);
}

// Start a process of the running dataflow region.
inline void fork(const char* name, std::function<void()> call) {
  Process* parent = current();
  auto body = [call = std::move(call), forever = parent->network.forever] {
    do call();
    while (forever);
  };
  parent->children_.push_back(parent->network.spawn(name, std::move(body)));
}

// Run a top as a simulator calls it: one packet in, one packet out, then it returns. Throws
// std::runtime_error that names every process left waiting.
inline void run_top(std::function<void()> call) {
  Network network(false);
  network.spawn("top", std::move(call));
  network.run();
  if (network.finished()) return;
  std::string message = "deadlock:";
  for (const std::string& line : network.waiting()) message += "\n  " + line;
  throw std::runtime_error(message);
}

// A stream of a top's port, which csim's callers fill beforehand: reading it empty would never end.
class EmptyPort final : public Waitable {
 public:
  explicit EmptyPort(const char* name) : Waitable(name) {}
  bool can_read() const override { return false; }
  bool can_write() const override { return false; }
};

// A bounded stream that keeps time. `DEPTH` is the FIFO's depth in hardware.
template <class T, int DEPTH>
class Stream final : public Waitable {
 public:
  explicit Stream(const char* name) : Waitable(name) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  T read() {
    Process* p = current();
    if (empty()) p->wait(*this, true);
    const uint32_t slot = head_ & (kSlots - 1);
    if (p->network.timed) {
      p->now = std::max(p->now, ready_[slot]);
      freed_[slot] = p->now;
    }
    head_++;
    return ring_[slot];
  }
  void write(const T& token) {
    Process* p = current();
    if (full()) p->wait(*this, false);
    const uint32_t slot = tail_ & (kSlots - 1);
    if (p->network.timed) {
      // The slot was freed at the end of the cycle that read the token DEPTH before this one.
      if (tail_ >= uint32_t(DEPTH))
        p->now = std::max(p->now, freed_[(tail_ - DEPTH) & (kSlots - 1)] + 1);
      ready_[slot] = p->now + 1;
    }
    ring_[slot] = token;
    tail_++;
  }
  bool empty() const { return head_ == tail_; }
  bool full() const { return tail_ - head_ == DEPTH; }
  bool can_read() const override { return !empty(); }
  bool can_write() const override { return !full(); }
  uint32_t size() const { return tail_ - head_; }

 private:
  static constexpr uint32_t slots() {
    uint32_t n = 1;
    while (n < DEPTH) n *= 2;
    return n;
  }
  static constexpr uint32_t kSlots = slots();
  uint32_t head_ = 0, tail_ = 0;
  uint64_t ready_[kSlots] = {}, freed_[kSlots] = {};
  T ring_[kSlots];
};

}  // namespace actdma::csim
