"""HLS pragmas: read from a source file, and held to the table of what Vitis HLS documents."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from clang.cindex import Cursor, TranslationUnit
from clangtree import LOOPS, encloses, loops, path_of, skipped

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

TABLE = Path(__file__).with_name("pragmas.toml")
LINE = re.compile(r"^\s*#\s*pragma\s+HLS\b(.*)$", re.IGNORECASE)


@dataclass(frozen=True)
class Pragma:
    """One pragma: its name in capitals, options with values, and flags, options without one."""

    line: int
    name: str
    options: dict[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        """What the pragma is about, "" for a loop or function."""
        return self.options.get("variable", "")


@cache
def table() -> dict[str, dict]:
    """The table of pragmas."""
    return tomllib.loads(TABLE.read_text())


@cache
def read_pragmas(path: Path) -> tuple[Pragma, ...]:
    """The HLS pragmas of a file, in order. A pragma may go on after a backslash."""
    found = []
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines, 1):
        match = LINE.match(line)
        if not match:
            continue
        text, after = match[1], number
        while text.endswith("\\") and after < len(lines):
            text, after = text[:-1] + lines[after], after + 1
        found.append(parse(number, text))
    return tuple(found)


def seen_pragmas(unit: TranslationUnit, path: Path) -> list[Pragma]:
    """Those pragmas of a file that the preprocessor lets through."""
    left_out = skipped(unit).get(path, [])
    return [p for p in read_pragmas(path) if not any(p.line in lines for lines in left_out)]


def parse(line: int, text: str) -> Pragma:
    """A pragma from what follows `#pragma HLS`."""
    name, *words = re.sub(r"\s*=\s*", "=", text.split("//")[0]).split() or [""]
    options = dict(word.split("=", 1) for word in words if "=" in word)
    return Pragma(line, name.upper(), options, tuple(word for word in words if "=" not in word))


def faults(pragma: Pragma) -> Iterator[str]:
    """What is not as documented about a pragma's name, options and values."""
    entry = table().get(pragma.name)
    if entry is None:
        yield f"{pragma.name or 'no name'} is not in {TABLE.name}: known are {', '.join(table())}"
        return
    known, flags = entry.get("options", {}), entry.get("flags", [])
    source = f"UG1399, {entry['source']}"
    for flag in pragma.flags:
        if flag not in flags:
            yield f"{pragma.name} has no flag {flag!r}: {allowed(flags, known)} ({source})"
    for option, value in pragma.options.items():
        if option not in known:
            yield f"{pragma.name} has no option {option!r}: {allowed(flags, known)} ({source})"
        elif (fault := value_fault(known[option], value)) is not None:
            yield f"{pragma.name} {option}={value}: {fault} ({source})"
    for option in entry.get("required", []):
        if option not in pragma.options:
            yield f"{pragma.name} without {option}= ({source})"
    for rule in entry.get("rules", []):
        yield from (f"{fault} ({source})" for fault in rule_faults(pragma, rule))


def allowed(flags: list[str], options: dict) -> str:
    """The options that a pragma has, for messages."""
    return "it has " + (", ".join([*flags, *(f"{option}=" for option in options)]) or "none")


def value_fault(kind: str | list[str], value: str) -> str | None:
    """What is wrong with an option's value, None for nothing. A named constant is not looked up."""
    if isinstance(kind, list):
        return None if value in kind else f"allowed are {', '.join(kind)}"
    if kind == "name":
        good = re.fullmatch(r"[A-Za-z_][\w.\[\]]*", value)
        return None if good else "give the name of a variable, port or bundle"
    least = int(kind.removeprefix("int>="))
    if re.fullmatch(r"-?\d+", value):
        return None if int(value) >= least else f"give an integer of at least {least}"
    good = re.fullmatch(r"[A-Za-z_0-9][\w:+*/()<>-]*", value)
    return None if good else f"give an integer of at least {least} or a constant"


def rule_faults(pragma: Pragma, rule: dict[str, str]) -> Iterator[str]:
    """Options that do not go together."""
    option, _, value = rule["when"].partition("=")
    if pragma.options.get(option, "") != value if value else option not in pragma.flags:
        return
    if "needs" in rule and rule["needs"] not in pragma.options:
        yield f"{pragma.name} {rule['when']} needs {rule['needs']}="
    if "forbids" in rule and rule["forbids"] in pragma.options:
        yield f"{pragma.name} {rule['when']} takes no {rule['forbids']}="


def attached(cursor: Cursor) -> list[Pragma]:
    """The pragmas of a loop itself, or of a function with those in its loops."""
    path = path_of(cursor)
    seen = seen_pragmas(cursor.translation_unit, path) if path is not None else []
    found = [p for p in seen if encloses(cursor, p.line)]
    if cursor.kind in LOOPS:
        inner = loops(cursor)
        found = [p for p in found if not any(encloses(loop, p.line) for loop in inner)]
    return found
