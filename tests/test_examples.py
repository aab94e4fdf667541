"""Each example runs as a user would run it, with small arguments."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples"
# test_ranks.py runs ddp.
EXAMPLES = sorted(p for p in FOLDER.glob("*.py") if p.stem not in ("common", "ddp"))
NAMES = {
    "amp_accumulation",
    "huggingface_trainer",
    "lightning_resnet",
    "resnet",
    "transformer",
    "unet_diffusion",
}


def run(path, folder, *arguments):
    env = {**os.environ, "ACTDMA_BOARD": "emulated", "PYTHONPATH": str(ROOT / "host")}
    command = [sys.executable, path, *arguments]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=500)


def test_there_are_examples():
    assert {path.stem for path in EXAMPLES} == NAMES


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("arguments", [(), ("--codec", "zvc", "--no-exact")], ids=" ".join)
def test_an_example_trains_and_says_what_was_held(path, arguments, tmp_path):
    done = run(path, tmp_path, "--steps", "2", "--batch", "4", *arguments)
    assert done.returncode == 0, done.stderr
    assert "100%" in done.stderr + done.stdout  # the bar
    plain, raw, stored, held = (
        float(re.search(rf"{row} +([\d.]+) MB", done.stdout)[1])
        for row in ("PyTorch would hold", "raw", "stored", "held for backward")
    )
    assert 0 < stored < raw <= plain
    assert 0 < held < plain
    assert list(tmp_path.iterdir()) == []  # nothing is left lying about


@pytest.mark.slow
def test_an_example_through_the_emulated_board(tmp_path):
    done = run(FOLDER / "resnet.py", tmp_path, "--steps", "1", "--batch", "2", "--backend", "board")
    assert done.returncode == 0, done.stderr
    assert "through the emulated FPGA board" in done.stdout


@pytest.mark.slow
def test_bad_arguments_end_in_a_sentence(tmp_path):
    done = run(FOLDER / "resnet.py", tmp_path, "--steps", "0")
    assert done.returncode == 2
    assert "--steps 0 --batch 32: both must be at least 1" in done.stderr
