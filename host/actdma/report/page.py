"""The page: sections of charts and tables, in one file without references to others."""

from __future__ import annotations

import dataclasses
import functools
import html
import itertools
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from plotly.offline import get_plotlyjs

from ..version import VERSION
from .blocks import Block, Chart, Heading, Table, Tile
from .exhibits import SECTIONS, SHOWN, Exhibit, Section, study_table
from .shapes import ShapeError
from .sources import BY_COLUMN, KINDS, Notice, ReportError, Source, read_folder

# Nothing may be fetched, whatever a file says.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
)
_BUTTONS = [["toImage", "resetScale2d"]]
_CONFIG = {"displaylogo": False, "responsive": True, "modeBarButtons": _BUTTONS}
_NUMBER = re.compile(r"[+\-]?\d[\d.,]*(e[+\-]?\d+)?\s?[%x]?( \([\d.]+x\))?")
_OTHER = Section("other", "Other tables", ())


def write_page(folder: Path, path: str | os.PathLike) -> list[Notice]:
    """Write the page of all JSON files in ``folder`` to ``path``; what is not shown, and why.

    ReportError if nothing could be shown, OSError if the page cannot be written.
    """
    sources, notices = read_folder(folder)
    if not sources:
        reasons = "; ".join(f"{notice.file}: {notice.why}" for notice in notices)
        raise ReportError(f"nothing in {folder} can be shown: {reasons}")
    drawing = _Drawing()
    parts = [(section, drawing.section(section, sources)) for section in (*SECTIONS, _OTHER)]
    notices += drawing.notices
    shown = [(section, body) for section, body in parts if body]
    body = [
        _head(folder, len(sources)),
        _contents([section for section, _ in shown], bool(notices)),
        _summary(drawing.tiles, shown_files(sources)),
        *itertools.chain.from_iterable(body for _, body in shown),
        _missing({source.what for source in sources}),
        _notices(notices),
    ]
    Path(path).write_text(_document(folder, "\n".join(body)), "utf-8")
    return notices


def shown_files(sources: Sequence[Source]) -> list[tuple[Source, Section]]:
    """Each file and the section that it is in."""
    of = {exhibit.what: section for section in SECTIONS for exhibit in section.exhibits}
    return [(source, of.get(source.what, _OTHER)) for source in sources]


class _Drawing:
    """Sections in the making: their HTML, the summary's tiles, and what could not be drawn."""

    def __init__(self) -> None:
        self.tiles: list[Tile] = []
        self.notices: list[Notice] = []
        self._charts = itertools.count()

    def section(self, section: Section, sources: Sequence[Source]) -> list[str]:
        """The HTML of a section; nothing if no file belongs there."""
        exhibits = {exhibit.what: exhibit for exhibit in section.exhibits}
        if section is _OTHER:
            exhibits = {s.what: Exhibit(s.what, "") for s in sources if s.what not in SHOWN}
        drawn = [
            part
            for what, exhibit in exhibits.items()
            for source in sources
            if source.what == what
            for part in self._exhibit(exhibit, source, sources)
        ]
        if not drawn:
            return []
        return [f'<section id="{section.anchor}"><h2>{section.title}</h2>', *drawn, "</section>"]

    def _exhibit(self, exhibit: Exhibit, source: Source, sources: Sequence[Source]) -> list[str]:
        heading = exhibit.heading(source.data)
        title = f"{heading.title} ({source.file})"
        blocks: list[Block] = [dataclasses.replace(heading, title=title)]
        if "study" in source.data:
            blocks.append(study_table(source.data))
        try:
            data = exhibit.data(source)
            blocks += exhibit.draw(data)
            tiles = exhibit.tiles(data)
            if sum(other.what == source.what for other in sources) > 1:  # they may say the same
                tiles = (tile._replace(label=f"{tile.label} ({source.file})") for tile in tiles)
            self.tiles += tiles
        except ShapeError as error:
            self.notices.append(Notice(source.file, f"its charts are left out: {error}"))
        return [self._block(block) for block in blocks]

    @functools.singledispatchmethod
    def _block(self, block: Block) -> str:
        raise TypeError(block)

    @_block.register
    def _(self, block: Heading) -> str:
        command = f" <code>{_text(block.command)}</code>" if block.command else ""
        return f'<h3>{_text(block.title)}</h3><p class="note">{_text(block.text)}{command}</p>'

    @_block.register
    def _(self, block: Chart) -> str:
        chart = block.figure.to_html(
            full_html=False,
            include_plotlyjs=False,
            config=_CONFIG,
            default_height=f"{block.figure.layout.height}px",
            div_id=f"chart-{next(self._charts)}",
        )
        caption = f"<figcaption>{_badge(block.kind)} {_text(block.caption)}</figcaption>"
        return f'<figure class="{_class(block.kind)}">{caption}{chart}</figure>'

    @_block.register
    def _(self, block: Table) -> str:
        kind, caption = _class(block.kind), f"{_badge(block.kind)} {_text(block.caption)}"
        if not block.folded:
            return f'<div class="table {kind}">{_table(block, caption)}</div>'
        summary = f"<summary>{caption} ({len(block.rows)} rows)</summary>"
        table = f'<div class="table">{_table(block)}</div>'
        return f'<details class="{kind}">{summary}{table}</details>'


def _table(table: Table, caption: str = "") -> str:
    numbers = [_are_numbers(row[i] for row in table.rows) for i in range(len(table.columns))]
    heads = "".join(
        f'<th class="{_kind_of_column(name)}{" number" * number}">{_text(name)}</th>'
        for name, number in zip(table.columns, numbers, strict=True)
    )
    rows = "\n".join(
        "<tr>"
        + "".join(
            f'<td class="number">{_text(cell)}</td>' if number else f"<td>{_text(cell)}</td>"
            for cell, number in zip(row, numbers, strict=True)
        )
        + "</tr>"
        for row in table.rows
    )
    caption = f"<caption>{caption}</caption>" if caption else ""
    return f"<table>{caption}<thead><tr>{heads}</tr></thead><tbody>\n{rows}\n</tbody></table>"


def _are_numbers(cells: Iterable[str]) -> bool:
    """Whether most of a column are numbers, and go to the right."""
    found = [_NUMBER.fullmatch(cell) is not None for cell in cells if cell]
    return 2 * sum(found) > len(found)


def _kind_of_column(name: str) -> str:
    return next((kind for kind in KINDS if kind in name), "")


def _head(folder: Path, files: int) -> str:
    return (
        f"<h1>actdma: results</h1>"
        f'<p class="note">{files} files of {_text(str(folder))}, drawn by actdma {VERSION}.</p>'
        f"<p>{_badge('measured')} is what a clock or a count on a machine said, "
        f"{_badge('modelled')} what a model gives (its border is a double line), "
        f"{_badge(BY_COLUMN)} tables in which each column says which.</p>"
    )


def _contents(sections: Sequence[Section], notices: bool) -> str:
    entries = [("summary", "Summary"), *((s.anchor, s.title) for s in sections)]
    entries.append(("missing", "What would add more"))
    entries += [("notices", "What could not be shown")] * notices
    items = "".join(f'<li><a href="#{anchor}">{title}</a></li>' for anchor, title in entries)
    return f'<nav aria-label="Contents"><ul>{items}</ul></nav>'


def _summary(tiles: Sequence[Tile], files: Sequence[tuple[Source, Section]]) -> str:
    boxes = "".join(
        f'<div class="tile {tile.kind}"><b>{_text(tile.value)}</b>'
        f'<span class="label">{_text(tile.label)}</span> {_badge(tile.kind)}</div>'
        for tile in tiles
    )
    items = "".join(
        f'<li>{_text(source.file)}: <a href="#{section.anchor}">{section.title}</a></li>'
        for source, section in files
    )
    return (
        f'<section id="summary"><h2>Summary</h2><div class="tiles">{boxes}</div>'
        f"<details><summary>Files</summary><ul>{items}</ul></details></section>"
    )


def _missing(there: set[str]) -> str:
    rows = "".join(
        f"<tr><td>{section.title}</td><td><code>{_text(exhibit.command)}</code></td></tr>"
        for section in SECTIONS
        for exhibit in section.exhibits
        if exhibit.what not in there
    )
    text = (
        "RESULTS is the folder of this page's files; FOLDER the data that the head of "
        "benchmarks/networks.py describes."
        if rows
        else "Everything that this page knows is there."
    )
    return (
        f'<section id="missing"><h2>What would add more</h2><p class="note">{text}</p>'
        f'<div class="table"><table><tbody>{rows}</tbody></table></div></section>'
    )


def _notices(notices: Sequence[Notice]) -> str:
    if not notices:
        return ""
    items = "".join(f"<li>{_text(n.file)}: {_text(n.why)}</li>" for n in notices)
    return f'<section id="notices"><h2>What could not be shown</h2><ul>{items}</ul></section>'


def _document(folder: Path, body: str) -> str:
    style = Path(__file__).with_name("page.css").read_text("utf-8")
    return f"""<!DOCTYPE html>
<html lang="en-GB">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>actdma: results of {_text(folder.name)}</title>
<style>
{style}</style>
<script>{get_plotlyjs()}</script>
</head>
<body>
{body}
</body>
</html>
"""


def _badge(kind: str) -> str:
    return f'<span class="badge {_class(kind)}">{kind}</span>'


def _class(kind: str) -> str:
    return kind.replace(" ", "-")


def _text(text: str) -> str:
    """``text`` as it is, whatever is in it."""
    return html.escape(text.encode("utf-8", "replace").decode("utf-8"))
