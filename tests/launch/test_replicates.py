"""Replicates: which runs are one row of a table, and how their numbers are put together and ordered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from written_runs import Written, design_in

from fl_ddp.datasets.place import by_root
from fl_ddp.errors import ConfigError
from launch.compare.found_runs import FoundRun, find_runs
from launch.compare.replicates import Design, Replicates, design_of, in_order, rows_of
from launch.numbers.metric import parse_metric
from launch.numbers.reading import Reading, values_of
from launch.numbers.spread import mean, spread, spread_of, with_spread
from launch.run.failure import Failure, failure_beside
from launch.run.stored import Run
from launch.sweeps.points import folder_name


def test_replicates_differ_in_the_seed_and_nothing_else(tmp_path: Path) -> None:
    design = design_in(
        tmp_path,
        {
            f"{method}{mu}{seed}": Written(
                {"method": method, "seed": seed, "name": f"{seed}", **({"method.mu": mu} if mu else {})}, [0.5]
            )
            for method, mu in (("FedAvg", 0), ("FedProx", 2), ("FedProx", 10), ("Scaffold", 0))
            for seed in (0, 1)
        },
    )
    # method.weights comes with the method: it does not differ beside it
    assert design.keys == ("method", "method.mu") and design.names == ("method", "mu")
    assert [g.values for g in design.sets] == [
        ("FedAvg", ""), ("FedProx", "2"), ("FedProx", "10"), ("Scaffold", "")
    ]  # fmt: skip
    assert [[run.seed for run in replicates.runs] for replicates in design.sets] == [[0, 1]] * 4


def test_runs_whose_data_lie_elsewhere_are_replicates(tmp_path: Path) -> None:
    """As they are points of one sweep: another machine, or another day, has them in another folder."""
    runs = {
        f"{lr}{seed}": Written({"data": "MNIST", "data.root": f"data{seed}", "lr": lr, "seed": seed}, [0.5])
        for lr in (0.1, 0.2)
        for seed in (0, 1)
    }
    assert design_in(tmp_path, runs).keys == ("lr",)


def of_images(root: Path | str, seed: int) -> Written:
    return Written({"data": "ImageFolder", "data.root": str(root), "seed": seed}, [0.5])


def told(design: Design) -> list[tuple[tuple[str, ...], int]]:
    """What sets a design's settings apart, and how many runs each has."""
    return [(each.values, len(each.runs)) for each in design.sets]


def test_runs_of_other_folders_of_images_are_no_replicates(tmp_path: Path) -> None:
    """Those are data of other kinds, not one kind in two places."""
    pets, cars = tmp_path / "pets", tmp_path / "cars"
    runs = {f"{root.name}{seed}": of_images(root, seed) for root in (pets, cars) for seed in (0, 1)}
    design = design_in(tmp_path / "images", runs)
    assert design.names == ("root",) and told(design) == [((str(cars),), 2), ((str(pets),), 2)]
    mixed = runs | {
        f"MNIST{seed}": Written({"data": "MNIST", "data.root": f"r{seed}", "seed": seed}, [0.5]) for seed in (0, 1)
    }
    design = design_in(tmp_path / "mixed", mixed)
    assert design.keys == ("data", "data.root")
    assert told(design) == [(("ImageFolder", str(cars)), 2), (("ImageFolder", str(pets)), 2), (("MNIST", ""), 2)]


def test_one_folder_of_images_that_was_elsewhere_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "now" / "pets").mkdir(parents=True)
    (tmp_path / "link").symlink_to("now")
    roots = ["gone/pets", "now/pets", "link/pets"]
    runs = {f"{seed}": of_images(tmp_path / root, seed) for seed, root in enumerate(roots)}
    runs["3"] = of_images("~/now/pets", 3)
    assert told(design_in(tmp_path / "runs", runs)) == [((), 4)]


@given(order=st.permutations(["gone/pets", "gone/cars", "other/cars", "x/pets", "y/pets", "~nobody/pets", "z" * 999]))
@settings(max_examples=10)
def test_what_cannot_be_told_to_be_one_folder_is_several(
    tmp_path_factory: pytest.TempPathFactory, order: list[str]
) -> None:
    """Of two that are gone, and of one that may have moved to either of two, whatever is read first."""
    tmp_path = tmp_path_factory.mktemp("roots")
    for name in ("x/pets", "y/pets"):
        (tmp_path / name).mkdir(parents=True)
    places = [each if each.startswith("~") else f"{tmp_path}/{each}" for each in order]
    assert by_root([*places, *places]) == {each: each for each in places}


def test_runs_that_are_measured_otherwise_are_replicates(tmp_path: Path) -> None:
    file = tmp_path / "of_some_seeds.py"
    file.write_text("def nothing(run):\n    return 0.0\n")
    runs = {
        f"{lr}{seed}": Written({"lr": lr, "seed": seed, **({"measures": [f"{file}:nothing"]} if seed else {})}, [0.5])
        for lr in (0.1, 0.2)
        for seed in (0, 1)
    }
    assert design_in(tmp_path / "runs", runs).keys == ("lr",)


def test_more_rounds_of_some_seeds_do_not_set_them_apart(tmp_path: Path) -> None:
    runs = {
        f"{lr}{seed}": Written({"lr": lr, "seed": seed}, [0.5, 0.6, 0.7][: 2 + seed])
        for lr in (0.1, 0.2)
        for seed in (0, 1)
    }
    design = design_in(tmp_path, runs)
    assert design.keys == ("lr",)
    assert [values_of(replicates.numbers(parse_metric("final"))) for replicates in design.sets] == [[60, 60]] * 2


def test_rounds_that_are_varied_set_runs_apart(tmp_path: Path) -> None:
    runs = {f"{n}{seed}": Written({"seed": seed}, [0.5] * n) for n in (1, 2) for seed in (0, 1)}
    assert design_in(tmp_path, runs).keys == ("rounds",)


def test_names_are_as_short_as_they_can_be_told_apart(tmp_path: Path) -> None:
    runs = {f"{seed}{lr}": Written({"partition.seed": seed, "lr": lr}, [0.5]) for seed in (1, 2) for lr in (0.1, 0.2)}
    assert design_in(tmp_path, runs).names == ("seed", "lr")
    assert Design(("data.seed", "partition.seed", "lr"), ()).names == ("data.seed", "partition.seed", "lr")


@given(st.lists(st.floats(0, 100), min_size=1, max_size=10))
def test_mean_and_spread_are_the_sample_s(values: list[float]) -> None:
    assert mean(values) == pytest.approx(np.mean(values))
    assert (spread(values) is None) == (len(values) < 2)
    if len(values) > 1:
        assert spread(values) == pytest.approx(np.std(values, ddof=1), abs=1e-9)


def readings(*values: float, missed: Sequence[float] = ()) -> list[Reading]:
    return [*map(Reading, values), *(Reading(value, missed=True) for value in missed)]


def test_missed_targets_are_counted_and_make_a_mean_the_least_it_can_be() -> None:
    assert with_spread(readings(3, missed=(11, 11)), "rounds") == ">= 8.3 (1 of 3 reach it)"
    assert with_spread(readings(missed=(11, 11)), "rounds") == "not reached by any of 2"
    assert (with_spread(readings(missed=[11]), "rounds"), with_spread([], "percent")) == ("not reached", "-")
    assert spread_of(readings(3, missed=[11])) is None


def test_a_mean_has_as_many_digits_as_its_spread() -> None:
    assert with_spread(readings(26, 27), "rounds") == "26.5 ± 0.7" and with_spread(readings(26), "rounds") == "26"


@given(st.lists(st.one_of(st.floats(allow_nan=False).map(str), st.sampled_from(["FedAvg", "null"])), max_size=8))
@settings(max_examples=50)
def test_values_are_sorted_numbers_first(values: list[str]) -> None:
    ordered = sorted(values, key=in_order)
    numbers = [float(v) for v in ordered if v not in ("FedAvg", "null")]
    assert numbers == sorted(numbers)
    assert [v for v in ordered if v in ("FedAvg", "null")] == sorted(v for v in values if v in ("FedAvg", "null"))
    assert ordered[: len(numbers)] == [v for v in ordered if v not in ("FedAvg", "null")]


def test_rows_of_two_tables_that_have_one_name_are_called_by_their_tables(tmp_path: Path) -> None:
    def write(table: str, row: str, seed: int, lr: float) -> None:
        settings = {"seed": seed, "lr": lr, "data": "MNIST", "data.root": f"/data/of/{seed}"}
        Written(settings, [0.5]).at(tmp_path / table / f"s-{row}-seed{seed}")

    def rows(*lrs: float) -> list[tuple[str, int]]:
        design = rows_of(find_runs([tmp_path]).runs)
        assert [float(str(each.runs[0].run.config["lr"])) for each in design.sets] == [*lrs]
        return [(each.values[0], len(each.runs)) for each in design.sets]

    for table, seed in (("t1", 0), ("t1", 1), ("t2", 2)):
        write(table, "a", seed, 0.1)
    assert rows(0.1) == [("a", 3)]
    write("t2", "b", 0, 0.2)
    assert rows(0.1, 0.2) == [("a", 3), ("b", 1)]
    write("t3", "b", 0, 0.3)
    assert rows(0.1, 0.1, 0.2, 0.3) == [("t1/s-a", 2), ("t2/s-a", 1), ("t2/s-b", 1), ("t3/s-b", 1)]
    write("t3", "b", 1, 0.4)
    with pytest.raises(ConfigError, match=r"^t3/s-b: its runs differ in more than .* seeds: lr is 0\.3 and 0\.4"):
        rows()


@pytest.mark.parametrize(
    ("points", "rows"),
    [
        (({"lr": "1e-3"}, {"lr": "1e-4"}), ["lr=1e-3", "lr=1e-4"]),
        (({"model.hidden": "[64,32]"}, {"lr": "0.1"}), ["lr=0.1", "model.hidden=-64-32-"]),
    ],
)
def test_rows_of_a_sweep_are_its_points_but_for_the_seed(
    tmp_path: Path, points: Sequence[Mapping[str, str]], rows: Sequence[str]
) -> None:
    for point in points:
        for seed in ("0", "10"):
            Written({**point, "seed": seed}, [0.5]).at(tmp_path / folder_name({**point, "seed": seed}))
    design = rows_of(find_runs([tmp_path]).runs)
    assert [(each.values[0], len(each.runs)) for each in design.sets] == [(row, 2) for row in rows]


def test_points_with_long_names_are_rows_of_all_their_seeds(tmp_path: Path) -> None:
    long = [{"init": 130 * "a", "lr": lr} for lr in ("0.1", "0.2")]
    points = [{**each, "seed": seed} for each in [*long, {"init": 108 * "a"}] for seed in ("0", "10")]
    for point in points:
        Written(point, [0.5]).at(tmp_path / folder_name(point))
    assert [len(each.runs) for each in rows_of(find_runs([tmp_path]).runs).sets] == [2, 2, 2]


def test_a_sweep_over_seeds_alone_is_a_row(tmp_path: Path) -> None:
    for seed in (0, 1):
        Written({"seed": seed}, [0.5]).at(tmp_path / "mine" / f"seed={seed}")
    assert [(each.values[0], len(each.runs)) for each in rows_of(find_runs([tmp_path]).runs).sets] == [("mine", 2)]


def test_points_of_a_sweep_whose_names_are_alike_are_no_row(tmp_path: Path) -> None:
    for seed, lr in enumerate((0.1, 0.2)):
        Written({"lr": lr, "seed": seed}, [0.5]).at(tmp_path / f"data=-my-,seed={seed}~0123456789ab")
    with pytest.raises(ConfigError, match=r"^data=-my-: its runs differ in more than their seeds: lr is 0\.1 and 0\.2"):
        rows_of(find_runs([tmp_path]).runs)


def only(folder: Path) -> Replicates:
    """The runs below a folder, which are replicates."""
    (found,) = design_of(find_runs([folder]).runs).sets
    return found


def test_a_failed_seed_does_not_count_beside_one_that_goes_on(tmp_path: Path) -> None:
    Written({"seed": 0}, [0.1, 0.4], rounds=5).at(tmp_path / "a")
    failed = Written({"seed": 1}, [0.9], rounds=5).at(tmp_path / "b")
    Failure(1, "it broke").write(failure_beside(failed))
    found = only(tmp_path)
    assert found.states == {"stopped": 1, "failed": 1}
    assert values_of(found.numbers(parse_metric("final"))) == [40]


def test_a_finished_seed_that_is_left_out_makes_no_setting_finished(tmp_path: Path) -> None:
    for name, seed, curve in (("a", 0, [0.1, 0.4, 0.5]), ("b", 0, [0.1, 0.4, 0.6]), ("c", 1, [0.2, 0.3])):
        Written({"seed": seed}, curve, rounds=3).at(tmp_path / name)
    found = only(tmp_path)
    assert len(found.once.differing) == 1 and not found.ended
    assert values_of(found.numbers(parse_metric("final"))) == [30]


def test_totals_are_of_the_rounds_that_seeds_share(tmp_path: Path) -> None:
    for seed, rounds in enumerate((3, 5)):
        Written({"seed": seed}, [0.5] * rounds).at(tmp_path / str(seed))
    assert only(tmp_path).totals("traffic_up_bytes") == [3e6, 3e6]


@pytest.mark.parametrize("schedule", [{"lr_schedule": "cosine"}, {"lr_schedule": "warmup_cosine", "lr_warmup": 1}])
def test_seeds_whose_learning_rate_falls_over_other_rounds_are_apart(
    tmp_path: Path, schedule: Mapping[str, object]
) -> None:
    runs = {f"{seed}": Written({**schedule, "seed": seed}, [0.5] * (2 + seed)) for seed in (0, 1)}
    assert [each.values for each in design_in(tmp_path, runs).sets] == [("2",), ("3",)]


def test_numbers_that_differ_a_little_are_two_settings(tmp_path: Path) -> None:
    design = design_in(tmp_path, {f"{lr}": Written({"lr": lr}, [0.5]) for lr in (0.12345, 0.12346)})
    assert [each.values for each in design.sets] == [("0.12345",), ("0.12346",)]


def test_a_module_of_a_notebook_is_called_by_what_its_sha256_begins_with(tmp_path: Path) -> None:
    """Which is no number, though its digits may look like one."""
    module = {"class_path": "fl_ddp.notebook.given_model.given_model", "init_args": {"sha256": "12345678" * 8}}
    run = Run(tmp_path, {"model": module, "seed": 0}, 1, 1, {}, [], {})
    assert FoundRun(run, "finished").settings["model.sha256"] == "12345678..."
