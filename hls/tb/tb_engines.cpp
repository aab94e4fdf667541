// Bench of both engines at every width: lengths x densities x element sizes x idle patterns x
// back-pressure patterns, frames back to back, early and late TLAST, hostile descriptors, cycle
// counts.
#include <cstdio>
#include <string>

#include "golden.hpp"
#include "golden_bsr.hpp"
#include "golden_pool.hpp"
#include "harness.hpp"

using golden::Bytes;

// Back to back, a frame of every codec and length.
struct Vectors {
  std::vector<Bytes> requests, frames, answers;

  // A frame of zvc.
  void add_block(uint32_t seed) {
    const Bytes raw = golden::random_raw(1000, 4, 0.5, seed);
    const Bytes head = golden::descriptor(actdma::kCodecZvc, 4, seed, 1000);
    requests.push_back(golden::request(head, raw));
    frames.push_back(golden::frame(head, raw));
    answers.push_back(golden::answer(frames.back(), head, raw));
  }
};

static Vectors vectors(uint32_t element, double density) {
  Vectors v;
  for (uint32_t size : {1, 4, 63, 64, 65, 1000, 8191, 8192, 8193, 16384, 24640})
    for (const golden::Coding& coding : golden::codings(element)) {
      const Bytes raw = golden::random_raw(size, element, density, size, coding);
      const Bytes head = golden::descriptor(coding.codec, element, size, size, coding.parameter);
      v.requests.push_back(golden::request(head, raw));
      v.frames.push_back(golden::frame(head, raw));
      v.answers.push_back(golden::answer(v.frames.back(), head, raw));
    }
  return v;
}

template <int L>
int back_to_back(const Vectors& v, const std::string& what) {
  int cases = 0;
  for (const Named& idle : kPatterns)
    for (const Named& pressure : kPatterns) {
      const std::string where = std::to_string(L) + " lanes, " + what + ", idle " + idle.name +
                                ", back-pressure " + pressure.name;
      const auto frames = run<L>(true, v.requests, idle.pause, pressure.pause, where).packets;
      golden::check(frames == v.frames, "frame differs", where.c_str());
      const auto answers = run<L>(false, v.frames, idle.pause, pressure.pause, where).packets;
      golden::check(answers == v.answers, "answer differs", where.c_str());
      cases += int(v.requests.size());
    }
  return cases;
}

template <int L>
int lossless() {
  int cases = 0;
  for (uint32_t element : {1u, 2u, 4u, 8u})
    for (double density : {0.0, 0.05, 0.5, 0.95, 1.0})
      cases +=
          back_to_back<L>(vectors(element, density), "element " + std::to_string(element) +
                                                         ", density " + std::to_string(density));
  return cases;
}

// Every codec, element size and density at 1 MiB: beats of raw data per cycle.
template <int L>
int rates() {
  int cases = 0;
  const uint32_t size = 1 << 20;
  const Pattern& none = kPatterns[0].pause;
  for (uint32_t element : {1u, 2u, 4u, 8u})
    for (double density : {0.0, 0.1, 0.5, 0.9, 1.0})
      for (const golden::Coding& coding : golden::codings(element)) {
        const std::string where =
            std::to_string(L) + " lanes, codec " + std::to_string(coding.codec) + ", element " +
            std::to_string(element) + ", density " + std::to_string(density) + ", spread " +
            std::to_string(coding.spread) + ", runs of " + std::to_string(coding.run);
        const Bytes raw = golden::random_raw(size, element, density, 1, coding);
        const Bytes head = golden::descriptor(coding.codec, element, 0, size, coding.parameter);
        const Result there = run<L>(true, {golden::request(head, raw)}, none, none, where);
        const Result back = run<L>(false, there.packets, none, none, where);
        const double beats = size / (4.0 * L);
        std::printf("  %s: %.3f beats/cycle compressing, %.3f decompressing (modelled)\n",
                    where.c_str(), beats / there.cycles, beats / back.cycles);
        golden::check(beats / there.cycles >= 0.95 && beats / back.cycles >= 0.95,
                      "below 0.95 beats per cycle", where.c_str());
        cases++;
      }
  return cases;
}

struct Hostile {
  const char* name;
  Bytes packet;
  uint32_t expected;
};

static std::vector<Hostile> hostile_requests() {
  const Bytes raw = golden::random_raw(9000, 4, 0.5, 7);
  const Bytes head = golden::descriptor(actdma::kCodecZvc, 4, 5, 9000);
  auto with = [&](int at, uint8_t value) {
    Bytes d = head;
    d[at] = value;
    return golden::request(reseal(d), raw);
  };
  auto coded = [&](uint32_t codec, uint32_t element, uint32_t parameter) {
    return golden::request(golden::descriptor(codec, element, 5, 9000, parameter), raw);
  };
  Bytes damaged = golden::request(head, raw), early = damaged, late = damaged, only = head;
  damaged[20] ^= 1;
  early.resize(early.size() - 64);
  late.resize(late.size() + 64);
  return {{"magic", with(0, 'X'), actdma::kBadMagic},
          {"descriptor CRC", damaged, actdma::kBadDescriptorCrc},
          {"version", with(4, 2), actdma::kBadVersion},
          {"operation", with(5, 9), actdma::kBadOperation},
          {"codec", with(6, 31), actdma::kBadCodec},
          {"codec above 31", with(6, 33), actdma::kBadCodec},
          {"element", with(7, 3), actdma::kBadElement},
          {"flag", with(12, 3), actdma::kBadReserved},
          {"parameter", with(24, 1), actdma::kBadReserved},
          {"parameter 0 of ints", coded(actdma::kCodecInts, 4, 2), actdma::kBadReserved},
          {"exponent bits", coded(actdma::kCodecZve, 4, 5), actdma::kBadReserved},
          {"element of zve", coded(actdma::kCodecZve, 8, 8), actdma::kBadElement},
          {"raw bytes", with(19, 0xFF), actdma::kBadRawBytes},
          {"raw bytes, high word", with(20, 1), actdma::kBadRawBytes},
          {"early TLAST", early, actdma::kBadLength},
          {"late TLAST", late, actdma::kBadLength},
          {"descriptor alone", only, actdma::kBadLength}};
}

static std::vector<Hostile> hostile_frames() {
  const Bytes head = golden::descriptor(actdma::kCodecZvc, 4, 5, 9000);
  const Bytes frame = golden::frame(head, golden::random_raw(9000, 4, 0.5, 7));
  std::vector<Hostile> list;
  for (Hostile& h : hostile_requests())
    if (h.expected < actdma::kBadBlock) list.push_back(h);
  auto damaged = [&](size_t at) {
    Bytes f = frame;
    f[at] ^= 1;
    return f;
  };
  Bytes early = frame, late = frame, only = head;
  early.resize(early.size() - 64);
  late.insert(late.end(), 64, 0);
  list.push_back({"block mode", damaged(64), actdma::kBadBlock});
  list.push_back({"mask", damaged(64 + 5), actdma::kBadBlock});
  list.push_back({"data", damaged(64 + 4 + 256 + 100), actdma::kBadFrameCrc});
  list.push_back({"trailer", damaged(frame.size() - 64), actdma::kBadTrailer});
  list.push_back({"frame CRC", damaged(frame.size() - 1), actdma::kBadFrameCrc});
  list.push_back({"early TLAST", early, actdma::kBadLength});
  list.push_back({"late TLAST", late, actdma::kBadLength});
  list.push_back({"descriptor alone", only, actdma::kBadLength});
  const Bytes packed = golden::frame(golden::descriptor(actdma::kCodecZve, 4, 5, 9000, 8),
                                     golden::random_raw(9000, 4, 0.5, 7, 3));
  auto with = [&](size_t at, uint8_t value) {
    Bytes f = packed;
    f[at] ^= value;
    return f;
  };
  const size_t headers = 64 + 4 + 256;  // after the first block's W0 and mask plane
  list.push_back({"groups", with(64, 16), actdma::kBadBlock});
  list.push_back({"dense", with(65, 16), actdma::kBadBlock});
  list.push_back({"reserved bits of W0", with(65, 32), actdma::kBadBlock});
  list.push_back({"width", with(headers + 1, 2), actdma::kBadBlock});
  list.push_back({"largest exponent", with(headers, 1), actdma::kBadFrameCrc});
  list.push_back({"record", with(headers + 200, 1), actdma::kBadFrameCrc});
  return list;
}

// Hostile packets, each between two good ones, which must not notice.
template <int L>
int hostile() {
  int cases = 0;
  const Bytes head = golden::descriptor(actdma::kCodecZvc, 2, 1, 10000);
  const Bytes raw = golden::random_raw(10000, 2, 0.3, 3);
  const Bytes request = golden::request(head, raw), frame = golden::frame(head, raw);
  const Pattern& none = kPatterns[0].pause;
  for (bool compress : {true, false})
    for (const Hostile& h : compress ? hostile_requests() : hostile_frames()) {
      const std::string where =
          std::to_string(L) + " lanes, " + (compress ? "request: " : "frame: ") + h.name;
      const Bytes& good = compress ? request : frame;
      const auto answers = run<L>(compress, {good, h.packet, good}, none, none, where).packets;
      const Bytes expected = compress ? frame : golden::answer(frame, head, raw);
      golden::check(answers[0] == expected && answers[2] == expected, "a good packet suffered",
                    where.c_str());
      golden::check(status(answers[1]) == h.expected,
                    ("status " + std::to_string(status(answers[1]))).c_str(), where.c_str());
      golden::check(h.expected > actdma::kBadRawBytes || answers[1].size() == 64,
                    "a refused descriptor is answered by more than a trailer", where.c_str());
      cases++;
    }
  // A packet shorter than a descriptor exists only where a beat is.
  if (L < 16) {
    const Bytes stub(head.begin(), head.begin() + 4 * L);
    for (bool compress : {true, false}) {
      const auto answers = run<L>(compress, {stub}, none, none, "stub").packets;
      golden::check(status(answers[0]) == actdma::kBadLength, "stub", "a lone beat");
      cases++;
    }
  }
  return cases;
}

template <int L>
int identify() {
  const Bytes request = golden::descriptor(0, 0, 77, 0, 0, actdma::kIdentify);
  Bytes clean = request;
  clean[12] = 0;
  for (bool compress : {true, false}) {
    const auto answers =
        run<L>(compress, {reseal(clean)}, kPatterns[0].pause, kPatterns[0].pause, "identify");
    const Bytes& answer = answers.packets[0];
    const uint32_t kind = compress ? actdma::kCompressor : actdma::kDecompressor;
    golden::check(answer.size() == 64 && status(answer) == actdma::kGood &&
                      golden::get32(answer, 8) == 77 &&
                      golden::get32(answer, 36) == (actdma::kVersion | kind << 8 | L << 16) &&
                      golden::get32(answer, 40) == actdma::kCodecsBuiltIn,
                  "identity", "identify");
  }
  return 2;
}

// Every kind and k; maps of one element, of odd sizes, wider than a beat; between blocks of zvc,
// back to back.
static Vectors pooled() {
  Vectors v;
  uint32_t seed = 1;
  for (uint32_t kind = 0; kind < 4; kind++)
    for (uint32_t k : {2u, 4u, 8u})
      for (uint32_t width : {1u, 2u * k, 37u, 130u}) {
        const golden::PoolCase c = {k, kind, seed % 11 + 1, width, seed % 3 + 1};
        const golden::Pooled e = golden::pool(c, seed++);
        v.requests.push_back(e.request);
        v.frames.push_back(e.frame);
        v.answers.push_back(e.answer);
        v.add_block(seed);
      }
  return v;
}

// Every block size, norm and kind; narrow rows, wide ones, a last row cut short; likewise.
static Vectors pruned() {
  Vectors v;
  uint32_t seed = 1;
  for (uint32_t block : {4u, 8u, 16u, 32u})
    for (uint32_t kind : {0u, 1u, 2u})
      for (uint32_t columns : {1u, 5u, 37u}) {
        const uint32_t norm = seed % 3, blocks = 2 * columns + seed % 2;
        const golden::Pruned e =
            golden::prune({block, norm, kind, columns, blocks, seed % 5 / 4.0}, seed);
        v.requests.push_back(e.request);
        v.frames.push_back(e.frame);
        v.answers.push_back(e.answer);
        v.add_block(++seed);
      }
  return v;
}

template <int L>
int lossy() {
  static const Vectors pool = pooled(), bsr = pruned();
  return back_to_back<L>(pool, "pool") + back_to_back<L>(bsr, "bsr");
}

// Rows of 1 KiB: cycles per row.
template <int L>
int pool_rates() {
  const Pattern& none = kPatterns[0].pause;
  const uint32_t rows = 20 * 32, stated = 1024 / (L < 4 ? 8 : 16);
  for (uint32_t kind = 0; kind < 4; kind++)
    for (uint32_t k : {2u, 4u, 8u}) {
      const uint32_t width = 1024 >> actdma::pool_element_log2(kind);
      const golden::Pooled e = golden::pool({k, kind, 32, width, 20}, 1);
      const std::string where = std::to_string(L) + " lanes, pool, kind " + std::to_string(kind) +
                                ", k " + std::to_string(k);
      const uint64_t there = run<L>(true, {e.request}, none, none, where).cycles;
      const uint64_t back = run<L>(false, {e.frame}, none, none, where).cycles;
      std::printf("  %s: %.2f cycles a row compressing, %.2f decompressing (modelled)\n",
                  where.c_str(), double(there) / rows, double(back) / rows);
      golden::check(there <= rows * stated + 200 && back <= rows * stated + 200,
                    "more cycles than stated", where.c_str());
    }
  return 12;
}

template <int L>
void all() {
  const int cases =
      identify<L>() + hostile<L>() + lossy<L>() + pool_rates<L>() + rates<L>() + lossless<L>();
  std::printf("engines, %d lanes: %d cases passed\n", L, cases);
}

int main() {
  all<2>();
  all<4>();
  all<8>();
  all<16>();
  return 0;
}
