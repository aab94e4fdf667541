"""A diffusion model's U-Net: maps from the way down wait for the way up, and for backward.

Each step draws a time for every image, mixes noise in, and trains the network to name the noise
(Ho et al., arXiv 2006.11239).
"""

import torch
from common import batches, images, options, show
from torch.nn import functional as F
from tqdm import tqdm

import actdma
from actdma.measure import zoo

TIMES = 1000


def main() -> None:
    args = options(__doc__, steps=20, batch=8)
    torch.manual_seed(0)
    model = zoo.UNet((32, 64, 64), units=1).to(args.device)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    # How much of the image is left at each time.
    kept = torch.cumprod(1 - torch.linspace(1e-4, 0.02, TIMES), 0).to(args.device)

    progress = tqdm(batches(images(args.steps * args.batch), args.batch), "U-Net")
    for x, _ in progress:
        x = x.to(args.device)
        t = torch.randint(TIMES, (len(x),), device=args.device)
        noise, left = torch.randn_like(x), kept[t].view(-1, 1, 1, 1)
        noisy = left.sqrt() * x + (1 - left).sqrt() * noise

        with actdma.offload(
            model, codec=args.codec, backend=args.backend, exact=args.exact
        ) as session:
            loss = F.mse_loss(model(noisy, t), noise)

        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        progress.set_postfix(loss=f"{loss.item():.3f}")

    show(session.report())


if __name__ == "__main__":
    main()
