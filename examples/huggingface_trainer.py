"""A tiny GPT-2 with Hugging Face's Trainer: a callback, mixed precision, gradient accumulation.

The model comes from a configuration, with random weights: nothing is downloaded. Needs
`pip install 'actdma[demo,transformers]'`.
"""

import tempfile

from common import options, sentences, show
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

from actdma.integrations.transformers import OffloadCallback

VOCABULARY, CONTEXT = 512, 128


def main() -> None:
    args = options(__doc__, steps=12, batch=4)
    set_seed(0)
    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=VOCABULARY, n_positions=CONTEXT, n_embd=128, n_layer=4, n_head=4)
    )
    data = [
        {"input_ids": tokens, "labels": tokens}
        for tokens in sentences(2 * args.steps * args.batch, CONTEXT, VOCABULARY)
    ]

    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model,
            TrainingArguments(
                folder,
                use_cpu=args.device == "cpu",
                bf16=True,
                max_steps=args.steps,
                per_device_train_batch_size=args.batch,
                gradient_accumulation_steps=2,
                learning_rate=1e-3,
                logging_steps=4,  # and with each loss actdma/ratio, actdma/held_bytes, ...
                save_strategy="no",
                report_to="none",
            ),
            train_dataset=data,
        )
        offload = OffloadCallback(trainer, codec=args.codec, backend=args.backend, exact=args.exact)
        trainer.add_callback(offload)
        trainer.train()

    show(offload.report)


if __name__ == "__main__":
    main()
