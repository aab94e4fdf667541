"""Reads the tools' reports: what fails a build, and the figures that are kept of it.

A report without the figure that a gate wants is an error, too: a gate that sees nothing must not
open.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from . import BuildError

# Checks of Vivado's check_timing that mean registers or paths without a constraint.
_UNCONSTRAINED = ("no_clock", "unconstrained_internal_endpoints", "loops", "latch_loops")
_SLACKS = ("WNS", "TNS", "WHS", "THS", "WPWS", "TPWS")
# Names of the rows, of UltraScale+ and of 7 series.
_RESOURCES = {
    "lut": ("CLB LUTs", "Slice LUTs"),
    "register": ("CLB Registers", "Slice Registers"),
    "bram": ("Block RAM Tile",),
    "uram": ("URAM",),
    "dsp": ("DSPs",),
}


def loops(folder: Path) -> dict[str, int]:
    """Initiation interval of every pipelined loop in HLS's reports below ``folder``, by
    "module/loop"."""
    found: dict[str, int] = {}
    for file in sorted(folder.rglob("syn/report/*csynth.xml")):
        try:
            root = ET.parse(file).getroot()
        except ET.ParseError as error:
            raise BuildError(f"{file} is no XML report of HLS: {error}") from error
        module = file.stem.removesuffix("csynth").rstrip("_")
        for element in root.iter():
            interval = (element.findtext("PipelineII") or "").strip()
            if not interval:
                continue
            loop = f"{module}/{element.findtext('Name') or element.get('name') or element.tag}"
            try:
                # A module may be reported on its own and in the top's report: the worst counts.
                found[loop] = max(found.get(loop, 0), int(interval))
            except ValueError:
                raise BuildError(
                    f"loop {loop} has an initiation interval of {interval!r} ({file})"
                ) from None
    if not found:
        raise BuildError(f"no pipelined loop in the reports of HLS below {folder} (syn/report)")
    return found


def check_loops(top: str, intervals: dict[str, int]) -> None:
    """`BuildError` that names every loop of ``top`` which does not start an item in every cycle."""
    slow = [f"{loop} has II={interval}" for loop, interval in intervals.items() if interval != 1]
    if slow:
        raise BuildError(f"{top}: {'; '.join(slow)}; every pipelined loop must have II=1")


def timing(report: str) -> dict[str, float]:
    """Slacks in ns of a routed design, from ``report_timing_summary``."""
    match = re.search(r"^\s*WNS\(ns\).*\n[\s-]*\n\s*(\S.*)$", report, re.MULTILINE)
    numbers = match[1].split() if match else []
    try:
        # Per slack: worst, total, failing endpoints, endpoints.
        values = [float(numbers[i]) for i in (0, 1, 4, 5, 8, 9)]
    except (IndexError, ValueError):
        raise BuildError("the timing report has no Design Timing Summary with figures") from None
    return dict(zip(_SLACKS, values, strict=True))


def check_timing(report: str) -> dict[str, float]:
    """The slacks; `BuildError` if one is negative or something is not constrained."""
    slacks = timing(report)
    failed = [f"{name} is {value} ns" for name, value in slacks.items() if value < 0]
    for check in _UNCONSTRAINED:
        match = re.search(rf"checking {check} \((\d+)\)", report)
        if match is None:
            raise BuildError(f"the timing report has no check {check}")
        if int(match[1]):
            failed.append(f"check {check} finds {match[1]}")
    if failed:
        raise BuildError(f"timing is not met: {'; '.join(failed)}")
    return slacks


def check_routes(report: str) -> None:
    """`BuildError` unless every net that can be routed is."""
    counts = {}
    for name in ("routable nets", "fully routed nets", "nets with routing errors"):
        match = re.search(rf"# of {name}\.*\s*:\s*(\d+)", report)
        if match is None:
            raise BuildError(f"the route report has no number of {name}")
        counts[name] = int(match[1])
    routable, routed, errors = counts.values()
    if errors or routed != routable or not routable:
        raise BuildError(
            f"routing failed: {routed} of {routable} nets are routed, {errors} with errors"
        )


def utilization(report: str) -> dict[str, dict[str, float]]:
    """Used and available of each resource; those the part does not have are left out."""
    result = {}
    for resource, names in _RESOURCES.items():
        for name in names:
            match = re.search(rf"^\|\s*{name}\*?\s*\|([^\n]*)\|", report, re.MULTILINE)
            if match:
                cells = [cell.strip() for cell in match[1].split("|")]
                result[resource] = {"used": float(cells[0]), "available": float(cells[-2])}
    if not {"lut", "register"} <= set(result):
        raise BuildError("the utilization report has no figures of LUTs and registers")
    return result


def facts(text: str) -> dict[str, Any]:
    """What build.tcl wrote down: version, board part (None where Vivado had none), clock."""
    lines = dict(line.partition(" ")[::2] for line in text.splitlines() if line)
    try:
        return {
            "vivado": lines["vivado"],
            "board_part": lines["board_part"] or None,
            "clock_mhz": round(1000 / float(lines["clock_period_ns"]), 3),
        }
    except (KeyError, ValueError, ZeroDivisionError) as error:
        raise BuildError(f"facts.txt is incomplete: {error!r}") from None
