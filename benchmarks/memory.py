"""Memory that a training step holds for its backward pass, measured in three ways.

    python benchmarks/memory.py [--data FOLDER] [--json FILE] [--docs FILE] [--plot FILE]

Every row of the table has processes of its own. *Held*: bytes that autograd holds at the peak, by
`meter.Meter`: exact; every storage once, packed ones as they are stored (descriptors and trailers
included), parameters, buffers and autocast's copies of the weights left out; recomputed tensors of
a checkpointed block count, tensors decoded for the node that runs do not. *Session*: the same by
`Report.held_bytes_peak`, which counts decoded tensors and packed copies of weights, but nothing
recomputed. *Tracker*: the peak of
`torch.distributed._tools.mem_tracker.MemTracker`, less what was there before the step: tensors of
which PyTorch's dispatcher knows, also gradients and intermediates, but no frames. *RSS*: peak of
the process' resident memory (VmHWM) in two steps, above what was there after a warm-up step with
two images; with glibc's allocator as it comes, and with `MALLOC` below, under which blocks of 64
KiB or more go back to the system when they are freed.

Rows: *plain*; *zvc* and *auto* (zve for floating point, ints for integers) are `actdma.offload` on
the CPU's codec; *exact* has ``exact=True`` and no codec, or *auto* on top: its *held* is the
session's count when forward is over; *save_on_cpu* is PyTorch's, which does nothing to tensors of
the CPU; *checkpointing* is PyTorch's (not reentrant) of every residual block, encoder layer or
stage.
Networks, and what they need of FOLDER: `networks.py`; images and, unless published with a package,
weights are random without it. bfloat16 is autocast. Linux only.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from common import Study, publish, pyplot
from torch.distributed._tools.mem_tracker import MemTracker
from tqdm import tqdm
from variants import VARIANTS, Trial

from networks import (
    EFFICIENTNET_LITE0,
    FRESH_RELU_CNN,
    GELU_TRANSFORMER,
    ORDERS,
    RELU_CNN,
    RESNET_20,
    Network,
    parser_of,
)

NETWORKS = (RELU_CNN, FRESH_RELU_CNN, RESNET_20, EFFICIENTNET_LITE0, GELU_TRANSFORMER)
DTYPES = ("float32", "bfloat16")
ROWS = tuple(name for name in VARIANTS if name != "identity hook")
ROWS_OF_CHANNELS_LAST = ("plain", "zvc", "auto", "exact", "exact + auto")
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
TRIMMED = f"trimmed: {' '.join(f'{name}={value}' for name, value in MALLOC.items())}"
SECONDS = 600  # that a row may take
STUDY = Study("memory", "Memory of a training step", "measured")
COLUMNS = (
    *(
        "network",
        "dtype",
        "memory order",
        "row",
        "held MB",
        "of plain",
        "session MB",
        "weight copies MB",
    ),
    *("tracker MB", "of plain", "RSS MB", "of plain", "RSS MB, trimmed", "of plain"),
)
MEASURES = ("held", "tracker", "rss", "rss_trimmed")


@dataclasses.dataclass(frozen=True)
class Row:
    """What one process measures; ``work``: the file of a `Work`."""

    work: str
    variant: str
    dtype: str
    order: str


def tracker_bytes(trial: Trial) -> int:
    """The most bytes of tensors in a step above those before it, by PyTorch's MemTracker."""
    trial.model.zero_grad(set_to_none=True)
    gc.collect()
    tracker = MemTracker()
    tracker.track_external(trial.model, trial.images, trial.labels)
    before = _tracked(tracker, "current")
    with tracker:
        trial.step()
    return _tracked(tracker, "peak") - before


def resident_bytes(trial: Trial) -> int:
    """The most bytes of resident memory in two steps above those before them."""
    trial.step(batch=2)
    trial.model.zero_grad(set_to_none=True)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM becomes VmRSS
    before = _status("VmRSS")
    for _ in range(2):
        gc.collect()  # save_on_cpu leaves cycles
        trial.step()
    return _status("VmHWM") - before


def _tracked(tracker: MemTracker, when: str) -> int:
    devices = tracker.get_tracker_snapshot(when)
    return devices.get(torch.device("cpu"), {}).get("Total", 0)


def _status(name: str) -> int:
    """Bytes by the process' status file."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{name}:"))


def measure(row: Row, threads: int, everything: bool) -> dict[str, Any]:
    """What this process, a fresh one, needs for the row; RSS alone unless ``everything``."""
    torch.set_num_threads(threads)
    work = torch.load(row.work, weights_only=False)
    trial = Trial(work, VARIANTS[row.variant], row.dtype, row.order)
    rss = resident_bytes(trial)
    if not everything:
        return {"rss": rss}
    gradients = trial.gradients()
    return {
        "rss": rss,
        "gradients": gradients,
        "tracker": tracker_bytes(trial),
        **trial.held(),
    }


def in_fresh_process(row: Row, threads: int, everything: bool, allocator: dict) -> dict[str, Any]:
    """`measure` in a process of its own, with the environment of an allocator."""
    spec = json.dumps([dataclasses.asdict(row), threads, everything])
    done = subprocess.run(
        [sys.executable, __file__, "--row", spec],
        env={**os.environ, **allocator},
        stdout=subprocess.PIPE,
        timeout=SECONDS,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def measured(row: Row, threads: int) -> dict[str, Any]:
    """All figures of a row."""
    figures = in_fresh_process(row, threads, True, {})
    figures["rss_trimmed"] = in_fresh_process(row, threads, False, MALLOC)["rss"]
    return figures


def rows_of(work: Path, network: Network, args: argparse.Namespace) -> Iterator[Row]:
    for dtype in args.dtype:
        for order in ORDERS if network.maps else ["contiguous"]:
            for variant in ROWS if order == "contiguous" else ROWS_OF_CHANNELS_LAST:
                if variant == "plain" or variant in args.variant:
                    yield Row(str(work), variant, dtype, order)


def cells(figures: dict[str, Any], plain: dict[str, Any]) -> list[str]:
    held, *others = (
        (f"{figures[measure] / 1e6:.1f}", f"{figures[measure] / plain[measure]:.2f}")
        for measure in MEASURES
    )
    session = "" if figures["session"] is None else f"{figures['session'] / 1e6:.1f}"
    return [
        *held,
        session,
        f"{figures['copies'] / 1e6:.1f}",
        *(cell for pair in others for cell in pair),
    ]


def plot(figures: list[dict[str, Any]], path: Path) -> None:
    """Bars of the bytes held, as fractions of plain: a panel per dtype."""
    figures = [f for f in figures if f["order"] == "contiguous"]
    dtypes, networks, rows = (
        list(dict.fromkeys(f[key] for f in figures)) for key in ("dtype", "network", "row")
    )
    figure, panels = pyplot().subplots(
        len(dtypes),
        sharex=True,
        squeeze=False,
        figsize=(10, 3.2 * len(dtypes)),
        layout="constrained",
    )
    width = 0.84 / len(rows)
    for panel, dtype in zip(panels[:, 0], dtypes, strict=True):
        for number, row in enumerate(rows):
            found = {f["network"]: f for f in figures if (f["dtype"], f["row"]) == (dtype, row)}
            bars = panel.bar(
                [i + (number - (len(rows) - 1) / 2) * width for i in range(len(networks))],
                [found[network]["held_of_plain"] for network in networks],
                width,
                label=row,
                color=pyplot().get_cmap("viridis")(number / len(rows)),
            )
            panel.bar_label(bars, fmt="%.2f", fontsize=6, padding=1)
        panel.set_ylabel(f"{dtype}\nbytes held, of plain")
        panel.set_ylim(0, 1.15)
        panel.spines[["top", "right"]].set_visible(False)
    panels[-1, 0].set_xticks(range(len(networks)), networks)
    figure.legend(
        *panels[0, 0].get_legend_handles_labels(), ncols=len(rows), loc="outside upper center"
    )
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = parser_of(__doc__, NETWORKS)
    parser.add_argument("--dtype", nargs="+", default=DTYPES, choices=DTYPES)
    parser.add_argument("--variant", nargs="+", default=ROWS, choices=ROWS, help="beside plain")
    parser.add_argument("--plot", type=Path, help="draw the bytes held to this file")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.row:
        row, threads, everything = json.loads(args.row)
        print(json.dumps(measure(Row(**row), threads, everything)))
        return
    torch.set_num_threads(args.threads)

    table, figures, wrong = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        rows = []
        for network in NETWORKS:
            if network.name in args.network:
                file = Path(folder) / network.name
                torch.save(network.work(args.data, args.batch), file)
                rows += [(network, row) for row in rows_of(file, network, args)]
        for network, row in tqdm(rows, unit="row"):
            found = measured(row, args.threads)
            if row.variant == "plain":
                plain = found
            table.append([network.name, row.dtype, row.order, row.variant, *cells(found, plain)])
            figures.append(
                {
                    "network": network.name,
                    "dtype": row.dtype,
                    "order": row.order,
                    "row": row.variant,
                    "held_of_plain": found["held"] / plain["held"],
                    **found,
                }
            )
            if found["gradients"] != plain["gradients"]:
                wrong.append(", ".join(table[-1][:4]))
    what = (
        f"measured, {args.threads} threads, batches of "
        + ", ".join(
            f"{args.batch or n.batch} ({n.name})" for n in NETWORKS if n.name in args.network
        )
        + f"; {TRIMMED}"
    )
    publish(STUDY, COLUMNS, table, figures, what, args)
    if args.plot:
        plot(figures, args.plot)
    if wrong:
        sys.exit(f"gradients differ from the plain step's: {'; '.join(wrong)}")


if __name__ == "__main__":
    main()
