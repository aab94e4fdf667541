"""Compression ratios of what one training step of real networks saves, codec by codec.

    python benchmarks/ratios.py --data FOLDER [--json FILE] [--docs docs/evaluation.md]
        [--plot docs/ratios.png] [--layers docs/layers.png]

Every floating-point storage that the forward pass in train mode saves and that has at least 1024
elements is compressed once, parameters and buffers left out (as `actdma.offload` does); the ratio
is that of all raw to all compressed bytes, in frames of 4 MiB, descriptors and trailers included.
The network computes in float32; what it saved is rounded to bfloat16 and float16, or quantised to
int8: symmetrically, with one scale per tensor, the largest magnitude becoming 127. *auto* is zve,
for int8 ints. *Element runs*, computed here and not built, is cDMA's run coding; *deflate* is
zlib's level 1 in software, in one piece. *Best layer*: the highest ratio of a storage, and the
module that saves it. `networks.py` says what the networks need of FOLDER; without it they compute
on stand-ins. Besides: the int64 indices of a 2 x 2 max-pool of ReLU maps of 56 x 56 (normal noise).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from common import Study, publish, pyplot
from saved import COMPRESSORS, Saved, Sizes, forward
from torch.nn import functional as F
from tqdm import tqdm

from actdma.arrays import to_bytes
from actdma.backend import Backend
from actdma.frame import DType
from networks import (
    ALEXNET,
    EFFICIENTNET_LITE0,
    GELU_TRANSFORMER,
    GOOGLENET,
    GPT,
    MOBILENET_V2,
    NIN,
    OVERFEAT,
    RESNET_20,
    RESNET_50,
    SQUEEZENET_1_1,
    VGG_16,
    VIT,
    Network,
    parser_of,
    saved_by_network,
    studied,
)

NETWORKS = (
    *(RESNET_20, SQUEEZENET_1_1, EFFICIENTNET_LITE0),
    *(ALEXNET, OVERFEAT, NIN, VGG_16, GOOGLENET),
    *(RESNET_50, MOBILENET_V2, VIT, GPT, GELU_TRANSFORMER),
)
DTYPES = (DType.float32, DType.bfloat16, DType.float16, DType.int8)
STUDY = Study("ratios", "What a training step saves", "measured")
COLUMNS = (
    *("network", "weights", "input", "dtype", "MB", "zeros"),
    *COMPRESSORS,
    *("best layer, zvc", "best layer, auto"),
)
COLOURS = {
    "element runs": "#c9d3df",
    "zvc": "#6ba3c8",
    "rle": "#3b7ea8",
    "auto": "#123f5f",
    "deflate": "#d9822b",
}


def save(network: Network, folder: Path, backend: Backend, dtype: torch.dtype) -> None:
    """A forward pass of the network in ``dtype``; what it saves goes through ``backend``."""
    work = network.work(folder)
    forward(work.model.to(dtype), work.images.to(dtype), backend)


def pooling_indices() -> Saved:
    maps = F.relu(torch.randn(8, 64, 56, 56, generator=torch.Generator().manual_seed(0)))
    indices = F.max_pool2d(maps, 2, return_indices=True)[1]
    return Saved("pooling", "", tuple(indices.shape), DType.int64, to_bytes(indices)[0])


def measured(head: dict[str, str], kept: Sequence[Saved], dtype: DType) -> dict[str, Any]:
    """Ratios of ``kept`` in ``dtype``, of each and of all together; ``head``: what they are of."""
    sizes = [Sizes.of(saved.cast(dtype)) for saved in tqdm(kept, unit="storage", leave=False)]
    total = Sizes.total(sizes)
    layers = [
        {
            "module": saved.module,
            "operator": saved.operator,
            "shape": saved.shape,
            "raw_bytes": size.raw,
            "density": size.density,
            "ratios": size.ratios,
        }
        for saved, size in zip(kept, sizes, strict=True)
    ]
    return {
        **head,
        "dtype": dtype.name,
        "raw_bytes": total.raw,
        "zeros": 1 - total.density,
        "ratios": total.ratios,
        "layers": layers,
    }


def cells(found: dict[str, Any]) -> list[str]:
    best = {
        codec: max(found["layers"], key=lambda layer, codec=codec: layer["ratios"][codec])
        for codec in ("zvc", "auto")
    }
    return [
        *(found[name] for name in ("network", "weights", "input", "dtype")),
        f"{found['raw_bytes'] / 1e6:.1f}",
        f"{found['zeros']:.0%}",
        *(f"{ratio:.3f}" for ratio in found["ratios"].values()),
        *(f"{layer['ratios'][codec]:.2f} ({layer['module']})" for codec, layer in best.items()),
    ]


def plot(figures: Sequence[dict[str, Any]], path: Path) -> None:
    """Write a PNG: the ratio of each network, by dtype and compressor."""
    networks = list(dict.fromkeys(f["network"] for f in figures))
    figure, panels = pyplot().subplots(2, 2, figsize=(20, 10), sharey=True, layout="constrained")
    for panel, dtype in zip(panels.flat, DTYPES, strict=True):
        chosen = {f["network"]: f for f in figures if f["dtype"] == dtype.name}
        for number, (codec, colour) in enumerate(COLOURS.items()):
            places = [place + (number - 2) * 0.16 for place in range(len(networks))]
            heights = [chosen[name]["ratios"][codec] for name in networks]
            panel.bar(places, heights, 0.16, color=colour, label=codec)
        panel.axhline(1, color="black", linewidth=0.6)
        labels = [
            f"{name.partition(',')[0]}\n{_short(chosen[name]['weights'])}" for name in networks
        ]
        panel.set_xticks(range(len(networks)), labels, fontsize=8, rotation=25)
        panel.set_title(dtype.name)
        panel.spines[["top", "right"]].set_visible(False)
    for panel in panels[:, 0]:
        panel.set_ylabel("raw bytes per compressed byte, measured")
    panels[0, 0].legend(frameon=False, ncols=len(COLOURS))
    figure.savefig(path, dpi=90)


def plot_layers(figures: Sequence[dict[str, Any]], path: Path) -> None:
    """Write a PNG: the ratio of each storage of each network in float32, in the order of saving."""
    chosen = [f for f in figures if f["dtype"] == DType.float32.name]
    rows = -(-len(chosen) // 3)
    figure, panels = pyplot().subplots(
        rows, 3, figsize=(17, 3.6 * rows), squeeze=False, layout="constrained"
    )
    for panel in panels.flat[len(chosen) :]:
        panel.set_visible(False)
    for panel, found in zip(panels.flat, chosen, strict=False):
        for codec in ("zvc", "auto", "deflate"):
            heights = [layer["ratios"][codec] for layer in found["layers"]]
            panel.step(range(len(heights)), heights, where="mid", color=COLOURS[codec], label=codec)
        step = -(-len(found["layers"]) // 14)
        names = [layer["module"] for layer in found["layers"]][::step]
        ticks = range(0, len(found["layers"]), step)
        panel.set_xticks(ticks, names, rotation=40, ha="right", fontsize=7, rotation_mode="anchor")
        panel.set_yscale("log")
        panel.axhline(1, color="black", linewidth=0.6)
        panel.set_yticks((1, 2, 4, 8, 16), ("1", "2", "4", "8", "16"))
        panel.minorticks_off()
        panel.set_title(f"{found['network']}, weights: {_short(found['weights'])}", fontsize=10)
        panel.spines[["top", "right"]].set_visible(False)
    for row in panels:
        row[0].set_ylabel("ratio, float32, measured")
    panels[0, 0].legend(frameon=False)
    figure.savefig(path, dpi=80)


def _short(weights: str) -> str:
    return weights.partition(",")[0]


def main() -> None:
    parser = parser_of(__doc__, NETWORKS)
    parser.add_argument("--plot", type=Path, help="draw the networks' ratios to this PNG")
    parser.add_argument("--layers", type=Path, help="draw each layer's ratio to this PNG")
    args: argparse.Namespace = parser.parse_args()
    torch.set_num_threads(args.threads)
    figures = []
    for network, head in studied(NETWORKS, args):
        kept = saved_by_network(network, args)
        figures += [measured(head, kept, dtype) for dtype in DTYPES]
    if args.plot:
        plot(figures, args.plot)
    if args.layers:
        plot_layers(figures, args.layers)
    name = "indices of a 2 x 2 max-pool, 56 x 56 maps"
    head = {"network": name, "weights": "", "input": "noise"}
    figures.append(measured(head, [pooling_indices()], DType.int64))
    publish(
        STUDY,
        COLUMNS,
        [cells(found) for found in figures],
        figures,
        "raw bytes per compressed byte, measured, storages of at least 1024 elements, 4 MiB frames",
        args,
        [
            (args.plot, "Ratios by network, dtype and compressor"),
            (args.layers, "Ratios by layer in float32"),
        ],
    )


if __name__ == "__main__":
    main()
