"""The command line: ``actdma measure`` and what comes beside it."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
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
    _add_simulate(commands)
    _add_report(commands)
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
    add("--trace", type=Path, metavar="PATH", help="what was packed when, for Perfetto")
    add(
        "--plot",
        type=Path,
        default=Path("results/measure.png"),
        metavar="PATH",
        help="picture (default %(default)s)",
    )
    parser.set_defaults(run=_measure)


def _add_simulate(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "simulate",
        help="modelled time of a training step whose saved activations go to host memory",
        description="Models a training step of a virtualised network (vDNN): activations go to "
        "host memory in forward and come back in backward, with and without compression. Unless "
        "ratios are given, the CPU's codec measures them on a few photographs.",
    )
    add = parser.add_argument
    add("--list", action="store_true", help="print the devices, links and networks, and exit")
    add("--network", metavar="NAME", help="of the zoo (--list), or as --model of actdma measure")
    add(
        "--device",
        default="titan-x",
        metavar="NAME",
        help="whose roofline gives the seconds (default %(default)s); measured: those of this "
        "machine, for a step of the whole batch",
    )
    add("--link", default="pcie3", metavar="NAME", help="to host memory (default %(default)s)")
    add(
        "--codec",
        nargs="+",
        default=["zvc"],
        metavar="NAME",
        help="zvc (default), rle, zve, ints, raw, auto; several give a row each",
    )
    add("--policy", default="all", help="all (default), or conv: what convolutions save")
    add("--batch", type=int, default=128, help="images in the step (default %(default)s)")
    add("--side", type=int, help="of the images; the network's own if not given")
    add("--precision", default="float32", help="float32 (default) or half: bfloat16")
    add(
        "--saves",
        default="all",
        help="all (default) that PyTorch saves, or maps: what modules receive and return, as "
        "libraries with one kernel per layer save",
    )
    add("--ratio", type=float, help="of all layers, in place of measured ones")
    add("--density", type=float, help="of all layers: cDMA's zero-value compression of it")
    add("--measured", type=Path, metavar="PATH", help="measurement that --measure-to has written")
    add("--measure-to", type=Path, metavar="PATH", help="write ratios and seconds, as JSON")
    add("--sample", type=int, default=2, help="photographs for the ratios (default %(default)s)")
    add("--data", metavar="FOLDER", help="photographs, in place of scikit-image's")
    add("--seed", type=int, default=0, help="of random weights (default %(default)s)")
    add("--engine", type=float, metavar="GB/S", help="raw bytes per second that the engine takes")
    add(
        "--buffers",
        type=int,
        default=1,
        help="layers whose data may be on its way at a time (default %(default)s, vDNN's)",
    )
    add("--json", type=Path, metavar="PATH", help="write the figures")
    add("--trace", type=Path, metavar="PATH", help="write the timelines for Perfetto")
    add("--plot", type=Path, metavar="PATH", help="write the timelines as a picture")
    parser.set_defaults(run=_simulate)


def _add_report(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "report",
        help="a page of charts and tables of what the other commands and the benchmarks wrote",
        description="Writes one HTML page, which works offline, of the JSON files in a folder: "
        "those of `actdma measure`, of `actdma simulate` (--json, --trace) and of the scripts in "
        "benchmarks/ (--json).",
    )
    add = parser.add_argument
    add("folder", type=Path, metavar="RESULTS", help="with the JSON files")
    add(
        "--out",
        type=Path,
        default=Path("report.html"),
        metavar="PATH",
        help="the page (default %(default)s)",
    )
    parser.set_defaults(run=_report)


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


def _simulate(options: argparse.Namespace) -> int:
    outputs = ("json", "trace", "plot", "measure_to")
    _check_outputs(options, outputs)
    with _missing_extra():
        from .simulate import plot, run, table, timeline
    if options.list:
        table.show_choices()
        return 0
    if options.network is None:
        raise UsageError("--network is missing; --list has the names")
    fields = {f.name: getattr(options, f.name) for f in dataclasses.fields(run.Options)}
    try:
        study = run.run(run.Options(**{**fields, "codec": tuple(options.codec)}))
    except (run.InputError, ImportError, ValueError) as error:
        raise UsageError(str(error)) from error
    table.show(study)
    timelines = {row.name: row.timeline for row in study.rows}
    if options.measure_to and study.measurement is None:
        raise UsageError("--measure-to: nothing was measured, ratio and seconds are given")
    _write(options.json, study.to_json)
    _write(options.measure_to, lambda path: study.measurement.to_json(path))
    _write(options.trace, functools.partial(timeline.write_chrome_trace, timelines))
    _write(options.plot, functools.partial(plot.plot_timelines, timelines, title=study.title))
    return 0


def _report(options: argparse.Namespace) -> int:
    _check_outputs(options, ("out",))
    with _missing_extra("report"):
        from . import report
    try:
        notices = report.write_page(options.folder, options.out)
    except report.ReportError as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        raise UsageError(f"cannot write {options.out}: {error.strerror}") from error
    for notice in notices:
        print(f"actdma: {notice.file}: {notice.why}", file=sys.stderr)
    print(f"wrote {options.out}")
    return 0


@contextlib.contextmanager
def _missing_extra(extra: str = "demo") -> Iterator[None]:
    """What cannot be imported is named, and the ``extra`` that brings it."""
    try:
        yield
    except ImportError as error:
        message = f"{error.name} is missing: pip install 'actdma[{extra}]'"
        raise UsageError(message if error.name else str(error)) from error


def _measure(options: argparse.Namespace) -> int:
    _check_outputs(options, ("json", "csv", "trace", "plot"))
    with _missing_extra():
        from . import measure
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
    _write(options.trace, report.to_chrome_trace)
    _write(options.plot, functools.partial(measure.plot, report))
    same = report.gradients_identical and report.bit_identical() is not False
    return 0 if same else FOUND_DIFFERENCE


def _check_outputs(options: argparse.Namespace, names: Sequence[str]) -> None:
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


def _write(path: Path | None, write: Callable[[Path], None]) -> None:
    if path is None:
        return
    try:
        write(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    print(f"wrote {path}")
