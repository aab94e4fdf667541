"""The report on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..offloading import Record, Report
from ..offloading.records import fabric_rate
from .inputs import need

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDTH = 100  # where the output is not a terminal


def show(report: Report, console: Console | None = None) -> None:
    """Print the records, the totals and the verdict with `rich`."""
    rich_console = need("rich.console")
    console = console or rich_console.Console(highlight=False)
    if not console.is_terminal:
        console = rich_console.Console(highlight=False, width=WIDTH, file=console.file)
    console.print(records_table(report))
    console.print(totals_table(report))
    for sentence in verdict(report):
        console.print(sentence, soft_wrap=True)


def records_table(report: Report) -> Table:
    """One row per packed tensor."""
    table = need("rich.table").Table(title=_title(report), box=need("rich.box").SIMPLE_HEAD)
    table.add_column("#", justify="right")
    table.add_column("saved by", overflow="ellipsis", no_wrap=True)
    table.add_column("shape", no_wrap=True)
    table.add_column("dtype", no_wrap=True)
    for name in ("MB", "zeros", "ratio", *_rate_columns(report)):
        table.add_column(name, justify="right", no_wrap=True)
    for record in report.records:
        rates = [_number(_rate(report, record, way)) for way in ("compress", "decompress")]
        table.add_row(
            str(record.index),
            record.module or record.operator or "",
            "x".join(map(str, record.shape)),
            record.dtype,
            f"{record.raw_bytes / 1e6:.2f}",
            f"{record.zero_fraction:.1%}",
            f"{record.ratio:.2f}",
            *rates,
        )
    return table


def totals_table(report: Report) -> Table:
    """The totals, two columns."""
    totals = report.totals()
    table = need("rich.table").Table(
        title="totals", box=None, show_header=False, title_justify="left"
    )
    table.add_column(style="bold")
    table.add_column()
    for name, value in _total_rows(report, totals):
        table.add_row(name, value)
    return table


def verdict(report: Report) -> list[str]:
    """What the comparison with the plain run says, in sentences."""
    through = _through(report.environment)
    came_back = sum(r.bit_identical is not None for r in report.records)
    wrong = sum(r.bit_identical is False for r in report.records)
    sentences = []
    if wrong:
        sentences.append(f"[red]{wrong} of {came_back} tensors came back with other bits.[/red]")
    elif came_back:
        sentences.append(
            f"All {came_back} tensors that backward asked for came back bit-identical."
        )
    if report.gradients_identical is not None:
        verb = "are" if report.gradients_identical else "are NOT"
        colour = "green" if report.gradients_identical else "red"
        sentences.append(
            f"[{colour}]The gradients of the run through {through} {verb} bit-identical to the plain "
            f"run.[/{colour}]"
        )
    return sentences


def _through(environment: dict[str, Any]) -> str:
    board = environment["board"]
    if board:
        return "the emulated FPGA board" if board.get("modelled") else "the FPGA board"
    return {"native": "the CPU's codec", "reference": "the NumPy reference"}.get(
        environment["backend"], f"the backend {environment['backend']!r}"
    )


def _title(report: Report) -> str:
    options = report.environment.get("options")
    codecs = ", ".join(sorted({r.codec for r in report.records}))
    what = f"{options['model']}, batch {options['batch']}, {options['dtype']}: " if options else ""
    return f"{what}{len(report.records)} saved tensors, {codecs} through {_through(report.environment)}"


def _rate_columns(report: Report) -> tuple[str, str]:
    kind = "modelled" if report.modelled else "measured"
    where = "fabric" if report.environment["board"] else "CPU"
    return f"{where} in\nGB/s {kind}", f"{where} out\nGB/s {kind}"


def _rate(report: Report, record: Record, way: str) -> float | None:
    """GB/s of one record: of the fabric where there is one, else by the wall clock."""
    board = report.environment["board"]
    if board:
        return fabric_rate([record], way, board)
    seconds = getattr(record, f"{way}_s")
    return record.raw_bytes / seconds / 1e9 if seconds else None


def _total_rows(report: Report, totals: dict[str, Any]) -> list[tuple[str, str]]:
    kept = ", ".join(f"{count} {reason}" for reason, count in sorted(report.kept.items()))
    rows = [
        ("raw", f"{totals['raw_bytes'] / 1e6:.2f} MB in {totals['tensors']} tensors"),
        ("stored", f"{totals['stored_bytes'] / 1e6:.2f} MB"),
        ("ratio", _number(totals["ratio"])),
        ("zeros", f"{totals['zero_fraction'] or 0:.1%} of all elements, by bytes"),
        ("saves", f"{totals['saves']} packed or shared; kept as they are: {kept or 'none'}"),
    ]
    rows += _rate_rows(report, totals)
    if "step_s" in totals:
        step = f"{totals['step_s']:.2f} s, plain {totals['plain_step_s']:.2f} s (measured)"
        rows.append(("wall time of the step", step))
    return rows


def _rate_rows(report: Report, totals: dict[str, Any]) -> list[tuple[str, str]]:
    rows = []
    for where, kind in (("fabric", totals["timing"]), ("cpu", "measured")):
        compress, decompress = (
            totals.get(f"{where}_{w}_gb_per_s") for w in ("compress", "decompress")
        )
        if compress:
            text = f"{_number(compress)} GB/s in, {_number(decompress)} GB/s out ({kind})"
            rows.append(("fabric alone" if where == "fabric" else "CPU codec, one thread", text))
    if "memcpy_gb_per_s" in totals:
        rows.append(("memcpy, one thread", f"{_number(totals['memcpy_gb_per_s'])} GB/s (measured)"))
    return rows


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
