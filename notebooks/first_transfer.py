# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # First transfer
#
# One array through the compressor in FPGA fabric and back, first with `pynq` by hand, then with the driver, and the
# check that every bit is the same. On a board it runs in the fabric, after `actdma fetch` (see `docs/hardware.md`);
# anywhere else on the emulated board, whose fabric is the same HLS source, compiled for the CPU.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pynq

import actdma
from actdma.frame import Descriptor, DType, frame_bound

# %% [markdown]
# Half of these values are zero, as behind a ReLU. `zvc` keeps a mask bit per element and the others' words: for 32 bit
# at half density the ratio is 32 / (1 + 16) = 1.88, less a few bytes per block and frame.

# %%
rng = np.random.default_rng(0)
x = np.maximum(rng.standard_normal((64, 128, 128)), 0).astype(np.float32)
x.nbytes, np.mean(x == 0)

# %% [markdown]
# ## By hand
#
# A packet is a descriptor of 64 bytes, which says what to do, and the data. The compressor answers with a frame. The
# receive channel is started first, since the answer begins before the packet ends. Larger arrays are cut into frames,
# which the driver below does; here one frame of 1 MiB goes through.

# %%
part = x.reshape(-1)[: 1 << 18]
with actdma.open_board() as board:
    info = board.info()
if info["kind"] == "emulated":
    emulation = actdma.emulation.install()  # becomes pynq's active device
    bitfile = emulation.bitfile
else:
    bitfile = "actdma.bit"  # pynq knows what `actdma fetch` has fetched
dma = pynq.Overlay(bitfile).axi_dma_compress

send = pynq.allocate(64 + part.nbytes, "u1")
send[:64] = np.frombuffer(Descriptor(raw_bytes=part.nbytes, dtype=DType.float32).pack(), "u1")
send[64:] = part.view("u1")
receive = pynq.allocate(frame_bound(part.nbytes), "u1")
dma.recvchannel.transfer(receive)
dma.sendchannel.transfer(send)
dma.sendchannel.wait()
dma.recvchannel.wait()
by_hand = bytes(receive[: dma.recvchannel.transferred])
print(f"{part.nbytes} bytes in, {len(by_hand)} bytes in the frame")

send.freebuffer()
receive.freebuffer()
if info["kind"] == "emulated":
    emulation.close()

# %% [markdown]
# ## With the driver
#
# It cuts, stages, checks lengths and CRCs, retries what fails, and takes arrays of any shape and strides.

# %%
board = actdma.open_board()
board.info()

# %%
frame = actdma.compress(x, codec="zvc", backend=board)
print(f"{x.nbytes} bytes in, {frame.nbytes} bytes kept, ratio {frame.ratio:.2f}")
assert frame.ratio > 1.8
assert bytes(actdma.compress(part, codec="zvc", backend=board)) == by_hand

# %%
y = actdma.decompress(frame, backend=board)
assert (y.dtype, y.shape) == (x.dtype, x.shape)
assert y.tobytes() == x.tobytes()
print("every bit is the same")

# %% [markdown]
# The codec of the CPU writes the same bytes. If this fails, the fabric computes something else than its source: please
# send us what `docs/hardware.md` asks for.

# %%
assert bytes(frame) == bytes(actdma.compress(x, codec="zvc", backend="native"))
print("and so is every byte of the frame, compared with the CPU's")

# %% [markdown]
# Clock cycles are counted in the emulated fabric (`modelled`: II=1 by construction, no memory contention, no driver); a
# real board has no such counter.

# %%
if frame.cycles is not None:
    rate = x.nbytes / frame.cycles * board.info()["clock_mhz"] / 1e3
    print(f"{frame.cycles} cycles, {rate:.2f} GB/s (modelled)")

# %% [markdown]
# ## The fewer zeros, the smaller the gain
#
# Dense data grows by 4 bytes per 8 KiB at most. `zve` packs the exponents besides, so it gains on dense values, too.

# %%
densities = np.linspace(0.05, 1, 20)
ratios = {codec: [] for codec in ("zvc", "rle", "zve")}
for density in densities:
    values = rng.standard_normal(1 << 17).astype(np.float32)
    values[rng.random(values.size) >= density] = 0
    for codec, found in ratios.items():
        found.append(actdma.compress(values, codec=codec, backend=board).ratio)

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for codec, found in ratios.items():
    axes.plot(densities, found, marker="o", label=codec)
axes.axhline(1, color="grey", linewidth=0.8)
axes.set(xlabel="density: values that are not zero", ylabel="ratio (measured)")
axes.set_ylim(bottom=0)
axes.legend(frameon=False)
plt.show()

# %%
board.close()
