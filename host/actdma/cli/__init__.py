"""The command line: ``actdma measure`` and what comes beside it, a module each."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from ..version import VERSION
from . import bench, completion, doctor, fetch, measure, report, simulate
from .common import UsageError

COMMANDS = (measure, bench, simulate, report, doctor, fetch, completion)
USAGE_ERROR = 2
INTERRUPTED = 130  # as shells count a SIGINT


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code.

    0: done, and nothing is wrong. 1: a bit differs from the plain run, or the doctor found
    something wrong. 2: what was asked for cannot be had (one sentence on stderr). 130: interrupted.
    """
    options = parser().parse_args(arguments)
    try:
        return options.run(options)
    except UsageError as error:
        print(f"actdma: {error}", file=sys.stderr)
        return USAGE_ERROR
    except KeyboardInterrupt:
        print("actdma: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has gone (`| head`): nothing more can be said, not at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def parser() -> argparse.ArgumentParser:
    """What is understood."""
    found = argparse.ArgumentParser(
        prog="actdma",
        description="Activations of PyTorch models through a compressor in FPGA fabric and back.",
    )
    found.add_argument("--version", action="version", version=f"actdma {VERSION}")
    commands = found.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add(commands)
    return found
