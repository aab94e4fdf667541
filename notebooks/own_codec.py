# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Bring your own codec
#
# A codec that is not part of `actdma`, from an HLS header to the emulated board: write it, compile
# it, test it against NumPy, put it behind an AXI DMA, and move data with `pynq` alone. Needs `g++`
# and the extra `emulation`; no FPGA tools.
#
# The codec is for activations of 8 bit, as quantised networks have them. After a ReLU most of them
# are small: where the upper half of all 8 bytes of a beat is zero, 4 bits a byte are enough.
#
# A frame is blocks of up to 64 beats. A block begins with a mask, bit i for beat i, then come 32
# bits for each beat whose bit is set and 64 bits for the others, without gaps. A block's last beat
# is padded, but that of the frame's last block ends early (TKEEP), so its length tells how many
# beats there were. At best the ratio is 64 / 33 = 1.94; at worst a frame is 1/64 longer than its
# data.

# %%
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pynq

import actdma
from actdma.emulation import HlsTop, KernelError

rng = np.random.default_rng(0)

# %% [markdown]
# ## The header
#
# Functions of one beat, and a small machine that joins words of 32 bit to beats. Nothing in it
# knows of `actdma`: these are the vendor's types, and for the CPU they come with `hls4ml`.

# %%
HEADER = r"""
#pragma once
#include <ap_axi_sdata.h>
#include <ap_int.h>
#include <hls_stream.h>

typedef ap_axiu<64, 0, 0, 0> beat;
typedef hls::stream<beat> port;
const int BLOCK = 64;

inline bool is_small(ap_uint<64> word) { return (word & 0xf0f0f0f0f0f0f0f0) == 0; }

inline ap_uint<32> squeeze(ap_uint<64> word) {
  ap_uint<32> half;
  for (int i = 0; i < 8; i++) {
#pragma HLS UNROLL
    half.range(4 * i + 3, 4 * i) = word.range(8 * i + 3, 8 * i);
  }
  return half;
}

inline ap_uint<64> stretch(ap_uint<32> half) {
  ap_uint<64> word = 0;
  for (int i = 0; i < 8; i++) {
#pragma HLS UNROLL
    word.range(8 * i + 3, 8 * i) = half.range(4 * i + 3, 4 * i);
  }
  return word;
}

inline void put(port& out, ap_uint<64> data, bool whole, bool last) {
#pragma HLS INLINE
  beat b;
  b.data = data;
  b.keep = whole ? 0xff : 0x0f;
  b.strb = b.keep;
  b.last = last;
  out.write(b);
}
"""

# %% [markdown]
# ## The tops
#
# A top takes a packet from one stream, answers on the other, and returns; hardware starts it again.
# There is no `while (true)`.

# %%
TOPS = r"""
#include "nibbles.hpp"

void encode(port& s_axis, port& m_axis) {
#pragma HLS INTERFACE axis port = s_axis
#pragma HLS INTERFACE axis port = m_axis
#pragma HLS INTERFACE ap_ctrl_none port = return
  bool last = false;
  while (!last) {
    ap_uint<64> block[BLOCK];
    ap_uint<64> mask = 0;
    int count = 0;
    while (count < BLOCK && !last) {
#pragma HLS PIPELINE II = 1
      const beat b = s_axis.read();
      block[count] = b.data;
      mask[count] = is_small(b.data);
      last = b.last;
      count++;
    }
    put(m_axis, mask, true, false);
    ap_uint<32> kept = 0;
    bool half = false;  // whether 32 bits wait in `kept`
    for (int i = 0; i < count; i++) {
#pragma HLS PIPELINE II = 1
      const bool end = i == count - 1;
      const ap_uint<64> word = block[i];
      if (mask[i] && !half) {
        kept = squeeze(word);
        if (end) put(m_axis, kept, !last, last);
        half = !end;
      } else if (mask[i]) {
        put(m_axis, (squeeze(word), kept), true, last && end);
        half = false;
      } else if (!half) {
        put(m_axis, word, true, last && end);
      } else {
        put(m_axis, (word.range(31, 0), kept), true, false);
        kept = word.range(63, 32);
        if (end) put(m_axis, kept, !last, last);
      }
    }
  }
}

void decode(port& s_axis, port& m_axis) {
#pragma HLS INTERFACE axis port = s_axis
#pragma HLS INTERFACE axis port = m_axis
#pragma HLS INTERFACE ap_ctrl_none port = return
  bool last = false;
  while (!last) {
    const ap_uint<64> mask = s_axis.read().data;
    ap_uint<32> kept = 0;
    bool half = false, done = false;
    for (int i = 0; i < BLOCK && !done; i++) {
#pragma HLS PIPELINE II = 1
      const bool small = mask[i];
      ap_uint<64> word = kept;
      bool wide = false;  // whether 64 bits were read
      if (!small || !half) {
        const beat b = s_axis.read();
        wide = b.keep == 0xff;
        word = half ? ap_uint<64>((b.data.range(31, 0), kept)) : b.data;
        kept = b.data.range(63, 32);
        last = b.last;
      }
      half = small ? !half && wide : half && wide;
      done = last && !half;
      put(m_axis, small ? stretch(word.range(31, 0)) : word, true, done);
    }
  }
}
"""

# %% [markdown]
# `HlsTop` compiles a top by `g++`. What the compiler says of a mistake is the error's message.

# %%
folder = Path(tempfile.mkdtemp(prefix="own_codec-"))
for name, text in {"nibbles.hpp": HEADER, "nibbles.cpp": TOPS}.items():
    (folder / name).write_text(text)
encode = HlsTop(folder / "nibbles.cpp", "encode")
decode = HlsTop(folder / "nibbles.cpp", "decode")
print(f"{32 * encode.lanes} bit per beat")
try:
    HlsTop(folder / "nibbles.cpp", "encoed")
except KernelError as error:
    print(error)

# %% [markdown]
# ## Against NumPy
#
# The same format, written as plainly as possible: every word as a pair of 32-bit halves, of which
# those that count are kept. `simulate` calls the top as the board will, without a board.


# %%
def encode_numpy(data: np.ndarray) -> bytes:
    """The frame of bytes, a multiple of 8."""
    frame = []
    beats = data.reshape(-1, 8)
    for block in np.split(beats, range(64, len(beats), 64)):
        small = (block < 16).all(1)
        mask = np.packbits(np.resize(small, 64) & (np.arange(64) < len(small)), bitorder="little")
        halves = block.copy().view("<u4")
        halves[small, 0] = (block[small, 0::2] | block[small, 1::2] << 4).view("<u4")[:, 0]
        kept = halves[np.stack([np.ones_like(small), ~small], 1)]
        frame += [mask.tobytes(), kept.tobytes(), bytes(4 * (len(kept) % 2))]
    whole = b"".join(frame)
    return whole[:-4] if len(kept) % 2 else whole


checked = 0
for size in [8, 16, 504, 512, 520, 1024, 5000]:
    for share in (0, 0.03, 0.5, 1):
        data = rng.integers(0, 16, size, dtype=np.uint8)
        data[rng.random(size) < share] += 100
        (frame,) = encode.simulate(data)
        assert frame == encode_numpy(data), (size, share)
        assert decode.simulate(frame) == [data.tobytes()], (size, share)
        checked += 1
print(f"{checked} packets: the frames of the top are NumPy's, and come back as they were")

# %% [markdown]
# ## On the emulated board
#
# Each top stands behind a DMA. From here on it is `pynq` code as for any board: with a bitstream of
# this design, made by Vitis and Vivado, only the name of the file would differ.

# %%
emulation = actdma.emulation.install(kernels={"axi_dma_encode": encode, "axi_dma_decode": decode})
overlay = pynq.Overlay(emulation.bitfile)
print(list(overlay.ip_dict))


def transfer(dma: pynq.lib.DMA, data: np.ndarray, room: int) -> np.ndarray:
    """Bytes that come back for ``data``, at most ``room``."""
    send, receive = pynq.allocate(data.size, "u1"), pynq.allocate(room, "u1")
    send[:] = data
    dma.recvchannel.transfer(receive)  # first: the answer begins before the packet ends
    dma.sendchannel.transfer(send)
    dma.sendchannel.wait()
    dma.recvchannel.wait()
    return np.array(receive[: dma.recvchannel.transferred])


# %% [markdown]
# A feature map stands in for a network's: smooth noise through a ReLU, quantised to 8 bits.

# %%
noise = np.fft.rfft2(rng.standard_normal((256, 256)))
rows, columns = np.fft.fftfreq(256)[:, None], np.fft.rfftfreq(256)
smooth = np.fft.irfft2(noise / (0.01 + np.hypot(rows, columns)) ** 1.5)
activations = np.maximum(smooth / smooth.std(), 0)


def quantised(scale: float) -> np.ndarray:
    """8-bit activations: ``scale`` steps per standard deviation."""
    return np.minimum(np.rint(scale * activations), 255).astype(np.uint8)


x = quantised(16)
frame = transfer(overlay.axi_dma_encode, x.reshape(-1), x.size + x.size // 64 + 8)
y = transfer(overlay.axi_dma_decode, frame, x.size).reshape(x.shape)
assert (x == y).all()
assert frame.tobytes() == encode_numpy(x)
ratio = x.size / frame.size
print(f"{x.size} bytes in, {frame.size} bytes back, ratio {ratio:.2f}; every bit is the same")

# %% [markdown]
# ## Is it any good?
#
# The finer the steps, the fewer values fit into 4 bits. The codecs of `actdma` on the same bytes:
# `zvc` leaves out zeros, `ints` packs integers in groups by their range.

# %%
scales = [1, 2, 4, 8, 16, 32, 64, 128]
ratios = {"nibbles (own, emulated board)": [], "zvc": [], "ints": []}
for scale in scales:
    data = quantised(scale)
    frame = transfer(overlay.axi_dma_encode, data.reshape(-1), data.size + data.size // 64 + 8)
    ratios["nibbles (own, emulated board)"].append(data.size / frame.size)
    for codec in ("zvc", "ints"):
        ratios[codec].append(actdma.compress(data, codec=codec, backend="native").ratio)

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
small = (x.reshape(256, 32, 8) < 16).all(2).repeat(8, axis=1)
left.imshow(x, cmap="gray_r", vmax=64)
left.imshow(np.ma.masked_where(~small, small), cmap="winter", alpha=0.25)
left.set_title(f"Beats in 4 bits a byte (blue): {small.mean():.0%}")
left.set_axis_off()
for name, values in ratios.items():
    right.plot(scales, values, marker="o", label=name)
right.axhline(64 / 33, color="gray", linewidth=1, linestyle="dotted", label="nibbles at best")
right.set(xscale="log", yscale="log", title="Bytes in / bytes out")
right.set(xlabel="quantisation steps per standard deviation", ylabel="ratio (measured)")
right.minorticks_off()
right.set_xticks(scales, scales)
right.set_yticks([1, 1.5, 2, 3, 4, 6], ["1", "1.5", "2", "3", "4", "6"])
right.grid(alpha=0.3)
right.legend()
plt.show()
emulation.close()

# %% [markdown]
# It is not: half of these values are zero, which nibbles make no use of, and whole beats are a
# coarse measure. A header and two tops were enough to find that out.

# %% [markdown]
# ## What would hang hardware is an error
#
# The decoder of a frame that ends after its first mask waits for beats that never come. On a board
# the transfer would not end; here it says why.

# %%
try:
    decode.simulate(encode_numpy(x)[:8])
except KernelError as error:
    print(error)

# %% [markdown]
# What this did not show: clock cycles, FIFO depths and whether each loop starts an item in every
# cycle. That is for Vitis to say. `docs/own_kernels.md` has the rules for tops.
