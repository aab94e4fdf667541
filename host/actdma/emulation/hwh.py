"""Writes the hardware handoff (.hwh) that pynq reads beside a bitstream, from the block design.

What pynq's parser reads is written: modules with their parameters, ports with the nets between
them, bus interfaces with their port maps, and the processor's memory map. Of the signals of a bus
only the handshake's first is written: it shows which interfaces are connected.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree as ET

from ..overlay.design import Design

_VLNV = {"aximm": "xilinx.com:interface:aximm:1.0", "axis": "xilinx.com:interface:axis:1.0"}
_SIGNAL = {"aximm": "ARVALID", "axis": "TVALID"}
_ENDS = {"aximm": ("MASTER", "SLAVE"), "axis": ("INITIATOR", "TARGET")}
_SIGIS = {"clock": "clk", "reset": "rst", "interrupt": "INTERRUPT"}


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
    module = ET.SubElement(
        parent,
        "MODULE",
        FULLNAME=f"/{name}",
        INSTANCE=name,
        MODTYPE=cell["vlnv"].split(":")[2],
        VLNV=cell["vlnv"],
        IPTYPE="PERIPHERAL",
    )
    parameters = ET.SubElement(module, "PARAMETERS")
    processor = name == "ps"
    values = {**cell["parameters"], **(_clocks(design) if processor else {})}
    for key, value in values.items():
        ET.SubElement(parameters, "PARAMETER", NAME=key, VALUE=str(value))
    ports = ET.SubElement(module, "PORTS")
    for net, pins, kind in _nets(design):
        _ports(ports, name, net, pins, kind)
    interfaces = ET.SubElement(module, "BUSINTERFACES")
    for kind, pairs in design.interfaces.items():
        for pair in pairs:
            for end, role in zip(pair, _ENDS[kind], strict=True):
                if end.startswith(f"{name}/"):
                    _interface(interfaces, kind, end.partition("/")[2], _bus(pair), role)
    if processor:
        _memory_map(ET.SubElement(module, "MEMORYMAP"), design)


def _nets(design: Design) -> Iterator[tuple[str, list[str], str]]:
    """Name, pins (the driver first) and kind of every net, the buses' one signal among them."""
    for net, pins in design.nets.items():
        yield net, pins, _SIGIS[net.rpartition("_")[2]]
    for kind, pairs in design.interfaces.items():
        for pair in pairs:
            pins = [f"{cell}/{_signal(kind, name)}" for cell, name in map(_split, pair)]
            yield f"{_bus(pair)}_{_SIGNAL[kind]}", pins, "undef"


def _ports(parent: ET.Element, cell: str, net: str, pins: list[str], kind: str) -> None:
    """The cell's ports on a net: its driver is connected to all others, they to the driver."""
    for number, pin in enumerate(pins):
        owner, name = _split(pin)
        if owner != cell:
            continue
        direction = "I" if number else "O"
        port = ET.SubElement(parent, "PORT", DIR=direction, NAME=name, SIGIS=kind, SIGNAME=net)
        connections = ET.SubElement(port, "CONNECTIONS")
        for other in pins[:1] if number else pins[1:]:
            instance, other_name = _split(other)
            ET.SubElement(connections, "CONNECTION", INSTANCE=instance, PORT=other_name)


def _interface(parent: ET.Element, kind: str, name: str, bus: str, role: str) -> None:
    element = ET.SubElement(
        parent, "BUSINTERFACE", BUSNAME=bus, NAME=name, TYPE=role, VLNV=_VLNV[kind]
    )
    maps = ET.SubElement(element, "PORTMAPS")
    ET.SubElement(maps, "PORTMAP", LOGICAL=_SIGNAL[kind], PHYSICAL=_signal(kind, name))


def _split(pin: str) -> tuple[str, str]:
    cell, _, name = pin.partition("/")
    return cell, name


def _bus(pair: list[str]) -> str:
    return pair[0].replace("/", "_")


def _signal(kind: str, interface: str) -> str:
    return f"{interface}_{_SIGNAL[kind].lower()}"


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
        clock = {
            "enable": int(number == 0),
            "divisor0": round(source / mhz),
            "divisor1": 1,
            "source": "IOPLL",
            "mhz": mhz,
        }
        names = board["clock_parameters"]
        values.update({names[key].format(number): str(value) for key, value in clock.items()})
    return values
