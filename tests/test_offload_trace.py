"""When a session did what, as Chrome's trace events; and a step's scalars."""

import itertools
import json
import threading

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import actdma  # noqa: E402
from actdma.trace import Slice, write_trace  # noqa: E402


def model():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU()
    )


def report(**options):
    net, images = model(), torch.randn(8, 3, 32, 32)
    with actdma.offload(net, codec="auto", backend="native", min_ratio=0, **options) as session:
        loss = net(images).square().sum()
    loss.backward()
    return session.report()


def events(report, path):
    """The trace's events; its JSON is strict, and they have the fields that the format demands."""
    report.to_chrome_trace(path)

    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    trace = json.loads(path.read_text(), parse_constant=refuse)
    assert trace["otherData"] == {"actdma": "measured"}
    for event in trace["traceEvents"]:
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name")
            assert isinstance(event["args"]["name"], str)
        else:
            assert event["ph"] == "X"
            assert event["ts"] >= 0
            assert event["dur"] > 0
    return trace["traceEvents"]


def slices(events):
    return [event for event in events if event["ph"] == "X"]


def test_a_slice_per_compression_and_decompression(tmp_path):
    found = report()
    got = slices(events(found, tmp_path / "t.json"))
    assert len(got) == sum(1 + r.decompressions for r in found.records) == 2 * len(found.records)
    for record in found.records:
        packed, unpacked = (e for e in got if e["args"]["module"] == record.module)
        assert [packed["cat"], unpacked["cat"]] == ["compress", "decompress"]
        assert packed["name"] == f"compress {record.module}"
        assert packed["dur"] == pytest.approx(record.compress_s * 1e6)
        assert unpacked["dur"] == pytest.approx(record.decompress_s * 1e6)
        assert unpacked["ts"] >= packed["ts"] + packed["dur"]
        args = packed["args"]
        assert args["codec"] == record.codec == "zve"
        assert args["raw bytes"] == record.raw_bytes
        assert args["stored bytes"] == record.stored_bytes
        assert args["ratio"] == record.ratio
    assert min(e["ts"] for e in got) == 0


def test_threads_are_told_apart(tmp_path):
    got = events(report(queue_bytes=1 << 28), tmp_path / "t.json")
    names = {e["tid"]: e["args"]["name"] for e in got if e["name"] == "thread_name"}
    packers = {names[e["tid"]] for e in slices(got) if e["cat"] == "compress"}
    assert packers == {"actdma_0"}
    alone = events(report(), tmp_path / "t.json")
    assert {e["tid"] for e in slices(alone)} == {threading.get_native_id()}
    assert threading.get_native_id() not in {
        e["tid"] for e in slices(got) if e["cat"] == "compress"
    }


def test_what_one_thread_does_does_not_overlap(tmp_path):
    got = slices(events(report(queue_bytes=1 << 28), tmp_path / "t.json"))
    for thread in {e["tid"] for e in got}:
        spells = sorted((e["ts"], e["ts"] + e["dur"]) for e in got if e["tid"] == thread)
        assert all(a[1] <= b[0] + 1 for a, b in itertools.pairwise(spells))


def test_what_is_made_again_is_there_too(tmp_path):
    got = slices(events(report(exact=True), tmp_path / "t.json"))
    made = [e for e in got if e["cat"] == "make again"]
    assert made
    assert all(e["args"]["ratio"] is None for e in made)  # nothing of it went through the codec


def test_no_records_are_a_trace_without_slices(tmp_path):
    with actdma.offload(backend="native") as session:
        pass
    assert slices(events(session.report(), tmp_path / "t.json")) == []


def test_a_second_backward_pass_is_a_second_slice(tmp_path):
    net, images = model(), torch.randn(8, 3, 32, 32)
    with actdma.offload(net, backend="native", min_ratio=0) as session:
        loss = net(images).square().sum()
    loss.backward(retain_graph=True)
    loss.backward()
    got = slices(events(session.report(), tmp_path / "t.json"))
    assert sum(e["cat"] == "decompress" for e in got) == 2 * sum(
        e["cat"] == "compress" for e in got
    )


def test_unknown_kinds_are_refused(tmp_path):
    with pytest.raises(ValueError, match="unknown kind 'felt'; known are measured, modelled"):
        write_trace({"a": [Slice("a", "a", (0, "a"), 0, 1, {})]}, "felt", tmp_path / "t.json")


# Scalars


class Writer:
    def __init__(self):
        self.scalars = []

    def add_scalar(self, tag, scalar_value, global_step):
        self.scalars.append((tag, scalar_value, global_step))


def test_scalars_of_a_step():
    found, writer = report(), Writer()
    found.log(writer, 7)
    assert writer.scalars == [
        ("actdma/ratio", found.totals()["ratio"], 7),
        ("actdma/held_bytes", found.held_bytes_peak, 7),
        ("actdma/stall_s", found.pack_s + found.unpack_s, 7),
    ]
    assert found.totals()["ratio"] > 1
    assert found.stall_s > 0


def test_no_ratio_where_nothing_went_through_a_codec():
    with actdma.offload(backend="native") as session:
        pass
    writer = Writer()
    session.report().log(writer, 0, prefix="memory")
    assert [tag for tag, _, _ in writer.scalars] == ["memory/held_bytes", "memory/stall_s"]


def test_tensorboard_reads_what_its_writer_was_given(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    found = [report(), report(exact=True)]
    with SummaryWriter(tmp_path) as writer:
        for step, each in enumerate(found):
            each.log(writer, step)
    read = EventAccumulator(str(tmp_path)).Reload()
    assert set(read.Tags()["scalars"]) == {"actdma/ratio", "actdma/held_bytes", "actdma/stall_s"}
    for name, values in {
        "ratio": [each.totals()["ratio"] for each in found],
        "held_bytes": [each.held_bytes_peak for each in found],
        "stall_s": [each.stall_s for each in found],
    }.items():
        scalars = read.Scalars(f"actdma/{name}")
        assert [s.step for s in scalars] == [0, 1]
        assert [s.value for s in scalars] == pytest.approx(values, rel=1e-6)
