"""``actdma doctor``: what works here, and what to do about the rest."""

from __future__ import annotations

import argparse

from .common import FOUND_WRONG


def add(commands: argparse._SubParsersAction) -> None:
    """The command and its options."""
    parser = commands.add_parser(
        "doctor",
        help="what works on this machine, and what to do about the rest",
        description="Looks at what is installed, at the CPU's codec with every instruction set, at "
        "PyTorch's devices, folders and variables, and sends tensors through every board there is, "
        "the emulated one included; all codecs are held to the reference. Exit code 1 if something "
        "is wrong. Put its lines into a bug report.",
    )
    parser.add_argument(
        "--xclbin", metavar="FILE", help="send tensors through an Alveo card, too, with this loaded"
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from .. import doctor

    findings = []
    for finding in doctor.examine(options.xclbin):
        print(finding, flush=True)
        findings.append(finding)
    print(f"\n{doctor.verdict(findings)}")
    wrong = any(finding.state is doctor.State.WRONG for finding in findings)
    return FOUND_WRONG if wrong else 0
