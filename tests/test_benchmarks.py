"""The benchmarks of memory, of a step's cost, of exact sessions and of the block-sparse product,
on little data."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def figures(script, path, *options):
    """What a script writes, by row; it fails if gradients differ from the plain step's."""
    command = [sys.executable, BENCHMARKS / script, *options, "--json", path]
    subprocess.run(command, check=True, timeout=300)
    return json.loads(path.read_text())["figures"]


def told(script, *options):
    """What a script says where it ends with an error, or warns."""
    command = [sys.executable, BENCHMARKS / script, *options]
    return subprocess.run(command, timeout=300, capture_output=True, text=True).stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--data", "nowhere"), "--data: nowhere is not a folder"),
        (("--batch", "0"), "--batch: 0 is not a whole number from 1 on"),
        (("--threads", "two"), "--threads: two is not a whole number from 1 on"),
        (("--network", "resnet21"), "invalid choice: 'resnet21'"),
    ],
)
def test_bad_arguments_are_named(options, message):
    assert message in told("holdings.py", *options)


def test_what_stands_in_for_missing_data_is_said(tmp_path):
    options = ("--network", "resnet20", "--batch", "1", "--data", tmp_path)
    said = told("holdings.py", *options, "--json", tmp_path / "figures.json")
    assert "no weights/resnet20_cifar10.pt; random weights and images stand in" in said
    assert "stand-ins" in (tmp_path / "figures.json").read_text()


@pytest.mark.slow
def test_memory(tmp_path):
    batch = 4
    found = figures(
        "memory.py",
        tmp_path / "figures.json",
        *("--network", "ReLU CNN, initialised", "--dtype", "float32", "--batch", str(batch)),
        *("--variant", "auto", "checkpointing", "--plot", tmp_path / "plot.png"),
    )
    rows = {f["row"]: f for f in found if f["order"] == "contiguous"}
    # Per image: itself, and of every stage what ReLU gave, the maxima and their indices.
    stages = [(32, 32), (64, 16), (128, 8), (256, 4)]
    maps = sum(c * side**2 * 4 + c * (side // 2) ** 2 * (4 + 8) for c, side in stages)
    logits, labels, weight = 10 * 4, 8, 4
    expected = batch * (3 * 32**2 * 4 + maps + logits + labels) + weight
    assert rows["plain"]["held"] == expected
    stored = sum(r["stored_bytes"] for r in rows["auto"]["records"])
    assert stored < rows["auto"]["held"] < 0.5 * expected
    # At its peak the first stage is there, and the input of the others.
    assert rows["checkpointing"]["held"] < 0.6 * expected
    assert all(f["tracker"] > 0 and f["rss"] > 0 and f["rss_trimmed"] > 0 for f in found)
    assert (tmp_path / "plot.png").stat().st_size > 10_000


@pytest.mark.slow
def test_step(tmp_path):
    options = ("--network", "ResNet-20", "--batch", "4", "--rounds", "2")
    found = figures("step.py", tmp_path / "figures.json", *options)
    rows = {f["row"]: f for f in found}
    assert rows["identity hook"]["held"] == rows["plain"]["held"]
    assert rows["auto"]["held"] < rows["zvc"]["held"] < rows["plain"]["held"]
    assert rows["zvc"]["ratio"] > 1
    assert 0 < rows["zvc"]["hooks_of_step"] < 1


@pytest.mark.slow
def test_exact(tmp_path):
    batch, options = 4, ("--network", "ReLU CNN, trained", "--dtype", "float32", "--rounds", "2")
    found = figures("exact.py", tmp_path / "figures.json", *options, "--batch", str(batch))
    rows = {f["row"]: f for f in found}
    plain, exact, coded = (rows[name] for name in ("plain", "exact", "exact + auto"))
    # Per image: itself, the maxima of every stage, and two bits for each place in a window.
    maxima = [c * side**2 for c, side in ((32, 16), (64, 8), (128, 4), (256, 2))]
    values = 4 * batch * (3 * 32**2 + sum(maxima))
    assert values < exact["held"] < 0.4 * plain["held"]
    assert coded["held"] < exact["held"] <= exact["peak"] < plain["held"]
    assert exact["smaller"] == plain["held"] / exact["held"]
    assert all(f["tracker"] > 0 and f["rss"] > 0 and f["wall_of_plain"] > 0 for f in found)


@pytest.mark.slow
def test_block_sparse(tmp_path):
    options = ("--size", "256", "96", "128", "--rounds", "3", "--density", "0", "0.25", "1")
    found = figures(
        "block_sparse.py",
        tmp_path / "figures.json",
        *(*options, "--block", "8", "32", "--plot", tmp_path / "plot.png"),
    )
    assert [(f["block"], f["density"]) for f in found] == [
        (block, density) for block in (8, 32) for density in (0, 0.25, 1)
    ]
    assert [f["kept_bytes"] for f in found] == 2 * [0, 256 * 128, 4 * 256 * 128]
    assert all(f["sparse_s"] > 0 and f["dense_s"] > 0 and f["ratio"] > 0 for f in found)
    assert (tmp_path / "plot.png").stat().st_size > 10_000
