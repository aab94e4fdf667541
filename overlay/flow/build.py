"""The build of one board: IP cores, block design, bitstream, gates, manifest."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import OVERLAY, ROOT, TOPS, BuildError, design, gates, hls
from .block_design import block_design
from .process import run
from .tools import ROOTS, Tools, find_tools, text

NAME = "actdma"


def main(arguments: Sequence[str] | None = None) -> int:
    """Build a board; returns 0, or 1 with the reason on stderr."""
    parser = argparse.ArgumentParser(prog="make -C overlay", description=__doc__)
    parser.add_argument("board", help="a board of boards.toml")
    parser.add_argument(
        "--only",
        choices=("tcl", "ip"),
        help="stop after what needs no tools (tcl), or after the IP cores (ip)",
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, help="instead of overlay/build/<board>")
    options = parser.parse_args(arguments)
    try:
        build(options.board, options.out, options.only, options.jobs)
    except BuildError as error:
        print(f"overlay: {error}", file=sys.stderr)
        return 1
    return 0


def build(
    name: str,
    out: Path | None = None,
    only: str | None = None,
    jobs: int = 1,
    env: Mapping[str, str] | None = None,
    roots: Sequence[Path] = ROOTS,
) -> None:
    """Build ``name`` into ``out``: the .bit, .hwh, .json and .sha256, and its ``work`` folder.

    The files are there only if every gate has passed. `BuildError` says what went wrong.
    """
    board, plan = _board(name)
    out = (out or OVERLAY / "build" / name).absolute()
    work = out / "work"
    work.mkdir(parents=True, exist_ok=True)
    for suffix in ("bit", "hwh", "json", "sha256"):
        (out / f"{NAME}.{suffix}").unlink(missing_ok=True)
    script = work / "block_design.tcl"
    script.write_text(block_design(plan), "utf-8")
    for top in TOPS:
        (work / f"{top}.cfg").write_text(hls.config(board, top), "utf-8")
    if only == "tcl":
        print(f"wrote {script} and the .cfg files beside it")
        return
    tools = find_tools(env, roots)
    cores = {top: hls.build_ip(board, top, tools, work) for top in TOPS}
    intervals = {top: gates.loops(work / top) for top in TOPS}
    for top in TOPS:
        gates.check_loops(top, intervals[top])
    if only == "ip":
        print("\n".join(f"{top}: {core}" for top, core in cores.items()))
        return
    implementation = work / "vivado"
    _implement(board, script, list(cores.values()), tools, implementation, jobs)
    quality = _check(board, implementation, tools, intervals)
    _publish(out, implementation, quality)
    slack = quality["timing_ns"]["WNS"]
    print(f"wrote {out / NAME}.bit: {quality['clock_mhz']} MHz, {slack} ns to spare")


def _board(name: str) -> tuple[dict[str, Any], Any]:
    boards = design.load_boards()
    buildable = [key for key, board in boards.items() if board["part"] != "none"]
    if name not in buildable:
        raise BuildError(f"there is no board {name!r} to build; known are {', '.join(buildable)}")
    return boards[name], design.load_design(name)


def _implement(
    board: dict[str, Any],
    script: Path,
    cores: Sequence[Path],
    tools: Tools,
    folder: Path,
    jobs: int,
) -> None:
    """Run Vivado in ``folder``."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    arguments = [script, board["part"], board.get("board_part", ""), jobs, *cores]
    run(
        [
            *(tools.vivado, "-mode", "batch", "-nojournal"),
            *("-source", str(OVERLAY / "tcl" / "build.tcl")),
            *("-tclargs", *map(str, arguments)),
        ],
        folder,
        tools.env,
        folder / "build.log",
    )


def _check(
    board: dict[str, Any], folder: Path, tools: Tools, intervals: dict[str, dict[str, int]]
) -> dict[str, Any]:
    """Put the implementation through its gates; the quality of result."""
    gates.check_routes(_read(folder / "route.rpt"))
    slacks = gates.check_timing(_read(folder / "timing.rpt"))
    facts = gates.facts(_read(folder / "facts.txt"))
    if facts["board_part"] is None:
        print(f"NOTE: built for the plain part {board['part']}: Vivado has no files for this board")
    return {
        "board": board["name"],
        "part": board["part"],
        "board_part": facts["board_part"],
        "codecs": board["codecs"],
        "stream_bits": board["stream_bits"],
        "clock_mhz": facts["clock_mhz"],
        "timing_ns": slacks,
        "utilization": gates.utilization(_read(folder / "utilization.rpt")),
        "loop_intervals": intervals,
        "tools": {Path(tools.hls).name: text(tools.version), "vivado": facts["vivado"]},
        **_commit(),
    }


def _publish(out: Path, folder: Path, quality: dict[str, Any]) -> None:
    """Bitstream, handoff, quality of result, and the manifest over all three, written last."""
    for suffix in ("bit", "hwh"):
        if not (folder / f"{NAME}.{suffix}").is_file():
            raise BuildError(f"Vivado ended well but left no {NAME}.{suffix} in {folder}")
        shutil.copy(folder / f"{NAME}.{suffix}", out)
    (out / f"{NAME}.json").write_text(json.dumps(quality, indent=2) + "\n", "utf-8")
    lines = []
    for suffix in ("bit", "hwh", "json"):
        digest = hashlib.sha256((out / f"{NAME}.{suffix}").read_bytes()).hexdigest()
        lines.append(f"{digest}  {NAME}.{suffix}\n")
    (out / f"{NAME}.sha256").write_text("".join(lines), "utf-8")


def _commit() -> dict[str, Any]:
    """The git commit that is built, and whether files differ from it; None without git."""

    def git(*arguments: str) -> str | None:
        try:
            result = subprocess.run(
                ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True
            )
        except OSError:
            return None
        return None if result.returncode else result.stdout.strip()

    changes = git("status", "--porcelain")
    modified = None if changes is None else bool(changes)
    return {"commit": git("rev-parse", "HEAD"), "modified": modified}


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8", errors="replace")
    except OSError as error:
        raise BuildError(f"Vivado ended well but left no {file.name} in {file.parent}") from error
