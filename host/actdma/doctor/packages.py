"""What is installed, held to what actdma's own metadata asks for."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from collections.abc import Iterator

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from ..version import VERSION
from .finding import Finding, State

_NAME = "actdma"
# In the order in which a user meets them.
_EXTRAS = (
    "torch",
    "lightning",
    "transformers",
    "emulation",
    "board",
    "demo",
    "report",
    "notebooks",
)


def findings() -> Iterator[Finding]:
    """Python, what every use needs, and each of the extras that add something for a user."""
    try:
        metadata = importlib.metadata.metadata(_NAME)
    except importlib.metadata.PackageNotFoundError:
        yield Finding(
            "actdma",
            State.ABSENT,
            f"{VERSION} is on the path without being installed: what it needs is not known",
            "pip install . in the folder of the clone",
        )
        return
    yield _versions(metadata["Version"])
    yield _python(SpecifierSet(metadata["Requires-Python"]))
    yield _requirements("")
    for extra in _EXTRAS:
        yield _requirements(extra)


def _versions(installed: str) -> Finding:
    if installed == VERSION:
        return Finding("actdma", State.GOOD, VERSION)
    return Finding(
        "actdma",
        State.WRONG,
        f"{VERSION} runs, {installed} is installed",
        "install it again (pip install .), or start Python in another folder",
    )


def _python(allowed: SpecifierSet) -> Finding:
    version = platform.python_version()
    found = f"{version} on {platform.system()} {platform.machine()} ({sys.executable})"
    if version.rstrip("+") in allowed:
        return Finding("Python", State.GOOD, found)
    return Finding("Python", State.WRONG, found, f"use one of {allowed}: those are tested")


def _requirements(extra: str) -> Finding:
    subject = f"extra {extra}" if extra else "requirements"
    needed = list(_needed(extra))
    faults = [(fault, absent) for fault, absent in map(_fault, needed) if fault]
    if not faults:
        found = ", ".join(
            sorted({f"{r.name} {importlib.metadata.version(r.name)}" for r in needed})
        )
        return Finding(subject, State.GOOD, found)
    optional = extra and all(absent for _, absent in faults)
    state = State.ABSENT if optional else State.WRONG
    what = f"{_NAME}[{extra}]" if extra else _NAME
    return Finding(subject, state, "; ".join(fault for fault, _ in faults), f"pip install '{what}'")


def _needed(extra: str) -> Iterator[Requirement]:
    """What ``extra`` adds to the requirements; those themselves if it is empty."""
    for line in importlib.metadata.requires(_NAME) or ():
        requirement = Requirement(line)
        marker = requirement.marker
        if marker and not marker.evaluate({"extra": extra}):
            continue
        if extra and not (marker and "extra" in str(marker)):
            continue
        if requirement.name == _NAME:
            for other in sorted(requirement.extras):
                yield from _needed(other)
        else:
            yield requirement


def _fault(requirement: Requirement) -> tuple[str, bool]:
    """What is wrong with a package, empty if nothing is, and whether it is absent."""
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return f"{requirement.name} is missing", True
    if requirement.specifier.contains(version, prereleases=True):
        return "", False
    return f"{requirement.name} is {version}, needed is {requirement.specifier}", False
