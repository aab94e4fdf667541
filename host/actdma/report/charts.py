"""Figures: what can be hovered. Text that comes from files is escaped, since plotly reads tags."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

# Okabe and Ito's colours (jfly.uni-koeln.de/color), which colour-blind readers can tell apart.
BLUE, SKY, VERMILION, ORANGE = "#0072B2", "#56B4E9", "#D55E00", "#E69F00"
GREEN, PURPLE, YELLOW, BLACK = "#009E73", "#CC79A7", "#F0E442", "#333333"
GREY, LIGHT = "#888888", "#CFD6DD"
# Of blue and vermilion the page makes its signs of what is measured and what is modelled.
KIND_COLOURS = {"measured": BLUE, "modelled": VERMILION}
KIND_SYMBOLS = {"measured": "circle", "modelled": "diamond-open"}
CODEC_STYLES = {  # colour, symbol, dash: told apart in black and white, too
    "raw": (GREY, "line-ew", "dot"),
    "element runs": (LIGHT, "x", "dot"),
    "zvc": (SKY, "circle", "solid"),
    "rle": (GREEN, "square", "solid"),
    "zve": (BLACK, "diamond", "solid"),
    "auto": (BLACK, "diamond", "solid"),
    "ints": (ORANGE, "triangle-up", "solid"),
    "deflate": (PURPLE, "cross", "dash"),
}
WORK_COLOURS = {
    "forward": SKY,
    "backward": "#33658A",
    "offload": ORANGE,
    "prefetch": PURPLE,
    "compress": ORANGE,
    "decompress": PURPLE,
    "make again": GREEN,
}
_PATTERNS = ("", "/", "x", ".")  # with the colours, for more names than there are colours
_CYCLE = (SKY, ORANGE, GREEN, PURPLE, YELLOW, "#33658A", BLACK)
MOST_TICKS = 30
MOST_SLICES = 4000
GRID = "#E5E9ED"


def layers_of_step(
    records: Sequence[Mapping[str, Any]], hover: Sequence[Sequence[str]]
) -> go.Figure:
    """Raw and stored MB of each saved tensor, and its zeros; ``hover``: the lines for each."""
    figure = make_subplots(2, 1, shared_xaxes=True, row_heights=(0.7, 0.3), vertical_spacing=0.06)
    places = list(range(len(records)))
    for name, colour, width in (("raw", LIGHT, 0.9), ("stored", "#33658A", 0.5)):
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
    _name_ticks(figure, names, row=2, col=1)
    return _styled(figure, 480)


def grouped_bars(
    groups: Sequence[str],
    values: Mapping[str, Sequence[float | None]],
    title: str,
    unit: float | None = None,
) -> go.Figure:
    """A bar per group and name of ``values``; ``title``: of the axis; ``unit``: a line at it."""
    figure = go.Figure()
    for name, heights in values.items():
        colour = CODEC_STYLES.get(name, (None,))[0] or _CYCLE[len(figure.data) % len(_CYCLE)]
        figure.add_bar(
            x=[plain(group) for group in groups],
            y=list(heights),
            name=plain(name),
            marker_color=colour,
            hovertemplate="%{x}<br>%{fullData.name}: %{y:.3g}<extra></extra>",
        )
    if unit is not None:
        figure.add_hline(unit, line_width=1, line_color=BLACK)
    figure.update_xaxes(type="category")
    figure.update_yaxes(title=title)
    return _styled(figure, 400)


def ratios_by_layer(
    names: Sequence[str],
    ratios: Mapping[str, Mapping[str, Sequence[float]]],
    hover: Sequence[Sequence[str]],
) -> go.Figure:
    """Ratio of each layer, by dtype, which is chosen in a menu, and codec."""
    figure = go.Figure()
    first = next(iter(ratios), None)
    for dtype, by_codec in ratios.items():
        for codec, values in by_codec.items():
            colour, symbol, dash = CODEC_STYLES.get(codec, (GREY, "circle", "dot"))
            lines = [
                [f"{codec}, {dtype}: {value:.2f}", *hover[i]] for i, value in enumerate(values)
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
    figure.update_yaxes(title="ratio, measured", type="log", dtick="D1")
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
        colorscale="Cividis",
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


def ratio_against_speed(panels: Mapping[str, Sequence[Mapping[str, Any]]], kind: str) -> go.Figure:
    """A panel per data set: each compressor's ratio over GB/s, compressing and decompressing.

    Points have "name", "ratio", "compress", "decompress" (GB/s or None) and "hover" (lines).
    """
    columns = min(len(panels), 2) or 1
    rows = -(-len(panels) // columns) or 1
    figure = make_subplots(
        rows,
        columns,
        subplot_titles=[plain(title) for title in panels],
        horizontal_spacing=0.09,
        vertical_spacing=0.16 / rows + 0.05,
    )
    colour = KIND_COLOURS[kind]
    for number, points in enumerate(panels.values()):
        place = {"row": number // columns + 1, "col": number % columns + 1}
        for point in points:
            figure.add_scatter(
                x=[point["compress"], point["decompress"]],
                y=[point["ratio"]] * 2,
                mode="lines",
                line={"color": GRID, "width": 2},
                hoverinfo="skip",
                showlegend=False,
                **place,
            )
        for way, fill in (("compress", colour), ("decompress", "white")):
            shown = [point for point in points if point[way] is not None]
            figure.add_scatter(
                x=[point[way] for point in shown],
                y=[point["ratio"] for point in shown],
                name=f"{way}, {kind}",
                legendgroup=way,
                showlegend=number == 0,
                mode="markers+text",
                text=[plain(point["name"]) if way == "compress" else "" for point in shown],
                textposition="top center",
                textfont={"size": 10},
                cliponaxis=False,
                marker={
                    "color": fill,
                    "symbol": "circle" if kind == "measured" else "diamond",
                    "size": 9,
                    "line": {"color": colour, "width": 2},
                },
                **_hover([point["hover"] for point in shown]),
                **place,
            )
    figure.update_xaxes(
        title=f"GB/s of raw data, {kind}", type="log", tickvals=_TICKS, ticktext=_TICK_TEXTS
    )
    figure.update_yaxes(title="ratio", rangemode="tozero")
    return _styled(figure, 60 + 360 * rows)


_TICKS = [m * 10.0**e for e in range(-3, 4) for m in (1, 2, 5)]
_TICK_TEXTS = [f"{tick:g}" for tick in _TICKS]


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
                "pattern": {"shape": _PATTERNS[turn % len(_PATTERNS)]},
                "line": {"color": "white", "width": 1},
            },
            hovertemplate="%{y}<br>%{fullData.name}: %{x:.1%}<extra></extra>",
        )
    figure.update_layout(barmode="stack")
    figure.update_xaxes(title="share of the bytes held, measured", tickformat=".0%", range=[0, 1])
    figure.update_yaxes(type="category", autorange="reversed")
    _styled(figure, 160 + 34 * len(bars) + 7 * len(names))
    return figure.update_layout(legend={"y": -0.2, "yanchor": "top", "font": {"size": 11}})


def step_times(rows: Sequence[Mapping[str, Any]], hover: Sequence[Sequence[str]]) -> go.Figure:
    """A bar per way to hold what a step saves: milliseconds of compute, and of waiting."""
    figure = go.Figure()
    parts = (
        ("compute", "#33658A", "", [r["step_s"] - r["stall_s"] for r in rows]),
        ("waits for copies", ORANGE, "/", [r["stall_s"] for r in rows]),
    )
    for name, colour, pattern, seconds in parts:
        figure.add_bar(
            y=[plain(r["name"]) for r in rows],
            x=[1e3 * s for s in seconds],
            name=f"{name}, modelled",
            orientation="h",
            marker={"color": colour, "pattern": {"shape": pattern}},
            **_hover(hover),
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
        vertical_spacing=0.3 / (len(processes) + 2),
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
                marker={"color": WORK_COLOURS.get(category, GREY), "line": {"width": 0}},
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
        vertical_spacing=0.24 / rows,
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
        ticktext=[plain(names[i])[-28:] for i in ticks],
        tickangle=-45,
        range=[-0.7, len(names) - 0.3],
        **place,
    )


def _menu(figure: go.Figure, counts: Mapping[str, int]) -> None:
    """A menu that shows one group of traces: by its name, how many they are."""
    buttons, start = [], 0
    for name, count in counts.items():
        visible = [start <= i < start + count for i in range(len(figure.data))]
        buttons.append({"label": plain(name), "method": "restyle", "args": [{"visible": visible}]})
        start += count
    if len(buttons) > 1:
        menu = {"buttons": buttons, "x": 1, "xanchor": "right", "y": 1.02, "yanchor": "bottom"}
        figure.update_layout(updatemenus=[menu])


def _styled(figure: go.Figure, height: int) -> go.Figure:
    axis = {"gridcolor": GRID, "linecolor": GREY, "zeroline": False, "automargin": True}
    figure.update_layout(
        template="none",
        height=height,
        margin={"l": 60, "r": 20, "t": 50, "b": 50},
        font={"family": "system-ui, sans-serif", "size": 12, "color": "#222222"},
        hoverlabel={"bgcolor": "white", "font": {"color": "#222222"}, "align": "left"},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        paper_bgcolor="white",
        plot_bgcolor="white",
    )
    figure.update_xaxes(**axis)
    figure.update_yaxes(**axis)
    figure.update_annotations(font_size=12)
    return figure
