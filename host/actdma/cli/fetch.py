"""``actdma fetch``: bitstreams into the cache."""

from __future__ import annotations

import argparse

from .common import UsageError


def add(commands: argparse._SubParsersAction) -> None:
    """The command and its options."""
    parser = commands.add_parser(
        "fetch",
        help="a board's bitstream into the cache, where open_board finds it",
        description="Copies the .bit and .hwh that `make -C overlay` has built into the cache "
        "(ACTDMA_CACHE, else ~/.cache/actdma), if they are what the manifest beside them says.",
    )
    parser.add_argument(
        "--board", required=True, help="the board's name; an unknown one lists them"
    )
    parser.add_argument(
        "--from",
        dest="source",
        required=True,
        metavar="URL-OR-FOLDER",
        help="where actdma.sha256 and the files it lists are",
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from ..overlay.cache import FetchError, fetch

    try:
        print(f"wrote {fetch(options.board, options.source)}")
    except FetchError as error:
        raise UsageError(str(error)) from error
    return 0
