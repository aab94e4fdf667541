"""What was measured: one record per packed storage span, and their totals."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import platform
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from ..backend import Backend
from ..trace import Slice, write_trace
from ..version import VERSION

JSON_FORMAT = 1


class Spell(NamedTuple):
    """Time that a thread spent on a tensor; ``way``: "compress", "decompress" or "make again".

    ``began``: when, in seconds of `time.perf_counter`. ``thread``: the system's number of it, and
    its name.
    """

    way: str
    began: float
    seconds: float
    thread: tuple[int, str]


@dataclasses.dataclass
class Record:
    """One packed span of a storage; sizes in bytes, times in wall-clock seconds.

    ``shape`` and ``dtype`` are those of the first tensor saved of it, by ``module`` (None: not
    known); ``operator`` made it (None: it has no autograd history); ``backend`` compressed it, or
    it is "kept" as it is, since it would hardly have shrunk. ``saves`` tensors share it.
    ``plain_bytes``: what PyTorch would hold, the whole storage, counted in the first record of a
    storage alone. ``form``: what is held of it, "values" where that is all, and ``why`` it is
    enough; ``raw_bytes``: of that, what goes through the codec, none where it is "made again".
    ``zero_fraction``: of its elements, of one kept by a sample. ``decompress_cycles`` are those of
    the latest decoding, None before it; cycles are None where no fabric was used.
    ``bit_identical`` is None where nobody compared. ``spells``: when it was worked on, in no file
    but the trace. ``rank``: the process it comes from, where several train (`gathered`).
    """

    index: int
    module: str | None
    operator: str | None
    shape: tuple[int, ...]
    dtype: str
    raw_bytes: int
    plain_bytes: int = 0
    form: str = "values"
    why: str = ""
    codec: str = ""
    backend: str = ""
    stored_bytes: int = 0
    zero_fraction: float = 0.0
    saves: int = 0
    compress_cycles: int | None = None
    decompress_cycles: int | None = None
    bit_identical: bool | None = None
    rank: int | None = None
    spells: list[Spell] = dataclasses.field(default_factory=list)

    def spent(self, way: str, began: float) -> None:
        """Note that this thread was at ``way`` from ``began`` (`time.perf_counter`) until now."""
        seconds = time.perf_counter() - began
        thread = threading.get_native_id(), threading.current_thread().name
        self.spells.append(Spell(way, began, seconds, thread))

    @property
    def compress_s(self) -> float:
        """Seconds of compressing; 0 where nothing was."""
        return self._latest("compress") or 0.0

    @property
    def decompress_s(self) -> float | None:
        """Seconds of the latest decoding; None before it."""
        return self._latest("decompress")

    @property
    def decompressions(self) -> int:
        """How often it was decoded, or made again."""
        return sum(spell.way != "compress" for spell in self.spells)

    @property
    def ratio(self) -> float | None:
        """Raw bytes per stored byte of what went through the codec; None if nothing did."""
        return self.raw_bytes / self.stored_bytes if self.stored_bytes else None

    def to_dict(self) -> dict[str, Any]:
        """The record as in the JSON."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        del fields["spells"]
        of_spells = ("decompressions", "compress_s", "decompress_s")
        fields |= {name: getattr(self, name) for name in of_spells}
        return {**fields, "shape": list(self.shape), "ratio": self.ratio}

    def slices(self, start: float) -> list[Slice]:
        """What was done with it, for a trace that starts at ``start`` (`time.perf_counter`)."""
        details = {
            "module": self.module,
            "operator": self.operator,
            "shape": list(self.shape),
            "dtype": self.dtype,
            "form": self.form,
            "codec": self.codec,
            "raw bytes": self.raw_bytes,
            "stored bytes": self.stored_bytes,
            "ratio": self.ratio,
        }
        name = self.module or self.operator or f"tensor {self.index}"
        return [
            Slice(f"{way} {name}", way, thread, began - start, seconds, details)
            for way, began, seconds, thread in self.spells
        ]

    def _latest(self, way: str) -> float | None:
        return next((spell.seconds for spell in reversed(self.spells) if spell.way == way), None)


class ScalarWriter(Protocol):
    """As `torch.utils.tensorboard.SummaryWriter`, or what Lightning's logger has as
    ``experiment``."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        """Take a value of a step."""
        ...


class NoGain(NamedTuple):
    """A lossy rule that gained nothing at a module, and why."""

    module: str | None
    rule: str
    why: str


@dataclasses.dataclass
class Report:
    """Records of a session, the machine they come from, and what else became of saved tensors.

    ``kept``: how many saved tensors were not packed, by reason. ``gradients_identical``: whether
    all gradients equal those of the plain run; None if nobody compared. ``faults``: what a board
    failed at and the CPU's codec did. ``held_bytes_peak``: the most bytes that were held for
    backward at a time: packed, decoded, or kept as they are, parameters left out; bytes in the
    queue come on top. ``no_gain``: lossy rules that were of no use. ``pack_s``, ``unpack_s``:
    wall-clock seconds that forward and backward spent in here. ``extra_totals``: what `totals` has
    besides. Printing it gives a table.
    """

    records: list[Record]
    environment: dict[str, Any]
    kept: dict[str, int]
    gradients_identical: bool | None = None
    faults: int = 0
    held_bytes_peak: int = 0
    pack_s: float = 0.0
    unpack_s: float = 0.0
    no_gain: list[NoGain] = dataclasses.field(default_factory=list)
    extra_totals: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def modelled(self) -> bool:
        """Whether there are cycles, and they are those of a model and not of silicon."""
        return self.has_cycles and bool(self.environment["board"].get("modelled"))

    @property
    def has_cycles(self) -> bool:
        """Whether a fabric has counted its cycles."""
        return any(r.compress_cycles is not None for r in self.records)

    @property
    def stall_s(self) -> float:
        """Seconds that forward and backward spent in packing and unpacking."""
        return self.pack_s + self.unpack_s

    def totals(self) -> dict[str, Any]:
        """Sums over all records; times and cycles are None where no record has them."""
        raw = sum(r.raw_bytes for r in self.records)
        stored = sum(r.stored_bytes for r in self.records)
        zeros = sum(r.zero_fraction * r.raw_bytes for r in self.records)
        return {
            "tensors": len(self.records),
            "saves": sum(r.saves for r in self.records),
            "kept": self.kept,
            "plain_bytes": sum(r.plain_bytes for r in self.records),
            "raw_bytes": raw,
            "stored_bytes": stored,
            "ratio": raw / stored if stored else None,
            "zero_fraction": zeros / raw if raw else None,
            "bit_identical": self.bit_identical(),
            "gradients_identical": self.gradients_identical,
            "faults": self.faults,
            "no_gain": [reason._asdict() for reason in self.no_gain],
            "held_bytes_peak": self.held_bytes_peak,
            "pack_s": self.pack_s,
            "unpack_s": self.unpack_s,
            "timing": "modelled" if self.modelled else "measured",
            **{name: self._sum(name) for name in _TIMES},
            "fabric_compress_gb_per_s": self.fabric_rate("compress"),
            "fabric_decompress_gb_per_s": self.fabric_rate("decompress"),
            **self.extra_totals,
        }

    def fabric_rate(self, way: str) -> float | None:
        """GB/s (1e9 raw bytes per second) of the fabric alone, from its cycles.

        ``way``: "compress" or "decompress". None where no fabric was used.
        """
        return fabric_rate(self.records, way, self.environment["board"])

    def bit_identical(self) -> bool | None:
        """Whether all that came back and was compared is as it was; None if nothing was."""
        answers = {r.bit_identical for r in self.records} - {None}
        return all(answers) if answers else None

    def to_dict(self) -> dict[str, Any]:
        """What `to_json` writes."""
        return {
            "format": JSON_FORMAT,
            "environment": self.environment,
            "totals": self.totals(),
            "records": [r.to_dict() for r in self.records],
        }

    def to_json(self, path: str | os.PathLike) -> None:
        """Write the report to ``path``."""
        Path(path).write_text(json.dumps(self.to_dict(), indent=1) + "\n")

    def to_chrome_trace(self, path: str | os.PathLike) -> None:
        """Write when each tensor was compressed, decompressed and made again, and by which thread,
        to ``path``, for Perfetto; measured, from the first of these on. Ranks are a process each,
        with a clock of its own: those of several machines have none in common."""
        timelines = {}
        for rank in dict.fromkeys(record.rank for record in self.records):
            records = [record for record in self.records if record.rank == rank]
            start = min((s.began for r in records for s in r.spells), default=0.0)
            title = "actdma" if rank is None else f"rank {rank}"
            timelines[title] = [each for record in records for each in record.slices(start)]
        write_trace(timelines or {"actdma": []}, "measured", path)

    def scalars(self, prefix: str = "actdma") -> dict[str, float]:
        """What a training step's log has of it, under ``prefix/``.

        "ratio": raw bytes per stored byte, left out where nothing went through a codec;
        "held_bytes": the peak; "stall_s": seconds that forward and backward were held up.
        """
        scalars = {
            "ratio": self.totals()["ratio"],
            "held_bytes": self.held_bytes_peak,
            "stall_s": self.stall_s,
        }
        return {f"{prefix}/{name}": v for name, v in scalars.items() if v is not None}

    def log(self, writer: ScalarWriter, step: int, prefix: str = "actdma") -> None:
        """Give ``writer`` the `scalars` of a training step."""
        for tag, value in self.scalars(prefix).items():
            writer.add_scalar(tag, value, step)

    def __str__(self) -> str:
        from .text import plain  # which reads reports

        return plain(self)

    def _sum(self, name: str) -> float | int | None:
        values = [getattr(r, name) for r in self.records]
        return (
            sum(v for v in values if v is not None) if any(v is not None for v in values) else None
        )


_TIMES = ("compress_s", "decompress_s", "compress_cycles", "decompress_cycles")


def fabric_rate(records: list[Record], what: str, board: dict[str, Any] | None) -> float | None:
    """`Report.fabric_rate` of some records; ``board``: its ``info()``, with the fabric's clock."""
    timed = [(r.raw_bytes, getattr(r, f"{what}_cycles")) for r in records]
    timed = [(size, cycles) for size, cycles in timed if cycles]
    if not timed or not board or not board.get("clock_mhz"):
        return None
    seconds = sum(cycles for _, cycles in timed) / (board["clock_mhz"] * 1e6)
    return sum(size for size, _ in timed) / seconds / 1e9


def environment(backend: Backend) -> dict[str, Any]:
    """Versions, processor, and the backend with what its ``info()``, if it has one, tells."""
    ask = getattr(backend, "info", None)
    info = ask() if callable(ask) else None
    return {
        "actdma": VERSION,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "platform": platform.platform(),
        "cpu": _processor(),
        "threads": torch.get_num_threads(),
        "backend": backend.name,
        "board": dict(info) if info else None,
    }


@functools.cache
def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
