"""What the commands share: errors of one sentence, missing extras, files that are written."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

FOUND_WRONG = 1
PICTURES = (".png", ".pdf", ".svg")


class UsageError(Exception):
    """What was asked for cannot be had; the message is one sentence."""


@contextlib.contextmanager
def missing_extra(extra: str = "demo") -> Iterator[None]:
    """What cannot be imported is named, and the ``extra`` that brings it."""
    try:
        yield
    except ImportError as error:
        message = f"{error.name} is missing: pip install 'actdma[{extra}]'"
        raise UsageError(message if error.name else str(error)) from error


def check_outputs(options: argparse.Namespace, names: Sequence[str]) -> None:
    """`UsageError` now, not after the run, if a result could not be written."""
    paths = [path for path in (getattr(options, name) for name in names) if path is not None]
    if len({path.absolute() for path in paths}) < len(paths):
        *flags, last = (f"--{name.replace('_', '-')}" for name in names)
        raise UsageError(f"{', '.join(flags)} and {last} must be different files")
    if "plot" in names and options.plot is not None and options.plot.suffix not in PICTURES:
        raise UsageError(f"--plot {options.plot}: allowed are names in {', '.join(PICTURES)}")
    for path in paths:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            new = not path.exists()
            with path.open("ab"):
                pass
            if new:
                path.unlink()
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}") from error


def write(path: Path | None, write: Callable[[Path], None]) -> None:
    """Have a result written to ``path``, if there is one."""
    if path is None:
        return
    try:
        write(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    print(f"wrote {path}")
