"""What TensorBoard's page of custom scalars shows, from top to bottom."""

from __future__ import annotations

import re
from collections.abc import Sequence

Chart = tuple[str, list[str]]
"""What torch's custom_scalars() takes: the kind of chart, and its curves as expressions from the start of a tag."""


def layout(classes: Sequence[str]) -> dict[str, dict[str, Chart]]:
    """Charts by title, by heading: the global model, each class's accuracy and forgetting, then loss and cost.

    A class has a chart of its own: TensorBoard colours curves by run, so in one chart of all classes no two of a run
    can be told apart.

    Args:
        classes: names of the labels.
    """
    return {
        "Global model": {
            "accuracy": _lines("accuracy/global$"),
            "running mean of the accuracy": _lines("Results/accuracy/running_mean$"),
            "forgetting, average over the classes": _lines("forgetting/average$"),
        },
        "Accuracy of each class": _by_class("accuracy/class", classes),
        "Forgetting of each class": _by_class("forgetting", classes),
        "Loss": {"mean over the test set, mean over local steps": _lines("loss/test$", "loss/train$")},
        "Cost": {
            "bytes sent and received by all clients so far": _lines("traffic/"),
            "seconds per round": _lines("time/"),
        },
    }


def _by_class(group: str, classes: Sequence[str]) -> dict[str, Chart]:
    return {name: _lines(f"{group}/{re.escape(name)}$") for name in classes}


def _lines(*tags: str) -> Chart:
    return "Multiline", list(tags)
