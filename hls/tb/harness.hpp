// What the benches of the engines share: a source and a sink around an engine, and their patterns.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "actdma/engine.hpp"
#include "golden.hpp"

using actdma::AxiBeat;
using actdma::AxiStream;
using golden::Bytes;

// Cycles of pause before a beat.
using Pattern = std::function<int(int)>;
struct Named {
  const char* name;
  Pattern pause;
};
inline const Named kPatterns[] = {
    {"always", [](int) { return 0; }},
    {"every other", [](int) { return 1; }},
    {"bursts", [](int i) { return i % 37 == 0 ? 23 : 0; }},
    {"irregular", [](int i) { return (i * 2654435761u >> 28) % 3; }},
};

struct Result {
  std::vector<Bytes> packets;
  uint64_t cycles;
};

// Runs `packets` through the engine back to back until everything is still. Fails on a stuck
// process, data left in a stream, TKEEP not all ones, or other than one answer for a packet.
template <int L>
Result run(bool compress, const std::vector<Bytes>& packets, const Pattern& idle,
           const Pattern& pressure, const std::string& where) {
  AxiStream<L> in("AXI input"), out("AXI output");
  actdma::csim::Network network(true);
  Result result = {{}, 0};
  bool sent = false;
  network.spawn("source", [&] {
    int beats = 0;
    for (const Bytes& packet : packets)
      for (size_t i = 0; i < packet.size(); i += 4 * L) {
        AxiBeat<L> beat;
        for (int k = 0; k < L; k++) beat.w[k] = golden::get32(packet, i + 4 * k);
        beat.keep = true;
        beat.last = i + 4 * L == packet.size();
        actdma::csim::current()->now += 1 + idle(beats++);
        in.write(beat);
      }
    sent = true;
  });
  network.spawn("engine", [&] {
    if (compress)
      actdma::compress_engine<L>(in, out);
    else
      actdma::decompress_engine<L>(in, out);
  });
  Bytes packet;  // not the sink's own: a process that is still waiting at the end is not unwound
  network.spawn("sink", [&] {
    for (int beats = 0;;) {
      actdma::csim::current()->now += 1 + pressure(beats++);
      const AxiBeat<L> beat = out.read();
      golden::check(beat.keep, "TKEEP is not all ones", where.c_str());
      for (int k = 0; k < L; k++) golden::put32(packet, beat.w[k]);
      if (!beat.last) continue;
      result.packets.push_back(packet);
      result.cycles = actdma::csim::current()->now;
      packet.clear();
    }
  });
  network.run();
  for (const std::string& line : network.waiting()) {
    const bool idle_wait = line.find("waits for data on") != std::string::npos;
    golden::check(idle_wait, line.c_str(), where.c_str());
  }
  golden::check(sent && in.empty() && out.empty(), "data left in a stream", where.c_str());
  golden::check(result.packets.size() == packets.size(), "not one answer for each packet",
                where.c_str());
  return result;
}

inline uint32_t status(const Bytes& answer) { return golden::get32(answer, answer.size() - 60); }

inline Bytes reseal(Bytes descriptor) {
  descriptor.resize(60);
  golden::put32(descriptor, golden::crc(descriptor));
  return descriptor;
}
