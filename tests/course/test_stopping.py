"""When a run ends before its last round, as a function of its evaluations."""

from __future__ import annotations

from dataclasses import replace
from math import nan
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fl_ddp.config.command_line import from_mapping
from fl_ddp.config.settings import Config
from fl_ddp.config.stop_at import NAMES
from fl_ddp.course.stopping import Stopping
from fl_ddp.errors import ConfigError
from fl_ddp.federation import build_federation
from fl_ddp.losses.choices import LossName
from fl_ddp.losses.named import loss_named
from fl_ddp.ranks.collectives import Ranks
from fl_ddp.results.metrics import Columns, Record

NOTHING = Record(0, 5, 0, 0, 0.0)


def evaluations(name: str, *values: float | None, first: int = 1) -> list[Record]:
    """Records of evaluated rounds with the values of a column."""
    return [replace(NOTHING, round=first + i, **{name: value}) for i, value in enumerate(values)]  # type: ignore[arg-type]


def reason_to_stop(config: Config, evaluated: list[Record]) -> str | None:
    """Why a run with these evaluations ends after the newest of them."""
    return Stopping(config).reason(evaluated)


@pytest.mark.parametrize(
    ("rule", "values", "why"),
    [
        ("accuracy=0.5", [0.4, 0.5], "accuracy 0.5000 has reached 0.5"),
        ("accuracy=0.5", [0.4, 0.4999], None),
        ("accuracy=0.5", [0.6, 0.4], None),
        ("loss=0.5", [0.6, 0.5], "loss 0.5000 has reached 0.5"),
        ("loss=0.5", [0.4, 0.6], None),
        ("initial_accuracy=0.5", [0.5], "initial_accuracy 0.5000 has reached 0.5"),
        ("personalised_accuracy = 0.5", [None, 0.7], "personalised_accuracy 0.7000 has reached 0.5"),
        ("accuracy=0.5", [], None),
    ],
)
def test_a_value_is_reached_by_the_newest_evaluation(rule: str, values: list[float], why: str | None) -> None:
    config = Config(stop_at=rule, local_test=0.2)
    assert reason_to_stop(config, evaluations(rule.partition("=")[0].strip(), *values)) == why


@pytest.mark.parametrize(
    ("patience", "values", "why"),
    [
        (1, [0.4, 0.4], "accuracy has not been better than 0.4000 for 1 evaluations"),
        (1, [0.4, 0.41], None),
        (2, [0.3, 0.4, 0.35], None),
        (2, [0.3, 0.4, 0.35, 0.4], "accuracy has not been better than 0.4000 for 2 evaluations"),
        (3, [0.4, 0.3, 0.3, 0.3, 0.5, 0.4, 0.4], None),
    ],
)
def test_patience_counts_evaluations_since_the_best(patience: int, values: list[float], why: str | None) -> None:
    assert reason_to_stop(Config(patience=patience), evaluations("accuracy", *values)) == why


def test_patience_with_a_loss_waits_for_a_smaller_one() -> None:
    config = Config(patience=2, stop_at="loss=0.1")
    assert reason_to_stop(config, evaluations("loss", 0.9, 0.8, 0.7)) is None
    assert reason_to_stop(config, evaluations("loss", 0.7, 0.8, 0.9)) is not None


def test_rounds_in_which_nobody_trained_do_not_count_nor_do_numbers_that_are_none() -> None:
    course = evaluations("accuracy", 0.9, 0.4, 0.3)
    initial, deserted = replace(course[0], round=0, cohort=0), replace(course[2], cohort=0)
    assert reason_to_stop(Config(patience=1), [initial, course[1], deserted]) is None
    assert reason_to_stop(Config(patience=1), course[:2]) is not None
    assert reason_to_stop(Config(stop_at="accuracy=0.5"), [initial]) is None
    assert reason_to_stop(Config(patience=1), evaluations("accuracy", nan, nan, 0.4, nan)) is None


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.integers(1, 4))
def test_a_run_that_goes_on_until_it_stops_stops_at_the_first_such_round(values: list[float], patience: int) -> None:
    config = Config(patience=patience)
    records = evaluations("accuracy", *values)
    first = next((i for i in range(1, len(values) + 1) if reason_to_stop(config, records[:i])), None)
    stale = (i for i in range(1, len(values) + 1) if len(values[:i]) - 1 - values.index(max(values[:i])) >= patience)
    assert first == next(stale, None)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.integers(1, 4), st.sets(st.integers(0, 12)))
def test_evaluations_are_looked_at_once_and_any_number_at_a_time(
    values: list[float], patience: int, ends: set[int]
) -> None:
    config, looks = Config(patience=patience), list[int]()

    class Told(list[Record]):
        def __getitem__(self, place: Any) -> Any:
            looks.append(place)
            return super().__getitem__(place)

    records, stopping = evaluations("accuracy", *values), Stopping(config)
    for end in sorted({*ends, len(values)}):
        assert stopping.reason(Told(records[:end])) == reason_to_stop(config, records[:end])
    assert looks == list(range(len(values)))


def test_clients_with_statistics_of_their_own_may_be_waited_for() -> None:
    local = Config().with_changes(running_statistics="local", local_test=0.2)
    assert local.with_changes(stop_at="initial_accuracy=0.9").waited_for == "initial_accuracy"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"stop_at": "acuracy=0.9"},
            "--stop_at: acuracy=0.9: acuracy is unknown with --loss cross_entropy; did you mean accuracy? known: ",
        ),
        ({"stop_at": "=1"}, "--stop_at: =1: nothing is unknown with --loss cross_entropy; known: "),
        (
            {"stop_at": "accuracy=1", "loss": "mse"},
            "--stop_at: accuracy=1: accuracy is unknown with --loss mse; known: ",
        ),
        (
            {"stop_at": "initial_mae=1", "loss": "mse"},
            "--stop_at: initial_mae is of the clients' own test samples; give ",
        ),
        ({"stop_at": "loss"}, "--stop_at: loss: nothing is no number; accepted: loss=0.9"),
        ({"stop_at": "loss=nan"}, "--stop_at: loss=nan: nan is no number; accepted: loss=0.9"),
        ({"stop_at": "initial_accuracy=1"}, "--stop_at: initial_accuracy is of the clients' own test samples; give "),
        (
            {"stop_at": "accuracy=90"},
            "--stop_at: accuracy=90 is impossible or always so; accepted: accuracy=0.9, above",
        ),
        ({"stop_at": "accuracy=0"}, "--stop_at: accuracy=0 is impossible or always so; accepted: accuracy=0.9, above"),
        ({"stop_at": "loss=-1"}, "--stop_at: loss=-1: loss is never below 0; accepted: loss=0.1"),
        ({"patience": 0}, "--patience: 0 is impossible; accepted: whole numbers from 1 up"),
        (
            {"patience": 3, "running_statistics": "local", "local_test": 0.2},
            "--patience: with --running_statistics local there is no accuracy; accepted: personalised_accuracy, or ",
        ),
    ],
)
def test_a_rule_that_cannot_be_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        Config().with_changes(**changes)
    assert str(error.value).startswith(message), str(error.value)


def test_own_models_alone_can_be_waited_for() -> None:
    local: dict[str, object] = {"running_statistics": "local", "local_test": 0.2}
    assert Config().with_changes(**local, stop_at="personalised_accuracy=0.9").good_enough is not None
    assert Config().with_changes(**local, estimate_statistics=True, patience=2).patience == 2
    assert Config().with_changes(**local, loss="mse", stop_at="personalised_mae=0.1").good_enough is not None


def test_tasks_are_not_waited_for() -> None:
    tasks = {"stream": "ClassGroups", "stream.tasks": 5, "stream.size": 2, "partition": "IID", "compile": False}
    for key, value in (("stop_at", "accuracy=0.5"), ("patience", 2)):
        with pytest.raises(ConfigError, match=f"^--{key}: of 5 tasks each makes the numbers fall anew, .* --rounds$"):
            build_federation(from_mapping({**tasks, key: value}), Ranks(0, 1, torch.device("cpu")))


@pytest.mark.parametrize("loss", NAMES)
def test_what_can_be_waited_for_are_columns_of_an_evaluation(loss: LossName) -> None:
    criterion = loss_named(loss, 0.0)
    columns = Columns((), (), score=criterion.score, measures=criterion.measures).names
    told = {"loss", *criterion.measures, *(f"{of}{criterion.score}" for of in ("initial_", "personalised_"))}
    assert set(NAMES[loss]) == told | {"accuracy"} & set(columns) and set(NAMES[loss]) <= set(columns)


def test_a_regression_waits_for_small_errors() -> None:
    config = Config(loss="mse", stop_at="mae=0.5", local_test=0.2)
    told = [replace(NOTHING, round=i, loss=1.0, measures={"mae": mae}) for i, mae in enumerate((0.9, 0.6, 0.4), 1)]
    assert reason_to_stop(config, told[:2]) is None
    assert reason_to_stop(config, told) == "mae 0.4000 has reached 0.5"
    own = replace(config, stop_at="initial_mae=0.5")
    assert reason_to_stop(own, evaluations("initial_accuracy", 0.7)) is None
    assert reason_to_stop(own, evaluations("initial_accuracy", 0.5)) == "initial_mae 0.5000 has reached 0.5"
    assert reason_to_stop(Config(loss="mse", patience=1), evaluations("loss", 0.5, 0.4)) is None
    assert reason_to_stop(Config(loss="mse", patience=1), evaluations("loss", 0.4, 0.5)) is not None
