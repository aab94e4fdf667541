"""cDMA's headline redone with the step-time model, and where compression stops paying.

    python benchmarks/simulate.py [--data FOLDER] [--docs docs/simulate.md] [--plots docs]

Steps of cDMA's six networks (arXiv 1705.01626, table I, with its batches) on its two GPUs over PCIe
3, policy all, modelled (SqueezeNet as its paper has it, 1.0; that of published weights, 1.1, is
listed besides, and not in the averages): compute by the roofline, of saved data what one kernel per
layer saves (feature maps). Ratios are once the paper's average for all layers, once measured: `zvc`
of what two photographs leave in the network, with published weights where FOLDER has them
(`networks.py`), else with He's random ones, of which half of what a ReLU gives is zero.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import Study, existing_folder, publish
from matplotlib.figure import Figure
from torch.nn import functional as F
from tqdm import tqdm

from actdma.measure import zoo
from actdma.measure.inputs import IMAGE_SIZE
from actdma.simulate import DEVICES, LINKS, Link, Route, Stage, offloaded, oracle, simulate
from actdma.simulate.layers import Layer, fake_images, trace
from actdma.simulate.measured import measure
from actdma.simulate.study import measured_ratio, roofline, stages
from actdma.simulate.table import percent
from networks import photographs, squeezenet_photographs

BATCHES = {
    "alexnet": 256,
    "overfeat": 256,
    "nin": 128,
    "vgg16": 128,
    "squeezenet1.0": 512,
    "googlenet": 256,
}
BESIDES = {"squeezenet": 512}  # not one of the six
SAMPLE = 2
PUBLISHED_RATIO = 2.6  # cDMA's average of zero-value compression
# Average and maximum gain of cDMA over vDNN, and where that was published.
PUBLISHED = {
    "titan-x": (0.32, 0.61, "arXiv 1705.01626"),
    "titan-xp": (0.53, 0.79, "HPCA 2018"),
}
COLUMNS = (
    *("network", "batch", "vDNN at oracle's speed, modelled", "gain at 2.6, modelled"),
    *("gain at any ratio, modelled", "weights", "zvc, measured", "gain at that, modelled"),
)
TITANS = ("titan-x", "titan-xp")
LINK_GBS = np.geomspace(2, 1000, 28)
RATIOS = np.linspace(1, 5, 13)
ENGINE_GBS = np.geomspace(1, 1000, 31)
STOPS_PAYING = 0.01
RED = "#c0392b"


@dataclasses.dataclass(frozen=True)
class Network:
    """A network's layers at a batch, with measured ratios; of which weights."""

    name: str
    batch: int
    layers: list[Layer]
    weights: str

    @property
    def ratio(self) -> float:
        """Raw bytes per compressed byte of all that is saved, measured."""
        saved = sum(layer.saved_bytes for layer in self.layers)
        return saved / sum(layer.stored_bytes.get("zvc", 0) for layer in self.layers)


def load(name: str, batch: int, folder: Path | None) -> Network:
    """Layers on fake tensors, ratios on photographs."""
    published = folder is not None and name in zoo.WEIGHTS and (folder / zoo.WEIGHTS[name]).exists()
    torch.manual_seed(0)
    model = zoo.build(name, weights=folder if published else None)
    side = zoo.SIDES.get(name, IMAGE_SIZE)
    images = (squeezenet_photographs if published else photographs)(folder, SAMPLE)
    images = F.interpolate(images, (side, side), mode="bilinear", antialias=True)
    sample = measure(model, images, ("zvc",), name, saves="maps", repeats=0)
    layers = trace(model, fake_images(batch, side), saves="maps")
    return Network(name, batch, sample.onto(layers), "published" if published else "random")


Plan = Sequence[Stage]


def step_s(plan: Plan, route: Route) -> float:
    """Seconds of a step that offloads everything, modelled."""
    return simulate(plan, route, offloaded(plan, "all")).step_s


def gain(plan: Plan, packed: Plan, link: Link, route: Route) -> float:
    """Of compression over vDNN: 0.32 is 32 %."""
    return step_s(plan, link.plain) / step_s(packed, route) - 1


def at(plan: Plan, ratio: float) -> Plan:
    """The same with one ratio for all layers."""
    return [dataclasses.replace(stage, ratio=ratio) for stage in plan]


def mean_gain(plans: Sequence[Plan], ratio: float, link: Link, route: Route) -> float:
    """The mean of the plans' gains at one ratio for all layers."""
    return statistics.fmean(gain(plan, at(plan, ratio), link, route) for plan in plans)


def slowdown(network: Network, name: str, published: float) -> float:
    """How many times as long the network would have to compute for its gain at the published ratio
    to be ``published``, which is less than it is by the roofline."""
    device, link = DEVICES[name], LINKS["pcie3"]
    route, base = link.route(device), roofline(device)

    def gain_at(factor: float) -> float:
        plan = stages(network.layers, lambda layer: tuple(factor * s for s in base(layer)))
        return gain(plan, at(plan, PUBLISHED_RATIO), link, route)

    low, high = 1.0, 64.0
    while high - low > 0.01:
        middle = (low + high) / 2
        low, high = (middle, high) if gain_at(middle) > published else (low, middle)
    return high


def gains_of(network: Network, name: str) -> dict[str, Any]:
    """Its figures on a device."""
    device, link = DEVICES[name], LINKS["pcie3"]
    route = link.route(device)
    plan = stages(network.layers, roofline(device))
    measured = stages(network.layers, roofline(device), measured_ratio("zvc"))
    return {
        "device": device.title,
        "network": network.name,
        "batch": network.batch,
        "speed": oracle(plan).step_s / step_s(plan, link.plain),
        "gain_published_ratio": gain(plan, at(plan, PUBLISHED_RATIO), link, route),
        "gain_any_ratio": gain(plan, at(plan, math.inf), link, link.plain),
        "weights": network.weights,
        "ratio": network.ratio,
        "gain_measured_ratio": gain(plan, measured, link, route),
    }


def headline(
    networks: Iterable[Network], besides: Iterable[Network], name: str
) -> tuple[list[list[str]], list[dict]]:
    """Rows of the table of a device, and the figures of cDMA's networks; ``besides``: those that
    have a row and are not in the averages."""
    figures = [gains_of(network, name) for network in networks]
    rows = [_cells(figure) for figure in figures]
    gains = ("gain_published_ratio", "gain_any_ratio", "gain_measured_ratio")
    for title, of in (("average", statistics.fmean), ("maximum", max)):
        total = [percent(of([figure[g] for figure in figures])) for g in gains]
        rows.append([title, "", "", *total[:2], "", "", total[2]])
    average, most, source = PUBLISHED[name]
    published = f"{percent(average)}, at most {percent(most)}"
    rows.append([f"published ({source})", "", "", published, "", "", "", ""])
    rows += [_cells(gains_of(network, name)) for network in besides]
    return rows, figures


def explained(networks: Sequence[Network], figures: Sequence[dict], name: str) -> str:
    """What would make the largest gain the published one."""
    gains = [figure["gain_published_ratio"] for figure in figures]
    largest = networks[gains.index(max(gains))]
    published = PUBLISHED[name][1]
    return (
        f"{largest.name} would gain the published {percent(published)} if it computed "
        f"{slowdown(largest, name, published):.1f} times as long as the roofline says"
    )


def _cells(figure: dict) -> list[str]:
    return [
        figure["network"],
        str(figure["batch"]),
        f"{figure['speed']:.0%}",
        percent(figure["gain_published_ratio"]),
        percent(figure["gain_any_ratio"]),
        figure["weights"],
        f"{figure['ratio']:.2f}",
        percent(figure["gain_measured_ratio"]),
    ]


def plans_of(networks: Sequence[Network], name: str) -> list[Plan]:
    """The networks on a device: in half precision where that has units of its own."""
    seconds = roofline(DEVICES[name], precision_of(name))
    return [stages(network.layers, seconds) for network in networks]


def precision_of(name: str) -> str:
    return "half" if DEVICES[name].half else "float32"


def break_even(networks: Sequence[Network]) -> dict[str, np.ndarray]:
    """The mean gain, (ratio, link), by device."""
    grids = {}
    links = [Link("", rate, rate, "assumed", "") for rate in LINK_GBS]
    for name, device in tqdm(DEVICES.items(), desc="devices", disable=None):
        plans = plans_of(networks, name)
        grids[name] = np.array(
            [[mean_gain(plans, r, link, link.route(device)) for link in links] for r in RATIOS]
        )
    return grids


def plot(networks: Sequence[Network], grids: dict[str, np.ndarray], path: Path) -> None:
    """A panel per device: gain over link and ratio; one more: gain over the engine's rate."""
    figure = Figure(figsize=(15, 8.5), dpi=110, layout="constrained")
    axes = figure.subplots(2, 3)
    centred = {"ha": "center", "va": "bottom"}
    levels = [0, 0.01, 0.05, 0.1, 0.2, 0.4, 0.7, 1, 1.5, 2, 3, 4]
    for panel, (name, grid) in zip(axes.flat, grids.items(), strict=False):
        filled = panel.contourf(LINK_GBS, RATIOS, grid, levels, cmap="YlGnBu", extend="max")
        panel.contour(LINK_GBS, RATIOS, grid, [STOPS_PAYING], colors=RED, linewidths=2)
        for link in ("pcie3", "pcie4", "pcie5", "nvlink-c2c"):
            panel.axvline(LINKS[link].to_host, color="black", linewidth=0.8, linestyle=":")
            panel.text(LINKS[link].to_host, 5.05, link, rotation=90, fontsize=8, **centred)
        panel.set_xscale("log")
        panel.set_xlabel("link, GB/s each way")
        panel.set_ylabel("ratio of all layers")
        title = f"{DEVICES[name].title}, {precision_of(name)}"
        panel.set_title(title, loc="left", pad=44, fontsize=11)
    bar = figure.colorbar(filled, ax=axes[:, -1], shrink=0.6, ticks=levels)
    bar.ax.set_yticklabels([f"{level:.0%}" for level in levels])
    bar.set_label("gain over vDNN, mean of the networks")
    engines(axes.flat[-1], networks, "a100")
    title = (
        "Where compression pays, modelled: along the red line it gains 1 %, right of it less; "
        "where nothing is drawn it costs time, the engine being slower than the link"
    )
    figure.suptitle(title, x=0.01, ha="left")
    figure.savefig(path)


def engines(panel: Any, networks: Sequence[Network], name: str) -> None:
    """Gain over what the engine takes, for three links."""
    plans = plans_of(networks, name)
    for name_of_link, colour in (("pcie3", "#1f5f8b"), ("pcie4", "#d9822b"), ("pcie5", "#8d5a97")):
        link = LINKS[name_of_link]
        gains = [
            100 * mean_gain(plans, PUBLISHED_RATIO, link, link.route(engine=rate))
            for rate in ENGINE_GBS
        ]
        panel.plot(ENGINE_GBS, gains, color=colour, label=name_of_link)
        panel.axvline(link.to_host, color=colour, linewidth=0.8, linestyle=":")
    panel.axhline(0, color=RED, linewidth=2)
    panel.set_xscale("log")
    panel.set_xlabel("engine, GB/s of raw data; dotted: the link's own rate")
    panel.set_ylabel("gain over vDNN, %")
    title = f"{DEVICES[name].title}, ratio {PUBLISHED_RATIO}, engines of all speeds"
    panel.set_title(title, loc="left", pad=44, fontsize=11)
    panel.legend(frameon=False)


def link_table(grids: dict[str, np.ndarray]) -> list[list[str]]:
    """Per device the link speeds from which gains stay below 10 % and 1 %, at two ratios."""
    rows = []
    for name, grid in grids.items():
        cells = []
        for ratio in (1.5, PUBLISHED_RATIO):
            gains = [np.interp(ratio, RATIOS, column) for column in grid.T]
            cells += [_first_below(gains, level) for level in (0.1, STOPS_PAYING)]
        rows.append([DEVICES[name].title, precision_of(name), *cells])
    return rows


def _first_below(gains: Sequence[float], level: float) -> str:
    """The link speed, GB/s, at which the gain has come down to ``level``."""
    if min(gains) > level:
        return f"above {LINK_GBS[-1]:.0f}"
    return f"{np.interp(-level, [-g for g in gains], LINK_GBS):.0f}"


def into(args: argparse.Namespace, name: str) -> argparse.Namespace:
    """The arguments with the file of a table in place of the folder of all."""
    return argparse.Namespace(docs=args.docs, json=args.json and args.json / f"{name}.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--data", type=existing_folder, metavar="FOLDER", help="see the head of networks.py"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FOLDER", help="write a file per table into this folder"
    )
    parser.add_argument("--docs", type=Path, help="write the tables to this Markdown file")
    parser.add_argument("--plots", type=Path, help="write the pictures into this folder")
    args = parser.parse_args()
    networks, besides = (
        [load(name, batch, args.data) for name, batch in tqdm(batches.items(), disable=None)]
        for batches in (BATCHES, BESIDES)
    )
    for name in TITANS:
        rows, figures = headline(networks, besides, name)
        what = (
            f"{DEVICES[name].title} over PCIe 3 (12.8 GB/s), policy all, feature maps in float32; "
            f"columns say what is modelled and what measured; {explained(networks, figures, name)}"
        )
        title = f"cDMA's headline on a {DEVICES[name].title}"
        study = Study("headline", title, "by column")
        publish(study, COLUMNS, rows, figures, what, into(args, f"headline-{name}"))
    grids = break_even(networks)
    columns = (
        *("device", "precision", "ratio 1.5: 10 %, modelled", "1 %, modelled"),
        *("ratio 2.6: 10 %, modelled", "1 %, modelled"),
    )
    what = "GB/s of a link at which the mean gain over vDNN has come down to 10 % and to 1 %"
    figures = [
        {
            "device": f"{DEVICES[name].title}, {precision_of(name)}",
            "links": LINK_GBS.tolist(),
            "ratios": RATIOS.tolist(),
            "gains": grid.tolist(),
        }
        for name, grid in grids.items()
    ]
    study = Study("break-even", "Where compression stops paying", "modelled")
    rows = link_table(grids)
    publish(study, columns, rows, figures, what, into(args, "break-even"))
    if args.plots:
        plot(networks, grids, args.plots / "simulate_breakeven.png")


if __name__ == "__main__":
    main()
