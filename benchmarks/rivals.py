"""The native codec beside compressors of others, on what a training step saves.

    python benchmarks/rivals.py --data FOLDER [--json FILE] [--docs FILE]

FOLDER and the networks are those of `networks.py`. Data: *ReLU*, the float32 tensors that
ResNet-20 saves and that have zeros and nothing negative; *all*, every bfloat16 tensor. The tensors
are compressed as one piece, storage after storage. Ours makes whole frames, both CRCs included.

One thread each. Every figure is a median; every repeat is followed by one of memcpy. Memory is warm
where the other's interface can write to some that is there (lz4, snappy and zstd of `cramjam`, raw
blocks without checksums; `blosc2` decompressing); the rest make new memory in every call. zipnn
(`method="auto"`) alters its input: it is given a copy, the time for which is not counted. *sparse*
is `torch.to_sparse` and back, of integers (which keeps -0.0), with int64 indices; *mask* is
NumPy's, a bit per element and the others packed. What is not installed (extra `bench`) is left out.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from common import Study, existing_folder, publish
from ratios import save
from saved import Collector

from actdma.backend import compress_bound
from actdma.bench.timing import aligned, aligned_ones, memcpy_seconds, timed
from actdma.codecs import best_codec
from actdma.frame import Codec, DType, Frame
from actdma.native import NativeBackend
from networks import EFFICIENTNET_LITE0, RESNET_20, Network

STUDY = Study("rivals", "Beside other compressors", "measured")
COLUMNS = ("data", "compressor", "ratio", "compress", "decompress", "memcpy")
NATIVE = NativeBackend()


def unchanged(raw: np.ndarray) -> np.ndarray:
    return raw


@dataclasses.dataclass(frozen=True)
class Compressor:
    """``compress`` takes what ``prepare`` makes of the raw data, ``decompress`` what it returned;
    that gives the data back, in any form of a buffer."""

    name: str
    compress: Callable
    decompress: Callable
    nbytes: Callable = len  # of what was compressed
    prepare: Callable = unchanged


def ours(codec: Codec, dtype: DType, raw: np.ndarray) -> Compressor:
    into = aligned_ones(compress_bound(raw.size, dtype, codec))
    back = aligned_ones(raw.size)

    def decompress(frame: Frame) -> np.ndarray:
        NATIVE.decompress(frame, back)
        return back

    return Compressor(
        codec.name.lower(),
        lambda raw: NATIVE.compress(raw, dtype, codec, into=into),
        decompress,
        lambda frame: frame.nbytes,
    )


def cramjam_ones(raw: np.ndarray) -> Iterator[Compressor]:
    from cramjam import lz4, snappy, zstd

    packed, back = np.ones(raw.size * 5 // 4 + 4096, np.uint8), np.ones_like(raw)

    def made(name: str, compress: Callable, decompress: Callable) -> Compressor:
        def unpack(frame: np.ndarray) -> np.ndarray:
            decompress(frame, back)
            return back

        return Compressor(name, lambda raw: packed[: compress(raw, packed)], unpack)

    yield made(
        "lz4",
        lambda raw, to: lz4.compress_block_into(raw, to, store_size=False),
        lz4.decompress_block_into,
    )
    yield made("snappy", snappy.compress_raw_into, snappy.decompress_raw_into)
    yield made("zstd-1", lambda raw, to: zstd.compress_into(raw, to, level=1), zstd.decompress_into)


def blosc2_ones(dtype: DType, raw: np.ndarray) -> Iterator[Compressor]:
    import blosc2

    back = np.ones_like(raw)

    def decompress(frame: bytes) -> np.ndarray:
        blosc2.decompress2(frame, dst=back, nthreads=1)
        return back

    for name in ("SHUFFLE", "BITSHUFFLE"):
        options = {
            "codec": blosc2.Codec.ZSTD,
            "clevel": 1,
            "typesize": dtype.itemsize,
            "filters": [blosc2.Filter[name]],
            "filters_meta": [0],
            "nthreads": 1,
        }
        yield Compressor(
            f"blosc2 zstd-1 {name.lower()}",
            lambda raw, options=options: blosc2.compress2(raw, **options),
            decompress,
        )


def zipnn_one(dtype: DType) -> Compressor:
    from zipnn import ZipNN

    coder = ZipNN(bytearray_dtype=dtype.name, threads=1)
    return Compressor("zipnn", coder.compress, coder.decompress, prepare=bytearray)


def torch_sparse(dtype: DType) -> Compressor:
    def compress(raw: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(raw).view(getattr(torch, f"int{8 * dtype.itemsize}")).to_sparse()

    def nbytes(sparse: torch.Tensor) -> int:
        return sparse._indices().nbytes + sparse._values().nbytes

    return Compressor(
        "sparse", compress, lambda sparse: sparse.to_dense().view(torch.uint8).numpy(), nbytes
    )


def numpy_mask(dtype: DType) -> Compressor:
    def compress(raw: np.ndarray) -> tuple[int, np.ndarray, np.ndarray]:
        elements = raw.view(f"u{dtype.itemsize}")
        mask = elements != 0
        return elements.size, np.packbits(mask), elements[mask]

    def decompress(packed: tuple[int, np.ndarray, np.ndarray]) -> np.ndarray:
        size, bits, values = packed
        elements = np.zeros(size, values.dtype)
        elements[np.unpackbits(bits, count=size).view(bool)] = values
        return elements.view(np.uint8)

    return Compressor(
        "mask", compress, decompress, lambda packed: packed[1].nbytes + packed[2].nbytes
    )


def compressors(codec: Codec, dtype: DType, raw: np.ndarray) -> Iterator[Compressor]:
    """Ours, then those that are installed."""
    yield ours(codec, dtype, raw)
    for package, make in (
        ("cramjam", lambda: cramjam_ones(raw)),
        ("blosc2", lambda: blosc2_ones(dtype, raw)),
        ("zipnn", lambda: [zipnn_one(dtype)]),
    ):
        if importlib.util.find_spec(package):
            yield from make()
        else:
            print(f"{package} is not installed, and left out")
    yield torch_sparse(dtype)
    yield numpy_mask(dtype)


def saved(network: Network, folder: Path, dtype: DType) -> list[np.ndarray]:
    collector = Collector()
    save(network, folder, collector, getattr(torch, dtype.name))
    return [data for data, kind in collector.taken if best_codec(kind) == Codec.ZVE]


def is_relu(tensor: np.ndarray) -> bool:
    values = tensor.view(np.int32)
    return bool(values.min() == 0 and (values == 0).mean() > 0.05)


def data_sets(folder: Path) -> Iterator[tuple[str, Codec, DType, np.ndarray]]:
    """(name, our codec, dtype, raw bytes)"""
    relu = [t for t in saved(RESNET_20, folder, DType.float32) if is_relu(t)]
    name = f"{RESNET_20.name}: ReLU, float32"
    yield name, Codec.ZVC, DType.float32, aligned(np.concatenate(relu))
    for network in (RESNET_20, EFFICIENTNET_LITE0):
        tensors = saved(network, folder, DType.bfloat16)
        name = f"{network.name}: all, bfloat16"
        yield name, Codec.ZVE, DType.bfloat16, aligned(np.concatenate(tensors))


def measure(one: Compressor, raw: np.ndarray, seconds: float) -> tuple[float, dict[str, float]]:
    """Ratio, and medians of GB/s and of ratios to memcpy; at least three repeats, about so long."""
    to = np.ones_like(raw)
    packed = one.compress(one.prepare(raw))
    ratio = raw.size / one.nbytes(packed)
    if not np.array_equal(np.frombuffer(one.decompress(packed), np.uint8), raw):
        raise RuntimeError(f"{one.name} does not give the data back")
    times: list[tuple[float, float, float]] = []
    while len(times) < 3 or (sum(map(sum, times)) < seconds and len(times) < 15):
        given = one.prepare(raw)
        compress = timed(lambda given=given: one.compress(given))
        copy = memcpy_seconds(to, raw)
        times.append((compress, timed(lambda: one.decompress(packed)), copy))
    medians = [statistics.median(column) for column in zip(*times, strict=True)]
    names = ("compress", "decompress", "memcpy")
    figures = {n: raw.size / t / 1e9 for n, t in zip(names, medians, strict=True)}
    for i, name in enumerate(names[:2]):
        figures[f"{name} to memcpy"] = statistics.median(t[2] / t[i] for t in times)
    return ratio, figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=existing_folder, required=True, metavar="FOLDER")
    parser.add_argument("--seconds", type=float, default=3, help="per compressor and data, about")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--docs", type=Path, help="write the table to this Markdown file")
    args = parser.parse_args()
    rows, figures = [], []
    for data, codec, dtype, raw in data_sets(args.data):
        for one in compressors(codec, dtype, raw):
            ratio, rates = measure(one, raw, args.seconds)
            cells = (f"{rates[n]:.2g} ({rates[f'{n} to memcpy']:.2f}x)" for n in COLUMNS[3:5])
            rows.append([data, one.name, f"{ratio:.2f}", *cells, f"{rates['memcpy']:.1f}"])
            figures.append({"data": data, "compressor": one.name, "ratio": ratio, **rates})
            print(*rows[-1], sep=", ", flush=True)
    what = "GB/s of raw data (ratio to memcpy), measured, one thread, medians"
    publish(STUDY, COLUMNS, rows, figures, what, args)


if __name__ == "__main__":
    main()
