"""`actdma report`: a folder of results as one HTML page, which works without a network."""

from __future__ import annotations

import dataclasses
import html
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .inputs import InputError, need

MEASURED, MODELLED = "measured", "modelled"
# Of Okabe and Ito's palette, which colour-blind readers tell apart.
COLOURS = {MEASURED: "#0072b2", MODELLED: "#d55e00"}
_RAW = "#c9d3df"
_EXTRA = "actdma[report]"
_NAMED = 40  # bars, that have room for names; those of more show theirs below the mouse

_STYLE = f"""
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; color: #222; }}
h1 {{ font-size: 1.6rem; }}
h2 {{ font-size: 1.2rem; margin-top: 2rem; border-top: 1px solid #ddd; padding-top: 1rem; }}
table {{ border-collapse: collapse; font-size: 13px; display: block; overflow-x: auto; }}
th, td {{ text-align: left; padding: 3px 10px; border-bottom: 1px solid #e5e5e5; }}
th {{ background: #f4f6f8; }}
td {{ white-space: nowrap; }}
p.from {{ color: #666; font-size: 13px; }}
.badge {{ color: #fff; border-radius: 4px; padding: 1px 7px; font-size: 12px; margin-left: 6px; }}
.{MEASURED} {{ background: {COLOURS[MEASURED]}; }}
.{MODELLED} {{ background: {COLOURS[MODELLED]}; }}
@media print {{ .badge {{ border: 1px solid; color: inherit; background: none; }} }}
"""

Results = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Section:
    """A part of the page: a title, "measured", "modelled" or both, and HTML."""

    title: str
    kinds: tuple[str, ...]
    body: str


@dataclasses.dataclass(frozen=True)
class Source:
    """A kind of results: what they are, the command that writes them, how to know them, and the
    section that they make."""

    what: str
    command: str
    known: Callable[[Results], bool]
    section: Callable[[Results], Section]


def write_page(folder: Path, out: str | os.PathLike) -> list[str]:
    """Write the page of all JSON files in and below ``folder`` to ``out``.

    Returns what is not shown, and why, a sentence each. `InputError` if there is nothing to show.
    """
    need("plotly", _EXTRA)
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder")
    found, notices = [], []
    for path in sorted(folder.rglob("*.json")):
        name = str(path.relative_to(folder))
        try:
            found.append((name, *_read(path)))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            notices.append(f"{name} is not shown: {type(error).__name__}, {error}")
    if not found:
        commands = "; ".join(source.command for source in SOURCES)
        raise InputError(
            " ".join([*notices, f"{folder} has no results; to write some: {commands}"])
        )
    there = [source for _, source, _ in found]
    missing = [
        f"there is no {source.what}: {source.command}" for source in SOURCES if source not in there
    ]
    parts = [(name, section) for name, _, section in found]
    Path(out).write_text(_page(parts, [*notices, *missing]), "utf-8")
    return notices


def _read(path: Path) -> tuple[Source, Section]:
    data = json.loads(path.read_text("utf-8"))
    for source in SOURCES:
        if isinstance(data, dict) and source.known(data):
            return source, source.section(data)
    raise ValueError("not written by any of the commands that are known here")


def _step(data: Results) -> Section:
    """What `actdma measure --json` has written."""
    environment, totals, records = data["environment"], data["totals"], data["records"]
    options = environment.get("options") or {}
    title = ", ".join(str(options[k]) for k in ("model", "dtype", "codec") if k in options)
    same = {True: "in every bit", False: "no", None: "not compared"}
    rows = [
        ("tensors", totals["tensors"]),
        ("raw MB", f"{totals['raw_bytes'] / 1e6:.2f}"),
        ("stored MB", f"{totals['stored_bytes'] / 1e6:.2f}"),
        ("ratio", f"{totals['ratio'] or 1:.3f}"),
        ("held for backward at the peak, MB", f"{totals['held_bytes_peak'] / 1e6:.2f}"),
        ("gradients as in the plain run", same[totals["gradients_identical"]]),
        ("processor", environment.get("cpu", "")),
    ]
    bars = {
        "raw": ([r["raw_bytes"] / 1e6 for r in records], _RAW),
        "stored": ([r["stored_bytes"] / 1e6 for r in records], COLOURS[MEASURED]),
    }
    names = [f"{r['index']} {r['module'] or r['operator'] or ''}" for r in records]
    chart = _bars(names, bars, "MB", [_tensor(r) for r in records])
    return Section(f"A step of {title or 'a model'}", (MEASURED,), _table(("", ""), rows) + chart)


def _tensor(record: Results) -> list[str]:
    shape = "x".join(map(str, record["shape"]))
    how = f"{record['codec'] or record['form']}, ratio {record['ratio'] or 1:.2f}"
    return [f"{shape} {record['dtype']}", how, f"zeros {record['zero_fraction']:.1%}"]


def _simulation(data: Results) -> Section:
    """What `actdma simulate --json` has written."""
    options, rows = data["options"], data["rows"]
    where = f"{options['device']} over {options['link']}"
    title = f"Step-time model: {options['network']}, batch {options['batch']}, on {where}"
    columns = ("", "step, ms", "of oracle's speed", "over vDNN", "held, GB", "over the link, GB")
    cells = [
        (
            row["name"],
            f"{1e3 * row['step_s']:.1f}",
            f"{row['of_oracle_speed']:.0%}",
            f"{row['gain_over_vdnn']:+.0%}",
            f"{row['held_bytes'] / 1e9:.2f}",
            f"{row['moved_bytes'] / 1e9:.2f}",
        )
        for row in rows
    ]
    bars = {"step": ([1e3 * row["step_s"] for row in rows], COLOURS[MODELLED])}
    hover = [[f"waits {1e3 * row['stall_s']:.1f} ms of it"] for row in rows]
    chart = _bars([row["name"] for row in rows], bars, "ms", hover)
    inputs = _table(("went in", ""), data["inputs"])
    return Section(title, (MODELLED,), _table(columns, cells) + chart + inputs)


def _study(data: Results) -> Section:
    """What a benchmark has written with ``--json``."""
    kinds = tuple(kind for kind in COLOURS if kind in data["caption"])
    caption = f"<p>{html.escape(data['caption'])}</p>"
    return Section(data["title"], kinds, caption + _table(data["columns"], data["rows"]))


SOURCES = (
    Source(
        "training step",
        "actdma measure --json FILE",
        lambda data: data.keys() >= {"environment", "totals", "records"},
        _step,
    ),
    Source(
        "step-time model",
        "actdma simulate --network NAME --json FILE",
        lambda data: data.get("rows are") == MODELLED,
        _simulation,
    ),
    Source(
        "study",
        "python benchmarks/ratios.py --json FILE, or another script of `make bench`",
        lambda data: data.keys() >= {"title", "caption", "columns", "rows"},
        _study,
    ),
)


def _bars(
    names: Sequence[str],
    bars: Mapping[str, tuple[Sequence[float], str]],
    unit: str,
    hover: Sequence[Sequence[str]],
) -> str:
    """Bars of each name side by side: values and a colour by what they are. ``hover``: lines for
    each name."""
    objects = need("plotly.graph_objects", _EXTRA)
    lines = ["<br>".join(map(html.escape, of_name)) for of_name in hover]
    label = f"%{{x}}<br>%{{fullData.name}} %{{y:.2f}} {unit}<br>%{{customdata}}<extra></extra>"
    figure = objects.Figure(
        [
            objects.Bar(
                name=what,
                x=[html.escape(name) for name in names],
                y=list(values),
                marker_color=colour,
                customdata=lines,
                hovertemplate=label,
            )
            for what, (values, colour) in bars.items()
        ]
    )
    figure.update_layout(
        template="plotly_white",
        height=400,
        margin={"l": 50, "r": 10, "t": 10, "b": 10},
        yaxis_title=unit,
        xaxis={"type": "category", "automargin": True, "showticklabels": len(names) <= _NAMED},
        legend={"orientation": "h", "y": 1.1},
    )
    return figure.to_html(full_html=False, include_plotlyjs=False, config={"displaylogo": False})


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    def line(tag: str, cells: Sequence[object]) -> str:
        return "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells)

    body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    return f"<table><thead><tr>{line('th', columns)}</tr></thead><tbody>{body}</tbody></table>"


def _badges(kinds: Sequence[str]) -> str:
    return "".join(f'<span class="badge {kind}">{kind}</span>' for kind in kinds)


def _page(parts: Sequence[tuple[str, Section]], notes: Sequence[str]) -> str:
    """``parts``: sections by the file that they come from; ``notes``: what is not shown."""
    script = need("plotly.offline", _EXTRA).get_plotlyjs()
    contents, body = "", ""
    for number, (name, section) in enumerate(parts):
        title, badges = html.escape(section.title), _badges(section.kinds)
        contents += f'<li><a href="#s{number}">{title}</a>{badges}</li>'
        body += f'<h2 id="s{number}">{title}{badges}</h2>{section.body}'
        body += f'<p class="from">from {html.escape(name)}</p>'
    left_out = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
    return (
        "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'><title>actdma</title>"
        f"<link rel='icon' href='data:,'><style>{_STYLE}</style>"
        f"<script>{script}</script></head><body>"
        "<h1>What a step saves, and what becomes of it</h1>"
        f"<p>Every figure is {_badges([MEASURED])} or {_badges([MODELLED])}.</p>"
        f"<ul>{contents}</ul>{body}"
        + (f"<h2>Not here</h2><ul>{left_out}</ul>" if left_out else "")
        + "</body></html>\n"
    )
