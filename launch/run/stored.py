"""Runs as they lie on disk, finished or still going: their settings, curves and results."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

from fl_ddp.config.layers import default_choice
from fl_ddp.config.registry import KINDS
from fl_ddp.config.yaml_file import flatten, load_yaml, written
from fl_ddp.errors import ConfigError
from fl_ddp.reading.json_file import read_json_if_there
from fl_ddp.results.metrics import OF_FUNCTION, is_of_time, is_of_work, perplexity
from fl_ddp.results.run_folder import FAILURE
from fl_ddp.results.summary import read_summary
from fl_ddp.results.written_rows import written_rows
from launch.numbers.metric import SPREADS, Curve, class_of, of_client
from launch.run.client_curves import client_curves
from launch.run.reconstruction_curves import reconstruction_curves
from launch.run.spread_curves import spread_curve
from launch.run.task_curves import ON_TASK, task_curves

_OF_CLASS = "accuracy/"
_OF_CLIENTS = ("initial_", "personalised_")
"""How columns begin of which the summary has the newest numbers, maybe of an earlier round."""

Counts = tuple[Mapping[str, int], ...]
"""Each client's samples by the name of their class."""


@dataclass(frozen=True)
class Run:
    """One run's folder.

    Attributes:
        folder: where it lies.
        config: its config.yaml.
        rounds: finished rounds.
        wanted: rounds it was asked for.
        curves: values of each column of metrics.csv by evaluated round, without round 0, the perplexity, what each
            class has lost, and what tasks.csv, own_tasks.csv and reconstruction.csv tell; those of time are left out.
            nan where what was measured in a round is no number.
        time: seconds that each finished round took, all phases together but compiling.
        summary: its summary.json; empty until it has one of its last round.
        failure: why it failed, if it could say so.
        stopped: whether it ended before its last round, since it had reached or stopped getting nearer what it should.
        classes: names of those that metrics.csv has a column for, tested or not.
    """

    folder: Path
    config: Mapping[str, object]
    rounds: int
    wanted: int
    curves: Mapping[str, Curve]
    time: Curve
    summary: Mapping[str, object]
    failure: str | None = None
    stopped: bool = False
    classes: tuple[str, ...] = ()

    @property
    def seed(self) -> int:
        """Of the run."""
        return int(str(self.config["seed"]))

    @property
    def seconds(self) -> float:
        """That its finished rounds took, without compiling."""
        return math.fsum(seconds for _, seconds in self.time)

    @property
    def ended(self) -> bool:
        """Whether it has all rounds and its results, ended before by its rule, or has more than it was asked for."""
        return self.rounds > self.wanted or self.stopped or (self.rounds == self.wanted and bool(self.summary))

    @property
    def has_tasks(self) -> bool:
        """Whether a task of test samples of its own was tested."""
        return any(name.startswith(ON_TASK) for name in self.curves)

    def curve(self, quantity: str) -> Curve:
        """What a metric reads: a column of metrics.csv, or one client's class's of forgetting.csv; empty if unknown.

        Raises:
            ConfigError: forgetting.csv, or clients.csv, is not what a run writes.
        """
        if quantity in SPREADS:
            found = spread_curve(self.folder, quantity)
        elif of := of_client(quantity):
            found = client_curves(self.folder, of.client).get(of.label, {}).get(of.column, ())
        else:
            return self.curves.get(quantity, ())
        last = max((r for curve in self.curves.values() for r, _ in curve), default=0)
        return until(last, found)

    def after(self, last: int) -> Run:
        """The run with its curves and times as they were after a round."""
        curves = {name: until(last, curve) for name, curve in self.curves.items()}
        return replace(self, curves=curves, time=until(last, self.time))


def until(last: int, curve: Curve) -> Curve:
    """A curve up to a round."""
    return [(number, value) for number, value in curve if number <= last]


def partition_counts(folder: Path) -> Counts | None:
    """Each client's samples by the name of the class, as a run's partition.json has them; None if it does not.

    Raises:
        ConfigError: it is not what a run writes.
    """
    path, what = folder / "partition.json", "is not what a run writes"
    counts = (read_json_if_there(path, what) or {}).get("counts")
    try:
        return None if counts is None else tuple({str(k): int(n) for k, n in client.items()} for client in counts)
    except (ValueError, AttributeError, TypeError) as error:
        raise ConfigError(path, f"{what} ({error})") from error


def read_run(folder: Path, *, reconstructions: bool = True) -> Run | None:
    """What a run left so far; None where there is no run, or not yet.

    Args:
        folder: of the run.
        reconstructions: whether what launch.reconstruct left there is read, too.

    Raises:
        ConfigError: a file is not what a run writes.
    """
    if not (folder / "config.yaml").is_file():
        return None
    config, wanted = _config(folder / "config.yaml")
    rounds, of_metrics, time, columns = _course(folder / "metrics.csv")
    summary = read_summary(folder, strict=True)
    current = summary if summary.get("rounds") == rounds else {}
    stopped = current.get("stopped") is not None
    later = _of_last_model(of_metrics, columns, current, rounds)
    curves: dict[str, Curve] = {**of_metrics, **later}
    classes = tuple(name[len(_OF_CLASS) :] for name in columns if name.startswith(_OF_CLASS))
    if config.get("loss", "cross_entropy") == "cross_entropy":
        curves["perplexity"] = [(number, perplexity(loss)) for number, loss in curves.get("loss", ())]
    beside = {**task_curves(folder), **(reconstruction_curves(folder) if reconstructions else {})}
    curves |= {name: until(rounds, curve) for name, curve in beside.items()}
    run = Run(folder, config, rounds, wanted, curves, time, current, _failure(folder / FAILURE), stopped, classes)
    lost = _forgotten_at_end(current, rounds) if counts_anew(run) else _class_forgetting(curves)
    return replace(run, curves={**curves, **lost})


def _of_last_model(
    curves: Mapping[str, Curve], columns: Collection[str], summary: Mapping[str, object], rounds: int
) -> dict[str, Curve]:
    """Curves of a last model that was tested when its round was written: of a run that ended between two tests."""
    of_class = summary.get("class_accuracy")
    told = {f"{_OF_CLASS}{label}": value for label, value in of_class.items()} if isinstance(of_class, Mapping) else {}
    found: dict[str, Curve] = {}
    for name, value in {**summary, **told}.items():
        curve = curves.get(name, ())
        its = name in columns and not name.startswith(_OF_CLIENTS)
        if value is None and name.startswith(OF_FUNCTION):  # as JSON has what is no number
            value = math.nan
        if its and isinstance(value, float) and (not curve or curve[-1][0] < rounds):
            found[name] = [*curve, (rounds, value)]
    return found


def counts_anew(run: Run) -> bool:
    """Whether a class may count anew in a round: with tasks, or where the first weights were given."""
    return bool(run.config.get("init")) or run.has_tasks


def _forgotten_at_end(summary: Mapping[str, object], rounds: int) -> dict[str, Curve]:
    """As _class_forgetting(), at a run's end alone, as the summary has it.

    With tasks a class may have other test samples from one of them on, and then counts anew; and first weights that
    were given count, too.
    """
    told = summary.get("class_forgetting")
    known = told if isinstance(told, Mapping) else {}
    return {f"forgetting/{label}": ((rounds, lost),) for label, lost in known.items() if lost is not None}


def _class_forgetting(curves: Mapping[str, Curve]) -> dict[str, Curve]:
    """What each class has lost since its best round, as forgetting/<class>."""
    found: dict[str, Curve] = {}
    for name, curve in curves.items():
        if name.startswith(_OF_CLASS):
            best = accumulate((value for _, value in curve), max)
            lost = [(r, most - value) for (r, value), most in zip(curve, best, strict=True)]
            found[f"forgetting/{name[len(_OF_CLASS) :]}"] = lost
    return found


def _config(path: Path) -> tuple[Mapping[str, object], int]:
    """The configuration of a run, with all that tells runs apart, and its rounds; older runs lack some of it."""
    config = load_yaml(path)
    if not isinstance(config, Mapping):
        raise ConfigError(path, "is not the configuration of a run")
    for key in ("rounds", "seed"):
        if type(config.get(key)) is not int:
            raise ConfigError(path, f"is not the configuration of a run ({key} is {written(config.get(key))})")
    for kind in ("stream", "optimizer"):
        if kind not in config:
            choice = default_choice(kind)
            config = {**config, kind: {"class_path": choice.class_path, "init_args": dict(choice.init_args)}}
    config = {"client_sampling": "uniform", **config}
    given = {each.key: each.value for each in flatten(config, f"{path}: ")}
    for kind in KINDS:
        if not isinstance(given.get(kind), str):
            raise ConfigError(path, f"is not the configuration of a run ({kind} is {written(given.get(kind))})")
    return config, config["rounds"]


def _course(path: Path) -> tuple[int, dict[str, Curve], Curve, tuple[str, ...]]:
    """Finished rounds, curves, seconds of each round and columns; a last row that is being written is left out.

    A class without test samples has nan as one that is not tested, and no value; whatever else is nan was measured.
    """
    curves: dict[str, list[tuple[int, float]]] = {}
    rounds, time, columns = 0, list[tuple[int, float]](), tuple[str, ...]()
    with written_rows(path) as rows:
        for row in rows:
            if columns and int(row["round"]) != rounds + 1:
                raise ValueError(f"round {row['round']} behind round {rounds}")
            rounds = int(row["round"])
            columns = columns or tuple(row)
            time.append((rounds, math.fsum(float(cell) for name, cell in row.items() if cell and is_of_work(name))))
            for name, cell in row.items():
                told = cell and rounds > 0 and name != "round" and not is_of_time(name)
                if told and not (class_of(name) and math.isnan(float(cell))):
                    curves.setdefault(name, []).append((rounds, float(cell)))
    return rounds, dict(curves), time, columns


def _failure(path: Path) -> str | None:
    return path.read_text(encoding="utf-8", errors="replace").strip() if path.is_file() else None
