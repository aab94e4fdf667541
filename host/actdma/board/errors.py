"""What can go wrong with a board."""

from __future__ import annotations


class BoardError(RuntimeError):
    """The board, its link or its engines failed; the message says what and the likely cause.

    A board that raised it was reset and can be used again, unless the message says otherwise.
    """


class BoardTimeoutError(BoardError):
    """A transfer did not end in time, or can be seen never to end."""
