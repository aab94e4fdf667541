"""What other block and group sizes would make of the same data.

    python benchmarks/blocks.py --data FOLDER [--json FILE] [--docs docs/evaluation.md]
        [--plot docs/blocks.png]

The format has blocks of 8192 bytes and, for zve, groups of 32 elements (docs/format.md). Sizes of
payloads with others are counted exactly (`counted.py`), by the format's rules and on the tensors
that a training step saves, without coding them; at the format's own sizes they are those of the
codec, as the tests say. Columns *blocks of* (bytes) have groups of 32, columns *groups of*
(elements) blocks of 8192. Descriptors and trailers are left out, so that ratios are a little above
those of frames. bfloat16: rounded from float32.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from common import Study, publish, pyplot
from counted import zvc_bytes, zve_bytes
from saved import Saved
from tqdm import tqdm

from actdma.codecs import parameters
from actdma.frame import BLOCK_BYTES, Codec, DType
from networks import (
    EFFICIENTNET_LITE0,
    RESNET_20,
    SQUEEZENET_1_1,
    parser_of,
    saved_by_network,
    studied,
)

NETWORKS = (RESNET_20, SQUEEZENET_1_1, EFFICIENTNET_LITE0)
DTYPES = (DType.float32, DType.bfloat16)
BLOCKS = tuple(1 << bits for bits in range(9, 17))  # bytes
GROUPS = (8, 16, 32, 64, 128)  # elements
GROUP = 32
STUDY = Study("blocks", "Block and group sizes", "measured")
COLUMNS = (
    *("network", "weights", "input", "dtype", "codec"),
    *(f"blocks of {block}" for block in BLOCKS),
    *(f"groups of {group}" for group in GROUPS if group != GROUP),
)


def settings() -> Iterable[tuple[str, int, int | None]]:
    """Codec, bytes of a block, and elements of a group."""
    for block in BLOCKS:
        yield "zvc", block, None
    for block in BLOCKS:
        yield "zve", block, GROUP
    for group in GROUPS:
        if group != GROUP:
            yield "zve", BLOCK_BYTES, group


def stored(saved: Saved, codec: str, block: int, group: int | None) -> int:
    """Bytes of the payload of ``saved`` under such settings."""
    if group is None:
        return zvc_bytes(saved.elements, block)
    exponent_bits = parameters(Codec.ZVE, saved.dtype)[0]
    return zve_bytes(saved.elements, exponent_bits, block, group)


def plot(figures: Sequence[dict[str, Any]], path: Path) -> None:
    """Write a PNG: ratio over block size for zvc and zve, and over group size for zve."""
    figure, panels = pyplot().subplots(1, 3, figsize=(16, 5.5), layout="constrained")
    chosen = (
        ("zvc", "block", lambda f: f["codec"] == "zvc"),
        ("zve, groups of 32", "block", lambda f: f["codec"] == "zve" and f["group"] == GROUP),
        (
            "zve, blocks of 8 KiB",
            "group",
            lambda f: f["codec"] == "zve" and f["block"] == BLOCK_BYTES,
        ),
    )
    kinds = list(dict.fromkeys((f["network"], f["dtype"]) for f in figures))
    for panel, (title, axis, belongs) in zip(panels, chosen, strict=True):
        for number, kind in enumerate(kinds):
            points = sorted(
                (f[axis], f["ratio"])
                for f in figures
                if belongs(f) and (f["network"], f["dtype"]) == kind
            )
            style = "o-" if kind[1] == DType.float32.name else "s--"
            colour = f"C{number // len(DTYPES)}"
            panel.plot(*zip(*points, strict=True), style, color=colour, label=", ".join(kind))
        panel.set_xscale("log", base=2)
        panel.axvline(BLOCK_BYTES if axis == "block" else GROUP, color="grey", linewidth=0.8)
        panel.set_xlabel("bytes of a block" if axis == "block" else "elements of a group")
        panel.set_title(f"{title} (the format's size: grey)")
        panel.set_ylabel("ratio of the payload")
        panel.spines[["top", "right"]].set_visible(False)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.savefig(path, dpi=90)


def main() -> None:
    parser = parser_of(__doc__, NETWORKS)
    parser.add_argument("--plot", type=Path, help="draw the ratios to this PNG")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    rows, figures = [], []
    for network, head in studied(NETWORKS, args):
        kept = saved_by_network(network, args)
        for dtype in DTYPES:
            cast = [saved.cast(dtype) for saved in kept]
            raw = sum(saved.data.size for saved in cast)
            ratios = {
                setting: raw / sum(stored(saved, *setting) for saved in cast)
                for setting in tqdm([*settings()], unit="setting", leave=False)
            }
            of = head | {"dtype": dtype.name}
            for codec in ("zvc", "zve"):
                cells = [f"{ratio:.3f}" for setting, ratio in ratios.items() if setting[0] == codec]
                cells += [""] * (len(COLUMNS) - len(of) - 1 - len(cells))
                rows.append([*of.values(), codec, *cells])
            figures += [
                {**of, "codec": codec, "block": block, "group": group, "ratio": ratio}
                for (codec, block, group), ratio in ratios.items()
            ]
    if args.plot:
        plot(figures, args.plot)
    what = "raw bytes per byte of payload, counted on measured tensors"
    pictures = [(args.plot, "Ratios over block and group sizes")]
    publish(STUDY, COLUMNS, rows, figures, what, args, pictures)


if __name__ == "__main__":
    main()
