"""The studies of docs/evaluation.md: what they count, on data whose figures are known, and each of
their commands on little data."""

import json
import subprocess
import sys
from pathlib import Path

import counted
import density
import numpy as np
import pytest
import torch
from graph import holdings
from hypothesis import given, settings
from hypothesis import strategies as st
from saved import MAP_ORDERS, Saved, Sizes, quantised, run_coded_bytes, saved_by
from torch import nn
from torch.nn import functional as F

from actdma.codecs import parameters
from actdma.frame import BLOCK_BYTES, Codec, DType
from actdma.native import NativeBackend

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def payload_bytes(elements, dtype, codec):
    """By the trailer of the codec's only frame."""
    frame = NativeBackend().compress(elements.view(np.uint8), dtype, codec)
    return int(np.frombuffer(bytes(frame)[-64:], "<u8")[3])


def activations(count, zeros, seed, deviation=3.0):
    """Float32 of very unlike magnitudes, runs of zeros among them, half of them never negative."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(count) * np.exp(deviation * rng.standard_normal(count))
    values[: count // 2] = np.abs(values[: count // 2])
    runs = np.repeat(rng.random(-(-count // 5)) < zeros, 5)[:count]
    values[runs | (rng.random(count) < zeros / 2)] = 0
    return values.astype(np.float32)


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(1, 10_000),
    zeros=st.sampled_from([0, 0.01, 0.3, 0.9, 1]),
    deviation=st.sampled_from([0.0, 0.5, 20.0]),
    dtype=st.sampled_from([DType.float32, DType.bfloat16, DType.float16]),
    seed=st.integers(0, 1000),
)
def test_counted_sizes_are_those_of_the_codec(count, zeros, deviation, dtype, seed):
    values = torch.from_numpy(activations(count, zeros, seed, deviation))
    cast = values.to(getattr(torch, dtype.name))
    elements = cast.view(torch.uint8).numpy().view(f"u{dtype.itemsize}")
    assert counted.zvc_bytes(elements, BLOCK_BYTES) == payload_bytes(elements, dtype, Codec.ZVC)
    bits = parameters(Codec.ZVE, dtype)[0]
    zve = counted.zve_bytes(elements, bits, BLOCK_BYTES, 32)
    assert zve == payload_bytes(elements, dtype, Codec.ZVE)


def test_sizes_with_other_blocks_and_groups():
    """64 float32 elements, every second of them 1.0, in blocks of 128 bytes: a word of W0, one of
    mask, 16 of data; under zve with groups of 8 two headers, 24 bits, and 23 planes of 8 each."""
    elements = np.zeros(64, np.float32)
    elements[::2] = 1
    assert counted.zvc_bytes(elements.view(np.uint32), 128) == 2 * 4 * (1 + 1 + 16)
    assert counted.zve_bytes(elements.view(np.uint32), 8, 128, 8) == 2 * 4 * (
        1 + 1 + 1 + 2 * 23 // 4 + 1
    )
    assert counted.zve_bytes(elements.view(np.uint32), 8, 256, 32) == 4 * (1 + 2 + 1 + 23)


def test_element_runs():
    elements = np.array([0] * 300 + [7] * 2 + [0], np.float32)
    assert run_coded_bytes(elements) == 3 + 1 + 2 * 4 + 1
    dense = np.ones(100, np.float32)
    assert run_coded_bytes(dense) == 400  # one byte more would be longer than raw


def test_quantised():
    values = torch.tensor([0.0, -2.0, 1.0, 0.004, 0.009])
    assert quantised(values).tolist() == [0, -127, 64, 0, 1]
    assert quantised(torch.zeros(3)).tolist() == [0, 0, 0]


def saved(values):
    array = np.ascontiguousarray(values)
    flat = array.reshape(-1).view(np.uint8)
    return Saved("layer", "operator", array.shape, DType[array.dtype.name], flat)


def test_orders_of_memory():
    maps = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
    assert saved(maps).is_map
    assert not saved(maps[0]).is_map
    for order in MAP_ORDERS:
        axes = ["NCHW".index(letter) for letter in order]
        found = saved(maps).ordered(order).data.view(np.float32)
        assert (found == maps.transpose(axes).reshape(-1)).all()


def small_network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.Flatten(),
        nn.Linear(8 * 8 * 8, 10),
    )


IMAGES = torch.randn(4, 3, 16, 16, generator=torch.Generator().manual_seed(1))


def test_what_a_step_saves_tensor_by_tensor():
    found = saved_by(small_network(), IMAGES)
    shapes = [(4, 3, 16, 16), (4, 8, 16, 16), (4, 8, 8, 8), (4, 8, 8, 8), (4, 512)]
    assert [entry.shape for entry in found] == shapes
    assert [entry.module for entry in found] == ["0", "1", "3", "4", "6"]
    assert (found[0].data.view(np.float32) == IMAGES.numpy().reshape(-1)).all()
    relu = F.relu(small_network()[0](IMAGES)).detach().numpy()
    assert (found[1].data.view(np.float32) == relu.reshape(-1)).all()
    sizes = Sizes.total(Sizes.of(entry) for entry in found)
    assert sizes.raw == 4 * sum(int(np.prod(shape)) for shape in shapes)
    assert sizes.zeros == int((relu == 0).sum()) + int(
        (F.max_pool2d(torch.tensor(relu), 2) == 0).sum()
    )
    assert 0.9 < sizes.ratios["raw"] < 1 < sizes.ratios["zvc"] < sizes.ratios["auto"]


def test_holdings_by_role():
    model = small_network()
    found = holdings(model, F.cross_entropy(model(IMAGES), torch.arange(4)))
    by_role = {storage.role: storage for storage in found}
    maps = 4 * 8 * 4
    expected = {
        "convolution input": 4 * 3 * 16**2 * 4 + maps * 8**2,
        "ReLU output = pooling input": maps * 16**2,
        "pooling indices": 2 * maps * 8**2,
        "batch norm input": maps * 8**2,
        "linear input": maps * 8**2,
    }
    sums = {role: sum(s.nbytes for s in found if s.role == role) for role in by_role}
    assert sums == expected
    assert by_role["ReLU output = pooling input"].saves == 2
    assert 0.3 < by_role["ReLU output = pooling input"].zeros < 0.7


def test_densities_count_each_relu_and_pooling():
    model = small_network()
    by_layer, overall = density.densities(model, IMAGES)
    relu = F.relu(model[0](IMAGES))
    pooled = F.max_pool2d(relu, 2)
    kept = [int(t.count_nonzero()) for t in (relu, pooled)]
    assert by_layer == {"1": kept[0] / relu.numel(), "2": kept[1] / pooled.numel()}
    assert overall == sum(kept) / (relu.numel() + pooled.numel())


def figures(script, folder, *options):
    """What a script writes to its JSON; its table and pictures must be there as well."""
    outputs = ("--json", folder / "figures.json", "--docs", folder / "study.md")
    command = [sys.executable, BENCHMARKS / script, *options, *outputs, "--threads", "1"]
    subprocess.run([*command, "--plot", folder / "plot.png"], check=True, timeout=300, cwd=folder)
    assert (folder / "plot.png").stat().st_size > 10_000
    text = (folder / "study.md").read_text()
    assert "](plot.png)\n\n" in text
    assert "\n\n| network |" in text
    return json.loads((folder / "figures.json").read_text())["figures"]


SMALL = ("--network", "ResNet-20", "--batch", "2")


@pytest.mark.slow
def test_ratios_command(tmp_path):
    found = figures("ratios.py", tmp_path, *SMALL, "--layers", tmp_path / "layers.png")
    assert [f["dtype"] for f in found] == ["float32", "bfloat16", "float16", "int8", "int64"]
    single, half, _, integer, indices = found
    assert single["raw_bytes"] == 2 * half["raw_bytes"] == 4 * integer["raw_bytes"]
    assert single["weights"] == "random"
    assert single["raw_bytes"] == sum(layer["raw_bytes"] for layer in single["layers"])
    assert all(f["ratios"]["auto"] > f["ratios"]["zvc"] > 1 > f["ratios"]["raw"] for f in found)
    assert indices["ratios"]["auto"] > 5
    assert (tmp_path / "layers.png").stat().st_size > 10_000


@pytest.mark.slow
def test_layouts_command(tmp_path):
    found = figures("layouts.py", tmp_path, *SMALL)
    assert [f["order"] for f in found] == 2 * ["NCHW", "NHWC", "CHWN"]
    ratios = {f["order"]: f["ratios"] for f in found if f["dtype"] == "float32"}
    assert ratios["NCHW"]["zvc"] == pytest.approx(ratios["CHWN"]["zvc"], rel=0.02)
    assert ratios["NCHW"]["deflate"] != ratios["CHWN"]["deflate"]


@pytest.mark.slow
def test_blocks_command(tmp_path):
    found = figures("blocks.py", tmp_path, *SMALL)
    assert len(found) == 2 * (8 + 8 + 4)
    assert all(1 < f["ratio"] < 3 for f in found)


@pytest.mark.slow
def test_holdings_command(tmp_path):
    found = figures("holdings.py", tmp_path, *SMALL)
    shares = {f["role"]: f["share"] for f in found}
    assert sum(shares.values()) == pytest.approx(1)
    assert max(shares, key=shares.get) == "batch norm input"


@pytest.mark.slow
def test_density_command(tmp_path):
    """On images of noise; a second run takes what the first has found."""
    rng = np.random.default_rng(0)
    images = {f"x_{part}": rng.integers(0, 256, (400, 32, 32, 3), np.uint8) for part in PARTS}
    labels = {f"y_{part}": rng.integers(0, 10, 400, np.uint8) for part in PARTS}
    np.savez(tmp_path / "cifar10_subset.npz", **images, **labels)
    options = ("--data", tmp_path, "--network", "AlexNet", "--epochs", "1", "--images", "400")
    options = (*options, "--results", tmp_path / "results")
    (found,) = figures("density.py", tmp_path, *options)
    fractions = [point["fraction"] for point in found["points"]]
    assert fractions[0] == 0
    assert fractions[-1] == 1
    assert found["trained"]["density"] != found["random"]["density"]
    assert all(0 < d < 1 for point in found["points"] for d in point["density"].values())
    assert figures("density.py", tmp_path, *options) == [found]


PARTS = ("train", "test")
