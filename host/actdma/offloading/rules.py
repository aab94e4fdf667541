"""Which layers' saved inputs may be lossy."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from typing import Any

from torch import nn

from ..codecs import Bsr, Lossy, Pool
from .modules import ModuleNames
from .needs import Approximate

_NONE = "no operator that it is for has run in such a module"

# What each operator's input may be coded with.
_CODECS: dict[str, type[Lossy]] = {"conv2d": Pool, "linear": Bsr}


class Rules:
    """``rules``: a lossy codec, or None to keep all bits, by module type or by a pattern of names
    (as `fnmatch` takes it); the first one that fits a module holds. A rule goes by the innermost
    module that is running; `Pool` holds for convolutions of maps, `Bsr` for linear operators.
    TypeError for what is no rule.
    """

    def __init__(
        self, rules: Mapping[str | type[nn.Module], Lossy | None], names: ModuleNames
    ) -> None:
        if not isinstance(rules, Mapping):
            raise TypeError(f"lossy is a {type(rules).__name__}, expected a mapping")
        for key, codec in rules.items():
            if not isinstance(key, str) and not (
                isinstance(key, type) and issubclass(key, nn.Module)
            ):
                raise TypeError(
                    f"lossy has the key {key!r}, allowed are patterns of module names and types of "
                    "modules"
                )
            if codec is not None and not isinstance(codec, tuple(_CODECS.values())):
                allowed = ", ".join(c.__name__ for c in _CODECS.values())
                raise TypeError(f"lossy has {codec!r} for {key!r}, allowed are {allowed} and None")
        self._rules = dict(rules)
        self._names = names
        self._unused = {key: _NONE for key, codec in rules.items() if codec is not None}

    def need(self, operator: str) -> Approximate | None:
        """How lossy the input of ``operator``, which is about to run, may be."""
        if not self._rules:
            return None
        module, name = self._names.running
        for key, codec in self._rules.items():
            if module is not None and self._fits(key, module, name):
                if isinstance(codec, _CODECS[operator]):
                    self._unused.pop(key, None)
                    return Approximate(codec, name or type(module).__name__)
                if key in self._unused:
                    self._unused[key] = f"it is not for {operator}"
                return None
        return None

    def unused(self) -> list[tuple[str, str, str]]:
        """Rules that held for no operator that has run: their keys, their codecs, and why."""
        return [
            (key if isinstance(key, str) else key.__name__, Approximate(self._rules[key]).name, why)
            for key, why in self._unused.items()
        ]

    @staticmethod
    def _fits(key: Any, module: nn.Module, name: str | None) -> bool:
        if isinstance(key, str):
            return name is not None and fnmatch.fnmatchcase(name, key)
        return isinstance(module, key)
