"""A board as a backend: tensors cut into frames, frames through the DMAs, answers checked."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..backend import descriptors, frame_memory, packets_into, used_memory
from ..codecs import Coding, reference
from ..frame import (
    BLOCK_BYTES,
    FRAME_BYTES,
    HEADER_BYTES,
    MAX_RAW_BYTES,
    Codec,
    Descriptor,
    DType,
    Engine,
    Frame,
    FrameError,
    Trailer,
    answer_bytes,
    frame_bound,
    padded,
)
from .answers import check_answer, check_frame, check_identity
from .device import Device
from .errors import BoardError
from .link import Link
from .packets import refuse_impossible, write_request
from .probe import Probe
from .staging import Staging

_DMAS = {Engine.COMPRESSOR: "axi_dma_compress", Engine.DECOMPRESSOR: "axi_dma_decompress"}


class Board(Device):
    """Compresses and decompresses through the engines of a loaded overlay (a `Backend`).

    ``overlay``: a loaded `pynq.Overlay` with the DMAs ``axi_dma_compress`` and
    ``axi_dma_decompress``; ``kind``: "hardware" or "emulated"; ``title``, ``part``: what the board
    is; ``clock_mhz``: the PL clock; ``timeout``: seconds per frame, None for a default made from
    size and link rate; ``frame_bytes``: raw bytes of the largest frame that buffers are allocated
    for at once; ``probe``: insight into an emulated fabric; ``on_close``: called when the board is
    closed.

    `info` tells kind, device, board and part names, clock in MHz, lanes per beat, codecs, bits of
    the DMA's length register, engine versions, and whether time is modelled.

    Thread-safe: one frame at a time, so frames of several tensors may alternate. Not re-entrant: a
    signal handler or finaliser that comes in the middle of a frame of its own thread gets a
    `BoardError`. After an error the board has been reset and can be used again. A board belongs to
    the process that opened it: a forked child gets a `BoardError`, and its `close` changes nothing.
    """

    name = "board"

    def __init__(
        self,
        overlay: Any,
        *,
        kind: str,
        title: str,
        part: str,
        clock_mhz: float,
        timeout: float | None = None,
        frame_bytes: int = FRAME_BYTES,
        probe: Probe | None = None,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        super().__init__("board", "actdma.open_board", on_close)
        self.kind = kind
        self._overlay = overlay
        self._probe = probe
        self._links = {
            engine: self._link(name, clock_mhz, timeout) for engine, name in _DMAS.items()
        }
        allocate = functools.partial(overlay.device.allocate, dtype=np.uint8)
        self._staging = Staging(lambda n: allocate((n,)), frame_bound(frame_bytes) + HEADER_BYTES)
        try:
            identities = {engine: self._identify(engine) for engine in _DMAS}
        except BaseException:
            self._staging.close()
            raise
        self._codecs = functools.reduce(lambda a, b: a & b, (i.codecs for i in identities.values()))
        self._info = {
            "kind": kind,
            "device": overlay.device.name,
            "board": title,
            "part": part,
            "clock_mhz": clock_mhz,
            "lanes": identities[Engine.COMPRESSOR].lanes,
            "codecs": self._codec_names(),
            "length_bits": self._links[Engine.COMPRESSOR].length_bits,
            "versions": {e.name.lower(): i.version for e, i in identities.items()},
            "modelled": probe is not None,
        }

    def compress(
        self,
        data: np.ndarray,
        dtype: DType,
        codec: Codec | Coding,
        frame_bytes: int = FRAME_BYTES,
        into: np.ndarray | None = None,
    ) -> Frame:
        """See `actdma.backend.Backend.compress`. ValueError if a frame of ``frame_bytes`` might not
        fit the DMA's length register, `BoardError` if the board fails."""
        plan = list(descriptors(data.size, dtype, codec, frame_bytes))
        self._check_codec(plan[0].codec)
        limit = self._links[Engine.COMPRESSOR].max_bytes
        if plan[0].frame_bound > limit:
            what = f"frame_bytes is {frame_bytes}"
            if plan[0].raw_bytes > frame_bytes:
                what = f"a {codec.unit} has {plan[0].raw_bytes} bytes"
            raise ValueError(
                f"{what}; through this board's DMA (length register up to {limit} bytes) at most "
                f"{_largest_raw(limit, plan[0])} fit"
            )
        out = frame_memory(plan, into)
        offsets, cycles, start = [0], None, 0
        for descriptor in plan:
            stop = start + descriptor.raw_bytes
            frame, taken = self._compress_one(data[start:stop], descriptor, out[offsets[-1] :])
            offsets.append(offsets[-1] + frame)
            cycles = _add(cycles, taken)
            start = stop
        out = used_memory(out, offsets[-1], into)
        return Frame(out, tuple(offsets), data.size, dtype, Codec(plan[0].codec), cycles)

    def decompress(self, frame: Frame, out: np.ndarray) -> int | None:
        """See `actdma.backend.Backend.decompress`. `BoardError` if the board fails."""
        cycles = None
        for descriptor, packet, part in packets_into(frame, out):
            cycles = _add(cycles, self._decompress_one(descriptor, packet, part))
        return cycles

    def _release(self) -> None:
        try:
            if self._overlay.is_loaded():
                for link in self._links.values():
                    link.stop()
        finally:
            self._staging.close()

    def _compress_one(
        self, data: np.ndarray, descriptor: Descriptor, out: np.ndarray
    ) -> tuple[int, int | None]:
        """Write the frame of ``data`` to ``out``; its length and cycles. An empty one needs no
        fabric."""
        if not data.size:
            frame = reference.encode_frame(data, descriptor)
            out[: frame.size] = frame
            return frame.size, None
        size = padded(data.size)

        def fill(packet: np.ndarray) -> None:
            write_request(packet, descriptor, data)

        def take(packet: np.ndarray, answer: np.ndarray) -> int:
            check_frame(answer, packet)
            out[: answer.size] = answer
            return answer.size

        return self._exchange(
            Engine.COMPRESSOR, HEADER_BYTES + size, descriptor.frame_bound, fill, take
        )

    def _decompress_one(
        self, descriptor: Descriptor, frame: np.ndarray, out: np.ndarray
    ) -> int | None:
        """Write the data of one frame to ``out``; its cycles."""
        refuse_impossible(descriptor, frame)
        if not out.size:
            reference.decode_frame(frame)
            return None
        self._check_codec(descriptor.codec)

        def fill(packet: np.ndarray) -> None:
            packet[:] = frame

        def take(packet: np.ndarray, answer: np.ndarray) -> None:
            check_answer(answer, packet)
            out[:] = answer[: out.size]

        return self._exchange(Engine.DECOMPRESSOR, frame.size, answer_bytes(out.size), fill, take)[
            1
        ]

    def _identify(self, engine: Engine) -> Trailer:
        """Ask an engine what it is; `BoardError` unless it is the expected one."""

        def fill(packet: np.ndarray) -> None:
            packet[:] = np.frombuffer(Descriptor.identify().pack(), np.uint8)

        def take(_: np.ndarray, answer: np.ndarray) -> Trailer:
            return check_identity(answer, engine, _DMAS[engine])

        return self._exchange(engine, HEADER_BYTES, HEADER_BYTES, fill, take)[0]

    def _exchange(
        self, engine: Engine, send_bytes: int, receive_bytes: int, fill: Any, take: Any
    ) -> tuple[Any, int | None]:
        """One packet to an engine and its answer: what ``take`` makes of it, and the cycles.

        ``fill(packet)`` writes the packet, ``take(packet, answer)`` checks the answer and copies
        what is wanted: both see the live buffers, which the next call overwrites.
        """
        with self._turns.take():
            self._check_usable()
            return self._exchange_alone(engine, send_bytes, receive_bytes, fill, take)

    def _exchange_alone(
        self, engine: Engine, send_bytes: int, receive_bytes: int, fill: Any, take: Any
    ) -> tuple[Any, int | None]:
        link = self._links[engine]
        send = self._staging.view("send", send_bytes)
        receive = self._staging.view("receive", receive_bytes)
        packet, room = send.view(np.ndarray), receive.view(np.ndarray)
        try:
            fill(packet)
            received = link.exchange(send, receive)
            result = take(packet, room[:received])
        except FrameError:
            # The engine has read the packet to its end: it is ready for the next.
            raise
        except BaseException:
            link.reset()
            raise
        return result, self._probe.cycles(link.name) if self._probe else None

    def _link(self, name: str, clock_mhz: float, timeout: float | None) -> Link:
        try:
            ip = getattr(self._overlay, name)
        except AttributeError:
            raise BoardError(f"the overlay has no DMA called {name}: not one of ours?") from None
        width = int(ip.description["parameters"].get("c_m_axi_mm2s_data_width", 32)) // 8
        link = Link(
            name,
            ip,
            bytes_per_second=width * clock_mhz * 1e6,
            timeout=timeout,
            probe=self._probe,
        )
        link.reset()
        return link

    def _check_usable(self) -> None:
        super()._check_usable()
        if not self._overlay.is_loaded():
            raise BoardError(
                "another overlay was loaded onto the device since this board was opened; "
                "open it again"
            )


def _add(total: int | None, more: int | None) -> int | None:
    return total if more is None else (total or 0) + more


def _largest_raw(limit: int, descriptor: Descriptor) -> int:
    """The largest multiple of a block whose frame, coded like ``descriptor``'s, has at most
    ``limit`` bytes."""
    raw = min(limit, MAX_RAW_BYTES) // BLOCK_BYTES * BLOCK_BYTES
    while raw and dataclasses.replace(descriptor, raw_bytes=raw).frame_bound > limit:
        raw -= BLOCK_BYTES
    return raw
