"""Whether the kernels keep to what a high-level synthesis tool can turn into hardware.

`python hls/check/synthesisable.py` parses the headers of hls/include/actdma and the sources of
hls/src, at every stream width, with the vendor's headers and __SYNTHESIS__ set, and walks from each
top through all that it calls, templates instantiated. Pragmas are read from the text, since clang
does not keep them, and belong to the innermost loop or function they stand in. Nothing is
synthesised: this finds what a tool is known to reject, or to accept and build otherwise than meant.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from clang.cindex import Cursor, CursorKind, TranslationUnit
from clangtree import (
    FUNCTIONS,
    HLS,
    VARIABLES,
    encloses,
    is_constexpr,
    is_top,
    loops,
    parse,
    path_of,
)
from pragmas import Pragma, faults, seen_pragmas, table
from rules import RULES, Finding, Report
from walk import Walk

LANES = (2, 4, 8, 16)

# How a source gives a switch its value: two lines, 0 or 1.
SWITCH = r"^#ifndef (ACTDMA_\w+)\n#define \1 [01]$"

# Headers of the tree that no synthesis tool sees.
SIMULATION = {"csim.hpp": "the simulation behind the streams, left out under __SYNTHESIS__"}


class Checker:
    """Checks the sources below `tree`: include/actdma and src."""

    def __init__(self, tree: Path) -> None:
        self.report = Report(tree)
        self.tree = self.report.tree
        self.reached: set[tuple[Path, int]] = set()
        self.defined: dict[tuple[Path, int], str] = {}

    def check(self, lanes: tuple[int, ...]) -> list[Finding]:
        """All findings, by place."""
        headers = sorted((self.tree / "include/actdma").glob("*.hpp"))
        headers = [path for path in headers if path.name not in SIMULATION]
        sources = sorted((self.tree / "src").glob("*.cpp"))
        everything = "".join(f'#include "{path}"\n' for path in [*headers, *sources])
        for switches, width in product(self.settings([*headers, *sources]), lanes):
            macros = (f"ACTDMA_LANES={width}", *switches)
            unit = self.parse(self.tree / "everything.cpp", macros, everything)
            self.scan(unit)
            walk = Walk(self.report, unit)
            walk.walk_tops(sources)
            self.reached |= walk.reached
        for place in self.defined.keys() - self.reached:
            text = f"no top calls {self.defined[place]}: call it, or keep it from __SYNTHESIS__"
            self.report.add_line(*place, "unreached", text)
        return sorted(self.report.findings)

    def settings(self, paths: list[Path]) -> list[tuple[str, ...]]:
        """The switches of the sources (0 or 1 where nothing else sets them) all on and all off."""
        text = "\n".join(path.read_text() for path in paths)
        switches = sorted(set(re.findall(SWITCH, text, re.MULTILINE)))
        if not switches:
            return [()]
        return [tuple(f"{switch}={value}" for switch in switches) for value in (1, 0)]

    def parse(self, path: Path, macros: tuple[str, ...], text: str) -> TranslationUnit:
        """A text as the source `path`, with clang's errors as findings."""
        unit = parse(path, text, macros, [self.tree / "include", HLS / "include"])
        for diagnostic in unit.diagnostics:
            if diagnostic.severity >= diagnostic.Error:
                place = diagnostic.location
                file = Path(place.file.name).resolve() if place.file else path
                self.report.add_line(file, place.line, "parse", diagnostic.spelling)
        return unit

    def scan(self, unit: TranslationUnit) -> None:
        """The rules that need no instantiation, the pragmas, and what is defined."""
        files: dict[Path, list[Cursor]] = {}
        for cursor in unit.cursor.get_children():
            path = path_of(cursor)
            is_ours = path is not None and path.is_relative_to(self.tree)
            if is_ours and path.name not in SIMULATION and not cursor.kind.is_preprocessing():
                files.setdefault(path, []).append(cursor)
        for path, cursors in files.items():
            functions = [found for cursor in cursors for found in self.scan_tree(cursor)]
            self.check_pragmas(unit, path, functions)

    def scan_tree(self, cursor: Cursor) -> Iterator[Cursor]:
        """Check a tree of cursors; the functions defined in it."""
        self.report.check_node(cursor)
        if cursor.kind in FUNCTIONS and cursor.is_definition():
            yield cursor
            if cursor.kind != CursorKind.CONSTRUCTOR and not is_constexpr(cursor):
                self.defined[path_of(cursor), cursor.location.line] = cursor.spelling
        for child in cursor.get_children():
            yield from self.scan_tree(child)

    def check_pragmas(self, unit: TranslationUnit, path: Path, functions: list[Cursor]) -> None:
        """Spelling, place and variable of every pragma of a file."""
        for pragma in seen_pragmas(unit, path):
            for fault in faults(pragma):
                self.report.add_line(path, pragma.line, "pragma", fault)
            function = next((f for f in functions if encloses(f, pragma.line)), None)
            if function is None:
                text = f"{pragma.name} in no function: put it in one"
                self.report.add_line(path, pragma.line, "pragma-place", text)
                continue
            place = self.place(function, pragma.line)
            places = table().get(pragma.name, {}).get("place", [place])
            if place not in places:
                text = f"{pragma.name} in {place}: put it in {' or '.join(places)}"
                self.report.add_line(path, pragma.line, "pragma-place", text)
            self.check_variable(path, pragma, function)

    def place(self, function: Cursor, line: int) -> str:
        """What a line of a function belongs to, as the table of pragmas calls it."""
        if any(encloses(loop, line) for loop in loops(function)):
            return "loop"
        in_sources = path_of(function).parent == self.tree / "src"
        return "top" if in_sources and is_top(function) else "function"

    def check_variable(self, path: Path, pragma: Pragma, function: Cursor) -> None:
        """Whether what a pragma names is declared in its function."""
        name = (pragma.variable or pragma.options.get("port", "")).split(".")[0].split("[")[0]
        declared = {c.spelling for c in function.walk_preorder() if c.kind in VARIABLES}
        if name and name not in declared | {"return"}:
            text = f"{pragma.name}: nothing called {name} is declared in {function.spelling}"
            self.report.add_line(path, pragma.line, "pragma-variable", text)


def main() -> int:
    """Check a tree; the exit status is 1 where something was found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tree", nargs="?", type=Path, default=HLS, help="directory of include, src")
    parser.add_argument("--lanes", type=int, nargs="*", default=LANES, help="stream widths")
    parser.add_argument("--rules", action="store_true", help="list the rules and exit")
    options = parser.parse_args()
    if options.rules:
        print("\n".join(f"{name}: {what}" for name, what in RULES.items()))
        return 0
    findings = Checker(options.tree).check(tuple(options.lanes))
    for finding in findings:
        print(finding)
    print(f"{len(findings)} findings, {len(RULES)} rules, lanes {options.lanes}", file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
