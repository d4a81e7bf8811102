"""Numbers read off the curves of a run."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fl_ddp.errors import ConfigError
from launch.numbers.metric import QUANTITIES, Curve, parse_metric, quantity_name
from launch.numbers.read_off import read_off, smoothed
from launch.numbers.reading import Reading

CURVE: Curve = [(2, 0.1), (4, 0.5), (6, 0.3), (8, 0.7)]
"""Of a run that evaluates every second round."""


def read(text: str, curve: Curve = CURVE, ended: bool = True) -> float | None:
    curves = {"accuracy": curve, "initial_accuracy": [(r, v / 2) for r, v in curve]}
    metric = parse_metric(text)
    found = read_off(metric, curves.get(metric.quantity, ()), ended)
    assert found is None or not found.missed
    return found.value if found else None


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("final", 70),
        ("final@4", 50),
        ("final@5", 50),
        ("best@6", 50),
        ("running_mean", 40),
        ("running_mean@6", 30),
        ("last4", 50),
        ("last4@6", 40),
        ("last5@8", 50),
        ("last10@6 of initial", 15),
        ("initial", 35),
        ("generic", 70),
        ("rounds_to 0.5", 4),
        ("rounds_to 0.6", 8),
        ("rounds_to 0.3 of running_mean", 4),
        ("rounds_to 0.3 of initial", 8),
        ("ema0.5@4", 100 * (0.25 * 0.1 + 0.5) / 1.25),
    ],
)
def test_metrics_are_read_off_the_evaluated_rounds(metric: str, expected: float) -> None:
    assert read(metric) == pytest.approx(expected)


def test_the_best_of_what_falls_is_the_least() -> None:
    curve = [(1, 0.5), (2, 0.25), (3, 0.5)]
    for text, best in (("best", 50), ("best of loss", 0.25), ("best of forgetting_degree", 25)):
        found = read_off(parse_metric(text), curve, ended=True)
        assert found is not None and found.value == best


def test_a_missed_target_is_one_round_later_than_the_run() -> None:
    for text in ("rounds_to 0.9", "rounds_to 0.9 of running_mean"):
        assert read_off(parse_metric(text), CURVE, ended=True) == Reading(9, missed=True)


@pytest.mark.parametrize("metric", ["final@9", "final@1", "personalised", "rounds_to 0.1 of personalised"])
def test_metrics_say_nothing_where_the_run_says_nothing(metric: str) -> None:
    assert read(metric) is None


def test_metrics_of_a_run_that_goes_on_give_what_cannot_change_any_more() -> None:
    assert [read(text, ended=False) for text in ("final", "rounds_to 0.9")] == [None, None]
    assert [read(text, ended=False) for text in ("final@8", "rounds_to 0.5")] == [70, 4]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.floats(0.01, 0.999))
@settings(max_examples=50, deadline=None)
def test_ema_is_the_debiased_recursion(values: list[float], weight: float) -> None:
    biased = 0.0
    for value in values:
        biased = weight * biased + (1 - weight) * value
    found = read(f"ema{weight:.10f}", list(enumerate(values, 1)))
    assert found == pytest.approx(100 * biased / (1 - weight ** len(values)), rel=1e-6, abs=1e-9)


@given(st.floats(0, 1), st.lists(st.integers(1, 5), min_size=1, max_size=10))
@settings(max_examples=30, deadline=None)
def test_every_smoothing_of_a_constant_is_the_constant(value: float, gaps: list[int]) -> None:
    curve = [(sum(gaps[: i + 1]), value) for i in range(len(gaps))]
    for text in ("final", "best", "running_mean", "ema0.995", "last3"):
        assert read(text, curve) == pytest.approx(100 * value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "finale",
        "last0",
        "ema1.5",
        "final@",
        "rounds_to",
        "rounds_to 85",
        "rounds_to 0.5@3",
        "final of of",
        "final of last10 of accuracy/cup of tea",
        "final of cup of tea",
        "final of initial of accuracy",
        "final of accuracy/",
        "final of own_accuracy/cat",
        "final of method/",
        "final of method/a/b",
        "final of method/a,b",
        "final of own_accuracy/x/cat",
        "rounds_to fedavg / other",
        "rounds_to fedavg@3",
        "final / ",
    ],
)
def test_malformed_metrics_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="accepted"):
        parse_metric(text)


@pytest.mark.parametrize("of", ["forgetting", "forgetting/cat"])
def test_the_least_forgetting_of_classes_is_none_to_compare(of: str) -> None:
    with pytest.raises(ConfigError, match="in its first round every run without --init has forgotten nothing"):
        parse_metric(f"best of {of}")
    assert parse_metric("best of average_forgetting").less_is_better
    assert parse_metric(f"last3 of {of}").quantity == of


@pytest.mark.parametrize(
    ("text", "quantity", "words", "less"),
    [
        ("final of accuracy/cat", "accuracy/cat", "accuracy of class cat", False),
        ("last10 of forgetting_degree/cat", "forgetting_degree/cat", "forgetting degree of class cat", True),
        (
            "best of forgetting_degree/3/ice cream",
            "forgetting_degree/3/ice cream",
            "client 3's forgetting degree of class ice cream",
            True,
        ),
        ("final of accuracy/cup of tea", "accuracy/cup of tea", "accuracy of class cup of tea", False),
        ("accuracy/cup of tea", "accuracy/cup of tea", "accuracy of class cup of tea", False),
        (
            "rounds_to 0.5 of last10 of own_accuracy/12/state of the art of it",
            "own_accuracy/12/state of the art of it",
            "client 12's own accuracy of class state of the art of it",
            True,
        ),
        ("best of accuracy/final of loss", "accuracy/final of loss", "accuracy of class final of loss", False),
        ("final of accuracy/T-shirt/top", "accuracy/T-shirt/top", "accuracy of class T-shirt/top", False),
        ("final of own_accuracy/12/cat", "own_accuracy/12/cat", "client 12's own accuracy of class cat", False),
        ("rounds_to 0.5 of accuracy/cat", "accuracy/cat", "accuracy of class cat", True),
        ("rounds_to 0.5 of loss", "loss", "loss", True),
        ("final of train_loss", "train_loss", "train loss", True),
        ("rounds_to fedavg of perplexity", "perplexity", "perplexity", True),
        ("rounds_to 0.2 of forgetting", "forgetting", "forgetting", False),
        ("final of method/mean_pull", "method/mean_pull", "the method's mean pull", False),
        ("rounds_to 2.5 of method/pull", "method/pull", "the method's pull", True),
        ("final of measure/mean_gap", "measure/mean_gap", "mean gap", False),
        ("rounds_to 0.1 of -measure/mean_gap", "measure/mean_gap", "mean gap", True),
    ],
)
def test_metrics_may_be_of_one_class_and_of_one_clients_class(text: str, quantity: str, words: str, less: bool) -> None:
    metric = parse_metric(text)
    assert (metric.quantity, quantity_name(metric), metric.less_is_better) == (quantity, words, less)


def test_what_a_method_reports_is_a_number_as_it_is() -> None:
    curve = [(1, -3.0), (2, 250.0), (3, 0.5)]
    told = [
        read_off(parse_metric(f"{text} of method/pull"), curve, True) for text in ("final", "best", "rounds_to 100")
    ]
    assert told == [Reading(0.5), Reading(250.0), Reading(2)]
    assert parse_metric("final of method/pull").unit == "number"
    fallen = [read_off(parse_metric(f"{text} of -measure/gap"), curve, True) for text in ("best", "rounds_to 1")]
    assert fallen == [Reading(-3.0), Reading(1)]


def test_rounds_may_be_to_what_another_row_ends_with() -> None:
    metric = parse_metric("rounds_to fedavg of running_mean")
    assert (metric.target_row, metric.other_row, metric.target, metric.unit) == ("fedavg", "fedavg", None, "rounds")
    assert metric.less_is_better and metric.statistic == "running_mean"


@given(st.lists(st.tuples(st.integers(1, 4), st.floats(-1, 1)), min_size=1, max_size=30), st.integers(1, 12))
def test_the_last_rounds_are_those_of_each_evaluation(gaps: list[tuple[int, float]], count: int) -> None:
    rounds = [sum(gap for gap, _ in gaps[: i + 1]) for i in range(len(gaps))]
    curve = [(r, value) for r, (_, value) in zip(rounds, gaps, strict=True)]
    expected = [[value for r, value in curve if now - count < r <= now] for now in rounds]
    found = smoothed(parse_metric(f"last{count}"), curve)
    assert found == pytest.approx([sum(some) / len(some) for some in expected])


def test_a_word_that_is_no_metric_has_all_of_them_listed() -> None:
    with pytest.raises(ConfigError) as refused:
        parse_metric("final of nothing")
    listed = refused.value.accepted.replace(",", " ").split()
    assert set(QUANTITIES) <= set(listed)


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("final", (0, 100)),
        ("rounds_to 0.5 of accuracy/3", (0, 100)),
        ("final of average_accuracy", (0, 100)),
        ("final of backward_transfer", (-100, 100)),
        ("final of forgetting/accuracy", (-100, 100)),
        ("final of worst_initial", (0, 100)),
        ("final of f1", (0, 100)),
        ("final of forgetting_degree", (-100, 100)),
        ("final of loss", (-math.inf, math.inf)),
        ("rounds_to 0.5 of loss", (-math.inf, math.inf)),
        ("final of method/drift", (-math.inf, math.inf)),
        ("final of psnr/1", (-math.inf, math.inf)),
    ],
)
def test_what_the_values_of_a_curve_can_be(text: str, limits: tuple[float, float]) -> None:
    assert parse_metric(text).limits == limits


@pytest.mark.parametrize(
    ("text", "cost", "unit"),
    [
        ("rounds_to 0.8", None, "rounds"),
        ("traffic_to 0.8 of ema0.995", "traffic", "MB"),
        ("time_to 0.8 of initial", "time", "s"),
        ("traffic_to 0.8 / fedavg", "traffic", "ratio"),
        ("time_to fedavg", "time", "s"),
    ],
)
def test_a_target_may_be_told_by_its_cost(text: str, cost: str | None, unit: str) -> None:
    metric = parse_metric(text)
    assert (metric.cost, metric.unit, metric.of_target) == (cost, unit, True)
    rounds = parse_metric(re.sub("^[a-z]*_to", "rounds_to", text))
    assert replace(metric, text=rounds.text, cost=None) == rounds


def test_what_is_no_cost_is_none() -> None:
    for text in ("bytes_to 0.8", "traffic_to", "time_to 1.8", "cost_to 0.8"):
        with pytest.raises(ConfigError):
            parse_metric(text)
