"""Every stream of an engine's Verilog held to the C++, token by token.

The C++ runs without time and writes down what goes through each stream. Then its Verilog gets the
same packets while every FIFO stops reading and writing at random; a process network's streams do
not depend on time, so the same tokens have to come. This holds every process to its C++ on the
tokens that it gets in the engine, under back-pressure on each of its ports.

Bits that C++ leaves undefined do not count: those that change when uninitialised variables are
filled with another pattern, or another compiler leaves something else there.
"""

from __future__ import annotations

import ctypes
import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .ir import HLS
from .network import Engine, engine
from .simulator import BuildError, library, load

_FILLS = ("zero", "pattern")
_GCC = [os.environ.get("CXX", "g++")]
_CLANG = [sys.executable, "-m", "ziglang", "c++"]
_WORDS = 64
"""Words of a token in the list of those that the FIFOs took (fifo.v)."""

Tokens = dict[int, list[int]]


def expected(
    kind: str, lanes: int, packets: Sequence[bytes], macros: dict[str, int] | None = None
) -> tuple[Tokens, Tokens]:
    """Per stream the tokens of the C++, and of each the bits that are defined."""
    runs = [
        _recorded(kind, lanes, packets, macros or {}, compiler, fill)
        for compiler in (_GCC, _CLANG)
        for fill in _FILLS
    ]
    care: Tokens = {}
    for number in set().union(*runs):
        tokens = zip(*(run.get(number, []) for run in runs), strict=True)
        care[number] = [
            ~functools.reduce(lambda differ, other, one=one: differ | one ^ other, others, 0)
            for one, *others in tokens
        ]
    return runs[0], care


def _recorded(
    kind: str,
    lanes: int,
    packets: Sequence[bytes],
    macros: dict[str, int],
    compiler: list[str],
    fill: str,
) -> Tokens:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program, sent, found = folder / "record", folder / "packets", folder / "tokens"
        sent.write_bytes(b"".join(len(p).to_bytes(4, "little") + bytes(p) for p in packets))
        flags = ["-std=c++17", "-O0", "-w", "-D__SYNTHESIS__", f"-DACTDMA_LANES={lanes}"]
        flags += [f"-ftrivial-auto-var-init={fill}", f"-I{HLS / 'openrtl/record'}"]
        flags += [f"-I{HLS / 'include'}", *(f"-D{name}={value}" for name, value in macros.items())]
        main = HLS / "openrtl/record/main.cpp"
        for command in (
            [*compiler, *flags, str(main), "-o", str(program)],
            [str(program), kind, str(sent), str(found)],
        ):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise BuildError(f"{Path(command[0]).name} failed:\n{done.stderr[-4000:]}")
        return _tokens(found.read_bytes())


def _tokens(data: bytes) -> Tokens:
    found: Tokens = {}
    at = 0
    while at < len(data):
        number, size = np.frombuffer(data, "<u4", 2, at).tolist()
        token = int.from_bytes(data[at + 8 : at + 8 + size], "little")
        found.setdefault(number, []).append(token)
        at += 8 + size
    return found


def simulated(
    kind: str,
    lanes: int,
    packets: Sequence[bytes],
    cache: Path,
    *,
    macros: dict[str, int] | None = None,
    stops: int = 96,
    seed: int = 0,
) -> tuple[dict[int, list[int]], list[bytes]]:
    """Per stream the tokens that the Verilog's FIFO took (the bits it holds), and the answers.

    ``stops``: of 256, how often each side of each FIFO, and each port, stands still in a cycle.
    """
    path, _ = library(kind, lanes, cache, macros, check=True)
    functions = load(path)
    functions.actdma_tokens.restype = ctypes.POINTER(ctypes.c_uint32)
    functions.actdma_tokens.argtypes = ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t)
    model = functions.actdma_new(seed, stops)
    try:
        answers = [_exchange(functions, model, packet) for packet in packets]
        count = ctypes.c_size_t()
        words = functions.actdma_tokens(model, ctypes.byref(count))
        rows = np.ctypeslib.as_array(words, (count.value,)).reshape(-1, 1 + _WORDS).copy()
    finally:
        functions.actdma_delete(model)
    found: dict[int, list[int]] = {}
    for row in rows:
        number = int(row[:1].view(np.int32)[0])
        found.setdefault(number, []).append(int.from_bytes(row[1:].tobytes(), "little"))
    return found, answers


def _exchange(functions: ctypes.CDLL, model: int, packet: bytes) -> bytes:
    sent = (ctypes.c_ubyte * len(packet)).from_buffer_copy(packet)
    received = (ctypes.c_ubyte * (1 << 20))()
    functions.actdma_receive(model, ctypes.addressof(received), len(received))
    functions.actdma_send(model, ctypes.addressof(sent), len(sent))
    error = functions.actdma_run(model).decode()
    if error or functions.actdma_receiving(model) or functions.actdma_sending(model):
        raise RuntimeError(error or "the engine stands still before its answer's end")
    return bytes(received[: functions.actdma_received(model)])


def squeezed(token: int, ranges: Sequence[tuple[int, int]]) -> int:
    """The bits of a token that its FIFO holds, as it holds them."""
    held = 0
    for high, low in ranges:
        held = held << (high - low + 1) | token >> low & (1 << (high - low + 1)) - 1
    return held


def differences(
    kind: str,
    lanes: int,
    packets: Sequence[bytes],
    cache: Path,
    *,
    macros: dict[str, int] | None = None,
    stops: int = 96,
    seed: int = 0,
) -> tuple[list[str], dict[str, int]]:
    """One line per stream that differs, and per stream the tokens compared."""
    design: Engine = engine(kind, lanes, macros)
    tokens, care = expected(kind, lanes, packets, macros)
    found, _ = simulated(kind, lanes, packets, cache, macros=macros, stops=stops, seed=seed)
    lines: list[str] = []
    counts: dict[str, int] = {}
    for channel in design.channels:
        want, have = tokens.get(channel.number, []), found.get(channel.number, [])
        counts[channel.name] = len(want)
        if len(want) != len(have):
            lines.append(f"{channel.name}: {len(have)} tokens instead of {len(want)}")
            continue
        for index, (wanted, got) in enumerate(zip(want, have, strict=True)):
            mask = squeezed(care[channel.number][index], channel.ranges)
            if (squeezed(wanted, channel.ranges) ^ got) & mask:
                text = f"{got:x} instead of {squeezed(wanted, channel.ranges):x}"
                lines.append(f"{channel.name}: token {index} is {text}")
                break
    return lines, counts
