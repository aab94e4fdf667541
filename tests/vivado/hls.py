"""A stand-in for v++, vitis-run and vitis_hls: checks what it is asked and writes what they write.

Run as ``python hls.py v++ -c --mode hls ...``. Environment: STANDIN_VERSION; STANDIN_LOOPS (JSON:
loop names and their intervals, else all of 1); STANDIN_PACKAGE ("run": v++ leaves packaging to
vitis-run; "none": nobody packages).
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

KEYS = {
    "part": 1,
    "flow_target": 1,
    "package.output.format": 1,
    "clock": 1,
    "syn.top": 1,
    "syn.file": 1,
    "syn.cflags": 1,
    "syn.storage": 1,
    "tb.file": 9,
    "tb.cflags": 1,
}
BANNERS = {
    "v++": "****** v++ v{} (64-bit)",
    "vitis-run": "****** vitis-run v{} (64-bit)",
    "vitis_hls": "****** Vitis HLS - High-Level Synthesis from C, C++ and OpenCL v{} (64-bit)",
}
# The commands that the flow may use; what they were given comes out as JSON on stdout.
TCL = """
foreach command {open_project set_top add_files open_solution set_part create_clock
    config_storage csynth_design export_design} {
  proc $command {args} "return \\[::note $command {*}\\$args\\]"
}
proc note {args} {
  set words [lmap word $args {string cat \\" [string map {\\\\ \\\\\\\\ \\" \\\\\\"} $word] \\"}]
  puts "\\[[join $words ,]\\]"
}
source [lindex $argv 0]
"""
COMPONENT = """<?xml version="1.0" encoding="UTF-8"?>
<spirit:component>
  <spirit:vendor>xilinx.com</spirit:vendor>
  <spirit:library>hls</spirit:library>
  <spirit:name>{top}</spirit:name>
  <spirit:version>1.0</spirit:version>
  <spirit:busInterfaces>{interfaces}
  </spirit:busInterfaces>
</spirit:component>
"""
INTERFACE = """
    <spirit:busInterface>
      <spirit:name>{name}</spirit:name>
      <spirit:{mode}/>
      <spirit:parameters><spirit:parameter><spirit:name>TDATA_NUM_BYTES</spirit:name>
        <spirit:value spirit:id="TDATA_NUM_BYTES">{bytes}</spirit:value>
      </spirit:parameter></spirit:parameters>
    </spirit:busInterface>"""


def main(tool: str, arguments: list[str]) -> int:
    if arguments[0] in ("-version", "--version"):
        print(BANNERS[tool].format(os.environ.get("STANDIN_VERSION", "2023.2")))
        return 0
    try:
        if tool == "vitis_hls":
            run_script(arguments)
        else:
            run_config(tool, arguments)
    except (AssertionError, KeyError, OSError) as error:
        print(f"ERROR: [HLS 200-70] {error!r}")
        return 1
    return 0


def run_config(tool: str, arguments: list[str]) -> None:
    expected = {"v++": ["-c", "--mode", "hls"], "vitis-run": ["--mode", "hls", "--package"]}[tool]
    head, options = arguments[: len(expected)], arguments[len(expected) :]
    assert head == expected, arguments
    options = dict(zip(options[::2], options[1::2], strict=True))
    values: dict[str, list[str]] = {}
    for line in Path(options["--config"]).read_text().splitlines():
        key, separator, value = line.partition("=")
        if separator:
            values.setdefault(key, []).append(value)
    for key, found in values.items():
        assert len(found) <= KEYS[key], key
    assert values["flow_target"] == ["vivado"]
    assert values["package.output.format"] == ["ip_catalog"]
    assert re.fullmatch(r"\d+MHz", values["clock"][0])
    check_storage(values["syn.storage"][0].replace("=", " ").split())
    (top,), (source,), (flags,) = values["syn.top"], values["syn.file"], values["syn.cflags"]
    for file in values["tb.file"]:
        assert Path(file).is_file(), file
    folder = Path(options["--work_dir"], "hls")
    packaging = os.environ.get("STANDIN_PACKAGE", "v++")
    if tool == "v++":
        write_reports(folder / "syn/report", top)
    if packaging == "v++" or (tool == "vitis-run" and packaging == "run"):
        write_core(folder / "impl/ip", top, Path(source), flags)


def run_script(arguments: list[str]) -> None:
    option, script = arguments
    assert option == "-f"
    result = subprocess.run(
        ["tclsh", "/dev/stdin", script], input=TCL, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    calls = [json.loads(line) for line in result.stdout.splitlines()]
    by_name = {call[0]: call[1:] for call in reversed(calls)}
    order = list(dict.fromkeys(call[0] for call in calls))
    assert order[0] == "open_project", order
    assert order[-2:] == ["csynth_design", "export_design"], order
    (top,) = by_name["set_top"]
    source, _, flags = by_name["add_files"]
    assert by_name["export_design"] == ["-format", "ip_catalog"]
    assert float(by_name["create_clock"][1]) > 0
    check_storage([word.lstrip("-") for word in by_name["config_storage"]])
    folder = Path(by_name["open_project"][-1], by_name["open_solution"][-1])
    write_reports(folder / "syn/report", top)
    write_core(folder / "impl/ip", top, Path(source), flags)


def check_storage(words: list[str]) -> None:
    assert words[0] == "fifo", words
    options = dict(zip(words[1::2], words[2::2], strict=True))
    assert options.pop("impl", "auto") == "auto"
    assert set(options) == {"auto_srl_max_bits", "auto_srl_max_depth"}
    assert all(int(value) >= 0 for value in options.values())


def write_reports(folder: Path, top: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    intervals = json.loads(os.environ.get("STANDIN_LOOPS", '{"beats": 1, "frames": null}'))
    loops = "".join(
        f"<{name}><Name>{name}</Name><TripCount>undef</TripCount>"
        + ("" if interval is None else f"<PipelineII>{interval}</PipelineII>")
        + f"</{name}>"
        for name, interval in intervals.items()
    )
    report = (
        "<profile><PerformanceEstimates><SummaryOfLoopLatency>"
        f"{loops}</SummaryOfLoopLatency></PerformanceEstimates></profile>"
    )
    (folder / f"{top}_csynth.xml").write_text(report)


def write_core(folder: Path, top: str, source: Path, flags: str) -> None:
    """The core's streams are those of the source's pragmas, so that a changed name is seen."""
    lanes = int(re.search(r"-DACTDMA_LANES=(\d+)", flags)[1])
    include = re.search(r"-I(\S+)", flags)[1]
    assert Path(include, "actdma").is_dir(), include
    names = re.findall(r"#pragma HLS INTERFACE mode = axis port = (\w+)", source.read_text())
    body = source.read_text()
    assert f"void {top}(" in body, top
    modes = ["slave", "master"]
    interfaces = "".join(
        INTERFACE.format(name=name, mode=mode, bytes=4 * lanes)
        for name, mode in zip(names, modes, strict=True)
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "component.xml").write_text(COMPONENT.format(top=top, interfaces=interfaces))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
