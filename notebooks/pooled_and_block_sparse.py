# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Pooled and block-sparse training
#
# Two papers hold an approximation of what convolutions and linear layers save: means of windows (pooled activations, arXiv
# 2409.11902), and the blocks with the largest norms (structured activation pruning, arXiv 2311.16883). The forward pass and
# the gradients of inputs stay exact; gradients of weights do not.

# %%
import copy

import matplotlib.pyplot as plt
import torch
from torch import nn
from torch.nn import functional as F

import actdma

torch.manual_seed(0)
patterns = F.avg_pool2d(torch.randn(10, 3, 40, 40), 9, 1)  # smooth, as photographs are: 32 x 32
labels = torch.randint(10, (16, 32))
images = 9 * patterns[labels] + 0.3 * torch.randn(16, 32, 3, 32, 32)

# %% [markdown]
# ## What the approximations look like

# %%
image = images[0, :1]
with actdma.open_board() as board:  # codecs `pool` and `bsr` are in the fabric, too
    pooled = [
        actdma.decompress(actdma.compress(image, codec=actdma.Pool(k), backend=board))
        for k in (2, 4)
    ]
figure, axes = plt.subplots(1, 3, figsize=(9, 3), layout="constrained")
for axis, t, name in zip(axes, (image, *pooled), ("saved", "Pool(2)", "Pool(4)")):
    axis.imshow((t[0, 0] - image.min()) / (image.max() - image.min()), cmap="viridis")
    axis.set_title(name)
    axis.axis("off")
plt.show()

# %% [markdown]
# ## How good are the gradients?
#
# Cosine of each layer's weight gradient with the exact one.


# %%
def convolutional():
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, 2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(512, 10),
    )  # fmt: skip


def perceptron():
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Flatten(), nn.Linear(3072, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(),
        nn.Linear(256, 10),
    )  # fmt: skip


def gradients(model, lossy):
    model = copy.deepcopy(model)
    with actdma.offload(model, backend="native", lossy=lossy) as session:
        F.cross_entropy(model(images[0]), labels[0]).backward()
    weights = {n: p.grad.flatten() for n, p in model.named_parameters() if p.ndim > 1}
    return weights, session.report().totals()


rules = {
    "convolutional": (
        convolutional(),
        {f"Pool({k})": {nn.Conv2d: actdma.Pool(k)} for k in (2, 4, 8)},
    ),
    "perceptron": (
        perceptron(),
        {f"Bsr(8, {d})": {nn.Linear: actdma.Bsr(8, density=d)} for d in (0.5, 0.3, 0.1)},
    ),
}
figure, axes = plt.subplots(1, 2, figsize=(10, 3.5), layout="constrained", sharey=True)
for axis, (name, (model, lossy)) in zip(axes, rules.items()):
    exact, _ = gradients(model, None)
    for rule, modules in lossy.items():
        found, _ = gradients(model, modules)
        cosines = [F.cosine_similarity(found[n], exact[n], 0).item() for n in exact]
        axis.plot(list(exact), cosines, marker="o", label=rule)
    axis.set_title(name)
    axis.legend(frameon=False)
axes[0].set_ylabel("cosine with the exact gradient")
plt.show()

# %% [markdown]
# ## Does it still learn?


# %%
def train(model, lossy):
    model = copy.deepcopy(model)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    losses = []
    for x, y in zip(images, labels):
        with actdma.offload(model, backend="native", lossy=lossy):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        losses.append(loss.item())
    return losses


figure, axes = plt.subplots(1, 2, figsize=(10, 3.5), layout="constrained")
for axis, (name, (model, lossy)) in zip(axes, rules.items()):
    for rule, modules in {"exact": None, **lossy}.items():
        axis.plot(train(model, modules), label=rule)
    axis.set(title=name, xlabel="step", ylabel="loss")
    axis.legend(frameon=False)
plt.show()

# %% [markdown]
# This is a toy. What it does to accuracy on CIFAR-10, and to memory and time, is measured in `docs/lossy.md`.
#
# `session.plan()` says which rules gained something, and what is held of each tensor:

# %%
with actdma.offload(
    rules["convolutional"][0], backend="native", lossy={nn.Conv2d: actdma.Pool(2)}
) as session:
    F.cross_entropy(rules["convolutional"][0](images[0]), labels[0])
print(session.plan())
