"""Networks that nobody thought of: random chains and residuals of operators, with every option of
`offload`, whose gradients have the plain run's bits."""

import contextlib
import copy
import random

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sessions import offload

pytestmark = pytest.mark.usefixtures("one_thread")

SIDE = 12
FEWEST, MOST = 3, 14  # layers


class Apply(nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Residual(nn.Module):
    """What layers that keep the shape give, added to what they got: before it, behind it, in place,
    or multiplied with it."""

    def __init__(self, layers, how):
        super().__init__()
        self.layers, self.how = nn.Sequential(*layers), how

    def forward(self, x):
        y = self.layers(x)
        if self.how == "in place":
            y += x * 1
            return y
        return {"before": x + y, "behind": y + x, "times": x * y}[self.how] if self.how else y


class Scale(nn.Module):
    """A scale and a shift per channel."""

    def __init__(self, channels):
        super().__init__()
        self.scale, self.shift = (nn.Parameter(torch.randn(channels, 1, 1)) for _ in range(2))

    def forward(self, x):
        return x * self.scale + self.shift


def sometimes(draw):
    return draw.random() < 0.4


def window(draw):
    return draw.choice([(2, 2), (3, 2, 1), (3, 1, 1), ((2, 3), 2)])


# What keeps the number of channels, and may make maps smaller.
LAYERS = {
    "conv": lambda draw, c: nn.Conv2d(c, c, draw.choice([1, 3]), padding=1, bias=sometimes(draw)),
    "grouped": lambda draw, c: nn.Conv2d(c, c, 3, padding=1, groups=c // 2),
    "batch norm": lambda draw, c: nn.BatchNorm2d(c, momentum=draw.choice([0.1, None])),
    "frozen": lambda draw, c: nn.BatchNorm2d(c).eval(),
    "group norm": lambda draw, c: nn.GroupNorm(2, c),
    "layer norm": lambda draw, c: Apply(lambda x: F.layer_norm(x, x.shape[-1:])),
    "relu": lambda draw, c: nn.ReLU(sometimes(draw)),
    "relu6": lambda draw, c: nn.ReLU6(sometimes(draw)),
    "leaky": lambda draw, c: nn.LeakyReLU(0.1, sometimes(draw)),
    "hardtanh": lambda draw, c: nn.Hardtanh(-0.5, 0.5, sometimes(draw)),
    "gelu": lambda draw, c: nn.GELU(draw.choice(["none", "tanh"])),
    "silu": lambda draw, c: nn.SiLU(sometimes(draw)),
    "hardswish": lambda draw, c: nn.Hardswish(sometimes(draw)),
    "tanh": lambda draw, c: nn.Tanh(),
    "dropout": lambda draw, c: nn.Dropout(0.3, sometimes(draw)),
    "max pool": lambda draw, c: nn.MaxPool2d(*window(draw)),
    "average pool": lambda draw, c: nn.AvgPool2d(2, 1, 1),
    "pad": lambda draw, c: Apply(lambda x: F.pad(x, (1, 0, 0, 1))),
    "scale": lambda draw, c: Scale(c),
    "add": lambda draw, c: Apply(lambda x: x + 1.5),
    "transposed": lambda draw, c: Apply(lambda x: x.transpose(2, 3)),
    "part": lambda draw, c: Apply(lambda x: x[..., 1:]),
}
SHAPE_KEPT = (
    *("batch norm", "group norm", "relu", "relu6", "leaky", "gelu", "silu", "hardswish"),
    *("dropout", "scale", "add", "tanh", "hardtanh"),
)


def network(draw):
    """A stem, random layers, logits; and how many images its batch has."""
    channels, layers = draw.choice([4, 8]), []
    for _ in range(draw.randint(FEWEST, MOST)):
        name = draw.choice([*LAYERS, "residual", "residual", "conv", "batch norm", "relu"])
        if name == "residual":
            inner = [
                LAYERS[draw.choice(SHAPE_KEPT)](draw, channels) for _ in range(draw.randint(1, 4))
            ]
            first = nn.Conv2d(
                channels, channels, 3, padding=1
            )  # as nothing in place may come first
            how = draw.choice(["before", "behind", "in place", "times"])
            layers.append(Residual([first, *inner], how))
        else:
            layers.append(LAYERS[name](draw, channels))
    stem = nn.Conv2d(3, channels, 3, padding=1)
    head = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * channels, 5))
    return nn.Sequential(stem, *layers, head)


def step(model, x, labels, dtype, **options):
    """Loss, gradients and buffers of two steps in the session, each with dropout of its own seed;
    an error's text in place of them."""
    model = copy.deepcopy(model)
    found = []
    for seed in range(2):
        torch.manual_seed(seed)
        model.zero_grad(set_to_none=True)
        mine = x.clone(memory_format=torch.preserve_format).requires_grad_()
        session = offload(model, **options) if options else contextlib.nullcontext()
        autocast = torch.autocast("cpu", torch.bfloat16, enabled=dtype == "autocast")
        try:
            with session, autocast:
                loss = F.cross_entropy(model(mine).float(), labels)
            loss.backward()
        except RuntimeError as error:
            return str(error)
        grads = [mine.grad, *(p.grad for p in model.parameters())]
        found += [loss.detach(), *grads, *(b.clone() for b in model.buffers())]
    return found


def as_bits(tensors):
    return [
        None if t is None else t.detach().contiguous().reshape(-1).view(torch.uint8)
        for t in tensors
    ]


def check(seed):
    draw = random.Random(seed)
    torch.manual_seed(seed)
    model = network(draw)
    x, labels = torch.randn(draw.choice([2, 5]), 3, SIDE, SIDE), torch.randint(5, (5,))
    labels = labels[: len(x)]
    dtype = draw.choice(["float32", "bfloat16", "autocast"])
    if dtype == "bfloat16":
        model, x = model.bfloat16(), x.bfloat16()
    if draw.random() < 0.4:
        model, x = (t.to(memory_format=torch.channels_last) for t in (model, x))
    options = {
        "codec": draw.choice(["zvc", "auto", "raw"]),
        "exact": draw.random() < 0.8,
        "min_bytes": draw.choice([0, 0, 4096]),
        "min_ratio": draw.choice([0, 1.05]),
        "queue_bytes": draw.choice([0, 0, 1 << 20]),
        "verify": draw.random() < 0.5,
    }
    plain = step(model, x, labels, dtype)
    mine = step(model, x, labels, dtype, **options)
    context = f"seed {seed}, {dtype}, {options}, {model}"
    if isinstance(plain, str):
        assert isinstance(mine, str), f"no error, where there is {plain}: {context}"
        assert mine[:60] == plain[:60], context
        return
    assert not isinstance(mine, str), f"{mine}: {context}"
    for number, (a, b) in enumerate(zip(as_bits(plain), as_bits(mine), strict=True)):
        assert (a is None) == (b is None), context
        assert a is None or torch.equal(a, b), f"tensor {number} differs: {context}"


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_random_networks_have_the_plain_bits(first):
    for seed in range(first, first + 20):
        check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(200, 1400, 100))
def test_many_random_networks_have_the_plain_bits(first):
    for seed in range(first, first + 100):
        check(seed)
