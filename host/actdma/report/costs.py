"""What is drawn of the studies of layouts, of what a step costs, and of boards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from . import charts
from .blocks import Block, Chart
from .charts import Curve
from .shapes import Maybe, grouped

Figures = Sequence[Mapping[str, Any]]

LAYOUTS = [{"network": str, "dtype": str, "order": str, "ratios": {str: float}}]


def layouts(figures: Figures) -> Iterator[Block]:
    """Ratios by network and memory order; codec and dtype are chosen."""
    networks = [*dict.fromkeys(f["network"] for f in figures)]
    codecs = dict.fromkeys(codec for f in figures for codec in f["ratios"] if codec != "raw")
    codecs = sorted(codecs, key=lambda codec: codec == "element runs")  # which is built nowhere
    choices = {
        f"{codec}, {dtype}": {
            order: _by_network(found, networks, lambda f, codec=codec: f["ratios"].get(codec))
            for order, found in grouped(of_dtype, "order").items()
        }
        for codec in codecs
        for dtype, of_dtype in grouped(figures, "dtype").items()
    }
    bars = charts.grouped_bars(networks, choices, "raw bytes per compressed byte, measured")
    yield Chart(bars, "measured", "Ratios by memory order; codec and dtype are chosen above.")


BLOCKS = [
    {
        "network": str,
        "dtype": str,
        "codec": str,
        "block": float,
        "group": Maybe(float),
        "ratio": float,
    }
]


def blocks(figures: Figures) -> Iterator[Block]:
    """Ratio over the bytes of a block, by codec, and over the elements of a group."""
    panels: dict[str, list[Curve]] = {}
    for of, found in grouped(figures, "network", "dtype").items():
        for codec, of_codec in grouped(found, "codec").items():
            for axis, other in (("block", "group"), ("group", "block")):
                most, points = _longest(of_codec, axis, other)
                if len(points) > 1:
                    what = "bytes of a block" if axis == "block" else "elements of a group"
                    rest = f", {other}s of {most:g}" if most else ""
                    panel = panels.setdefault(f"{codec}{rest}: over {what}", [])
                    panel.append(Curve(of, [f[axis] for f in points], [f["ratio"] for f in points]))
    title = "ratio of the payload, measured"
    chart = charts.curves(panels, "size", title, powers=True, from_zero=False)
    yield Chart(chart, "measured", "Ratio of the payload over the sizes of blocks and groups.")


def _longest(figures: Figures, axis: str, other: str) -> tuple[float | None, Figures]:
    """The value of ``other`` that has the most sizes along ``axis``, and its figures in order."""
    by_other: dict[float | None, list[Mapping[str, Any]]] = {}
    for f in figures:
        if f[axis] is not None:
            by_other.setdefault(f[other], []).append(f)
    if not by_other:
        return None, []
    value = max(by_other, key=lambda key: len(by_other[key]))
    return value, sorted(by_other[value], key=lambda f: f[axis])


STEP = [{"network": str, "row": str, "wall_of_plain": float, "held_of_plain": float}]
EXACT = [{**STEP[0], "dtype": str}]


def step(figures: Figures) -> Iterator[Block]:
    """Time against bytes held, a panel for each network."""
    yield _costs(grouped(figures, "network"))


def exact(figures: Figures) -> Iterator[Block]:
    """Time against bytes held, a panel for each network and dtype."""
    yield _costs(grouped(figures, "network", "dtype"))


def _costs(panels: Mapping[str, Figures]) -> Chart:
    chart = charts.time_against_memory(panels)
    caption = "Time of a step against what it holds for backward, both of the plain step's."
    return Chart(chart, "measured", caption)


MEMORY = [{"network": str, "dtype": str, "order": str, "row": str, "held_of_plain": float}]


def memory(figures: Figures) -> Iterator[Block]:
    """Bytes held, by network and row; dtype and memory order are chosen."""
    networks = [*dict.fromkeys(f["network"] for f in figures)]
    choices = {
        choice: {
            row: _by_network(of_row, networks, lambda f: f["held_of_plain"])
            for row, of_row in grouped(found, "row").items()
        }
        for choice, found in grouped(figures, "dtype", "order").items()
    }
    bars = charts.grouped_bars(networks, choices, "bytes held, of plain, measured")
    yield Chart(bars, "measured", "Bytes held for backward; dtype and order are chosen above.")


def _by_network(found: Figures, networks: Sequence[str], value: Any) -> list[float | None]:
    of = {f["network"]: value(f) for f in found}
    return [of.get(network) for network in networks]


_WAYS = ("compress", "decompress")
_RATES = {f"{way}_{unit}": float for way in _WAYS for unit in ("mb_per_s", "beats_per_cycle")}
EMULATED = [{"element_bytes": float, "zeros": float, "untimed": _RATES, "timed": _RATES}]


def emulated(figures: Figures) -> Iterator[Block]:
    """What the emulated board takes on this machine, and what it models of a real one."""
    for unit, run, title, kind in (
        ("mb_per_s", "untimed", "MB/s of processor time, measured", "measured"),
        ("beats_per_cycle", "timed", "beats per cycle, modelled", "modelled"),
    ):
        panels = {
            way: [
                Curve(
                    f"{size:g} bytes per element",
                    [f["zeros"] for f in figures if f["element_bytes"] == size],
                    [f[run][f"{way}_{unit}"] for f in figures if f["element_bytes"] == size],
                )
                for size in dict.fromkeys(f["element_bytes"] for f in figures)
            ]
            for way in _WAYS
        }
        chart = charts.curves(panels, "share of zeros", title)
        yield Chart(chart, kind, f"The emulated board over the share of zeros: {title}.")


STREAM = [{"frame_bytes": float, "way": str, "fabric_gb_per_s": float, "gb_per_s": float}]


def stream(figures: Figures) -> Iterator[Block]:
    """Rates of a stream of frames over their size, with the driver and without."""
    panels = {
        way: [
            Curve(name, [f["frame_bytes"] / 1024 for f in found], [f[key] for f in found])
            for name, key in (("fabric alone", "fabric_gb_per_s"), ("with driver", "gb_per_s"))
        ]
        for way, found in grouped(figures, "way").items()
    }
    chart = charts.curves(panels, "KiB of a frame", "GB/s of raw data, modelled", powers=True)
    yield Chart(chart, "modelled", "A long stream through a board, by the size of its frames.")


SPARSE = [{"block": float, "density": float, "ratio": float}]


def sparse(figures: Figures) -> Iterator[Block]:
    """Time of the block-sparse product, of the dense one's, over density."""
    curves = [
        Curve(
            f"blocks of {block:g}",
            [f["density"] for f in figures if f["block"] == block],
            [f["ratio"] for f in figures if f["block"] == block],
        )
        for block in dict.fromkeys(f["block"] for f in figures)
    ]
    title = "time, of the dense product's, measured"
    chart = charts.curves({"": curves}, "kept blocks per block", title, level=1)
    yield Chart(chart, "measured", "The weight gradient of kept blocks, beside the dense product.")
