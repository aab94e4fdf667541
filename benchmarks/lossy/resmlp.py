"""Block-sparse activations (arXiv 2311.16883) in the training of ResMLP, in the folder benchmarks:

    python -m lossy.resmlp --data FOLDER [--epochs N] [--seeds 0 1 2] [--images N] [--docs FILE]

As S12 (arXiv 2105.03404), for images of 32 x 32 with patches of 4 x 4, narrower and shallower:
of the size that 95 runs of eight epochs take a few hours for.
A run that was stopped goes on after its latest epoch; one that is done is not done again.
"""

from .experiment import Experiment, main
from .training import Schedule

BLOCKS = (8, 16, 32)
DENSITIES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5)

RESMLP = Experiment(
    name="resmlp",
    title="ResMLP, block-sparse activations",
    network="resmlp-s12",
    options={"width": 64, "depth": 4, "side": 32, "patch": 4, "classes": 10},
    starts={
        "from scratch": Schedule(epochs=8, rate=2e-3, optimiser="adamw", weight_decay=0.05),
    },
    schedules=("short",),
    rows=("baseline", *(f"bsr{block}-{density}" for block in BLOCKS for density in DENSITIES)),
)

if __name__ == "__main__":
    main(RESMLP)
