"""Metrics that runs cannot have."""

from __future__ import annotations

from fl_ddp.errors import ConfigError
from fl_ddp.losses.choices import MEASURES
from fl_ddp.results.metrics import OF_METHOD, of_clients
from fl_ddp.retention.matrix import OF_OWN_TASKS, OF_TASKS
from launch.compare.found_runs import Finds
from launch.numbers.metric import OWN, QUANTITIES, SPREADS, Metric, class_of, of_client
from launch.run.stored import Run, counts_anew
from launch.run.task_curves import ON_TASK

_AVERAGES = ("average_accuracy", "incremental_accuracy", "own_average_accuracy")
_TESTS = ("accuracy", "loss", "perplexity", *(each for told in MEASURES.values() for each in told), *_AVERAGES)
_CHANGES = tuple(each for each in (*OF_TASKS, *OF_OWN_TASKS) if each not in _AVERAGES)
_OF_CLIENTS = (*of_clients("accuracy"), *of_clients("mae"), *SPREADS)
_SO_FAR = {
    **dict.fromkeys(_TESTS, "the tasks so far are other tests in another task, and those of the first one are easiest"),
    **dict.fromkeys(_CHANGES, "it is of the tasks so far, which are others in another task"),
    **dict.fromkeys(_OF_CLIENTS, "it is of the present task, whose tests are others in another task"),
}
"""Quantities of the tasks so far, or of the present one, and why those of several tasks are not put together."""


def refuse_what_no_run_has(metric: Metric, finds: Finds, where: str = "--metric") -> None:
    """Refuse a metric of a class, client or round that none of the runs has, or that compares different tests.

    Raises:
        ConfigError: it is one.
    """
    runs = [each.run for each in finds.runs]
    rounds = max((max(run.rounds, run.wanted) for run in runs), default=0)
    if metric.round and metric.round > rounds > 0 and not finds.waiting:
        raise ConfigError(where, f"{metric.text}: no run has a round {metric.round}", f"up to @{rounds}")
    of_rounds = metric.statistic != "final" or metric.of_target
    if metric.quantity in _SO_FAR and of_rounds and any(_over_tasks(metric, run) for run in runs):
        accepted = "final, or final@50; last10 of rounds of one task; anything of task_accuracy/1"
        raise ConfigError(where, f"{metric.text}: {_SO_FAR[metric.quantity]}", accepted)
    label = class_of(metric.quantity)
    if label is None:
        return
    of_course = (metric.statistic, metric.round, metric.target, metric.target_row) != ("final", None, None, None)
    if metric.quantity.startswith("forgetting/") and of_course and any(map(counts_anew, runs)):
        what = f"{metric.text}: with tasks, or --init, what a class has lost is known at a run's end alone"
        raise ConfigError(where, what, f"final of {metric.quantity}")
    known = dict.fromkeys(name for run in runs for name in run.classes)
    if known and label not in known:
        raise ConfigError(where, f"{metric.text}: no run has a class {label}", ", ".join(known))
    most = max((clients for run in runs if isinstance(clients := run.config.get("clients"), int)), default=0)
    if (of := of_client(metric.quantity)) and of.client >= most > 0:
        raise ConfigError(where, f"{metric.text}: no run has a client {of.client}", f"0 to {most - 1}")


def _over_tasks(metric: Metric, run: Run) -> bool:
    """Whether a metric reads tests of several of a run's tasks."""
    starts = sorted(curve[0][0] for name, curve in run.curves.items() if name.startswith(ON_TASK) and curve)
    end = metric.round or (run.rounds if run.ended else run.wanted)
    first = end - metric.parameter + 1 if metric.statistic == "last" and not metric.of_target else 1
    read = [number for number, _ in run.curve(metric.quantity) if first <= number <= end]
    return any(read[0] < start <= read[-1] for start in starts[1:] if read)


def refuse_what_no_run_tells(metric: Metric, finds: Finds, where: str = "--metric") -> None:
    """Refuse a column that none of the runs has, all of which are over.

    Raises:
        ConfigError: it is one.
    """
    runs = [each.run for each in finds.runs if each.state != "failed"]  # which may have failed before it could tell
    if not runs or not all(run.ended for run in runs):
        return
    if metric.quantity.startswith(OWN):
        known = dict.fromkeys(name for run in runs for name in run.curves if name.startswith(OWN))
        if metric.quantity not in known:
            who = "method reports" if metric.quantity.startswith(OF_METHOD) else "--measures tell"
            accepted = f"of {', '.join(known)}" if known else "a metric that runs have themselves"
            raise ConfigError(where, f"{metric.text}: no run's {who} it", accepted)
    elif metric.quantity in QUANTITIES.values() and not any(run.curve(metric.quantity) for run in runs):
        # what there is in its place may have to be read from files, of which a metric that is there has no need
        told = [name for name, column in QUANTITIES.items() if any(run.curve(column) for run in runs)]
        if told:
            raise ConfigError(where, f"{metric.text}: no run tells of it", f"of {', '.join(told)}")
