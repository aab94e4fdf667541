"""Training with several processes: what each rank's session has recorded, in one report."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

import torch.distributed as dist

from .records import Report


def gathered(report: Report, group: Any = None) -> Report | None:
    """The reports of all ranks in one, for rank 0 of ``group`` (None: of all); None for the others.

    A collective call: every rank makes it, as often as the others. Records come in the order of
    ranks and name theirs (`Record.rank`). Counts, faults and ``held_bytes_peak`` are sums over the
    ranks, ``pack_s`` and ``unpack_s`` those of the rank that was held up longest; gradients are
    identical if every rank's are. RuntimeError without a process group.
    """
    if not (dist.is_available() and dist.is_initialized()):
        raise RuntimeError(
            "reports are gathered from the ranks of a process group, and there is none: call "
            "torch.distributed.init_process_group first"
        )
    first = dist.get_rank(group) == 0
    reports: list[Report] | None = [report] * dist.get_world_size(group) if first else None
    dist.gather_object(report, reports, group=group, group_dst=0)
    # A rank that ends its process group while gloo still sends for it holds up the others for ever.
    dist.barrier(group)
    return merged(reports) if first else None


def merged(reports: list[Report]) -> Report:
    """The reports of ranks 0, 1, ... in one; see `gathered`."""
    records = [
        dataclasses.replace(record, rank=rank)
        for rank, report in enumerate(reports)
        for record in report.records
    ]
    for index, record in enumerate(records):
        record.index = index
    identical = {report.gradients_identical for report in reports}
    return Report(
        records,
        {**reports[0].environment, "ranks": len(reports)},
        dict(sum((collections.Counter(r.kept) for r in reports), collections.Counter())),
        gradients_identical=None if None in identical else all(identical),
        faults=sum(r.faults for r in reports),
        held_bytes_peak=sum(r.held_bytes_peak for r in reports),
        pack_s=max(r.pack_s for r in reports),
        unpack_s=max(r.unpack_s for r in reports),
        no_gain=list(dict.fromkeys(reason for r in reports for reason in r.no_gain)),
    )
