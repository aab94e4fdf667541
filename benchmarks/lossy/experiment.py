"""The command of an experiment: runs, costs and gradients; tables, JSON and plots."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from common import Study, at_least_one, existing_folder, publish
from tqdm import tqdm

from actdma.measure.inputs import InputError
from networks import Work

from . import tables
from .costs import costs
from .data import Part, load
from .gradients import quality
from .plots import plot
from .rows import ALONE, BASELINE, SETTINGS, rules
from .summary import Result, at_best, lines
from .training import Run, Schedule, train, trained

LENGTHS = {"short": 1, "long": 2}  # epochs, of the short schedule's
STEPS = ("training", "costs", "gradients")
DTYPES = ("float32", "bfloat16")


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A network, where its runs start, and its rows.

    ``starts``: name, and the short schedule; ``schedules``: `LENGTHS` that are compared;
    ``pretrained``: which of the starts has published weights.
    """

    name: str
    title: str
    network: str
    options: Mapping[str, Any]
    starts: Mapping[str, Schedule]
    rows: tuple[str, ...]
    schedules: tuple[str, ...] = tuple(LENGTHS)
    pretrained: str | None = None


class Command:
    """An experiment with its arguments."""

    def __init__(self, experiment: Experiment, args: argparse.Namespace) -> None:
        self.experiment = experiment
        self.args = args
        self.rows = tuple(dict.fromkeys([BASELINE, *args.rows]))
        self.data = load(args.data, args.images)
        self.runs_folder = args.results / "runs"

    def run(self, start: str, length: str, row: str, setting: str, seed: int) -> Run:
        """The run of a row."""
        experiment = self.experiment
        schedule = experiment.starts[start]
        epochs = (self.args.epochs or schedule.epochs) * LENGTHS[length]
        return Run(
            experiment.network,
            experiment.options,
            start == experiment.pretrained,
            row,
            setting,
            dataclasses.replace(schedule, epochs=epochs, batch=self.args.batch),
            seed,
            self.args.images,
        )

    def training(self) -> dict[str, Any]:
        """Accuracy by row, schedule and seed."""
        results = self._results()
        what = (
            f"{self.args.images} images, a tenth of them for validation, {len(self.data.test)} for "
            "the test; mean ± half of the 95 % t-interval; differences are paired by seed"
        )
        by_schedule, best = lines(results), at_best(results)
        shown = {"accuracy by schedule": by_schedule}
        if len(self.args.schedules) > 1:
            shown["accuracy at the schedule that is best in validation"] = best
        for start in self.args.starts:
            for title, found in shown.items():
                rows = tables.accuracy([line for line in found if line.start == start])
                self._publish(f"{start}, {title}", tables.ACCURACY, rows, what)
        found = {"results": results, "by_schedule": by_schedule, "at_best": best}
        return {name: [dataclasses.asdict(x) for x in list_] for name, list_ in found.items()}

    def costs(self) -> dict[str, Any]:
        """Memory and time of each row in each setting, on the weights that runs start with."""
        args, batch = self.args, self._batch()
        work = Work(self._first_model(args.starts[-1]), batch.images, batch.labels, ())
        folder = args.results / "costs"
        cases = costs(work, self.rows, args.dtypes, args.threads, args.rounds, folder)
        total = len(args.dtypes) * len(self.rows) * len(SETTINGS)
        found = list(tqdm(cases, "costs", total, unit="row"))
        taken = f"medians of {args.rounds} steps" if args.rounds else "times were not taken"
        what = f"batch {args.batch}, {args.threads} threads, {taken}"
        self._publish("memory and time of a step", tables.COSTS, tables.costs(found), what)
        return {"costs": found}

    def gradients(self) -> dict[str, Any]:
        """Quality by layer, at the weights that runs start with and at a baseline's last ones."""
        batch = self._batch()
        found = [
            {"weights": name, "row": row, "layers": quality(model, batch, row)}
            for name, model in self._models()
            for row in tqdm(self.rows[1:], f"gradients, {name}", unit="row")
        ]
        what = f"batch {self.args.batch}; of the layers whose gradient is not exact"
        self._publish(
            "gradients of weights beside the exact ones",
            tables.GRADIENTS,
            tables.gradients(found),
            what,
        )
        return {"gradients": found}

    def _results(self) -> list[Result]:
        """Train what is not trained yet: seed by seed, so that a part of it is of use."""
        args, data = self.args, self.data.to(self.args.device)
        plan = [
            (start, length, row, setting, seed)
            for seed in args.seeds
            for start in args.starts
            for length in args.schedules
            for row in self.rows
            for setting in (args.settings if row != BASELINE else [ALONE])
        ]
        epochs = sum(self.run(*key).schedule.epochs for key in plan)
        found = []
        with tqdm(total=epochs, unit="epoch") as bar:

            def epoch_done(figures: dict[str, float]) -> None:
                bar.set_postfix(figures, refresh=False)
                bar.update()

            for key in plan:
                bar.set_description(", ".join(map(str, key)))
                run = self.run(*key)
                result = train(run, data, args.data, self.runs_folder, args.device, epoch_done)
                found.append(Result(*key, result["validation"], result["test"]))
        return found

    def _publish(
        self, title: str, columns: Sequence[str], rows: list[list[str]], what: str
    ) -> None:
        study = Study("lossy", f"{self.experiment.title}: {title}", "measured")
        publish(study, columns, rows, [], f"measured, CIFAR-10, {what}", self.args)

    def _models(self) -> Iterator[tuple[str, torch.nn.Module]]:
        for start in self.args.starts:
            yield f"{start}, first", self._first_model(start)
            run = self.run(start, self.args.schedules[-1], BASELINE, ALONE, self.args.seeds[0])
            if run.file(self.runs_folder, ".json").exists():
                yield f"{start}, last", trained(run, self.args.data, self.runs_folder)

    def _first_model(self, start: str) -> torch.nn.Module:
        length, seed = self.args.schedules[0], self.args.seeds[0]
        return self.run(start, length, BASELINE, ALONE, seed).model(self.args.data)

    def _batch(self) -> Part:
        """One batch in memory of its own: a view would keep all images."""
        train, size = self.data.train, self.args.batch
        return Part(train.images[:size].clone(), train.labels[:size].clone())


def main(experiment: Experiment) -> None:
    """Do what the command line says, and publish it; other steps' figures stay as they were."""
    parser = _parser(experiment)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    try:
        command = Command(experiment, args)
    except InputError as error:
        parser.error(str(error))
    for step in args.steps:
        _keep(args.results / "figures.json", getattr(command, step)())
    figures = json.loads((args.results / "figures.json").read_text())
    plot(figures, experiment.title, args.results / f"{experiment.name}.png")


def _keep(path: Path, figures: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    before = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(before | figures, indent=1) + "\n")


def _row(text: str) -> str:
    try:
        rules(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def _parser(experiment: Experiment) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=experiment.title)
    results = Path("results") / "lossy" / experiment.name
    add = parser.add_argument
    add(
        "--data",
        type=existing_folder,
        required=True,
        metavar="FOLDER",
        help="see the head of images.py",
    )
    add("--results", type=Path, default=results, metavar="FOLDER", help="checkpoints, JSON, plot")
    add("--steps", nargs="+", default=STEPS, choices=STEPS)
    add("--rows", nargs="+", default=experiment.rows, type=_row, help="see the head of rows.py")
    add("--starts", nargs="+", default=list(experiment.starts), choices=list(experiment.starts))
    add("--schedules", nargs="+", default=experiment.schedules, choices=list(LENGTHS))
    add("--settings", nargs="+", default=[ALONE], choices=list(SETTINGS), help="of the training")
    add("--epochs", type=at_least_one, help="of the short schedule; the long one has twice as many")
    add("--seeds", nargs="+", type=int, default=range(5))
    add("--images", type=at_least_one, default=10_000, help="for training and validation")
    add("--batch", type=at_least_one, default=128)
    add("--dtypes", nargs="+", default=DTYPES, choices=DTYPES, help="of the costs")
    add("--rounds", type=int, default=15, help="steps whose time is taken; 0 on a busy machine")
    add("--threads", type=at_least_one, default=2)
    add("--device", default="cpu", help="of the training: cpu or cuda")
    add("--docs", type=Path, help="write the tables to this Markdown file")
    parser.set_defaults(json=None)  # `publish`: figures of all steps have one file
    return parser
