"""The report on a terminal."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from ..offloading import Report, text
from .inputs import need

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDTH = 100  # where the output is not a terminal
_JUSTIFY = {"<": "left", ">": "right"}


def show(report: Report, console: Console | None = None) -> None:
    """Print the records, the totals and the verdict with `rich`."""
    console = console or console_of()
    console.print(records_table(report, narrow=console.width < WIDTH))
    console.print(totals_table(report))
    console.print()
    for good, sentence in text.verdict(report):
        console.print(sentence, style="green" if good else "bold red", soft_wrap=True)


def console_of() -> Console:
    """A console on stdout, of a fixed width where that is not a terminal."""
    rich_console = need("rich.console")
    console = rich_console.Console(highlight=False)
    if not console.is_terminal:
        console = rich_console.Console(highlight=False, width=WIDTH)
    return console


def records_table(report: Report, *, narrow: bool = False) -> Table:
    """One row per packed tensor; ``narrow``: without the dtype where it is the same in all rows."""
    table = need("rich.table").Table(
        title=text.title(report),
        caption=text.rates_are(report),
        box=need("rich.box").SIMPLE_HEAD,
    )
    same = len({record.dtype for record in report.records}) < 2
    columns = text.columns(report)
    shown = [not (narrow and same and name == "dtype") for name in columns]
    for name, align in itertools.compress(columns.items(), shown):
        # Only names may be folded in a narrow terminal.
        table.add_column(name, justify=_JUSTIFY[align], no_wrap=name != "saved by", overflow="fold")
    for record in report.records:
        table.add_row(*itertools.compress(text.cells(report, record), shown))
    return table


def totals_table(report: Report) -> Table:
    """The totals, two columns."""
    table = need("rich.table").Table(box=None, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, value in text.total_cells(report):
        table.add_row(name, value)
    return table
