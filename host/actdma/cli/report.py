"""``actdma report``: a page of results."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .common import UsageError, check_outputs, missing_extra


def add(commands: argparse._SubParsersAction) -> None:
    """The command and its options."""
    parser = commands.add_parser(
        "report",
        help="a page of charts and tables of what the other commands and the benchmarks wrote",
        description="Writes one HTML page, which works offline, of the JSON files in a folder: "
        "those of `actdma measure`, of `actdma simulate` (--json, --trace) and of the scripts in "
        "benchmarks/ (--json).",
    )
    option = parser.add_argument
    option("folder", type=Path, metavar="RESULTS", help="with the JSON files")
    option(
        "--out",
        type=Path,
        default=Path("report.html"),
        metavar="PATH",
        help="the page (default %(default)s)",
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    check_outputs(options, ("out",))
    with missing_extra("report"):
        from .. import report
    try:
        notices = report.write_page(options.folder, options.out)
    except report.ReportError as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        raise UsageError(f"cannot write {options.out}: {error.strerror}") from error
    for notice in notices:
        print(f"actdma: {notice.file}: {notice.why}", file=sys.stderr)
    print(f"wrote {options.out}")
    return 0
