"""The results that rank 0 prints at the end of a run."""

from __future__ import annotations

import math
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from fl_ddp.results.metrics import OF_FUNCTION
from fl_ddp.results.summary import Summary


def result_table(summary: Summary) -> str:
    """The results as aligned text."""
    score, own, which = summary.score, summary.of_clients, ", present task" if _of_tasks(summary) else ""
    rows = {
        "rounds": f"{summary.rounds}{f' ({summary.stopped})' if summary.stopped else ''}",
        **(_accuracies(summary) if score == "accuracy" else {}),
        **{_in_words(name): _number(value) for name, value in summary.measures.items()},
        "test loss": _number(summary.loss),
        **{
            name: _number(value)
            for name, value in (
                (f"initial {score}{which}", own.get(f"initial_{score}")),
                (f"personalised {score}{which}", own.get(f"personalised_{score}")),
                (f"personalised {score}{which}, all clients", own.get(f"personalised_{score}_all")),
                *((name.replace("_", " "), value) for name, value in summary.of_tasks.items()),
            )
            if value is not None
        },
        **({} if _of_tasks(summary) else _targets(summary)),
        "traffic": f"{summary.traffic_up_bytes / 1e6:,.1f} MB up, {summary.traffic_down_bytes / 1e6:,.1f} MB down",
        "padded lanes": f"{summary.padded_lanes:.1%}",
        "seconds": ", ".join(f"{phase} {seconds:.1f}" for phase, seconds in summary.seconds.items()),
        "parameters": f"sha256 {summary.parameters_sha256[:16]}",
        "folder": summary.folder,
    }
    width = max(map(len, rows))
    lines = [f"{name:<{width}}  {value}" for name, value in rows.items()]
    of_classes = [*_class_table(summary.class_accuracy), ""] if summary.class_accuracy else []
    return "\n".join([*lines, "", *of_classes, tensorboard_line(summary.folder)])


def _in_words(measure: str) -> str:
    """A measure of the package's; one of the user's stays what it is called."""
    return measure if measure.startswith(OF_FUNCTION) else measure.replace("_", " ")


def _of_tasks(summary: Summary) -> bool:
    """Whether it tells of tasks with test sets of their own."""
    return summary.of_tasks.get("average_accuracy") is not None


def _targets(summary: Summary) -> dict[str, str]:
    """Rows of when the global model reached them."""
    means = summary.rounds_to_target.get("running_mean", {})
    reached = summary.rounds_to_target.get("accuracy", {})
    return {f"rounds to {t}": f"{_round(found)} (running mean: {_round(means.get(t))})" for t, found in reached.items()}


def _accuracies(summary: Summary) -> dict[str, str]:
    """Rows of the global model's; with tasks those of before were tested on others, and count in no mean or best.

    What a class has lost is counted from when its test samples last became others.
    """
    of_before = {"running mean": summary.running_mean_accuracy, "best accuracy": summary.best_accuracy}
    return {
        "accuracy": _number(summary.accuracy),
        **({} if _of_tasks(summary) else {name: _number(value) for name, value in of_before.items()}),
        "forgetting, same tests" if _of_tasks(summary) else "forgetting": _forgetting(summary),
    }


def tensorboard_line(folder: str) -> str:
    """How to look at the curves of a run and its neighbours."""
    return f"tensorboard --logdir {shlex.quote(str(Path(folder).parent))}"


def _class_table(accuracy: Mapping[str, float]) -> list[str]:
    """Accuracy per class, in as many columns as the terminal has room for."""
    name = max(map(len, accuracy))
    cells = [f"{label:<{name}}  {value:.4f}" for label, value in accuracy.items()]
    columns = max(1, min(5, shutil.get_terminal_size().columns // (name + 12)))
    depth = -(-len(cells) // columns)
    return ["accuracy per class", *("    ".join(cells[row::depth]) for row in range(depth))]


def _forgetting(summary: Summary) -> str:
    """The average and the class that lost most."""
    lost = {name: value for name, value in summary.class_forgetting.items() if not math.isnan(value)}
    if not lost:
        return "-"
    most = max(lost, key=lost.__getitem__)
    most_lost = f" (most: class {most}, {lost[most]:.4f})" if lost[most] else ""
    return f"{_number(summary.forgetting)}{most_lost}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _round(value: int | None) -> str:
    return "not reached" if value is None else f"round {value}"
