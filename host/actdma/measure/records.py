"""Records as CSV: the same fields as in the JSON, one line per record."""

from __future__ import annotations

import csv
import os
from pathlib import Path

from ..offloading import Report


def write_csv(report: Report, path: str | os.PathLike) -> None:
    """Write the report's records to ``path``; shapes as ``8x3x224x224``, None as nothing."""
    rows = [{**r.to_dict(), "shape": "x".join(map(str, r.shape))} for r in report.records]
    with Path(path).open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]) if rows else [])
        writer.writeheader()
        writer.writerows(rows)
