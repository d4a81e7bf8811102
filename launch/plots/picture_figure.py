"""Clients' images beside what a curious server makes of what is sent of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from safetensors import SafetensorError
from safetensors.numpy import load_file

from fl_ddp.errors import ConfigError
from fl_ddp.protocol import Inputs
from launch.compare.replicates import Design
from launch.numbers.metric import parse_metric
from launch.numbers.spread import with_spread
from launch.plots.class_figure import panel_title
from launch.run.reconstruction_curves import PICTURES
from launch.run.stored import Run

MOST_TASKS = 4
"""The first one and the last three, where there are more."""
_INCH = 0.42
"""Side of an image."""
_LABEL = 1.3
"""Width of the names of rows, in inches."""

Pictures = Mapping[str, Inputs]


def picture_figure(design: Design) -> Figure:
    """Images of each task, below them their reconstructions by setting, of the least common seed, with PSNR over seeds.

    Raises:
        ConfigError: a run's pictures cannot be read, or are of other images than another's.
    """
    names = [panel_title(design, each).replace("\n", " ") or "reconstruction" for each in design.sets]
    seeds = set.intersection(*({run.seed for run in each.counted} for each in design.sets))
    if not seeds:
        raise ConfigError(", ".join(names), "have no seed in common, so no images", "runs of the same seeds")
    shown = [next(run for run in each.counted if run.seed == min(seeds)) for each in design.sets]
    stored = [_pictures(run) for run in shown]
    for run, pictures in zip(shown, stored, strict=True):
        if pictures.keys() != stored[0].keys() or any(
            not np.array_equal(pictures[key], stored[0][key]) for key in pictures if key.startswith("images/")
        ):
            what = f"has other images than {shown[0].folder}, which one figure cannot show"
            raise ConfigError(run.folder, what, "runs of the same data and tasks")
    every = sorted(int(key.partition("/")[2]) for key in stored[0] if key.startswith("images/"))
    tasks = every if len(every) <= MOST_TASKS else [every[0], *every[1 - MOST_TASKS :]]
    each_task = len(stored[0][f"images/{tasks[0]}"])
    widths = [_LABEL, *[_INCH * (each_task + 0.4)] * len(tasks)]
    figure = Figure(figsize=(sum(widths), (_INCH + 0.2) * (1 + len(stored)) + 0.1), layout="constrained")
    grid = figure.subplots(1 + len(stored), len(widths), squeeze=False, width_ratios=widths)
    for axes, name in zip(grid[:, 0], ["image", *names], strict=True):
        axes.set_axis_off()
        axes.text(1, 0.5, name, ha="right", va="center", fontsize=8, transform=axes.transAxes)
    for column, task in zip(grid.T[1:], tasks, strict=True):
        _strip(column[0], stored[0][f"images/{task}"], f"task {task}")
        for axes, replicates, pictures in zip(column[1:], design.sets, stored, strict=True):
            psnr = replicates.numbers(parse_metric(f"final of psnr/{task}"))
            _strip(axes, pictures[f"reconstructions/{task}"], f"{with_spread(psnr, 'dB')} dB")
    return figure


def _pictures(run: Run) -> Pictures:
    path = run.folder / PICTURES
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise ConfigError(path, f"cannot be read ({error})") from error


def _strip(axes: Axes, images: Inputs, title: str) -> None:
    """Images [N, C, H, W] with pixels in [0, 1] beside each other."""
    shown: Sequence[Inputs] = [image.transpose(1, 2, 0) for image in images]
    _, height, width = images.shape[1:]
    for place, image in enumerate(shown):
        extent = (place * width, (place + 1) * width - 1, 0, height)
        axes.imshow(image if image.shape[2] == 3 else image[..., 0], cmap="gray_r", vmin=0, vmax=1, extent=extent)
    axes.set_xlim(0, len(shown) * width)
    axes.set_ylim(0, height)
    axes.set_axis_off()
    axes.set_title(title, fontsize=7, pad=2)
