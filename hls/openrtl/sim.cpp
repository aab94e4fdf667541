// A Verilated engine between a source and a sink that stand for the AXI DMA's stream side, behind
// plain C functions. ACTDMA_TOP is Verilator's class, ACTDMA_LANES the width; with ACTDMA_CHECK
// everything stops at random and streams tell what they take (fifo.v).
#include <verilated.h>

#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#ifdef ACTDMA_CHECK
#include <svdpi.h>
#endif

#define ACTDMA_STRING(x) #x
#define ACTDMA_HEADER(top) ACTDMA_STRING(top.h)
#include ACTDMA_HEADER(ACTDMA_TOP)

namespace {

constexpr int kBytes = 4 * ACTDMA_LANES;
constexpr int kQuiet = ACTDMA_QUIET;  // cycles without a move after which nothing moves any more

struct Random {
  uint64_t state;
  uint32_t next() {  // xorshift*, Marsaglia 2003
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return uint32_t(state * 2685821657736338717ull >> 32);
  }
  // True in `of_256` of 256 cases.
  bool hits(uint32_t of_256) { return next() % 256 < of_256; }
};

// One armed transfer, from the host's side.
struct Transfer {
  uint8_t* data = nullptr;
  size_t size = 0;
  size_t moved = 0;
  bool armed = false;
  void arm(uint8_t* bytes, size_t count) {
    data = bytes;
    size = count;
    moved = 0;
    armed = true;
  }
};

// Ports narrower than 65 bits are integers, wider ones arrays of words.
template <class T>
uint8_t* bytes_of(T& port) {
  return reinterpret_cast<uint8_t*>(&port);
}

struct Engine {
  std::unique_ptr<VerilatedContext> context = std::make_unique<VerilatedContext>();
  std::unique_ptr<ACTDMA_TOP> top;
  Transfer mm2s, s2mm;
  bool overrun = false;
  uint64_t now = 0, cycles = 0;
  std::deque<uint64_t> starts;  // when the packets under way entered the engine
  Random random{1};
  uint32_t stops = 0;  // of 256, how often a stream or port stands still
  bool begun = false;  // the packet being sent has entered
  std::string error;
#ifdef ACTDMA_CHECK
  std::vector<uint32_t> tokens;  // channel and 64 words, one after the other
#endif

  explicit Engine(uint64_t seed, uint32_t stops) : random{seed * 2 + 1}, stops(stops) {
    top = std::make_unique<ACTDMA_TOP>(context.get(), "");
    reset();
  }
  ~Engine() { top->final(); }

  void reset() {
    mm2s = s2mm = {};
    starts.clear();
    begun = overrun = false;
    top->rst = 1;
    top->s_axis_tvalid = top->m_axis_tready = 0;
    clock();
    clock();
    top->rst = 0;
  }
  void run();

 private:
  void clock() {
    top->clk = 1;
    top->eval();
    top->clk = 0;
    top->eval();
    now++;
  }
  void drive(bool valid);
  void deliver();
};

thread_local Engine* running = nullptr;

void Engine::drive(bool valid) {
  top->s_axis_tvalid = valid;
  if (!valid) return;
  const size_t left = mm2s.size - mm2s.moved, count = left < kBytes ? left : kBytes;
  uint8_t* data = bytes_of(top->s_axis_tdata);
  std::memset(data, 0, kBytes);
  std::memcpy(data, mm2s.data + mm2s.moved, count);
  std::memset(bytes_of(top->s_axis_tkeep), 0, sizeof(top->s_axis_tkeep));
  for (size_t i = 0; i < count; i++) bytes_of(top->s_axis_tkeep)[i / 8] |= uint8_t(1u << i % 8);
  top->s_axis_tlast = left <= kBytes;
}

// What a beat that the sink takes does.
void Engine::deliver() {
  const bool kept = bytes_of(top->m_axis_tkeep)[0] & 1;
  if (kept && s2mm.moved + kBytes > s2mm.size) {
    overrun = true;
    s2mm.armed = false;
    return;
  }
  if (kept) {
    std::memcpy(s2mm.data + s2mm.moved, bytes_of(top->m_axis_tdata), kBytes);
    s2mm.moved += kBytes;
  }
  if (top->m_axis_tlast) {
    cycles = now + 1 - starts.front();
    starts.pop_front();
    s2mm.armed = false;
  }
}

// Until nothing can move any more.
void Engine::run() {
  running = this;
  bool offered = false;        // a beat stands at the engine's input and must stay
  std::vector<uint8_t> shown;  // a beat that stood at its output and must have stayed
  for (int quiet = 0; quiet < kQuiet;) {
    const bool valid = mm2s.armed && (offered || !random.hits(stops));
    drive(valid);
    top->m_axis_tready = s2mm.armed && !random.hits(stops);
    top->eval();
    const bool sends = valid && top->s_axis_tready;
    const bool receives = top->m_axis_tready && top->m_axis_tvalid;
    const bool moved = top->active || sends || receives;
    if (!shown.empty() && (!top->m_axis_tvalid ||
                           std::memcmp(shown.data(), bytes_of(top->m_axis_tdata), kBytes) != 0 ||
                           shown[kBytes] != top->m_axis_tlast)) {
      error = "the engine took back a beat that it offered";
      return;
    }
    shown.clear();
    if (top->m_axis_tvalid && !receives) {
      shown.assign(bytes_of(top->m_axis_tdata), bytes_of(top->m_axis_tdata) + kBytes);
      shown.push_back(top->m_axis_tlast);
    }
    offered = valid && !sends;
    if (valid && !begun) starts.push_back(now);
    if (valid) begun = true;
    if (receives) deliver();
    clock();
    if (sends) {
      mm2s.moved = mm2s.moved + kBytes < mm2s.size ? mm2s.moved + kBytes : mm2s.size;
      mm2s.armed = begun = mm2s.moved < mm2s.size;
    }
    quiet = moved ? 0 : quiet + 1;
  }
}

}  // namespace

#ifdef ACTDMA_CHECK
extern "C" int actdma_hold() {
  if (!running) return 0;
  return running->random.hits(running->stops) | running->random.hits(running->stops) << 1;
}
extern "C" void actdma_token(int channel, const svBitVecVal* data) {
  if (!running) return;
  running->tokens.push_back(uint32_t(channel));
  running->tokens.insert(running->tokens.end(), data, data + 64);
}
#endif

extern "C" {

Engine* actdma_new(uint64_t seed, uint32_t stops) { return new Engine(seed, stops); }
void actdma_delete(Engine* e) { delete e; }
void actdma_reset(Engine* e) { e->reset(); }
void actdma_drop(Engine* e) {
  e->mm2s = e->s2mm = {};
  e->begun = false;
}
void actdma_send(Engine* e, uint8_t* data, size_t size) { e->mm2s.arm(data, size); }
void actdma_receive(Engine* e, uint8_t* data, size_t size) {
  e->overrun = false;
  e->s2mm.arm(data, size);
}
const char* actdma_run(Engine* e) {
  e->run();
  return e->error.c_str();
}
int actdma_sending(Engine* e) { return e->mm2s.armed; }
int actdma_receiving(Engine* e) { return e->s2mm.armed; }
int actdma_overrun(Engine* e) { return e->overrun; }
uint64_t actdma_sent(Engine* e) { return e->mm2s.moved; }
uint64_t actdma_received(Engine* e) { return e->s2mm.moved; }
uint64_t actdma_cycles(Engine* e) { return e->cycles; }
int actdma_lacks(Engine* e, int bit) { return bytes_of(e->top->lacks)[bit / 8] >> bit % 8 & 1; }
#ifdef ACTDMA_CHECK
const uint32_t* actdma_tokens(Engine* e, size_t* words) {
  *words = e->tokens.size();
  return e->tokens.data();
}
void actdma_forget(Engine* e) { e->tokens.clear(); }
#endif
}
