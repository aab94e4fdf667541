"""Figures: what can be hovered. Text that comes from files is escaped, since plotly reads tags."""

from __future__ import annotations

import functools
import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from .. import trace

# Okabe and Ito's colours (jfly.uni-koeln.de/color), which colour-blind readers can tell apart.
BLUE, SKY, VERMILION, ORANGE = "#0072B2", "#56B4E9", "#D55E00", "#E69F00"
GREEN, PURPLE, YELLOW, BLACK = "#009E73", "#CC79A7", "#F0E442", "#333333"
GREY, LIGHT, NAVY = "#888888", "#CFD6DD", "#33658A"
# Of blue and vermilion the page makes its signs of what is measured and what is modelled.
KIND_COLOURS = {"measured": BLUE, "modelled": VERMILION}
CODEC_STYLES = {  # colour, symbol, dash: told apart in black and white, too
    "raw": (GREY, "octagon", "dot"),
    "element runs": (LIGHT, "x", "dot"),
    "zvc": (SKY, "circle", "solid"),
    "rle": (GREEN, "square", "solid"),
    "zve": (BLACK, "diamond", "solid"),
    "auto": (BLACK, "diamond", "solid"),
    "ints": (ORANGE, "triangle-up", "solid"),
    "pool": (NAVY, "triangle-down", "solid"),
    "bsr": (YELLOW, "hexagram", "solid"),
    "deflate": (PURPLE, "cross", "dash"),
}
_PATTERNS = ("", "/", "x", ".")  # with the colours, for more names than there are colours
_CYCLE = (SKY, ORANGE, GREEN, PURPLE, YELLOW, NAVY, BLACK)
_SYMBOLS = ("triangle-up", "square", "pentagon", "star", "hexagram", "triangle-down", "hourglass")
MOST_TICKS = 30
MOST_LABELS = 30  # bars that have their value written above
MOST_SLICES = 4000
GRID = "#E5E9ED"


def layers_of_step(
    records: Sequence[Mapping[str, Any]], hover: Sequence[Sequence[str]]
) -> go.Figure:
    """Raw and stored MB of each saved tensor, and its zeros; ``hover``: the lines for each."""
    figure = make_subplots(2, 1, shared_xaxes=True, row_heights=(0.7, 0.3), vertical_spacing=0.06)
    places = list(range(len(records)))
    for name, colour, width in (("raw", LIGHT, 0.9), ("stored", NAVY, 0.5)):
        figure.add_bar(
            x=places,
            y=[r[f"{name}_bytes"] / 1e6 for r in records],
            width=width,
            name=name,
            marker_color=colour,
            **_hover(hover),
        )
    figure.add_bar(
        x=places,
        y=[100 * r["zero_fraction"] for r in records],
        name="zeros",
        marker_color=ORANGE,
        row=2,
        col=1,
        **_hover(hover),
    )
    figure.update_layout(barmode="overlay")
    figure.update_yaxes(title="MB, measured", row=1, col=1)
    figure.update_yaxes(title="zeros, %,<br>measured", range=[0, 100], row=2, col=1)
    names = [r["module"] or r["operator"] or f"tensor {i}" for i, r in enumerate(records)]
    names = [
        name if r["rank"] is None else f"{r['rank']:g}: {name}"
        for name, r in zip(names, records, strict=True)
    ]
    _name_ticks(figure, names, row=2, col=1)
    return _styled(figure, 480)


def grouped_bars(
    groups: Sequence[str], choices: Mapping[str, Mapping[str, Sequence[float | None]]], title: str
) -> go.Figure:
    """A bar per group and name, of values chosen in a menu; ``title``: of the axis of values."""
    figure = go.Figure()
    first = next(iter(choices), None)
    few = len(groups) * max((len(values) for values in choices.values()), default=0) <= MOST_LABELS

    def label(height: float | None) -> str:
        return f"{height:.3g}" if few and height is not None else ""

    for choice, values in choices.items():
        styles = _styles(values)
        for name, heights in values.items():
            figure.add_bar(
                x=[plain(group) for group in groups],
                y=list(heights),
                name=plain(name),
                marker_color=styles[name][0],
                visible=choice == first,
                text=[label(height) for height in heights],
                textposition="outside",
                cliponaxis=False,
                hovertemplate="%{x}<br>%{fullData.name}: %{y:.3g}<extra></extra>",
            )
    figure.update_xaxes(type="category")
    figure.update_yaxes(title=title)
    _menu(figure, {choice: len(values) for choice, values in choices.items()})
    return _styled(figure, 400)


def ratios_by_layer(
    names: Sequence[str],
    ratios: Mapping[str, Mapping[str, Sequence[float | None]]],
    hover: Mapping[str, Sequence[Sequence[str]]],
) -> go.Figure:
    """Ratio of each layer, by dtype, which is chosen in a menu, and codec.

    ``names``: the layers'; ``hover``: by dtype the lines for each.
    """
    figure = go.Figure()
    first = next(iter(ratios), None)
    for dtype, by_codec in ratios.items():
        for codec, values in by_codec.items():
            colour, symbol, dash = CODEC_STYLES.get(codec, (GREY, "circle", "dot"))
            lines = [
                [f"{codec}, {dtype}: " + ("none" if value is None else f"{value:.2f}"), *layer]
                for value, layer in zip(values, hover[dtype], strict=True)
            ]
            figure.add_scatter(
                x=list(range(len(values))),
                y=list(values),
                name=plain(codec),
                mode="lines+markers",
                line={"color": colour, "dash": dash, "shape": "hvh", "width": 1.3},
                marker={"symbol": symbol, "size": 6, "line": {"color": colour, "width": 1}},
                visible=dtype == first,
                **_hover(lines),
            )
    figure.add_hline(1, line_width=1, line_color=BLACK)
    figure.update_yaxes(title="ratio, measured", **_logarithmic(1, 1.5, 2, 3, 5, 7))
    _name_ticks(figure, names)
    _menu(figure, {dtype: len(by_codec) for dtype, by_codec in ratios.items()})
    return _styled(figure, 400)


def density_over_training(points: Sequence[Mapping[str, Any]]) -> go.Figure:
    """Density by layer (rows, the first on top) and point of the training, and of all together."""
    layers = list(points[0]["density"]) if points else []
    times = [f"{point['fraction']:.0%}" for point in points]
    figure = make_subplots(2, 1, shared_xaxes=True, row_heights=(0.72, 0.28), vertical_spacing=0.05)
    figure.add_heatmap(
        x=times,
        y=[plain(layer) for layer in layers],
        z=[[point["density"].get(layer) for point in points] for layer in layers],
        zmin=0,
        zmax=1,
        colorscale="Viridis",
        colorbar={"title": "density,<br>measured", "len": 0.7, "y": 0.65, "tickformat": ".0%"},
        hovertemplate="%{y}, %{x} of the training<br>density %{z:.1%}<extra></extra>",
    )
    figure.add_scatter(
        x=times,
        y=[point["overall"] for point in points],
        mode="lines+markers",
        line_color=BLUE,
        showlegend=False,
        row=2,
        col=1,
        **_hover(
            [
                [
                    f"{point['fraction']:.0%} of the training",
                    f"density of all layers {point['overall']:.1%}",
                    f"validation accuracy {point['accuracy']:.1f} %",
                ]
                for point in points
            ]
        ),
    )
    figure.update_xaxes(type="category")
    figure.update_xaxes(title="training done", row=2, col=1)
    figure.update_yaxes(autorange="reversed", type="category", row=1, col=1)
    figure.update_yaxes(title="all, measured", range=[0, 1], tickformat=".0%", row=2, col=1)
    return _styled(figure, 320 + 16 * len(layers))


def ratio_against_speed(
    panels: Mapping[str, Sequence[Mapping[str, Any]]], kind: str, *, logarithmic: bool = True
) -> go.Figure:
    """A panel per data set: each compressor's ratio over GB/s, filled where it compresses, hollow
    where it decompresses.

    Points have "name", "ratio", "compress", "decompress" (GB/s or None) and "hover" (lines).
    """
    figure, places = _panels(panels)
    names = dict.fromkeys(point["name"] for points in panels.values() for point in points)
    styles = _styles(names)
    unseen = set(names)
    for place, points in zip(places, panels.values(), strict=True):
        figure.add_scatter(
            x=[x for p in points for x in (p["compress"], p["decompress"], None)],
            y=[y for p in points for y in (p["ratio"], p["ratio"], None)],
            mode="lines",
            line={"color": LIGHT, "width": 1.5},
            hoverinfo="skip",
            showlegend=False,
            **place,
        )
        for name in dict.fromkeys(point["name"] for point in points):
            for way in ("decompress", "compress"):
                shown = [p for p in points if p["name"] == name and p[way] is not None]
                in_legend = way == "compress" and name in unseen
                unseen -= {name} if in_legend else set()
                colour, symbol = styles[name]
                figure.add_scatter(
                    x=[point[way] for point in shown],
                    y=[point["ratio"] for point in shown],
                    name=plain(name),
                    legendgroup=name,
                    showlegend=in_legend,
                    mode="markers",
                    marker={
                        "color": colour if way == "compress" else "white",
                        "symbol": symbol,
                        "size": 10,
                        "line": {"color": colour, "width": 2},
                    },
                    **_hover([[*point["hover"], kind] for point in shown]),
                    **place,
                )
    figure.update_xaxes(title=f"GB/s of raw data, {kind}", rangemode="tozero")
    if logarithmic:
        figure.update_xaxes(**_logarithmic(1, 2, 5))
    figure.update_yaxes(title="ratio", rangemode="tozero")
    return _styled(figure, 90 + 340 * _rows(places))


class Curve(NamedTuple):
    """A line: its name, and its points."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


def curves(
    panels: Mapping[str, Sequence[Curve]],
    x_title: str,
    y_title: str,
    *,
    powers: bool = False,
    level: float | None = None,
    from_zero: bool = True,
) -> go.Figure:
    """Lines, a panel for each title; ``powers``: x in powers of two; ``level``: a line across;
    ``from_zero``: the axis of values has its zero."""
    figure, places = _panels(panels)
    styles = _styles(dict.fromkeys(curve.name for lines in panels.values() for curve in lines))
    unseen = set(styles)
    for place, lines in zip(places, panels.values(), strict=True):
        for curve in lines:
            colour, symbol = styles[curve.name]
            figure.add_scatter(
                x=list(curve.x),
                y=list(curve.y),
                name=plain(curve.name),
                legendgroup=curve.name,
                showlegend=curve.name in unseen,
                mode="lines+markers",
                line={"color": colour, "width": 1.5},
                marker={"symbol": symbol, "size": 7},
                **_hover(
                    [
                        [curve.name, f"{x_title} {x:g}", f"{y:.3g} {y_title}"]
                        for x, y in zip(curve.x, curve.y, strict=True)
                    ]
                ),
                **place,
            )
            unseen.discard(curve.name)
        if powers:
            ticks = sorted({x for curve in lines for x in curve.x})
            texts = [f"{x:g}" if x < 1024 else f"{x / 1024:g}Ki" for x in ticks]
            figure.update_xaxes(type="log", tickvals=ticks, ticktext=texts, **place)
    if level is not None:
        figure.add_hline(level, line_width=1, line_color=BLACK)
    figure.update_xaxes(title=x_title)
    figure.update_yaxes(title=y_title, rangemode="tozero" if from_zero else "normal")
    return _styled(figure, 110 + 330 * _rows(places))


def time_against_memory(panels: Mapping[str, Sequence[Mapping[str, Any]]]) -> go.Figure:
    """A point for each row, a panel for each title: "wall_of_plain" over "held_of_plain"."""
    figure, places = _panels(panels)
    styles = _styles(dict.fromkeys(f["row"] for found in panels.values() for f in found))
    unseen = set(styles)
    for place, found in zip(places, panels.values(), strict=True):
        for f in found:
            colour, symbol = styles[f["row"]]
            line = [f["row"], f"holds {f['held_of_plain']:.2f} of the plain step's bytes"]
            figure.add_scatter(
                x=[f["held_of_plain"]],
                y=[f["wall_of_plain"]],
                name=plain(f["row"]),
                legendgroup=f["row"],
                showlegend=f["row"] in unseen,
                mode="markers",
                marker={"symbol": symbol, "size": 11, "color": colour},
                **_hover([[*line, f"takes {f['wall_of_plain']:.2f} of its time", "measured"]]),
                **place,
            )
            unseen.discard(f["row"])
    figure.update_xaxes(title="bytes held, of plain, measured", range=[0, 1.1])
    figure.update_yaxes(title="time, of plain, measured", rangemode="tozero")
    return _styled(figure, 110 + 330 * _rows(places))


def _panels(titles: Iterable[str]) -> tuple[go.Figure, list[dict[str, int]]]:
    """A figure with a panel for each title, two in a row, and the panels' places."""
    titles = [*titles]
    columns = min(len(titles), 2) or 1
    rows = -(-len(titles) // columns) or 1
    figure = make_subplots(
        rows,
        columns,
        subplot_titles=[plain(title) for title in titles],
        horizontal_spacing=0.09,
        vertical_spacing=0.16 / rows + 0.05,
    )
    places = [{"row": n // columns + 1, "col": n % columns + 1} for n in range(len(titles))]
    return figure, places


def _rows(places: Sequence[Mapping[str, int]]) -> int:
    return max((place["row"] for place in places), default=1)


def _styles(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """A colour and a symbol for each name."""
    found = {name: CODEC_STYLES[name][:2] for name in names if name in CODEC_STYLES}
    others = [name for name in names if name not in found]
    for number, name in enumerate(others):
        turn, place = divmod(number, len(_CYCLE))
        found[name] = _CYCLE[place], _SYMBOLS[(place + 3 * turn) % len(_SYMBOLS)]
    return found


def shares(bars: Mapping[str, Mapping[str, float]], others: str) -> go.Figure:
    """A bar per key, cut into the shares of names; the largest first, ``others`` last."""
    totals: dict[str, float] = {}
    for parts in bars.values():
        for name, share in parts.items():
            totals[name] = totals.get(name, 0) + share
    names = sorted(totals, key=lambda name: (name == others, -totals[name]))
    figure = go.Figure()
    for number, name in enumerate(names):
        turn, colour = divmod(number, len(_CYCLE))
        figure.add_bar(
            y=[plain(key) for key in bars],
            x=[parts.get(name) for parts in bars.values()],
            name=plain(name),
            orientation="h",
            marker={
                "color": LIGHT if name == others else _CYCLE[colour],
                "pattern": {"shape": "" if name == others else _PATTERNS[turn % len(_PATTERNS)]},
                "line": {"color": "white", "width": 1},
            },
            hovertemplate="%{y}<br>%{fullData.name}: %{x:.1%}<extra></extra>",
        )
    figure.update_layout(barmode="stack")
    figure.update_xaxes(title="share of the bytes held, measured", tickformat=".0%", range=[0, 1])
    figure.update_yaxes(type="category", autorange="reversed")
    # The legend is below, a line of it for every four names.
    below = 60 + 20 * -(-len(names) // 4)
    _styled(figure, 100 + 34 * len(bars) + below)
    figure.update_layout(margin={"b": below})
    return figure.update_layout(legend={"y": 0, "yanchor": "bottom", "font": {"size": 11}})


def step_times(rows: Sequence[Mapping[str, Any]], hover: Sequence[Sequence[str]]) -> go.Figure:
    """A bar per way to hold what a step saves: milliseconds of compute, and of waiting."""
    figure = go.Figure()
    parts = (
        ("compute", NAVY, "", [r["step_s"] - r["stall_s"] for r in rows]),
        ("waits for copies", ORANGE, "/", [r["stall_s"] for r in rows]),
    )
    for name, colour, pattern, seconds in parts:
        figure.add_bar(
            y=[plain(r["name"]) for r in rows],
            x=[1e3 * s for s in seconds],
            name=f"{name}, modelled",
            orientation="h",
            marker={"color": colour, "pattern": {"shape": pattern}},
            **_hover([[*lines, "modelled"] for lines in hover]),
        )
    figure.update_layout(barmode="stack")
    figure.update_xaxes(title="milliseconds of a step, modelled")
    figure.update_yaxes(type="category", autorange="reversed")
    return _styled(figure, 150 + 42 * len(rows))


def gantt(
    processes: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]], kind: str
) -> go.Figure:
    """A panel per process, a row per thread: its slices (trace events) on one axis of time."""
    figure = make_subplots(
        len(processes) or 1,
        1,
        shared_xaxes=True,
        subplot_titles=[plain(title) for title in processes],
        row_heights=[len(threads) for threads in processes.values()] or None,
        vertical_spacing=0.24 / (len(processes) + 1),
    )
    seen: set[str] = set()
    for row, threads in enumerate(processes.values(), 1):
        works = [(thread, event) for thread, events in threads.items() for event in events]
        for category in dict.fromkeys(event["cat"] for _, event in works):
            chosen = [(thread, e) for thread, e in works if e["cat"] == category]
            figure.add_bar(
                y=[plain(thread) for thread, _ in chosen],
                base=[e["ts"] / 1e3 for _, e in chosen],
                x=[e["dur"] / 1e3 for _, e in chosen],
                orientation="h",
                width=0.8,
                name=plain(category),
                legendgroup=category,
                showlegend=category not in seen,
                marker={"color": trace.COLOURS.get(category, GREY), "line": {"width": 0}},
                row=row,
                col=1,
                **_hover(
                    [
                        [
                            e["name"],
                            f"from {e['ts'] / 1e3:.3f} ms on, {e['dur'] / 1e3:.3f} ms, {kind}",
                        ]
                        for _, e in chosen
                    ]
                ),
            )
            seen.add(category)
    figure.update_layout(barmode="overlay")
    figure.update_yaxes(type="category", autorange="reversed", showgrid=False)
    figure.update_xaxes(tickformat=",")
    figure.update_xaxes(title=f"milliseconds, {kind}", row=len(processes) or 1, col=1)
    rows = sum(map(len, processes.values()))
    return _styled(figure, 140 + 40 * len(processes) + 34 * rows)


def break_even(devices: Sequence[Mapping[str, Any]]) -> go.Figure:
    """Gain over vDNN by link (GB/s) and ratio, a panel per device; the thick line is 1 %."""
    columns = min(len(devices), 3) or 1
    rows = -(-len(devices) // columns) or 1
    figure = make_subplots(
        rows,
        columns,
        subplot_titles=[plain(d["device"]) for d in devices],
        horizontal_spacing=0.06,
        vertical_spacing=0.3 / rows,
    )
    for number, device in enumerate(devices):
        place = {"row": number // columns + 1, "col": number % columns + 1}
        data = {"x": device["links"], "y": device["ratios"], "z": device["gains"]}
        figure.add_heatmap(
            **data,
            coloraxis="coloraxis",
            zsmooth="best",
            hovertemplate="%{x:.3g} GB/s, ratio %{y:.2f}<br>gain %{z:.1%}, modelled<extra></extra>",
            **place,
        )
        figure.add_contour(
            **data,
            contours={"start": 0.01, "end": 0.01, "size": 1, "coloring": "none"},
            line={"color": VERMILION, "width": 3},
            showscale=False,
            showlegend=False,
            hoverinfo="skip",
            **place,
        )
    bar = {"title": "gain, modelled", "tickformat": ".0%"}
    figure.update_layout(coloraxis={"colorscale": "Cividis", "cmin": 0, "cmax": 2, "colorbar": bar})
    figure.update_xaxes(
        type="log", title="link, GB/s", tickvals=[2, 10, 50, 200, 1000], showgrid=False
    )
    figure.update_yaxes(title="ratio", showgrid=False)
    return _styled(figure, 80 + 330 * rows)


def _logarithmic(*steps: float) -> dict[str, Any]:
    """An axis with ticks at ``steps`` of each decade, written out."""
    ticks = [step * 10.0**exponent for exponent in range(-3, 4) for step in steps]
    return {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]}


def plain(text: str) -> str:
    """``text`` as plotly shows it literally, and not longer than a label may be."""
    short = text if len(text) <= 80 else f"{text[:79]}…"
    return html.escape(short, quote=False)


def _hover(lines: Iterable[Sequence[str]]) -> dict[str, Any]:
    return {"hovertext": ["<br>".join(map(plain, each)) for each in lines], "hoverinfo": "text"}


def _name_ticks(figure: go.Figure, names: Sequence[str], **place: int) -> None:
    """Names along an axis of places, as many as there is room for."""
    step = -(-len(names) // MOST_TICKS) or 1
    ticks = list(range(0, len(names), step))
    figure.update_xaxes(
        tickvals=ticks,
        ticktext=[_ending(names[i]) for i in ticks],
        tickangle=-45,
        range=[-0.7, len(names) - 0.3],
        **place,
    )


def _ending(name: str) -> str:
    """The last part of a name; modules differ there."""
    return plain(name if len(name) <= 26 else f"…{name[-25:]}")


def _menu(figure: go.Figure, counts: Mapping[str, int]) -> None:
    """A menu that shows one group of traces: by its name, how many they are."""
    buttons, start = [], 0
    for name, count in counts.items():
        visible = [start <= i < start + count for i in range(len(figure.data))]
        buttons.append({"label": plain(name), "method": "restyle", "args": [{"visible": visible}]})
        start += count
    if len(buttons) > 1:
        menu = {"buttons": buttons, "x": 0.93, "xanchor": "right", "y": 1.03, "yanchor": "bottom"}
        figure.update_layout(updatemenus=[menu])


def _styled(figure: go.Figure, height: int) -> go.Figure:
    above = 30 if figure.layout.annotations or figure.layout.updatemenus else 0
    axis = {"gridcolor": GRID, "linecolor": GREY, "zeroline": False, "automargin": True}
    figure.update_layout(
        template="none",
        height=height,
        margin={"l": 60, "r": 20, "t": 40 + above, "b": 50},
        font={"family": "system-ui, sans-serif", "size": 12, "color": "#222222"},
        hoverlabel={"bgcolor": "white", "font": {"color": "#222222"}, "align": "left"},
        legend={
            "orientation": "h",
            "traceorder": "normal",
            "yref": "container",
            "y": 1,
            "yanchor": "top",
            "x": 0,
        },
        paper_bgcolor="white",
        plot_bgcolor="white",
    )
    figure.update_xaxes(**axis)
    figure.update_yaxes(**axis)
    figure.update_annotations(font_size=12)
    for kind, colour in KIND_COLOURS.items():
        for each in (figure.for_each_xaxis, figure.for_each_yaxis):
            each(functools.partial(_kind_of_axis, kind, colour))
    return figure


def _kind_of_axis(kind: str, colour: str, axis: Any) -> None:
    if axis.title.text and kind in axis.title.text:
        axis.title.font.color = colour
