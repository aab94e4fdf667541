"""What every device behind the driver has: turns, an end, the codecs that are built in."""

from __future__ import annotations

import abc
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from ..frame import Codec
from .errors import BoardError
from .turns import Turns

_Self = TypeVar("_Self", bound="Device")


class Device(abc.ABC):
    """A device called ``what`` in messages, that the function ``opener`` opens.

    A context manager that closes itself. ``on_close``: called when it is closed. A subclass sets
    ``_codecs``, whose bit ``c`` says that its engines have codec ``c``, and ``_info``.
    """

    _codecs: int
    _info: dict[str, Any]

    def __init__(self, what: str, opener: str, on_close: Callable[[], None] | None) -> None:
        self._what = what
        self._opener = opener
        self._on_close = on_close
        self._turns = Turns(what)
        self._closed = False

    def info(self) -> dict[str, Any]:
        """What the device is; see its class."""
        return {**self._info, "codecs": list(self._info["codecs"])}

    def close(self) -> None:
        """Stop the device and free its buffers; more calls do nothing. `BoardError` in the middle
        of a frame of the same thread."""
        if self._turns.foreign or self._closed:
            self._closed = True
            return
        with self._turns.take():
            if self._closed:
                return
            self._closed = True
            try:
                self._release()
            finally:
                if self._on_close is not None:
                    self._on_close()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @abc.abstractmethod
    def _release(self) -> None:
        """Stop the device and free its buffers."""

    def _check_usable(self) -> None:
        if self._closed:
            raise BoardError(f"the {self._what} is closed; open another with {self._opener}()")

    def _codec_names(self) -> list[str]:
        return [codec.name.lower() for codec in Codec if self._codecs >> codec & 1]

    def _check_codec(self, codec: int) -> None:
        if not self._codecs >> codec & 1:
            name, built = Codec(codec).name.lower(), ", ".join(self._codec_names())
            raise ValueError(f"codec {name} is not on this {self._what}; it has {built}")

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
