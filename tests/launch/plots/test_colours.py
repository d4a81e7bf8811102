"""Colours of settings: each has one of its own, which colour-blind readers can tell from the others."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from matplotlib.colors import to_rgb
from matplotlib.patches import Rectangle
from written_runs import Written, rising

from launch.compare.found_runs import find_runs
from launch.compare.replicates import design_of
from launch.plots.figure_style import MOST_PANELS, colours, paper_style
from launch.plots.task_figure import task_end_figure

Numbers = npt.NDArray[np.float64]

# Machado, Oliveira and Fernandes 2009, severity 1
SEEN = {
    "all": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "no blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def seen(colour: str, by: str) -> Numbers:
    """A colour in CIE 1976 L*a*b*, as who lacks a pigment sees it."""
    encoded = np.array(to_rgb(colour))
    light = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    white = XYZ @ np.clip(np.array(SEEN[by]) @ light, 0, 1) / XYZ.sum(1)
    x, y, z = np.where(white > 0.008856, np.cbrt(white), 7.787 * white + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("by", SEEN)
def test_as_many_colours_as_settings_are_far_apart(by: str) -> None:
    shades = colours([str(each) for each in range(MOST_PANELS)], ordered=False)
    assert len(shades) == MOST_PANELS
    for one, other in combinations(shades.values(), 2):
        assert np.linalg.norm(seen(one, by) - seen(other, by)) > 16, (one, other)


def test_no_two_settings_have_bars_of_one_colour(tmp_path: Path) -> None:
    runs = {f"{lr}": Written({"lr": lr / 16, "stream": "Permuted"}, rising(0.5)) for lr in range(1, MOST_PANELS + 1)}
    for name, run in runs.items():
        run.at(tmp_path / name)
        rows = [f"{r},{(r + 1) // 2},{task},0.5,100" for r in range(1, 5) for task in (1, 2)]
        (tmp_path / name / "tasks.csv").write_text(
            "\n".join(["round,task_trained,task_tested,accuracy,test_samples", *rows]) + "\n"
        )
    with paper_style():
        figure = task_end_figure(design_of(find_runs([tmp_path]).runs))
    bars = [bar.get_facecolor() for bar in figure.axes[0].patches if isinstance(bar, Rectangle)]
    assert len({*bars}) == MOST_PANELS
    lines = figure.legends[0].get_lines()
    assert len({line.get_color() for line in lines}) == len(lines) == MOST_PANELS
