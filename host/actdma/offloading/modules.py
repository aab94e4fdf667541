"""Where in a model the tensor that is being saved belongs: read off the stack of calls."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType

from torch import nn

_MODULE_CALL = nn.Module.__call__.__code__
_RRELU = nn.functional.rrelu.__code__


class ModuleNames:
    """Names of a model's modules.

    No hooks are registered: those in modules would go with copies of the model, and those for all
    modules have compiled ones compiled again.
    """

    def __init__(self, model: nn.Module | None) -> None:
        self._model = model
        self._names: dict[int, tuple[nn.Module, str]] = {}  # by id: a module may have no hash

    def open(self) -> None:
        """Look up the names."""
        modules = self._model.named_modules() if self._model is not None else ()
        for name, module in modules:
            self._names[id(module)] = module, name or type(module).__name__

    def close(self) -> None:
        """Forget the names, and the modules."""
        self._names.clear()

    @property
    def current(self) -> str | None:
        """Qualified name of this thread's innermost running module of the model; None outside."""
        if not self._names:
            return None
        calls = (frame for frame in _stack() if frame.f_code is _MODULE_CALL)
        found = (self._names.get(id(frame.f_locals["self"])) for frame in calls)
        return next((entry[1] for entry in found if entry), None)

    @property
    def running(self) -> tuple[nn.Module | None, str | None]:
        """This thread's innermost running module, and its qualified name in the model."""
        for frame in _stack():
            if frame.f_code is _MODULE_CALL:
                module = frame.f_locals["self"]
                return module, self._names.get(id(module), (None, None))[1]
        return None, None


def in_rrelu() -> bool:
    """Whether `torch.nn.functional.rrelu` is running: PyTorch saves its noise, then fills it.

    A copy taken at saving would hold what was in that memory before.
    """
    for frame in _stack():
        if frame.f_code is _RRELU or frame.f_code is _MODULE_CALL:
            return frame.f_code is _RRELU
    return False


def _stack() -> Iterator[FrameType]:
    """The calls that are running in this thread, innermost first."""
    frame = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back
