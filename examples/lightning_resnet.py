"""ResNet-20 in Lightning: a callback, and nothing in the module changes.

Needs `pip install 'actdma[demo,lightning]'`.
"""

import tempfile

import lightning.pytorch as pl
import torch
from common import CLASSES, batches, images, options, show
from lightning.pytorch.callbacks import TQDMProgressBar
from lightning.pytorch.loggers import CSVLogger
from torch.nn import functional as F

from actdma.integrations.lightning import OffloadCallback
from actdma.measure import zoo


class Classifier(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.network = zoo.build("resnet20", classes=CLASSES)

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        x, y = batch
        loss = F.cross_entropy(self.network(x), y)
        self.log("loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: list[torch.Tensor], index: int) -> None:
        x, y = batch
        self.log("accuracy", (self.network(x).argmax(1) == y).float().mean(), prog_bar=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)


def main() -> None:
    args = options(__doc__, steps=30, batch=64)
    pl.seed_everything(0, verbose=False)
    offload = OffloadCallback(codec=args.codec, backend=args.backend, exact=args.exact)

    with tempfile.TemporaryDirectory() as logs:
        trainer = pl.Trainer(
            max_steps=args.steps,
            accelerator=args.device,
            devices=1,
            callbacks=[offload, TQDMProgressBar()],
            logger=CSVLogger(logs),  # any logger has actdma/ratio, actdma/held_bytes, ...
            log_every_n_steps=1,
            enable_checkpointing=False,
            enable_model_summary=False,
        )
        trainer.fit(
            Classifier(),
            batches(images(args.steps * args.batch), args.batch),
            batches(images(args.batch), args.batch),
        )

    logged = {name: value.item() for name, value in trainer.logged_metrics.items()}
    print({name: logged[name] for name in sorted(logged) if name.startswith("actdma/")})
    show(offload.report)


if __name__ == "__main__":
    main()
