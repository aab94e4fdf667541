"""What becomes of each saved tensor, and why, in words."""

from __future__ import annotations

import dataclasses

from .records import Record, Report
from .text import aligned, kept

_COLUMNS = ("saved by", "made by", "shape", "dtype", "plain MB", "held MB", "held", "why")
_ALIGN = "<<<<>><<"


@dataclasses.dataclass
class Plan:
    """What PyTorch would hold of each saved tensor, what is held of it, and why.

    ``report``: with the records; ``first``: the first of them that counts. A storage that is held
    in two forms has its plain bytes in one of their rows. Printing it gives a table.
    """

    report: Report
    first: int = 0

    @property
    def records(self) -> list[Record]:
        """Those it is about."""
        return self.report.records[self.first :]

    def __str__(self) -> str:
        rows = [_cells(record) for record in self.records]
        plain = sum(record.plain_bytes for record in self.records)
        held = sum(record.stored_bytes for record in self.records)
        rows.append(["in all", "", "", "", _megabytes(plain), _megabytes(held), "", ""])
        lines = [*aligned([list(_COLUMNS), *rows], _ALIGN), f"not counted: {kept(self.report)}"]
        for module, rule, why in self.report.no_gain:
            lines.append(f"no gain from {rule} at {module}: {why}")
        return "\n".join(lines)


def _cells(record: Record) -> list[str]:
    through = f" through {record.codec}" if record.stored_bytes else ""
    return [
        record.module or "",
        record.operator or "",
        "x".join(map(str, record.shape)),
        record.dtype,
        _megabytes(record.plain_bytes),
        _megabytes(record.stored_bytes),
        f"{record.form}{through}",
        record.why,
    ]


def _megabytes(nbytes: int) -> str:
    return f"{nbytes / 1e6:.3f}"
