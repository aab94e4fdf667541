"""The command line, as a user calls it."""

import json
import subprocess
import sys

import numpy as np
import pytest

import actdma
from actdma.cli import main

NETWORK = """
import torch
from torch import nn

def small():
    return nn.Sequential(
        nn.Conv2d(3, 4, 7, stride=4), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
        nn.Linear(64, 10),
    )

def number():
    return 3

def fails():
    raise KeyError("weights")

def frozen():
    return nn.Flatten()

def map():
    return nn.Conv2d(3, 2, 3)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with a model and an image."""
    image = pytest.importorskip("PIL.Image")
    (tmp_path / "network.py").write_text(NETWORK)
    (tmp_path / "images").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "a.png").write_text("this is no image")
    pixels = np.random.default_rng(0).integers(0, 256, (240, 320, 3), np.uint8)
    image.fromarray(pixels).save(tmp_path / "images" / "a.png")
    monkeypatch.chdir(tmp_path)
    return tmp_path


SMALL = ["measure", "--model", "network.py:small", "--data", "images", "--batch", "2"]


@pytest.mark.parametrize("backend", ["native", "board"])
def test_measure(folder, capsys, backend):
    assert main([*SMALL, "--backend", backend, "--csv", "deep/er/r.csv"]) == 0
    out = capsys.readouterr().out
    way = {"native": "the CPU's codec", "board": "the emulated FPGA board"}[backend]
    sentence = f"The gradients of the run through {way} are bit-identical to the plain run."
    assert sentence in out.splitlines()
    assert (folder / "deep/er/r.csv").is_file()
    assert (folder / "results/measure.png").read_bytes().startswith(b"\x89PNG")
    report = json.loads((folder / "results/measure.json").read_text())
    assert report["totals"]["gradients_identical"]
    assert report["environment"]["options"]["batch"] == 2


def test_what_measure_dumps_bench_reads(folder, capsys):
    assert main([*SMALL, "--backend", "native", "--dump", "saved"]) == 0
    count = len(list((folder / "saved").glob("*.actdma")))
    assert count == 2  # what the convolution and the linear layer keep
    bench = ["bench", "--dump", "saved", "--codec", "zvc", "--repeats", "1", "--json", "b.json"]
    assert main(bench) == 0
    found = json.loads((folder / "b.json").read_text())
    assert [row[:3] for row in found["rows"]] == [["saved", "float32", "zvc"]]
    assert "2 tensors" in found["caption"]
    assert main([*SMALL, "--backend", "native", "--dump", "saved"]) == 2
    assert "saved" in capsys.readouterr().err


def test_codec_of_the_dtype(folder):
    assert main([*SMALL, "--backend", "native", "--codec", "auto", "--json", "a.json"]) == 0
    records = json.loads((folder / "a.json").read_text())["records"]
    assert {r["codec"] for r in records if r["dtype"] == "float32"} == {"zve"}


def test_measure_in_bfloat16(folder):
    assert main([*SMALL, "--backend", "native", "--dtype", "bfloat16", "--json", "b.json"]) == 0
    records = json.loads((folder / "b.json").read_text())["records"]
    assert "bfloat16" in {r["dtype"] for r in records}
    assert "float32" not in {r["dtype"] for r in records}


def test_without_timing_nothing_is_modelled(folder, capsys):
    assert main([*SMALL, "--no-timing"]) == 0
    assert "modelled" not in capsys.readouterr().out
    report = json.loads((folder / "results/measure.json").read_text())
    assert report["totals"]["timing"] == "measured"
    assert {r["compress_cycles"] for r in report["records"]} == {None}


def test_a_model_by_module_name(folder, capsys):
    arguments = ["measure", "--model", "network:small", "--data", "images", "--batch", "1"]
    assert main([*arguments, "--backend", "native"]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "nonsense"], "unknown network 'nonsense'; known are efficientnet-lite0"),
        (["--model", "no_such_module:f"], "cannot import no_such_module"),
        (["--model", "missing.py:f"], "there is no file missing.py"),
        (["--model", "network.py:other"], "network.py has no callable other"),
        (["--model", "network.py:number"], "gives int, not a torch.nn.Module"),
        (["--model", "network.py:fails"], "building it failed: KeyError: 'weights'"),
        (["--model", "network.py:frozen"], "no parameter that requires grad"),
        (["--model", "network.py:map"], "must return a tensor (batch, classes)"),
        (["--data", "nowhere"], "--data nowhere is not a folder"),
        (["--data", "empty"], "holds no images"),
        (["--data", "broken"], "cannot read the image broken/a.png"),
        (["--batch", "0"], "--batch is 0"),
        (["--codec", "lz4"], "unknown codec 'lz4'"),
        (["--dtype", "float8"], "unknown dtype 'float8'"),
        (["--backend", "gpu"], "unknown backend 'gpu'"),
        (["--frame-bytes", "100"], "frame_bytes is 100"),
        (["--backend", "board", "--board", "toy"], "unknown kind of board 'toy'"),
        (["--backend", "native", "--board", "toy"], "'toy' goes with backend 'board'"),
        (["--json", "network.py/r.json"], "cannot write network.py/r.json"),
    ],
)
def test_errors_are_one_sentence(folder, capsys, arguments, message):
    assert main([*SMALL, "--backend", "native", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("actdma: ")
    assert message in error
    assert error.count("\n") == 1
    assert "Traceback" not in error


def test_a_missing_extra_says_what_to_install(folder, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)
    assert main(SMALL) == 2
    assert "rich is missing: pip install 'actdma[demo]'" in capsys.readouterr().err


def test_a_difference_is_an_error(folder, monkeypatch, capsys):
    from actdma.native import NativeBackend

    decompress = NativeBackend.decompress

    def flip(self, frame, out):
        decompress(self, frame, out)
        out[0] ^= 1

    monkeypatch.setattr(NativeBackend, "decompress", flip)
    assert main([*SMALL, "--backend", "native"]) == 1
    assert "are NOT bit-identical" in capsys.readouterr().out


def test_python_m_actdma():
    done = subprocess.run(
        [sys.executable, "-m", "actdma", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"actdma {actdma.__version__}\n"


def test_without_a_command_usage_is_shown(capsys):
    with pytest.raises(SystemExit) as stopped:
        main([])
    assert stopped.value.code == 2
    assert "usage: actdma" in capsys.readouterr().err


@pytest.mark.slow
def test_the_main_job(folder, capsys):
    assert main(["measure"]) == 0
    sentence = "run through the emulated FPGA board are bit-identical to the plain run."
    assert sentence in capsys.readouterr().out


def test_results_that_cannot_be_written_are_refused_before_the_run(tmp_path, capsys):
    same = str(tmp_path / "same.png")
    for arguments, message in (
        (["--plot", "p.foo"], "--plot p.foo: allowed are names in .png, .pdf, .svg"),
        (
            ["--json", same, "--plot", same],
            "--json, --csv, --trace and --plot must be different files",
        ),
        (["--json", "/proc/x.json"], "cannot write /proc/x.json"),
    ):
        assert main(["measure", *arguments]) == 2
        assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_interrupt_is_one_line(monkeypatch, capsys):
    def interrupt(options):
        raise KeyboardInterrupt

    monkeypatch.setattr("actdma.cli.measure._run", interrupt)
    assert main(["measure"]) == 130
    assert capsys.readouterr().err == "actdma: interrupted\n"
