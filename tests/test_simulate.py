"""The step-time model: closed forms, bounds that hold for any network, layers, the command."""

import dataclasses
import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actdma.cli import main
from actdma.simulate import (
    DEVICES,
    LINKS,
    Route,
    Stage,
    offloaded,
    oracle,
    simulate,
    write_chrome_trace,
)

torch = pytest.importorskip("torch")
pytest.importorskip("rich")

from torch import nn  # noqa: E402

from actdma.simulate import study  # noqa: E402
from actdma.simulate.layers import fake_images, trace  # noqa: E402
from actdma.simulate.measured import Measurement, measure  # noqa: E402

# Whole numbers of microseconds and kilobytes, so that sums of them are nearly exact.
SECONDS = st.integers(0, 50).map(lambda n: n * 1e-6)
STAGES = st.lists(
    st.builds(
        Stage,
        name=st.just("layer"),
        operator=st.sampled_from(["convolution", "relu"]),
        forward_s=SECONDS,
        backward_s=SECONDS,
        saved_bytes=st.integers(0, 50).map(lambda n: n * 1e3),
        ratio=st.sampled_from([0.9, 1.0, 1.5, 2.6, 13.8]),
    ),
    min_size=1,
    max_size=12,
)
RATE = st.sampled_from([0.5, 1.0, 4.0, 12.8, 100.0])
ROUTES = st.builds(Route, RATE, RATE, RATE, RATE)
BUFFERS = st.integers(1, 4)


def all_of(stages):
    return offloaded(stages, "all")


def step_s(stages, route, places=None, buffers=1):
    places = all_of(stages) if places is None else places
    return simulate(stages, route, places, buffers).step_s


def with_ratio(stages, ratio):
    return [dataclasses.replace(stage, ratio=ratio) for stage in stages]


def compute_s(stages):
    return sum(stage.forward_s + stage.backward_s for stage in stages)


# Closed forms


@given(STAGES)
def test_oracle_is_the_sum_of_compute(stages):
    assert oracle(stages).step_s == pytest.approx(compute_s(stages))
    assert oracle(stages).stall_s == pytest.approx(0, abs=1e-12)


@given(STAGES, ROUTES, BUFFERS)
def test_without_compute_the_link_is_never_idle(stages, route, buffers):
    idle = [dataclasses.replace(stage, forward_s=0, backward_s=0) for stage in stages]
    copies = sum(route.offload_s(stage) + route.prefetch_s(stage) for stage in idle)
    assert step_s(idle, route, buffers=buffers) == pytest.approx(copies)


@given(STAGES, ROUTES)
def test_one_buffer_is_the_sum_of_each_layers_maximum(stages, route):
    """vDNN: a layer and its offload start and end together; so do a layer and the next prefetch."""
    stages = [dataclasses.replace(stage, saved_bytes=stage.saved_bytes + 1) for stage in stages]
    forward = sum(max(stage.forward_s, route.offload_s(stage)) for stage in stages)
    coming = [0.0, *(route.prefetch_s(stage) for stage in stages[:-1])]
    backward = sum(max(s.backward_s, c) for s, c in zip(stages, coming, strict=True))
    expected = forward + route.prefetch_s(stages[-1]) + backward
    assert step_s(stages, route) == pytest.approx(expected)


def test_copies_shorter_than_compute_cost_the_ends_alone():
    stages = [Stage(str(i), "convolution", 10e-6, 20e-6, 1e3) for i in range(5)]
    route = Route(1, 1)  # a microsecond per copy
    assert step_s(stages, route) == pytest.approx(compute_s(stages) + route.prefetch_s(stages[-1]))


@given(STAGES, ROUTES, BUFFERS)
def test_infinite_ratio_without_engine_limits_is_the_oracle(stages, route, buffers):
    free = Route(route.to_host, route.to_device)
    infinite = step_s(with_ratio(stages, math.inf), free, buffers=buffers)
    assert infinite == pytest.approx(oracle(stages).step_s)


@given(STAGES, ROUTES)
def test_infinite_ratio_leaves_the_engine(stages, route):
    stages = with_ratio(stages, math.inf)
    engine = Route(route.compress, route.decompress)
    assert step_s(stages, route) == pytest.approx(step_s(with_ratio(stages, 1), engine))


@given(STAGES, RATE, st.floats(1, 20))
def test_an_engine_as_slow_as_the_link_gains_nothing(stages, rate, ratio):
    packed = step_s(with_ratio(stages, ratio), Route(rate, rate, rate, rate))
    assert packed == pytest.approx(step_s(with_ratio(stages, 1), Route(rate, rate)))


# What holds for every network


@given(STAGES, ROUTES, BUFFERS)
def test_dependencies_and_streams_are_respected(stages, route, buffers):
    timeline = simulate(stages, route, all_of(stages), buffers)
    of = {(event.kind, event.layer): event for event in timeline.events}
    for place, event in enumerate(timeline.events):
        assert event.end >= event.start >= 0
        assert all(before < place for before in event.after)
        waited = [timeline.events[before].end for before in event.after]
        assert event.start == max(waited, default=0.0)  # nothing idles without a reason
    for stream in ("compute", "to host", "to device"):
        events = timeline.on(stream)
        assert all(a.end <= b.start for a, b in itertools.pairwise(events))
    for layer in all_of(stages):
        offload, prefetch = of["offload", layer], of["prefetch", layer]
        assert offload.start >= of["forward", layer].start
        assert prefetch.start >= offload.end
        assert of["backward", layer].start >= prefetch.end
    assert len(timeline.on("compute")) == 2 * len(stages)


@given(STAGES, ROUTES)
def test_one_buffer_joins_each_layer_with_its_copies(stages, route):
    timeline = simulate(stages, route, all_of(stages))
    compute = timeline.on("compute")
    copies = timeline.on("to host") + timeline.on("to device")
    for layer, following in itertools.pairwise(compute):
        for copy in copies:
            if copy.start < layer.end and copy.start < copy.end and layer.start < layer.end:
                assert copy.end <= following.start


@given(STAGES, ROUTES, BUFFERS)
def test_buffers_are_never_exceeded(stages, route, buffers):
    """As many on their way as there are buffers; backward has besides what it works on."""
    timeline = simulate(stages, route, all_of(stages), buffers)
    assert max((layers for _, layers, _ in timeline.in_flight()), default=0) <= buffers + 1
    turn = max(event.end for event in timeline.on("compute") if event.kind == "forward")
    assert all(n <= buffers for time, n, _ in timeline.in_flight() if time < turn)
    if timeline.in_flight():
        assert timeline.in_flight()[-1][1:] == (0, pytest.approx(0))


@given(STAGES, ROUTES, BUFFERS)
def test_step_lies_between_the_oracle_and_everything_in_turn(stages, route, buffers):
    timeline = simulate(stages, route, all_of(stages), buffers)
    moved = sum(route.offload_s(s) + route.prefetch_s(s) for s in stages)
    tolerance = 1 + 1e-9
    assert compute_s(stages) <= timeline.step_s * tolerance
    assert timeline.step_s <= (compute_s(stages) + moved) * tolerance
    assert timeline.stall_s == pytest.approx(timeline.step_s - compute_s(stages), abs=1e-12)


@given(STAGES, ROUTES, BUFFERS, st.floats(1, 20), st.floats(1, 20))
def test_a_higher_ratio_is_never_slower(stages, route, buffers, a, b):
    low, high = sorted((a, b))
    slow = step_s(with_ratio(stages, low), route, buffers=buffers)
    assert step_s(with_ratio(stages, high), route, buffers=buffers) <= slow * (1 + 1e-9)


@given(STAGES, ROUTES, BUFFERS, st.sampled_from([f.name for f in dataclasses.fields(Route)]))
def test_more_bandwidth_is_never_slower(stages, route, buffers, field):
    faster = dataclasses.replace(route, **{field: 2 * getattr(route, field)})
    slow = step_s(stages, route, buffers=buffers)
    assert step_s(stages, faster, buffers=buffers) <= slow * (1 + 1e-9)


@given(STAGES, ROUTES, BUFFERS)
def test_more_buffers_are_never_slower(stages, route, buffers):
    slow = step_s(stages, route, buffers=buffers)
    assert step_s(stages, route, buffers=buffers + 1) <= slow * (1 + 1e-9)


@given(STAGES, ROUTES)
def test_with_a_buffer_for_each_layer_forward_does_not_wait(stages, route):
    timeline = simulate(stages, route, all_of(stages), buffers=len(stages))
    forward = [event for event in timeline.events if event.kind == "forward"]
    assert forward[-1].end == pytest.approx(sum(stage.forward_s for stage in stages))


def test_a_second_buffer_lets_one_copy_lag():
    """Two layers of 1 us whose copies take 4: the third layer waits for the first copy."""
    stages = [
        Stage("a", "", 1e-6, 0, 4e3),
        Stage("b", "", 1e-6, 0, 4e3),
        Stage("c", "", 1e-6, 0, 0),
    ]
    for buffers, starts in ((1, [0, 4e-6, 8e-6]), (2, [0, 1e-6, 4e-6]), (3, [0, 1e-6, 2e-6])):
        timeline = simulate(stages, Route(1, 1), (0, 1), buffers)
        forward = [event.start for event in timeline.events if event.kind == "forward"]
        assert forward == pytest.approx(starts)


@given(STAGES, ROUTES)
def test_conv_moves_what_convolutions_save_alone(stages, route):
    places = offloaded(stages, "conv")
    assert all(stages[i].operator == "convolution" and stages[i].saved_bytes for i in places)
    timeline = simulate(stages, route, places)
    assert [event.layer for event in timeline.on("to host")] == places
    assert [event.layer for event in timeline.on("to device")] == places[::-1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Route(0, 1), "to_host is 0 GB/s"),
        (lambda: Route(1, 1, math.nan), "compress is nan"),
        (lambda: Stage("a", "relu", -1, 0, 0), "a: forward_s is -1"),
        (lambda: Stage("a", "relu", 0, 0, 0, ratio=0), "a: ratio is 0"),
        (lambda: simulate([], Route(1, 1), (), buffers=0), "buffers is 0"),
        (lambda: offloaded([], "some"), "unknown policy 'some'; known are all, conv"),
        (lambda: DEVICES["v100"].seconds(1, 1, "int8"), "unknown precision 'int8'"),
        (lambda: study.zvc_ratio(1.5), "density is 1.5"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# Devices, links, traces


def test_zvc_ratio_is_cdmas():
    assert study.zvc_ratio(0) == 32
    assert study.zvc_ratio(1) == pytest.approx(32 / 33)
    assert study.zvc_ratio(0.5, bits=16) == pytest.approx(16 / 9)


def test_engine_of_the_titan_x_is_cdmas():
    route = LINKS["pcie3"].route(DEVICES["titan-x"])
    assert route == Route(12.8, 12.8, 200, 200)
    # min(link x ratio, engine): from a ratio of 200 / 12.8 on, the engine is what limits.
    seconds = [route.offload_s(Stage("", "", 0, 0, 1e9, ratio)) for ratio in (1, 10, 20, 40)]
    assert seconds == pytest.approx([1 / 12.8, 0.1 / 12.8, 1 / 200, 1 / 200])


def test_raw_data_goes_past_an_engine_in_the_device_alone():
    assert LINKS["pcie3"].plain == Route(12.8, 12.8)
    assert LINKS["kv260"].plain == LINKS["kv260"].route(DEVICES["v100"])
    slow = LINKS["pcie3"].route(DEVICES["v100"], engine=4)
    assert (slow.compress, slow.decompress) == (4, 4)


def test_boards_are_those_of_the_fabric_table():
    """docs/fabric.md, zvc, float32: 3.96 GB/s in, 3.00 out at 128 bit and 250 MHz."""
    route = LINKS["kv260"].route()
    assert dataclasses.astuple(route) == pytest.approx((3.0, 3.96, 3.96, 3.0))
    gigabyte = Stage("", "", 0, 0, 1e9, ratio=2)
    assert route.offload_s(gigabyte) == pytest.approx(1 / 3.96)
    assert route.prefetch_s(gigabyte) == pytest.approx(1 / 3.0)
    assert LINKS["pynq-z2"].route().offload_s(gigabyte) == pytest.approx(1 / 0.792)


def test_an_engine_behind_the_link_saves_no_time():
    route = LINKS["alveo-u50"].route(DEVICES["h100"])
    copies = [route.offload_s(Stage("", "", 0, 0, 1e9, ratio)) for ratio in (1, 2.6)]
    assert copies[0] == copies[1] == pytest.approx(1 / 12.8)


def test_roofline_takes_the_longer_of_products_and_memory():
    device = DEVICES["titan-x"]
    assert device.seconds(6.7e12, 0) == pytest.approx(1 / 0.7)
    assert device.seconds(0, 336e9) == pytest.approx(1 / 0.8)
    assert device.seconds(6.7e12, 336e9) == pytest.approx(1 / 0.7)
    assert device.seconds(6.7e12, 0, "half") == device.seconds(6.7e12, 0)  # no faster there


def test_chrome_trace(tmp_path):
    stages = [Stage(f"layer{i}", "convolution", 10e-6, 20e-6, 4e3) for i in range(3)]
    timelines = {"oracle": oracle(stages), "vDNN": simulate(stages, Route(1, 1), range(3))}
    write_chrome_trace(timelines, tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    assert len(slices) == sum(len(t.events) for t in timelines.values())
    ends = {p: max(e["ts"] + e["dur"] for e in slices if e["pid"] == p) for p in (0, 1)}
    assert ends == pytest.approx({p: t.step_s * 1e6 for p, t in enumerate(timelines.values())})
    names = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names == {"oracle, modelled", "vDNN, modelled"}


# Layers


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, groups=4),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Flatten(),
        nn.Linear(8 * 13 * 13, 10),
    )


def layer_of(layers, name):
    (found,) = [layer for layer in layers if layer.name == name]
    return found


def test_layers_of_a_network():
    layers = trace(network(), fake_images(4, 32))
    assert [(layer.name, layer.operator) for layer in layers] == [
        ("0", "convolution"),
        ("1", "native_batch_norm"),
        ("2", "relu"),
        ("3", "max_pool2d_with_indices"),
        ("4", "convolution"),
        ("5", "relu"),
        ("6", "mul"),
        ("8", "addmm"),
        ("", "_log_softmax"),
        ("", "nll_loss_forward"),
    ]
    first, grouped, linear = (layer_of(layers, name) for name in "048")
    product = 2 * 4 * 8 * 30 * 30 * 3 * 9
    assert first.forward.flops == product
    assert first.backward.flops == product  # the images want no gradient
    product = 2 * 4 * 8 * 13 * 13 * 2 * 9
    assert grouped.forward.flops == product
    assert grouped.backward.flops == 2 * product
    assert linear.forward.flops == 2 * 4 * 1352 * 10
    assert linear.backward.flops == 2 * linear.forward.flops
    relu = layer_of(layers, "5")
    assert relu.forward.bytes_moved == 2 * 4 * 8 * 13 * 13 * 4  # read, written
    assert relu.backward.bytes_moved == 3 * 4 * 8 * 13 * 13 * 4


def test_saved_bytes_are_the_last_savers_or_the_next_layers():
    layers = trace(network(), fake_images(4, 32))
    big, half, small = 4 * 8 * 30 * 30 * 4, 4 * 8 * 15 * 15 * 4, 4 * 8 * 13 * 13 * 4
    saved = {layer.name: layer.saved_bytes for layer in layers if layer.name}
    assert saved["0"] == 4 * 3 * 32 * 32 * 4  # the images
    assert saved["1"] == big  # its input
    assert saved["2"] == 2 * 8 * 4  # the normalisation's statistics
    assert saved["3"] == big  # what the ReLU gave, which pooling saves, too
    assert saved["4"] == half + 2 * half  # its input; indices of eight bytes
    assert saved["5"] == 0
    assert saved["6"] == small + small  # what the ReLU gave; the mask
    assert saved["8"] == small


def test_saved_bytes_are_what_a_session_packs():
    import actdma

    model, images = network(), torch.randn(4, 3, 32, 32)
    with actdma.offload(model, backend="native", min_bytes=0, min_ratio=0) as session:
        nn.functional.cross_entropy(model(images), torch.zeros(4, dtype=torch.int64))
    packed = sum(record.raw_bytes for record in session.report().records)
    labels = 4 * 8
    traced = sum(layer.saved_bytes for layer in trace(network(), fake_images(4, 32)))
    assert traced == pytest.approx(packed, abs=labels + 64)  # a scalar, spans of statistics


def test_maps_leave_indices_and_masks_out():
    layers = trace(network(), fake_images(4, 32), saves="maps")
    half, small = 4 * 8 * 15 * 15 * 4, 4 * 8 * 13 * 13 * 4
    assert layer_of(layers, "4").saved_bytes == half
    assert layer_of(layers, "6").saved_bytes == small
    with pytest.raises(ValueError, match="unknown saves 'some'; known are all, maps"):
        trace(network(), fake_images(4, 32), saves="some")


def test_fake_and_real_tensors_give_the_same_layers():
    fake = trace(network(), fake_images(4, 32))
    real = trace(network(), torch.randn(4, 3, 32, 32))
    for layer in (*fake, *real):
        assert layer.forward.seconds > 0
        layer.forward.seconds = layer.backward.seconds = 0.0
    assert fake == real


def test_costs_grow_with_the_batch_on_fake_tensors():
    small, large = (trace(network(), fake_images(batch, 32)) for batch in (1, 512))
    for a, b in zip(small, large, strict=True):
        assert b.forward.flops == 512 * a.forward.flops
        assert b.backward.flops == 512 * a.backward.flops


@pytest.fixture(scope="module")
def measurement():
    images = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    return measure(network(), images, ("zvc", "zve"), "a small network", repeats=1)


def test_measured_ratios(measurement):
    import actdma

    pooling = layer_of(measurement.layers, "3")  # saves what a ReLU gave
    assert 1.5 < study.measured_ratio("zvc")(pooling) < 2.2
    images = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    first = layer_of(measurement.layers, "0")
    assert first.stored_bytes["zvc"] == actdma.compress(images, "zvc").nbytes
    assert first.stored_bytes["zve"] == actdma.compress(images, "zve").nbytes
    assert measurement.codecs() == ["zvc", "zve"]


def test_measurement_as_json(measurement, tmp_path):
    measurement.to_json(tmp_path / "m.json")
    assert Measurement.from_json(tmp_path / "m.json") == measurement
    (tmp_path / "bad.json").write_text('{"format": 1, "layers": [{}]}')
    with pytest.raises(ValueError, match=r"bad\.json is no measurement of layers"):
        Measurement.from_json(tmp_path / "bad.json")


def test_ratios_onto_another_batch(measurement):
    layers = measurement.onto(trace(network(), fake_images(64, 32)))
    for own, layer in zip(measurement.layers, layers, strict=True):
        if own.saved_bytes:
            ratio = study.measured_ratio("zvc")
            assert ratio(layer) == pytest.approx(ratio(own))
    with pytest.raises(ValueError, match="a small network are not those of the network"):
        measurement.onto(layers[1:])


def test_compare(measurement):
    route = Route(0.1, 0.1)
    ratios = {name: study.measured_ratio(name) for name in ("zvc", "zve")}
    rows = study.compare(
        measurement.layers, study.roofline(DEVICES["titan-x"]), route, route, ratios
    )
    assert [row.name for row in rows] == ["oracle", "vDNN", "vDNN + zvc", "vDNN + zve"]
    seconds = [row.timeline.step_s for row in rows]
    assert seconds[0] < seconds[3] < seconds[2] < seconds[1]
    saved = sum(layer.saved_bytes for layer in measurement.layers)
    stored = sum(layer.stored_bytes.get("zvc", 0) for layer in measurement.layers)
    assert [row.moved_bytes for row in rows[:3]] == pytest.approx([0, saved, stored])
    assert rows[0].held_bytes == saved > rows[1].held_bytes > 0
    conv = study.compare(
        measurement.layers, study.roofline(DEVICES["titan-x"]), route, route, {}, "conv"
    )
    assert rows[1].held_bytes < conv[1].held_bytes <= saved


# The command

NETWORK = """
from torch import nn

def small():
    return nn.Sequential(
        nn.Conv2d(3, 8, 7, stride=4), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
        nn.Linear(128, 10),
    )
"""
SMALL = ["simulate", "--network", "network.py:small", "--side", "64", "--data", "images"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    image = pytest.importorskip("PIL.Image")
    (tmp_path / "network.py").write_text(NETWORK)
    (tmp_path / "images").mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (240, 320, 3), np.uint8)
    image.fromarray(pixels).save(tmp_path / "images" / "a.png")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_command(folder, capsys):
    outputs = ["--json", "s.json", "--trace", "t.json", "--plot", "p.png"]
    assert main([*SMALL, "--codec", "zvc", "zve", *outputs]) == 0
    out = capsys.readouterr().out
    assert "policy all: modelled" in out
    assert "modelled: compute: roofline of Titan X" in out
    assert "measured: ratios: network.py:small" in out
    assert "assumed: link: PCIe 3" in out
    rows = {row["name"]: row for row in json.loads((folder / "s.json").read_text())["rows"]}
    assert list(rows) == ["oracle", "vDNN", "vDNN + zvc", "vDNN + zve"]
    assert rows["oracle"]["step_s"] < rows["vDNN + zvc"]["step_s"] < rows["vDNN"]["step_s"]
    assert rows["vDNN + zvc"]["gain_over_vdnn"] > 0
    assert json.loads((folder / "t.json").read_text())["traceEvents"]
    assert (folder / "p.png").read_bytes().startswith(b"\x89PNG")


def test_command_with_measured_seconds(folder, capsys):
    measured = ["--device", "measured", "--batch", "2"]
    assert main([*SMALL, *measured, "--measure-to", "m.json", "--json", "a.json"]) == 0
    assert "measured: compute: network.py:small" in capsys.readouterr().out
    assert main([*SMALL, *measured, "--measured", "m.json", "--json", "b.json"]) == 0
    a, b = (json.loads((folder / name).read_text())["rows"] for name in ("a.json", "b.json"))
    assert a == b
    seconds = sum(
        layer.forward.seconds + layer.backward.seconds
        for layer in Measurement.from_json(folder / "m.json").layers
    )
    assert a[0]["step_s"] == pytest.approx(seconds)


def test_command_with_a_given_ratio(folder, capsys):
    assert main([*SMALL, "--ratio", "2.6", "--json", "a.json"]) == 0
    assert "assumed: ratio" in capsys.readouterr().out
    assert main([*SMALL, "--density", "0.5", "--json", "b.json"]) == 0
    a, b = (json.loads((folder / name).read_text())["rows"][2] for name in ("a.json", "b.json"))
    assert a["moved_bytes"] / b["moved_bytes"] == pytest.approx(32 / 17 / 2.6)


def test_command_with_a_slow_engine(folder):
    """Compression loses where the engine is slower than the link; vDNN does without it."""
    arguments = [*SMALL, "--ratio", "2.6", "--json", "a.json"]
    found = []
    for engine in ([], ["--engine", "4"]):
        assert main([*arguments, *engine]) == 0
        found.append(json.loads((folder / "a.json").read_text())["rows"])
    assert found[0][1] == found[1][1]
    assert found[0][2]["gain_over_vdnn"] > 0 > found[1][2]["gain_over_vdnn"]


def test_command_lists(capsys):
    assert main(["simulate", "--list"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in (*DEVICES, *LINKS, "resnet20"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--network", "alexnt"], "unknown network 'alexnt' (did you mean alexnet?); known are"),
        (["--network", "resnet20", "--link", "isa"], "unknown link 'isa'; known are pcie3"),
        (["--network", "resnet20", "--device", "abacus"], "unknown device 'abacus'; known are"),
        (["--network", "resnet20", "--codec", "zip"], "unknown codec 'zip'"),
        (["--network", "resnet20", "--policy", "some", "--ratio", "2"], "unknown policy 'some'"),
        (["--network", "resnet20", "--precision", "int8"], "unknown precision 'int8'"),
        (["--network", "resnet20", "--batch", "0"], "--batch is 0"),
        (["--network", "resnet20", "--engine", "0"], "--engine is 0.0 GB/s"),
        (["--network", "resnet20", "--ratio", "0"], "--ratio is 0"),
        (["--network", "resnet20", "--ratio", "2", "--density", "1"], "exclude each other"),
        (["--network", "resnet20", "--measured", "none.json"], "cannot read none.json"),
        (["--network", "gpt", "--ratio", "2"], "unknown network 'gpt'; known are"),
        (["--network", "resnet20", "--plot", "a.txt"], "--plot a.txt: allowed are names in"),
        (["--network", "gpt", "--ratio", "2", "--measure-to", "m.json"], "nothing is measured"),
        ([], "--network is missing"),
    ],
)
def test_command_says_what_is_wrong(arguments, message, capsys):
    assert main(["simulate", *arguments]) == 2
    assert message in capsys.readouterr().err
