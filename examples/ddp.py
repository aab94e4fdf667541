"""Several processes, each with a codec or board of its own: DistributedDataParallel.

    torchrun --standalone --nproc-per-node 2 examples/ddp.py [--backend board] [--steps 20]

Every rank compresses what its own replica saves; gradients are averaged as ever. Rank 0 prints one
report of all. Where a machine has several Alveo cards, each rank takes the one of its local rank.
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from tqdm import tqdm

import actdma
from actdma.measure.zoo import build
from actdma.offloading import gathered


def backend_of(name, local_rank):
    """The backend called ``name``; "alveo" is the card of this rank."""
    if name == "alveo":
        return actdma.open_alveo(xclbin=os.environ["ACTDMA_XCLBIN"], device=local_rank)
    return name


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", default="native", choices=["native", "board", "alveo"])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=32, help="images of each rank")
    args = parser.parse_args()

    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank, local_rank = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    torch.manual_seed(0)
    model = DistributedDataParallel(build("resnet20"))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    backend = backend_of(args.backend, local_rank)
    images = torch.randn(args.batch, 3, 32, 32, generator=torch.Generator().manual_seed(rank))
    labels = torch.arange(args.batch) % 10

    for _ in tqdm(range(args.steps), disable=rank != 0):
        with actdma.offload(model, codec="auto", backend=backend) as session:
            loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()

    report = gathered(session.report())
    if rank == 0:
        print(report)
        print(f"loss {loss.item():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
