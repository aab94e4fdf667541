"""What an examination finds, and how it is told: plain text, since nothing may be installed yet."""

from __future__ import annotations

import dataclasses
import enum
import textwrap
from collections.abc import Sequence

_WIDTH = 100
_STATE, _INDENT = 6, 25


class State(str, enum.Enum):
    """``GOOD``: works; ``ABSENT``: not there, and only what needs it is without; ``WRONG``: there,
    and does not work."""

    GOOD = "ok"
    ABSENT = "-"
    WRONG = "WRONG"


@dataclasses.dataclass(frozen=True)
class Finding:
    """``found``: one sentence on ``subject``; ``advice``: what to do, empty where nothing is to be
    done."""

    subject: str
    state: State
    found: str
    advice: str = ""

    def __str__(self) -> str:
        """Lines for a terminal or a letter."""
        head = f"{self.state.value:<{_STATE}}{self.subject:<{_INDENT - _STATE}}"
        body = _wrapped(self.found) + (_wrapped(self.advice, "> ") if self.advice else [])
        return textwrap.indent("\n".join(body), " " * _INDENT).replace(" " * _INDENT, head, 1)


def verdict(findings: Sequence[Finding]) -> str:
    """A sentence that counts what is wrong."""
    wrong = sum(finding.state is State.WRONG for finding in findings)
    return f"{wrong} of {len(findings)} wrong: see above." if wrong else "Nothing is wrong."


def _wrapped(sentence: str, mark: str = "") -> list[str]:
    return textwrap.wrap(
        sentence,
        _WIDTH - _INDENT,
        initial_indent=mark,
        subsequent_indent=" " * len(mark),
        break_long_words=False,
        break_on_hyphens=False,
    )
