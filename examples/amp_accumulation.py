"""Mixed precision and gradient accumulation in plain PyTorch.

A session is entered again for each micro-batch, so that its report is the whole optimiser step's.
"""

import itertools

import torch
from common import CLASSES, batches, images, options, show
from torch.nn import functional as F
from tqdm import tqdm

import actdma
from actdma.measure import zoo

MICRO_BATCHES = 4


def main() -> None:
    args = options(__doc__, steps=12, batch=32)
    torch.manual_seed(0)
    model = zoo.build("resnet20", classes=CLASSES).to(args.device)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    loader = iter(batches(images(args.steps * MICRO_BATCHES * args.batch), args.batch))
    progress = tqdm(range(args.steps), "bfloat16, four micro-batches a step")
    for _ in progress:
        session = actdma.offload(model, codec=args.codec, backend=args.backend, exact=args.exact)
        total = 0.0
        for x, y in itertools.islice(loader, MICRO_BATCHES):
            x, y = x.to(args.device), y.to(args.device)

            # Autocast inside of the session; the backward pass outside of both.
            with session, torch.autocast(args.device, torch.bfloat16):
                loss = F.cross_entropy(model(x), y) / MICRO_BATCHES

            loss.backward()
            total += loss.item()
        # With exact=True, parameters have to stay as they are until backward has run: they have.
        optimiser.step()
        optimiser.zero_grad()
        progress.set_postfix(loss=f"{total:.3f}")

    show(session.report())


if __name__ == "__main__":
    main()
