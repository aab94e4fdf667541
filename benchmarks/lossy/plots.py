"""An experiment's figures as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from common import pyplot

from .rows import ALONE, BASELINE


def plot(figures: dict[str, Any], title: str, path: Path) -> None:
    """Write a PNG: a panel for each step that has figures."""
    panels = {"at_best": _accuracy, "costs": _held, "gradients": _gradients}
    panels = {step: draw for step, draw in panels.items() if figures.get(step)}
    rows = max(len(figures.get(step, ())) for step in ("at_best", "costs"))
    size = (6.5 * len(panels), max(5, 0.14 * rows))
    figure, axes = pyplot().subplots(
        1, len(panels), squeeze=False, figsize=size, layout="constrained"
    )
    for axis, (step, draw) in zip(axes[0], panels.items(), strict=True):
        draw(axis, figures[step])
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, x=0.01, ha="left")
    figure.savefig(path, dpi=150)
    pyplot().close(figure)


def _accuracy(axes: Any, lines: list[dict[str, Any]]) -> None:
    starts = list(dict.fromkeys(line["start"] for line in lines))
    lines = [line for line in lines if line["row"] != BASELINE]
    rows = list(dict.fromkeys(_label(line) for line in lines))
    for number, start in enumerate(starts):
        found = [line for line in lines if line["start"] == start]
        shift = 0.16 * (number - (len(starts) - 1) / 2)
        axes.errorbar(
            [line["difference"]["mean"] for line in found],
            [rows.index(_label(line)) + shift for line in found],
            xerr=[line["difference"]["half"] or 0 for line in found],
            fmt="o",
            capsize=3,
            label=start,
        )
    axes.axvline(0, color="black", linewidth=0.8)
    axes.axvline(-1, color="grey", linewidth=0.8, linestyle=":")
    axes.set_yticks(range(len(rows)), rows)
    axes.invert_yaxis()
    axes.set_xlabel("test accuracy to the baseline, points (95 %), best schedules")
    axes.legend(frameon=False)


def _label(line: dict[str, Any]) -> str:
    return line["row"] if line["setting"] == ALONE else f"{line['row']}, {line['setting']}"


def _held(axes: Any, costs: list[dict[str, Any]]) -> None:
    cases = list(dict.fromkeys((f["dtype"], f["setting"]) for f in costs))
    rows = list(dict.fromkeys(f["row"] for f in costs))
    plain = {f["dtype"]: f["held"] for f in costs if (f["row"], f["setting"]) == (BASELINE, ALONE)}
    height = 0.84 / len(cases)
    for number, case in enumerate(cases):
        found = [f for f in costs if (f["dtype"], f["setting"]) == case]
        bars = axes.barh(
            [rows.index(f["row"]) + height * (number - (len(cases) - 1) / 2) for f in found],
            [f["held"] / plain[f["dtype"]] for f in found],
            height,
            label=", ".join(case),
        )
        axes.bar_label(bars, fmt="%.2f", fontsize=6, padding=1)
    axes.set_yticks(range(len(rows)), rows)
    axes.invert_yaxis()
    axes.set_xlabel("bytes held for backward, of plain")
    axes.legend(frameon=False, fontsize=8)


def _gradients(axes: Any, figures: list[dict[str, Any]]) -> None:
    weights = list(dict.fromkeys(f["weights"] for f in figures))
    rows = list(dict.fromkeys(f["row"] for f in figures))
    for f in figures:
        cosines = [layer["cosine"] for layer in f["layers"].values()]
        axes.plot(
            cosines,
            color=f"C{rows.index(f['row'])}",
            linestyle=("-", "--", ":", "-.")[weights.index(f["weights"]) % 4],
            label=f"{f['row']}, {f['weights']}",
        )
    axes.set_xlabel("layer, from the input on")
    axes.set_ylabel("cosine of its weight's gradient with the exact one")
    axes.legend(frameon=False, fontsize=6)
