"""The block-sparse weight gradient next to the dense product, over the density of kept blocks.

    python benchmarks/block_sparse.py [--block 16 ...] [--density 0.1 ...] [--plot FILE]

The weight gradient of a linear layer, ``G.T @ X``: fp32, G (rows x outputs) and X (rows x columns)
normally distributed, blocks of X kept at random. *Dense* is PyTorch's product of G and a dense X
(of the same memory and speed whatever its zeros); *sparse* is
`actdma.offloading.block_sparse.weight_gradient` with the parts of a bsr frame, from the call to the
gradient's tensor, indices checked. One round measures all densities of a block, each followed by a
dense product, so that both see the same machine; times are medians over the rounds, and *ratio* is
the median of the rounds' ratios. *Crossover*: the density at which the ratio is 1, interpolated.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import Study, at_least_one, publish, pyplot

import actdma
from actdma.bench.timing import timed
from actdma.codecs import Bsr
from actdma.codecs.bsr import parts
from actdma.frame import BsrShape
from actdma.native import _native
from actdma.offloading.block_sparse import weight_gradient

STUDY = Study("block_sparse", "Block-sparse weight gradient", "measured")
COLUMNS = ("block", "density", "kept MiB", "sparse ms", "dense ms", "ratio", "crossover")
DENSITIES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


def measure(block: int, args: argparse.Namespace) -> list[dict[str, Any]]:
    """A figure for every density."""
    rows, outputs, columns = args.size
    gradient, x = torch.randn(rows, outputs), torch.randn(rows, columns)
    saved = {d: parts(actdma.compress(x, Bsr(block, density=d))) for d in args.density}
    for kept in saved.values():
        weight_gradient(gradient, kept, (rows, columns))
    rounds = [
        [
            (
                timed(lambda kept=kept: weight_gradient(gradient, kept, (rows, columns))),
                timed(lambda: gradient.t() @ x),
            )
            for kept in saved.values()
        ]
        for _ in range(args.rounds)
    ]
    return [
        {
            "block": block,
            "density": density,
            "kept_bytes": kept.values.nbytes,
            "sparse_s": statistics.median(sparse for sparse, _ in pairs),
            "dense_s": statistics.median(dense for _, dense in pairs),
            "ratio": statistics.median(sparse / dense for sparse, dense in pairs),
        }
        for (density, kept), pairs in zip(saved.items(), zip(*rounds, strict=True), strict=True)
    ]


def crossover(figures: list[dict[str, Any]]) -> str:
    """Where the ratio of a block's figures first reaches 1."""
    densities, ratios = ([f[key] for f in figures] for key in ("density", "ratio"))
    if ratios[0] >= 1:
        return f"below {densities[0]:g}"
    for i, ratio in enumerate(ratios):
        if ratio >= 1:
            return f"{np.interp(1, ratios[i - 1 : i + 1], densities[i - 1 : i + 1]):.2f}"
    return f"above {densities[-1]:g}"


def plot(figures: list[dict[str, Any]], what: str, path: Path) -> None:
    """Ratio over density, a line per block."""
    figure, axes = pyplot().subplots(figsize=(8, 5), layout="constrained")
    blocks = list(dict.fromkeys(f["block"] for f in figures))
    for number, block in enumerate(blocks):
        points = [(f["density"], f["ratio"]) for f in figures if f["block"] == block]
        colour = pyplot().get_cmap("viridis")(number / len(blocks))
        axes.plot(*zip(*points, strict=True), "o-", ms=4, color=colour, label=f"{block} x {block}")
    axes.axhline(1, color="0.4", lw=1)
    axes.annotate("dense product", (0.02, 1), xytext=(0, 4), textcoords="offset points")
    axes.plot((0, 1), (0, 1), ":", color="0.6", lw=1, label="in proportion to the density")
    axes.set_xlim(0, 1.02)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("density: kept blocks per block")
    axes.set_ylabel("time relative to the dense product")
    axes.set_title(what, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, title="block")
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--size",
        type=int,
        nargs=3,
        default=(2048, 1024, 1024),
        metavar=("ROWS", "OUTPUTS", "COLUMNS"),
    )
    parser.add_argument(
        "--block", type=int, nargs="+", default=(8, 16, 32), choices=BsrShape.BLOCKS
    )
    parser.add_argument("--density", type=float, nargs="+", default=DENSITIES)
    parser.add_argument("--threads", type=at_least_one, default=2)
    parser.add_argument("--rounds", type=at_least_one, default=15)
    parser.add_argument("--isa", default=_native.isas()[-1], choices=_native.isas())
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--docs", type=Path, help="write the table to this Markdown file")
    parser.add_argument("--plot", type=Path, help="draw the curves to this file")
    args = parser.parse_args()
    args.density = sorted(args.density)
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    _native.set_isa(args.isa)

    figures, rows = [], []
    for block in args.block:
        found = measure(block, args)
        figures += found
        for f in found:
            times = (f"{1e3 * f[key]:.2f}" for key in ("sparse_s", "dense_s"))
            kept = f"{f['kept_bytes'] / 2**20:.2f}"
            last = crossover(found) if f is found[-1] else ""
            rows.append([str(block), f"{f['density']:g}", kept, *times, f"{f['ratio']:.2f}", last])
    what = (
        f"measured, fp32, rows x outputs x columns {' x '.join(map(str, args.size))}, {args.isa}, "
        f"{args.threads} threads, PyTorch {torch.__version__}, medians of {args.rounds}"
    )
    publish(STUDY, COLUMNS, rows, figures, what, args)
    if args.plot:
        plot(figures, what, args.plot)


if __name__ == "__main__":
    main()
