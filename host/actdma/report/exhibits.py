"""What is drawn of each file, and in which section."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from . import charts, costs
from .blocks import Block, Chart, Heading, Table, Tile
from .shapes import Maybe, grouped, shaped
from .sources import BY_COLUMN, Source

LONG = 14  # rows; longer tables are folded
OTHERS = "others"

Draw = Callable[[Any], Iterable[Block]]
Sum = Callable[[Any], Iterable[Tile]]
Head = Callable[[Any], Heading]


@dataclasses.dataclass(frozen=True)
class Exhibit:
    """What is shown of the files of a kind (`Source.what`), and the ``command`` that writes one.

    ``draw`` and ``tiles`` are given the data, or, of a study, its figures if they have the
    ``shape`` (`shaped`); ShapeError if they have not. ``heading`` is given the data.
    """

    what: str
    command: str
    draw: Draw = lambda data: ()
    tiles: Sum = lambda data: ()
    shape: Any = None
    heading: Head = lambda data: study_heading(data)

    def data(self, source: Source) -> Any:
        """What is drawn; ShapeError if it is not there."""
        return source.data if self.shape is None else shaped(source.figures, self.shape, "figures")


@dataclasses.dataclass(frozen=True)
class Section:
    """A part of the page."""

    anchor: str
    title: str
    exhibits: tuple[Exhibit, ...]


def study_heading(data: Mapping[str, Any]) -> Heading:
    """What a study is of, and the command that made it."""
    return Heading(data["study"]["title"], f"{data['caption']}.", data["command"])


def study_table(data: Mapping[str, Any]) -> Table:
    """The table of a study, as it was printed."""
    rows, study = data["rows"], data["study"]
    return Table(data["columns"], rows, study["kind"], study["title"], folded=len(rows) > LONG)


# A training step through the codec


def step_title(data: Mapping[str, Any]) -> str:
    """What was run."""
    options = data["environment"]["options"]
    if options is None:
        what = f"{data['totals']['tensors']:g} saved tensors"
    else:
        what = f"{options['model']}, batch {options['batch']:g}, {options['dtype']}"
    return f"{what}, backend {data['environment']['backend']}"


def step_heading(data: Mapping[str, Any]) -> Heading:
    """What was run, and on what."""
    return Heading(step_title(data), f"On {data['environment']['cpu']}.")


def step_tiles(data: Mapping[str, Any]) -> Iterator[Tile]:
    """Ratio, bytes, and whether gradients are the plain run's."""
    totals, title = data["totals"], step_title(data)
    if totals["ratio"] is not None:
        yield Tile(f"ratio: {title}", f"{totals['ratio']:.2f}", "measured")
    stored = f"{totals['stored_bytes'] / 1e6:.1f} of {totals['raw_bytes'] / 1e6:.1f} MB"
    yield Tile(f"stored: {title}", stored, "measured")
    if totals["gradients_identical"] is not None:
        verdict = "identical" if totals["gradients_identical"] else "DIFFERENT"
        yield Tile(f"gradients beside the plain run's: {title}", verdict, "measured")


def step(data: Mapping[str, Any]) -> Iterator[Block]:
    """A training step that `actdma measure` or a session has recorded."""
    timing = data["totals"]["timing"]
    board = data["environment"]["board"]
    clock = board and board["clock_mhz"]
    lines = [
        {_named(name, timing): cell for name, cell in _record_cells(record, clock, timing).items()}
        for record in data["records"]
    ]
    ranks = [record["rank"] for record in data["records"]]
    several = any(rank is not None for rank in ranks)
    if several:
        names = ["" if rank is None else f"{rank:g}" for rank in ranks]
        lines = [{"rank": name, **line} for name, line in zip(names, lines, strict=True)]
    yield Table(("what", "measured"), _totals(data["totals"]), "measured", "Totals")
    if not lines:
        return
    yield Chart(
        charts.layers_of_step(data["records"], [_hover(line) for line in lines]),
        "measured",
        "Every saved tensor, in the order of the forward pass"
        f"{', one rank after the other' * several}: raw bytes, and what is stored of them.",
    )
    rows = [[*line.values()] for line in lines]
    yield Table([*lines[0]], rows, BY_COLUMN, "Every saved tensor", folded=True)


_OF_RATES = ("GB/s in", "GB/s out")
_OF_COUNTS = ("MB", "stored MB", "ratio", "zeros")


def _named(column: str, timing: str) -> str:
    """A column's name, with the kind of what is in it."""
    if column in _OF_RATES:
        return f"{column}, {timing}"
    return f"{column}, measured" if column in _OF_COUNTS else column


def _record_cells(record: Mapping[str, Any], clock: float | None, timing: str) -> dict[str, str]:
    """The cells of a record, by column."""
    rates = (_rate(record, way, clock, timing) for way in ("compress", "decompress"))
    return {
        "#": f"{record['index']:g}",
        "saved by": record["module"] or record["operator"] or "",
        "made by": record["operator"] or "",
        "shape": _shape(record["shape"]),
        "dtype": record["dtype"],
        "held as": record["form"],
        "codec": record["codec"],
        "MB": f"{record['raw_bytes'] / 1e6:.3f}",
        "stored MB": f"{record['stored_bytes'] / 1e6:.3f}",
        "ratio": "" if record["ratio"] is None else f"{record['ratio']:.2f}",
        "zeros": f"{record['zero_fraction']:.1%}",
        **dict(zip(_OF_RATES, rates, strict=True)),
    }


def _rate(record: Mapping[str, Any], way: str, clock: float | None, timing: str) -> str:
    """GB/s of raw data: of the fabric by its cycles where it is modelled, else by the clock."""
    seconds = record[f"{way}_s"]
    if timing == "modelled":
        cycles = record[f"{way}_cycles"]
        seconds = cycles / clock / 1e6 if cycles and clock else None
    return f"{record['raw_bytes'] / seconds / 1e9:.2f}" if seconds else ""


def _hover(cells: Mapping[str, str]) -> list[str]:
    return [f"{name}: {value}" for name, value in cells.items() if value]


def _totals(totals: Mapping[str, Any]) -> list[list[str]]:
    ratio = "" if totals["ratio"] is None else f", ratio {totals['ratio']:.2f}"
    zeros = totals["zero_fraction"]
    rows = [
        ["PyTorch would hold", f"{totals['plain_bytes'] / 1e6:.2f} MB"],
        ["through the codec", f"{totals['raw_bytes'] / 1e6:.2f} MB in {totals['tensors']} tensors"],
        ["stored", f"{totals['stored_bytes'] / 1e6:.2f} MB{ratio}"],
        ["held for backward", f"{totals['held_bytes_peak'] / 1e6:.2f} MB at the peak"],
    ]
    return rows if zeros is None else [*rows, ["zeros", f"{zeros:.1%}, weighted by bytes"]]


# Networks

RATIOS = [
    {
        "network": str,
        "dtype": str,
        "weights": str,
        "input": str,
        "raw_bytes": float,
        "ratios": {str: float},
        "layers": [
            {
                "module": str,
                "operator": str,
                "shape": [float],
                "raw_bytes": float,
                "density": float,
                "ratios": {str: float},
            }
        ],
    }
]


def ratios_tiles(figures: Sequence[Mapping[str, Any]]) -> Iterator[Tile]:
    """From the network that compresses the least to the one that does the most."""
    for dtype in ("float32", "bfloat16"):
        found = [f["ratios"] for f in figures if f["dtype"] == dtype and "auto" in f["ratios"]]
        values = [ratios["auto"] for ratios in found]
        if len(values) > 1:
            label = f"lossless ratio (auto) of {len(values)} networks in {dtype}"
            yield Tile(label, f"{min(values):.2f} to {max(values):.2f}", "measured")


def ratios(figures: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    """Ratios by network, then each network's by layer."""
    by_dtype = grouped(figures, "dtype")
    several = {dtype: found for dtype, found in by_dtype.items() if len(found) > 1}
    if several:
        names = [*dict.fromkeys(f["network"] for found in several.values() for f in found)]
        choices = {dtype: _by_network(found, names) for dtype, found in several.items()}
        bars = charts.grouped_bars(names, choices, "raw bytes per compressed byte, measured")
        yield Chart(bars, "measured", "Ratios by network and codec; the dtype is chosen above.")
    for network, found in grouped(figures, "network").items():
        yield from _network(network, found)


def _by_network(
    found: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> dict[str, list[float | None]]:
    """The networks' ratios by codec."""
    of = {f["network"]: f["ratios"] for f in found}
    codecs = dict.fromkeys(codec for f in found for codec in f["ratios"])
    return {codec: [of.get(name, {}).get(codec) for name in names] for codec in codecs}


def _network(network: str, found: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    """One network's ratios by layer; ``found``: its figures by dtype."""
    first = found[0]
    yield Heading(network, f"Weights: {first['weights'] or 'none'}. Input: {first['input']}.")
    if len(first["layers"]) > 1:
        caption = f"{network}: ratio of every saved storage; the dtype is chosen above."
        yield Chart(_layers_chart(found), "measured", caption)
    codecs = [*dict.fromkeys(codec for f in found for codec in f["ratios"])]
    rows = [
        [f["dtype"], f"{f['raw_bytes'] / 1e6:.2f}", *_cells(f["ratios"], codecs)] for f in found
    ]
    yield Table(("dtype", "MB", *codecs), rows, "measured", f"{network}: ratios of all together")
    rows = [[*_layer_cells(layer), *_cells(layer["ratios"], codecs)] for layer in first["layers"]]
    columns = ("saved by", "made by", "shape", "MB", "density", *codecs)
    caption = f"{network}: ratio of every saved storage, {first['dtype']}"
    yield Table(columns, rows, "measured", caption, folded=True)


def _layers_chart(found: Sequence[Mapping[str, Any]]) -> go.Figure:
    """Ratios by layer and dtype; raw's are 1 everywhere, and left out."""
    ratios: dict[str, dict[str, list[float | None]]] = {}
    for f in found:
        codecs = dict.fromkeys(c for layer in f["layers"] for c in layer["ratios"] if c != "raw")
        ratios[f["dtype"]] = {c: [layer["ratios"].get(c) for layer in f["layers"]] for c in codecs}
    hover = {
        f["dtype"]: [
            [
                f"{layer['module']}, {layer['operator']}",
                _shape(layer["shape"]),
                f"density {layer['density']:.1%}",
            ]
            for layer in f["layers"]
        ]
        for f in found
    }
    names = [layer["module"] for layer in found[0]["layers"]]
    return charts.ratios_by_layer(names, ratios, hover)


def _layer_cells(layer: Mapping[str, Any]) -> list[str]:
    return [
        layer["module"],
        layer["operator"],
        _shape(layer["shape"]),
        f"{layer['raw_bytes'] / 1e6:.3f}",
        f"{layer['density']:.1%}",
    ]


def _cells(ratios: Mapping[str, float], codecs: Iterable[str]) -> list[str]:
    return [f"{ratios[codec]:.3f}" if codec in ratios else "" for codec in codecs]


def _shape(sizes: Iterable[float]) -> str:
    return " x ".join(f"{size:g}" for size in sizes)


HOLDINGS = [{"network": str, "role": str, "share": float}]


def holdings(figures: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    """Shares of what is held, by role."""
    bars = {
        network: {f["role"]: f["share"] for f in found}
        for network, found in grouped(figures, "network").items()
    }
    chart = charts.shares(bars, OTHERS)
    yield Chart(chart, "measured", "What is held for the backward pass, by what it is to that.")


# Density over training

DENSITY = [
    {
        "course": {"title": str, "schedule": {"epochs": float}},
        "points": [
            {"fraction": float, "accuracy": float, "density": {str: float}, "overall": float}
        ],
        "trained": {"test": float},
    }
]


def density_tiles(figures: Sequence[Mapping[str, Any]]) -> Iterator[Tile]:
    """Density of all layers together, before and after training."""
    for found in figures:
        if found["points"]:
            ends = [found["points"][place]["overall"] for place in (0, -1)]
            label = f"density of {found['course']['title']}, random to trained"
            yield Tile(label, f"{ends[0]:.0%} to {ends[1]:.0%}", "measured")


def density(figures: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    """Density by layer over training, a chart for each network."""
    for found in figures:
        caption = (
            f"{found['course']['title']}, {found['course']['schedule']['epochs']:g} epochs, test "
            f"accuracy {found['trained']['test']:.1f} %: share of elements that are not zero in "
            "what each ReLU and each pooling gives."
        )
        if found["points"]:
            yield Chart(charts.density_over_training(found["points"]), "measured", caption)


# Ratio against speed

RIVALS = [{"data": str, "compressor": str, "ratio": float, "compress": float, "decompress": float}]
_RESULT = Maybe({"gb_per_s": float})
NATIVE = [
    {
        "codec": str,
        "data": str,
        "isa": str,
        "ratio": float,
        "results": {"compress + CRC": _RESULT, "decompress + CRC": _RESULT},
    }
]
FABRIC = [
    {
        "codec": str,
        "elements": str,
        "boards": str,
        "ratio": float,
        "gb_per_s": Maybe({"in": float, "out": float}),
    }
]


def rivals_tiles(figures: Sequence[Mapping[str, Any]]) -> Iterator[Tile]:
    """What the first compressor, ours, does on each data set."""
    for data, found in grouped(figures, "data").items():
        ours = found[0]
        value = f"{ours['compress']:.2g} GB/s at ratio {ours['ratio']:.2f}"
        yield Tile(f"{ours['compressor']} on a CPU: {data}", value, "measured")


def rivals(figures: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    """The codecs beside compressors of others."""
    panels = {
        data: [
            _point(f["compressor"], f["ratio"], f["compress"], f["decompress"], data) for f in found
        ]
        for data, found in grouped(figures, "data").items()
    }
    caption = (
        "Ratio against speed, beside other compressors, one thread of a CPU: filled while "
        "compressing, hollow while decompressing. Up and right is better."
    )
    yield Chart(charts.ratio_against_speed(panels, "measured"), "measured", caption)


def native(figures: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    """Every codec on the CPU, with the widest vector code."""
    best = {(f["codec"], f["data"]): f for f in figures}  # the last one of each is the widest
    points = []
    for f in best.values():
        rates = [result and result["gb_per_s"] for result in f["results"].values()]
        points.append(_point(f["codec"], f["ratio"], *rates, f"{f['data']}, {f['isa']}"))
    caption = "Ratio against speed of every codec on the CPU, whole frames, one thread."
    panels = {"each codec on the data made for it": points}
    yield Chart(charts.ratio_against_speed(panels, "measured"), "measured", caption)


def fabric(figures: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    """Every codec on every board, from the raw side."""
    panels = {
        boards: [
            _point(f["codec"], f["ratio"], f["gb_per_s"]["in"], f["gb_per_s"]["out"], f["elements"])
            for f in found
            if f["gb_per_s"]
        ]
        for boards, found in grouped(figures, "boards").items()
    }
    caption = "Ratio against speed of the engines on each board, on data of which half is zero."
    panels = {boards: points for boards, points in panels.items() if points}
    yield Chart(
        charts.ratio_against_speed(panels, "modelled", logarithmic=False), "modelled", caption
    )


def _point(
    name: str, ratio: float, compress: float | None, decompress: float | None, data: str
) -> dict[str, Any]:
    rates = {"compress": compress, "decompress": decompress}
    lines = [f"{way}: {rate:.3g} GB/s" for way, rate in rates.items() if rate is not None]
    return {
        "name": name,
        "ratio": ratio,
        **rates,
        "hover": [name, data, f"ratio {ratio:.2f}", *lines],
    }


# The step-time model


def simulate_heading(data: Mapping[str, Any]) -> Heading:
    """What was simulated, and what went in."""
    inputs = (f"{text} ({kind})" for kind, text in data["inputs"])
    return Heading(data["title"], "; ".join(inputs))


def simulate_tiles(data: Mapping[str, Any]) -> Iterator[Tile]:
    """Gains over vDNN, by codec."""
    for row in data["rows"][2:]:
        label = f"gain of {row['name']} over vDNN: {data['title'].removesuffix(': modelled')}"
        yield Tile(label, f"{row['gain_over_vdnn']:+.0%}", "modelled")


def simulate(data: Mapping[str, Any]) -> Iterator[Block]:
    """What `actdma simulate` found for a network."""
    columns = ("step", "ms", "waits, ms", "oracle's speed", "gain over vDNN", "GB moved", "GB held")
    rows = [
        [
            row["name"],
            f"{1e3 * row['step_s']:.2f}",
            f"{1e3 * row['stall_s']:.2f}",
            f"{row['of_oracle_speed']:.0%}",
            f"{row['gain_over_vdnn']:+.0%}" if number > 1 else "",
            f"{row['moved_bytes'] / 1e9:.2f}",
            f"{row['held_bytes'] / 1e9:.2f}",
        ]
        for number, row in enumerate(data["rows"])  # the oracle, vDNN, and vDNN with codecs
    ]
    hover = [_hover(dict(zip(columns, row, strict=True))) for row in rows]
    yield Chart(charts.step_times(data["rows"], hover), "modelled", "Time of a training step.")
    yield Table(columns, rows, "modelled", "A step, by where its activations are held")


def trace_heading(data: Mapping[str, Any]) -> Heading:
    """Of what kind the timelines are."""
    return Heading(f"Timelines, {data['otherData']['actdma']}")


def trace(data: Mapping[str, Any]) -> Iterator[Block]:
    """The timelines of a step: simulated, or of a session."""
    kind = data["otherData"]["actdma"]
    names = {(e["name"], e["pid"], e["tid"]): e["args"]["name"] for e in data["names"]}
    slices = [e for e in data["traceEvents"] if e["ph"] == "X" and e["cat"]]
    slices = [e for e in slices if e["ts"] is not None and e["dur"] is not None]
    shown = sorted(slices, key=lambda e: e["dur"])[-charts.MOST_SLICES :]
    shown.sort(key=lambda e: e["ts"])
    processes: dict[str, dict[str, list]] = {}
    for process, thread in sorted({(e["pid"], e["tid"]) for e in slices}):
        title = names.get(("process_name", process, 0), f"process {process:g}")
        name = names.get(("thread_name", process, thread), f"thread {thread:g}")
        events = [e for e in shown if (e["pid"], e["tid"]) == (process, thread)]
        threads = processes.setdefault(title, {})
        threads[f"{name} ({thread:g})" if name in threads else name] = events
    left_out = len(slices) - len(shown)
    caption = "Timelines, a row for each stream or thread."
    if left_out:
        caption += f" The {left_out} shortest of {len(slices)} spells are left out."
    if shown:
        yield Chart(charts.gantt(processes, kind), kind, caption)


HEADLINE = [
    {
        "device": str,
        "network": str,
        "gain_published_ratio": float,
        "gain_any_ratio": float,
        "gain_measured_ratio": float,
    }
]


def headline_tiles(figures: Sequence[Mapping[str, Any]]) -> Iterator[Tile]:
    """Mean and maximum of the gains at the published ratio."""
    gains = [f["gain_published_ratio"] for f in figures]
    if gains:
        value = f"{statistics.fmean(gains):+.0%}, at most {max(gains):+.0%}"
        where = f"on a {figures[0]['device']}, mean of {len(gains)} networks"
        yield Tile(f"cDMA's gain over vDNN {where}", value, "modelled")


def headline(figures: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    """Gains over vDNN by network and assumption about the ratio."""
    names = {
        "at the published ratio": "gain_published_ratio",
        "at the ratios measured here": "gain_measured_ratio",
        "at any ratio": "gain_any_ratio",
    }
    values = {name: [100 * f[key] for f in figures] for name, key in names.items()}
    networks = [f["network"] for f in figures]
    bars = charts.grouped_bars(networks, {"": values}, "gain over vDNN, %, modelled")
    yield Chart(bars, "modelled", "Gain of compression over vDNN.")


BREAK_EVEN = [{"device": str, "links": [float], "ratios": [float], "gains": [[Maybe(float)]]}]


def break_even(figures: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    """Where compression stops paying."""
    caption = "Gain over vDNN by link and ratio, mean of cDMA's networks; along the line it is 1 %."
    yield Chart(charts.break_even(figures), "modelled", caption)


def _benchmark(name: str, *parts: Any, data: bool = True, shape: Any = None) -> Exhibit:
    """The exhibit of a study that the script of that name makes, from a folder of ``data``."""
    command = f"python benchmarks/{name}.py"
    command += " --data FOLDER" if data else ""
    return Exhibit(f"study {name}", f"{command} --json RESULTS/{name}.json", *parts, shape=shape)


_HEADLINE = "python benchmarks/simulate.py --data FOLDER --json RESULTS"
SECTIONS = (
    Section(
        "step",
        "A training step, tensor by tensor",
        (
            Exhibit(
                "measure",
                "actdma measure --json RESULTS/measure.json",
                step,
                step_tiles,
                heading=step_heading,
            ),
        ),
    ),
    Section(
        "networks",
        "Networks and their layers",
        (
            _benchmark("ratios", ratios, ratios_tiles, shape=RATIOS),
            _benchmark("holdings", holdings, shape=HOLDINGS),
            _benchmark("layouts", costs.layouts, shape=costs.LAYOUTS),
            _benchmark("blocks", costs.blocks, shape=costs.BLOCKS),
        ),
    ),
    Section(
        "density",
        "Density over training",
        (_benchmark("density", density, density_tiles, shape=DENSITY),),
    ),
    Section(
        "speed",
        "Ratio against speed",
        (
            _benchmark("rivals", rivals, rivals_tiles, shape=RIVALS),
            _benchmark("native", native, data=False, shape=NATIVE),
            _benchmark("fabric", fabric, data=False, shape=FABRIC),
        ),
    ),
    Section(
        "cost",
        "What a step costs",
        (
            _benchmark("step", costs.step, shape=costs.STEP),
            _benchmark("memory", costs.memory, shape=costs.MEMORY),
            _benchmark("exact", costs.exact, shape=costs.EXACT),
        ),
    ),
    Section(
        "model",
        "The step-time model",
        (
            Exhibit(
                "simulate",
                "actdma simulate --network alexnet --json RESULTS/simulate.json",
                simulate,
                simulate_tiles,
                heading=simulate_heading,
            ),
            Exhibit("study headline", _HEADLINE, headline, headline_tiles, HEADLINE),
            Exhibit("study break-even", _HEADLINE, break_even, shape=BREAK_EVEN),
        ),
    ),
    Section(
        "timelines",
        "Timelines",
        (
            Exhibit(
                "trace",
                "actdma simulate --network alexnet --trace RESULTS/timelines.json (modelled), "
                "actdma measure --trace RESULTS/session.json (measured)",
                trace,
                heading=trace_heading,
            ),
        ),
    ),
    Section(
        "boards",
        "Boards and lossy training",
        (
            _benchmark("emulated_board", costs.emulated, data=False, shape=costs.EMULATED),
            _benchmark("board_stream", costs.stream, data=False, shape=costs.STREAM),
            _benchmark("block_sparse", costs.sparse, data=False, shape=costs.SPARSE),
        ),
    ),
)
SHOWN = {exhibit.what for section in SECTIONS for exhibit in section.exhibits}
