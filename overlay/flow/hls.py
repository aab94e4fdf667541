"""The engines as IP cores: configuration files from the board's table, and the runs of HLS."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

from . import ROOT, TOPS, BuildError
from .process import run
from .tools import Tools, text

HLS = ROOT / "hls"
BLOCK_CODECS = ("raw", "zvc", "zve", "ints", "rle")
SWITCHED = {"pool": "ACTDMA_POOL", "bsr": "ACTDMA_BSR"}
# FIFOs of up to so many tokens or bits lie in shift registers of LUTs, not block RAM. HLS's own
# limits are 2 tokens and 1024 bits (UG1399, Storage Configuration): some 50 FIFOs of 32 tokens
# would take more block RAM than a KV260 has.
SRL_DEPTH = 32
SRL_BITS = 16384


def cflags(board: dict[str, Any]) -> str:
    """Compiler flags of the engines: include path, lanes per beat, codecs built in."""
    codecs = set(board["codecs"])
    unknown = sorted(codecs - {*BLOCK_CODECS, *SWITCHED})
    if unknown or not codecs.issuperset(BLOCK_CODECS):
        raise BuildError(
            f"codecs of {board['name']} are {', '.join(board['codecs'])}; all of "
            f"{', '.join(BLOCK_CODECS)} must be there, {' and '.join(SWITCHED)} may be"
        )
    switches = [f"-D{macro}={int(codec in codecs)}" for codec, macro in SWITCHED.items()]
    lanes = f"-DACTDMA_LANES={board['stream_bits'] // 32}"
    return " ".join([f"-I{HLS / 'include'}", lanes, *switches, "-std=c++17"])


def config(board: dict[str, Any], top: str) -> str:
    """The .cfg file of one engine for ``v++ -c --mode hls`` and ``vitis-run``."""
    flags = cflags(board)
    (other,) = set(TOPS) - {top}
    return "\n".join(
        [
            f"part={board['part']}",
            "",
            "[hls]",
            "flow_target=vivado",
            "package.output.format=ip_catalog",
            f"clock={board['clock_mhz']}MHz",
            f"syn.top={top}",
            f"syn.file={HLS / 'src' / top}.cpp",
            f"syn.cflags={flags}",
            f"syn.storage=fifo impl=auto auto_srl_max_bits={SRL_BITS} "
            f"auto_srl_max_depth={SRL_DEPTH}",
            f"tb.file={HLS / 'tb' / 'tb_tops.cpp'}",
            f"tb.file={HLS / 'src' / other}.cpp",
            f"tb.cflags={flags}",
            "",
        ]
    )


def script(board: dict[str, Any], top: str) -> str:
    """The same as Tcl, for vitis_hls."""
    flags = cflags(board)
    (other,) = set(TOPS) - {top}
    return "\n".join(
        [
            f"open_project -reset {top}",
            f"set_top {top}",
            f"add_files {{{HLS / 'src' / top}.cpp}} -cflags {{{flags}}}",
            f"add_files -tb {{{HLS / 'tb' / 'tb_tops.cpp'}}} -cflags {{{flags}}}",
            f"add_files -tb {{{HLS / 'src' / other}.cpp}} -cflags {{{flags}}}",
            "open_solution -reset -flow_target vivado solution1",
            f"set_part {{{board['part']}}}",
            f"create_clock -period {1000 / board['clock_mhz']:.3f} -name default",
            f"config_storage fifo -auto_srl_max_bits {SRL_BITS} -auto_srl_max_depth {SRL_DEPTH}",
            "csynth_design",
            "export_design -format ip_catalog",
            "exit",
            "",
        ]
    )


def build_ip(board: dict[str, Any], top: str, tools: Tools, work: Path) -> Path:
    """Compile one engine in ``work``; the folder of the IP core. What is up to date stays."""
    work.mkdir(parents=True, exist_ok=True)
    source = config(board, top) if tools.unified else script(board, top)
    file = work / f"{top}{'.cfg' if tools.unified else '.tcl'}"
    output, stamp, inputs = work / top, work / f"{top}.inputs", _inputs(source, tools)
    if stamp.is_file() and stamp.read_text("utf-8") == inputs and _core(output) is not None:
        print(f"{top}: up to date")
        return _core(output)
    stamp.unlink(missing_ok=True)
    shutil.rmtree(output, ignore_errors=True)
    file.write_text(source, "utf-8")
    log = work / f"{top}.log"
    if tools.unified:
        options = ["--config", str(file), "--work_dir", str(output)]
        run([tools.hls, "-c", "--mode", "hls", *options], work, tools.env, log)
        if _core(output) is None and tools.packager:
            # Versions differ in whether v++ packages what it has compiled.
            run([tools.packager, "--mode", "hls", "--package", *options], work, tools.env, log)
    else:
        run([tools.hls, "-f", str(file)], work, tools.env, log)
    if _core(output) is None:
        raise BuildError(f"{tools.hls} ended well but left no IP core below {output}; see {log}")
    stamp.write_text(inputs, "utf-8")
    return _core(output)


def _core(output: Path) -> Path | None:
    return next((file.parent for file in sorted(output.rglob("impl/ip/component.xml"))), None)


def _inputs(source: str, tools: Tools) -> str:
    """A digest of everything that an IP core is made from."""
    digest = hashlib.sha256(f"{text(tools.version)}\n{source}".encode())
    for file in sorted([*HLS.glob("include/**/*.hpp"), *HLS.glob("src/*")]):
        digest.update(file.read_bytes())
    return digest.hexdigest()
