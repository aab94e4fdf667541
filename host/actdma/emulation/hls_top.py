"""A user's HLS top as a kernel of the emulated board: compiled by g++ into a program of its own.

The top is plain C++ with AXI4-Stream ports, `void top(hls::stream<beat>& in, hls::stream<beat>&
out)`, where a beat has ``data`` and ``last`` and may have ``keep`` and ``strb``: ``ap_axiu<W, 0, 0,
0>``, ``hls::axis<float, 0, 0, 0>`` or a struct of one's own. The program runs beside Python: a top
that crashes or never returns ends itself alone, and a reset is a fresh start that static variables
take part in. ``include/actdma_serve.hpp`` is its end of the pipes.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import weakref
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from ..overlay.cache import cache_root

_INCLUDE = Path(__file__).parent / "include"
_FLAGS = ("-std=c++17", "-O2", "-g1")
_ROOM_BEATS = 32
"""Beats that the streams between a kernel and its DMA hold, before a receive is armed."""


class KernelError(RuntimeError):
    """A user's top does not compile, or does what would hang hardware; the message says what."""


class HlsTop:
    """The function ``top`` of HLS C++ ``sources``, compiled for the CPU: a kernel factory.

        actdma.emulation.install(kernels={"axi_dma_0": HlsTop("delta.cpp", "delta")})

    ``sources``: a file or several, compiled as if one text; ``top``: name of the function, as C++
    calls it (a template's with its arguments); ``include``: folders of headers; ``flags``: further
    ones for the compiler (``-DWIDTH=64``, ``-fsanitize=address``); ``time_limit``: seconds of
    processor time that a packet may take. ``lanes``: 32-bit words per beat, as found.

    The compiler is g++, or CXX; programs are cached by what the preprocessor makes of the sources,
    the flags and the compiler. FileNotFoundError for a source that is not there, ImportError with
    what to install where the vendor's integers are missing, `KernelError` with the compiler's
    message for a top that does not compile.
    """

    def __init__(
        self,
        sources: str | Path | Sequence[str | Path],
        top: str,
        *,
        include: Sequence[str | Path] = (),
        flags: Sequence[str] = (),
        time_limit: float = 10.0,
    ) -> None:
        if time_limit <= 0:
            raise ValueError(f"time_limit is {time_limit}, allowed are seconds above 0")
        one = isinstance(sources, str | Path)
        paths = [Path(source).resolve() for source in ([sources] if one else sources)]
        for path in paths:
            if not path.is_file():
                raise FileNotFoundError(f"no file {path} with the source of the top {top!r}")
        self.top = top
        self.time_limit = time_limit
        folders = [f"-I{Path(folder).resolve()}" for folder in include]
        self.program = _compiled(_program_text(paths, top), top, [*_FLAGS, *folders, *flags])
        process = _Process(self)
        self.lanes = process.lanes
        process.close()

    def __call__(self) -> HlsKernel:
        """A kernel of its own, just reset."""
        return HlsKernel(self)

    def simulate(self, *packets: bytes) -> list[bytes]:
        """What comes out for ``packets``, sent one after another to a top just reset.

        A packet is any contiguous buffer of at least one byte (a NumPy array, too). `KernelError`
        as on the emulated board.
        """
        process = _Process(self)
        try:
            return [answer for packet in packets for answer in process.call(packet)]
        finally:
            process.close()


class HlsKernel:
    """A `Kernel` that calls an `HlsTop` once a whole packet is there, and again while some of it is
    unread. Time is not modelled.

    What the top answers waits for a receive; the packet counts as taken once no more of it waits
    than streams hold, as on a board, where a full stream stops the top.
    """

    cycles = 0

    def __init__(self, top: HlsTop) -> None:
        self._top = top
        self.lanes = top.lanes
        self._process: _Process | None = None
        self.reset()

    def reset(self) -> None:
        """See `Kernel.reset`."""
        if self._process is not None:
            self._process.close()
        self._process = None
        self._error: KernelError | None = None
        self._answers: deque[bytes] = deque()
        self.drop()

    def drop(self) -> None:
        """See `Kernel.drop`."""
        self._source: memoryview | None = None
        self._called = False
        self._sink: memoryview | None = None
        self.sent = self.received = 0
        self.overrun = False

    @property
    def sending(self) -> bool:
        """See `Kernel.sending`."""
        return self._source is not None

    @property
    def receiving(self) -> bool:
        """See `Kernel.receiving`."""
        return self._sink is not None

    @property
    def waiting(self) -> list[str]:
        """See `Kernel.waiting`."""
        what = "room on m_axis" if self._answers else "data on s_axis"
        return [f"{self._top.top} waits for {what}"]

    def send(self, data: memoryview) -> None:
        """See `Kernel.send`."""
        self._source, self._called, self.sent = data, False, 0

    def receive(self, data: memoryview) -> None:
        """See `Kernel.receive`."""
        self._sink, self.received, self.overrun = data, 0, False

    def run(self) -> None:
        """See `Kernel.run`. `KernelError` for a packet that hardware would hang at; then again,
        until a reset."""
        if self._error is not None:
            raise self._error
        if self._source is not None and not self._called:
            self._called = True
            self._call(self._source)
        if self._sink is not None and self._answers:
            self._deliver(self._sink, self._answers.popleft())
        room = 4 * self.lanes * _ROOM_BEATS
        if self._source is not None and sum(map(len, self._answers)) <= room:
            self.sent, self._source = len(self._source), None

    def _call(self, packet: memoryview) -> None:
        if self._process is None:
            self._process = _Process(self._top)
        try:
            self._answers.extend(self._process.call(packet))
        except KernelError as error:
            self._error = error
            raise

    def _deliver(self, sink: memoryview, answer: bytes) -> None:
        self.received = min(len(answer), len(sink))
        sink[: self.received] = answer[: self.received]
        self.overrun = self.received < len(answer)
        self._sink = None


class _Process:
    """A run of a top's program, from its reset on."""

    def __init__(self, top: HlsTop) -> None:
        self._top = top
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        self._shown = 0
        reader, writer = os.pipe()
        self._child = subprocess.Popen(
            [top.program, str(writer), str(top.time_limit)],
            stdin=subprocess.PIPE,
            stdout=self._printed,
            stderr=subprocess.STDOUT,
            pass_fds=(writer,),
        )
        os.close(writer)
        self._answers = os.fdopen(reader, "rb")
        files = (self._child.stdin, self._answers, self._printed)
        self.close = weakref.finalize(self, _end, self._child, files, os.getpid())
        _, lanes = self._read()
        self.lanes = int.from_bytes(lanes, "little")

    def call(self, packet: bytes | memoryview) -> list[bytes]:
        """The packets that come out for one that goes in."""
        data = memoryview(packet).cast("B")
        if not data:
            raise ValueError("a packet has at least one byte")
        try:
            with contextlib.suppress(BrokenPipeError):  # it has ended: `_read` tells why
                self._child.stdin.write(struct.pack("<Q", len(data)))
                self._child.stdin.write(data)
                self._child.stdin.flush()
            answers = []
            while (message := self._read())[0] == b"P":
                answers.append(message[1])
        except BaseException:  # an interrupt, too, leaves the pipes in mid-packet
            self.close()
            raise
        sys.stdout.write(self._output())
        return answers

    def _read(self) -> tuple[bytes, bytes]:
        """Kind and content of the program's next message."""
        head = self._answers.read(9)
        if len(head) < 9:
            raise KernelError(f"{self._top.top} {self._how_it_ended()}\n{self._output()}".rstrip())
        kind, size = struct.unpack("<cQ", head)
        data = self._answers.read(size)
        if kind == b"E":
            text = f"{self._top.top}: {data.decode(errors='replace')}\n{self._output()}"
            raise KernelError(text.rstrip())
        return kind, data

    def _how_it_ended(self) -> str:
        status = self._child.wait()
        if status == -signal.SIGPROF:
            return (
                f"has not returned after {self._top.time_limit:g} s of processor time: a top must "
                "return when its packet is done, hardware starts it again (no while (true))"
            )
        if status < 0:
            return f"was ended by {signal.Signals(-status).name}"
        return f"ended with exit status {status}"

    def _output(self) -> str:
        """What the top has printed since it was asked last."""
        size = os.fstat(self._printed.fileno()).st_size - self._shown
        data = os.pread(self._printed.fileno(), size, self._shown)
        self._shown += size
        return data.decode(errors="replace")


def _end(child: subprocess.Popen[bytes], files: Sequence[IO[bytes]], parent: int) -> None:
    """End the program, but not that of a forked child's parent."""
    if os.getpid() != parent:
        return
    child.kill()
    child.wait()
    for file in files:
        with contextlib.suppress(OSError):  # a packet that nobody reads any more
            file.close()


def _program_text(sources: Sequence[Path], top: str) -> str:
    """The sources and a main function that serves the top."""
    lines = [f'#include "{path}"' for path in sources]
    main = f"int main(int, char** argv) {{ return actdma::emulated::serve(argv, {top}); }}"
    return "\n".join([*lines, '#include "actdma_serve.hpp"', main, ""])


def _compiled(text: str, top: str, flags: Sequence[str]) -> Path:
    """The program of a C++ text, from the cache if it is there."""
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None:
        raise FileNotFoundError(f"no compiler {compiler!r}: install g++, or name one in CXX")
    command = [compiler, *flags, "-isystem", str(_INCLUDE), "-isystem", str(_vendor_headers())]
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True)
    preprocessed = _run([*command, "-E", "-P"], text, top)
    key = "\0".join([version.stdout, *flags, preprocessed])
    program = cache_root() / "kernels" / hashlib.sha256(key.encode()).hexdigest()
    if not program.is_file():
        program.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=program.parent) as folder:
            made = Path(folder, "program")
            _run([*command, "-o", str(made)], text, top)
            made.replace(program)  # at once: another process may want it now
    return program


def _run(command: Sequence[str], text: str, top: str) -> str:
    """What the compiler prints for a C++ text."""
    done = subprocess.run(
        [*command, "-x", "c++", "-"], input=text, capture_output=True, text=True, errors="replace"
    )
    if done.returncode:
        raise KernelError(f"{top} does not compile:\n{done.stderr.strip()}")
    return done.stdout


def _vendor_headers() -> Path:
    """Where hls4ml keeps ap_int.h and ap_fixed.h."""
    spec = importlib.util.find_spec("hls4ml")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError('ap_int.h comes with hls4ml: pip install "actdma[emulation]"')
    return Path(spec.submodule_search_locations[0]) / "templates/vivado/ap_types"
