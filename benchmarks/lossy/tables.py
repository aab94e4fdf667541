"""Columns and cells of an experiment's tables."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from .rows import ALONE, BASELINE
from .summary import Line

MEASURES = {"held": "held", "tracker": "tracker", "rss": "RSS, trimmed"}
ACCURACY = (
    *("schedule", "row", "setting", "seeds", "validation, %", "test, %"),
    *("to baseline, points", "best schedule"),
)
COSTS = (
    *("dtype", "row", "setting"),
    *(column for name in MEASURES.values() for column in (f"{name} MB", "to plain")),
    *("step ms", "of plain", "gradients as alone"),
)
GRADIENTS = ("weights", "row", "layers", "cosine, mean", "lowest", "error, mean", "highest")


def accuracy(lines: Sequence[Line]) -> list[list[str]]:
    """Cells of lines."""
    return [
        [
            *(line.length, line.row, line.setting, str(line.test.count)),
            f"{line.validation:.2f}",
            f"{line.test:.2f}",
            "" if line.row == BASELINE else f"{line.difference:+.2f}",
            "yes" if line.best else "",
        ]
        for line in lines
    ]


def costs(figures: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Cells of each case, beside the plain step of its dtype."""
    by_key = {(f["dtype"], f["row"], f["setting"]): f for f in figures}
    cells = []
    for (dtype, row, setting), f in by_key.items():
        plain, alone = by_key[dtype, BASELINE, ALONE], by_key[dtype, row, ALONE]
        sizes = (
            (f"{f[name] / 1e6:.1f}", f"{100 * (f[name] / plain[name] - 1):+.1f} %")
            for name in MEASURES
        )
        cells.append(
            [
                *(dtype, row, setting),
                *(cell for pair in sizes for cell in pair),
                f"{1e3 * f['seconds']:.0f}" if "seconds" in f else "",
                f"{f['of_plain']:.2f}x" if "of_plain" in f else "",
                "yes" if f["gradients"] == alone["gradients"] else "no",
            ]
        )
    return cells


def gradients(figures: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Cells of each row: over the layers that it touches."""
    cells = []
    for f in figures:
        touched = [layer for layer in f["layers"].values() if layer["error"]]
        cosines, errors = ([layer[name] for layer in touched] for name in ("cosine", "error"))
        cells.append([f["weights"], f["row"], f"{len(touched)} of {len(f['layers'])}"])
        if touched:
            cells[-1] += [f"{statistics.fmean(cosines):.3f}", f"{min(cosines):.3f}"]
            cells[-1] += [f"{statistics.fmean(errors):.3f}", f"{max(errors):.3f}"]
    return cells
