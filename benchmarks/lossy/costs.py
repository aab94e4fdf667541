"""Memory and time of a training step: each row in each setting, in a process of its own.

*Held*: the most bytes that are held for backward, each storage once, parameters left out; decoded
tensors count. *Tracker* and *RSS, trimmed*: see `memory.py`; frames, which PyTorch does not know,
are added to the tracker's peak, all of them, as if all were there at that moment. *Step*: forward
and backward, of the plain one's in the same process, taken by turns.
"""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from memory import MALLOC, resident_bytes, tracker_bytes
from variants import VARIANTS, Trial, Variant

from networks import Work

from .rows import BASELINE, SETTINGS, hooks

SECONDS = 1200  # that a process may take
KEPT = "kept"  # a record's backend where it is a tensor, and no frame


@dataclasses.dataclass(frozen=True)
class Case:
    """What one process measures; ``work``: the file of a `Work`."""

    work: str
    row: str
    setting: str
    dtype: str
    threads: int
    rounds: int

    def trial(self) -> Trial:
        """Steps of the row."""
        return Trial(self._load(), Variant(hooks(self.row, self.setting)), self.dtype)

    def plain(self) -> Trial:
        """Plain steps of the same work."""
        return Trial(self._load(), VARIANTS["plain"], self.dtype)

    def _load(self) -> Work:
        return torch.load(self.work, weights_only=False)


def costs(
    work: Work,
    rows: Sequence[str],
    dtypes: Sequence[str],
    threads: int,
    rounds: int,
    folder: Path,
) -> Iterator[dict[str, Any]]:
    """Figures of every row, the baseline's first, in every setting and dtype. What is done lies in
    ``folder``, and is not done again with as many images, threads and rounds."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        file = str(Path(temporary) / "work")
        torch.save(work, file)
        for dtype in dtypes:
            for row in dict.fromkeys([BASELINE, *rows]):
                for setting in SETTINGS:
                    case = Case(file, row, setting, dtype, threads, rounds)
                    sizes = f"{len(work.images)}-{threads}-{rounds}"
                    yield _kept(folder / f"{dtype}-{row}-{setting}-{sizes}.json", case)


def _kept(path: Path, case: Case) -> dict[str, Any]:
    """The figures in the file, which is written if it is not there."""
    if path.exists():
        return json.loads(path.read_text())
    figures = {"row": case.row, "setting": case.setting, "dtype": case.dtype}
    figures |= _in_fresh_process(memory, case, MALLOC)
    if case.rounds:
        figures |= _in_fresh_process(times, case, {})
    path.write_text(json.dumps(figures) + "\n")
    return figures


def memory(case: Case) -> dict[str, Any]:
    """Bytes that this process, a fresh one, needs for a step, and a hash of the gradients."""
    trial = case.trial()
    rss = resident_bytes(trial)
    session = trial.step()
    gradients = trial.gradients()
    report = session and session.report()
    frames = sum(r.stored_bytes for r in report.records if r.backend != KEPT) if report else 0
    return {
        "rss": rss,
        "held": report.held_bytes_peak if report else trial.held()["held"],
        "tracker": tracker_bytes(trial) + frames,
        "gradients": gradients,
    }


def times(case: Case) -> dict[str, float]:
    """Medians of the step's seconds, and of their ratio to the plain step's."""
    trial, plain = case.trial(), case.plain()
    trial.step()
    plain.step()
    pairs = [(_seconds(trial), _seconds(plain)) for _ in range(case.rounds)]
    return {
        "seconds": statistics.median(mine for mine, _ in pairs),
        "of_plain": statistics.median(mine / theirs for mine, theirs in pairs),
    }


def _seconds(trial: Trial) -> float:
    began = time.perf_counter()
    trial.step()
    return time.perf_counter() - began


def _in_fresh_process(
    what: Callable[[Case], dict], case: Case, allocator: dict[str, str]
) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "lossy.costs", what.__name__, json.dumps(dataclasses.asdict(case))],
        cwd=Path(__file__).parents[1],
        env={**os.environ, **allocator},
        stdout=subprocess.PIPE,
        timeout=SECONDS,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    case = Case(**json.loads(sys.argv[2]))
    torch.set_num_threads(case.threads)
    print(json.dumps({"memory": memory, "times": times}[sys.argv[1]](case)))


if __name__ == "__main__":
    main()
