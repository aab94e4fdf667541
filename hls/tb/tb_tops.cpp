// Bench of the synthesisable tops through their AXI ports; Vitis csim and cosim run this same file.
#include <cstdio>
#include <string>

#include "../src/tops.hpp"
#include "golden.hpp"

using golden::Bytes;
constexpr int kBeatBytes = 4 * ACTDMA_LANES;

static void send(Port& port, const Bytes& packet) {
  for (size_t i = 0; i < packet.size(); i += kBeatBytes) {
    actdma::AxiWord<ACTDMA_LANES> word;
    for (int k = 0; k < ACTDMA_LANES; k++)
      word.data.range(32 * k + 31, 32 * k) = golden::get32(packet, i + 4 * k);
    word.keep = ~ap_uint<kBeatBytes>(0);
    word.strb = word.keep;
    word.last = i + kBeatBytes == packet.size();
    port.write(word);
  }
}

// Everything in the port: exactly one packet, TKEEP all ones, one TLAST at its end.
static Bytes receive(Port& port, const char* where) {
  Bytes packet;
  while (!port.empty()) {
    const auto word = port.read();
    golden::check(word.keep == ~ap_uint<kBeatBytes>(0), "TKEEP is not all ones", where);
    golden::check(bool(word.last) == port.empty(), "TLAST is not at the end alone", where);
    for (int k = 0; k < ACTDMA_LANES; k++)
      golden::put32(packet, word.data.range(32 * k + 31, 32 * k).to_uint());
  }
  return packet;
}

static Bytes run(void (*top)(Port&, Port&), const Bytes& packet, const char* where) {
  Port in("in"), out("out");
  send(in, packet);
  top(in, out);
  golden::check(in.empty(), "input left unread", where);
  return receive(out, where);
}

int main() {
  int cases = 0;
  for (uint32_t size : {1u, 63u, 64u, 65u, 4096u, 8191u, 8192u, 8193u, 20000u})
    for (uint32_t element : {1u, 2u, 4u, 8u})
      for (const golden::Coding& coding : golden::codings(element)) {
        const double density = size % 3 * 0.5;
        const std::string where = "size " + std::to_string(size) + ", element " +
                                  std::to_string(element) + ", codec " +
                                  std::to_string(coding.codec);
        const Bytes raw = golden::random_raw(size, element, density, size + element, coding);
        const Bytes head = golden::descriptor(coding.codec, element, size, size, coding.parameter);
        const Bytes frame = run(actdma_compress, golden::request(head, raw), where.c_str());
        golden::check(frame == golden::frame(head, raw), "frame differs", where.c_str());
        const Bytes answer = run(actdma_decompress, frame, where.c_str());
        golden::check(answer == golden::answer(frame, head, raw), "answer differs", where.c_str());
        cases++;
      }
  std::printf("tops, %d lanes: %d cases passed\n", ACTDMA_LANES, cases);
  return 0;
}
