// Runs the frames and raw data of a file through every instruction set of this build of the native
// codec: driver VECTORS RESULTS. Built and run by test_native_neon.py, for ARM.
//
// A vector is three words and bytes: kEncode (the bytes are a good descriptor and its raw data) or
// kDecode (they are a packet), the bytes of raw data, the number of bytes. A result is two words
// and bytes: how many elements have a bit set, or the status; the number of bytes; the frame, or
// the data of a good one. There are as many results as vectors and sets; the sets' names, in the
// order of their results, go to the standard output.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "codec.hpp"

namespace {

using namespace actdma;
using namespace actdma::native;

using Bytes = std::vector<uint8_t>;

enum Kind : uint32_t { kEncode, kDecode };

struct Vector {
  uint32_t kind, raw_bytes, bytes;
};

struct Result {
  uint32_t outcome, bytes;
};

Result encode(const Kernels& kernels, const uint8_t* descriptor, const uint8_t* raw, Bytes& out) {
  uint32_t words[kHeaderWords];
  std::memcpy(words, descriptor, kHeaderBytes);
  out.resize(frame_bound(words) + kEncodeSlack);
  size_t set;
  const size_t length = encode_frame(kernels, raw, descriptor, out.data(), false, &set);
  return {static_cast<uint32_t>(set), static_cast<uint32_t>(length)};
}

Result decode(const Kernels& kernels, const uint8_t* packet, const Vector& vector, Bytes& out) {
  out.resize(vector.raw_bytes);
  const Status status =
      decode_frame(kernels, packet, vector.bytes, out.data(), vector.raw_bytes, false);
  return {status, status == kGood ? vector.raw_bytes : 0};
}

void run(const Kernels& kernels, const Bytes& vectors, std::ofstream& results) {
  for (const uint8_t* at = vectors.data(); at != vectors.data() + vectors.size();) {
    Vector vector;
    std::memcpy(&vector, at, sizeof vector);
    at += sizeof vector;
    const Bytes bytes(at, at + vector.bytes);  // of its own, for whoever runs this sanitized
    at += vector.bytes;
    Bytes out;
    const Result result = vector.kind == kEncode
                              ? encode(kernels, bytes.data(), bytes.data() + kHeaderBytes, out)
                              : decode(kernels, bytes.data(), vector, out);
    results.write(reinterpret_cast<const char*>(&result), sizeof result);
    results.write(reinterpret_cast<const char*>(out.data()), result.bytes);
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  std::ifstream file(arguments[1], std::ios::binary);
  const Bytes vectors{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::ofstream results(arguments[2], std::ios::binary);
  for (const Kernels* kernels : available_kernels()) {
    if (!choose_kernels(kernels->name)) return 1;
    run(active_kernels(), vectors, results);
    std::printf("%s\n", kernels->name);
  }
  return results.flush() ? 0 : 1;
}
