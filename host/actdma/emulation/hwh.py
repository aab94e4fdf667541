"""Writes the hardware handoff (.hwh) that pynq reads beside a bitstream, from the block design.

Only what pynq's parser reads is written: modules with their parameters, bus interfaces with their
port maps, and the processor's memory map. Ports carry no wires: pynq follows none of this design's.
"""

from __future__ import annotations

from xml.etree import ElementTree as ET

from .design import Design

_VLNV = {"aximm": "xilinx.com:interface:aximm:1.0", "axis": "xilinx.com:interface:axis:1.0"}


def write_hwh(design: Design) -> str:
    """The .hwh of ``design`` as XML text."""
    root = ET.Element("EDKSYSTEM", EDWVERSION="1.2", VIVADOVERSION="none: emulated")
    ET.SubElement(
        root,
        "SYSTEMINFO",
        ARCH=design.board["family"],
        DEVICE=design.board["part"],
        NAME=design.name,
    )
    ET.SubElement(root, "EXTERNALPORTS")
    ET.SubElement(root, "EXTERNALINTERFACES")
    modules = ET.SubElement(root, "MODULES")
    for name in design.cells:
        _module(modules, design, name)
    ET.indent(root)
    return ET.tostring(root, encoding="utf-8", xml_declaration=True).decode()


def _module(parent: ET.Element, design: Design, name: str) -> None:
    cell = design.cells[name]
    modtype = cell["vlnv"].split(":")[2]
    module = ET.SubElement(
        parent,
        "MODULE",
        FULLNAME=f"/{name}",
        INSTANCE=name,
        MODTYPE=modtype,
        VLNV=cell["vlnv"],
        IPTYPE="PERIPHERAL",
    )
    parameters = ET.SubElement(module, "PARAMETERS")
    processor = name == "ps"
    values = {**cell["parameters"], **(_clocks(design) if processor else {})}
    for key, value in values.items():
        ET.SubElement(parameters, "PARAMETER", NAME=key, VALUE=str(value))
    ports = ET.SubElement(module, "PORTS")
    interfaces = ET.SubElement(module, "BUSINTERFACES")
    for kind, pairs in design.interfaces.items():
        for pair in pairs:
            for end, driver in zip(pair, (True, False), strict=True):
                owner, _, interface = end.partition("/")
                if owner == name:
                    _interface(ports, interfaces, kind, interface, driver)
    if processor:
        _memory_map(ET.SubElement(module, "MEMORYMAP"), design)


def _interface(
    ports: ET.Element, interfaces: ET.Element, kind: str, name: str, driver: bool
) -> None:
    """A bus interface with a single signal: the parser wants a port map, and follows none of
    ours."""
    ends = {"aximm": ("MASTER", "SLAVE"), "axis": ("INITIATOR", "TARGET")}[kind]
    logical = {"aximm": "ARVALID", "axis": "TVALID"}[kind]
    physical = f"{name}_{logical.lower()}"
    ET.SubElement(ports, "PORT", DIR="O" if driver else "I", NAME=physical, SIGIS="undef")
    bus = ET.SubElement(
        interfaces, "BUSINTERFACE", NAME=name, TYPE=ends[0 if driver else 1], VLNV=_VLNV[kind]
    )
    maps = ET.SubElement(bus, "PORTMAPS")
    ET.SubElement(maps, "PORTMAP", LOGICAL=logical, PHYSICAL=physical)


def _memory_map(parent: ET.Element, design: Design) -> None:
    for cell, entry in design.addresses.items():
        base, size = design.window(cell)
        ET.SubElement(
            parent,
            "MEMRANGE",
            ADDRESSBLOCK="Reg",
            BASEVALUE=f"0x{base:08X}",
            HIGHVALUE=f"0x{base + size - 1:08X}",
            INSTANCE=cell,
            MASTERBUSINTERFACE=design.board["control_port"],
            MEMTYPE="REGISTER",
            SLAVEBUSINTERFACE=entry["interface"],
        )


def _clocks(design: Design) -> dict[str, str]:
    """The processor's PL clock parameters: clock 0 runs the design, the others are off."""
    board = design.board
    source = board["ref_mhz"] * board["pll_multiplier"]
    values = {}
    for number in range(4):
        mhz = board["clock_mhz"] if number == 0 else 100
        register = f"PSU__CRL_APB__PL{number}_REF_CTRL__"
        values[f"PSU__FPGA_PL{number}_ENABLE"] = str(int(number == 0))
        values[register + "DIVISOR0"] = str(round(source / mhz))
        values[register + "DIVISOR1"] = "1"
        values[register + "SRCSEL"] = "IOPLL"
        values[register + "ACT_FREQMHZ"] = str(mhz)
    return values
