"""The module of a model whose forward is running."""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as hooks


class _Running(threading.local):
    """The modules whose forward is running in this thread, innermost last."""

    def __init__(self) -> None:
        self.modules: list[nn.Module] = []


class ModuleNames:
    """Follows the modules of a model while it is open, with hooks that are not in the model.

    (Hooks in the modules would go with copies of the model and keep it from being pickled.) The
    hooks are called for every module of the process, in every thread.
    """

    def __init__(self, model: nn.Module | None) -> None:
        self._model = model
        self._names: dict[int, tuple[nn.Module, str]] = {}  # by id: a module may have no hash
        self._running = _Running()
        self._hooks: list[Any] = []

    @property
    def current(self) -> str | None:
        """Qualified name of this thread's innermost running module; None outside of the model."""
        running = self._running.modules
        _, name = self._names.get(id(running[-1]), (None, None)) if running else (None, None)
        return name

    def open(self) -> None:
        """Register the hooks."""
        modules = dict(self._model.named_modules()) if self._model is not None else {}
        if not modules or any(map(_compiled, modules.values())):
            return  # hooks would have them compiled again
        for name, module in modules.items():
            self._names[id(module)] = module, name or type(module).__name__
        self._hooks = [
            hooks.register_module_forward_pre_hook(self._enter),
            hooks.register_module_forward_hook(self._leave, always_call=True),
        ]

    def close(self) -> None:
        """Remove the hooks."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self._running = _Running()
        self._names.clear()

    def _enter(self, module: nn.Module, inputs: Any) -> None:
        if id(module) in self._names:
            self._running.modules.append(module)

    def _leave(self, module: nn.Module, inputs: Any, output: Any) -> None:
        running = self._running.modules
        for depth in reversed(range(len(running))):
            if running[depth] is module:
                del running[depth:]  # with those above it that an interrupt has ended
                break


def _compiled(module: nn.Module) -> bool:
    optimised = type(module).__name__ == "OptimizedModule" or module._compiled_call_impl is not None
    return optimised or isinstance(module, torch.jit.ScriptModule)
