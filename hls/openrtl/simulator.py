"""An engine's Verilog as a library for ctypes: translated, Verilated, compiled by g++, cached."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .ir import HLS
from .network import engine
from .tools import verilator

OPENRTL = HLS / "openrtl"
_SOURCES = ("*.py", "*.cpp", "*.v", "include/*.h")


class BuildError(RuntimeError):
    """A tool failed; the message is its own."""


def library(
    kind: str, lanes: int, cache: Path, macros: dict[str, int] | None = None, check: bool = False
) -> tuple[Path, list[str]]:
    """The library of an engine, and what the bits of ``lacks`` say (`Engine.waits`).

    ``kind``: "compress" or "decompress"; ``lanes``: 32-bit words per beat; ``cache``: the folder
    where libraries are kept, by what they are made of; ``macros``: build flags of the C++;
    ``check``: streams stop at random and tell what they take. `BuildError` with a tool's message.
    """
    name = f"{kind}_{lanes}_{'check_' if check else ''}{_digest(macros)}"
    target = cache / f"{name}.so"
    listed = cache / f"{name}.json"
    if not (target.is_file() and listed.is_file()):
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            made, waits = _build(kind, lanes, Path(folder), macros, check)
            text = Path(folder, "waits.json")
            text.write_text(json.dumps(waits), "utf-8")
            os.replace(text, listed)
            os.replace(made, target)
    return target, json.loads(listed.read_text("utf-8"))


def _digest(macros: dict[str, int] | None) -> str:
    found = hashlib.sha256(repr(sorted((macros or {}).items())).encode())
    files = [path for pattern in _SOURCES for path in OPENRTL.glob(pattern)]
    for path in sorted([*files, *(HLS / "include/actdma").glob("*.hpp")]):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def _build(
    kind: str, lanes: int, folder: Path, macros: dict[str, int] | None, check: bool
) -> tuple[Path, list[str]]:
    design = engine(kind, lanes, macros)
    top = f"actdma_{kind}"
    source = folder / f"{top}.v"
    source.write_text(design.verilog(), "utf-8")
    program, environment = verilator()
    defines = ["+define+ACTDMA_CHECK"] if check else []
    _call(
        [
            str(program),
            "--cc",
            "-O3",
            "-Wno-fatal",
            "-Wno-lint",
            "-Wno-style",
            "--top",
            top,
            "--prefix",
            "Vengine",
            "--Mdir",
            str(folder / "model"),
            "--x-assign",
            "fast",
            "--x-initial",
            "fast",
            "--no-timing",
            "--sv",
            *defines,
            str(source),
            str(OPENRTL / "fifo.v"),
        ],
        environment,
    )
    include = Path(environment["VERILATOR_ROOT"], "include")
    sources = [*(folder / "model").glob("*.cpp"), OPENRTL / "sim.cpp", include / "verilated.cpp"]
    sources += [include / "verilated_threads.cpp", *([include / "verilated_dpi.cpp"] * check)]
    flags = ["-std=c++17", "-O2", "-fPIC", "-w", f"-I{folder / 'model'}", f"-I{include}"]
    flags += [f"-I{include / 'vltstd'}", "-DACTDMA_TOP=Vengine", f"-DACTDMA_LANES={lanes}"]
    flags += [f"-DACTDMA_QUIET={200 if check else 1}", *(["-DACTDMA_CHECK"] if check else [])]
    compiler = os.environ.get("CXX", "g++")

    def compile_one(path: Path) -> str:
        target = str(folder / f"{path.stem}.o")
        _call([compiler, *flags, "-c", str(path), "-o", target], environment)
        return target

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        objects = list(pool.map(compile_one, sources))
    made = folder / "engine.so"
    _call([compiler, "-shared", *objects, "-o", str(made), "-pthread"], environment)
    return made, design.waits()


def _call(command: list[str], environment: dict[str, str]) -> None:
    if shutil.which(command[0]) is None:
        raise BuildError(f"{command[0]} is not there: the simulation needs it")
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise BuildError(f"{' '.join(command[:3])} ... failed:\n{done.stderr[-4000:]}")


def load(path: Path) -> ctypes.CDLL:
    """The library's functions, with their types (sim.cpp)."""
    found = ctypes.CDLL(str(path))
    pointer, size, word = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32
    for name, result, arguments in (
        ("new", pointer, (ctypes.c_uint64, word)),
        ("delete", None, (pointer,)),
        ("reset", None, (pointer,)),
        ("drop", None, (pointer,)),
        ("send", None, (pointer, pointer, size)),
        ("receive", None, (pointer, pointer, size)),
        ("run", ctypes.c_char_p, (pointer,)),
        ("sending", ctypes.c_int, (pointer,)),
        ("receiving", ctypes.c_int, (pointer,)),
        ("overrun", ctypes.c_int, (pointer,)),
        ("sent", ctypes.c_uint64, (pointer,)),
        ("received", ctypes.c_uint64, (pointer,)),
        ("cycles", ctypes.c_uint64, (pointer,)),
        ("lacks", ctypes.c_int, (pointer, ctypes.c_int)),
    ):
        function = getattr(found, f"actdma_{name}")
        function.restype, function.argtypes = result, arguments
    return found
