"""Writes the v++ configurations of an Alveo card from alveo.toml: one per kernel, one to link.

    python3 alveo.py u50 build/u50

Needs Python 3.11, or tomli.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

try:
    import tomllib
except ModuleNotFoundError:
    import tomli as tomllib

HERE = Path(__file__).resolve().parent
HLS = HERE.parent / "hls"
PORTS = ("packet", "answer")


def load(name: str, file: Path = HERE / "alveo.toml") -> dict[str, Any]:
    """The checked table of platform ``name``; ValueError that says what is wrong with it."""
    platforms = tomllib.loads(file.read_text("utf-8"))["platforms"]
    if name not in platforms:
        raise ValueError(f"unknown platform {name!r}; known are {', '.join(platforms)}")
    platform = platforms[name]
    memory = platform["memory"]
    banks = {f"{memory['name']}[{number}]" for number in range(memory["banks"])}
    for unit, where in units(platform):
        for port in PORTS:
            if where.get(port) not in banks:
                raise ValueError(
                    f"{name}: port {port} of {unit} is at {where.get(port)}, allowed are "
                    f"{memory['name']}[0] to {memory['name']}[{memory['banks'] - 1}]"
                )
        if where.get("slr", platform["slrs"][0]) not in platform["slrs"]:
            raise ValueError(
                f"{name}: {unit} is in {where['slr']}, allowed are {', '.join(platform['slrs'])}"
            )
    return platform


def units(platform: dict[str, Any]) -> list[tuple[str, dict[str, str]]]:
    """(name, banks and SLR) of every compute unit."""
    return [
        (f"{kernel}_{number}", where)
        for kernel, wheres in platform["units"].items()
        for number, where in enumerate(wheres, 1)
    ]


def compile_config(platform: dict[str, Any], kernel: str, folder: Path) -> str:
    """For ``v++ -c --mode hls``: the kernel of that name to ``folder``/<kernel>.xo."""
    flags = f"-I{HLS}/include -DACTDMA_LANES={platform['lanes']} -std=c++17"
    sources = [HLS / "src" / f"{name}.cpp" for name in platform["units"]]
    others = [source for source in sources if source.stem != kernel]
    return _general(platform) + _section(
        "hls",
        "flow_target=vitis",
        "package.output.format=xo",
        f"package.output.file={folder}/{kernel}.xo",
        f"syn.top={kernel}",
        f"syn.file={HLS}/src/{kernel}.cpp",
        f"syn.cflags={flags}",
        # Shallow FIFOs into LUTs: HLS's own limits (2 tokens, 1024 bits) leave them to block RAM.
        "syn.storage=fifo impl=auto auto_srl_max_bits=32768 auto_srl_max_depth=32",
        f"tb.file={HLS}/tb/tb_maxi.cpp",
        *(f"tb.file={other}" for other in others),
        f"tb.cflags={flags}",
    )


def link_config(platform: dict[str, Any]) -> str:
    """For ``v++ -l``: how many compute units, the bank of each port, the SLR where one is given."""
    named = units(platform)
    return _general(platform) + _section(
        "connectivity",
        *(f"nk={kernel}:{len(wheres)}" for kernel, wheres in platform["units"].items()),
        *(f"sp={unit}.{port}:{where[port]}" for unit, where in named for port in PORTS),
        *(f"slr={unit}:{where['slr']}" for unit, where in named if "slr" in where),
    )


def _general(platform: dict[str, Any]) -> str:
    return f"platform={platform['platform']}\nfreqhz={platform['clock_mhz']}000000\n"


def _section(name: str, *lines: str) -> str:
    return "\n".join(("", f"[{name}]", *lines, ""))


def main(name: str, folder: str) -> None:
    """Write the configurations of platform ``name`` to ``folder``."""
    target = Path(folder).resolve()
    platform = load(name)
    target.mkdir(parents=True, exist_ok=True)
    for kernel in platform["units"]:
        (target / f"{kernel}.cfg").write_text(compile_config(platform, kernel, target), "utf-8")
    (target / "link.cfg").write_text(link_config(platform), "utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: alveo.py PLATFORM FOLDER")
    try:
        main(*sys.argv[1:])
    except ValueError as error:
        sys.exit(str(error))
