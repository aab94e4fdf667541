"""What only looks as if it could be made again, or held as less: gradients keep their bits."""

import copy
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import actdma
from sessions import offload


def autocast():
    return torch.autocast("cpu", dtype=torch.bfloat16)


def norms(dtype=torch.float32):
    """Convolutions around a batch norm with weights that are not one."""
    model = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Conv2d(8, 8, 3))
    with torch.no_grad():
        model[1].weight.uniform_(0.5, 1.5)
        model[1].bias.normal_()
    return model.to(dtype), torch.randn(8, 8, 16, 16).to(dtype)


def linear(dtype=torch.float32, rows=256):
    return nn.Linear(64, 64).to(dtype), torch.randn(rows, 64).to(dtype)


def normalised(model, x, part=lambda z: z):
    """Of an ordinary input first, so that what was found out for that is there to mislead."""
    z = F.silu(model[1](x * 1.0)).pow(2).sum()
    return z + F.silu(model[1](part(model[0](x)))).pow(2).mean()


def relu_of_norm(model, x):
    """After a batch norm whose weights are one, to mislead."""
    y = model[2](F.relu(nn.BatchNorm2d(8).to(x.dtype)(x * 1.0))).float().pow(2).mean()
    return y + model[2](F.relu(model[1](model[0](x)))).float().pow(2).mean()


def promoted(change, model, x):
    """A bfloat16 tensor changed in place by a float32 one."""
    with autocast():
        h = F.gelu(model(x))
        change(h, model.bias.detach() * 3)
        return F.linear(h, model.weight).float().pow(2).mean()


def logged(change, model, x):
    """Something is computed of a tensor and never differentiated, then the tensor is changed."""
    h = model(x)
    statistic = h.pow(2).mean()
    change(h)
    return h.pow(3).mean() + 0 * statistic.detach()


def padded(model, x):
    h = model(x)
    statistic = h.pow(2).mean()
    y = F.pad(h, (1, 1))
    h.zero_()
    return F.silu(y).pow(2).mean() + 0 * statistic.detach()


def clamped(bound, model, x):
    y = F.hardtanh_(model(x) * 2, -bound, bound)
    return F.hardtanh(y, -bound, bound).float().pow(2).mean()


def product_of_parts(model, x):
    a, b = torch.exp(model(x)).chunk(2, 1)
    with autocast():
        return F.linear(a, b).float().pow(2).mean()


def slices(model, x):
    h = torch.tanh(model(x)).clone()
    rest = x.cos().sum() + h[:-1, ::2].pow(3).sum() + h[1:, ::2].pow(2).sum()
    return h[:-1].pow(2).sum() + rest


def frozen(model, x):
    with torch.inference_mode():
        f = model(x)
    return model(F.relu(f).clone() + F.hardtanh(f).clone()).mean()


def chain(model, x):
    h = model(x)
    first = h.sin().sum()
    for _ in range(300):
        h = h * 0.999
    return h.pow(2).mean() + first


def unsafe_parts(model, x):
    a, b = torch.unsafe_chunk(F.relu_(model[1](model[0](x))), 2, 1)
    a = a.mul_(3.0)
    return a.pow(2).mean() + b.pow(3).mean()


def pooled(model, x):
    return F.max_pool2d(model[0](x), 2, stride=()).pow(2).mean()


HALF = (torch.bfloat16, torch.float16)
PARTS = {
    "channels": lambda z: z.transpose(1, 2)[:, :8],
    "rows": lambda z: z[:, :, ::2],
    "columns": lambda z: z[..., ::2],
    "images": lambda z: z[::2],
    "same image": lambda z: z[:1].expand(8, -1, -1, -1),
    "channels_last": lambda z: z.contiguous(memory_format=torch.channels_last),
}
CASES = {
    **{f"batch norm of {dtype}": (relu_of_norm, partial(norms, dtype)) for dtype in HALF},
    **{f"batch norm of {n}": (partial(normalised, part=p), norms) for n, p in PARTS.items()},
    "float32 added to bfloat16": (partial(promoted, torch.Tensor.add_), linear),
    "bfloat16 times float32": (partial(promoted, torch.Tensor.mul_), linear),
    "logged, then added to": (partial(logged, lambda h: h.add_(1)), linear),
    "logged, then scaled": (partial(logged, lambda h: h.mul_(0.5)), linear),
    "large, logged, then added to": (
        partial(logged, lambda h: h.add_(1)),
        partial(linear, rows=4096),
    ),
    "padded, then set to zero": (padded, linear),
    **{
        f"clamped to {bound} in {dtype}": (partial(clamped, bound), partial(linear, dtype))
        for bound in (0.1, 0.7, 1.3, 1.0)
        for dtype in HALF
    },
    "parts of one tensor multiplied": (product_of_parts, linear),
    "slices that overlap": (slices, partial(linear, rows=4096)),
    "inference tensors": (frozen, linear),
    "a long chain": (chain, linear),
    "unsafe_chunk": (unsafe_parts, norms),
    "no stride": (pooled, norms),
}


def gradients(step, model, x, **options):
    model, x = copy.deepcopy(model), x.clone().requires_grad_()
    if options:
        with offload(model, backend="native", min_bytes=0, **options):
            loss = step(model, x)
    else:
        loss = step(model, x)
    loss.backward()
    return [x.grad, *(p.grad for p in model.parameters())]


WAYS = {
    "packed": {"codec": "zve"},
    "raw": {"codec": "raw"},
    "kept": {"codec": "raw", "min_ratio": 2},
}


@pytest.mark.parametrize("queue_bytes", [0, 1 << 24], ids=["at once", "by a thread"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CASES)
def test_gradients_have_the_plain_bits(name, way, queue_bytes):
    step, build = CASES[name]
    torch.manual_seed(1)
    model, x = build()
    plain = gradients(step, model, x)
    told = ""
    try:
        exact = gradients(step, model, x, exact=True, queue_bytes=queue_bytes, **WAYS[way])
    except RuntimeError as error:
        told = str(error)
    if told:  # a thread cannot have copied what is changed at once
        assert queue_bytes
        assert "before a thread had packed it" in told
    else:
        assert all(a is b or torch.equal(a, b) for a, b in zip(plain, exact, strict=True))


def test_autocast_parameters_changed_before_backward_are_told():
    model, x = linear()
    with offload(model, exact=True, min_bytes=0), autocast():
        loss = model(model(x)).float().pow(2).mean()
    with torch.no_grad():
        model.weight.mul_(0.5)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_rules_that_held_for_nothing_are_told():
    model, x = norms()
    rules = {nn.Conv2d: actdma.Bsr(16, density=0.1), "typo.*": actdma.Pool(2), nn.ReLU: None}
    session = offload(model, lossy=rules)
    assert not session.report().no_gain
    with session:
        model(x)
    conv, typo = session.report().no_gain
    assert (conv.module, conv.why) == ("Conv2d", "it is not for conv2d")
    assert typo.module == "typo.*"
    assert "has run" in typo.why
    assert "typo.*" in str(session.plan())
