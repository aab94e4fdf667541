"""What a stream of frames takes on a board, driver included: modelled, not measured.

The emulated board has the fabric's clock cycles; what the processor does beside it follows from
costs per byte and per access. The costs and where they come from are in docs/performance.md.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from .link import ACCESSES

# Of the port's width times its clock: PG021 7.1, table "AXI DMA Throughput".
_MM2S_EFFICIENCY, _S2MM_EFFICIENCY = 0.9976, 0.7464


@dataclasses.dataclass(frozen=True)
class Processor:
    """Costs of a board's processor: bytes per second of one core, and seconds.

    ``copy``: memory to memory; ``checksum``: CRC-32C; ``maintenance``: cache lines written back or
    dropped; ``access``: one device register through pynq; ``call``: one stage of a frame, whatever
    its size; ``codec``: the CPU's own codec, both ways.
    """

    copy: float
    checksum: float
    maintenance: float
    access: float
    call: float
    codec: float


CORTEX_A53 = Processor(
    copy=1.5e9, checksum=2.5e9, maintenance=3.2e9, access=10e-6, call=50e-6, codec=0.3e9
)


class Stages(NamedTuple):
    """Seconds of a frame's three stages, or of many frames'.

    ``copy_in``: copying to the staging buffer, cache maintenance before; ``transfer``: register
    accesses, DMA and fabric; ``copy_out``: cache maintenance after, checks, copying the result.
    """

    copy_in: float = 0.0
    transfer: float = 0.0
    copy_out: float = 0.0

    def __add__(self, other: Stages) -> Stages:  # type: ignore[override]
        return Stages(*(a + b for a, b in zip(self, other, strict=True)))


class FrameCost(NamedTuple):
    """What the time of one frame through an engine follows from.

    ``packet``, ``answer``: bytes sent and received; ``room``: bytes of the receive buffer;
    ``checked``: bytes whose CRC the driver computes; ``fabric``: seconds in the engine.
    """

    packet: int
    room: int
    answer: int
    checked: int
    fabric: float


class StreamTime(NamedTuple):
    """Modelled seconds of a stream of frames, driver included, and what its stages add up to."""

    seconds: float
    stages: Stages


class StreamModel:
    """The time of frames that follow one another through the three stages.

    ``port``: bytes per second of the DMA's memory port. `step` is called for what the driver
    overlaps, so the time is that of the order in which the driver did its work: a step ends when
    the last of its stages does.
    """

    def __init__(self, port: float, processor: Processor = CORTEX_A53) -> None:
        self._port = port
        self._processor = processor
        self._seconds = 0.0
        self._stages = Stages()

    @property
    def time(self) -> StreamTime:
        """Of all steps until now."""
        return StreamTime(self._seconds, self._stages)

    def step(
        self,
        copied_in: FrameCost | None = None,
        transferred: FrameCost | None = None,
        copied_out: FrameCost | None = None,
    ) -> None:
        """One step: one frame is copied in, another transferred, a third one copied out, all
        at the same time; None: no frame is in that stage."""
        stages = Stages(
            0.0 if copied_in is None else self._copy_in(copied_in),
            0.0 if transferred is None else self._transfer(transferred),
            0.0 if copied_out is None else self._copy_out(copied_out),
        )
        self._stages += stages
        self._seconds += max(stages)

    def _copy_in(self, frame: FrameCost) -> float:
        cpu = self._processor
        return cpu.call + frame.packet / cpu.copy + (frame.packet + frame.room) / cpu.maintenance

    def _transfer(self, frame: FrameCost) -> float:
        moving = max(
            frame.fabric,
            frame.packet / (_MM2S_EFFICIENCY * self._port),
            frame.answer / (_S2MM_EFFICIENCY * self._port),
        )
        cpu = self._processor
        return cpu.call + ACCESSES * cpu.access + moving

    def _copy_out(self, frame: FrameCost) -> float:
        cpu = self._processor
        return (
            cpu.call
            + frame.answer / cpu.maintenance
            + frame.checked / cpu.checksum
            + frame.answer / cpu.copy
        )
