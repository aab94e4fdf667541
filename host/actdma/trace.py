"""Timelines as Chrome's trace events, which Perfetto and ``chrome://tracing`` read.

The fields are those of the Trace Event Format: complete events (``ph`` "X") with their start and
duration in microseconds, and metadata events (``ph`` "M") that name processes and threads.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

KINDS = ("measured", "modelled")
# A colour for each category of work, of those that Okabe and Ito chose for colour-blind readers
# (jfly.uni-koeln.de/color), and a dark blue.
COLOURS = {
    "forward": "#56B4E9",
    "backward": "#33658A",
    "offload": "#E69F00",
    "prefetch": "#CC79A7",
    "compress": "#E69F00",
    "decompress": "#CC79A7",
    "make again": "#009E73",
}


class Slice(NamedTuple):
    """What a thread was busy with; ``start`` and ``seconds`` in seconds.

    ``category``: what kind of work it is. ``thread``: its number and name. ``details``: whatever
    else is worth knowing, shown with it.
    """

    name: str
    category: str
    thread: tuple[int, str]
    start: float
    seconds: float
    details: dict[str, Any]


def write_trace(
    timelines: Mapping[str, Iterable[Slice]], kind: str, path: str | os.PathLike
) -> None:
    """Write timelines, by their titles, to ``path``, each as a process of its own.

    ``kind``: whether their times are "measured" or "modelled"; it goes into the processes' names,
    and into "otherData", where `actdma report` reads it. ValueError for another.
    """
    if kind not in KINDS:
        raise ValueError(f"unknown kind {kind!r}; known are {', '.join(KINDS)}")
    events = [
        event
        for process, (title, slices) in enumerate(timelines.items())
        for event in _events(process, f"{title}, {kind}", list(slices))
    ]
    data = {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"actdma": kind}}
    Path(path).write_text(json.dumps(data) + "\n")


def _events(process: int, title: str, slices: list[Slice]) -> list[dict[str, Any]]:
    threads = dict.fromkeys(s.thread for s in slices)
    named = [("process_name", 0, title)]
    named += [("thread_name", number, name) for number, name in threads]
    names = [
        {"ph": "M", "name": name, "pid": process, "tid": number, "args": {"name": text}}
        for name, number, text in named
    ]
    return names + [
        {
            "ph": "X",
            "name": s.name,
            "cat": s.category,
            "pid": process,
            "tid": s.thread[0],
            "ts": s.start * 1e6,
            "dur": s.seconds * 1e6,
            "args": s.details,
        }
        for s in slices
    ]
