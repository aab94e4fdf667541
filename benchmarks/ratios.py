"""Compression ratios of what one training step of real networks saves, codec by codec.

    python benchmarks/ratios.py --data FOLDER [--json FILE] [--docs docs/ratios.md]

Every floating-point storage that the forward pass in train mode saves and that has at least 1024
elements is compressed once, parameters and buffers left out (as `actdma.offload` does), in frames
of 4 MiB; the ratio is that of all raw to all compressed bytes, descriptors and trailers included.
In a bfloat16 network some of them are float32 (float masks of dropout). `networks.py` says what
the networks need of FOLDER; those whose files are not there are left out. Besides: the int64
indices of a 2 x 2 max-pool of ReLU maps of 56 x 56 (normal noise).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import publish
from images import CLASSES
from torch.nn import functional as F

import actdma
from actdma.backend import Backend
from actdma.codecs import best_codec
from actdma.frame import FRAME_BYTES, Codec, DType, Frame
from actdma.native import NativeBackend
from networks import (
    EFFICIENTNET_LITE0,
    GELU_TRANSFORMER,
    ORDERS,
    RESNET_20,
    SQUEEZENET_1_1,
    Network,
)

NETWORKS = (RESNET_20, GELU_TRANSFORMER, SQUEEZENET_1_1, EFFICIENTNET_LITE0)
LEAST_ELEMENTS = 1024
CODECS = (Codec.ZVC, Codec.RLE)  # and the best one of the dtype
LONGEST_RUN = 128  # elements that a byte can tell of
COLUMNS = (
    *("network", "dtype", "memory order", "MB", "zeros"),
    *("element runs", "zvc", "rle", "zve or ints"),
)


def run_coded_bytes(elements: np.ndarray) -> int:
    """Size under run coding by the element, as in cDMA: a byte per run of up to 128 elements that
    are all zero or all not, followed by those that are not; raw where that is less."""
    kept = elements != 0
    borders = np.flatnonzero(kept[1:] != kept[:-1]) + 1
    runs = np.diff(np.concatenate([[0], borders, [kept.size]]))
    coded = int((-(-runs // LONGEST_RUN)).sum()) + int(np.count_nonzero(kept)) * elements.itemsize
    return min(coded, elements.nbytes)


class Tally:
    """A backend that adds up what the codecs make of those tensors that `best` suits best."""

    name = "tally"

    def __init__(self, best: Codec) -> None:
        self.codecs = (*CODECS, best)
        self.raw = self.elements = self.zeros = self.run_coded = 0
        self._stored = dict.fromkeys(self.codecs, 0)
        self._native = NativeBackend()

    def compress(
        self,
        data: np.ndarray,
        dtype: DType,
        codec: Codec,
        frame_bytes: int = FRAME_BYTES,
        *into: Any,
    ) -> Frame:
        enough = data.size >= LEAST_ELEMENTS * dtype.itemsize
        if enough and best_codec(dtype) == self.codecs[-1]:
            elements = data.view(f"u{dtype.element_bytes}")
            self.raw += data.size
            self.elements += elements.size
            self.zeros += elements.size - np.count_nonzero(elements)
            self.run_coded += run_coded_bytes(elements)
            for each in self.codecs:
                self._stored[each] += self._native.compress(data, dtype, each, frame_bytes).nbytes
        return self._native.compress(data, dtype, codec, frame_bytes, *into)

    def decompress(self, frame: Frame, out: np.ndarray) -> None:
        self._native.decompress(frame, out)

    def ratios(self) -> dict[str, float]:
        stored = {codec.name.lower(): self._stored[codec] for codec in self.codecs}
        return {n: self.raw / size for n, size in {"runs": self.run_coded, **stored}.items()}


def save(
    network: Network,
    folder: Path,
    backend: Backend,
    dtype: torch.dtype,
    order: torch.memory_format = torch.contiguous_format,
) -> None:
    """A forward pass of the network; what it saves goes through ``backend``."""
    torch.manual_seed(0)
    model = network.build(folder).to(dtype).to(memory_format=order).train()
    images = network.images(folder, network.batch).to(dtype).to(memory_format=order)
    with actdma.offload(model, codec="zvc", backend=backend, min_bytes=LEAST_ELEMENTS):
        F.cross_entropy(model(images).float(), torch.arange(len(images)) % CLASSES)


def tally(network: Network, folder: Path, dtype: torch.dtype, order: torch.memory_format) -> Tally:
    """What a forward pass of the network saves."""
    counted = Tally(Codec.ZVE)
    save(network, folder, counted, dtype, order)
    return counted


def pooling_indices() -> Tally:
    maps = F.relu(torch.randn(8, 64, 56, 56, generator=torch.Generator().manual_seed(0)))
    indices = F.max_pool2d(maps, 2, return_indices=True)[1]
    tally = Tally(Codec.INTS)
    tally.compress(indices.numpy().reshape(-1).view(np.uint8), DType.int64, Codec.ZVC)
    return tally


def measurements(folder: Path) -> Iterator[tuple[str, DType, str, Tally]]:
    """(network, dtype, memory order, what it came to); a line for what cannot be run"""
    for network in NETWORKS:
        name = f"{network.name}, batch {network.batch}"
        if lacking := network.lacks(folder):
            print(f"{name} is left out: {folder} lacks {', '.join(lacking)}")
            continue
        for dtype in (DType.float32, DType.bfloat16):
            for order in ORDERS if network.maps else ["contiguous"]:
                counted = tally(network, folder, getattr(torch, dtype.name), ORDERS[order])
                yield name, dtype, order, counted
    yield "indices of a 2 x 2 max-pool, 56 x 56 maps", DType.int64, "contiguous", pooling_indices()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--data",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="weights and images: see the head of networks.py",
    )
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--docs", type=Path, help="write the table to this Markdown file")
    args = parser.parse_args()
    rows, figures = [], []
    for network, dtype, order, counted in measurements(args.data):
        zeros = counted.zeros / counted.elements
        ratios = counted.ratios()
        size = f"{counted.raw / 1e6:.1f}"
        cells = (f"{ratio:.3f}" for ratio in ratios.values())
        rows.append([network, dtype.name, order, size, f"{zeros:.0%}", *cells])
        figures.append(
            {
                "network": network,
                "dtype": dtype.name,
                "order": order,
                "raw_bytes": counted.raw,
                "zeros": zeros,
                "ratios": ratios,
            }
        )
        print(*rows[-1], sep=", ", flush=True)
    publish(
        "What a training step saves",
        COLUMNS,
        rows,
        figures,
        "raw bytes per compressed byte, measured, storages of at least 1024 elements, 4 MiB frames",
        args,
    )


if __name__ == "__main__":
    main()
