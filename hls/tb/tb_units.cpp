// Bench of the pure functions: what is synthesised against what csim runs, and single steps.
#include <cstdio>
#include <cstring>
#include <random>

#include "actdma/engine.hpp"
#include "golden.hpp"

using golden::check;

static std::mt19937 rng(1);

template <int L>
void random_beat(uint32_t w[L]) {
  const uint32_t keep = rng() % 4;
  for (int i = 0; i < L; i++) {
    w[i] = rng();
    for (int k = 0; k < 4; k++)
      if (rng() % 4 < keep) w[i] &= ~(0xFFu << 8 * k);
  }
}

template <int L>
void same(const uint32_t a[L], const uint32_t b[L], const char* what) {
  check(std::memcmp(a, b, 4 * L) == 0, what, "synthesised form against plain form");
}

template <int L>
void moves() {
  for (int n = 0; n < 2000; n++) {
    uint32_t a[L], b[L], x[L], y[L], x2[L], y2[L];
    random_beat<L>(a);
    random_beat<L>(b);
    const uint32_t bytes = rng() % (4 * L), words = rng() % L;
    actdma::funnel<uint8_t, L>(a, b, bytes + 1, x);
    actdma::funnel_hardware<uint8_t, L>(a, b, bytes + 1, y);
    same<L>(x, y, "funnel of bytes");
    actdma::funnel<uint32_t, L>(a, b, words + 1, x);
    actdma::funnel_hardware<uint32_t, L>(a, b, words + 1, y);
    same<L>(x, y, "funnel of words");
    actdma::append<uint8_t, L>(a, bytes, b, x, x2);
    actdma::append_hardware<uint8_t, L>(a, bytes, b, y, y2);
    same<L>(x, y, "append of bytes, low");
    same<L>(x2, y2, "append of bytes, high");
    actdma::append<uint32_t, L>(a, words, b, x, x2);
    actdma::append_hardware<uint32_t, L>(a, words, b, y, y2);
    same<L>(x, y, "append of words, low");
    same<L>(x2, y2, "append of words, high");
    for (uint32_t element = 0; element < 3; element++) {
      const uint64_t mask = actdma::compact<L>(a, element, x);
      check(actdma::compact_hardware<L>(a, element, y) == mask, "mask", "compact");
      same<L>(x, y, "compact");
      actdma::scatter<L>(x, mask, element, x2);
      actdma::scatter_hardware<L>(x, mask, element, y2);
      same<L>(x2, y2, "scatter");
      same<L>(x2, a, "scatter after compact");
    }
  }
}

template <int L>
void crc() {
  for (int n = 0; n < 2000; n++) {
    uint32_t w[L];
    random_beat<L>(w);
    const uint32_t r = rng(), expected = actdma::crc_beat_hardware<L>(r, w);
    check(actdma::crc_beat_table<L>(r, w) == expected, "table", "crc");
    check(actdma::crc_beat<L>(r, w) == expected, "as csim runs it", "crc");
    golden::Bytes bytes;
    for (int i = 0; i < L; i++) golden::put32(bytes, w[i]);
    check(~actdma::crc_beat<L>(actdma::kCrcInit, w) == golden::crc(bytes), "golden", "crc");
    w[L - 1] = 0;
    const uint32_t before = actdma::kCrcMatrix<-1>.times(actdma::crc_beat<L>(r, w));
    check(actdma::crc_advance(before) == actdma::crc_beat<L>(r, w), "step back", "crc");
  }
}

// One step of the packer: a full beat goes out at once, a remainder waits, the block's end flushes.
static void packer_steps() {
  actdma::Pack<2> pack;
  const actdma::Format zve = {actdma::kCodecZve, 2, 8};
  actdma::PackedBeat<2> in = {{1, 2}, 3, 8, zve, false, false};
  actdma::KeptBeat<2> kept;
  actdma::Beat<2> mask;
  actdma::Passed passed = {};
  bool kept_valid, data_valid, mask_valid, passed_valid;
  auto step = [&] {
    pack.step(in, kept, kept_valid, data_valid, mask, mask_valid, passed, passed_valid);
  };
  step();
  check(data_valid && kept.w[0] == 1 && kept.w[1] == 2 && !mask_valid, "full beat", "packer");
  in.bytes = 4;
  in.mask = 1;
  step();
  check(!data_valid && !kept_valid && pack.fill == 4, "remainder", "packer");
  in = {{7, 8}, 3, 8, zve, true, false};
  step();
  check(data_valid && kept.w[0] == 1 && kept.w[1] == 7 && !pack.takes(), "overflow", "packer");
  check(kept_valid && kept.bytes == 8 && !kept.block_end, "more to come", "packer");
  check(mask_valid && mask.w[0] == (3 | 1 << 2 | 3 << 4) && passed_valid, "mask", "packer");
  check(passed.copy_words == 6 && passed.data_words == 5 && passed.mask_words == 1 && !passed.dense,
        "block", "packer");
  step();
  check(data_valid && kept.w[0] == 8 && pack.takes() && !passed_valid, "flush", "packer");
  check(kept_valid && kept.bytes == 4 && kept.block_end, "the block's last", "packer");
}

// A block whose last elements are zero ends in an empty beat, as the groups must learn of its end.
static void a_block_without_a_last_element_ends_too() {
  actdma::Pack<2> pack;
  const actdma::PackedBeat<2> in = {{0, 0}, 0, 0, {actdma::kCodecInts, 2, 0}, true, false};
  actdma::KeptBeat<2> kept;
  actdma::Beat<2> mask;
  actdma::Passed passed = {};
  bool kept_valid, data_valid, mask_valid, passed_valid;
  pack.step(in, kept, kept_valid, data_valid, mask, mask_valid, passed, passed_valid);
  check(kept_valid && !data_valid && kept.bytes == 0 && kept.block_end, "empty end", "packer");
}

// Every group comes back from its record, and planes are a transposition both ways.
static void records() {
  for (int n = 0; n < 20000; n++) {
    uint32_t a[32], x[32], y[32];
    actdma::Group group = {};
    const uint32_t spread = rng() % 33;
    for (int i = 0; i < 32; i++) a[i] = group.w[i] = rng() ^ (spread < 32 ? rng() << spread : 0);
    actdma::transpose(a, x);
    actdma::transpose_hardware(a, y);
    check(std::memcmp(x, y, sizeof x) == 0, "forms differ", "transposition");
    const uint8_t element = uint8_t(rng() % 3), size = element == 0 ? 64 : 32;
    const bool zve = element > 0 && rng() % 2;
    const uint8_t exponent_bits = element == 1 && rng() % 2 ? 5 : 8;
    group.format = {uint8_t(zve ? actdma::kCodecZve : actdma::kCodecInts), element,
                    uint8_t(zve ? exponent_bits : rng() % 2)};
    group.count = rng() % 4 ? size : uint8_t(1 + rng() % size);
    actdma::Record record = {};
    actdma::make_record(group, record);
    for (int i = record.words; i < 32; i++) check(record.w[i] == 0, "beyond its end", "record");
    actdma::Group back = {};
    actdma::restore_group(record, back);
    const size_t bytes = size_t(group.count) << element;
    check(std::memcmp(group.w, back.w, bytes) == 0, "elements", "record");
  }
}

// A stuck network says who waits for what.
static void deadlock_is_named() {
  try {
    actdma::csim::run_top([] {
      actdma::Stream<int, 2> nothing("nothing");
      ACTDMA_PROCESS(nothing.read());
      ACTDMA_REGION_END();
    });
  } catch (const std::runtime_error& error) {
    check(std::strstr(error.what(), "nothing.read() waits for data on nothing"), error.what(),
          "deadlock");
    return;
  }
  golden::fail("a deadlock went unnoticed", "deadlock");
}

// A FIFO of depth 2 between a fast writer and a slow reader: the writer's clock follows the
// reader's.
static void bounded_streams_keep_time() {
  actdma::csim::Network network(false);
  actdma::Stream<int, 2> s("s");
  uint64_t written = 0, read = 0;
  network.spawn("writer", [&] {
    for (int i = 0; i < 10; i++) {
      actdma::cycle();
      s.write(i);
    }
    written = actdma::csim::current()->now;
  });
  network.spawn("reader", [&] {
    for (int i = 0; i < 10; i++) {
      actdma::csim::current()->now += 5;
      check(s.read() == i, "order", "stream");
    }
    read = actdma::csim::current()->now;
  });
  network.run();
  // Read k ends in cycle 5 (k + 1); write 9 waits for read 7 to free its slot.
  check(read == 50 && written == 41, "clocks", "stream");
}

// The engines' product, a bit in a cycle, against the CPU's.
static void extents() {
  for (int n = 0; n < 200000; n++) {
    uint32_t d[16] = {};
    const uint32_t element = 1u << rng() % 3;
    d[actdma::kDescKind] = actdma::kTransfer << 8 | actdma::kCodecPool << 16 | element << 24;
    uint64_t product = element;
    for (int i = 1; i <= actdma::kExtents; i++) {
      d[actdma::kDescParameters + i] = rng() >> rng() % 32;
      product *= d[actdma::kDescParameters + i];
    }
    d[actdma::kDescRawLow] = rng() % 4 ? uint32_t(product) : rng();
    actdma::Extents state;
    state.begin(d);
    int cycles = 1;
    while (!state.step(d)) cycles++;
    check(state.fit(d) == actdma::extents_fit(d), "product", "extents");
    check(cycles <= 100, "cycles", "extents");
  }
}

int main() {
  extents();
  crc<2>(), crc<4>(), crc<8>(), crc<16>();
  moves<2>(), moves<4>(), moves<8>(), moves<16>();
  packer_steps();
  a_block_without_a_last_element_ends_too();
  records();
  deadlock_is_named();
  bounded_streams_keep_time();
  std::printf("units: passed\n");
  return 0;
}
