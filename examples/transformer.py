"""A small GPT on made-up sentences: dense activations, where leaving out zeros is not enough.

`--codec zvc --no-exact` shows it: the codec that packs exponents (auto takes it for floating point)
and making tensors again is what gains here.
"""

import torch
from common import batches, options, sentences, show
from torch.nn import functional as F
from tqdm import tqdm

import actdma
from actdma.measure import zoo

VOCABULARY, CONTEXT = 512, 128


def main() -> None:
    args = options(__doc__, steps=30, batch=8)
    torch.manual_seed(0)
    model = zoo.build(
        "gpt", width=128, depth=4, heads=4, vocabulary=VOCABULARY, context=CONTEXT
    ).to(args.device)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)

    data = sentences(args.steps * args.batch, CONTEXT + 1, VOCABULARY)
    progress = tqdm(batches(data, args.batch), "GPT")
    for tokens in progress:
        tokens = tokens.to(args.device)

        # The logits, (batch, tokens, vocabulary), are the largest tensor by far, and the loss saves
        # a softmax of them: it has to be in the block, too.
        with actdma.offload(
            model, codec=args.codec, backend=args.backend, exact=args.exact
        ) as session:
            logits = model(tokens[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        progress.set_postfix(loss=f"{loss.item():.3f}")

    show(session.report())


if __name__ == "__main__":
    main()
