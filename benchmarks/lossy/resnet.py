"""Pooled activations (arXiv 2409.11902) in the training of ResNet-20, in the folder benchmarks:

    python -m lossy.resnet --data FOLDER [--epochs N] [--seeds 0 1 2] [--images N] [--docs FILE]

From scratch, and fine-tuned from the published weights (whose training has seen the images that
are for validation here: accuracy on them is no estimate, but schedules are still compared by it).
A run that was stopped goes on after its latest epoch; one that is done is not done again.
"""

from .experiment import Experiment, main
from .training import Schedule

RESNET = Experiment(
    name="resnet",
    title="ResNet-20, pooled activations",
    network="resnet20",
    options={},
    starts={
        "from scratch": Schedule(epochs=5, rate=0.1),
        "fine-tuned": Schedule(epochs=2, rate=0.01),
    },
    rows=(
        "baseline",
        "pool2",
        "pool4",
        "pool4@layer1",
        "pool4@layer1,pool2@layer2",
    ),
    pretrained="fine-tuned",
)

if __name__ == "__main__":
    main(RESNET)
