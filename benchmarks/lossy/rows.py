"""Rows of the tables by name: what of a network is saved with loss, and how.

- ``baseline``: nothing.
- ``pool2``, ``pool4``, ``pool8``: inputs of all convolutions, as means of 2 x 2, 4 x 4 or 8 x 8
  (arXiv 2409.11902).
- ``bsr16-0.15``: inputs of all linear layers, of which blocks of 16 x 16 are kept, those with the
  largest norms, 15 % of them (arXiv 2311.16883).
- ``pool4@layer1+layer2``: only modules whose names begin so; ``pool4@layer1,pool2@layer2``: both.

A row has two settings. ``alone``, as in the papers: PyTorch keeps all else. ``stacked``: on top of
``exact=True`` and zve; what can be made again is then not lossy, so that gradients may be closer to
the exact ones than alone. The baseline's gradients are the plain ones in both.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from contextlib import AbstractContextManager

from torch import nn

import actdma
from actdma.codecs import Bsr, Pool

BASELINE = "baseline"
ALONE, STACKED = "alone", "stacked"
SETTINGS = {ALONE: {"codec": "raw", "exact": False}, STACKED: {"codec": "zve", "exact": True}}
Rules = dict[str | type[nn.Module], Pool | Bsr]


def rules(row: str) -> Rules:
    """The argument ``lossy`` of `actdma.offload`; ValueError for a row that is none."""
    found: Rules = {}
    for term in [] if row == BASELINE else row.split(","):
        name, _, parts = term.partition("@")
        codec, kind = _codec(name, row)
        found |= {f"{part}*": codec for part in parts.split("+")} if parts else {kind: codec}
    return found


def _codec(name: str, row: str) -> tuple[Pool | Bsr, type[nn.Module]]:
    if match := re.fullmatch(r"pool(\d+)", name):
        return Pool(int(match[1])), nn.Conv2d
    if match := re.fullmatch(r"bsr(\d+)-(0?\.\d+|0|1)", name):
        return Bsr(int(match[1]), density=float(match[2])), nn.Linear
    raise ValueError(
        f"row {row!r}: {name!r} is neither poolK nor bsrBLOCK-DENSITY, such as pool2 or bsr16-0.15"
    )


def hooks(row: str, setting: str) -> Callable[[nn.Module], AbstractContextManager]:
    """What is open in a model's forward pass: nothing for the baseline alone."""
    lossy, options = rules(row), SETTINGS[setting]
    if not lossy and setting == ALONE:
        return lambda model: contextlib.nullcontext()
    return lambda model: actdma.offload(model, backend="native", lossy=lossy, **options)
