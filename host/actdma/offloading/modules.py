"""The module of a model whose forward is running."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as hooks


class ModuleNames:
    """Follows the modules of a model while it is open, with hooks that are not in the model.

    (Hooks in the modules would go with copies of the model and keep it from being pickled.)
    """

    def __init__(self, model: nn.Module | None) -> None:
        self._model = model
        self._names: dict[nn.Module, str] = {}
        self._stack: list[nn.Module] = []
        self._hooks: list[Any] = []

    @property
    def current(self) -> str | None:
        """Qualified name of the innermost running module; None outside of the model."""
        return self._names[self._stack[-1]] if self._stack else None

    @property
    def in_rrelu(self) -> bool:
        """Whether an `nn.RReLU` draws its noise just now: it is saved first and filled then."""
        running = self._stack[-1] if self._stack else None
        return isinstance(running, nn.RReLU) and running.training

    def open(self) -> None:
        """Register the hooks."""
        modules = dict(self._model.named_modules()) if self._model is not None else {}
        if not modules or any(map(_compiled, modules.values())):
            return  # hooks would have them compiled again
        self._names = {module: name or type(module).__name__ for name, module in modules.items()}
        self._hooks = [
            hooks.register_module_forward_pre_hook(self._enter),
            hooks.register_module_forward_hook(self._leave, always_call=True),
        ]

    def close(self) -> None:
        """Remove the hooks."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self._stack.clear()
        self._names.clear()

    def _enter(self, module: nn.Module, inputs: Any) -> None:
        if module in self._names:
            self._stack.append(module)

    def _leave(self, module: nn.Module, inputs: Any, output: Any) -> None:
        if self._stack and self._stack[-1] is module:
            self._stack.pop()


def _compiled(module: nn.Module) -> bool:
    optimised = type(module).__name__ == "OptimizedModule" or module._compiled_call_impl is not None
    return optimised or isinstance(module, torch.jit.ScriptModule)
