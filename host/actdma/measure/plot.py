"""The report as a picture."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ..offloading import Report, text
from .inputs import need

_RAW, _STORED, _ZEROS = "#c9d3df", "#1f5f8b", "#d9822b"


def plot(report: Report, path: str | os.PathLike) -> None:
    """Write a PNG: raw and stored bytes of every tensor, its zero fraction, and the totals."""
    figure = need("matplotlib.figure").Figure(figsize=(14, 7), dpi=120, layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=(10, 1.3), height_ratios=(3, 1.3))
    sizes = figure.add_subplot(grid[0, 0])
    zeros = figure.add_subplot(grid[1, 0], sharex=sizes)
    _sizes(sizes, report)
    _zeros(zeros, report)
    _total(figure.add_subplot(grid[:, 1]), report)
    figure.suptitle(text.title(report), fontsize=14, x=0.01, ha="left")
    figure.savefig(path)


def _sizes(axes: Any, report: Report) -> None:
    index = [r.index for r in report.records]
    axes.bar(index, [r.raw_bytes / 1e6 for r in report.records], 0.85, color=_RAW, label="raw")
    stored = [r.stored_bytes / 1e6 for r in report.records]
    axes.bar(index, stored, 0.85, color=_STORED, label="stored")
    axes.set_ylabel("MB per tensor")
    axes.legend(frameon=False, loc="upper right")
    axes.tick_params(labelbottom=False)
    _clean(axes)


def _zeros(axes: Any, report: Report) -> None:
    index = [r.index for r in report.records]
    axes.bar(index, [100 * r.zero_fraction for r in report.records], 0.85, color=_ZEROS)
    axes.set_ylabel("zeros, %")
    axes.set_ylim(0, 100)
    axes.set_xlabel("saved tensor, in the order of the forward pass, by the module that saved it")
    ticks = np.unique(np.linspace(0, len(index) - 1, min(len(index), 24)).astype(int))
    names = [report.records[i].module or report.records[i].operator or str(i) for i in ticks]
    axes.set_xticks(ticks, names, rotation=40, ha="right", fontsize=8, rotation_mode="anchor")
    axes.set_xlim(-1, len(index))
    _clean(axes)


def _total(axes: Any, report: Report) -> None:
    totals = report.totals()
    for x, key, colour in ((0, "raw", _RAW), (1, "stored", _STORED)):
        value = totals[f"{key}_bytes"] / 1e6
        axes.bar(x, value, 0.7, color=colour)
        axes.text(x, value, f"{value:.1f}", ha="center", va="bottom")
    axes.set_xticks((0, 1), ("raw", "stored"))
    axes.set_ylabel("MB in all")
    if totals["ratio"] is not None:
        zeros = f"{totals['zero_fraction']:.0%} zeros"
        axes.set_title(f"ratio {totals['ratio']:.2f}\n{zeros}", fontsize=11)
    _clean(axes)


def _clean(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.01)
