"""Autograd's check for in-place changes, which PyTorch leaves out where hooks pack tensors."""

from __future__ import annotations

import functools
import re

import torch


class Version:
    """The version of a tensor when it was saved, without its memory.

    A detached tensor shares the version counter, also with all views, and goes on sharing it when
    its data is taken away.
    """

    __slots__ = ("_counter", "_saved", "_what")

    def __init__(self, t: torch.Tensor, *, keep: bool = False) -> None:
        """``keep``: the tensor's data stays in memory (`tensor`)."""
        node = t.grad_fn
        self._counter = t if keep and node is None else t.detach()
        if not keep:
            self._counter.data = _nothing(t.dtype, t.device)
        self._saved = None if t.is_inference() else t._version
        self._what = (None if t.is_nested else t.shape, node and (node.name(), t.output_nr))

    @property
    def tensor(self) -> torch.Tensor:
        """The tensor: autograd restores its history.

        Detached unless it is a leaf, so that a cycle with it cannot form. A leaf is the original,
        as it is for autograd, which sees it when somebody replaces its ``data``.
        """
        return self._counter

    @property
    def moved(self) -> bool:
        """Whether the tensor was modified since."""
        return self._saved is not None and self._counter._version != self._saved

    def check(self) -> None:
        """RuntimeError in autograd's words if the tensor was modified since."""
        if not self.moved:
            return
        shape, node = self._what
        origin = f", which is output {node[1]} of {operator_name(node[0])}," if node else ""
        raise RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace "
            f"operation: [{self._counter.type()} {list(shape or ())}]{origin} is at version "
            f"{self._counter._version}; expected version {self._saved} instead. Hint: enable "
            "anomaly detection to find the operation that failed to compute its gradient, with "
            "torch.autograd.set_detect_anomaly(True)."
        )


@functools.cache
def _nothing(dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    return torch.empty(0, dtype=dtype, device=device)


def operator_name(node: str | None) -> str | None:
    """The operator as autograd's messages call it, from the name of its backward node."""
    return re.sub(r"Backward\d*$", "", node) if node else None
