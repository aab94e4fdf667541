"""``actdma completion``: what a shell needs to complete the command line."""

from __future__ import annotations

import argparse

from .common import missing_extra

_SHELLS = ("bash", "zsh", "tcsh")


def add(commands: argparse._SubParsersAction) -> None:
    """The command and its options."""
    parser = commands.add_parser(
        "completion",
        help="a script with which a shell completes this command line",
        description="Prints a script for the shell: in bash, `source <(actdma completion bash)`.",
    )
    parser.add_argument("shell", choices=_SHELLS)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    with missing_extra():
        import shtab
    from . import parser

    print(shtab.complete(parser(), options.shell))
    return 0
