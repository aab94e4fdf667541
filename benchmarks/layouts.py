"""Memory order of feature maps and what it does to each codec's ratio.

    python benchmarks/layouts.py --data FOLDER [--json FILE] [--docs docs/evaluation.md]
        [--plot docs/layouts.png]

The feature maps that a training step saves (`saved.py`, those of four dimensions that are all of
their storage) are written in three orders, the last letter being the fastest: NCHW, PyTorch's own;
NHWC, its channels_last; CHWN, cuda-convnet's, in which the images of a batch lie side by side, so
that its figures depend on the batch. The values are the same ones. bfloat16: rounded from float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from common import Study, publish, pyplot
from saved import MAP_ORDERS, Sizes

from actdma.frame import DType
from networks import (
    ALEXNET,
    EFFICIENTNET_LITE0,
    NIN,
    RESNET_20,
    SQUEEZENET_1_1,
    parser_of,
    saved_by_network,
    studied,
)

NETWORKS = (RESNET_20, SQUEEZENET_1_1, EFFICIENTNET_LITE0, ALEXNET, NIN)
COLOURS = {"NCHW": "#123f5f", "NHWC": "#6ba3c8", "CHWN": "#d9822b"}
COMPRESSORS = ("element runs", "zvc", "rle", "auto", "deflate")
DTYPES = (DType.float32, DType.bfloat16)
STUDY = Study("layouts", "Memory order of feature maps", "measured")
COLUMNS = ("network", "weights", "input", "dtype", "MB", "order", *COMPRESSORS)


def plot(figures: Sequence[dict[str, Any]], path: Path) -> None:
    """Write a PNG: ratios by network and order, a panel for each dtype and compressor."""
    networks = list(dict.fromkeys(f["network"] for f in figures))
    shown = ("zvc", "rle", "auto", "deflate")
    figure, panels = pyplot().subplots(
        len(DTYPES), len(shown), figsize=(19, 8), sharex=True, sharey="row", layout="constrained"
    )
    for row, dtype in zip(panels, DTYPES, strict=True):
        for panel, codec in zip(row, shown, strict=True):
            for number, (order, colour) in enumerate(COLOURS.items()):
                heights = [
                    f["ratios"][codec]
                    for f in figures
                    if (f["dtype"], f["order"]) == (dtype.name, order)
                ]
                places = [place + (number - 1) * 0.27 for place in range(len(networks))]
                panel.bar(places, heights, 0.27, color=colour, label=order)
            panel.set_title(f"{codec}, {dtype.name}")
            names = [name.partition(",")[0] for name in networks]
            panel.set_xticks(range(len(networks)), names, rotation=40, ha="right", fontsize=8)
            panel.axhline(1, color="black", linewidth=0.6)
            panel.spines[["top", "right"]].set_visible(False)
        row[0].set_ylabel("ratio, measured")
    panels[0, 0].legend(frameon=False)
    figure.savefig(path, dpi=80)


def main() -> None:
    parser = parser_of(__doc__, NETWORKS)
    parser.add_argument("--plot", type=Path, help="draw the ratios to this PNG")
    args = parser.parse_args()
    if args.batch is not None and args.batch < 2:
        parser.error(f"--batch {args.batch}: orders of maps differ from two images on")
    torch.set_num_threads(args.threads)
    rows, figures = [], []
    for network, head in studied(NETWORKS, args):
        maps = [saved for saved in saved_by_network(network, args) if saved.is_map]
        for dtype in DTYPES:
            for order in MAP_ORDERS:
                total = Sizes.total(
                    Sizes.of(saved.ordered(order).cast(dtype), COMPRESSORS) for saved in maps
                )
                cells = [*head.values(), dtype.name, f"{total.raw / 1e6:.1f}", order]
                rows.append([*cells, *(f"{ratio:.3f}" for ratio in total.ratios.values())])
                found = {"dtype": dtype.name, "order": order, "raw_bytes": total.raw}
                figures.append({**head, **found, "ratios": total.ratios})
    if args.plot:
        plot(figures, args.plot)
    what = "raw bytes of feature maps per compressed byte, measured"
    pictures = [(args.plot, "Ratios by network, memory order and codec")]
    publish(STUDY, COLUMNS, rows, figures, what, args, pictures)


if __name__ == "__main__":
    main()
