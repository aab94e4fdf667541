"""What a training step saves, by the operators that save it, and how often it saves the same twice.

    python benchmarks/holdings.py [--data FOLDER] [--json FILE] [--docs docs/evaluation.md]
        [--plot docs/holdings.png]

A forward pass in train mode, then a walk along its autograd graph: every tensor that a backward
function holds, parameters and buffers left out. *Role*: what it is to that function; a storage that
several functions hold counts once, under all of their roles. A *factor* is one of a product: on a
CPU, dropout's mask in floating point is one. Roles without a name of their own have those of the
function and its argument; `LocalResponseNorm` is AvgPool3D, Pow and Div. *Saves*: tensors that are
held of a storage, on average. *In all*: what PyTorch holds, each storage once; *each by itself*:
what a hook would hold that copies every tensor it is given. All storages of at least 1 KiB;
networks as in `networks.py`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from common import Study, publish, pyplot
from graph import LEAST_BYTES, Storage, holdings
from torch.nn import functional as F

from networks import (
    ALEXNET,
    EFFICIENTNET_LITE0,
    GOOGLENET,
    GPT,
    MOBILENET_V2,
    NIN,
    RELU_CNN,
    RESNET_20,
    RESNET_50,
    SQUEEZENET_1_1,
    VGG_16,
    VIT,
    Work,
    parser_of,
    studied,
)

NETWORKS = (
    *(RESNET_20, SQUEEZENET_1_1, EFFICIENTNET_LITE0, RELU_CNN, ALEXNET, NIN, VGG_16, GOOGLENET),
    *(RESNET_50, MOBILENET_V2, VIT, GPT),
)
SHOWN = 5  # roles of a network, at most; the others are one row, as are those below
LEAST_SHARE = 0.01
OTHERS = "others"
STUDY = Study("holdings", "What is saved, by operator", "measured")
COLUMNS = ("network", "weights", "input", "role", "MB", "share", "zeros", "storages", "saves")


def held_in_step(work: Work) -> list[Storage]:
    """What a forward pass, and its loss, hold."""
    torch.manual_seed(0)
    logits = work.model(work.images)
    return holdings(work.model, F.cross_entropy(logits.flatten(0, -2), work.labels.flatten()))


def summary(storages: Sequence[Storage]) -> list[dict[str, Any]]:
    """By role, the largest first; the smaller ones together."""
    by_role = defaultdict(list)
    for storage in storages:
        by_role[storage.role].append(storage)
    total = sum(storage.nbytes for storage in storages)
    rows = [_figures(role, group, total) for role, group in by_role.items()]
    rows.sort(key=lambda row: -row["bytes"])
    shown = [row for row in rows[:SHOWN] if row["share"] >= LEAST_SHARE]
    names = {row["role"] for row in shown}
    rest = [storage for storage in storages if storage.role not in names]
    return [*shown, *([_figures(OTHERS, rest, total)] if rest else [])]


def _figures(role: str, group: Sequence[Storage], total: int) -> dict[str, Any]:
    nbytes = sum(storage.nbytes for storage in group)
    return {
        "role": role,
        "bytes": nbytes,
        "share": nbytes / total,
        "zeros": sum(storage.zeros * storage.nbytes for storage in group) / nbytes,
        "storages": len(group),
        "saves": sum(storage.saves for storage in group) / len(group),
        "each_by_itself": sum(storage.saved_bytes for storage in group),
    }


def plot(figures: Sequence[dict[str, Any]], path: Path) -> None:
    """Write a PNG: a bar per network, cut by role."""
    names = list(dict.fromkeys(f["network"] for f in figures))
    shares = defaultdict(dict)
    for f in figures:
        shares[f["role"]][f["network"]] = f["share"]
    roles = sorted(shares, key=lambda role: (role == OTHERS, -sum(shares[role].values())))
    figure, panel = pyplot().subplots(figsize=(14, 8), layout="constrained")
    colours = pyplot().get_cmap("tab20")
    left = [0.0] * len(names)
    for number, role in enumerate(roles):
        widths = [shares[role].get(name, 0) for name in names]
        colour = "#dddddd" if role == OTHERS else colours(number % 20)
        panel.barh(names, widths, left=left, color=colour, label=role, edgecolor="white")
        left = [a + b for a, b in zip(left, widths, strict=True)]
    panel.invert_yaxis()
    panel.set_xlim(0, 1)
    panel.set_xlabel("share of the bytes held for the backward pass, measured")
    panel.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=3, fontsize=8)
    figure.savefig(path, dpi=90)


def main() -> None:
    parser = parser_of(__doc__, NETWORKS)
    parser.add_argument("--plot", type=Path, help="draw the shares to this PNG")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    rows, figures = [], []
    for network, head in studied(NETWORKS, args):
        storages = held_in_step(network.work(args.data, args.batch))
        total = _figures("in all", storages, sum(storage.nbytes for storage in storages))
        for f in (*summary(storages), total):
            cells = (f"{f['bytes'] / 1e6:.1f}", f"{f['share']:.0%}", f"{f['zeros']:.0%}")
            role = f["role"]
            if f is total:
                role += f", each by itself {f['each_by_itself'] / 1e6:.1f} MB"
            else:
                figures.append(head | f)
            rows.append([*head.values(), role, *cells, str(f["storages"]), f"{f['saves']:.2f}"])
    if args.plot:
        plot(figures, args.plot)
    what = f"float32, measured, storages of at least {LEAST_BYTES} bytes"
    pictures = [(args.plot, "Shares of the bytes held for the backward pass, by role")]
    publish(STUDY, COLUMNS, rows, figures, what, args, pictures)


if __name__ == "__main__":
    main()
