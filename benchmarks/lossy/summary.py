"""What the runs say: accuracy by row and schedule, beside the baseline of the same seeds."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence

from .intervals import Interval, interval, paired
from .rows import BASELINE


@dataclasses.dataclass(frozen=True)
class Result:
    """Accuracies of a run, in per cent; ``length``: which of the schedules."""

    start: str
    length: str
    row: str
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
    validation: Interval
    test: Interval
    difference: Interval
    best: bool


def lines(results: Sequence[Result]) -> list[Line]:
    """A line for each row under each schedule, the baseline under the same one."""
    keys = dict.fromkeys((r.start, r.length, r.row) for r in results)
    return [
        Line(
            *(start, length, row),
            interval(list(_by_seed(results, start, length, row, "validation").values())),
            interval(list(_by_seed(results, start, length, row, "test").values())),
            _difference(results, start, (length, row), (length, BASELINE)),
            best_length(results, start, row) == length,
        )
        for start, length, row in keys
    ]


def at_best(results: Sequence[Result]) -> list[Line]:
    """A line for each row under its best schedule, the baseline under its own best one."""
    found = []
    for line in lines(results):
        if line.best:
            baseline = best_length(results, line.start, BASELINE), BASELINE
            mine = line.length, line.row
            difference = _difference(results, line.start, mine, baseline)
            found.append(dataclasses.replace(line, difference=difference))
    return found


def best_length(results: Sequence[Result], start: str, row: str) -> str:
    """The schedule under which the row's mean validation accuracy is highest."""
    lengths = dict.fromkeys(r.length for r in results if (r.start, r.row) == (start, row))
    return max(
        lengths,
        key=lambda length: statistics.fmean(
            _by_seed(results, start, length, row, "validation").values()
        ),
    )


def _difference(
    results: Sequence[Result], start: str, mine: tuple[str, str], theirs: tuple[str, str]
) -> Interval:
    return paired(*(_by_seed(results, start, *key, "test") for key in (mine, theirs)))


def _by_seed(
    results: Sequence[Result], start: str, length: str, row: str, what: str
) -> dict[int, float]:
    return {
        r.seed: getattr(r, what)
        for r in results
        if (r.start, r.length, r.row) == (start, length, row)
    }
