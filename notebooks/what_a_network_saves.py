# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # What a network saves, and how it compresses
#
# PyTorch keeps, for the backward pass, whatever the backward functions will look at. This notebook runs one training step
# of a CNN, looks at every tensor that is saved, and compresses each with every codec.

# %%
import collections

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch.nn import functional as F

import actdma
from actdma.measure import zoo

torch.manual_seed(0)
model = zoo.build("relu-cnn")
images, labels = torch.randn(32, 3, 32, 32), torch.randint(10, (32,))
model

# %% [markdown]
# ## What is saved
#
# Hooks see each tensor as it is saved. A storage is often saved more than once: a ReLU's result is the next
# convolution's input. Parameters are left out: they are in memory anyway.

# %%
parameters = {p.untyped_storage().data_ptr() for p in model.parameters()}
saved = []


def note(t):
    if t.untyped_storage().data_ptr() not in parameters and t.numel():
        saved.append(t.detach())
    return t


with torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
    loss = F.cross_entropy(model(images), labels)

by_storage = {t.untyped_storage().data_ptr(): t for t in saved}
print(f"{len(saved)} tensors saved, {len(by_storage)} storages")
kinds = collections.Counter()
for t in by_storage.values():
    kinds[str(t.dtype).removeprefix("torch.")] += t.nbytes
for kind, nbytes in kinds.most_common():
    print(f"{nbytes / 1e6:6.2f} MB of {kind}")

# %% [markdown]
# ## Codec by codec
#
# `zvc` and `rle` gain where there are zeros, `zve` packs exponents of floating point, `ints` packs integers: pooling's
# int64 indices. `auto` takes what suits the dtype.

# %%
codecs = ("zvc", "rle", "auto")
large = [t for t in by_storage.values() if t.nbytes >= 8192]
stored = {
    codec: [actdma.compress(t, codec=codec, backend="native").nbytes for t in large]
    for codec in codecs
}
raw = [t.nbytes for t in large]
for codec in codecs:
    print(f"{codec:5s} {sum(raw) / sum(stored[codec]):.2f} over all of it (measured)")

# %%
names = [f"{'x'.join(map(str, t.shape))} {str(t.dtype).removeprefix('torch.')}" for t in large]
figure, axes = plt.subplots(figsize=(8, 0.42 * len(large) + 1), layout="constrained")
places = np.arange(len(large))
for number, codec in enumerate(codecs):
    ratios = np.divide(raw, stored[codec])
    axes.barh(places + 0.27 * (number - 1), ratios, 0.27, label=codec)
axes.axvline(1, color="grey", linewidth=0.8)
axes.set_yticks(places, names, fontsize=8)
axes.invert_yaxis()
axes.set_xlabel("ratio (measured)")
axes.legend(frameon=False)
plt.show()

# %% [markdown]
# ## What operators need of it
#
# A ReLU's backward function looks at the sign alone, a max-pooling's at the place in its window. `exact=True` holds no more
# than that, and the gradients still have every bit of the plain run's.

# %%
with actdma.offload(model, codec="auto", backend="native", exact=True) as session:
    loss = F.cross_entropy(model(images), labels)
loss.backward()
print(session.plan())

# %% [markdown]
# ## Through the board
#
# The same step through the board (or the emulated one): `actdma measure` in two lines.

# %%
with actdma.open_board() as board, actdma.offload(model, codec="auto", backend=board) as session:
    F.cross_entropy(model(images), labels).backward()
print(session.report())
