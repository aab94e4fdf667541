"""Runs a tool with a log."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import BuildError

_SHOWN = 5


def run(command: Sequence[str], folder: Path, env: Mapping[str, str], log: Path) -> None:
    """Run ``command`` in ``folder``, its output in ``log``; `BuildError` with its errors if it
    fails."""
    print("+ " + " ".join(command), flush=True)
    try:
        with log.open("a", encoding="utf-8", errors="replace") as stream:
            code = subprocess.call(
                command,
                cwd=folder,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
            )
    except OSError as error:
        raise BuildError(f"{command[0]} does not run: {error}") from error
    if code:
        lines = log.read_text("utf-8", errors="replace").splitlines()
        errors = [line for line in lines if line.startswith("ERROR")] or lines
        shown = "".join(f"\n  {line}" for line in errors[-_SHOWN:])
        raise BuildError(f"{command[0]} failed (exit code {code}); log: {log}{shown}")
