"""What a session did when, for Perfetto, and its scalars, for TensorBoard."""

import itertools
import json

import pytest
import torch
from torch import nn

from sessions import offload

IMAGES = torch.randn(4, 3, 16, 16)


def network():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 3), nn.Flatten()
    )


def report_of(**options):
    model = network()
    with offload(model, **options) as session:
        loss = model(IMAGES).square().mean()
    loss.backward()
    return session.report()


def trace_of(report, tmp_path):
    report.to_chrome_trace(tmp_path / "trace.json")
    return json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


@pytest.mark.parametrize("queue_bytes", [0, 1 << 20])
def test_a_trace_has_every_compression_and_decompression(tmp_path, queue_bytes):
    report = report_of(codec="zvc", queue_bytes=queue_bytes)
    events = trace_of(report, tmp_path)
    slices = [e for e in events if e["ph"] == "X"]
    count = {what: sum(e["cat"] == what for e in slices) for what in ("compress", "decompress")}
    assert count == {
        "compress": len(report.records),
        "decompress": sum(r.decompressions for r in report.records),
    }
    assert min(e["ts"] for e in slices) == 0
    for event in slices:
        assert event["dur"] > 0
        assert {"name", "cat", "ph", "ts", "dur", "pid", "tid", "args"} <= event.keys()
        assert event["args"]["raw bytes"] > event["args"]["stored bytes"] - 4096
    named = {e["tid"] for e in events if e["name"] == "thread_name"}
    assert {e["tid"] for e in slices} == named
    assert any(e["name"] == "compress 0" for e in slices)


def test_what_waits_for_its_turn_is_drawn_one_after_the_other(tmp_path):
    slices = [e for e in trace_of(report_of(codec="zvc"), tmp_path) if e["ph"] == "X"]
    slices.sort(key=lambda e: e["ts"])
    for before, after in itertools.pairwise(slices):
        assert before["ts"] + before["dur"] <= after["ts"] + 1e-3


def test_what_is_made_again_is_in_the_trace(tmp_path):
    slices = [e for e in trace_of(report_of(exact=True), tmp_path) if e["ph"] == "X"]
    assert "make again 2" in {e["name"] for e in slices}


def test_a_trace_of_nothing_is_one(tmp_path):
    with offload() as session:
        pass
    assert all(event["ph"] == "M" for event in trace_of(session.report(), tmp_path))


def test_the_json_does_not_carry_the_trace():
    assert "work" not in report_of().to_dict()["records"][0]


class Writer:
    def __init__(self):
        self.scalars = {}

    def add_scalar(self, name, value, step):
        self.scalars[name, step] = float(value)


def test_scalars_are_those_of_the_report():
    report, writer = report_of(codec="zvc"), Writer()
    report.log(writer, 7)
    found = {name: value for (name, step), value in writer.scalars.items() if step == 7}
    assert found["actdma/ratio"] == report.totals()["ratio"]
    assert found["actdma/held_bytes_peak"] == report.held_bytes_peak > 0
    assert found["actdma/stall_s"] == report.pack_s + report.unpack_s > 0


def test_what_is_not_known_is_not_logged():
    with offload() as session:
        pass
    writer = Writer()
    session.report().log(writer, 0)
    assert ("actdma/ratio", 0) not in writer.scalars


def test_tensorboard_reads_the_scalars(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    report = report_of(codec="zvc")
    with SummaryWriter(tmp_path) as writer:
        for step in range(3):
            report.log(writer, step)
    events = EventAccumulator(str(tmp_path)).Reload()
    assert [e.step for e in events.Scalars("actdma/ratio")] == [0, 1, 2]
