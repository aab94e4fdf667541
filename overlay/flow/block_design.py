"""The block design as Tcl for Vivado. overlay/tcl/build.tcl sources it; overlay/tcl/procs.tcl has
the procedures that it calls."""

from __future__ import annotations

from typing import Any


def block_design(design: Any) -> str:
    """Tcl that makes ``design`` (an `actdma.overlay.design.Design`) in an open project."""
    board = design.board
    lines = [
        f"# Made from overlay/design.toml for {board['title']}. To change it, change that file.",
        f"create_bd_design {design.name}",
        "",
    ]
    for name, cell in design.cells.items():
        lines.append(f"create_bd_cell -type ip -vlnv [in_catalog {cell['vlnv']}] {name}")
        if name == "ps":
            external = f" {{{board['ps_external']}}}" if board["ps_external"] else ""
            lines.append(f"preset_processor ps {board['ps_rule']}{external}")
        if cell["parameters"]:
            lines.append("set_property -dict [list \\")
            lines += [f"  CONFIG.{key} {{{value}}} \\" for key, value in cell["parameters"].items()]
            lines.append(f"] [get_bd_cells {name}]")
    lines.append("")
    for pairs in design.interfaces.values():
        lines += [
            f"connect_bd_intf_net [get_bd_intf_pins {driver}] [get_bd_intf_pins {driven}]"
            for driver, driven in pairs
        ]
    for net, pins in design.nets.items():
        lines.append(f"connect_bd_net -net {net} \\")
        lines.append(" \\\n".join(f"  [get_bd_pins {pin}]" for pin in pins))
    lines.append("")
    for cell, entry in design.addresses.items():
        base, size = design.window(cell)
        lines.append(
            f"assign_bd_address -offset 0x{base:08X} -range 0x{size:X} "
            "-target_address_space [get_bd_addr_spaces ps/Data] "
            f"[get_bd_addr_segs {cell}/{entry['segment']}] -force"
        )
    lines += [f"reach_memory {space} ps/{windows}" for space, windows in design.memory.items()]
    return "\n".join([*lines, ""])
