"""What a section is made of."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import plotly.graph_objects as go


class Tile(NamedTuple):
    """A figure of the summary; ``kind``: "measured" or "modelled"."""

    label: str
    value: str
    kind: str


@dataclasses.dataclass(frozen=True)
class Heading:
    """What follows is of this; ``text`` may say of what file."""

    title: str
    text: str = ""


@dataclasses.dataclass(frozen=True)
class Chart:
    """A figure and what it shows; ``kind`` as in `Tile`."""

    figure: go.Figure
    kind: str
    caption: str


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of text; ``kind`` as in `Tile`, or "by column", where the columns' names say.

    ``folded``: only its caption is seen until it is opened.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    kind: str
    caption: str
    folded: bool = False


Block = Heading | Chart | Table
