// Runs an engine's C++ on packets and writes down every token of every stream: what its Verilog is
// held to.
//
//   record (compress | decompress) PACKETS TOKENS
//
// PACKETS: per packet its length in 32 bits, then its bytes. TOKENS: per token its stream's number
// and its bytes in 32 bits each, then itself.
#include <cstdlib>

#include "actdma/engine.hpp"

using namespace actdma;

namespace {

constexpr int L = ACTDMA_LANES;

void run(bool compress, const uint8_t* data, uint32_t size) {
  AxiStream<L> in, out;
  for (uint32_t at = 0; at < size; at += 4 * L) {
    const uint32_t bytes = size - at < 4 * L ? size - at : 4 * L;
    AxiBeat<L> beat = {};
    std::memcpy(beat.w, data + at, bytes);
    beat.keep = bytes == 4 * L;
    beat.last = at + bytes == size;
    in.write(beat);
  }
  record::streams = 0;
  if (compress)
    compress_engine<L>(in, out);
  else
    decompress_engine<L>(in, out);
}

}  // namespace

int main(int, char** argv) {
  std::FILE* packets = std::fopen(argv[2], "rb");
  record::file = std::fopen(argv[3], "wb");
  if (!packets || !record::file) return 1;
  const bool compress = std::strcmp(argv[1], "compress") == 0;
  uint32_t size;
  while (std::fread(&size, 4, 1, packets) == 1) {
    uint8_t* data = static_cast<uint8_t*>(std::malloc(size));
    if (std::fread(data, 1, size, packets) != size) return 1;
    run(compress, data, size);
    std::free(data);
  }
  return std::fclose(record::file);
}
