"""The command line: ``actdma measure`` and what comes beside it."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from .frame import FRAME_BYTES
from .version import VERSION

USAGE_ERROR = 2
FOUND_DIFFERENCE = 1
INTERRUPTED = 130  # as shells count a SIGINT
PICTURES = (".png", ".pdf", ".svg")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code.

    0: done, and all bits are as in the plain run. 1: a bit differs. 2: what was asked for cannot be
    had (one sentence on stderr). 130: interrupted.
    """
    options = _parser().parse_args(arguments)
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


class UsageError(Exception):
    """What was asked for cannot be had; the message is one sentence."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="actdma",
        description="Activations of PyTorch models through a compressor in FPGA fabric and back.",
    )
    parser.add_argument("--version", action="version", version=f"actdma {VERSION}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_measure(commands)
    _add_fetch(commands)
    return parser


def _add_measure(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "measure",
        help="one training step of a model: size, ratio and rate of everything it saves",
        description="Runs a training step of a model plainly, and with everything that autograd "
        "saves going through the codec and back; checks that every bit is the same; prints one row "
        "per saved tensor.",
    )
    add = parser.add_argument
    add(
        "--model",
        default="efficientnet-lite0",
        metavar="NAME",
        help="efficientnet-lite0 (default; ImageNet weights), torchvision:NAME (its default "
        "weights), module:callable or path.py:callable; a callable returns a torch.nn.Module that "
        "takes images (batch, 3, 224, 224) and returns logits (batch, classes)",
    )
    add(
        "--data",
        metavar="FOLDER",
        help="images to use instead of the photographs that ship with scikit-image; normalised as "
        "the model wants, with ImageNet's statistics for models of your own",
    )
    add(
        "--batch",
        type=int,
        default=8,
        help="images in the step (default %(default)s); they repeat if there are fewer",
    )
    add(
        "--dtype",
        default="float32",
        help="float32 (default) or bfloat16: model and images are cast to it (no autocast)",
    )
    add(
        "--codec",
        default="auto",
        help="auto (default: zve, ints or zvc, as suits a tensor's dtype), zvc, rle, zve (for "
        "floating point), ints (for integers) or raw; zvc where zve or ints do not take a dtype",
    )
    add(
        "--backend",
        default="board",
        help="board (default), native (the CPU's codec) or reference (NumPy)",
    )
    add(
        "--board",
        help="auto, emulated or hardware, for --backend board; ACTDMA_BOARD or auto if not given",
    )
    add(
        "--timing",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="let the emulated board count clock cycles, which takes longer",
    )
    add(
        "--seed", type=int, default=0, help="of dropout and of random weights (default %(default)s)"
    )
    add(
        "--frame-bytes",
        type=int,
        default=FRAME_BYTES,
        metavar="N",
        help="raw bytes per frame, a multiple of 8192 (default %(default)s)",
    )
    add(
        "--json",
        type=Path,
        default=Path("results/measure.json"),
        metavar="PATH",
        help="records (default %(default)s)",
    )
    add("--csv", type=Path, metavar="PATH", help="records as CSV, too")
    add(
        "--plot",
        type=Path,
        default=Path("results/measure.png"),
        metavar="PATH",
        help="picture (default %(default)s)",
    )
    parser.set_defaults(run=_measure)


def _add_fetch(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "fetch",
        help="a board's bitstream into the cache, where open_board finds it",
        description="Copies the .bit and .hwh that `make -C overlay` has built into the cache "
        "(ACTDMA_CACHE, else ~/.cache/actdma), if they are what the manifest beside them says.",
    )
    parser.add_argument(
        "--board", required=True, help="the board's name; an unknown one lists them"
    )
    parser.add_argument(
        "--from",
        dest="source",
        required=True,
        metavar="URL-OR-FOLDER",
        help="where actdma.sha256 and the files it lists are",
    )
    parser.set_defaults(run=_fetch)


def _fetch(options: argparse.Namespace) -> int:
    from .overlay.cache import FetchError, fetch

    try:
        print(f"wrote {fetch(options.board, options.source)}")
    except FetchError as error:
        raise UsageError(str(error)) from error
    return 0


def _measure(options: argparse.Namespace) -> int:
    _check_outputs(options)
    try:
        from . import measure
    except ImportError as error:
        message = f"{error.name} is missing: pip install 'actdma[demo]'"
        raise UsageError(message if error.name else str(error)) from error
    fields = {f.name: getattr(options, f.name) for f in dataclasses.fields(measure.Options)}
    try:
        for module in ("matplotlib", "rich", "tqdm"):
            measure.need(module)  # now, not after the run
        report = measure.measure(measure.Options(**fields))
    except (measure.InputError, ImportError, ValueError) as error:
        raise UsageError(str(error)) from error
    measure.show(report)
    _write(options.json, report.to_json)
    _write(options.csv, functools.partial(measure.write_csv, report))
    _write(options.plot, functools.partial(measure.plot, report))
    same = report.gradients_identical and report.bit_identical() is not False
    return 0 if same else FOUND_DIFFERENCE


def _check_outputs(options: argparse.Namespace) -> None:
    """`UsageError` now, not after the run, if a result could not be written."""
    paths = [path for path in (options.json, options.csv, options.plot) if path is not None]
    if len({path.absolute() for path in paths}) < len(paths):
        raise UsageError("--json, --csv and --plot must be different files")
    if options.plot is not None and options.plot.suffix not in PICTURES:
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


def _write(path: Path | None, write: Callable[[Path], None]) -> None:
    if path is None:
        return
    try:
        write(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    print(f"wrote {path}")
