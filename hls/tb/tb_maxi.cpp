// Bench of the tops with memory ports: lengths x element sizes x densities, capacities that are too
// small, packets of no whole number of beats. Vitis csim and cosim run this same file.
#include <cstdio>
#include <cstring>
#include <string>

#include "../src/maxi_tops.hpp"
#include "golden.hpp"

using golden::Bytes;
constexpr size_t kBeatBytes = 4 * ACTDMA_LANES;
constexpr size_t kWords = 4096;  // the ports' depth
constexpr size_t kResultSize = 4 * actdma::kResultWords;
constexpr uint8_t kUntouched = 0xA5;
using Top = void (*)(const Memory*, Memory*, uint32_t, uint32_t);

static Memory in_memory[kWords], out_memory[kWords];

// Under the address sanitizer, the tops may not even read what is behind a packet.
#ifdef __SANITIZE_ADDRESS__
extern "C" void __asan_poison_memory_region(const volatile void* address, size_t size);
#else
static void __asan_poison_memory_region(const volatile void*, size_t) {}
#endif

struct Result {
  uint32_t bytes;
  bool overrun;
  Bytes memory;  // behind the result
};

// One call. Nothing behind the capacity is touched.
static Result run(Top top, const Bytes& packet, size_t capacity, const std::string& where) {
  golden::check(packet.size() <= sizeof in_memory && capacity <= sizeof out_memory - kResultSize,
                "the bench's memory is too small", where.c_str());
  __asan_unpoison_memory_region(in_memory, sizeof in_memory);
  std::memset(in_memory, 0xFF, sizeof in_memory);
  std::memset(out_memory, kUntouched, sizeof out_memory);
  if (!packet.empty()) std::memcpy(in_memory, packet.data(), packet.size());
  __asan_poison_memory_region(reinterpret_cast<char*>(in_memory) + packet.size(),
                              sizeof in_memory - packet.size());
  top(in_memory, out_memory, uint32_t(packet.size()), uint32_t(capacity));
  Bytes bytes(sizeof out_memory);
  std::memcpy(bytes.data(), out_memory, bytes.size());
  Result result = {golden::get32(bytes, 4 * actdma::kResultBytes),
                   golden::get32(bytes, 4 * actdma::kResultOverrun) == 1,
                   Bytes(bytes.begin() + kResultSize, bytes.end())};
  for (size_t i = 8; i < kResultSize; i++)
    golden::check(bytes[i] == 0, "the result has more words than it should", where.c_str());
  const size_t written = result.overrun ? capacity / kBeatBytes * kBeatBytes : result.bytes;
  for (size_t i = written; i < result.memory.size(); i++)
    golden::check(result.memory[i] == kUntouched, "memory behind the answer was written",
                  where.c_str());
  golden::check(result.overrun == (result.bytes > capacity), "overrun is not what the lengths say",
                where.c_str());
  result.memory.resize(written);
  return result;
}

static Bytes answer(Top top, const Bytes& packet, size_t capacity, const std::string& where) {
  const Result result = run(top, packet, capacity, where);
  golden::check(!result.overrun && result.memory.size() == result.bytes, "overrun", where.c_str());
  return result.memory;
}

static int round_trips() {
  int cases = 0;
  for (uint32_t size : {1u, 63u, 64u, 65u, 4096u, 8191u, 8192u, 8193u, 20000u})
    for (uint32_t element : {1u, 2u, 4u, 8u})
      for (double density : {0.0, 0.1, 0.5, 0.9, 1.0}) {
        const std::string where = "size " + std::to_string(size) + ", element " +
                                  std::to_string(element) + ", density " + std::to_string(density);
        const Bytes raw = golden::random_raw(size, element, density, size + element);
        const Bytes head = golden::descriptor(actdma::kCodecZvc, element, size, size);
        // As a driver asks: the bound where the length is not known, the length where it is.
        const Bytes frame = answer(actdma_compress_maxi, golden::request(head, raw),
                                   actdma::frame_bound(size), where);
        golden::check(frame == golden::frame(head, raw), "frame differs", where.c_str());
        const Bytes back = answer(actdma_decompress_maxi, frame, actdma::answer_bytes(size), where);
        golden::check(back == golden::answer(frame, head, raw), "answer differs", where.c_str());
        cases++;
      }
  return cases;
}

// Every capacity around the answer's length and around a burst's: what is there is right, the
// length is that of the whole answer.
static int capacities() {
  int cases = 0;
  const uint32_t size = (actdma::kBurstBeats + 500) * kBeatBytes;
  const Bytes raw = golden::random_raw(size, 4, 1.0, 1);
  const Bytes head = golden::descriptor(actdma::kCodecRaw, 4, 1, size);
  const Bytes request = golden::request(head, raw), frame = golden::frame(head, raw);
  const size_t burst = actdma::kBurstBeats * kBeatBytes;
  for (size_t capacity :
       {size_t(0), size_t(1), kBeatBytes - 1, kBeatBytes, size_t(64), burst - kBeatBytes, burst,
        burst + kBeatBytes, frame.size() - 64, frame.size() - 1, frame.size(), frame.size() + 1,
        2 * burst - kResultSize}) {
    const std::string where = "capacity " + std::to_string(capacity);
    const Result result = run(actdma_compress_maxi, request, capacity, where);
    golden::check(result.bytes == frame.size(), "length of the answer", where.c_str());
    golden::check(std::equal(result.memory.begin(), result.memory.end(), frame.begin()),
                  "what was written differs", where.c_str());
    cases++;
  }
  return cases;
}

// Lengths that no packet has end in a status, and read nothing beyond what was announced.
static int odd_lengths() {
  int cases = 0;
  const Bytes raw = golden::random_raw(1000, 2, 0.5, 3);
  const Bytes head = golden::descriptor(actdma::kCodecZvc, 2, 1, 1000);
  const Bytes frame = golden::frame(head, raw);
  for (Top top : {actdma_compress_maxi, actdma_decompress_maxi})
    for (size_t length :
         {size_t(0), size_t(1), size_t(4), size_t(63), size_t(65), size_t(127), frame.size() - 1}) {
      const std::string where = "length " + std::to_string(length);
      Bytes packet = top == actdma_compress_maxi ? golden::request(head, raw) : frame;
      packet.resize(length);
      const Bytes refusal = answer(top, packet, actdma::frame_bound(1000), where);
      const uint32_t status = golden::get32(refusal, refusal.size() - 60);
      const bool has_descriptor = length >= 64;
      golden::check(status == actdma::kBadLength || (!has_descriptor && status != actdma::kGood),
                    "no status of a wrong length", where.c_str());
      cases++;
    }
  return cases;
}

int main() {
  const int cases = round_trips() + capacities() + odd_lengths();
  std::printf("memory ports, %d lanes: %d cases passed\n", ACTDMA_LANES, cases);
  return 0;
}
