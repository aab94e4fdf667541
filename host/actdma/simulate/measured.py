"""What is measured on this machine: compressed bytes of every layer's data, seconds of its work."""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..api import compress, suited_codec
from ..arrays import torch_dtype_code
from ..backend import Backend
from ..frame import BLOCK_BYTES
from ..measure.inputs import need
from ..native import NativeBackend
from ..offloading.records import environment
from .layers import Cost, Layer, trace

JSON_FORMAT = 1
REPEATS = 3


@dataclasses.dataclass(frozen=True)
class Measurement:
    """Layers with measured seconds and compressed bytes; ``what`` says of which network and data.

    ``batch``: images of the step. ``environment``: versions and the processor.
    """

    layers: list[Layer]
    batch: int
    what: str
    environment: dict[str, Any]

    def to_json(self, path: str | os.PathLike) -> None:
        """Write it to ``path``."""
        data = {"format": JSON_FORMAT, **dataclasses.asdict(self)}
        Path(path).write_text(json.dumps(data, indent=1) + "\n")

    @staticmethod
    def from_json(path: str | os.PathLike) -> Measurement:
        """What `to_json` wrote; ValueError for anything else."""
        try:
            data = json.loads(Path(path).read_text())
            if data.pop("format") != JSON_FORMAT:
                raise ValueError("unknown format")
            for layer in data["layers"]:
                layer["forward"], layer["backward"] = (
                    Cost(**layer[way]) for way in ("forward", "backward")
                )
            data["layers"] = [Layer(**layer) for layer in data["layers"]]
            return Measurement(**data)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is no measurement of layers: {error}") from error

    def codecs(self) -> list[str]:
        """The codecs that were measured."""
        return sorted({codec for layer in self.layers for codec in layer.stored_bytes})

    def onto(self, layers: Sequence[Layer]) -> list[Layer]:
        """``layers`` of the same network and another batch, with the ratios measured here.

        Compressed bytes are scaled with the saved ones. ValueError where the layers differ.
        """
        kinds = [[(layer.name, layer.operator) for layer in each] for each in (self.layers, layers)]
        if kinds[0] != kinds[1]:
            raise ValueError(f"the layers of {self.what} are not those of the network")
        return [
            dataclasses.replace(layer, stored_bytes=_scaled(own, layer.saved_bytes))
            for own, layer in zip(self.layers, layers, strict=True)
        ]


def measure(
    model: nn.Module,
    images: torch.Tensor,
    codecs: Sequence[str],
    what: str,
    *,
    saves: str = "all",
    repeats: int = REPEATS,
) -> Measurement:
    """Run steps of ``model`` on ``images`` and compress what they save with the CPU's codec.

    ``codecs``: names, as `actdma.compress` takes them; where one does not take a dtype, the best
    one of the dtype does instead. Seconds are the medians of ``repeats`` steps that follow a first;
    0: those of the first, which finds caches cold. Batch statistics move. ``saves``: as in `trace`.
    ValueError for an unknown codec.
    """
    backend = NativeBackend()

    def stored(tensor: torch.Tensor) -> dict[str, int]:
        elements = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())
        return {codec: _stored_bytes(elements, codec, backend) for codec in codecs}

    layers = trace(model, images, saves=saves, compress=stored)
    rounds = need("tqdm").trange(repeats, desc="timed steps", leave=False, disable=None)
    steps = [trace(model, images, saves=saves) for _ in rounds] or [layers]
    for way in ("forward", "backward"):
        for layer, *timed in zip(layers, *steps, strict=True):
            getattr(layer, way).seconds = statistics.median(getattr(t, way).seconds for t in timed)
    return Measurement(layers, len(images), what, environment(backend))


def _stored_bytes(elements: torch.Tensor, name: str, backend: Backend) -> int:
    """Bytes of a frame; below a block, `actdma.offload` leaves tensors as they are."""
    codec = suited_codec(name, torch_dtype_code(elements.dtype))
    if elements.nbytes < BLOCK_BYTES:
        return elements.nbytes
    return compress(elements, codec.name.lower(), backend).nbytes


def _scaled(own: Layer, saved_bytes: int) -> dict[str, float]:
    part = saved_bytes / own.saved_bytes if own.saved_bytes else 0.0
    return {codec: nbytes * part for codec, nbytes in own.stored_bytes.items()}
