"""The block design, described once: the Tcl for Vivado and the emulated board's .hwh agree.

The Tcl runs under plain tclsh against a stand-in for Vivado (tests/vivado), which rejects what
Vivado would reject.
"""

from __future__ import annotations

import fnmatch
import json
import re
import subprocess
import warnings
from pathlib import Path

import pytest
from pynqmetadata.frontends import Metadata
from pynqmetadata.views.runtime import RuntimeMetadataParser

import actdma.overlay.design as packaged
from actdma.emulation.hwh import write_hwh
from flow import OVERLAY, ROOT, TOPS, design, hls
from flow.block_design import block_design
from flow.tools import Tools
from toolchain import STANDINS, TCLSH, environment, put_tools

BUILDABLE = [name for name, board in design.load_boards().items() if board["part"] != "none"]


def board_part(board):
    return f"{board['board_part']}:1.4"


@pytest.fixture(scope="session")
def cores(tmp_path_factory):
    """Stand-ins for the IP cores of each board, by board."""
    assert TCLSH, "these tests need tclsh: install the package tcl"
    root = tmp_path_factory.mktemp("cores")
    put_tools(root, ("v++",))
    tools = Tools(str(root / "bin/v++"), None, "", (2023, 2), environment())
    return {
        name: [hls.build_ip(design.load_boards()[name], top, tools, root / name) for top in TOPS]
        for name in BUILDABLE
    }


def run_tcl(folder: Path, name: str, cores, text: str | None = None, **settings: str):
    """Run the build script on a block design; the record of it, or the error."""
    board = design.load_boards()[name]
    script = folder / "block_design.tcl"
    script.write_text(block_design(design.load_design(name)) if text is None else text)
    record = folder / "record.json"
    variables = {"RECORD": str(record), "BOARDS": board_part(board), **settings}
    result = subprocess.run(
        [
            *(TCLSH, STANDINS / "vivado.tcl", "-mode", "batch"),
            *("-source", OVERLAY / "tcl" / "build.tcl"),
            *("-tclargs", script, board["part"], board["board_part"], "2", *cores[name]),
        ],
        cwd=folder,
        env=environment(**{f"STANDIN_{key}": value for key, value in variables.items()}),
        capture_output=True,
        text=True,
    )
    if result.returncode:
        return None, result.stdout + result.stderr
    return json.loads(record.read_text()), result.stdout


def record_of(*arguments, **settings: str):
    """The record of a build that succeeds."""
    record, output = run_tcl(*arguments, **settings)
    assert record is not None, output
    return record


def parse(plan, folder: Path):
    """The .hwh of ``plan`` as pynq's own parser sees it."""
    file = folder / "actdma.hwh"
    file.write_text(write_hwh(plan))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        metadata = Metadata(input=str(file))
        return metadata, RuntimeMetadataParser(metadata)


def connections(metadata) -> set[frozenset[str]]:
    """Pairs of ports that a signal connects, as "cell/port"."""
    return {
        frozenset(f"{s.parent().parent().name}/{s.parent().name}" for s in (signal, other))
        for core in metadata.blocks.values()
        for port in core.ports.values()
        for signal in port.signals.values()
        for other in signal.connections().values()
    }


@pytest.mark.parametrize("name", BUILDABLE)
def test_tcl_and_hwh_say_the_same(name, cores, tmp_path):
    """Cells, parameters, connections and addresses of both, read back."""
    record = record_of(tmp_path, name, cores)
    plan = packaged.load_design(name)
    metadata, parser = parse(plan, tmp_path)
    assert set(record["cells"]) == set(metadata.blocks)
    for cell, recorded in record["cells"].items():
        core = metadata.blocks[cell]
        vendor, library, kind, version = recorded["vlnv"].split(":")
        found = core.vlnv
        assert (found.vendor, found.library, found.name) == (vendor, library, kind)
        assert ".".join(map(str, found.version)) == version
        for key, value in plan.cells[cell]["parameters"].items():
            assert recorded["parameters"][key] == str(core.parameters[key].value) == str(value)
    wired = {frozenset(link) for link in record["links"]}
    for driver, *pins in record["nets"].values():
        wired.update(frozenset((driver, pin)) for pin in pins)
    assert connections(metadata) == wired
    mapped = {
        segment.split("/")[0]: (offset, size)
        for space, segment, offset, size in record["assigned"]
        if space == "ps/Data"
    }
    assert mapped == {
        cell: (entry["phys_addr"], entry["addr_range"])
        for cell, entry in parser.ip_dict.items()
        if cell != "ps"
    }


@pytest.mark.parametrize("name", BUILDABLE)
def test_the_dmas_reach_memory_and_nothing_else(name, cores, tmp_path):
    record = record_of(tmp_path, name, cores)
    plan = design.load_design(name)
    reached = {(space, segment) for space, segment, *_ in record["assigned"] if space != "ps/Data"}
    assert {space for space, _ in reached} == set(plan.memory)
    for space, segment in reached:
        assert fnmatch.fnmatch(segment, f"ps/{plan.memory[space]}")
    for space, segment in record["excluded"]:
        assert not fnmatch.fnmatch(segment, f"ps/{plan.memory[space]}")


@pytest.mark.parametrize("name", BUILDABLE)
def test_tables_are_honoured(name, cores, tmp_path):
    """Width, bursts, clock and port widths of the board's table are those of the design."""
    board = design.load_boards()[name]
    record = record_of(tmp_path, name, cores)
    cells = {cell: entry["parameters"] for cell, entry in record["cells"].items()}
    for dma in design.load_design(name).dmas:
        assert cells[dma]["c_sg_length_width"] == "26"
        assert cells[dma]["c_addr_width"] == str(board["address_bits"])
        for channel in ("mm2s", "s2mm"):
            assert cells[dma][f"c_m_axi_{channel}_data_width"] == str(board["stream_bits"])
            assert cells[dma][f"c_{channel}_burst_size"] == str(board["burst"])
    ps = cells["ps"]
    widths = [value for key, value in ps.items() if re.search(r"S_?AXI.*DATA_WIDTH", key)]
    assert set(widths) - {"128"} <= {str(board["stream_bits"])}
    clocks = {"PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ", "PCW_FPGA0_PERIPHERAL_FREQMHZ"}
    assert [ps[key] for key in clocks & set(ps)] == [str(board["clock_mhz"])]
    assert record["cells"]["ps"]["preset"] == 1
    assert not board["memory_coherent"]
    assert all("HP" in port and "HPC" not in port for port in board["memory_ports"])


@pytest.mark.parametrize("name", BUILDABLE)
def test_interrupts_as_pynq_finds_them(name, tmp_path):
    _, parser = parse(packaged.load_design(name), tmp_path)
    assert list(parser.interrupt_controllers) == ["interrupt_controller"]
    pins = {pin: entry["index"] for pin, entry in parser.interrupt_pins.items()}
    assert {pin: index for pin, index in pins.items() if pin.endswith("introut")} == {
        "axi_dma_compress/mm2s_introut": 0,
        "axi_dma_compress/s2mm_introut": 1,
        "axi_dma_decompress/mm2s_introut": 2,
        "axi_dma_decompress/s2mm_introut": 3,
    }


@pytest.mark.parametrize("name", BUILDABLE)
def test_plain_part(name, cores, tmp_path):
    """Without Vivado's files for the board: the same design, with the family's settings alone."""
    with_files = record_of(tmp_path, name, cores)
    plain, output = run_tcl(tmp_path, name, cores, BOARDS="other:board:part0:1.0")
    assert "NOTE: no files for a board" in output
    assert plain["cells"]["ps"]["preset"] == 0
    assert plain["links"] == with_files["links"]
    assert plain["cells"]["ps"]["parameters"] == with_files["cells"]["ps"]["parameters"]


def test_newest_board_files_are_taken(cores, tmp_path):
    boards = "xilinx.com:kv260_som:part0:1.10 xilinx.com:kv260_som:part0:1.9 a:zcu104:part0:2.0"
    record_of(tmp_path, "kv260", cores, BOARDS=boards)
    assert "board_part xilinx.com:kv260_som:part0:1.10" in (tmp_path / "facts.txt").read_text()


def test_another_version_of_the_processor(cores, tmp_path):
    """2022.2 has zynq_ultra_ps_e 3.4."""
    record, output = run_tcl(tmp_path, "kv260", cores, PS="3.4")
    assert record["cells"]["ps"]["vlnv"] == "xilinx.com:ip:zynq_ultra_ps_e:3.4"
    assert "NOTE: xilinx.com:ip:zynq_ultra_ps_e:3.5 is not in the catalog" in output


# What somebody might get wrong: a change of the Tcl (pattern, replacement) and the complaint.
MISTAKES = {
    "command": ("^create_bd_design", "creat_bd_design", "invalid command name"),
    "option": ("-type ip", "-typ ip", "Unknown option '-typ'"),
    "ip": ("axi_intc:4.1", "axi_irqc:4.1", "axi_irqc:4.1 is not in the catalog"),
    "parameter": ("c_addr_width", "c_adr_width", "has no parameter 'c_adr_width'"),
    "value": (r"c_sg_length_width \{26\}", "c_sg_length_width {27}", "'27' of c_sg_length_width"),
    "pin": ("engine_compress/ap_clk", "engine_compress/clk", "no pins matches"),
    "interface": ("engine_compress/m_axis", "engine_compress/out", "no interfaces matches"),
    "cell": (r"get_bd_cells reset\b|get_bd_cells control", "get_bd_cells contrl", "no cells"),
    "two drivers": (
        r"\[get_bd_pins engine_reset_compress/Op1\]",
        "[get_bd_pins engine_reset_decompress/Res]",
        "has two drivers",
    ),
    "no driver": (
        r"\[get_bd_pins ps/pl_resetn0\]",
        "[get_bd_pins reset/aux_reset_in]",
        "no driver",
    ),
    "pin on two nets": (
        r"\[get_bd_pins engine_reset_compress/Op2\]",
        "[get_bd_pins engine_reset_compress/Op1]",
        "is on net compress_mm2s_reset already",
    ),
    "both masters": (
        "engine_compress/s_axis",
        "engine_decompress/m_axis",
        "are of mode Master",
    ),
    "kinds of interface": (
        "memory_compress/S01_AXI",
        "engine_compress/s_axis",
        "is aximm, .* is axis",
    ),
    "interface connected twice": ("control/M01_AXI", "control/M00_AXI", "is connected already"),
    "net width": (r"NUM_PORTS \{4\}", "NUM_PORTS {5}", "not connected: interrupts/In4"),
    "gate width": (r"C_SIZE \{1\}", "C_SIZE {2}", "width mismatch on net compress_mm2s_reset"),
    "clock from a reset": (
        r"  \[get_bd_pins engine_compress/ap_clk\] .*\n",
        "",
        "not connected: engine_compress/ap_clk",
    ),
    "clock pin on a reset net": (
        r"\[get_bd_pins interrupt_controller/s_axi_aresetn\]",
        "[get_bd_pins interrupt_controller/s_axi_aresetn] [get_bd_pins engine_compress/ap_clk]",
        "is on net clock already",
    ),
    "reset not connected": (
        r"connect_bd_net -net compress_engine_reset(.*\\\n)+.*\n",
        "",
        "not connected: engine_compress/ap_rst_n",
    ),
    "memory width": (
        r"PSU__SAXIGP2__DATA_WIDTH \{128\}",
        "PSU__SAXIGP9__DATA_WIDTH {128}",
        "has no parameter",
    ),
    "stream width": (
        r"c_m_axis_mm2s_tdata_width \{128\}",
        "c_m_axis_mm2s_tdata_width {64}",
        "width mismatch: axi_dma_compress/M_AXIS_MM2S has 64 bit",
    ),
    "port off": ("PSU__USE__S_AXI_GP3 {1}", "PSU__USE__S_AXI_GP3 {0}", "no interfaces matches"),
    "port left on": (
        "PSU__USE__M_AXI_GP2 {0}",
        "PSU__USE__M_AXI_GP2 {1}",
        "not connected: ps/maxihpm0_lpd_aclk",
    ),
    "register unmapped": (
        r"assign_bd_address .*axi_dma_decompress.*\n",
        "",
        "axi_dma_decompress/S_AXI_LITE/Reg is not mapped in ps/Data",
    ),
    "memory unmapped": (
        r"reach_memory axi_dma_compress/Data_S2MM.*\n",
        "",
        "HP0_DDR_LOW is not mapped in axi_dma_compress/Data_S2MM",
    ),
    "no such memory": ("HP1_DDR_[*]", "HP1_SRAM", "reaches no memory"),
    "wrong port's memory": ("ps/SAXIGP3/HP1_DDR_[*]", "ps/SAXIGP2/HP0_DDR_*", "no path from"),
    "registers overlap": ("-offset 0xA0010000", "-offset 0xA0000000", "overlaps"),
    "registers out of reach": ("-offset 0xA0010000", "-offset 0xC0010000", "outside of what"),
    "offset not aligned": ("-offset 0xA0010000", "-offset 0xA0018000", "are not aligned"),
    "automation": ("bd_rule:zynq_ultra_ps_e", "bd_rule:processing_system7", "does not apply"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_rejected(mistake, cores, tmp_path):
    pattern, replacement, complaint = MISTAKES[mistake]
    good = block_design(design.load_design("kv260"))
    if "{" in pattern and "\\{" not in pattern:
        pattern = re.escape(pattern)
    text, count = re.subn(pattern, replacement.replace("\\", r"\\"), good, flags=re.MULTILINE)
    assert count, "the design no longer has what this mistake changes"
    record, output = run_tcl(tmp_path, "kv260", cores, text)
    assert record is None
    assert re.search(complaint, output), output


def test_clock_domains(cores, tmp_path):
    """A cell on a clock of its own, without a converter."""
    good = block_design(design.load_design("kv260"))
    text = good.replace("  [get_bd_pins engine_compress/ap_clk] \\\n", "")
    text += (
        "create_bd_cell -type ip -vlnv xilinx.com:ip:zynq_ultra_ps_e:3.5 other\n"
        "set_property -dict [list CONFIG.PSU__USE__M_AXI_GP0 {0} CONFIG.PSU__USE__M_AXI_GP1 {0} "
        "CONFIG.PSU__USE__M_AXI_GP2 {0}] [get_bd_cells other]\n"
        "connect_bd_net -net second [get_bd_pins other/pl_clk0] "
        "[get_bd_pins engine_compress/ap_clk]\n"
    )
    record, output = run_tcl(tmp_path, "kv260", cores, text)
    assert record is None
    assert re.search(r"clock domains of .*engine_compress/s_axis \(second\) differ", output)


def test_every_board_has_what_the_build_needs():
    for name in BUILDABLE:
        board = design.load_boards()[name]
        assert {"part", "board_part", "clock_mhz", "stream_bits", "codecs", "pynq"} <= set(board)
        assert f"| {board['part']} " in (ROOT / "docs" / "hardware.md").read_text("utf-8")
    assert set(design.load_boards()["pynq-z2"]["codecs"]) == set(hls.BLOCK_CODECS)
