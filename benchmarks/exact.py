"""What `actdma.offload(exact=True)` saves, and costs, in a training step.

    python benchmarks/exact.py [--data FOLDER] [--rounds 9] [--json FILE] [--docs FILE]

*Held*: bytes held for backward when forward is over, which is when plain PyTorch holds most; each
storage once, packed ones as they are stored, parameters, buffers and autocast's copies of weights
left out. *Smaller*: plain bytes per byte held; what is made again counts there, which is no
compression. *Peak*: the most that is held at any time of the step, with what was decoded or made
again for backward functions that run. *Step*: forward, backward and SGD in the plain step's time,
median over rounds in which each row takes one step, in another order each time. *Tracker* and
*RSS, trimmed*: as `memory.py` has them, in processes of their own; the tracker knows no frames.
After every step the gradients must equal the plain ones in every bit.

Rows: *exact* without a codec, *exact + auto* with zve for floating point and ints for integers.
Networks, and what they need of FOLDER: `networks.py`; images and, unless published with a package,
weights are random without it. bfloat16 is autocast. Linux only.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from common import Study, at_least_one, publish
from memory import DTYPES, MALLOC, TRIMMED, Row, in_fresh_process
from step import compare, figures_of
from torch import nn
from tqdm import tqdm

from networks import (
    EFFICIENTNET_LITE0,
    GPT,
    MOBILENET_V2,
    ORDERS,
    RELU_CNN,
    RESNET_20,
    RESNET_50,
    VIT,
    Work,
    parser_of,
)

NETWORKS = (RELU_CNN, RESNET_20, RESNET_50, EFFICIENTNET_LITE0, MOBILENET_V2, VIT, GPT)
ROWS = ("plain", "exact", "exact + auto")
STUDY = Study("exact", "Exact: memory and cost of a training step", "measured")
COLUMNS = (
    *("network", "dtype", "row", "held MB", "smaller", "peak MB", "smaller", "step, of plain"),
    *("tracker MB", "of plain", "RSS MB, trimmed", "of plain"),
)


def measured(
    work: Work, file: Path, dtype: str, args: argparse.Namespace
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Figures of every row, and those rows whose gradients differed."""
    torch.save(work, file)
    memory = {
        name: in_fresh_process(Row(str(file), name, dtype, args.order), args.threads, True, MALLOC)
        for name in ROWS
    }
    with tqdm(total=args.rounds, unit="round", leave=False) as bar:
        steppers, wrong = compare(work, ROWS, args.rounds, bar, dtype, args.order)
    figures = {}
    for name, found in memory.items():
        peak = found["session"] or found["held"]
        figures[name] = {
            "smaller": memory["plain"]["held"] / found["held"],
            "peak": peak,
            "peak_smaller": memory["plain"]["held"] / peak,
            **{f"{m}_of_plain": found[m] / memory["plain"][m] for m in ("tracker", "rss")},
            **figures_of(steppers[name], steppers["plain"]),
            **found,
        }
    return figures, wrong


def cells(f: dict[str, Any]) -> list[str]:
    return [
        f"{f['held'] / 1e6:.1f}",
        f"{f['smaller']:.2f}x",
        f"{f['peak'] / 1e6:.1f}",
        f"{f['peak_smaller']:.2f}x",
        f"{f['wall_of_plain']:.2f}x",
        f"{f['tracker'] / 1e6:.1f}",
        f"{f['tracker_of_plain']:.2f}",
        f"{f['rss'] / 1e6:.1f}",
        f"{f['rss_of_plain']:.2f}",
    ]


def mean_cells(figures: Sequence[dict[str, Any]]) -> list[str]:
    """Geometric means over the networks, in the columns of `cells`."""
    names = ("smaller", "peak_smaller", "wall_of_plain", "tracker_of_plain", "rss_of_plain")
    smaller, peak, wall, tracker, rss = (
        statistics.geometric_mean(f[name] for f in figures) for name in names
    )
    ratios = [f"{smaller:.2f}x", "", f"{peak:.2f}x", f"{wall:.2f}x"]
    return ["", *ratios, "", f"{tracker:.2f}", "", f"{rss:.2f}"]


def described(work: Work) -> str:
    """Its input, and where numbers are drawn in a step."""
    rates = {m.p for m in work.model.modules() if isinstance(m, nn.Dropout) and m.p}
    shape = " x ".join(map(str, work.images.shape))
    return f"{shape}, dropout {' and '.join(map(str, sorted(rates)))}" if rates else shape


def main() -> None:
    parser = parser_of(__doc__, NETWORKS)
    parser.add_argument("--dtype", nargs="+", default=DTYPES, choices=DTYPES)
    parser.add_argument("--order", default="contiguous", choices=ORDERS, help="of feature maps")
    parser.add_argument("--rounds", type=at_least_one, default=9)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    table, figures, failures, inputs = [], [], [], []
    with tempfile.TemporaryDirectory() as folder:
        for network in tqdm([n for n in NETWORKS if n.name in args.network], unit="network"):
            work = network.work(args.data, args.batch)
            inputs.append(f"{network.name}: {described(work)}")
            for dtype in args.dtype:
                found, wrong = measured(work, Path(folder) / "work", dtype, args)
                failures += [f"{network.name}, {dtype}, {row}" for row in wrong]
                for row, f in found.items():
                    figures.append({"network": network.name, "dtype": dtype, "row": row, **f})
                    table.append([network.name, dtype, row, *cells(f)])
    for dtype in args.dtype:
        for row in ROWS[1:]:
            of_row = [f for f in figures if (f["dtype"], f["row"]) == (dtype, row)]
            table.append(["geometric mean", dtype, row, *mean_cells(of_row)])
    what = (
        f"measured, {args.order}, {args.threads} threads, medians of {args.rounds} rounds; "
        f"{TRIMMED}; {'; '.join(inputs)}"
    )
    publish(STUDY, COLUMNS, table, figures, what, args)
    if failures:
        sys.exit(f"gradients differ from the plain step's: {'; '.join(failures)}")


if __name__ == "__main__":
    main()
