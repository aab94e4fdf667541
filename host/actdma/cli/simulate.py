"""``actdma simulate``: the step-time model."""

from __future__ import annotations

import argparse
import dataclasses
import functools
from pathlib import Path

from .common import UsageError, check_outputs, missing_extra, write


def add(commands: argparse._SubParsersAction) -> None:
    """The command and its options."""
    parser = commands.add_parser(
        "simulate",
        help="modelled time of a training step whose saved activations go to host memory",
        description="Models a training step of a virtualised network (vDNN): activations go to "
        "host memory in forward and come back in backward, with and without compression. Unless "
        "ratios are given, the CPU's codec measures them on a few photographs.",
    )
    option = parser.add_argument
    option("--list", action="store_true", help="print the devices, links and networks, and exit")
    option("--network", metavar="NAME", help="of the zoo (--list), or as --model of actdma measure")
    option(
        "--device",
        default="titan-x",
        metavar="NAME",
        help="whose roofline gives the seconds (default %(default)s); measured: those of this "
        "machine, for a step of the whole batch",
    )
    option("--link", default="pcie3", metavar="NAME", help="to host memory (default %(default)s)")
    option(
        "--codec",
        nargs="+",
        default=["zvc"],
        metavar="NAME",
        help="zvc (default), rle, zve, ints, raw, auto; several give a row each",
    )
    option("--policy", default="all", help="all (default), or conv: what convolutions save")
    option("--batch", type=int, default=128, help="images in the step (default %(default)s)")
    option("--side", type=int, help="of the images; the network's own if not given")
    option("--precision", default="float32", help="float32 (default) or half: bfloat16")
    option(
        "--saves",
        default="all",
        help="all (default) that PyTorch saves, or maps: what modules receive and return, as "
        "libraries with one kernel per layer save",
    )
    option("--ratio", type=float, help="of all layers, in place of measured ones")
    option("--density", type=float, help="of all layers: cDMA's zero-value compression of it")
    option(
        "--measured", type=Path, metavar="PATH", help="measurement that --measure-to has written"
    )
    option("--measure-to", type=Path, metavar="PATH", help="write ratios and seconds, as JSON")
    option("--sample", type=int, default=2, help="photographs for the ratios (default %(default)s)")
    option("--data", metavar="FOLDER", help="photographs, in place of scikit-image's")
    option("--seed", type=int, default=0, help="of random weights (default %(default)s)")
    option(
        "--engine", type=float, metavar="GB/S", help="raw bytes per second that the engine takes"
    )
    option(
        "--buffers",
        type=int,
        default=1,
        help="layers whose data may be on its way at a time (default %(default)s, vDNN's)",
    )
    option("--json", type=Path, metavar="PATH", help="write the figures")
    option("--trace", type=Path, metavar="PATH", help="write the timelines for Perfetto")
    option("--plot", type=Path, metavar="PATH", help="write the timelines as a picture")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    outputs = ("json", "trace", "plot", "measure_to")
    check_outputs(options, outputs)
    with missing_extra():
        from ..simulate import plot, run, table, timeline
    if options.list:
        table.show_choices()
        return 0
    if options.network is None:
        raise UsageError("--network is missing; --list has the names")
    fields = {f.name: getattr(options, f.name) for f in dataclasses.fields(run.Options)}
    chosen = run.Options(**{**fields, "codec": tuple(options.codec)})
    if options.measure_to and not run.has_measurement(chosen):
        raise UsageError("--measure-to: nothing is measured where the ratio and a device are given")
    try:
        study = run.run(chosen)
    except (run.InputError, ImportError, ValueError) as error:
        raise UsageError(str(error)) from error
    table.show(study)
    timelines = {row.name: row.timeline for row in study.rows}
    write(options.json, study.to_json)
    write(options.measure_to, lambda path: study.measurement.to_json(path))
    write(options.trace, functools.partial(timeline.write_chrome_trace, timelines))
    write(options.plot, functools.partial(plot.plot_timelines, timelines, title=study.title))
    return 0
