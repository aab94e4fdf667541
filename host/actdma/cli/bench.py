"""``actdma bench``: ratio and speed of the codecs on this machine or board."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..frame import FRAME_BYTES, DType
from .common import UsageError, check_outputs, missing_extra, write

if TYPE_CHECKING:
    from .. import bench
    from ..backend import Backend


def add(commands: argparse._SubParsersAction) -> None:
    """The command and its options."""
    parser = commands.add_parser(
        "bench",
        help="ratio and speed of the codecs on this machine or board",
        description="Compresses random data, or a dump of saved tensors (actdma measure --dump), "
        "and back: raw bytes per stored byte, and GB/s of raw data beside a memcpy of the same. On "
        "the emulated board, the rates are modelled ones of a real board.",
    )
    option = parser.add_argument
    option(
        "--backend",
        default="native",
        help="native (default: the CPU's codec), board or reference (NumPy)",
    )
    option(
        "--board",
        help="auto, emulated or hardware, for --backend board; ACTDMA_BOARD or auto if not given",
    )
    option(
        "--codec",
        nargs="+",
        metavar="NAME",
        help="zvc, rle, zve, ints, raw; all but raw if not given",
    )
    option(
        "--dump",
        type=Path,
        metavar="PATH",
        help="a folder that actdma measure --dump has written, or a .npy or .npz file, in place of "
        "random data",
    )
    option(
        "--dtype",
        nargs="+",
        metavar="NAME",
        help="of random data: float32, bfloat16 and int8 if not given",
    )
    option(
        "--zeros",
        nargs="+",
        type=float,
        metavar="FRACTION",
        help="of random data: 0.5 if not given; floating point is else normally distributed, "
        "integers take all values alike",
    )
    option("--mib", type=int, help="random data, MiB: 64 if not given")
    option("--threads", type=int, default=1, help="of --backend native (default %(default)s)")
    option("--repeats", type=int, default=7, help="medians of so many (default %(default)s)")
    option(
        "--frame-bytes",
        type=int,
        default=FRAME_BYTES,
        metavar="N",
        help="raw bytes per frame, a multiple of 8192 (default %(default)s)",
    )
    option("--json", type=Path, metavar="PATH", help="write the figures, for actdma report")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    check_outputs(options, ("json",))
    with missing_extra():
        from .. import bench
    from ..board import BoardError

    if options.repeats < 1:
        raise UsageError(f"--repeats is {options.repeats}, it must be at least 1")
    try:
        sets, what = _data(options)
        with _backend(options) as backend:
            codecs = options.codec or bench.CODECS
            rows = list(bench.bench(backend, sets, codecs, options.repeats, options.frame_bytes))
            if not rows:
                raise UsageError(f"none of the codecs {', '.join(codecs)} takes this data")
            published = bench.published(backend, rows, what, options.repeats)
    except (bench.DumpError, BoardError, ImportError, ValueError) as error:
        raise UsageError(str(error)) from error
    published.show()
    write(options.json, published.to_json)
    return 0


def _data(options: argparse.Namespace) -> tuple[list[bench.Data], str]:
    """What is compressed, and what the caption says of it."""
    from .. import bench

    if options.dump is not None:
        given = [name for name in ("dtype", "zeros", "mib") if getattr(options, name) is not None]
        if given:
            raise UsageError(f"--{given[0]} is of random data; a dump has its own")
        sets = bench.dumped(options.dump)
        total = sum(data.nbytes for data in sets) / 1e6
        return sets, f"{sum(len(s.tensors) for s in sets)} tensors of {total:.1f} MB"
    mib = 64 if options.mib is None else options.mib
    known = {dtype.name: dtype for dtype in DType}
    sets = []
    for name in options.dtype or bench.DTYPES:
        if name not in known:
            raise UsageError(f"unknown dtype {name!r}; known are {', '.join(known)}")
        for zeros in options.zeros or [0.5]:
            sets.append(bench.random_data(known[name], zeros, mib << 20))
    return sets, f"{mib} MiB each"


@contextlib.contextmanager
def _backend(options: argparse.Namespace) -> Iterator[Backend]:
    from ..api import backend_of

    if options.backend == "board":
        from ..board import open_board

        with open_board(options.board, frame_bytes=options.frame_bytes) as board:
            yield board
        return
    if options.board is not None:
        raise UsageError(f"--board goes with --backend board, not {options.backend}")
    if options.backend == "native":
        from ..native import NativeBackend

        yield NativeBackend(options.threads)
        return
    yield backend_of(options.backend)
