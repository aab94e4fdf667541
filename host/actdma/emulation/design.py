"""Boards and the block design, read from ``overlay/*.toml``."""

from __future__ import annotations

import copy
import dataclasses
import sys
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

GATE = ":util_vector_logic:"


@dataclasses.dataclass
class Design:
    """A block design with every ``$name`` of a board filled in.

    ``board`` is the board's table with its family's values; ``cells`` maps names to VLNV and
    parameters; ``interfaces`` maps "aximm" and "axis" to (driver, driven) pairs of
    "cell/interface"; ``nets`` maps names to pins, the driver first; ``addresses`` maps cells to
    their register windows.
    """

    name: str
    board: dict[str, Any]
    cells: dict[str, dict[str, Any]]
    interfaces: dict[str, list[list[str]]]
    nets: dict[str, list[str]]
    addresses: dict[str, dict[str, Any]]

    def driver_of(self, pin: str) -> str | None:
        """The pin that drives ``pin``, or None if it hangs in the air."""
        return next((net[0] for net in self.nets.values() if pin in net[1:]), None)

    def reset_sources(self, cell: str, pin: str = "ap_rst_n") -> set[str]:
        """The pins that pull ``cell``'s reset low, looked for through AND gates."""
        driver = self.driver_of(f"{cell}/{pin}")
        if driver is None:
            return set()
        gate = driver.partition("/")[0]
        if GATE not in self.cells[gate]["vlnv"]:
            return {driver}
        return self.reset_sources(gate, "Op1") | self.reset_sources(gate, "Op2")

    def streams_to(self, dma: str) -> str:
        """The cell that the DMA's stream output feeds."""
        source = f"{dma}/M_AXIS_MM2S"
        return next(to for of, to in self.interfaces["axis"] if of == source).partition("/")[0]

    def window(self, cell: str) -> tuple[int, int]:
        """Base address and size in bytes of the cell's registers."""
        entry = self.addresses[cell]
        return self.board["control_base"] + entry["offset"], entry["range"]


def load_boards() -> dict[str, dict[str, Any]]:
    """Every board of ``boards.toml``, with its family's values filled in."""
    data = tomllib.loads(_read("boards.toml"))
    families = data["families"]
    return {
        name: {**families[board["family"]], **board, "name": name}
        for name, board in data["boards"].items()
    }


def load_platforms() -> dict[str, dict[str, Any]]:
    """Every Alveo platform of ``alveo.toml``."""
    return tomllib.loads(_read("alveo.toml"))["platforms"]


def load_design(board: str = "emulated", **override: Any) -> Design:
    """The block design for a board; ``override`` replaces values of the board
    (``stream_bits=512``)."""
    boards = load_boards()
    if board not in boards:
        raise ValueError(f"unknown board {board!r}; known are {', '.join(boards)}")
    values = {**boards[board], **override}
    data = _fill(tomllib.loads(_read("design.toml")), _names(values))
    templates = data.pop("templates")
    for cell in data["cells"].values():
        parameters = {**templates.get(cell.pop("like", ""), {}), **cell.get("parameters", {})}
        cell["parameters"] = copy.deepcopy(parameters)
    return Design(board=values, **data)


def _names(values: dict[str, Any]) -> dict[str, Any]:
    """What a ``$name`` may be: the board's values, and ``name_0``, ``name_1`` of its lists."""
    names = dict(values)
    for name, value in values.items():
        if isinstance(value, list):
            names.update({f"{name}_{number}": item for number, item in enumerate(value)})
    return names


def _fill(node: Any, names: dict[str, Any]) -> Any:
    if isinstance(node, dict):
        return {key: _fill(value, names) for key, value in node.items()}
    if isinstance(node, list):
        return [_fill(value, names) for value in node]
    if isinstance(node, str):
        return Template(node).substitute(names)
    return node


def _read(name: str) -> str:
    """The text of a file of ``overlay/``: installed as package data, else in the source tree."""
    try:
        return resources.files("actdma.overlay").joinpath(name).read_text("utf-8")
    except (ModuleNotFoundError, FileNotFoundError):
        return (Path(__file__).parents[3] / "overlay" / name).read_text("utf-8")
