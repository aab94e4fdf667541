# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # How long would a step take?
#
# A network that does not fit on a device can keep its feature maps in host memory: each layer's go there while forward runs,
# and come back ahead of backward (vDNN, arXiv 1602.08124). The link is what it waits for. cDMA (arXiv 1705.01626)
# compresses on the way. This notebook models such a step; every time in it is *modelled*, the ratios are *measured*.

# %%
import dataclasses
import tempfile

import matplotlib.pyplot as plt
import numpy as np

from actdma.simulate import Route, Stage, offloaded, oracle, simulate
from actdma.simulate.plot import plot_timelines
from actdma.simulate.run import Options, run

# %% [markdown]
# ## One network, one device
#
# `actdma simulate` as a function: SqueezeNet at batch 128 on a Titan X behind PCIe 3. Its layers are traced, their seconds
# come from a roofline, and the ratio of each layer from compressing what a step on two photographs saves.

# %%
study = run(Options(network="squeezenet", device="titan-x", link="pcie3", codec=("zvc", "zve")))
first, vdnn = study.rows[:2]
print(study.title)
for row in study.rows:
    print(
        f"{row.name:12s} {1e3 * row.timeline.step_s:7.1f} ms, {row.moved_bytes / 1e9:5.2f} GB over the link, "
        f"{row.gain_over(vdnn):+.0%} to vDNN"
    )
for kind, what in study.inputs:
    print(f"{kind}: {what}")

# %%
with tempfile.NamedTemporaryFile(suffix=".png") as picture:
    plot_timelines({row.name: row.timeline for row in study.rows}, picture.name)
    shown = plt.imread(picture.name)
figure, axes = plt.subplots(figsize=(12, 6), layout="constrained")
axes.imshow(shown)
axes.axis("off")
plt.show()

# %% [markdown]
# ## By hand
#
# A network is a list of stages: seconds forward and backward, bytes saved, ratio. With three equal layers the times can be
# checked on paper: bound by compute, the step takes the sum of the seconds; bound by the link, the bytes decide.

# %%
link = Route(to_host=12.8, to_device=12.8)  # GB/s: PCIe 3 with 16 lanes at 80 %
layers = [Stage(f"layer {i}", "convolution", 0.010, 0.020, 256e6) for i in range(3)]


def step_seconds(route, ratio):
    """Of a step that moves all layers' maps, packed at this ratio."""
    packed = [dataclasses.replace(layer, ratio=ratio) for layer in layers]
    return simulate(packed, route, offloaded(packed, "all")).step_s


print(f"with room for everything: {1e3 * oracle(layers).step_s:.1f} ms")
for ratio in (1, 2, 4):
    print(f"ratio {ratio}: {1e3 * step_seconds(link, ratio):.1f} ms")

# %% [markdown]
# ## At which link does it stop paying?

# %%
rates = np.geomspace(2, 200, 25)
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for ratio in (1.3, 2, 4):
    routes = [Route(rate, rate) for rate in rates]
    gains = [100 * (step_seconds(r, 1) / step_seconds(r, ratio) - 1) for r in routes]
    axes.plot(rates, gains, label=f"ratio {ratio}")
axes.set(xscale="log", xlabel="link, GB/s each way", ylabel="gain over vDNN, % (modelled)")
axes.legend(frameon=False)
plt.show()
