"""`actdma.measure`: the step, the rates, the records, the table and the picture."""

import csv
import dataclasses
import io
import json

import numpy as np
import pytest
import torch
from torch import nn

import actdma
import networks
from actdma.api import backend_of
from actdma.backend import ReferenceBackend
from actdma.frame import Codec, DType
from actdma.measure import (
    InputError,
    Options,
    Step,
    compare,
    identical,
    plot,
    show,
    write_csv,
)
from actdma.measure.inputs import IMAGENET, LITE, load_images, load_model
from actdma.measure.probe import CpuProbe

TOTALS = {
    "tensors",
    "raw_bytes",
    "stored_bytes",
    "ratio",
    "zero_fraction",
    "bit_identical",
    "gradients_identical",
    "timing",
}
FIELDS = {
    "index",
    "shape",
    "dtype",
    "codec",
    "backend",
    "raw_bytes",
    "stored_bytes",
    "ratio",
    "zero_fraction",
    "compress_s",
    "decompress_s",
    "compress_cycles",
    "decompress_cycles",
}


def small_step():
    torch.manual_seed(0)
    return Step(networks.relu_cnn(), networks.images(), seed=0)


@pytest.fixture(scope="module", params=["native", "board"])
def report(request):
    return compare(small_step(), backend_of(request.param), Options(backend=request.param))


def test_json_is_as_promised(report, tmp_path):
    report.to_json(tmp_path / "r.json")
    got = json.loads((tmp_path / "r.json").read_text())
    board = report.environment["backend"] == "board"
    assert got["format"] == 1
    assert got["environment"]["torch"] == torch.__version__
    assert got["totals"].keys() >= TOTALS
    assert got["totals"]["tensors"] == len(got["records"]) > 3
    assert got["totals"]["gradients_identical"] is True
    assert got["totals"]["bit_identical"] is True
    assert got["totals"]["timing"] == ("modelled" if board else "measured")
    for record in got["records"]:
        assert record.keys() >= FIELDS
        assert record["ratio"] == record["raw_bytes"] / record["stored_bytes"]
        assert (record["compress_cycles"] is not None) == board
        assert (record["decompress_cycles"] is not None) == board
        assert record["compress_s"] > 0
        assert record["decompress_s"] > 0


def test_rates_of_the_cpu_are_measured_beside_memcpy(report):
    totals = report.totals()
    for name in ("cpu_compress", "cpu_decompress", "memcpy"):
        assert totals[f"{name}_gb_per_s"] > 0
    assert totals["step_s"] > 0
    assert totals["plain_step_s"] > 0


def test_rates_are_all_modelled_or_all_measured(report):
    text = str(report)
    if report.environment["board"]:
        assert "GB/s: 1e9 raw bytes per second of the fabric alone, modelled" in text
    else:
        assert "GB/s: 1e9 raw bytes per second of the CPU's codec, wall clock, measured" in text


def test_the_table_fits_100_columns(report):
    console = pytest.importorskip("rich.console").Console(file=io.StringIO(), width=100)
    show(report, console)
    text = console.file.getvalue()
    table, sentences = text[: text.rindex("memcpy")], text.splitlines()[-2:]
    assert max(map(len, table.splitlines())) <= 100
    assert "4x16x32x32" in table
    way = "emulated FPGA board" if report.environment["board"] else "CPU's codec"
    assert sentences[1] == (
        f"The gradients of the run through the {way} are bit-identical to the plain run."
    )


def test_csv_has_the_fields_of_the_json(report, tmp_path):
    write_csv(report, tmp_path / "r.csv")
    with (tmp_path / "r.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(report.records)
    assert rows[0].keys() == report.records[0].to_dict().keys()
    assert rows[0]["shape"] == "4x3x32x32"


def test_the_picture_is_a_picture(report, tmp_path):
    plot(report, tmp_path / "r.png")
    image = pytest.importorskip("PIL.Image").open(tmp_path / "r.png")
    assert image.size == (1680, 840)
    assert len(np.unique(np.asarray(image.convert("L")))) > 10


class Flipping(ReferenceBackend):
    """Wrong, and does not know it: flips a bit of whatever it gives back."""

    def decompress(self, frame, out):
        super().decompress(frame, out)
        out[-1] ^= 1


def test_a_flipped_bit_is_found_and_said():
    report = compare(small_step(), Flipping(), Options())
    assert report.bit_identical() is False
    assert report.gradients_identical is False
    text = str(report)
    assert "stopped by a bad frame: the decoded data is not what was encoded (raw CRC" in text
    assert "1 of 1 tensors that came back have other bits" in text
    assert "are NOT bit-identical to the plain run" in text


def test_the_step_is_the_same_every_time():
    step = small_step()
    first, second = step.gradients(), step.gradients()
    assert all(identical(first[name], second[name]) for name in first)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (torch.tensor([float("nan")]), torch.tensor([float("nan")]), True),
        (torch.tensor([0.0]), torch.tensor([-0.0]), False),
        (torch.zeros(2), torch.zeros(2, dtype=torch.float64), False),
        (torch.zeros(2), torch.zeros(1, 2), False),
        (torch.arange(6.0).view(2, 3), torch.arange(6.0).view(3, 2).t().reshape(2, 3), False),
        (None, None, True),
        (None, torch.zeros(1), False),
    ],
)
def test_identical_means_every_bit(a, b, expected):
    assert identical(a, b) is expected


def test_models_that_cannot_be_measured_are_refused():
    x = networks.images()
    with pytest.raises(InputError, match="no parameter"):
        Step(nn.Flatten(), x, 0)
    with pytest.raises(InputError, match="must return a tensor"):
        Step(nn.Conv2d(3, 2, 3), x, 0)
    with pytest.raises(InputError, match="forward pass failed: RuntimeError"):
        Step(nn.Linear(7, 2), x, 0)


def test_shipped_photographs():
    x = load_images(None, 3, LITE)
    assert x.shape == (3, 3, 224, 224)
    assert x.dtype == torch.float32
    assert x.min() >= -127 / 128
    assert x.max() <= 1
    assert not torch.equal(x[0], x[1])


def test_images_of_a_folder_in_the_order_of_their_names(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for name, value in (("b.png", 200), ("a.png", 100)):
        image.fromarray(np.full((300, 400), value, np.uint8)).save(tmp_path / name)
    (tmp_path / "notes.txt").write_text("no image")
    x = load_images(str(tmp_path), 3, IMAGENET)
    expected = torch.tensor([100.0, 200.0, 100.0])
    torch.testing.assert_close(x[:, 0, 5, 5], (expected - 123.675) / 58.395)


def test_the_default_model_has_its_imagenet_weights(capsys):
    network = load_model("efficientnet-lite0", 0)
    assert capsys.readouterr().out == ""
    assert network.normalisation == LITE
    assert network.model.training
    with torch.no_grad():
        classes = network.model.eval()(load_images(None, 3, LITE)).argmax(1).tolist()
    assert classes[1] == 967  # espresso
    assert classes[2] in range(281, 286)  # one of the cats


def test_networks_of_the_zoo_have_names_and_images_of_their_size():
    resnet = load_model("resnet20", 0)
    assert resnet.model(load_images(None, 2, resnet.normalisation, resnet.side)).shape == (2, 10)
    assert resnet.side == 32
    with pytest.raises(
        InputError, match=r"unknown network 'resnet-20' \(did you mean resnet20\?\)"
    ):
        load_model("resnet-20", 0)


def test_cpu_probe():
    probe = CpuProbe(backend_of("native"))
    data = np.zeros(1 << 20, np.uint8)
    frame = probe.compress(data, DType.float32, Codec.ZVC)
    out = np.ones_like(data)
    assert probe.decompress(frame, out) is None
    assert not out.any()
    assert probe.raw_bytes == 1 << 20
    assert min(probe.rates().values()) > 0


def test_options_are_in_the_report(report):
    assert report.environment["options"] == dataclasses.asdict(
        Options(backend=report.environment["backend"])
    )


def test_measure_is_found_from_the_package():
    assert actdma.measure.Options is Options
