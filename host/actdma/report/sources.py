"""The files of a folder of results: which of them are known, and what is in them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ..trace import KINDS
from .shapes import Maybe, ShapeError, shaped

BY_COLUMN = "by column"
FORMAT = 1  # of reports and studies, as the rest of actdma writes them

_STUDY = {
    "study": {"name": str, "title": str, "kind": str},
    "caption": str,
    "command": str,
    "columns": [str],
    "rows": [[str]],
}
_RECORD = {
    "rank": Maybe(float),
    "index": float,
    "module": Maybe(str),
    "operator": Maybe(str),
    "shape": [float],
    "dtype": str,
    "form": str,
    "codec": str,
    "raw_bytes": float,
    "stored_bytes": float,
    "ratio": Maybe(float),
    "zero_fraction": float,
    "compress_s": float,
    "decompress_s": Maybe(float),
    "compress_cycles": Maybe(float),
    "decompress_cycles": Maybe(float),
}
_MEASURE = {
    "environment": {
        "backend": str,
        "cpu": str,
        "board": Maybe({"clock_mhz": Maybe(float)}),
        "options": Maybe({"model": str, "batch": float, "dtype": str}),
    },
    "totals": {
        "tensors": float,
        "plain_bytes": float,
        "raw_bytes": float,
        "stored_bytes": float,
        "ratio": Maybe(float),
        "zero_fraction": Maybe(float),
        "held_bytes_peak": float,
        "timing": str,
        "gradients_identical": Maybe(bool),
    },
    "records": [_RECORD],
}
_SIMULATE = {
    "title": str,
    "rows": [
        {
            "name": str,
            "step_s": float,
            "stall_s": float,
            "held_bytes": float,
            "moved_bytes": float,
            "of_oracle_speed": float,
            "gain_over_vdnn": float,
        }
    ],
    "inputs": [(str, str)],
}
_TRACE = {
    "otherData": {"actdma": str},
    "traceEvents": [
        {
            "ph": str,
            "name": str,
            "cat": Maybe(str),
            "pid": float,
            "tid": float,
            "ts": Maybe(float),
            "dur": Maybe(float),
        }
    ],
}


class ReportError(Exception):
    """There can be no report; the message is one sentence."""


class Notice(NamedTuple):
    """A file that is not shown, or not all of it, and why."""

    file: str
    why: str


@dataclasses.dataclass(frozen=True)
class Source:
    """A file that is known.

    ``what``: "measure", "simulate" or "trace", after what wrote it, or "study NAME". ``data``: what
    is needed of it. ``figures``: of a study, not looked into yet.
    """

    file: str
    what: str
    data: dict[str, Any]
    figures: Any = None


def read_folder(folder: Path) -> tuple[list[Source], list[Notice]]:
    """What the JSON files in ``folder`` hold, in the order of their names.

    ReportError if there is no such folder, or no JSON file in it.
    """
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix == ".json")
    except OSError as error:
        hint = f"; pass the folder with the files, {folder.parent}" if folder.is_file() else ""
        raise ReportError(f"cannot read the folder {folder}: {error.strerror}{hint}") from error
    if not files:
        raise ReportError(f"no .json file in {folder}")
    sources, notices = [], []
    for path in files:
        try:
            sources.append(read(path))
        except ReportError as error:
            notices.append(Notice(_clean(path.name), str(error)))
    return sources, notices


def read(path: Path) -> Source:
    """What a file holds; ReportError if it is not one of those that are known."""
    try:
        data = _clean(json.loads(path.read_text("utf-8")))
    except OSError as error:
        raise ReportError(f"it cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ReportError(f"it is no JSON: {error}") from error
    keys = data.keys() if isinstance(data, dict) else set()
    if "format" in keys and data["format"] != FORMAT:
        found = repr(data["format"])[:40]
        raise ReportError(f"its format is {found}; this version of actdma reads {FORMAT}")
    for wanted, take in _KNOWN:
        if wanted <= keys:
            try:
                return take(_clean(path.name), data)
            except ShapeError as error:
                raise ReportError(f"it is not as this version writes it: {error}") from error
    raise ReportError("it is JSON of something that this page does not show")


def _study(file: str, data: dict[str, Any]) -> Source:
    found = shaped(data, _STUDY)
    kinds = (*KINDS, BY_COLUMN)
    if found["study"]["kind"] not in kinds:
        kind = found["study"]["kind"]
        raise ShapeError(f"it.study.kind is {kind!r}; known are {', '.join(kinds)}")
    widths = {len(row) for row in found["rows"]} - {len(found["columns"])}
    if widths:
        raise ShapeError(f"a row has {widths.pop()} cells for {len(found['columns'])} columns")
    return Source(file, f"study {found['study']['name']}", found, data.get("figures"))


def _measure(file: str, data: dict[str, Any]) -> Source:
    found = shaped(data, _MEASURE)
    if found["totals"]["tensors"] != len(found["records"]):
        counts = f"{found['totals']['tensors']:g}, and it.records has {len(found['records'])}"
        raise ShapeError(f"it.totals.tensors is {counts}")
    _known_kind(found["totals"]["timing"], "it.totals.timing")
    return Source(file, "measure", found)


def _simulate(file: str, data: dict[str, Any]) -> Source:
    return Source(file, "simulate", shaped(data, _SIMULATE))


def _trace(file: str, data: dict[str, Any]) -> Source:
    found = shaped(data, _TRACE)
    _known_kind(found["otherData"]["actdma"], "it.otherData.actdma")
    titles = [e for e in data["traceEvents"] if e["ph"] == "M"]
    names = shaped(titles, [{"name": str, "pid": float, "tid": float, "args": {"name": str}}])
    return Source(file, "trace", {**found, "names": names})


def _known_kind(kind: str, where: str) -> None:
    if kind not in KINDS:
        raise ShapeError(f"{where} is {kind!r}; known are {', '.join(KINDS)}")


_KNOWN: tuple[tuple[set[str], Callable[[str, dict[str, Any]], Source]], ...] = (
    ({"study"}, _study),
    ({"records"}, _measure),
    ({"totals"}, _measure),
    ({"rows are"}, _simulate),
    ({"traceEvents"}, _trace),
)


def _clean(value: Any) -> Any:
    """The same without halves of surrogate pairs, which no file can hold."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [_clean(part) for part in value]
    if isinstance(value, dict):
        return {_clean(key): _clean(part) for key, part in value.items()}
    return value
