"""Block RAM that the engines' FIFOs and line buffers take on every board, as a table.

    python hls/check/fifos.py

Computed from the declarations, not synthesised. A token counts with the bits that C++ lays it out
in, which is a little more than HLS stores; FIFOs of up to SRL_DEPTH tokens lie in LUTs, as the
builds ask for, the others in block RAM in its shapes of 18 Kbit. The DMAs' own are left out.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HLS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HLS.parent / "overlay"))

from flow import design, hls  # noqa: E402

# Depth of an 18 Kbit block by the width of its simple dual port (UG573, UG473).
SHAPES = {512: 36, 1024: 18, 2048: 9, 4096: 4, 8192: 2, 16384: 1}
# Block RAM of 36 Kbit of the parts (DS891, DS987, DS190).
BLOCKS = {"zcu104": 312, "kv260": 144, "aup-zu3": 216, "pynq-z2": 140}
HEADER = """\
| board | FIFOs, compressor + decompressor | Kbit, computed | LUTs as shift registers, computed | \
block RAM (36 Kbit), computed | of the part's |
| --- | --- | --- | --- | --- | --- |"""


def fifos(board: dict[str, Any], engine: str) -> list[tuple[str, int, int]]:
    """Name, bits of a token and depth of every FIFO and line buffer of an engine."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "fifos")
        flags = [f"-I{HLS / 'check/fifos'}", *hls.cflags(board).split(), "-w"]
        main = HLS / "check/fifos/main.cpp"
        subprocess.run(["g++", *flags, str(main), "-o", str(program)], check=True)
        lines = subprocess.run([program, engine], capture_output=True, text=True, check=True)
    rows = [line.split("\t") for line in lines.stdout.splitlines()]
    return [(name, int(bits), int(depth)) for name, bits, depth in rows]


def half_blocks(bits: int, depth: int) -> int:
    """Blocks of 18 Kbit that a memory takes; 0 where it lies in LUTs."""
    if depth <= hls.SRL_DEPTH:
        return 0
    width = next(width for most, width in SHAPES.items() if depth <= most)
    return -(-bits // width)


def luts(bits: int, depth: int) -> int:
    """LUTs of a FIFO of shift registers: one holds 32 bits, or twice 16."""
    return 0 if depth > hls.SRL_DEPTH else bits if depth > 16 else -(-bits // 2)


def row(board: dict[str, Any]) -> str:
    """The board's row of the table."""
    engines = [fifos(board, engine) for engine in ("compress", "decompress")]
    both = [(bits, depth) for engine in engines for _, bits, depth in engine]
    kbit = sum(bits * depth for bits, depth in both) / 1024
    blocks = sum(half_blocks(*fifo) for fifo in both) / 2
    most = BLOCKS[board["name"]]
    counts = " + ".join(str(len(engine)) for engine in engines)
    cells = (board["title"], counts, f"{kbit:.0f}", sum(luts(*fifo) for fifo in both))
    return f"| {' | '.join(map(str, cells))} | {blocks:g} | {most} ({blocks / most:.0%}) |"


def table() -> str:
    """The table of docs/hardware.md."""
    boards = [board for board in design.load_boards().values() if board["name"] in BLOCKS]
    return "\n".join([HEADER, *map(row, boards)])


if __name__ == "__main__":
    print(table())
