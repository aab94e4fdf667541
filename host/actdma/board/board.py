"""A board as a backend: frames through its DMAs and engines, one pipeline for each."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..backend import descriptors
from ..frame import FRAME_BYTES, HEADER_BYTES, Codec, DType, Engine, Trailer, frame_bound
from .break_even import measured_break_even, modelled_break_even
from .device import Device, largest_raw
from .errors import BoardError
from .jobs import Job, identify_job
from .link import Link
from .pipeline import Passage, Pipeline
from .probe import Probe
from .staging import Staging
from .timing import FrameCost, StreamModel, StreamTime

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
    the DMA's length register, engine versions, break-even, whether time is modelled, and how often
    a frame failed (``faults``) and was transferred once more (``retries``).

    A frame that fails is transferred once more after a reset; if that fails, too, the `BoardError`
    is raised, and the board can be used again all the same.

    Thread-safe: both engines work at once, and the frames of several tensors alternate. Not
    re-entrant: a signal handler or finaliser that comes in the middle of a frame of its own thread
    gets a `BoardError`. A board belongs to the process that opened it: a forked child gets a
    `BoardError`, and its `close` changes nothing.

    ``break_even_bytes``: tensors smaller than this are faster through the processor's own codec;
    measured when a board is opened, modelled for the emulated one, at most ``frame_bytes``.
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
        self._clock_hz = 1e6 * clock_mhz
        self._links = {
            engine: self._link(name, clock_mhz, timeout) for engine, name in _DMAS.items()
        }
        self._max_packet = self._links[Engine.COMPRESSOR].max_bytes
        allocate = functools.partial(overlay.device.allocate, dtype=np.uint8)
        self._staging = Staging(lambda n: allocate((n,)), frame_bound(frame_bytes) + HEADER_BYTES)
        self._pipelines = {engine: self._pipeline(link) for engine, link in self._links.items()}
        self._last = threading.local()
        try:
            identities = {engine: self._identify(engine) for engine in _DMAS}
            self._codecs = functools.reduce(
                lambda a, b: a & b, (i.codecs for i in identities.values())
            )
            self.break_even_bytes = self._break_even(frame_bytes)
        except BaseException:
            self._free()
            raise
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
            "break_even_bytes": self.break_even_bytes,
            "modelled": probe is not None,
        }

    def info(self) -> dict[str, Any]:
        """What the board is and what went wrong with it; see its class."""
        pipelines = self._pipelines.values()
        return {
            **super().info(),
            "faults": sum(p.faults for p in pipelines),
            "retries": sum(p.retries for p in pipelines),
        }

    @property
    def modelled_time(self) -> StreamTime | None:
        """Seconds, driver included, that the last tensor of this thread would take on a board like
        the emulated one; None where time is not modelled. Frames transferred once more count
        once."""
        return getattr(self._last, "time", None)

    def _work(self, engine: Engine, jobs: Iterator[Job]) -> int | None:
        self._last.time = None
        model = StreamModel(self._links[engine].bytes_per_second)
        cycles: list[int | None] = []

        def cost(passage: Passage) -> FrameCost:
            packet, answer = passage.send.nbytes, passage.received
            return FrameCost(
                packet=packet,
                room=passage.receive.nbytes,
                answer=answer,
                checked=answer + (packet if engine == Engine.COMPRESSOR else 0),
                fabric=(passage.cycles or 0) / self._clock_hz,
            )

        def watch(*stages: Passage | None) -> None:
            model.step(*(passage and cost(passage) for passage in stages))
            if (flown := stages[1]) is not None:
                cycles.append(flown.cycles)

        with self._entrance.enter():
            self._check_usable()
            self._pipelines[engine].run(jobs, watch)
        if not cycles or None in cycles:
            return None
        self._last.time = model.time
        return sum(cycles)

    def _release(self) -> None:
        try:
            self._free()
        finally:
            if self._overlay.is_loaded():
                for link in self._links.values():
                    link.stop()

    def _free(self) -> None:
        """Wait for streams under way; free the buffers and end the threads."""
        self._staging.close()
        for pipeline in self._pipelines.values():
            pipeline.close()

    def _identify(self, engine: Engine) -> Trailer:
        """Ask an engine what it is; `BoardError` unless it is the expected one."""
        answers: list[Trailer] = []
        self._work(engine, iter([identify_job(engine, _DMAS[engine], answers.append)]))
        return answers[-1]

    def _break_even(self, frame_bytes: int) -> int:
        """`break_even_bytes`; takes a few milliseconds on a real board."""
        if self._probe is not None:
            port = min(link.bytes_per_second for link in self._links.values())
            return modelled_break_even(port, frame_bytes)
        from ..native import NativeBackend

        plan = next(descriptors(frame_bytes, DType.float32, Codec.ZVC, frame_bytes))
        fits = largest_raw(min(self._max_packet, self._staging.nbytes), plan)
        return measured_break_even(self, NativeBackend(), min(frame_bytes, fits), frame_bytes)

    def _pipeline(self, link: Link) -> Pipeline:
        probe = self._probe
        cycles = (lambda: probe.cycles(link.name)) if probe is not None else (lambda: None)
        return Pipeline(link, self._staging, cycles, self._check_usable)

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
