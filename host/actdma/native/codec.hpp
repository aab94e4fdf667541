// Frames of docs/format.md in and out of memory. Every function is free of exceptions and threads,
// and takes every byte it reads from outside for hostile.
#pragma once

#include <cstddef>
#include <cstdint>

#include "blocks.hpp"
#include "bsr.hpp"

namespace actdma::native {

constexpr size_t kHeaderBytes = 4 * kHeaderWords;

// Whether copies to there can go past the caches.
bool can_stream(const Kernels& kernels, const uint8_t* to);

// Writes the blocks of `raw` to `out` (frame_bound(raw_bytes) - 128 + kEncodeSlack bytes long) and
// returns their end, before padding. From `side.rows` on, the frame CRC lacks them.
uint8_t* encode_blocks(const Kernels& kernels, const uint8_t* raw, size_t raw_bytes, uint8_t* out,
                       const Coding& coding, Side& side);

// Reads the blocks at `in`, of which not more than `bytes` (a multiple of 4) may be taken but
// kDecodeSlack more be read, to `out` (exactly `raw_bytes` long). Moves `in` to their end. From
// `side.rows` on, the frame CRC lacks them.
Status decode_blocks(const Kernels& kernels, const uint8_t*& in, size_t bytes, uint8_t* out,
                     size_t raw_bytes, const Coding& coding, Side& side);

// Writes the frame of `raw`, which is as long as its good `descriptor` says, to `out`
// (frame_bound(descriptor) + kEncodeSlack bytes long) and returns the frame's length.
// `past_caches`: it is large and not read again soon. `set`, unless null, gets how many elements
// have a bit set (0 of codecs that do not look). `blocks`, unless null, is what a frame of bsr is
// made of, in place of `raw`.
size_t encode_frame(const Kernels& kernels, const uint8_t* raw, const uint8_t* descriptor,
                    uint8_t* out, bool past_caches = false, size_t* set = nullptr,
                    const MeasuredBlocks* blocks = nullptr);

// Reads the frame `packet` to `out`; kBadRawBytes unless `out_bytes` is what it holds.
// `past_caches`: `out` is large and not read again soon.
Status decode_frame(const Kernels& kernels, const uint8_t* packet, size_t packet_bytes,
                    uint8_t* out, size_t out_bytes, bool past_caches);

// Reads the kept blocks of the bsr frame `packet`.
Status take_kept_blocks(const Kernels& kernels, const uint8_t* packet, size_t packet_bytes,
                        KeptBlocks& blocks);

// What is wrong with the descriptor at `bytes`; `words` gets its words.
Status read_descriptor(const Kernels& kernels, const uint8_t* bytes, uint32_t words[kHeaderWords]);

}  // namespace actdma::native
