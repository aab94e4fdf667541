"""Cost of a training step on the CPU: hooks, codecs and checkpointing beside the plain step.

    python benchmarks/step.py [--data FOLDER] [--rounds 15] [--json FILE] [--docs FILE]

In every round each row takes one step (forward, backward, SGD) with its own copy of the network, in
another order each time; figures are medians over the rounds, ratios those to the plain step of the
same round. *CPU*: the process' time on all its threads. *Hooks*: time in packing and unpacking, the
wait for the codec's threads with it, as a part of the step's time; of exact rows this lacks what is
done around operators. *Held*: bytes held for backward at the peak, by `meter.Meter`. After every
step the gradients must equal the plain ones in every bit.

Rows: *identity hook*, hooks that do nothing; *zvc* and *auto* (zve for floating point, ints for
integers), `actdma.offload` on the CPU's codec; *exact*, with ``exact=True`` and no codec, or *auto*
on top; *checkpointing*, PyTorch's, of every residual block or encoder layer. *Held* of exact rows
is the session's own count. Networks, and what they need of FOLDER: `networks.py`; images and
weights are random without it. float32.
"""

from __future__ import annotations

import copy
import random
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

import torch
from common import Study, at_least_one, publish
from tqdm import tqdm
from variants import VARIANTS, Trial

from networks import GELU_TRANSFORMER, RESNET_20, Work, parser_of

NETWORKS = (RESNET_20, GELU_TRANSFORMER)
ROWS = tuple(name for name in VARIANTS if name != "save_on_cpu")
STUDY = Study("step", "Cost of a training step", "measured")
COLUMNS = (
    *("network", "row", "ms", "wall, of plain", "CPU, of plain", "hooks, of step"),
    *("ratio", "held MB", "of plain"),
)


class Stepper:
    """A row: its copy of the network, and what its steps took."""

    def __init__(self, work: Work, variant: str, dtype: str, order: str) -> None:
        self.trial = Trial(copy.deepcopy(work), VARIANTS[variant], dtype, order)
        self.held = self.trial.held()
        self._optimiser = torch.optim.SGD(self.trial.model.parameters(), lr=1e-4, momentum=0.9)
        self.trial.step()  # a warm-up
        self.wall: list[float] = []
        self.cpu: list[float] = []
        self.hooks: list[float] = []  # of the step's time

    def step(self, seed: int) -> str:
        """One more step; a hash of its gradients."""
        wall, cpu = time.perf_counter(), time.process_time()
        session = self.trial.step(seed)
        self._optimiser.step()
        self.wall.append(time.perf_counter() - wall)
        self.cpu.append(time.process_time() - cpu)
        self.hooks.append(session.report().stall_s / self.wall[-1] if session else 0.0)
        return self.trial.gradients()

    def ratio(self) -> float:
        """Raw bytes per stored byte of what was packed."""
        records = self.held["records"]
        stored = sum(r["stored_bytes"] for r in records)
        return sum(r["raw_bytes"] for r in records) / stored if stored else 1.0


def compare(
    work: Work,
    rows: Sequence[str],
    rounds: int,
    bar: tqdm,
    dtype: str = "float32",
    order: str = "contiguous",
) -> tuple[dict[str, Stepper], list[str]]:
    """Steps of all ``rows``, "plain" among them, and those rows whose gradients differed."""
    steppers = {name: Stepper(work, name, dtype, order) for name in rows}
    turns, wrong = list(rows), set()
    for seed in range(rounds):
        random.Random(seed).shuffle(turns)
        hashes = {name: steppers[name].step(seed) for name in turns}
        wrong |= {name for name in rows if hashes[name] != hashes["plain"]}
        bar.update()
    return steppers, sorted(wrong)


def figures_of(stepper: Stepper, plain: Stepper) -> dict[str, Any]:
    def of_plain(mine: list[float], theirs: list[float]) -> float:
        return statistics.median(a / b for a, b in zip(mine, theirs, strict=True))

    return {
        "seconds": statistics.median(stepper.wall),
        "wall_of_plain": of_plain(stepper.wall, plain.wall),
        "cpu_of_plain": of_plain(stepper.cpu, plain.cpu),
        "hooks_of_step": statistics.median(stepper.hooks),
        "ratio": stepper.ratio(),
        "held": stepper.held["held"],
        "held_of_plain": stepper.held["held"] / plain.held["held"],
    }


def main() -> None:
    parser = parser_of(__doc__, NETWORKS)
    parser.add_argument("--rounds", type=at_least_one, default=15)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    networks = [network for network in NETWORKS if network.name in args.network]
    table, figures, failures = [], [], []
    with tqdm(total=args.rounds * len(networks), unit="round") as bar:
        for network in networks:
            steppers, wrong = compare(network.work(args.data, args.batch), ROWS, args.rounds, bar)
            failures += [f"{network.name}, {row}" for row in wrong]
            name = f"{network.name}, batch {args.batch or network.batch}"
            for row, stepper in steppers.items():
                f = figures_of(stepper, steppers["plain"])
                figures.append({"network": name, "row": row, **f})
                packs = bool(stepper.held["records"])
                table.append(
                    [
                        name,
                        row,
                        f"{f['seconds'] * 1e3:.0f}",
                        f"{f['wall_of_plain']:.2f}x",
                        f"{f['cpu_of_plain']:.2f}x",
                        f"{f['hooks_of_step']:.1%}" if packs else "",
                        f"{f['ratio']:.2f}" if packs else "",
                        f"{f['held'] / 1e6:.1f}",
                        f"{f['held_of_plain']:.2f}",
                    ]
                )
    what = f"measured, float32, {args.threads} threads, medians of {args.rounds} rounds"
    publish(STUDY, COLUMNS, table, figures, what, args)
    if failures:
        sys.exit(f"gradients differ from the plain step's: {'; '.join(failures)}")


if __name__ == "__main__":
    main()
