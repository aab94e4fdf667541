"""What every device behind the driver has: codecs, an end, tensors cut into jobs for engines."""

from __future__ import annotations

import abc
import dataclasses
import functools
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

from ..backend import descriptors, frame_memory, packets_into, used_memory
from ..codecs import Coding, reference
from ..frame import (
    BLOCK_BYTES,
    FRAME_BYTES,
    MAX_RAW_BYTES,
    Codec,
    Descriptor,
    DType,
    Engine,
    Frame,
)
from .entrance import Entrance
from .errors import BoardError
from .jobs import Job, compress_job, decompress_job

_Self = TypeVar("_Self", bound="Device")


class Device(abc.ABC):
    """A device called ``what`` in messages, that the function ``opener`` opens (a `Backend`).

    A context manager that closes itself. ``on_close``: called when it is closed. A subclass sets
    ``_codecs``, whose bit ``c`` says that its engines have codec ``c``, ``_info``, and
    ``_max_packet``: the bytes of the longest packet that its DMA can move, None if any.
    """

    _codecs: int
    _info: dict[str, Any]
    _max_packet: int | None = None

    def __init__(self, what: str, opener: str, on_close: Callable[[], None] | None) -> None:
        self._what = what
        self._opener = opener
        self._on_close = on_close
        self._entrance = Entrance(what)
        self._closing = threading.Lock()
        self._closed = False

    def info(self) -> dict[str, Any]:
        """What the device is; see its class."""
        return {**self._info, "codecs": list(self._info["codecs"])}

    def compress(
        self,
        data: np.ndarray,
        dtype: DType,
        codec: Codec | Coding,
        frame_bytes: int = FRAME_BYTES,
        into: np.ndarray | None = None,
    ) -> Frame:
        """See `actdma.backend.Backend.compress`; cycles are the frames' sum. ValueError if a frame
        might not fit the DMA's length register, `BoardError` if the device fails."""
        plan = list(descriptors(data.size, dtype, codec, frame_bytes))
        number = Codec(plan[0].codec)
        self._check_codec(number)
        if self._max_packet is not None and plan[0].frame_bound > self._max_packet:
            what = f"frame_bytes is {frame_bytes}"
            if plan[0].raw_bytes > frame_bytes:
                what = f"a {codec.unit} has {plan[0].raw_bytes} bytes"
            raise ValueError(
                f"{what}; through this {self._what}'s DMA (length register up to "
                f"{self._max_packet} bytes) at most {largest_raw(self._max_packet, plan[0])} fit"
            )
        frames = _Joined(frame_memory(plan, into))

        def jobs() -> Iterator[Job]:
            start = 0
            for i, descriptor in enumerate(plan):
                part = data[start : start + descriptor.raw_bytes]
                start += part.size
                yield compress_job(descriptor, part, functools.partial(frames.keep, i))

        cycles = None
        if data.size:
            cycles = self._work(Engine.COMPRESSOR, jobs())
        else:
            frames.keep(0, reference.encode_frame(data, plan[0]))
        offsets = frames.offsets
        out = used_memory(frames.memory, offsets[-1], into)
        return Frame(out, tuple(offsets), data.size, dtype, number, cycles)

    def decompress(self, frame: Frame, out: np.ndarray) -> int | None:
        """See `actdma.backend.Backend.decompress`; cycles are the frames' sum. ValueError if a
        frame does not fit the DMA's length register, `BoardError` if the device fails."""

        def jobs() -> Iterator[Job]:
            for descriptor, packet, part in packets_into(frame, out):
                if part.size:
                    self._check_codec(descriptor.codec)
                    job = decompress_job(descriptor, packet, part)
                    self._check_length(job)
                    yield job
                else:
                    reference.decode_frame(packet)

        return self._work(Engine.DECOMPRESSOR, jobs())

    def close(self) -> None:
        """Stop the device and free its buffers; more calls do nothing. `BoardError` in the middle
        of a frame of the same thread."""
        if self._entrance.foreign or self._closed:
            self._closed = True
            return
        with self._entrance.enter(), self._closing:
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
    def _work(self, engine: Engine, jobs: Iterator[Job]) -> int | None:
        """Do the jobs in order; the sum of their clock cycles, None where time is not modelled.

        What is wrong with a job, also what ``jobs`` raises, is raised when those before it are
        done.
        """

    @abc.abstractmethod
    def _release(self) -> None:
        """Wait until the device is not in use, stop it and free its buffers."""

    def _check_usable(self) -> None:
        if self._closed:
            raise BoardError(f"the {self._what} is closed; open another with {self._opener}()")

    def _codec_names(self) -> list[str]:
        return [codec.name.lower() for codec in Codec if self._codecs >> codec & 1]

    def _check_codec(self, codec: int) -> None:
        if not self._codecs >> codec & 1:
            name, built = Codec(codec).name.lower(), ", ".join(self._codec_names())
            raise ValueError(f"codec {name} is not on this {self._what}; it has {built}")

    def _check_length(self, job: Job) -> None:
        longest = max(job.send_bytes, job.capacity)
        if self._max_packet is not None and longest > self._max_packet:
            raise ValueError(
                f"a frame of {job.send_bytes} bytes, answered by up to {job.capacity}, does not "
                f"go through this {self._what}'s DMA (length register up to {self._max_packet} "
                "bytes); the backend 'native' decompresses it"
            )

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _Joined:
    """Frames one behind the other in ``memory``, whatever the order they come in; thread-safe."""

    def __init__(self, memory: np.ndarray) -> None:
        self.memory = memory
        self.offsets = [0]
        self._early: dict[int, np.ndarray] = {}  # frames that others have to go before
        self._lock = threading.Lock()

    def keep(self, index: int, frame: np.ndarray) -> None:
        """Copy the frame number ``index``, which may lie in a live buffer."""
        with self._lock:
            if index != len(self.offsets) - 1:
                self._early[index] = frame.copy()
                return
            while frame is not None:
                stop = self.offsets[-1] + frame.size
                self.memory[self.offsets[-1] : stop] = frame
                self.offsets.append(stop)
                frame = self._early.pop(len(self.offsets) - 1, None)


def largest_raw(limit: int, descriptor: Descriptor) -> int:
    """The largest multiple of a block whose frame, coded like ``descriptor``'s, has at most
    ``limit`` bytes."""
    raw = min(limit, MAX_RAW_BYTES) // BLOCK_BYTES * BLOCK_BYTES
    while raw and dataclasses.replace(descriptor, raw_bytes=raw).frame_bound > limit:
        raw -= BLOCK_BYTES
    return raw
