"""A training step on a timeline: one compute stream and one copy stream per direction.

The schedule is that of vDNN (Rhu et al., arXiv 1602.08124, section III): while a layer's forward
pass runs, what it saves goes to host memory; while its backward pass runs, what an earlier layer
saved comes back; compute and copies are joined at every layer's end. Streams are first in, first
out, so the order of events is known before their times: each starts as soon as its stream is free
and the events that it waits for have ended.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence

from ..trace import Slice, write_trace

STREAMS = ("compute", "to host", "to device")
POLICIES: dict[str, Callable[[Stage], bool]] = {
    "all": lambda stage: True,
    "conv": lambda stage: stage.operator == "convolution",
}
VDNN_BUFFERS = 1


@dataclasses.dataclass(frozen=True)
class Stage:
    """A layer as the timeline sees it: seconds of compute, and bytes to move.

    ``saved_bytes``: what is there when the layer's forward pass begins, and is wanted when its
    backward pass does. ``ratio``: raw bytes per byte on the link; infinite: none goes there.
    """

    name: str
    operator: str
    forward_s: float
    backward_s: float
    saved_bytes: float
    ratio: float = 1.0

    def __post_init__(self) -> None:
        for field in ("forward_s", "backward_s", "saved_bytes"):
            if not getattr(self, field) >= 0:
                raise ValueError(f"{self.name}: {field} is {getattr(self, field)}, not 0 or more")
        if not self.ratio > 0:
            raise ValueError(f"{self.name}: ratio is {self.ratio}, not more than 0")


@dataclasses.dataclass(frozen=True)
class Route:
    """The way from device to host memory and back; all in GB/s (1e9 bytes per second).

    ``to_host`` and ``to_device`` count what is on the link, compressed bytes; ``compress`` and
    ``decompress`` are what the engine takes and gives, raw bytes. An engine in line with the link
    is as fast as the slower of both: min(link x ratio, engine), as in cDMA (arXiv 1705.01626).
    """

    to_host: float
    to_device: float
    compress: float = float("inf")
    decompress: float = float("inf")

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if not getattr(self, field.name) > 0:
                value = getattr(self, field.name)
                raise ValueError(f"{field.name} is {value} GB/s, not more than 0")

    def offload_s(self, stage: Stage) -> float:
        """Seconds from device to host."""
        return _seconds(stage, self.to_host, self.compress)

    def prefetch_s(self, stage: Stage) -> float:
        """Seconds from host to device."""
        return _seconds(stage, self.to_device, self.decompress)


@dataclasses.dataclass(frozen=True)
class Event:
    """Something that one stream is busy with, in seconds from the step's start.

    ``kind``: "forward", "backward", "offload" or "prefetch"; ``layer``: the stage's place;
    ``after``: places, in the timeline, of the events whose end it waits for; ``nbytes``: raw bytes
    that a copy moves.
    """

    stream: str
    kind: str
    layer: int
    name: str
    start: float
    end: float
    after: tuple[int, ...] = ()
    nbytes: float = 0

    @property
    def seconds(self) -> float:
        """How long it takes."""
        return self.end - self.start


@dataclasses.dataclass(frozen=True)
class Timeline:
    """The events of a step, each behind those that it waits for; all of it is modelled."""

    events: tuple[Event, ...]

    @property
    def step_s(self) -> float:
        """Seconds from the first event's start to the last one's end."""
        return max((event.end for event in self.events), default=0.0)

    @property
    def stall_s(self) -> float:
        """Seconds in which the compute stream waits for copies."""
        return self.step_s - sum(event.seconds for event in self.on("compute"))

    def on(self, stream: str) -> list[Event]:
        """The events of one stream, in their order."""
        return [event for event in self.events if event.stream == stream]

    def in_flight(self) -> list[tuple[float, int, float]]:
        """(seconds, layers, raw bytes) of what is offloaded and yet on the device, at every change.

        A layer's data is there from its forward pass' start until that and the offload have ended,
        and from its prefetch's start to its backward pass' end.
        """
        of = {(event.kind, event.layer): event for event in self.events}
        changes = []
        for (kind, layer), copy in of.items():
            if kind == "offload":
                forward = of["forward", layer]
                spell = forward.start, max(forward.end, copy.end)
            elif kind == "prefetch":
                spell = copy.start, of["backward", layer].end
            else:
                continue
            changes += [(spell[0], 1, copy.nbytes), (spell[1], -1, -copy.nbytes)]
        levels, layers, nbytes = [], 0, 0.0
        for time, more_layers, more_bytes in sorted(changes):  # at one time, what leaves is first
            layers, nbytes = layers + more_layers, nbytes + more_bytes
            levels.append((time, layers, nbytes))
        return levels

    def slices(self) -> list[Slice]:
        """The events for a trace, a thread for each stream."""
        return [
            Slice(
                f"{event.kind} {event.name}".rstrip(),
                event.kind,
                event.stream,
                event.start,
                event.seconds,
                {"layer": event.layer, "raw bytes": event.nbytes},
            )
            for event in self.events
        ]


def write_chrome_trace(timelines: Mapping[str, Timeline], path: str | os.PathLike) -> None:
    """Write one trace of several timelines, by their titles, each a process of its own."""
    slices = {title: timeline.slices() for title, timeline in timelines.items()}
    write_trace(slices, "modelled", path)


def oracle(stages: Sequence[Stage]) -> Timeline:
    """The step of a device that has room for everything: compute alone."""
    return simulate(stages, Route(1, 1), ())


def offloaded(stages: Sequence[Stage], policy: str) -> list[int]:
    """The places of the stages whose data vDNN's ``policy`` offloads.

    "all": of all that save something; "conv": of convolutions. ValueError for another policy.
    """
    if policy not in POLICIES:
        raise ValueError(f"unknown policy {policy!r}; known are {', '.join(POLICIES)}")
    return [i for i, s in enumerate(stages) if s.saved_bytes and POLICIES[policy](s)]


def simulate(
    stages: Sequence[Stage],
    route: Route,
    places: Iterable[int],
    buffers: int = VDNN_BUFFERS,
) -> Timeline:
    """The timeline of a step in which the stages at ``places`` give their data to the host.

    ``buffers`` bounds how many layers' data may be on its way at a time. Forward: a layer starts
    when fewer than ``buffers`` earlier offloads are unfinished. Backward: the data of a layer is
    prefetched from the start of the backward pass of the ``buffers``-th offloaded layer behind it
    on, and a layer starts when its own data is there and fewer than ``buffers`` prefetches are
    unfinished. With one buffer those are vDNN's rules: no layer starts before the copies that began
    with the one before it have ended. ValueError for less than one.
    """
    if buffers < 1:
        raise ValueError(f"buffers is {buffers}, not 1 or more")
    step = _Step(stages, route, buffers)
    moved = sorted(places)
    step.forward(moved)
    step.backward(moved)
    return Timeline(tuple(step.events))


class _Step:
    """A timeline in the making."""

    def __init__(self, stages: Sequence[Stage], route: Route, buffers: int) -> None:
        self.events: list[Event] = []
        self._stages, self._route, self._buffers = stages, route, buffers
        self._latest: dict[str, int] = {}  # place of each stream's latest event
        self._offloads: dict[int, int] = {}  # places by layer, in their order
        self._prefetches: dict[int, int] = {}

    def forward(self, offloaded: Sequence[int]) -> None:
        """Every layer; what it saves leaves from its start on."""
        for layer, stage in enumerate(self._stages):
            waits = self._start(self._offloads)
            self._run("compute", "forward", layer, stage.forward_s, waits)
            if layer in offloaded:
                seconds = self._route.offload_s(stage)
                self._offloads[layer] = self._run("to host", "offload", layer, seconds, waits)

    def backward(self, offloaded: Sequence[int]) -> None:
        """Every layer, last first; earlier ones' data comes from its start on."""
        due = list(offloaded)  # the last is prefetched next
        for layer in reversed(range(len(self._stages))):
            waits = self._start(self._prefetches)
            if layer == len(self._stages) - 1:
                for _ in range(min(self._buffers, len(due))):
                    self._prefetch(due.pop(), waits)
            if layer in self._prefetches:
                waits = (*waits, self._prefetches[layer])
            self._run("compute", "backward", layer, self._stages[layer].backward_s, waits)
            if layer in self._prefetches and due:
                self._prefetch(due.pop(), waits)

    def _prefetch(self, layer: int, waits: tuple[int, ...]) -> None:
        seconds = self._route.prefetch_s(self._stages[layer])
        waits = (*waits, self._offloads[layer])
        self._prefetches[layer] = self._run("to device", "prefetch", layer, seconds, waits)

    def _start(self, copies: dict[int, int]) -> tuple[int, ...]:
        """What the next layer's start waits for: the layer before it, and room in the buffers."""
        waits = [self._latest["compute"]] if "compute" in self._latest else []
        if len(copies) >= self._buffers:
            waits.append(list(copies.values())[-self._buffers])
        return tuple(waits)

    def _run(
        self, stream: str, kind: str, layer: int, seconds: float, waits: tuple[int, ...]
    ) -> int:
        """Add an event as early as can be; its place in the timeline."""
        before = (self._latest[stream],) if stream in self._latest else ()
        after = tuple(sorted({*waits, *before}))
        start = max((self.events[place].end for place in after), default=0.0)
        stage = self._stages[layer]
        nbytes = 0 if stream == "compute" else stage.saved_bytes
        event = Event(stream, kind, layer, stage.name, start, start + seconds, after, nbytes)
        self.events.append(event)
        self._latest[stream] = len(self.events) - 1
        return self._latest[stream]


def _seconds(stage: Stage, link: float, engine: float) -> float:
    return max(stage.saved_bytes / stage.ratio / link, stage.saved_bytes / engine) / 1e9
