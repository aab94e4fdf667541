// The tops with memory ports, for Alveo. The ports' width is set by -DACTDMA_LANES (32-bit lanes
// per beat).
#pragma once

#include "actdma/maxi.hpp"

#ifndef ACTDMA_LANES
#define ACTDMA_LANES 16
#endif

using Memory = actdma::MemoryWord<ACTDMA_LANES>;

void actdma_compress_maxi(const Memory* packet, Memory* answer, uint32_t packet_bytes,
                          uint32_t capacity);
void actdma_decompress_maxi(const Memory* packet, Memory* answer, uint32_t packet_bytes,
                            uint32_t capacity);
