"""Compression ratios of what one training step of real networks saves, codec by codec.

    python benchmarks/ratios.py --data FOLDER [--json FILE] [--docs docs/ratios.md]

Every floating-point storage that the forward pass in train mode saves and that has at least 1024
elements is compressed once, parameters and buffers left out (as `actdma.offload` does), in frames
of 4 MiB; the ratio is that of all raw to all compressed bytes, descriptors and trailers included.
In a bfloat16 network some of them are float32 (float masks of dropout). Networks and what they
need:

- CIFAR ResNet-20 (He et al., arXiv 1512.03385; shortcuts without parameters), batch 128: in FOLDER
  `weights/resnet20_cifar10.pt`, a state_dict with `conv1, bn1, layerL.i.{conv,bn}{1,2}, linear`, as
  github.com/akamaster/pytorch_resnet_cifar10 has them, and `cifar10_subset.npz` with `x_train` (n,
  32, 32, 3) and `y_train`, uint8, of CIFAR-10.
- EfficientNet-Lite0, ImageNet weights, batch 8: the packages of `actdma[demo]`; photographs from
  `imagenet_samples.npz` in FOLDER (`images`, (n, 224, 224, 3), uint8), else those of scikit-image.
- SqueezeNet 1.1 (arXiv 1602.07360; its convolutions, a ReLU behind each, no normalisation), batch
  8: in FOLDER `weights/squeezenet1_1_features_imagenet.pt`, a state_dict with `conv1` and
  `fireN.{squeeze1x1,expand1x1,expand3x3}`, and `imagenet_samples.npz` as above.
- A transformer encoder with GELU (4 layers, width 256, random weights), batch 32: CIFAR-10, too.
- The int64 indices of a 2 x 2 max-pool of ReLU maps of 56 x 56 (normal noise): nothing.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from common import publish
from torch import nn
from torch.nn import functional as F

import actdma
from actdma.backend import Backend
from actdma.codecs import best_codec
from actdma.frame import FRAME_BYTES, Codec, DType, Frame
from actdma.measure.inputs import (
    DEFAULT_MODEL,
    IMAGENET,
    Normalisation,
    load_images,
    load_model,
)
from actdma.native import NativeBackend

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
        into: np.ndarray | None = None,
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
        return self._native.compress(data, dtype, codec, frame_bytes, into)

    def decompress(self, frame: Frame, out: np.ndarray) -> None:
        self._native.decompress(frame, out)

    def ratios(self) -> dict[str, float]:
        stored = {codec.name.lower(): self._stored[codec] for codec in self.codecs}
        return {n: self.raw / size for n, size in {"runs": self.run_coded, **stored}.items()}


@dataclasses.dataclass(frozen=True)
class Step:
    """A forward pass: ``build`` makes the model, anew for every run; ``images`` are its input."""

    name: str
    build: Callable[[], nn.Module]
    images: torch.Tensor
    maps: bool = True  # it has feature maps, whose memory order matters

    def tally(self, dtype: torch.dtype, order: torch.memory_format) -> Tally:
        tally = Tally(Codec.ZVE)
        self.save(tally, dtype, order)
        return tally

    def save(
        self,
        backend: Backend,
        dtype: torch.dtype,
        order: torch.memory_format = torch.contiguous_format,
    ) -> None:
        """A forward pass whose saved tensors go through ``backend``."""
        torch.manual_seed(0)
        model = self.build().to(dtype).to(memory_format=order).train()
        labels = torch.arange(len(self.images)) % 10
        with actdma.offload(model, codec="zvc", backend=backend, min_bytes=LEAST_ELEMENTS):
            logits = model(self.images.to(dtype).to(memory_format=order))
            F.cross_entropy(logits.float(), labels)


class Block(nn.Module):
    def __init__(self, before: int, channels: int) -> None:
        super().__init__()
        self.stride = 1 if before == channels else 2
        self.conv1 = nn.Conv2d(before, channels, 3, self.stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.added = (channels - before) // 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        if self.stride == 2:
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.added, self.added))
        return F.relu(x + y)


class ResNet20(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(*(Block(16, 16) for _ in range(3)))
        self.layer2 = nn.Sequential(Block(16, 32), Block(32, 32), Block(32, 32))
        self.layer3 = nn.Sequential(Block(32, 64), Block(64, 64), Block(64, 64))
        self.linear = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.linear(F.avg_pool2d(x, 8).flatten(1))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 256, 4, stride=4)
        layer = nn.TransformerEncoderLayer(
            256, 8, 1024, dropout=0.1, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(256, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        return self.head(self.encoder(tokens).mean(1))


class Fire(nn.Module):
    def __init__(self, before: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze1x1 = nn.Conv2d(before, squeezed, 1)
        self.expand1x1 = nn.Conv2d(squeezed, expanded, 1)
        self.expand3x3 = nn.Conv2d(squeezed, expanded, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.squeeze1x1(x))
        return torch.cat([F.relu(self.expand1x1(x)), F.relu(self.expand3x3(x))], 1)


class SqueezeNet(nn.Module):
    """The convolutions of SqueezeNet 1.1; ten average maps stand for its classes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 3, 2)
        sizes = [(64, 16, 64), (128, 16, 64), (128, 32, 128), (256, 32, 128)]
        sizes += [(256, 48, 192), (384, 48, 192), (384, 64, 256), (512, 64, 256)]
        for number, size in enumerate(sizes, 2):
            self.add_module(f"fire{number}", Fire(*size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.conv1(x))
        for number in range(2, 10):
            if number in (2, 4, 6):
                x = F.max_pool2d(x, 3, 2, ceil_mode=True)
            x = self.get_submodule(f"fire{number}")(x)
        return x.mean((2, 3))[:, :10]


def squeezenet(folder: Path) -> nn.Module:
    model = SqueezeNet()
    file = folder / "weights/squeezenet1_1_features_imagenet.pt"
    model.load_state_dict(torch.load(file, weights_only=True))
    return model


def resnet20(folder: Path) -> nn.Module:
    model = ResNet20()
    model.load_state_dict(torch.load(folder / "weights/resnet20_cifar10.pt", weights_only=True))
    return model


def normalised(pixels: np.ndarray, normalisation: Normalisation) -> torch.Tensor:
    """Images (n, height, width, 3), uint8, as (n, 3, height, width), float32."""
    mean, deviation = (
        torch.tensor(v).view(3, 1, 1) for v in (normalisation.mean, normalisation.deviation)
    )
    return ((torch.from_numpy(pixels).permute(0, 3, 1, 2) - mean) / deviation).contiguous()


def photographs(folder: Path, normalisation: Normalisation) -> torch.Tensor:
    samples = folder / "imagenet_samples.npz"
    if not samples.exists():
        return load_images(None, 8, normalisation)
    return normalised(np.load(samples)["images"][:8], normalisation)


def steps(folder: Path) -> Iterator[Step]:
    """What can be run with the files in ``folder``; a line for what cannot."""
    cifar = folder / "cifar10_subset.npz"
    if cifar.exists() and (folder / "weights/resnet20_cifar10.pt").exists():
        images = normalised(np.load(cifar)["x_train"][:128], IMAGENET)
        yield Step("ResNet-20, batch 128", lambda: resnet20(folder), images)
        yield Step("GELU transformer, batch 32", Transformer, images[:32], maps=False)
    else:
        print(
            f"ResNet-20 and the transformer are left out: {folder} lacks cifar10_subset.npz or "
            "weights/resnet20_cifar10.pt"
        )
    samples = folder / "imagenet_samples.npz"
    if samples.exists() and (folder / "weights/squeezenet1_1_features_imagenet.pt").exists():
        # Its weights want blue, green, red, from 0 to 255, less the means.
        pixels = np.load(samples)["images"][:8][..., ::-1].copy()
        images = normalised(pixels, Normalisation((103.939, 116.779, 123.68), (1, 1, 1)))
        yield Step("SqueezeNet 1.1, batch 8", lambda: squeezenet(folder), images)
    else:
        print(
            f"SqueezeNet is left out: {folder} lacks imagenet_samples.npz or "
            "weights/squeezenet1_1_features_imagenet.pt"
        )
    _, normalisation = load_model(DEFAULT_MODEL, 0)
    yield Step(
        "EfficientNet-Lite0, batch 8",
        lambda: load_model(DEFAULT_MODEL, 0)[0],
        photographs(folder, normalisation),
    )


def pooling_indices() -> Tally:
    maps = F.relu(torch.randn(8, 64, 56, 56, generator=torch.Generator().manual_seed(0)))
    indices = F.max_pool2d(maps, 2, return_indices=True)[1]
    tally = Tally(Codec.INTS)
    tally.compress(indices.numpy().reshape(-1).view(np.uint8), DType.int64, Codec.ZVC)
    return tally


def measurements(folder: Path) -> Iterator[tuple[str, DType, str, Tally]]:
    """(network, dtype, memory order, what it came to)"""
    orders = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
    for step in steps(folder):
        for dtype in (DType.float32, DType.bfloat16):
            for name in orders if step.maps else ["contiguous"]:
                tally = step.tally(getattr(torch, dtype.name), orders[name])
                yield step.name, dtype, name, tally
    yield "indices of a 2 x 2 max-pool, 56 x 56 maps", DType.int64, "contiguous", pooling_indices()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--data",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="weights and images: see the head of this file",
    )
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--docs", type=Path, help="write the table to this Markdown file")
    args = parser.parse_args()
    rows, figures = [], []
    for network, dtype, order, tally in measurements(args.data):
        zeros = tally.zeros / tally.elements
        ratios = tally.ratios()
        size = f"{tally.raw / 1e6:.1f}"
        cells = (f"{ratio:.3f}" for ratio in ratios.values())
        rows.append([network, dtype.name, order, size, f"{zeros:.0%}", *cells])
        figures.append(
            {
                "network": network,
                "dtype": dtype.name,
                "order": order,
                "raw_bytes": tally.raw,
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
