"""`actdma simulate`: a network, a device and a link by name, and what a step takes there."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ..api import AUTO
from ..frame import LOSSLESS
from ..measure import zoo
from ..measure.inputs import InputError, Network, load_images, load_model, one_sentence, unknown
from . import study
from .hardware import (
    DEVICES,
    ENGINE_SHARE,
    FP32_EFFICIENCY,
    HALF_EFFICIENCY,
    LINKS,
    MEMORY_EFFICIENCY,
    Device,
    Link,
)
from .layers import Layer, fake_images, trace
from .measured import REPEATS, Measurement, measure
from .timeline import VDNN_BUFFERS, Route

MEASURED = "measured"
CODECS = (AUTO, *(codec.name.lower() for codec in LOSSLESS))
_DTYPES = {"float32": torch.float32, "half": torch.bfloat16}


@dataclasses.dataclass(frozen=True)
class Options:
    """What to simulate; the fields are those of ``actdma simulate``."""

    network: str
    device: str = "titan-x"
    link: str = "pcie3"
    codec: tuple[str, ...] = ("zvc",)
    policy: str = "all"
    batch: int = 128
    side: int | None = None
    precision: str = "float32"
    saves: str = "all"
    ratio: float | None = None
    density: float | None = None
    measured: Path | None = None
    sample: int = 2
    data: str | None = None
    seed: int = 0
    engine: float | None = None
    buffers: int = VDNN_BUFFERS


@dataclasses.dataclass(frozen=True)
class Study:
    """What came out, all of it modelled, and what went in: ("modelled" or "measured", what).

    ``measurement``: what was measured for it, None if nothing was.
    """

    options: Options
    rows: list[study.Row]
    inputs: list[tuple[str, str]]
    measurement: Measurement | None

    @property
    def title(self) -> str:
        """What was simulated, in one line."""
        o = self.options
        pace = "at this machine's pace" if o.device == MEASURED else f"on {o.device}"
        return (
            f"{o.network}, batch {o.batch}, {o.precision}, {pace}, over {o.link}, policy "
            f"{o.policy}: modelled"
        )

    def to_json(self, path: str | os.PathLike) -> None:
        """Write the rows, without their timelines, and what went in to ``path``."""
        oracle, vdnn = self.rows[:2]
        rows = [
            {
                "name": row.name,
                "step_s": row.timeline.step_s,
                "stall_s": row.timeline.stall_s,
                "held_bytes": row.held_bytes,
                "moved_bytes": row.moved_bytes,
                "of_oracle_speed": oracle.timeline.step_s / row.timeline.step_s,
                "gain_over_vdnn": row.gain_over(vdnn),
            }
            for row in self.rows
        ]
        data = {"title": self.title, "rows are": "modelled", "rows": rows, "inputs": self.inputs}
        data["options"] = dataclasses.asdict(self.options)
        Path(path).write_text(json.dumps(data, indent=1, default=str) + "\n")


def run(options: Options) -> Study:
    """Simulate; InputError or ValueError, of one sentence, if the options cannot be had."""
    link = _known("link", options.link, LINKS)
    device = _known("device", options.device, {**DEVICES, MEASURED: None})
    _check(options)
    assumed = _assumed(options)
    network = functools.cache(functools.partial(_network, options))  # built once, if wanted
    measurement = None
    if options.measured is not None:
        measurement = _read(options.measured)
    elif has_measurement(options):
        measurement = _measure(options, network(), timed=device is None)
    if device is None:
        layers, seconds = measurement.layers, study.measured_seconds
        options = dataclasses.replace(options, batch=measurement.batch)
    else:
        layers, seconds = _layers(options, network()), study.roofline(device, options.precision)
        layers = measurement.onto(layers) if measurement else layers
    ratios = assumed or {name: study.measured_ratio(name) for name in _codecs(options, measurement)}
    route = link.route(device, options.engine)
    rows = study.compare(
        layers, seconds, link.plain, route, ratios, options.policy, options.buffers
    )
    return Study(options, rows, _inputs(options, device, link, route, measurement), measurement)


def has_measurement(options: Options) -> bool:
    """Whether a simulation with ``options`` has a `Study.measurement`."""
    given = options.ratio is not None or options.density is not None
    return not given or options.device == MEASURED or options.measured is not None


def _check(options: Options) -> None:
    for name in ("batch", "sample", "buffers"):
        if getattr(options, name) < 1:
            raise ValueError(f"--{name} is {getattr(options, name)}, it must be at least 1")
    if options.engine is not None and not options.engine > 0:
        raise ValueError(f"--engine is {options.engine} GB/s, it must be more than 0")
    _known("precision", options.precision, _DTYPES)
    for name in options.codec:
        _known("codec", name, dict.fromkeys(CODECS))


def _assumed(options: Options) -> dict[str, study.Ratio] | None:
    """The one ratio that was given; None if they are to be measured."""
    if options.ratio is not None and options.density is not None:
        raise ValueError("--ratio and --density exclude each other")
    if options.ratio is not None:
        if not options.ratio > 0:
            raise ValueError(f"--ratio is {options.ratio}, it must be more than 0")
        return {f"ratio {options.ratio:g}": lambda layer: options.ratio}
    if options.density is not None:
        ratio = study.zvc_ratio(options.density, 8 * _DTYPES[options.precision].itemsize)
        return {f"zvc, density {options.density:g}": lambda layer: ratio}
    return None


def _network(options: Options) -> Network:
    """The network in the precision asked for, and for the images asked for."""
    network = load_model(options.network, options.seed, "--network")
    model = network.model.to(_DTYPES[options.precision])
    return network._replace(model=model, side=options.side or network.side)


def _layers(options: Options, network: Network) -> list[Layer]:
    """The layers at the whole batch."""
    with one_sentence(f"--network {options.network}: a step fails"):
        images = fake_images(options.batch, network.side, _DTYPES[options.precision])
        return trace(network.model, images, saves=options.saves)


def _measure(options: Options, network: Network, timed: bool) -> Measurement:
    """A step on photographs: of the whole batch if it is timed, else of a few for the ratios."""
    batch, side = options.batch if timed else min(options.batch, options.sample), network.side
    images = load_images(options.data, batch, network.normalisation, side)
    images = images.to(_DTYPES[options.precision])
    weights = "random weights" if options.network in zoo.NETWORKS else "its own weights"
    what = f"{options.network}, {weights}, {batch} photographs of {side} x {side}"
    with one_sentence(f"--network {options.network}: a step fails"):
        return measure(
            network.model, images, options.codec, what, saves=options.saves, repeats=REPEATS * timed
        )


def _read(path: Path) -> Measurement:
    try:
        return Measurement.from_json(path)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error


def _codecs(options: Options, measurement: Measurement) -> tuple[str, ...]:
    for name in options.codec:
        if name not in measurement.codecs():
            known = ", ".join(measurement.codecs())
            raise ValueError(f"codec {name} was not measured of {measurement.what}; were: {known}")
    return options.codec


def _inputs(
    options: Options,
    device: Device | None,
    link: Link,
    route: Route,
    measurement: Measurement | None,
) -> list[tuple[str, str]]:
    """What the step is made of, and of what kind each is."""
    if device is None:
        cpu = measurement.environment["cpu"]
        seconds = (MEASURED, f"compute: {measurement.what}, on {cpu}")
    else:
        product = FP32_EFFICIENCY if options.precision == "float32" else HALF_EFFICIENCY
        text = (
            f"compute: roofline of {device.title}, {product:.0%} of its peak, "
            f"{MEMORY_EFFICIENCY:.0%} of its {device.memory:g} GB/s"
        )
        seconds = ("modelled", text)
    if options.ratio is not None or options.density is not None:
        ratios = ("assumed", "ratio: the same for all layers, as given")
    else:
        ratios = (MEASURED, f"ratios: {measurement.what}, the CPU's codec")
    ways = f"{route.to_host:g} GB/s to the host, {route.to_device:g} back ({link.source})"
    engine = f"engine {route.compress:.4g} GB/s in, {route.decompress:.4g} out"
    engine += f" ({_engine_source(options, device, link)})"
    return [seconds, ratios, (link.kind, f"link: {link.title}, {ways}; {engine}")]


def _engine_source(options: Options, device: Device | None, link: Link) -> str:
    """Where the engine's figures come from."""
    if options.engine is not None:
        return "as given"
    if link.compress is not None:
        return link.source
    if device is None:
        return "in the device, as fast as any link"
    return f"in the device, {ENGINE_SHARE:.0%} of its memory's, cDMA's share"


def _known(what: str, name: str, table: Mapping[str, Any]) -> Any:
    if name not in table:
        raise ValueError(unknown(what, name, table))
    return table[name]
