"""The name of the module whose forward is running."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class ModuleNames:
    """Follows the modules of a model with forward hooks while it is open."""

    def __init__(self, model: nn.Module | None) -> None:
        self._model = model
        self._stack: list[str] = []
        self._hooks: list[Any] = []

    @property
    def current(self) -> str | None:
        """Qualified name of the innermost running module; None outside of the model."""
        return self._stack[-1] if self._stack else None

    def open(self) -> None:
        """Register the hooks."""
        modules = dict(self._model.named_modules()) if self._model is not None else {}
        if any(map(_compiled, modules.values())):
            return  # hooks would have them compiled again
        for name, module in modules.items():
            enter = module.register_forward_pre_hook(self._enter(name or type(module).__name__))
            leave = module.register_forward_hook(self._leave, always_call=True)
            self._hooks += [enter, leave]

    def close(self) -> None:
        """Remove the hooks."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self._stack.clear()

    def _enter(self, name: str) -> Any:
        return lambda module, inputs: self._stack.append(name)

    def _leave(self, module: nn.Module, inputs: Any, output: Any) -> None:
        if self._stack:  # empty if the session was closed inside of the model
            self._stack.pop()


def _compiled(module: nn.Module) -> bool:
    optimised = type(module).__name__ == "OptimizedModule" or module._compiled_call_impl is not None
    return optimised or isinstance(module, torch.jit.ScriptModule)
