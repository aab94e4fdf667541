"""Density of what ReLU and pooling give, from random weights to trained ones (cDMA's figure).

    python benchmarks/density.py --data FOLDER [--json FILE] [--docs FILE] [--plot FILE]

The six ReLU networks of cDMA (arXiv 1705.01626) at the size of CIFAR-10, with a quarter of the
channels (NiN: half, SqueezeNet: all), trained on 9000 of the images in FOLDER (`images.py`),
cropped and flipped at random: AlexNet, OverFeat and VGG-16 by SGD with momentum, the others by
AdamW (SGD leaves SqueezeNet at chance). A core is done with them in about an hour, and they end
well below what the architectures reach with more images and epochs. A network that was studied is
not trained again as long as its file is in the folder of results; ours are in
`benchmarks/measured/density`. At points along the way 256 other images go through the network in
train mode: *density* is the share of elements that are not zero in the outputs of each ReLU and
each pooling. Ratios are those of `saved.py`: of all that a step with these images saves, from
random weights and from those trained here, raw bytes per compressed byte. bfloat16: rounded from
float32.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from common import Study, add_networks, at_least_one, existing_folder, publish, pyplot
from lossy.data import Data, batches, load
from lossy.training import OPTIMISERS, Schedule, accuracy
from saved import Sizes, saved_by
from torch import nn
from torch.nn import functional as F
from tqdm import tqdm

from actdma.frame import DType
from actdma.measure import zoo
from actdma.measure.inputs import InputError

FRACTIONS = (0, 0.01, 0.03, 0.06, 0.125, 0.25, 0.5, 0.75, 1)
PROBES = 256
MOST_LABELS = 30  # layers' names along an axis
DTYPES = (DType.float32, DType.bfloat16)
STUDY = Study("density", "Density over training", "measured")
COLUMNS = (
    *("network", "weights", "test accuracy, %", "density", "of the sparsest layer", "dtype"),
    *("zvc", "rle", "zve", "deflate"),
)


@dataclasses.dataclass(frozen=True)
class Course:
    """A network of the zoo, for images of 32 x 32, and how it is trained."""

    title: str
    network: str
    schedule: Schedule
    options: dict[str, Any] = dataclasses.field(default_factory=dict)

    def model(self) -> nn.Module:
        torch.manual_seed(0)
        return zoo.build(self.network, side=32, classes=10, **self.options)


COURSES = (
    Course("AlexNet", "alexnet", Schedule(10, 0.02, batch=64), {"width": 0.25}),
    Course("VGG-16", "vgg16", Schedule(10, 0.02, batch=64), {"width": 0.25}),
    Course("OverFeat", "overfeat", Schedule(10, 0.02, batch=64), {"width": 0.25}),
    Course("NiN", "nin", Schedule(10, 1e-3, "adamw", batch=64), {"width": 0.5}),
    Course("GoogLeNet", "googlenet", Schedule(10, 1e-3, "adamw", batch=64), {"width": 0.25}),
    Course("SqueezeNet", "squeezenet", Schedule(10, 1e-3, "adamw", batch=64)),
)


@dataclasses.dataclass(frozen=True)
class Point:
    """A state on the way: the ``fraction`` of all steps taken, ``accuracy`` on the validation
    images (per cent), ``density`` by layer, and that of all of them together (``overall``)."""

    fraction: float
    accuracy: float
    density: dict[str, float]
    overall: float


def densities(model: nn.Module, images: torch.Tensor) -> tuple[dict[str, float], float]:
    """The share of elements that are not zero, by ReLU or pooling, and of all of these."""
    counts: dict[str, tuple[int, int]] = {}

    def counting(name: str) -> Any:
        def count(module: nn.Module, inputs: Any, output: torch.Tensor) -> None:
            counts[name] = int(output.count_nonzero()), output.numel()

        return count

    hooks = [
        module.register_forward_hook(counting(name))
        for name, module in model.named_modules()
        if isinstance(module, nn.ReLU | nn.MaxPool2d)
    ]
    with torch.no_grad(), torch.random.fork_rng([]):
        torch.manual_seed(0)  # dropout
        model(images)
    for hook in hooks:
        hook.remove()
    kept, elements = (sum(column) for column in zip(*counts.values(), strict=True))
    return {name: kept / elements for name, (kept, elements) in counts.items()}, kept / elements


def train(model: nn.Module, schedule: Schedule, data: Data, title: str) -> Iterator[Point]:
    """Train ``model``; yields at each of `FRACTIONS`."""
    optimiser = OPTIMISERS[schedule.optimiser](
        model.parameters(), lr=schedule.rate, weight_decay=schedule.weight_decay
    )
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    probes = data.validation.images[:PROBES]
    steps = schedule.epochs * (len(data.train) // schedule.batch)
    due = [round(fraction * steps) for fraction in FRACTIONS]

    def point(step: int) -> Point:
        by_layer, overall = densities(model, probes)
        return Point(step / steps, accuracy(model, data.validation), by_layer, overall)

    yield point(0)
    step = 0
    with tqdm(total=steps, desc=title, unit="step", leave=False) as bar:
        for _ in range(schedule.epochs):
            for batch in batches(data.train, schedule.batch, generator):
                for group in optimiser.param_groups:
                    group["lr"] = schedule.rate_at((step + 0.5) / steps)
                optimiser.zero_grad(set_to_none=True)
                loss = F.cross_entropy(model(batch.images), batch.labels)
                loss.backward()
                optimiser.step()
                step += 1
                bar.set_postfix(loss=f"{float(loss.detach()):.2f}", refresh=False)
                bar.update()
                if step in due:
                    yield point(step)


def ratios(model: nn.Module, images: torch.Tensor) -> dict[str, dict[str, float]]:
    """By dtype and compressor, of all that a step saves."""
    kept = saved_by(model, images)
    return {
        dtype.name: Sizes.total(
            Sizes.of(saved.cast(dtype), ("zvc", "rle", "auto", "deflate")) for saved in kept
        ).ratios
        for dtype in DTYPES
    }


def studied(course: Course, data: Data, folder: Path) -> dict[str, Any]:
    """Its points, and ratios and test accuracy before and after training; those in ``folder`` if it
    was studied before."""
    spec = {"course": dataclasses.asdict(course), "images": len(data.train)}
    file = folder / f"{course.network}.json"
    if file.exists():
        found = json.loads(file.read_text())
        if spec.items() <= found.items():
            return found
    model = course.model()
    probes = data.validation.images[:PROBES]
    before = {"ratios": ratios(model, probes), "test": accuracy(model, data.test)}
    points = [dataclasses.asdict(p) for p in train(model, course.schedule, data, course.title)]
    after = {"ratios": ratios(model, probes), "test": accuracy(model, data.test)}
    trained = {"random": {**before, **points[0]}, "trained": {**after, **points[-1]}}
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({**spec, "points": points, **trained}, indent=1) + "\n")
    return json.loads(file.read_text())


def rows(figures: dict[str, Any]) -> Iterator[list[str]]:
    for weights in ("random", "trained"):
        state = figures[weights]
        least = min(state["density"], key=state["density"].get)
        for dtype, by_codec in state["ratios"].items():
            yield [
                figures["course"]["title"],
                weights,
                f"{state['test']:.1f}",
                f"{state['overall']:.0%}",
                f"{state['density'][least]:.0%} ({least})",
                dtype,
                *(f"{ratio:.3f}" for ratio in by_codec.values()),
            ]


def plot(figures: list[dict[str, Any]], path: Path) -> None:
    """Write a PNG: for each network density by layer and point, and of all layers together."""
    columns = min(len(figures), 3)
    rows = -(-len(figures) // columns)
    figure, panels = pyplot().subplots(
        2 * rows,
        columns,
        figsize=(5.6 * columns, 8 * rows),
        height_ratios=(3, 1) * rows,
        squeeze=False,
        layout="constrained",
    )
    for panel in panels.flat:
        panel.set_visible(False)
    for number, found in enumerate(figures):
        row, column = divmod(number, columns)
        points, title = found["points"], found["course"]["title"]
        layers = list(points[0]["density"])
        above, below = panels[2 * row : 2 * row + 2, column]
        table = [[point["density"][layer] for point in points] for layer in layers]
        image = above.imshow(table, aspect="auto", vmin=0, vmax=1, cmap="viridis")
        every = -(-len(layers) // MOST_LABELS)
        above.set_yticks(range(0, len(layers), every), layers[::every], fontsize=8)
        above.set_xticks([])
        above.set_title(f"{title}, test accuracy {found['trained']['test']:.1f} %")
        below.plot([100 * point["overall"] for point in points], "o-", color="#1f5f8b")
        below.set_ylim(0, 100)
        below.set_xticks(range(len(points)), [f"{p['fraction']:.0%}" for p in points])
        below.set_xlabel("training done")
        below.set_xlim(-0.5, len(points) - 0.5)
        below.set_ylabel("density of all, %")
        below.spines[["top", "right"]].set_visible(False)
        for panel in (above, below):
            panel.set_visible(True)
    figure.colorbar(image, ax=panels[:, -1], shrink=0.5, label="density, measured")
    figure.savefig(path, dpi=90)


def main() -> None:
    titles = [course.title for course in COURSES]
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--data", type=existing_folder, required=True, metavar="FOLDER", help="see images.py"
    )
    add_networks(parser, titles)
    parser.add_argument(
        "--images", type=at_least_one, default=10_000, help="a tenth is for validation"
    )
    parser.add_argument("--epochs", type=at_least_one, help="(default: the network's own)")
    parser.add_argument("--threads", type=at_least_one, default=1)
    parser.add_argument(
        "--results", type=Path, default=Path("results/density"), help="of networks studied before"
    )
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--docs", type=Path, help="write the table to this Markdown file")
    parser.add_argument("--plot", type=Path, help="draw the densities to this PNG")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    try:
        data = load(args.data, args.images)
    except InputError as error:
        parser.error(str(error))
    figures, table = [], []
    for course in COURSES:
        if course.title in args.network:
            epochs = args.epochs or course.schedule.epochs
            schedule = dataclasses.replace(course.schedule, epochs=epochs)
            figures.append(
                studied(dataclasses.replace(course, schedule=schedule), data, args.results)
            )
            table += rows(figures[-1])
    if args.plot:
        plot(figures, args.plot)
    what = (
        f"measured; {len(data.train)} training images of CIFAR-10, "
        + ", ".join(f"{f['course']['title']} {f['course']['schedule']['epochs']}" for f in figures)
        + f" epochs; densities and ratios of {PROBES} images"
    )
    pictures = [(args.plot, "Density by layer over training")]
    publish(STUDY, COLUMNS, table, figures, what, args, pictures)


if __name__ == "__main__":
    main()
