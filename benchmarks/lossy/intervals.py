"""Means with their 95 % intervals."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence

from scipy import stats


@dataclasses.dataclass(frozen=True)
class Interval:
    """A mean of ``count`` numbers; ``half``: of its 95 % t-interval, None for a single number."""

    mean: float
    half: float | None
    count: int

    @property
    def low(self) -> float | None:
        """The interval's lower end."""
        return None if self.half is None else self.mean - self.half

    def __format__(self, spec: str) -> str:
        return f"{self.mean:{spec}}" + ("" if self.half is None else f" ± {self.half:.2f}")


def interval(numbers: Sequence[float]) -> Interval:
    """Student's interval of the mean of ``numbers``, which are taken as normal."""
    count = len(numbers)
    if count < 2:
        return Interval(statistics.fmean(numbers), None, count)
    error = statistics.stdev(numbers) / math.sqrt(count)
    return Interval(statistics.fmean(numbers), float(stats.t.ppf(0.975, count - 1)) * error, count)


def paired(mine: dict[int, float], theirs: dict[int, float]) -> Interval:
    """The mean difference, of the seeds that both have. ValueError if there is none."""
    seeds = sorted(mine.keys() & theirs.keys())
    if not seeds:
        raise ValueError(f"no seed in common: {sorted(mine)} and {sorted(theirs)}")
    return interval([mine[seed] - theirs[seed] for seed in seeds])
