"""What the benchmarks share: data, memcpy, and where the tables go."""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import datetime
import json
import platform
import re
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
from rich.console import Console
from rich.table import Table

JSON_FORMAT = 1


@dataclasses.dataclass(frozen=True)
class Study:
    """What a table is of: ``name``, by which `actdma report` knows it, and its title.

    ``kind``: "measured", "modelled", or "by column", where the columns' names say.
    """

    name: str
    title: str
    kind: str


def timed(function: Callable[[], object]) -> float:
    """Wall-clock seconds of one call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def memcpy_seconds(target: np.ndarray, source: np.ndarray) -> float:
    """Seconds to copy ``source`` (contiguous) over ``target``."""
    return timed(lambda: ctypes.memmove(target.ctypes.data, source.ctypes.data, source.nbytes))


def aligned_ones(nbytes: int) -> np.ndarray:
    """``nbytes`` that have been written to (uint8), from a multiple of 64 on."""
    memory = np.ones(nbytes + 64, np.uint8)
    return memory[-memory.ctypes.data % 64 :][:nbytes]


def aligned(data: np.ndarray) -> np.ndarray:
    """A copy of ``data`` (uint8), from a multiple of 64 on."""
    copy = aligned_ones(data.size)
    copy[:] = data
    return copy


def compared(
    work: dict[str, Callable[[], object]], raw: np.ndarray, back: np.ndarray, repeats: int
) -> dict[str, dict[str, float]]:
    """Per operation raw GB/s, that of memcpy, and their ratio."""
    results = {}
    for name, function in work.items():
        pairs = [(timed(function), memcpy_seconds(back, raw)) for _ in range(repeats)]
        seconds, copy = (statistics.median(column) for column in zip(*pairs, strict=True))
        results[name] = {
            "gb_per_s": raw.size / seconds / 1e9,
            "memcpy_gb_per_s": raw.size / copy / 1e9,
            "ratio": statistics.median(copy / seconds for seconds, copy in pairs),
        }
    return results


def random_data(nbytes: int, element_bytes: int, zeros: float) -> np.ndarray:
    """``nbytes`` of random elements as uint8, the fraction ``zeros`` of them zero."""
    rng = np.random.default_rng(0)
    dtype = np.dtype(f"u{element_bytes}")
    values = rng.integers(1, np.iinfo(dtype).max, nbytes // element_bytes, dtype)
    values[rng.random(values.size, np.float32) < zeros] = 0
    return values.view(np.uint8)


def processor() -> str:
    """The processor's name as the system gives it."""
    try:
        found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine()


def publish(
    study: Study,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    figures: list,
    what: str,
    args: argparse.Namespace,
    pictures: Sequence[tuple[Path | None, str]] = (),
) -> None:
    """Print the table; it goes with the figures to ``args.json``, and to ``args.docs``, there with
    links to ``pictures`` (file or None, what it shows), if they are given.

    `actdma report` reads the JSON: the study, ``what`` with processor and date as the caption, the
    command, columns, rows (of text) and figures.
    """
    caption = f"{processor()}, {datetime.date.today()}: {what}"
    table = Table(*columns, title=study.title, caption=caption)
    for row in rows:
        table.add_row(*row)
    console = Console()
    console.width = max(console.width, 120)
    console.print(table)
    command = shlex.join(["python", *sys.orig_argv[1:]])
    if args.json:
        data = {"format": JSON_FORMAT, "study": dataclasses.asdict(study), "caption": caption}
        data |= {"command": command, "columns": columns, "rows": rows, "figures": figures}
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(data, indent=2) + "\n")
    if args.docs:
        lines = [columns, ["---"] * len(columns), *rows]
        body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        links = "".join(f"![{shows}]({file.name})\n\n" for file, shows in pictures if file)
        update_section(
            args.docs, f"## {study.title}", f"{caption}.\n\n`{command}`\n\n{links}{body}"
        )


def pyplot() -> ModuleType:
    """`matplotlib.pyplot` that draws to files."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def update_section(path: Path, heading: str, body: str) -> None:
    """Put ``body`` below ``heading`` in ``path``, in place of what was there."""
    text = path.read_text() if path.exists() else "# Performance\n"
    before, _, after = text.partition(heading + "\n")
    following = re.search(r"^## ", after, re.MULTILINE)
    rest = after[following.start() :] if following else ""
    path.write_text(f"{before.rstrip()}\n\n{heading}\n\n{body}\n" + (f"\n{rest}" if rest else ""))
