"""What a step takes: with room for everything, virtualised, and virtualised with each codec."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from .hardware import Device
from .layers import Layer
from .timeline import VDNN_BUFFERS, Route, Stage, Timeline, offloaded, oracle, simulate

Ratio = Callable[[Layer], float]


@dataclasses.dataclass(frozen=True)
class Row:
    """A way to hold what a step saves; everything in it is modelled.

    ``held_bytes``: the most that is on the device at a time of what is saved, raw.
    ``moved_bytes``: what goes over the link to the host.
    """

    name: str
    timeline: Timeline
    held_bytes: float
    moved_bytes: float

    def gain_over(self, other: Row) -> float:
        """By how much the step is faster than ``other``'s: 0.32 is 32 %."""
        return other.timeline.step_s / self.timeline.step_s - 1


def stages(
    layers: Sequence[Layer],
    seconds: Callable[[Layer], tuple[float, float]],
    ratio: Ratio | None = None,
) -> list[Stage]:
    """The layers as the timeline wants them; no ``ratio``: nothing is compressed."""
    return [
        Stage(
            layer.name,
            layer.operator,
            *seconds(layer),
            layer.saved_bytes,
            ratio(layer) if ratio else 1.0,
        )
        for layer in layers
    ]


def roofline(device: Device, precision: str = "float32") -> Callable[[Layer], tuple[float, float]]:
    """Modelled seconds of a layer's forward and backward pass on ``device``."""

    def seconds(layer: Layer) -> tuple[float, float]:
        passes = (layer.forward, layer.backward)
        forward, backward = (device.seconds(c.flops, c.bytes_moved, precision) for c in passes)
        return forward, backward

    return seconds


def measured_seconds(layer: Layer) -> tuple[float, float]:
    """Measured seconds of a layer's forward and backward pass."""
    return layer.forward.seconds, layer.backward.seconds


def measured_ratio(codec: str) -> Ratio:
    """What ``codec`` made of a layer's data; 1 where there is none."""
    return lambda layer: layer.saved_bytes / layer.stored_bytes[codec] if layer.saved_bytes else 1.0


def zvc_ratio(density: float, bits: int = 32) -> float:
    """What cDMA's zero-value compression makes of elements of ``bits``: a bit for each of them, and
    those that are not zero (arXiv 1705.01626, section V). ValueError unless 0 <= density <= 1."""
    if not 0 <= density <= 1:
        raise ValueError(f"density is {density}, not from 0 to 1")
    return bits / (1 + bits * density)


def compare(
    layers: Sequence[Layer],
    seconds: Callable[[Layer], tuple[float, float]],
    plain: Route,
    route: Route,
    ratios: dict[str, Ratio],
    policy: str = "all",
    buffers: int = VDNN_BUFFERS,
) -> list[Row]:
    """The oracle's step, vDNN's, and vDNN's with each of ``ratios``, by codec.

    ``plain``: the way of raw data; ``route``: that of compressed data. ValueError for an unknown
    ``policy`` and less than one of ``buffers``.
    """
    raw = stages(layers, seconds)
    rows = [Row("oracle", oracle(raw), sum(stage.saved_bytes for stage in raw), 0.0)]
    rows.append(_virtualised("vDNN", raw, plain, policy, buffers))
    for codec, ratio in ratios.items():
        packed = stages(layers, seconds, ratio)
        rows.append(_virtualised(f"vDNN + {codec}", packed, route, policy, buffers))
    return rows


def _virtualised(name: str, plan: Sequence[Stage], route: Route, policy: str, buffers: int) -> Row:
    moved = offloaded(plan, policy)
    timeline = simulate(plan, route, moved, buffers)
    stays = sum(stage.saved_bytes for stage in plan) - sum(plan[i].saved_bytes for i in moved)
    peak = max((nbytes for _, _, nbytes in timeline.in_flight()), default=0.0)
    on_link = sum(plan[i].saved_bytes / plan[i].ratio for i in moved)
    return Row(name, timeline, stays + peak, on_link)
