"""launch.results --chosen_by: for each method the setting that is best by one metric, and others of that setting."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from showing import Showing
from written_runs import Written

Curves = Mapping[tuple[str, float], Sequence[Sequence[float]]]
"""By method and lr a curve of accuracies for each seed."""
GRID: Curves = {
    ("FedAvg", 0.1): [[0.5, 0.5], [0.5, 0.46]],
    ("FedAvg", 1.0): [[0.25, 0.6], [0.25, 0.6]],
    ("FedProx", 0.1): [[0.1, 0.8], [0.1, 0.8]],
    ("FedProx", 1.0): [[0.9, 0.3], [0.9, 0.2]],
    ("FedProx", 10.0): [[0.2, 0.7], [0.2, 0.7]],
}
"""Whose last accuracies are best where their means over rounds are not."""
ASKED = ("--chosen_by", "running_mean", "--metric", "final")


def written(of: Curves, **more: object) -> None:
    for (method, lr), curves in of.items():
        for seed, curve in enumerate(curves):
            name = "-".join(map(str, (method, lr, seed, *more.values())))
            Written({"method": method, "lr": lr, "seed": seed, **more}, curve).at(Path("runs", name))


def second(out: str) -> list[list[str]]:
    """The words of the lines of the table that is asked for, its head first."""
    lines = out[out.index("chosen by") :].splitlines()[2:]
    lines = lines[: lines.index("")]
    return [line.replace(" ± ", "±").split() for line in (lines[0].replace("chosen by", "by"), *lines[2:])]


def notes(out: str) -> str:
    return out[out.index("mean ± standard deviation") :]


def test_a_setting_is_chosen_by_one_metric_and_another_one_of_it_is_shown(show: Showing) -> None:
    written(GRID)
    code, out, err = show("runs", *ASKED)
    assert (code, err) == (0, "") and "best %" in out, "which stands in the first table alone"
    assert second(out) == [
        ["method", "lr", "settings", "seeds", "by", "running_mean", "%", "final", "%"],
        ["FedAvg", "0.1", "2", "2", "49.00±1.41", "48.00±2.83"],
        ["FedProx", "1", "3", "2", "57.50±3.54", "25.00±7.07"],
    ]
    assert "chosen by running_mean: for each method the setting that is best by it" in out
    assert "settings: how many there were to choose from" in notes(out)
    assert "alike" not in notes(out) and "seeds differ" not in notes(out)


def test_less_is_better_where_the_metric_that_chooses_says_so(show: Showing) -> None:
    for lr, lost in ((0.1, 0.4), (1.0, 0.2), (10.0, 0.3)):
        Written({"lr": lr}, [0.5, lost], forgetting=[0.0, lost]).at(Path(f"runs/{lr}"))
    out = show("runs", "--chosen_by", "final of forgetting", "--metric", "final")[1]
    assert second(out)[1:] == [["1", "3", "1", "20.00", "20.00"]]


def test_other_data_clients_or_rounds_have_a_choice_of_their_own(show: Showing) -> None:
    worlds: list[dict[str, object]] = [
        {"partition": "Dirichlet", "partition.alpha": 0.1, "clients": 20}, {"partition": "IID", "clients": 20},
        {"partition": "IID", "clients": 10},
    ]  # fmt: skip
    for place, world in enumerate(worlds):
        for lr in (0.1, 1.0):
            accuracy = 0.1 * place + (0.1 if (lr == 1.0) == (place == 1) else 0.0)
            Written({**world, "lr": lr}, [accuracy]).at(Path(f"runs/{place}-{lr}"))
    head, *rows = second(show("runs", *ASKED)[1])
    assert head[:3] == ["partition", "clients", "lr"]
    assert [row[:4] for row in rows] == [
        ["Dirichlet", "20", "0.1", "2"],
        ["IID", "10", "0.1", "2"],
        ["IID", "20", "1", "2"],
    ]


def test_an_option_of_training_may_have_a_choice_for_each_of_its_values(show: Showing) -> None:
    of = {(1, 0.1): 0.5, (1, 1.0): 0.4, (5, 0.1): 0.6, (5, 1.0): 0.7}
    for (epochs, lr), accuracy in of.items():
        Written({"local_epochs": epochs, "lr": lr}, [accuracy]).at(Path(f"runs/{epochs}-{lr}"))
    assert [row[:3] for row in second(show("runs", *ASKED)[1])[1:]] == [["5", "1", "4"]]
    head, *rows = second(show("runs", *ASKED, "--for_each", "local_epochs")[1])
    assert head[:2] == ["local_epochs", "lr"]
    assert [row[:3] for row in rows] == [["1", "0.1", "2"], ["5", "1", "2"]]


def test_options_of_methods_are_chosen_with_them(show: Showing) -> None:
    for mu, accuracy in ((0.1, 0.4), (0.2, 0.7)):
        Written({"method": "FedProx", "method.mu": mu}, [accuracy]).at(Path(f"runs/{mu}"))
    Written({"method": "FedAvg"}, [0.6]).at(Path("runs/avg"))
    head, *rows = second(show("runs", *ASKED)[1])
    assert head[:2] == ["method", "mu"]
    assert [row[:3] for row in rows] == [["FedAvg", "1", "1"], ["FedProx", "0.2", "2"]]


def test_settings_that_are_best_alike_are_all_shown_and_said_to_be(show: Showing) -> None:
    written({("FedAvg", 0.1): [[0.2, 0.6]], ("FedAvg", 1.0): [[0.6, 0.2]], ("FedAvg", 10.0): [[0.1, 0.1]]})
    out = show("runs", *ASKED)[1]
    assert second(out)[1:] == [["0.1", "3", "1", "40.00", "60.00"], ["1", "3", "1", "40.00", "20.00"]]
    assert "2 settings are best alike by running_mean, all are shown" in notes(out)


def test_all_settings_may_be_best_alike(show: Showing) -> None:
    written({("FedAvg", 0.1): [[0.2, 0.6]], ("FedAvg", 1.0): [[0.6, 0.2]]})
    out = show("runs", *ASKED)[1]
    assert len(second(out)) == 3 and "2 settings are best alike" in notes(out)


def test_seeds_that_a_setting_lacks_and_settings_without_a_number_are_told(show: Showing) -> None:
    written({("FedAvg", 0.1): [[0.5], [0.5], [0.5]], ("FedAvg", 1.0): [[0.6]], ("Scaffold", 0.1): [[0.5]]})
    Written({"method": "FedAvg", "lr": 10.0}, [0.9], rounds=5).at(Path("runs/going on"))
    Written({"method": "FedDyn", "lr": 0.1}, [0.9], rounds=5).at(Path("runs/another"))
    out = show("runs", *ASKED)[1]
    rows = {row[0]: row[1:] for row in second(out)[1:]}
    assert rows["FedAvg"] == ["1", "2", "of", "3", "1", "of", "3", "60.00", "60.00"]
    assert rows["FedDyn"] == ["0", "of", "1", "-", "-", "-"]
    assert "FedAvg: seeds differ among its settings, of which those with a number have 1 to 3" in notes(out)
    assert "FedDyn: no setting has a finished run with a number of running_mean" in notes(out)
    assert "Scaffold: " not in notes(out)


@pytest.mark.parametrize(
    ("by", "shown", "flattered"),
    [
        ("running_mean", "final", True),
        ("final of loss", "final", True),
        ("final of initial", "final", False),
        ("final of initial", "final of personalised", True),
        ("final of train_loss", "final", False),
    ],
)
def test_a_choice_by_the_samples_of_what_is_shown_is_told(show: Showing, by: str, shown: str, flattered: bool) -> None:
    for lr in (0.1, 1.0):
        file = Written({"lr": lr, "local_test": 0.2}, [lr / 2]).at(Path(f"runs/{lr}")) / "metrics.csv"
        head, row = file.read_text().splitlines()
        file.write_text(f"{head},loss,initial_accuracy,personalised_accuracy,train_loss\n{row},1.0,{lr / 3},0.25,2.0\n")
    out = show("runs", "--chosen_by", by, "--metric", shown)[1]
    assert (f"{shown} is of the same samples as {by}" in notes(out)) == flattered


@pytest.mark.parametrize("same", [{"local_test_from": "test"}, {"data.merge": True}])
def test_own_samples_of_the_test_set_are_those_of_what_is_shown(show: Showing, same: Mapping[str, object]) -> None:
    for lr in (0.1, 1.0):
        given = {"lr": lr, "local_test": 0.2, **same}
        file = Written(given, [lr / 2]).at(Path(f"runs/{lr}")) / "metrics.csv"
        head, row = file.read_text().splitlines()
        file.write_text(f"{head},initial_accuracy\n{row},{lr / 3}\n")
    out = show("runs", "--chosen_by", "final of initial", "--metric", "final")[1]
    assert "final is of the same samples as final of initial" in notes(out)


def test_files_have_the_choice_too(show: Showing) -> None:
    written(GRID)
    show("runs", *ASKED)
    page = Path("runs/results.md").read_text()
    assert "| FedProx | 1 | 3 | 2 | 57.50 ± 3.54 | 25.00 ± 7.07 |" in page
    lines = Path("runs/results.tex").read_text().splitlines()
    assert r"FedProx & 1 & 3 & 2 & 57.50 $\pm$ 3.54 & 25.00 $\pm$ 7.07 \\" in lines
    assert sum(line.startswith("FedProx") for line in lines) == 1
    with Path("runs/results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["chosen_among"] for row in rows] == ["2", "", "", "3", ""]
    assert [float(row["running_mean_mean"]) for row in rows] == pytest.approx([49, 42.5, 45, 57.5, 45])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--chosen_by", "final", "--metric", "final"], "--chosen_by: final is shown, too; accepted: a metric that is"),
        (["--chosen_by", "final"], "--chosen_by: final is shown, too; accepted: a metric that is not, such as"),
        (["--chosen_by", "final of accuracy", "--metric", "final"], "--chosen_by: final of accuracy is shown, too"),
        (["--chosen_by", "finale"], "--chosen_by: 'finale' is no metric"),
        (["--chosen_by", "best / fedavg"], "--chosen_by: best / fedavg: there are no rows to divide by"),
        (["--chosen_by", "final@9", "--metric", "best"], "--chosen_by: final@9: no run has a round 9"),
        (["--chosen_by", "final of mae"], "--chosen_by: final of mae: no run tells of it"),
        (["--for_each", "lr"], "--for_each: lr, but of what choice?; accepted: --chosen_by 'final of initial', say"),
        ([*ASKED, "--for_each", "mu"], "--for_each: mu: no option that varies among the runs; accepted: method, lr"),
        ([*ASKED, "--across", "lr"], "--chosen_by and --across: are both given; give one of them"),
        ([*ASKED, "--rows"], "--chosen_by: running_mean, but --rows leaves no options to choose by"),
        ([*ASKED, "--for_each", "lr", "--for_each", "method"], "--chosen_by: running_mean: nothing varies that it"),
    ],
)
def test_what_is_no_choice_is_refused_in_a_line(show: Showing, words: list[str], message: str) -> None:
    written(GRID)
    code, out, err = show("runs", *words)
    assert (code, out) == (2, "") and err.startswith(f"results: error: {message}"), err
