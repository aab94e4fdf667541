"""Timelines as a picture: a bar per event, a row per stream."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ..measure.inputs import need
from ..trace import COLOURS
from .timeline import STREAMS, Timeline

KINDS = ("forward", "backward", "offload", "prefetch")


def plot_timelines(
    timelines: Mapping[str, Timeline], path: str | os.PathLike, title: str = ""
) -> None:
    """Write a picture of timelines, by their titles, one below the other on one axis of time."""
    figure_module = need("matplotlib.figure")
    height = 1.2 + 1.5 * len(timelines)
    figure = figure_module.Figure(figsize=(14, height), dpi=120, layout="constrained")
    rows = figure.subplots(len(timelines), 1, sharex=True, squeeze=False)[:, 0]
    end = max((timeline.step_s for timeline in timelines.values()), default=0.0)
    for axes, (name, timeline) in zip(rows, timelines.items(), strict=True):
        _draw(axes, timeline)
        axes.set_title(f"{name}: {timeline.step_s * 1e3:.1f} ms", loc="left", fontsize=10)
        axes.set_xlim(0, end * 1e3)
    rows[-1].set_xlabel("milliseconds from the step's start, modelled")
    patch = need("matplotlib.patches").Patch
    handles = [patch(color=COLOURS[kind], label=kind) for kind in KINDS]
    figure.legend(handles=handles, ncols=4, frameon=False, loc="outside upper right")
    figure.suptitle(title, fontsize=12, x=0.01, ha="left")
    figure.savefig(path)


def _draw(axes: Any, timeline: Timeline) -> None:
    for row, stream in enumerate(STREAMS):
        events = timeline.on(stream)
        axes.broken_barh(
            [(event.start * 1e3, event.seconds * 1e3) for event in events],
            (row - 0.4, 0.8),
            facecolors=[COLOURS[event.kind] for event in events],
            linewidth=0,
        )
    axes.set_yticks(range(len(STREAMS)), STREAMS)
    axes.set_ylim(len(STREAMS) - 0.4, -0.6)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(left=False)
