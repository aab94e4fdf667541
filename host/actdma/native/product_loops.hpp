// The functions of ProductKernel. Included by the file of an instruction set in its namespace, with
// ACTDMA_TARGET for the compiler's target and
//
//     Floats         a vector: kLanes of them, load(from), store(to), all(value),
//                    add_product(a, b), which adds a * b to it
//     kTileColumns   columns at a time that the registers have room for, 4 or 8

constexpr size_t kTileVectors = 3;
constexpr size_t kPanelOutputs = kTileVectors * Floats::kLanes;
// Blocks lie anywhere, so that a processor does not prefetch the one so many on by itself.
constexpr ptrdiff_t kSoon = 2;

// Adds to the sums of kColumns columns, which stay in registers meanwhile.
template <size_t kColumns>
ACTDMA_TARGET void add_tile(const ProductStrip& strip, size_t column, float* sums) {
  Floats tile[kColumns][kTileVectors];
  for (size_t c = 0; c < kColumns; c++) {
    for (size_t v = 0; v < kTileVectors; v++) {
      tile[c][v] = Floats::load(sums + c * kPanelOutputs + v * Floats::kLanes);
    }
  }
  for (const ProductBlock* block = strip.begin; block < strip.end; block++) {
    const size_t left = strip.rows - block->row;
    const float* gradient = strip.gradient + block->row * kPanelOutputs;
    const float* values = block->values + column;
    const ProductBlock* const soon = strip.end - block > kSoon ? block + kSoon : block;
    const float* ahead = soon->values + column;
    for (size_t row = left < strip.block ? left : strip.block; row > 0; row--) {
      Floats outputs[kTileVectors];
      for (size_t v = 0; v < kTileVectors; v++) {
        outputs[v] = Floats::load(gradient + v * Floats::kLanes);
      }
      for (size_t c = 0; c < kColumns; c++) {
        const Floats value = Floats::all(values[c]);
        for (size_t v = 0; v < kTileVectors; v++) tile[c][v].add_product(outputs[v], value);
      }
      __builtin_prefetch(ahead);
      gradient += kPanelOutputs;
      values += strip.block;
      ahead += strip.block;
    }
  }
  for (size_t c = 0; c < kColumns; c++) {
    for (size_t v = 0; v < kTileVectors; v++) {
      tile[c][v].store(sums + c * kPanelOutputs + v * Floats::kLanes);
    }
  }
}

ACTDMA_TARGET void add_product(const ProductStrip& strip, float* sums) {
  if (strip.block < kTileColumns) return add_tile<4>(strip, 0, sums);
  for (size_t column = 0; column < strip.block; column += kTileColumns) {
    add_tile<kTileColumns>(strip, column, sums + column * kPanelOutputs);
  }
}

#define ACTDMA_PRODUCT {kPanelOutputs, add_product}
