"""The experiments with lossy activations: runs that resume, their arithmetic, a short command."""

import copy
import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from lossy.data import Data, Part, augmented, load
from lossy.gradients import quality
from lossy.intervals import interval, paired
from lossy.rows import ALONE, BASELINE, STACKED, rules
from lossy.summary import Result, at_best, lines
from lossy.training import Run, Schedule, epoch_seed, train, trained
from torch import nn

from actdma.codecs import Bsr, Pool
from actdma.measure import zoo
from actdma.measure.inputs import InputError

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"

# On a busy machine two threads do not repeat a first step's bits, even in plain PyTorch.
pytestmark = pytest.mark.usefixtures("one_thread")

SCHEDULE = Schedule(epochs=3, rate=1e-4, batch=8)


def part(count):
    generator = torch.Generator().manual_seed(count)
    labels = torch.randint(10, (count,), generator=generator)
    return Part(torch.randn(count, 3, 32, 32, generator=generator), labels)


@pytest.fixture(scope="module")
def parts():
    return Data(part(24), part(10), part(20))


def run(**changes):
    base = Run("relu-cnn", {}, False, BASELINE, ALONE, SCHEDULE, 1, 34)
    return dataclasses.replace(base, **changes)


class StopError(Exception):
    pass


def stop_after(epochs):
    seen = []

    def epoch_done(figures):
        seen.append(figures)
        if len(seen) == epochs:
            raise StopError

    return epoch_done


def accuracies(result):
    kept = [{k: v for k, v in epoch.items() if k != "seconds"} for epoch in result["history"]]
    return kept, result["validation"], result["test"]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"row": "pool2", "setting": ALONE},
        {"row": "pool2", "setting": STACKED},
        {
            "network": "resmlp-s12",
            "options": {"width": 16, "depth": 1, "side": 32, "patch": 8, "classes": 10},
            "row": "bsr8-0.3",
            "schedule": dataclasses.replace(SCHEDULE, optimiser="adamw"),
        },
    ],
)
def test_a_stopped_run_comes_to_the_same_result(parts, tmp_path, options):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    expected = train(run(**options), parts, tmp_path, whole)
    for epochs in (1, 2):
        with pytest.raises(StopError):
            train(run(**options), parts, tmp_path, broken, epoch_done=stop_after(epochs))
    epochs = []
    result = train(run(**options), parts, tmp_path, broken, epoch_done=epochs.append)
    assert accuracies(result) == accuracies(expected)
    assert epochs == result["history"]
    assert train(run(**options), parts, tmp_path, broken) == result  # is not done again
    assert len(list(broken.iterdir())) == (1 if "row" in options else 2)  # weights of baselines


def test_a_baselines_weights_stay(parts, tmp_path):
    done = run()
    result = train(done, parts, tmp_path, tmp_path)
    model = trained(done, tmp_path, tmp_path).eval()
    with torch.no_grad():
        right = (model(parts.test.images).argmax(1) == parts.test.labels).float().mean()
    assert result["test"] == pytest.approx(100 * right)
    assert not torch.equal(model[0][0].weight, done.model(tmp_path)[0][0].weight)


def test_seeds_schedules_and_rows_make_other_runs(parts, tmp_path):
    runs = [
        *(run(), run(seed=2), run(row="pool2"), run(row="pool2", setting=STACKED)),
        run(schedule=dataclasses.replace(SCHEDULE, rate=2e-4)),
    ]
    assert len({r.file(tmp_path, ".json") for r in runs}) == len(runs)
    losses = [train(r, parts, tmp_path, tmp_path)["history"][0]["loss"] for r in runs[:3]]
    assert losses[0] != losses[1]


def test_every_seed_and_epoch_has_its_own_order():
    orders = {
        tuple(torch.randperm(9, generator=generator).tolist())
        for seed in range(6)
        for epoch in range(6)
        for generator in [torch.Generator().manual_seed(epoch_seed(seed, epoch))]
    }
    assert len(orders) == 36


def test_seeds_differ_from_the_same_weights(parts, tmp_path, monkeypatch):
    model = zoo.build("relu-cnn")
    monkeypatch.setattr(Run, "model", lambda self, weights: copy.deepcopy(model))
    losses = {train(run(seed=s), parts, tmp_path, tmp_path)["history"][0]["loss"] for s in range(4)}
    assert len(losses) == 4


def test_too_few_images(parts, tmp_path):
    with pytest.raises(ValueError, match="24 images do not fill a batch of 25"):
        train(
            run(schedule=dataclasses.replace(SCHEDULE, batch=25)), parts, tmp_path, tmp_path / "no"
        )


def test_schedule():
    schedule = Schedule(epochs=1, rate=0.4, warmup=0.2)
    rates = [schedule.rate_at(done) for done in (0, 0.1, 0.2, 0.6, 1)]
    assert rates == pytest.approx([0, 0.2, 0.4, 0.2, 0])


def test_intervals():
    # Student's t of 0.975 at 4 degrees of freedom: 2.776 in every table.
    found = interval([1, 2, 3, 4, 5])
    assert (found.mean, found.count) == (3, 5)
    assert found.half == pytest.approx(2.7764 * np.sqrt(2.5 / 5), rel=1e-4)
    assert found.low == pytest.approx(3 - found.half)
    assert interval([7]).low is None
    assert f"{interval([7]):+.1f}" == "+7.0"
    # The seeds' own scatter is not the difference's.
    mine, theirs = {1: 50.0, 2: 90.0, 3: 10.0}, {2: 91.0, 1: 51.0, 4: 0.0}
    assert paired(mine, theirs).mean == -1
    assert paired(mine, theirs).half == 0
    with pytest.raises(ValueError, match="no seed in common"):
        paired({1: 0.0}, {2: 0.0})


def test_best_schedules_are_chosen_in_validation():
    results = [
        Result("s", length, row, setting, seed, validation + seed, test + 2 * seed)
        for seed in (0, 1)
        for length, row, setting, validation, test in (
            ("short", BASELINE, ALONE, 60, 70),
            ("long", BASELINE, ALONE, 65, 60),  # worse in the test, but who knows
            ("short", "pool2", ALONE, 59, 58),
            ("long", "pool2", ALONE, 50, 69),
            ("long", "pool2", STACKED, 50, 61),
        )
    ]
    by_schedule = {(x.length, x.row, x.setting): x.difference.mean for x in lines(results)}
    assert by_schedule["short", "pool2", ALONE] == -12
    assert by_schedule["long", "pool2", ALONE] == 9
    best = {(x.row, x.setting): x for x in at_best(results)}
    assert {key: x.length for key, x in best.items()} == {
        (BASELINE, ALONE): "long",
        ("pool2", ALONE): "short",
        ("pool2", STACKED): "long",
    }
    assert best["pool2", ALONE].difference.mean == 58 - 60
    assert best["pool2", STACKED].difference.mean == 61 - 60


def test_rows():
    assert rules(BASELINE) == {}
    assert rules("pool4") == {nn.Conv2d: Pool(4)}
    assert rules("bsr16-0.15") == {nn.Linear: Bsr(16, density=0.15)}
    assert rules("pool4@layer1,pool2@layer2+conv") == {
        "layer1*": Pool(4),
        "layer2*": Pool(2),
        "conv*": Pool(2),
    }
    with pytest.raises(ValueError, match="'pool' is neither poolK nor bsrBLOCK-DENSITY"):
        rules("pool")
    with pytest.raises(ValueError, match="k is 3"):
        rules("pool3")


def test_augmented_images_are_crops_and_flips():
    image = torch.arange(1.0, 3 * 6 * 6 + 1).view(3, 6, 6)
    padded = nn.functional.pad(image, (4, 4, 4, 4))
    crops = [padded[:, top : top + 6, left : left + 6] for top in range(9) for left in range(9)]
    expected = {tuple(x.flatten().tolist()) for crop in crops for x in (crop, crop.flip(-1))}
    moved = augmented(image.expand(3000, 3, 6, 6), torch.Generator().manual_seed(0))
    assert {tuple(x.flatten().tolist()) for x in moved} == expected


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """CIFAR-10 in shape, noise in content."""
    rng, path = np.random.default_rng(0), tmp_path_factory.mktemp("data")
    arrays = {}
    for name, count in (("train", 80), ("test", 40)):
        arrays[f"x_{name}"] = rng.integers(0, 256, (count, 32, 32, 3), np.uint8)
        arrays[f"y_{name}"] = rng.integers(0, 10, count, np.uint8)
    np.savez(path / "cifar10_subset.npz", **arrays)
    return path


def test_parts_do_not_overlap(folder):
    found = load(folder, 60)
    assert [len(p) for p in (found.train, found.validation, found.test)] == [54, 6, 40]
    images = torch.cat([found.train.images, found.validation.images]).flatten(1)
    assert len(images.unique(dim=0)) == 60
    assert torch.equal(load(folder, 60).train.images, found.train.images)
    with pytest.raises(InputError, match="--images is 81, allowed are 10 to 80"):
        load(folder, 81)


def test_gradients_of_other_layers_are_exact():
    torch.manual_seed(0)
    found = quality(zoo.build("resnet20"), part(8), "pool2@layer2")
    for name, layer in found.items():
        if name.startswith("layer2"):
            assert 0.3 < layer["cosine"] < 1 - 1e-6, name
            assert 0.01 < layer["error"] < 1.5, name
        else:
            assert layer["error"] == 0, name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("experiment", "row", "dtype", "options"),
    [
        ("resnet", "pool2", "float32", ("--starts", "from scratch")),
        ("resmlp", "bsr16-0.15", "bfloat16", ()),
    ],
)
def test_command(folder, tmp_path, experiment, row, dtype, options):
    """Two steps of training, and everything that is said of them."""
    command = [sys.executable, "-m", f"lossy.{experiment}", "--data", folder, "--rows", row]
    command += ["--results", tmp_path, "--docs", tmp_path / "lossy.md", *options]
    command += ["--epochs", "1", "--seeds", "0", "1", "--images", "40", "--batch", "16"]
    command += ["--schedules", "short", "--rounds", "1", "--dtypes", dtype]
    subprocess.run(command, cwd=BENCHMARKS, env=os.environ, check=True, timeout=600)
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert [(x["row"], x["test"]["count"]) for x in figures["by_schedule"]] == [
        (BASELINE, 2),
        (row, 2),
    ]
    # What is there is not measured again: the seconds would differ.
    subprocess.run([*command, "--steps", "costs"], cwd=BENCHMARKS, check=True, timeout=600)
    assert json.loads((tmp_path / "figures.json").read_text()) == figures
    costs = {(f["row"], f["setting"]): f for f in figures["costs"] if f["dtype"] == dtype}
    assert len(costs) == len(figures["costs"]) == 2 * 2
    plain, alone = costs[BASELINE, ALONE], costs[row, ALONE]
    assert costs[BASELINE, STACKED]["gradients"] == plain["gradients"]
    assert alone["gradients"] != plain["gradients"]
    assert alone["held"] < 0.8 * plain["held"]
    assert costs[row, STACKED]["held"] < 0.65 * plain["held"]
    assert {g["weights"] for g in figures["gradients"]} == {
        "from scratch, first",
        "from scratch, last",
    }
    text = (tmp_path / "lossy.md").read_text()
    assert text.count(f"| {row} |") == 1 + 2 + 2
    assert (tmp_path / f"{experiment}.png").stat().st_size > 10_000
