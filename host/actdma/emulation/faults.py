"""Faults of a board or card, on demand: what goes wrong, where, and how often.

    emulation.inject(Fault.NO_TLAST, "axi_dma_compress", "s2mm", after=3)

makes the fourth answer of the compressor never end. Everything that can fail asks `Faults.strike`
whether it shall.
"""

from __future__ import annotations

import enum
import random
import threading
from collections import Counter
from collections.abc import Collection, Iterable
from types import TracebackType

CHANNELS = ("mm2s", "s2mm")
"""A DMA's channels: memory to stream, which feeds the engine, and stream to memory."""


class Fault(enum.Enum):
    """What an emulated board or card can do wrong.

    Those of a packet happen between DMA and engine: on channel "mm2s" to the packet on its way to
    the engine, on "s2mm" to the answer on its way back.
    """

    NO_TLAST = "no TLAST"
    """The packet does not end: what comes next is a part of it."""
    ZERO_KEEP = "zero TKEEP"
    """TKEEP is 0: on s2mm the bytes vanish, on mm2s those of the last beat do."""
    DROPPED = "dropped packet"
    """The packet never arrives."""
    REPEATED = "repeated packet"
    """The channel's packet before arrives instead."""
    MERGED = "merged packets"
    """The channel's packet before arrives once more, and this one in the same packet."""
    SPLIT = "split packet"
    """The packet arrives as two."""
    SHORT = "short packet"
    """The last 64 bytes are missing."""
    LONG = "long packet"
    """64 bytes too many arrive, zeros."""
    ENDLESS = "endless packet"
    """So many zeros follow the packet that no buffer holds them."""
    FLIPPED_DESCRIPTOR = "flipped bit in the first 64 bytes"
    """One bit of the packet's first 64 bytes is wrong: of the descriptor, where there is one."""
    FLIPPED_PAYLOAD = "flipped bit in the payload"
    """One bit between the first and the last 64 bytes is wrong; anywhere where nothing lies
    there."""
    FLIPPED_TRAILER = "flipped bit in the last 64 bytes"
    """One bit of the packet's last 64 bytes is wrong: of the trailer, where there is one."""
    STALLED = "stalled stream"
    """Nothing moves on the stream until a reset: the engine gets or delivers no data."""

    INTERNAL_ERROR = "internal error"
    """The channel reports DMAIntErr as a transfer starts."""
    SLAVE_ERROR = "slave error"
    """The channel reports DMASlvErr as a transfer starts: the memory refuses the access."""
    DECODE_ERROR = "decode error"
    """The channel reports DMADecErr as a transfer starts: nothing lies at the address."""
    HALTED = "sticky halt"
    """The channel halts without an error bit as a transfer starts, and stays so until a reset."""

    RESET_HANGS = "endless reset"
    """A reset of the DMA does not end; the next one does, unless this strikes again."""
    WRONG_VERSION = "wrong version"
    """The engine answers identify with the next version of the format."""
    WRONG_KIND = "wrong kind"
    """The engine answers identify as one of another kind."""

    SKIPPED_FLUSH = "skipped flush"
    """A flush writes no cache line back. Needs the cache model, ``install(cache=True)``."""
    SKIPPED_INVALIDATE = "skipped invalidate"
    """An invalidate drops no cache line. Needs the cache model, ``install(cache=True)``."""
    EXHAUSTED = "exhausted memory"
    """No contiguous memory is left for an allocation."""
    RELOADED = "reloaded overlay"
    """Someone else loads an overlay as a register is about to be written."""

    RUN_ERROR = "failed run"
    """The run of a card's compute unit does no work and ends in the state ERROR."""
    RUN_ABORTED = "aborted run"
    """The same with ABORT."""
    RUN_UNANSWERED = "run without response"
    """The same with NORESPONSE."""
    RUN_ENDLESS = "endless run"
    """The run does no work and does not end: who waits is told TIMEOUT."""
    RUN_STUCK = "stuck run"
    """The same, and who waits is told SUBMITTED."""


PACKET_FAULTS = frozenset(list(Fault)[: list(Fault).index(Fault.STALLED)])
IDENTITY_FAULTS = frozenset({Fault.WRONG_VERSION, Fault.WRONG_KIND})
HALTING_FAULTS = frozenset(
    {Fault.INTERNAL_ERROR, Fault.SLAVE_ERROR, Fault.DECODE_ERROR, Fault.HALTED}
)
CACHE_FAULTS = frozenset({Fault.SKIPPED_FLUSH, Fault.SKIPPED_INVALIDATE})
STREAM_FAULTS = PACKET_FAULTS | {Fault.STALLED} | HALTING_FAULTS
"""Those of one channel."""
DMA_FAULTS = STREAM_FAULTS | IDENTITY_FAULTS | {Fault.RESET_HANGS}
"""Those of one DMA; the others are the board's, or a card's."""
RUN_FAULTS = frozenset(list(Fault)[list(Fault).index(Fault.RUN_ERROR) :])
"""Those of one compute unit, all that a card has."""
BOARD_FAULTS = frozenset(Fault) - RUN_FAULTS
_UNIT_FAULTS = DMA_FAULTS | RUN_FAULTS


class Injection:
    """A fault that was injected. ``count``: how often it has happened. As a context manager it is
    removed at the end."""

    def __init__(
        self,
        faults: Faults,
        fault: Fault,
        unit: str | None,
        channel: str | None,
        after: int,
        times: int | None,
        probability: float,
        seed: int,
    ) -> None:
        self.fault = fault
        self.count = 0
        self.random = random.Random(seed)
        self._faults = faults
        self._unit = unit
        self._channel = channel
        self._after = after
        self._times = times
        self._probability = probability

    def remove(self) -> None:
        """The fault does not happen any more."""
        self._faults.remove(self)

    def concerns(self, unit: str | None, channel: str | None) -> bool:
        """Whether it is meant for this place."""
        return self._unit in (None, unit) and self._channel in (None, channel)

    def due(self) -> bool:
        """Whether it happens at this opportunity."""
        if self._after:
            self._after -= 1
            return False
        if self.count == self._times or self.random.random() >= self._probability:
            return False
        self.count += 1
        return True

    def __enter__(self) -> Injection:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()


class Faults:
    """All that were injected into a board or card where ``possible`` can happen, with DMAs or
    compute units called ``units``. ``counts``: how often each `Fault` has happened, of those
    removed too."""

    def __init__(
        self, possible: Collection[Fault] = BOARD_FAULTS, units: Iterable[str] = ()
    ) -> None:
        self.possible = possible
        self.counts: Counter[Fault] = Counter()
        self._units = tuple(units)
        self._injections: list[Injection] = []
        self._lock = threading.Lock()

    def inject(
        self,
        fault: Fault,
        unit: str | None = None,
        channel: str | None = None,
        *,
        after: int = 0,
        times: int | None = 1,
        probability: float = 1.0,
        seed: int = 0,
    ) -> Injection:
        """Let ``fault`` happen.

        ``unit``: the name of a DMA or compute unit, ``channel``: "mm2s" (to the engine) or "s2mm"
        (from it); None for all, and for faults that belong to none. An opportunity is a packet, a
        transfer, a reset, a call, a register write or a run, as the fault is: after ``after`` of
        them it happens at each with ``probability``, drawn with ``seed``, until it has happened
        ``times`` times (None: without end). Returns the `Injection`, which counts and, as a context
        manager, removes it. ValueError for a fault that cannot happen here, a place that it does
        not have, and numbers out of range.
        """
        if fault not in self.possible:
            names = ", ".join(f.name for f in Fault if f in self.possible)
            raise ValueError(f"{fault.name} cannot happen here; allowed are {names}")
        if unit is not None and (fault not in _UNIT_FAULTS or unit not in self._units):
            allowed = f"one of {', '.join(self._units)}" if fault in _UNIT_FAULTS else "None"
            raise ValueError(f"unit of {fault.name} is {unit!r}, allowed is {allowed}")
        if channel is not None and (fault not in STREAM_FAULTS or channel not in CHANNELS):
            allowed = f"one of {', '.join(CHANNELS)}" if fault in STREAM_FAULTS else "None"
            raise ValueError(f"channel of {fault.name} is {channel!r}, allowed is {allowed}")
        if after < 0 or (times is not None and times < 1) or not 0 < probability <= 1:
            raise ValueError(
                f"after is {after}, times {times}, probability {probability}; allowed are 0 and "
                "more, 1 and more or None, and above 0 up to 1"
            )
        injection = Injection(self, fault, unit, channel, after, times, probability, seed)
        with self._lock:
            self._injections.append(injection)
        return injection

    def remove(self, injection: Injection) -> None:
        """Forget ``injection``; nothing happens if it was removed before."""
        with self._lock:
            if injection in self._injections:
                self._injections.remove(injection)

    def awaited(self, faults: Collection[Fault], unit: str, channel: str) -> bool:
        """Whether any of ``faults`` was injected at this place."""
        with self._lock:
            return any(i.fault in faults and i.concerns(unit, channel) for i in self._injections)

    def strike(
        self, faults: Collection[Fault], unit: str | None = None, channel: str | None = None
    ) -> Injection | None:
        """An opportunity for ``faults`` at this place: the one that happens, if any. Where several
        are due, the one injected first."""
        with self._lock:
            here = (i for i in self._injections if i.fault in faults and i.concerns(unit, channel))
            injection = next((i for i in here if i.due()), None)
            if injection is not None:
                self.counts[injection.fault] += 1
            return injection
