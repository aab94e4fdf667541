"""What the benchmarks share: data, the comparison with memcpy, and where the tables go."""

from __future__ import annotations

import argparse
import re
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np

from actdma.bench.study import Published, Study, command
from actdma.bench.timing import memcpy_seconds, timed


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
    published = Published(study, columns, rows, figures, what)
    published.show()
    if args.json:
        published.to_json(args.json)
    if args.docs:
        lines = [columns, ["---"] * len(columns), *rows]
        body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        links = "".join(f"![{shows}]({file.name})\n\n" for file, shows in pictures if file)
        update_section(
            args.docs,
            f"## {study.title}",
            f"{published.caption}.\n\n`{command()}`\n\n{links}{body}",
        )


def existing_folder(text: str) -> Path:
    """An argument that names a folder which is there."""
    path = Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is not a folder")
    return path


def at_least_one(text: str) -> int:
    """An argument that is a number of things of which there have to be some."""
    number = int(text) if re.fullmatch(r"-?\d+", text) else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1 on")
    return number


def _word(name: str) -> str:
    """A network's name as one word in small letters, as commands take it."""
    return "".join(filter(str.isalnum, name.lower()))


def add_networks(parser: argparse.ArgumentParser, names: Sequence[str]) -> None:
    """The option ``--network``: some of ``names``, as they are or in one word; all unless given."""
    by_word = {_word(name): name for name in names}
    parser.add_argument(
        "--network",
        type=lambda text: by_word.get(_word(text), text),
        nargs="+",
        default=names,
        choices=names,
        help="as in the tables, or in one word: resnet20 (default: all)",
    )


def pyplot() -> ModuleType:
    """`matplotlib.pyplot` that draws to files."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def update_section(path: Path, heading: str, body: str) -> None:
    """Put ``body`` below ``heading`` in ``path``, in place of what was there."""
    text = path.read_text() if path.exists() else "# Benchmarks\n"
    before, _, after = text.partition(heading + "\n")
    following = re.search(r"^## ", after, re.MULTILINE)
    rest = after[following.start() :] if following else ""
    path.write_text(f"{before.rstrip()}\n\n{heading}\n\n{body}\n" + (f"\n{rest}" if rest else ""))
