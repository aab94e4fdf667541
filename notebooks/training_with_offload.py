# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Training with offload
#
# The same training three times: plain, with what autograd saves compressed, and with `exact=True` on top. Losses and weights
# are the same in every bit; what differs is what is held for the backward pass, and the time of a step.

# %%
import contextlib
import time

import matplotlib.pyplot as plt
import torch
from torch import nn
from torch.nn import functional as F

import actdma

torch.manual_seed(0)
torch.set_num_threads(1)  # with more, PyTorch itself does not repeat every bit
STEPS, BATCH = 12, 64
# Ten patterns with noise: something to learn that needs no download.
patterns = torch.randn(10, 3, 32, 32)
labels = torch.randint(10, (STEPS, BATCH))
images = patterns[labels] + 2 * torch.randn(STEPS, BATCH, 3, 32, 32)


def network():
    torch.manual_seed(1)
    layers, before = [], 3
    for channels in (16, 32, 64):
        layers += [nn.Conv2d(before, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU()]
        layers += [nn.MaxPool2d(2)]
        before = channels
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 16, 10))


# %%
def train(**options):
    """Losses, seconds and bytes held of each step, and the weights."""
    model = network()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    losses, seconds, held = [], [], []
    for x, y in zip(images, labels):
        began = time.perf_counter()
        with actdma.offload(model, **options) if options else contextlib.nullcontext() as session:
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        seconds.append(time.perf_counter() - began)
        losses.append(loss.item())
        held.append(session.report().held_bytes_peak if session else None)
    return losses, seconds, held, [p.detach() for p in model.parameters()]


runs = {
    "plain": train(),
    "zvc": train(codec="zvc", backend="native"),
    "auto": train(codec="auto", backend="native"),
    "exact + auto": train(codec="auto", backend="native", exact=True),
}

# %% [markdown]
# Every loss and every weight is the same:

# %%
losses, _, _, weights = runs["plain"]
for run in runs.values():
    assert run[0] == losses
    assert all(torch.equal(a, b) for a, b in zip(run[3], weights))
print("every bit is the same")

# %% [markdown]
# What plain PyTorch holds is what the sessions' records say it would have held.

# %%
with actdma.offload(network(), codec="raw", backend="native", min_ratio=0) as session:
    F.cross_entropy(network()(images[0]), labels[0]).backward()
plain_bytes = session.report().totals()["plain_bytes"]

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.5), layout="constrained")
held = {"plain": plain_bytes} | {n: max(r[2]) for n, r in runs.items() if r[2][0] is not None}
bars = left.bar(list(held), [nbytes / 1e6 for nbytes in held.values()])
left.bar_label(bars, fmt="%.1f")
left.set_ylabel("MB held for backward, peak (measured)")
for name, (_, seconds, _, _) in runs.items():
    right.plot([1e3 * s for s in seconds[1:]], label=name)
right.set(xlabel="step", ylabel="ms (measured)")
right.set_ylim(bottom=0)
right.legend(frameon=False)
for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %% [markdown]
# ## Through the board
#
# `backend=board` sends the tensors through the FPGA, or the emulated one. A thread packs while forward goes on, and decodes
# ahead of the backward pass. What the board fails at, the CPU's codec does: the report counts it.

# %%
with actdma.open_board() as board:
    losses_of_board, *_ = train(codec="zvc", backend=board)
assert losses_of_board == losses
print("through the board, too")
