"""The driver: tensors through the engines of a board, real or emulated, over pynq."""

from __future__ import annotations

from .board import Board
from .errors import BoardError, BoardTimeoutError
from .opener import open_board, open_on, shared_board
from .several import Boards

__all__ = [
    "Board",
    "BoardError",
    "BoardTimeoutError",
    "Boards",
    "open_board",
    "open_on",
    "shared_board",
]
