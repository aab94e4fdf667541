"""What each rank of test_ranks.py does: training steps, plain and with `actdma.offload`.

``torchrun ... rank.py ddp|fsdp BACKEND FOLDER``; writes what it found to FOLDER/RANK.json.
"""

import copy
import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

import actdma
import networks
from actdma.offloading import gathered

STEPS = 3


def spread(model, way):
    if way == "ddp":
        return DistributedDataParallel(model)
    for child in model:
        if any(True for _ in child.parameters()):
            fully_shard(child)
    return fully_shard(model)


def local(t):
    return t.to_local() if hasattr(t, "to_local") else t


def train(model, inputs, backend=None):
    """The gradients of each step, and the last session; parameters move in between."""
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    gradients, session = [], None
    for x in inputs:
        torch.manual_seed(0)  # of dropout
        optimiser.zero_grad()
        if backend is None:
            loss = F.cross_entropy(model(x), torch.arange(len(x)) % 10)
        else:
            with actdma.offload(model, codec="auto", backend=backend, min_bytes=1) as session:
                loss = F.cross_entropy(model(x), torch.arange(len(x)) % 10)
        loss.backward()
        gradients.append([local(p.grad).clone() for p in model.parameters()])
        optimiser.step()
    return gradients, session


def main(way, backend, folder):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = networks.resnet() if way == "ddp" else networks.relu_cnn()
    generator = torch.Generator().manual_seed(1 + rank)
    inputs = [torch.randn(8, 3, 32, 32, generator=generator) for _ in range(STEPS)]
    plain, _ = train(spread(copy.deepcopy(model), way), inputs)
    packed, session = train(spread(model, way), inputs, backend)
    pairs = [pair for step in zip(plain, packed, strict=True) for pair in zip(*step, strict=True)]
    report = session.report()
    report.gradients_identical = all(torch.equal(a, b) for a, b in pairs)
    whole = gathered(report)
    found = {
        "identical": report.gradients_identical,
        "pairs": len(pairs),
        "records": len(report.records),
        "kept": report.kept,
        "held": report.held_bytes_peak,
        "whole": whole and whole.to_dict(),
    }
    Path(folder, f"{rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
