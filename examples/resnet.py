"""ResNet-20 on images of 32 x 32: the smallest change to a training loop.

What the network saves for its backward pass is compressed as it is saved; weights come out as
without, in every bit.
"""

import torch
from common import CLASSES, batches, images, options, show
from torch.nn import functional as F
from tqdm import tqdm

import actdma
from actdma.measure import zoo


def main() -> None:
    args = options(__doc__, steps=30, batch=64)
    torch.manual_seed(0)
    model = zoo.build("resnet20", classes=CLASSES).to(args.device)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)

    progress = tqdm(batches(images(args.steps * args.batch), args.batch), "ResNet-20")
    for x, y in progress:
        x, y = x.to(args.device), y.to(args.device)

        # The block spans the forward pass and the loss; one session is one step's report.
        with actdma.offload(
            model, codec=args.codec, backend=args.backend, exact=args.exact
        ) as session:
            loss = F.cross_entropy(model(x), y)

        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        progress.set_postfix(loss=f"{loss.item():.3f}", held=f"{session.held_bytes / 1e6:.1f} MB")

    show(session.report())


if __name__ == "__main__":
    main()
