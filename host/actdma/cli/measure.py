"""``actdma measure``: the main job."""

from __future__ import annotations

import argparse
import dataclasses
import functools
from pathlib import Path

from ..frame import FRAME_BYTES
from .common import FOUND_WRONG, UsageError, check_outputs, missing_extra, write


def add(commands: argparse._SubParsersAction) -> None:
    """The command and its options."""
    parser = commands.add_parser(
        "measure",
        help="one training step of a model: size, ratio and rate of everything it saves",
        description="Runs a training step of a model plainly, and with everything that autograd "
        "saves going through the codec and back; checks that every bit is the same; prints one row "
        "per saved tensor.",
    )
    option = parser.add_argument
    option(
        "--model",
        default="efficientnet-lite0",
        metavar="NAME",
        help="efficientnet-lite0 (default; ImageNet weights), another name that actdma simulate "
        "--list has (random weights), torchvision:NAME (its default weights), module:callable or "
        "path.py:callable; a callable returns a torch.nn.Module that takes images (batch, 3, 224, "
        "224) and returns logits (batch, classes)",
    )
    option(
        "--data",
        metavar="FOLDER",
        help="images to use instead of the photographs that ship with scikit-image; normalised as "
        "the model wants, with ImageNet's statistics for models of your own",
    )
    option(
        "--batch",
        type=int,
        default=8,
        help="images in the step (default %(default)s); they repeat if there are fewer",
    )
    option(
        "--dtype",
        default="float32",
        help="float32 (default) or bfloat16: model and images are cast to it (no autocast)",
    )
    option(
        "--codec",
        default="auto",
        help="auto (default: zve, ints or zvc, as suits a tensor's dtype), zvc, rle, zve (for "
        "floating point), ints (for integers) or raw; zvc where zve or ints do not take a dtype",
    )
    option(
        "--backend",
        default="board",
        help="board (default), native (the CPU's codec) or reference (NumPy)",
    )
    option(
        "--board",
        help="auto, emulated or hardware, for --backend board; ACTDMA_BOARD or auto if not given",
    )
    option(
        "--timing",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="let the emulated board count clock cycles, which takes longer",
    )
    option(
        "--seed", type=int, default=0, help="of dropout and of random weights (default %(default)s)"
    )
    option(
        "--frame-bytes",
        type=int,
        default=FRAME_BYTES,
        metavar="N",
        help="raw bytes per frame, a multiple of 8192 (default %(default)s)",
    )
    option(
        "--json",
        type=Path,
        default=Path("results/measure.json"),
        metavar="PATH",
        help="records (default %(default)s)",
    )
    option("--csv", type=Path, metavar="PATH", help="records as CSV, too")
    option(
        "--dump",
        metavar="FOLDER",
        help="write every saved tensor to a file, for actdma bench --dump",
    )
    option("--trace", type=Path, metavar="PATH", help="what was packed when, for Perfetto")
    option(
        "--plot",
        type=Path,
        default=Path("results/measure.png"),
        metavar="PATH",
        help="picture (default %(default)s)",
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    check_outputs(options, ("json", "csv", "trace", "plot"))
    with missing_extra():
        from .. import measure
    fields = {f.name: getattr(options, f.name) for f in dataclasses.fields(measure.Options)}
    try:
        for module in ("matplotlib", "rich", "tqdm"):
            measure.need(module)  # now, not after the run
        report = measure.measure(measure.Options(**fields))
    except (measure.InputError, ImportError, ValueError) as error:
        raise UsageError(str(error)) from error
    measure.show(report)
    write(options.json, report.to_json)
    write(options.csv, functools.partial(measure.write_csv, report))
    write(options.trace, report.to_chrome_trace)
    write(options.plot, functools.partial(measure.plot, report))
    same = report.gradients_identical and report.bit_identical() is not False
    return 0 if same else FOUND_WRONG
