"""Metrics as they are asked for: what a paper's table may mean by an accuracy."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

from fl_ddp.errors import ConfigError
from fl_ddp.losses.choices import MEASURES, R2
from fl_ddp.results.client_table import MODELS
from fl_ddp.results.metrics import OF_FUNCTION, OF_METHOD, of_clients
from fl_ddp.retention.matrix import OF_OWN_TASKS, OF_TASKS
from launch.numbers.spread import UNLIMITED

SPREADS = tuple(
    f"{measure}_{own}{score}" for score in ("", "_mae") for own in MODELS for measure in ("worst", "deviation")
)
"""Curves of how far clients differ; those of regressions are of errors."""

ERRORS = (
    *("loss", "train_loss", "perplexity", "mae"),
    *of_clients("mae"),
    *(each for each in SPREADS if each.endswith("_mae")),
)
"""Quantities of which less is better, numbers of any size."""

OWN = (OF_METHOD, OF_FUNCTION)

QUANTITIES = {
    "accuracy": "accuracy",
    "generic": "accuracy",
    **{column.replace("_accuracy", ""): column for column in of_clients("accuracy")},
    **{
        name: name
        for name in (
            *(each for each in SPREADS if each not in ERRORS),
            *("forgetting", "forgetting_degree", *OF_TASKS, *OF_OWN_TASKS, *ERRORS),
            *(each for told in MEASURES.values() for each in told if each not in ERRORS),
        )
    },
}
"""Curves of a run by the name a metric gives them; generic is what papers on personalised methods call it."""

FORMS = (
    "final, best, running_mean, ema0.995, last10, each with @50 if wanted, "
    "rounds_to, traffic_to or time_to 0.85 of one of them, "
    f"of {', '.join(QUANTITIES)}, accuracy/<class>, forgetting/<class>, forgetting_degree/<class>, "
    "own_accuracy/<client>/<class>, forgetting_degree/<client>/<class>, task_accuracy/<task>, "
    "method/<name>, which the method reports, measure/<name>, of a function of --measures, "
    "-method/<name> or -measure/<name> where less is better, "
    "or, of runs that launch.reconstruct has read, of psnr/<task> or psnr_of_mean/<task>"
)

Cost = Literal["traffic", "time"]
"""What a target may cost, and curves may be drawn over, beside rounds."""

Curve = Sequence[tuple[int, float]]
"""Evaluated rounds from 1 up, ascending, and the value in each; nan where what was measured is no number."""

_OF_CLASS = re.compile(r"(accuracy|forgetting|forgetting_degree)/(?P<label>.+)")
_OF_TASK = re.compile(r"task_accuracy/(?P<task>[1-9]\d*)")
_OF_IMAGES = re.compile(r"psnr(_of_mean)?/(?P<task>[1-9]\d*)")
_OWN = re.compile(rf"(?P<of>{'|'.join(OWN)})(?P<name>[^\s,/]+)")
_OF_CLIENT = re.compile(r"(?P<column>own_accuracy|forgetting_degree)/(?P<client>\d+)/(?P<label>.+)")
_TARGET = re.compile(r"(rounds|traffic|time)_to (?P<goal>.*)")
_STATISTIC = re.compile(r"(final|best|running_mean|ema(?P<weight>0?\.\d+)|last(?P<count>[1-9]\d*))(@(?P<round>\d+))?")


@dataclass(frozen=True)
class Metric:
    """One number of a run.

    Attributes:
        text: as the table writes it.
        statistic: final, best, running_mean, ema or last.
        parameter: weight of the ema, number of rounds of last.
        round: where it is read; None is the end of the run.
        target: fraction, or error, whose first round is asked for; None asks for the value itself.
        quantity: column of metrics.csv, what tasks.csv, own_tasks.csv or reconstruction.csv tells, or
            column/client/class of forgetting.csv.
        less: whether a number of the user's own is told to be the better the less it is.
        relative_to: row of the same group whose number this one is divided by.
        target_row: row of the same group at whose last value the target is.
        cost: what is told of the rounds to the target: what all clients sent and received, or the time without
            compiling; None is their number.
    """

    text: str
    statistic: str
    parameter: float
    round: int | None
    target: float | None
    quantity: str
    less: bool
    relative_to: str | None
    target_row: str | None
    cost: Cost | None

    @property
    def unit(self) -> str:
        """What its values are: percent, rounds, MB, seconds, dB, a ratio or a number."""
        if self.relative_to:
            return "ratio"
        if self.of_target:
            return {"traffic": "MB", "time": "s"}[self.cost] if self.cost else "rounds"
        if self.of_number:
            return "number"
        return "dB" if self.of_images else "percent"

    @property
    def of_images(self) -> bool:
        """Whether it reads how well images are reconstructed."""
        return _OF_IMAGES.fullmatch(self.quantity) is not None

    @property
    def scale(self) -> int:
        """What a value of its curve is multiplied by: fractions become percent, dB and other numbers stay."""
        return 1 if self.of_images or self.of_number else 100

    @property
    def limits(self) -> tuple[float, float]:
        """What a value of its curve, so multiplied, can be: shares are from 0 up, their differences below it, too.

        Forgetting degrees, relative differences, are cut off at -1 where they are read.
        """
        if self.of_images or self.of_number:
            return UNLIMITED
        column = self.quantity.partition("/")[0]
        return -100.0 if "forgetting" in column or "transfer" in column else 0.0, 100.0

    @property
    def of_number(self) -> bool:
        """Whether its quantity is no share of anything."""
        return self.quantity in (*ERRORS, R2) or _OWN.fullmatch(self.quantity) is not None

    @property
    def of_error(self) -> bool:
        """Whether its quantity is a number of any size of which less is better."""
        return self.quantity in ERRORS or self.less

    @property
    def of_target(self) -> bool:
        """Whether it is the first round that reaches something."""
        return self.target is not None or self.target_row is not None

    @property
    def other_row(self) -> str | None:
        """Row of the same group that is needed to read it."""
        return self.relative_to or self.target_row

    @property
    def falls(self) -> bool:
        """Whether it reads a quantity of which less is better."""
        losses = ("forgetting", "average_forgetting", "own_average_forgetting", "deviation")
        return self.quantity.startswith(losses) or self.of_error

    def reached_by(self, value: float) -> bool:
        """Whether a value of its curve is what its target asks for: as much of a share, as little of an error."""
        assert self.target is not None
        return value <= self.target if self.of_error else value >= self.target

    @property
    def less_is_better(self) -> bool:
        """Whether it is the smallest number that is best: the fewest rounds to a loss, the least forgetting.

        Rounds until so much is forgotten are better the more they are.
        """
        return not self.falls or self.of_error if self.of_target else self.falls


def parse_metric(text: str, where: str = "--metric") -> Metric:
    """Read a metric, such as running_mean@10, last10 of initial, rounds_to 0.85 of ema0.995, rounds_to 0.9 / fedavg.

    rounds_to fedavg is the first round that reaches what the row fedavg ends with; traffic_to and time_to are what all
    clients have sent and received until then, and how long it took.

    Args:
        text: the metric.
        where: it stands, for messages.

    Raises:
        ConfigError: it is none.
    """
    unknown = ConfigError(where, f"{text!r} is no metric", f"{FORMS}, and / <row> for a ratio")
    formula, slash, relative_to = text.partition(" / ")
    parts = _parts(formula)
    target, row, cost = None, None, None
    if asked := _TARGET.fullmatch(parts[0]):
        goal, cost = asked["goal"].strip(), None if asked[1] == "rounds" else cast(Cost, asked[1])
        parts.pop(0)
        try:
            target = float(goal)
        except ValueError:
            row = goal
        if row is not None and (slash or not re.fullmatch(r"[A-Za-z_]\w*", row)):
            raise unknown
    less = bool(parts) and parts[-1].startswith(tuple(f"-{each}" for each in OWN))
    quantity = _quantity(parts[-1][less:]) if parts else ""
    parts, quantity = (parts[:-1], quantity) if quantity else (parts, "accuracy")
    most = math.inf if quantity in ERRORS else 1
    if target is not None and not _OWN.fullmatch(quantity) and not 0 < target <= most:
        raise ConfigError(where, f"{text!r}: the target {target} is impossible", "accuracies in (0, 1], errors above 0")
    match = _STATISTIC.fullmatch(parts[0] if parts else "final")
    of_target = target is not None or row is not None
    if match is None or len(parts) > 1 or (of_target and match["round"]) or (slash and not relative_to.strip()):
        raise unknown
    if of_target and _OF_IMAGES.fullmatch(quantity):
        raise ConfigError(where, f"{text!r}: a PSNR is no share to reach", "final of psnr/1")
    if match[1] == "best" and re.match(r"forgetting(/|$)", quantity):
        what = f"{text!r}: in its first round every run without --init has forgotten nothing, which is the least"
        raise ConfigError(where, what, f"final of {quantity}, or another statistic")
    parameter = float(match["weight"] or match["count"] or 0)
    statistic = match[1].rstrip(".0123456789")
    end = int(match["round"]) if match["round"] else None
    return Metric(text, statistic, parameter, end, target, quantity, less, relative_to.strip() or None, row, cost)


def _parts(formula: str) -> list[str]:
    """What stands between one "of" and the next; a class is the last part, and its name may have more of them."""
    parts = formula.split(" of ")
    place = next((number for number, part in enumerate(parts) if class_of(part)), len(parts) - 1)
    return [*parts[:place], " of ".join(parts[place:])]


def _quantity(name: str) -> str:
    """The curve that a metric's last word means; empty if it means none."""
    known = any(form.fullmatch(name) for form in (_OF_CLASS, _OF_TASK, _OF_IMAGES, _OWN)) or of_client(name)
    return name if known else QUANTITIES.get(name, "")


def quantity_name(metric: Metric) -> str:
    """What is measured, in words: accuracy, initial accuracy, forgetting, accuracy of class cat, client 3's ..."""
    if of := of_client(metric.quantity):
        return f"client {of.client}'s {of.column.replace('_', ' ')} of class {of.label}"
    if of_task := _OF_TASK.fullmatch(metric.quantity):
        return f"accuracy on task {of_task['task']}"
    if of_images := _OF_IMAGES.fullmatch(metric.quantity):
        return f"PSNR {'of the mean image ' if of_images[1] else ''}on task {of_images['task']}"
    if own := _OWN.fullmatch(metric.quantity):
        whose = "the method's " if own["of"] == OF_METHOD else ""
        return f"{whose}{own['name'].replace('_', ' ')}"
    name, slash, label = metric.quantity.partition("/")
    return f"{name.replace('_', ' ')} of class {label}" if slash else name.replace("_", " ")


class OfClient(NamedTuple):
    """A column of forgetting.csv, of one client and class."""

    column: str
    client: int
    label: str


def of_client(quantity: str) -> OfClient | None:
    """The client's class that a quantity is of; None if it is a column of metrics.csv."""
    found = _OF_CLIENT.fullmatch(quantity)
    return OfClient(found["column"], int(found["client"]), found["label"]) if found else None


def class_of(quantity: str) -> str | None:
    """The class that a quantity is of; None if it is of none."""
    if of := of_client(quantity):
        return of.label
    found = _OF_CLASS.fullmatch(quantity)
    return found["label"] if found else None


def with_sign(words: str, metric: Metric) -> str:
    """What is measured, with the unit of its curve where it has one."""
    return words if metric.of_number else f"{words} ({'dB' if metric.of_images else '%'})"


def curve_name(metric: Metric) -> str:
    """What is drawn over rounds, in words: such as accuracy or ema0.995 accuracy."""
    statistic = metric.statistic.replace("_", " ") + (f"{metric.parameter:g}" if metric.parameter else "")
    return quantity_name(metric) if metric.statistic == "final" else f"{statistic} {quantity_name(metric)}"
