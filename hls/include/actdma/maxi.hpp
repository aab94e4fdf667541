// The engines between two AXI4 memory ports, as Vitis kernels are built: burst in -> engine ->
// burst out. No vendor types: a word of memory is a struct of lanes, which Vitis HLS aggregates
// into one wide port (UG1399, Structs on the Interface).
#pragma once

#include "axis.hpp"
#include "engine.hpp"

namespace actdma {

template <int L>
struct MemoryWord {
  uint32_t w[L];
};

// What the output buffer begins with; the answer follows, 64-byte aligned.
constexpr int kResultWords = 16;
enum ResultWord : int {
  kResultBytes = 0,    // length of the answer, also of what did not fit
  kResultOverrun = 1,  // 1: the answer is longer than the capacity, and cut off there
};

// Beats of one write burst, which the port's adapter cuts into bursts of AXI4. Its length must be
// known when it begins, so it is gathered first, and its end waits for the memory's response: the
// longer the cheaper. Two of them lie in the FIFO between.
constexpr uint32_t kBurstBeats = 2048;

// Cycles from an address to the first beat read, and from a burst's end to its response: what
// csim counts, and what the tops' ports ask Vitis HLS to plan for (its default, UG1399).
constexpr uint32_t kMemoryLatency = 64;

// A burst to write, and with the last one what the answer came to.
struct Burst {
  uint32_t beats;
  uint32_t answer_bytes;
  bool overrun;
  bool last;
};

// Reads `bytes` bytes, never one beyond. What is no whole number of beats, or nothing, ends in a
// beat with TKEEP down, which the engine answers with a status: every call comes to an end.
template <int L>
void read_bursts(const MemoryWord<L>* memory, uint32_t bytes, AxiStream<L>& out) {
  const uint32_t beats = bytes / (4 * L);
  const bool whole = beats > 0 && bytes % (4 * L) == 0;
  stall(kMemoryLatency);
  for (uint32_t i = 0; i < beats; i++) {
#pragma HLS PIPELINE II = 1
#pragma HLS LOOP_TRIPCOUNT min = 1 max = 16777216
    cycle();
    const MemoryWord<L> word = memory[i];
    out.write(make_beat<L>(word.w, whole && i == beats - 1));
  }
  if (!whole) {
    AxiBeat<L> broken = {};
    broken.last = true;
    out.write(broken);
  }
}

// Lets pass what the capacity has room for, counts the rest, and announces a burst when it is
// whole.
template <int L>
struct Gather {
  uint32_t room;       // beats that may still be written
  uint32_t beats = 0;  // of the burst so far
  uint32_t total = 0;  // of the answer
  bool overrun = false;
  bool ended = false;

  void step(const AxiBeat<L>& in, MemoryWord<L>& word, bool& word_valid, Burst& burst,
            bool& burst_valid) {
#pragma HLS INLINE
    for (int i = 0; i < L; i++) {
#pragma HLS UNROLL
      word.w[i] = in.w[i];
    }
    word_valid = room > 0;
    overrun = overrun || room == 0;
    total++;
    if (word_valid) {
      room--;
      beats++;
    }
    burst_valid = in.last || beats == kBurstBeats;
    burst.beats = beats;
    burst.answer_bytes = total * (4 * L);
    burst.overrun = overrun;
    burst.last = in.last;
    if (burst_valid) beats = 0;
    ended = in.last;
  }
};

template <int L>
using BurstDataStream = Stream<MemoryWord<L>, 2 * kBurstBeats>;

template <int L>
void gather(AxiStream<L>& in, uint32_t capacity, BurstDataStream<L>& data,
            Stream<Burst, 2>& bursts) {
  Gather<L> state;
  state.room = capacity / (4 * L);
  while (!state.ended) {
#pragma HLS PIPELINE II = 1
#pragma HLS LOOP_TRIPCOUNT min = 1 max = 16777216
    cycle();
    MemoryWord<L> word;
    Burst burst;
    bool word_valid, burst_valid;
    state.step(in.read(), word, word_valid, burst, burst_valid);
    if (word_valid) data.write(word);
    if (burst_valid) bursts.write(burst);
  }
}

// Writes the bursts behind the result, and the result when all of them are in memory.
template <int L>
void write_bursts(BurstDataStream<L>& data, Stream<Burst, 2>& bursts, MemoryWord<L>* memory) {
  uint32_t at = kResultWords / L;
  Burst burst;
  do {
#pragma HLS LOOP_TRIPCOUNT min = 1 max = 8192
    burst = bursts.read();
    for (uint32_t i = 0; i < burst.beats; i++) {
#pragma HLS PIPELINE II = 1
#pragma HLS LOOP_TRIPCOUNT min = 0 max = 2048
      cycle();
      memory[at + i] = data.read();
    }
    stall(kMemoryLatency);
    at += burst.beats;
  } while (!burst.last);
  for (int i = 0; i < kResultWords / L; i++) {
#pragma HLS PIPELINE II = 1
    cycle();
    MemoryWord<L> word;
    for (int k = 0; k < L; k++) {
#pragma HLS UNROLL
      const int n = i * L + k;
      word.w[k] = n == kResultBytes     ? burst.answer_bytes
                  : n == kResultOverrun ? uint32_t(burst.overrun)
                                        : 0;
    }
    memory[i] = word;
  }
  stall(kMemoryLatency);
}

// `packet`: of `packet_bytes`; `answer`: room for the result and `capacity` bytes of answer.
template <int L>
void compress_maxi(const MemoryWord<L>* packet, MemoryWord<L>* answer, uint32_t packet_bytes,
                   uint32_t capacity) {
#pragma HLS INLINE
  AxiStream<L> from("read_bursts"), to("gather");
  BurstDataStream<L> data("burst data");
  Stream<Burst, 2> bursts("bursts");
  ACTDMA_PROCESS(read_bursts<L>(packet, packet_bytes, from));
  ACTDMA_PROCESS(compress_engine<L>(from, to));
  ACTDMA_PROCESS(gather<L>(to, capacity, data, bursts));
  ACTDMA_PROCESS(write_bursts<L>(data, bursts, answer));
  ACTDMA_REGION_END();
}

template <int L>
void decompress_maxi(const MemoryWord<L>* packet, MemoryWord<L>* answer, uint32_t packet_bytes,
                     uint32_t capacity) {
#pragma HLS INLINE
  AxiStream<L> from("read_bursts"), to("gather");
  BurstDataStream<L> data("burst data");
  Stream<Burst, 2> bursts("bursts");
  ACTDMA_PROCESS(read_bursts<L>(packet, packet_bytes, from));
  ACTDMA_PROCESS(decompress_engine<L>(from, to));
  ACTDMA_PROCESS(gather<L>(to, capacity, data, bursts));
  ACTDMA_PROCESS(write_bursts<L>(data, bursts, answer));
  ACTDMA_REGION_END();
}

}  // namespace actdma
