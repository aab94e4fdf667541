"""What of memory is left in a process: line buffers and constant tables, by the element.

An array that is indexed by data stays an array. A line buffer is one memory per column of its rows;
it is read in the cycle that asks for it, and written at the cycle's end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .ir import Constant, Global, Instruction, Value

NO_VALUE = ("alloca", "getelementptr", "store")


@dataclass(frozen=True)
class Place:
    """An element in memory: of which array, in which row (None: the first), at which byte of the
    row; ``stride``: bytes of a row."""

    array: Instruction | str
    row: Value | None
    offset: int
    stride: int


def place_of(access: Instruction) -> Place:
    """Where a load or store goes; `Untranslatable` where that is not one array's row and column."""
    pointer = access.operands[1 if access.opcode == "store" else 0]
    row: Value | None = None
    offset = stride = 0
    while isinstance(pointer, Instruction) and pointer.opcode == "getelementptr":
        if len(pointer.operands) != 2:
            raise access.refuse("an address in several dimensions")
        pointer_before, index = pointer.operands
        size = _bytes(pointer.text)
        if isinstance(index, Constant):
            offset += size * (index.value or 0)
        elif row is None and size:
            row, stride = index, size
        else:
            raise access.refuse("an address that is no row and column of an array")
        pointer = pointer_before
    if isinstance(pointer, Instruction) and pointer.opcode == "alloca":
        if row is not None and offset >= stride:
            raise access.refuse("an address that is no row and column of an array")
        return Place(pointer, row, offset, stride)
    if isinstance(pointer, Global) and access.opcode == "load":
        found = re.search(r"@(\S+), i64 (\d+)\)$", pointer.name)
        name = found[1] if found else pointer.name
        return Place(name, row, offset + (int(found[2]) if found else 0), stride)
    raise access.refuse("this memory is no array of the process")


def rows(array: Instruction) -> int:
    """Rows of a line buffer."""
    found = re.match(r".*alloca \[(\d+) x ", array.text)
    if not found:
        raise array.refuse("a variable in memory: it is indexed by data")
    return int(found[1])


def inputs(instruction: Instruction) -> list[Value]:
    """What an instruction computes with: its operands, and the row instead of an address."""
    if instruction.opcode in ("alloca", "getelementptr"):
        return []
    if instruction.opcode in ("load", "store"):
        row = place_of(instruction).row
        stored = instruction.operands[:1] if instruction.opcode == "store" else []
        return [*stored, *([] if row is None else [row])]
    return instruction.operands


def _bytes(text: str) -> int:
    """Size of the elements that a getelementptr counts; 0 for another than arrays of integers."""
    kind = re.match(r".*getelementptr [a-z ]*?((?:\[\d+ x )*i\d+\]*), ptr", text)
    if not kind:
        return 0
    size = int(re.search(r"i(\d+)", kind[1])[1]) // 8
    for count in re.findall(r"(\d+) x", kind[1]):
        size *= int(count)
    return size
