"""``make -C overlay``: which tools it finds, what it makes, and what stops it.

The tools are stand-ins (tests/toolchain.py) that check what they are asked for and write the files
that the real ones write.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from actdma.board.opener import check_files
from flow import OVERLAY, ROOT, TOPS, BuildError, design, gates, hls
from flow.build import build, main
from flow.tools import find_tools, text
from toolchain import TCLSH, environment, executable, path_with, put_install, put_tools

ALL = ("v++", "vitis-run", "vivado")
BUILDABLE = [name for name, board in design.load_boards().items() if board["part"] != "none"]
KV260 = "xilinx.com:kv260_som:part0:1.4"


@pytest.fixture(autouse=True)
def _tclsh():
    assert TCLSH, "these tests need tclsh: install the package tcl"


@pytest.fixture
def tools(tmp_path):
    """An environment with Vitis 2023.2 on PATH and board files of the KV260."""
    folder = put_tools(tmp_path / "tools", ALL)
    return environment(PATH=path_with(folder), STANDIN_BOARDS=KV260)


def found(env, roots=()):
    result = find_tools(env, roots)
    return Path(result.hls).name, text(result.version), Path(result.vivado).parents[1]


# ---- tools ----


def test_tools_on_path(tools, tmp_path):
    assert found(tools) == ("v++", "2023.2", tmp_path / "tools")


@pytest.mark.parametrize("version", ["2023.2", "2024.2", "2025.1", "2025.2"])
def test_unified_tools_are_found_where_they_are_installed(version, tmp_path):
    """Until 2024.2 as Vitis/<version>, since 2025.1 as <version>/Vitis; with their settings."""
    vitis, vivado = put_install(tmp_path, version)
    result = find_tools(environment(), [tmp_path / "absent", tmp_path])
    assert result.unified
    assert text(result.version) == version
    assert result.env["XILINX_VITIS"] == str(vitis)
    assert Path(result.vivado).parents[1] == vivado


@pytest.mark.parametrize("version", ["2022.2", "2023.1"])
def test_older_tools_compile_with_vitis_hls(version, tmp_path):
    put_install(tmp_path, version, ("Vitis", "Vitis_HLS", "Vivado"))
    assert found(environment(), [tmp_path])[:2] == ("vitis_hls", version)


def test_newest_of_several_with_vivado(tmp_path):
    for version in ("2022.2", "2024.1", "2025.2"):
        put_install(tmp_path, version, ("Vitis", "Vitis_HLS", "Vivado"))
    put_install(tmp_path, "2026.1", ("Vitis",))
    assert found(environment(), [tmp_path])[1] == "2025.2"


def test_sourced_settings_win_over_what_is_installed(tmp_path):
    put_install(tmp_path / "root", "2025.2")
    vitis, vivado = put_install(tmp_path / "mine", "2024.1")
    env = environment(XILINX_VITIS=str(vitis), XILINX_VIVADO=str(vivado))
    assert found(env, [tmp_path / "root"]) == ("v++", "2024.1", vivado)


def test_missing_tools(tmp_path):
    with pytest.raises(BuildError) as error:
        find_tools(environment(), [tmp_path])
    message = str(error.value)
    assert message.startswith("v++ (or vitis_hls) and vivado not found: install Vitis 2022.2 to")
    assert str(tmp_path) in message
    assert "\n" not in message


def test_missing_vivado(tmp_path):
    folder = put_tools(tmp_path, ("v++",))
    with pytest.raises(BuildError, match=r"^vivado not found"):
        find_tools(environment(PATH=path_with(folder)), [])


def test_missing_vitis(tmp_path):
    folder = put_tools(tmp_path, ("vivado",))
    with pytest.raises(BuildError, match=r"^v\+\+ \(or vitis_hls\) not found"):
        find_tools(environment(PATH=path_with(folder)), [])


def test_vpp_too_old_for_hls(tmp_path):
    folder = put_tools(tmp_path, ("v++", "vivado"), "2022.2")
    with pytest.raises(BuildError, match=r"vitis_hls not found beside .*v\+\+ 2022\.2"):
        find_tools(environment(PATH=path_with(folder)), [])


def test_too_old(tmp_path):
    folder = put_tools(tmp_path, ("vitis_hls", "vivado"), "2021.1")
    with pytest.raises(BuildError, match=r"is 2021\.1; the oldest that will do is 2022\.2"):
        find_tools(environment(PATH=path_with(folder)), [])


def test_two_versions(tmp_path):
    vitis = put_tools(tmp_path / "a", ("v++",), "2024.1")
    vivado = put_tools(tmp_path / "b", ("vivado",), "2023.2")
    with pytest.raises(BuildError, match=r"is 2024\.1 but .*vivado is 2023\.2"):
        find_tools(environment(PATH=path_with(vitis, vivado)), [])


def test_variable_that_points_nowhere(tmp_path):
    with pytest.raises(BuildError, match=r"XILINX_VIVADO is /nowhere, where there is no bin"):
        find_tools(environment(XILINX_VIVADO="/nowhere"), [])


def test_tool_that_does_not_tell_its_version(tmp_path):
    executable(tmp_path / "bin/v++", "echo out of licences\n")
    executable(tmp_path / "bin/vivado", "")
    with pytest.raises(BuildError, match="names no version; it says: out of licences"):
        find_tools(environment(PATH=path_with(tmp_path)), [])


def test_settings_script_that_fails(tmp_path):
    vitis, _ = put_install(tmp_path, "2024.2")
    (vitis / "settings64.sh").write_text("echo no such disk >&2; false\n")
    with pytest.raises(BuildError, match=r"settings64\.sh.* failed: no such disk"):
        find_tools(environment(), [tmp_path])


# ---- HLS ----


@pytest.mark.parametrize("name", BUILDABLE)
def test_configurations_of_every_board(name):
    board = design.load_boards()[name]
    small = name == "pynq-z2"
    for top in TOPS:
        lines = hls.config(board, top).splitlines()
        assert f"part={board['part']}" in lines
        assert f"clock={board['clock_mhz']}MHz" in lines
        flags = next(line for line in lines if line.startswith("syn.cflags="))
        assert f"-DACTDMA_LANES={2 if small else 4}" in flags
        assert f"-DACTDMA_POOL={int(not small)} -DACTDMA_BSR={int(not small)}" in flags
        assert flags[4:] in [line[3:] for line in lines if line.startswith("tb.cflags=")]
        assert f"create_clock -period {1000 / board['clock_mhz']:.3f}" in hls.script(board, top)


def test_codecs_that_cannot_be():
    board = design.load_boards()["kv260"]
    for codecs in (["raw", "pool"], [*hls.BLOCK_CODECS, "lz4"]):
        with pytest.raises(BuildError, match="codecs of kv260 are raw"):
            hls.cflags({**board, "codecs": codecs})


# ---- the whole build ----


def test_build(tools, tmp_path):
    """Files, manifest and figures; a second build compiles no HLS again."""
    out = tmp_path / "out"
    build("kv260", out, env=tools, roots=[])
    assert sorted(path.name for path in out.iterdir() if path.is_file()) == [
        "actdma.bit",
        "actdma.hwh",
        "actdma.json",
        "actdma.sha256",
    ]
    check_files(out / "actdma.bit")
    for line in (out / "actdma.sha256").read_text().splitlines():
        digest, file = line.split("  ")
        assert hashlib.sha256((out / file).read_bytes()).hexdigest() == digest
    quality = json.loads((out / "actdma.json").read_text())
    assert quality["board"] == "kv260"
    assert quality["board_part"] == KV260
    assert quality["clock_mhz"] == 250
    assert quality["timing_ns"]["WNS"] == 0.123
    assert quality["utilization"]["lut"] == {"used": 12345, "available": 70560}
    assert quality["utilization"]["bram"]["used"] == 40.5
    assert quality["tools"] == {"v++": "2023.2", "vivado": "2023.2"}
    assert quality["loop_intervals"]["actdma_compress"] == {"actdma_compress/beats": 1}
    head = subprocess.run(
        ["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True
    ).stdout.strip()
    assert quality["commit"] == (head or None)
    log = (out / "work/actdma_compress.log").stat().st_mtime_ns
    build("kv260", out, env=tools, roots=[])
    assert (out / "work/actdma_compress.log").stat().st_mtime_ns == log


@pytest.mark.parametrize("name", ["zcu104", "aup-zu3", "pynq-z2"])
def test_build_of_the_other_boards(name, tools, tmp_path):
    build(name, tmp_path / "out", env={**tools, "STANDIN_BOARDS": ""}, roots=[])
    quality = json.loads((tmp_path / "out/actdma.json").read_text())
    assert quality["board_part"] is None
    assert quality["codecs"] == design.load_boards()[name]["codecs"]
    assert ("uram" in quality["utilization"]) == (name != "pynq-z2")


def test_build_with_vitis_hls(tmp_path):
    put_install(tmp_path, "2022.2", ("Vitis", "Vitis_HLS", "Vivado"))
    env = environment(STANDIN_BOARDS=KV260, STANDIN_PS="3.4")
    build("kv260", tmp_path / "out", env=env, roots=[tmp_path])
    quality = json.loads((tmp_path / "out/actdma.json").read_text())
    assert quality["tools"] == {"vitis_hls": "2022.2", "vivado": "2022.2"}


def test_build_with_tools_that_nobody_sourced(tmp_path):
    put_install(tmp_path, "2025.1")
    build("kv260", tmp_path / "out", env=environment(STANDIN_BOARDS=KV260), roots=[tmp_path])
    quality = json.loads((tmp_path / "out/actdma.json").read_text())
    assert quality["tools"] == {"v++": "2025.1", "vivado": "2025.1"}


def test_vitis_run_packages_where_vpp_does_not(tools, tmp_path):
    build("kv260", tmp_path / "out", env={**tools, "STANDIN_PACKAGE": "run"}, roots=[])
    assert (tmp_path / "out/actdma.bit").is_file()


FAILURES = {
    "loop": ({"LOOPS": '{"good": 1, "slow": 2}'}, r"actdma_compress: .*/slow has II=2; every"),
    "no loop": ({"LOOPS": '{"frames": null}'}, "no pipelined loop in the reports"),
    "interval": (
        {"LOOPS": '{"odd": "undef"}'},
        "loop .*/odd has an initiation interval of 'undef'",
    ),
    "no core": ({"PACKAGE": "none"}, "left no IP core"),
    "slack": ({"WNS": "-0.2"}, r"timing is not met: WNS is -0\.2 ns; TNS is -2\.0 ns"),
    "hold": ({"WHS": "-0.01"}, r"timing is not met: WHS is -0\.01 ns"),
    "unconstrained": ({"UNCONSTRAINED": "3"}, "unconstrained_internal_endpoints finds 3"),
    "routes": ({"UNROUTED": "7"}, "routing failed: 39993 of 40000 nets are routed, 7 with errors"),
    "run": ({"RUN": "fail"}, "implementation stopped: place_design ERROR"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_failing_gates_leave_no_bitstream(failure, tools, tmp_path):
    """Nor that of an earlier build, which somebody might take for the new one."""
    settings, message = FAILURES[failure]
    out = tmp_path / "out"
    out.mkdir()
    for suffix in ("bit", "hwh", "json", "sha256"):
        (out / f"actdma.{suffix}").write_text("old")
    env = {**tools, **{f"STANDIN_{key}": value for key, value in settings.items()}}
    with pytest.raises(BuildError, match=message):
        build("kv260", out, env=env, roots=[])
    assert [path.name for path in out.iterdir()] == ["work"]


def test_failing_tool_says_why_and_where_its_log_is(tools, tmp_path):
    executable(
        tmp_path / "tools/bin/vivado",
        'test "$1" = -version && { echo v2023.2; exit; }\necho "ERROR: no licence"; exit 1\n',
    )
    message = r"vivado failed \(exit code 1\); log: .*\n  ERROR: no licence"
    with pytest.raises(BuildError, match=message):
        build("kv260", tmp_path / "out", env=tools, roots=[])


def make(*arguments, env=None):
    return subprocess.run(
        ["make", "-s", "-C", OVERLAY, *arguments], env=env, capture_output=True, text=True
    )


def test_make(tools, tmp_path):
    """The documented command, into another folder."""
    result = make("BOARD=aup-zu3", f"OUT={tmp_path / 'out'}", env=tools)
    assert result.returncode == 0, result.stderr
    assert "actdma.bit: 250.0 MHz, 0.123 ns to spare" in result.stdout
    assert (tmp_path / "out/actdma.sha256").is_file()


def test_make_without_tools_and_with_an_unknown_board(tmp_path):
    env, out = environment(), f"OUT={tmp_path}"
    result = make("BOARD=aup-zu3", out, env=env)
    assert result.returncode
    assert "overlay: v++ (or vitis_hls) and vivado not found" in result.stderr
    result = make("BOARD=kv26", env=env)
    assert "overlay: there is no board 'kv26' to build; known are zcu104, kv260" in result.stderr
    assert make("tcl", "BOARD=aup-zu3", out, env=env).returncode == 0
    assert (tmp_path / "work/block_design.tcl").is_file()


def test_the_build_imports_the_standard_library_alone():
    code = (
        "import sys; sys.path.insert(0, 'overlay'); import flow.build\n"
        "assert not {'numpy', 'actdma', 'torch', 'pynq'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_python_without_toml():
    code = (
        "import sys; sys.modules['tomllib'] = sys.modules['tomli'] = None\n"
        "sys.argv = ['flow', 'kv260']; import runpy; runpy.run_module('flow')"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=OVERLAY, capture_output=True, text=True
    )
    assert result.returncode == 1
    assert "is missing: the build needs Python 3.11 or later" in result.stderr
    assert result.stderr.count("\n") == 1


def test_ip_alone(tools, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(os, "environ", tools)
    assert main(["kv260", "--only", "ip", "--out", str(tmp_path)]) == 0
    assert "actdma_decompress: " in capsys.readouterr().out
    assert not (tmp_path / "work/vivado").exists()


# ---- reports ----


@pytest.mark.parametrize("report", ["", "WNS(ns)  TNS(ns)\n-------\nNA NA\n"])
def test_timing_report_without_figures(report):
    with pytest.raises(BuildError, match="no Design Timing Summary"):
        gates.check_timing(report)


def test_reports_without_their_tables():
    with pytest.raises(BuildError, match="no number of routable nets"):
        gates.check_routes("# of logical nets : 1")
    with pytest.raises(BuildError, match="no figures of LUTs"):
        gates.utilization("| DSPs | 1 | 0 | 0 | 360 | 0.28 |")
    with pytest.raises(BuildError, match=r"facts\.txt is incomplete"):
        gates.facts("vivado 2023.2\nboard_part \n")


def test_the_worst_report_of_a_loop_counts(tmp_path):
    folder = tmp_path / "syn/report"
    folder.mkdir(parents=True)
    loop = "<p><SummaryOfLoopLatency><l><PipelineII>{}</PipelineII></l></SummaryOfLoopLatency></p>"
    (folder / "a_csynth.xml").write_text(loop.format(1))
    (folder / "b_csynth.xml").write_text(loop.format(3))
    assert gates.loops(tmp_path) == {"a/l": 1, "b/l": 3}
    (folder / "csynth.xml").write_text("<p>")
    with pytest.raises(BuildError, match="no XML report"):
        gates.loops(tmp_path)
