"""The study, and what there is to choose from, on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..measure.inputs import model_names, need
from ..measure.table import console_of
from .hardware import DEVICES, LINKS
from .run import Study

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

COLUMNS = (
    *("step", "ms", "oracle's speed", "gain over vDNN", "stalled, ms"),
    *("GB to the host", "GB held"),
)


def show(study: Study, console: Console | None = None) -> None:
    """Print the rows and what went into them with `rich`."""
    console = console or console_of()
    console.print(steps_table(study))
    for kind, text in study.inputs:
        console.print(f"{kind}: {text}", soft_wrap=True)


def steps_table(study: Study) -> Table:
    """One row per way to hold what the step saves."""
    table = _table(study.title, COLUMNS, "all figures modelled; held: saved data, on the device")
    oracle, vdnn = study.rows[:2]
    for row in study.rows:
        timeline = row.timeline
        table.add_row(
            row.name,
            f"{timeline.step_s * 1e3:.1f}",
            f"{oracle.timeline.step_s / timeline.step_s:.0%}",
            "" if row is oracle or row is vdnn else percent(row.gain_over(vdnn)),
            f"{timeline.stall_s * 1e3:.1f}",
            f"{row.moved_bytes / 1e9:.2f}",
            f"{row.held_bytes / 1e9:.2f}",
        )
    return table


def percent(gain: float) -> str:
    """A gain as "+32%"; no minus in front of nought."""
    return f"{round(gain, 2) + 0.0:+.0%}"


def show_choices(console: Console | None = None) -> None:
    """Print the devices, links and networks that have names."""
    console = console or console_of()
    devices = _table("Devices", ("device", "", "TFLOP/s, fp32", "half", "memory, GB/s"), "peaks")
    for name, d in DEVICES.items():
        half = f"{d.half:g}" if d.half else ""
        devices.add_row(name, d.title, f"{d.float32:g}", half, f"{d.memory:g}")
    columns = ("link", "", "GB/s to the host", "back", "engine in", "out")
    links = _table("Links", columns, "an engine without figures is in the device")
    for name, link in LINKS.items():
        engine = [f"{rate:.4g}" if rate else "" for rate in (link.compress, link.decompress)]
        links.add_row(name, link.title, f"{link.to_host:.4g}", f"{link.to_device:.4g}", *engine)
    console.print(devices)
    console.print(links)
    names = ", ".join(model_names())
    console.print(
        f"networks: {names}, torchvision:NAME, module:callable and path.py:callable",
        soft_wrap=True,
    )


def _table(title: str, columns: tuple[str, ...], caption: str) -> Table:
    table = need("rich.table").Table(title=title, caption=caption, box=need("rich.box").SIMPLE_HEAD)
    for number, name in enumerate(columns):
        left = number == 0 or not name
        table.add_column(name, justify="left" if left else "right", overflow="fold")
    return table
