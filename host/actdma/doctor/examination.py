"""All findings in the order in which a user needs what they are about."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from . import boards, machine, packages
from .finding import Finding, State


def examine(xclbin: str | None = None) -> Iterator[Finding]:
    """Every finding as soon as it is there; nothing raises. Takes some seconds.

    ``xclbin``: what an Alveo card is to load for a transfer; none is made without it.
    """
    parts = {
        "packages": packages.findings,
        "machine": machine.findings,
        "boards": functools.partial(boards.findings, xclbin),
    }
    for name, findings in parts.items():
        try:
            yield from findings()
        except Exception as error:
            yield Finding(
                name,
                State.WRONG,
                f"the examination itself failed: {type(error).__name__}: {error}",
                "please report it with this page",
            )
