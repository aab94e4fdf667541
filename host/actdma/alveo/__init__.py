"""The driver of Alveo cards: tensors through compute units on a card's own memory, over pyxrt."""

from __future__ import annotations

from .card import Card
from .opener import open_alveo, open_on

__all__ = ["Card", "open_alveo", "open_on"]
