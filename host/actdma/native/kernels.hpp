// The inner loops of the codec, once per instruction set. All sets compute the same.
//
// Raw data comes in chunks of 64 bytes. Index 0, 1, 2 into an array of functions is the log2 of the
// element's bytes. Loads and stores need no alignment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace actdma::native {

constexpr size_t kChunkBytes = 64;
// What a function may read or write past the end of a data plane: one vector.
constexpr size_t kVectorSlack = 64;
constexpr size_t kLineBytes = 64;  // of a cache

// What is done to data beside coding it: a kernel may take any part of it on, which then costs
// little time of its own; finish() does what is left.
struct Side {
  static constexpr size_t kRowBytes = 256;

  bool with_crc;
  bool past_caches = false;  // what is large is written past the caches
  bool raw_done = false;     // raw_crc has got the block
  uint32_t raw_crc = 0;      // of the padded raw data
  uint32_t frame_crc = 0;    // of the frame up to `rows`
  size_t set = 0;            // elements with a bit set
  // Parts of the frame that wait for their CRC and, where `to` is set, to be copied there (aligned
  // to a line) past the caches.
  const uint8_t* rows = nullptr;
  size_t row_count = 0;
  uint8_t* to = nullptr;

  void advance(size_t count) {
    rows += kRowBytes * count;
    row_count -= count;
    if (to) to += kRowBytes * count;
  }

  // `raw` is the block that a kernel was given.
  void finish(const struct Kernels& kernels, const uint8_t* raw, size_t bytes);
};

// What is common to the elements of a group (docs/format.md, header plane).
struct Group {
  uint32_t base;   // zve: the largest exponent; ints: the least element
  uint32_t width;  // bit planes of the distances from it
  uint32_t sign;   // zve: whether there is a sign plane

  // To memory. (An assignment would go through the stack in pieces, and wait for them.)
  void write(Group* to) const {
    to->base = base;
    to->width = width;
    to->sign = sign;
  }
};

// A group's elements have at most so many bytes.
constexpr size_t kGroupBytes = 128;

// Groups of elements to records and back. The last group may have fewer elements than the others,
// but there is memory for all of it.
struct RecordKernels {
  // Sizes up the groups that `count` elements make; returns the words of their records.
  uint32_t (*plan)(const uint8_t* elements, size_t count, Group* groups);
  // Writes the records of planned groups and returns their end, after which kVectorSlack bytes may
  // have been written as well.
  uint8_t* (*pack)(const uint8_t* elements, size_t count, const Group* groups, uint8_t* records);
  // The inverse, for `count` groups whose widths are possible. Reads up to kVectorSlack bytes past
  // the records, writes whole groups.
  void (*unpack)(const uint8_t* records, const Group* groups, size_t count, uint8_t* elements);
};

// A block of a matrix, row-major, and its first row.
struct ProductBlock {
  const float* values;
  size_t row;
};

// Blocks of a block column, and the panel of a gradient that they are multiplied with.
struct ProductStrip {
  const float* gradient;  // `rows` x a panel's outputs
  size_t rows;            // the last block may reach beyond them
  const ProductBlock* begin;
  const ProductBlock* end;
  size_t block;  // rows and columns of a block: 4, 8, 16 or 32
};

// Of block_sparse.hpp. Sums and gradient are aligned to a vector. Sets differ in this alone: those
// that can, round a product and its sum together.
struct ProductKernel {
  size_t outputs;  // of a panel
  // Adds to `sums` (block x outputs) the products over the strip's rows, block by block.
  void (*add)(const ProductStrip& strip, float* sums);
};

struct Kernels {
  const char* name;
  // Writes the mask plane (chunks * 64 / element / 8 bytes) and the data plane of raw data; returns
  // the end of the data plane, after which kVectorSlack bytes may have been written as well.
  uint8_t* (*compress[3])(const uint8_t* raw, size_t chunks, uint8_t* mask, uint8_t* data,
                          Side& side);
  // The inverse. Reads up to kVectorSlack bytes past the data plane, whose length the caller has
  // checked against the mask; writes exactly the chunks.
  void (*expand[3])(const uint8_t* mask, const uint8_t* data, size_t chunks, uint8_t* raw,
                    Side& side);
  RecordKernels float16, bfloat16, float32;  // zve's
  RecordKernels ints[3][2];                  // the second index: whether they are signed
  // Number of bits set in `words` 32-bit words.
  uint32_t (*count_bits)(const uint8_t* mask, size_t words);
  // Number of elements that have no bit set; the last function is for elements of 8 bytes.
  size_t (*count_zeros[4])(const uint8_t* raw, size_t chunks);
  // Copies to memory past the caches; `to` and `bytes` are multiples of kLineBytes. The second
  // makes such copies visible to others, in order. Null where the set has nothing of the kind.
  void (*stream)(uint8_t* to, const uint8_t* from, size_t bytes);
  void (*stream_end)();
  // CRC-32C of `bytes` bytes, continuing `crc` (0 at the start).
  uint32_t (*crc32c)(uint32_t crc, const uint8_t* data, size_t bytes);
  ProductKernel product;

  // Number of elements of 2^element_log2 bytes that have no bit set, in whole ones.
  size_t zeros(const uint8_t* data, size_t bytes, int element_log2) const;
};

// The sets this processor can run, the slowest first; "portable" is always there.
const std::vector<const Kernels*>& available_kernels();

// The set in use: the last one available until another is chosen.
const Kernels& active_kernels();

// Chooses a set by its name; false if this processor has none of that name.
bool choose_kernels(const std::string& name);

// One set per file; null where the compiler's target or the processor lacks the instructions.
const Kernels* portable_kernels();
const Kernels* avx2_kernels();
const Kernels* avx512_kernels();
const Kernels* neon_kernels();

}  // namespace actdma::native
