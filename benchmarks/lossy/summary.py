"""What the runs say: accuracy by row and schedule, beside the baseline of the same seeds."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence

from .intervals import Interval, interval, paired
from .rows import ALONE, BASELINE

_BASELINE = (BASELINE, ALONE)


@dataclasses.dataclass(frozen=True)
class Result:
    """Accuracies of a run, in per cent; ``length``: which of the schedules."""

    start: str
    length: str
    row: str
    setting: str
    seed: int
    validation: float
    test: float


@dataclasses.dataclass(frozen=True)
class Line:
    """A row under a schedule; ``difference``: of its test accuracy to the baseline's, in points.

    ``best``: of the row's schedules this one has the highest mean validation accuracy.
    """

    start: str
    length: str
    row: str
    setting: str
    validation: Interval
    test: Interval
    difference: Interval
    best: bool


def lines(results: Sequence[Result]) -> list[Line]:
    """A line for each row and setting under each schedule, the baseline under the same one."""
    groups = _groups(results)
    return [
        Line(
            *(start, length, row, setting),
            interval(list(group["validation"].values())),
            interval(list(group["test"].values())),
            paired(group["test"], groups[(start, length, *_BASELINE)]["test"]),
            best_length(results, start, row, setting) == length,
        )
        for (start, length, row, setting), group in groups.items()
    ]


def at_best(results: Sequence[Result]) -> list[Line]:
    """A line for each row and setting under its best schedule, the baseline under its own."""
    groups, found = _groups(results), []
    for line in lines(results):
        if line.best:
            mine = groups[line.start, line.length, line.row, line.setting]
            length = best_length(results, line.start, *_BASELINE)
            theirs = groups[(line.start, length, *_BASELINE)]
            difference = paired(mine["test"], theirs["test"])
            found.append(dataclasses.replace(line, difference=difference))
    return found


def best_length(results: Sequence[Result], start: str, row: str, setting: str) -> str:
    """The schedule under which the row's mean validation accuracy is highest."""
    means = {
        length: statistics.fmean(group["validation"].values())
        for (start_, length, *row_), group in _groups(results).items()
        if (start_, *row_) == (start, row, setting)
    }
    return max(means, key=means.__getitem__)


def _groups(results: Sequence[Result]) -> dict[tuple[str, ...], dict[str, dict[int, float]]]:
    """Accuracies by start, length, row and setting; then "validation" or "test"; then seed."""
    groups: dict[tuple[str, ...], dict[str, dict[int, float]]] = {}
    for r in results:
        key = (r.start, r.length, r.row, r.setting)
        group = groups.setdefault(key, {"validation": {}, "test": {}})
        group["validation"][r.seed] = r.validation
        group["test"][r.seed] = r.test
    return groups
