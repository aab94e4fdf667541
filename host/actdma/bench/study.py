"""A table of figures: on the terminal, and as JSON that ``actdma report`` reads."""

from __future__ import annotations

import dataclasses
import datetime
import json
import platform
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

JSON_FORMAT = 1
_WIDTH = 120


@dataclasses.dataclass(frozen=True)
class Study:
    """What a table is of: ``name``, by which `actdma report` knows it, and its title.

    ``kind``: "measured", "modelled", or "by column", where the columns' names say.
    """

    name: str
    title: str
    kind: str


@dataclasses.dataclass(frozen=True)
class Published:
    """A study's table: ``columns`` and ``rows`` of text, and the ``figures`` behind them.

    ``what``: the conditions, in a sentence; `caption` has machine and day besides.
    """

    study: Study
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    figures: Sequence[object]
    what: str

    @property
    def caption(self) -> str:
        """Where, when and how."""
        return f"{processor()}, {datetime.date.today()}: {self.what}"

    def show(self) -> None:
        """Print the table; needs `rich`."""
        from rich.console import Console
        from rich.table import Table

        table = Table(title=self.study.title, caption=self.caption)
        for column in self.columns:
            table.add_column(column, overflow="fold")
        for row in self.rows:
            table.add_row(*row)
        console = Console()
        console.width = max(console.width, _WIDTH)
        console.print(table)

    def to_json(self, path: Path) -> None:
        """Write it; folders are made."""
        data = {
            "format": JSON_FORMAT,
            "study": dataclasses.asdict(self.study),
            "caption": self.caption,
            "command": command(),
            "columns": self.columns,
            "rows": self.rows,
            "figures": self.figures,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(data, indent=2) + "\n")


def command() -> str:
    """The command line that runs."""
    return shlex.join(["python", *sys.orig_argv[1:]])


def processor() -> str:
    """The processor's name as the system gives it."""
    try:
        found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine()
