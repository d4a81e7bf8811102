"""The points of a sweep: grids, list files and draws."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import correlation
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fl_ddp.errors import ConfigError
from launch.input.values import read_values
from launch.sweeps.draws import draw, read_laws
from launch.sweeps.folder import Entry, Sweep
from launch.sweeps.options import SweepOptions
from launch.sweeps.point_file import read_points
from launch.sweeps.points import Point, combined, folder_name, read_grid

PLAIN = st.text("abcXYZ0189_+-. /:", min_size=1, max_size=8).map(str.strip).filter(lambda v: v and ".." not in v)
KEYS = st.sampled_from(["lr", "seed", "method.lam", "method.kind", "model.hidden"])
POINTS = st.dictionaries(KEYS, st.text(min_size=1, max_size=60), min_size=1)


def product(*grids: str) -> list[Point]:
    return combined([read_grid(text) for text in grids])


@given(st.lists(PLAIN, min_size=1, max_size=10, unique=True))
def test_lists_are_read_as_they_are_written(values: list[str]) -> None:
    assert read_values(", ".join(values), "--grid") == tuple(values)


@given(st.lists(st.text(max_size=10).filter(lambda v: "'" not in v), min_size=1, max_size=10, unique=True))
def test_anything_may_stand_in_quotes(values: list[str]) -> None:
    assert read_values(",".join(f"'{value}'" for value in values), "--grid") == tuple(values)


@given(st.integers(-1000, 1000), st.integers(0, 50))
def test_ranges_are_whole_numbers_with_both_ends(first: int, more: int) -> None:
    assert [int(v) for v in read_values(f"{first}..{first + more}", "")] == list(range(first, first + more + 1))


@given(st.text("01ab.,'\"[](){}= ", max_size=20))
@settings(max_examples=500)
def test_malformed_lists_are_refused_and_all_others_lose_nothing(text: str) -> None:
    try:
        values = read_values(text, "--grid lr")
    except ConfigError as error:
        assert str(error).startswith("--grid lr: ") and "\n" not in str(error)
        return
    assert len(set(values)) == len(values) > 0
    bare = [value for value in values if not re.fullmatch(r"-?\d+", value)]
    assert all(value in text for value in bare)


def test_brackets_hold_values_together() -> None:
    assert read_values("[64,32],[128], {a: [1,2]}", "") == ("[64,32]", "[128]", "{a: [1,2]}")


def test_a_grid_is_the_product_and_the_last_key_changes_fastest() -> None:
    assert product("method.lam=0.1,1", "seed=0..1") == [
        {"method.lam": "0.1", "seed": "0"},
        {"method.lam": "0.1", "seed": "1"},
        {"method.lam": "1", "seed": "0"},
        {"method.lam": "1", "seed": "1"},
    ]


@pytest.mark.parametrize(
    ("grids", "message"),
    [
        (["lr"], "--grid lr: has no value; accepted: key=value,value or key=0..4"),
        (["lr="], "--grid lr=: has no value"),
        (["lr=0.1,,1"], "--grid lr=0.1,,1: a value is missing"),
        (["seed=4..0"], "--grid seed=4..0: 4..0 is an empty range"),
        (["seed=0..x"], "--grid seed=0..x: 0..x is no range; accepted: whole numbers a..b"),
        (["seed=0...4"], "0...4 is no range"),
        (["lr=0..0.5"], "0..0.5 is no range"),
        (["seed=0..1000000000"], "are 1000000001 values; accepted: 10000 at most"),
        (["seed=0..4,3"], "3 stands there 2 times"),
        (["model.hidden=[64,32"], "] is missing"),
        (["model.hidden=64]"], "] closes nothing"),
        (["model.hidden='64"], "' is missing"),
        (["learning rate=1"], "'learning rate' is no option"),
        (["name=a,b"], "name cannot be varied"),
        (["config=a.yaml,b.yaml"], "config cannot be varied"),
        (["lr=1", "lr=2"], "--grid lr=2: lr is varied by --grid lr=1 already"),
        (["seed=0..999", "clients=1..999"], "makes 999000 points; accepted: 10000 at most"),
    ],
)
def test_bad_grids_are_refused_by_name(grids: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        product(*grids)
    assert message in str(error.value) and "\n" not in str(error.value)


@given(POINTS, POINTS)
@settings(max_examples=500)
def test_folders_tell_points_apart_and_are_plain_names(one: Mapping[str, str], other: Mapping[str, str]) -> None:
    names = [folder_name(one), folder_name(other)]
    assert (names[0] == names[1]) == (one == other)
    assert all(re.fullmatch(r"[A-Za-z0-9_.,=~+-]{1,160}", name) for name in names)
    assert folder_name(dict(reversed(list(one.items())))) == names[0]


def test_folders_can_be_read() -> None:
    assert folder_name({"seed": "3", "method.lam": "0.1"}) == "method.lam=0.1,seed=3"
    assert folder_name({"model.hidden": "[64,32]"}).startswith("model.hidden=-64-32-~")


def test_a_point_stays_in_the_folder_that_an_older_version_gave_it() -> None:
    point = {"data.path": 130 * "a", "seed": "0"}
    sweep = Sweep(Path("mine"), entries={"old": Entry(point)})
    assert sweep.add([dict(reversed(point.items())), {"seed": "1"}]) == ["old", "seed=1"]
    assert list(sweep.entries) == ["old", "seed=1"]


LAWS = ["lr=uniform(0.01,0.1)", "method.lam=loguniform(1e-3,10)", "method.q=choice(1,2,[3,4])"]


@given(st.integers(1, 40), st.integers(0, 2**63 - 1))
@example(27, 118)  # two of its rates are alike
@settings(max_examples=30, deadline=None)
def test_draws_keep_to_their_laws_and_to_their_seed(number: int, seed: int) -> None:
    points = draw(number, read_laws(LAWS), seed).points
    assert len(points) == number
    assert all(0.01 <= float(p["lr"]) <= 0.1 and 1e-3 <= float(p["method.lam"]) <= 10 for p in points)
    assert {p["method.q"] for p in points} <= {"1", "2", "[3,4]"}
    assert draw(number, read_laws(LAWS), seed).points == points
    assert draw(number + 5, read_laws(LAWS), seed).points[:number] == points
    distinct = list(dict.fromkeys(p["lr"] for p in points))
    assert [p["lr"] for p in draw(number, read_laws(LAWS[:1]), seed).points][: len(distinct)] == distinct


@given(st.floats(1e-300, 1e300), st.floats(1e-12, 1e12))
@settings(max_examples=100)
def test_draws_stay_within_any_bounds(low: float, factor: float) -> None:
    high = low * (1 + factor)
    if not low < high < math.inf:
        return
    for law in ("uniform", "loguniform"):
        point = draw(1, read_laws([f"lr={law}({low!r},{high!r})"]), 0).points[0]
        assert low <= float(point["lr"]) <= high


def test_draws_spread_as_their_laws_say() -> None:
    points = draw(2000, read_laws(["lr=uniform(2,4)", "momentum=loguniform(0.001,10)"]), 1).points
    uniform = [float(point["lr"]) for point in points]
    logarithmic = [math.log10(float(point["momentum"])) for point in points]
    for values, low, high in ((uniform, 2, 4), (logarithmic, -3, 1)):
        quarters = [
            sum(low + (high - low) * q / 4 <= v < low + (high - low) * (q + 1) / 4 for v in values) for q in range(4)
        ]
        assert all(400 < count < 600 for count in quarters)


def test_keys_and_seeds_draw_numbers_of_their_own() -> None:
    laws = read_laws(["lr=uniform(0,1)", "momentum=uniform(0,1)"])
    lr, momentum = ([float(point[key]) for point in draw(500, laws, 1).points] for key in ("lr", "momentum"))
    other = [float(point["lr"]) for point in draw(500, laws, 2).points]
    assert abs(correlation(lr, momentum)) < 0.2 and abs(correlation(lr, other)) < 0.2


@pytest.mark.parametrize(
    ("texts", "number", "message"),
    [
        ([], 3, "--random 3: nothing says of what; accepted: one --draw or more"),
        (["lr=uniform(0.01,0.1)"], 0, "--random 0: is impossible"),
        (["lr=uniform"], 3, "--draw lr=uniform: uniform is no law; accepted: key=uniform("),
        (["lr=unifrom(1,2)"], 3, "unifrom is unknown; did you mean uniform?"),
        (["lr=uniform(1)"], 3, "(1) are no bounds; accepted: uniform(0.01,0.1)"),
        (["lr=uniform(2,1)"], 3, "accepted: low < high"),
        (["lr=loguniform(0,1)"], 3, "accepted: 0 < low < high"),
        (["lr=uniform(a,b)"], 3, "(a,b) are no bounds"),
        (["lr=uniform(0,inf)"], 3, "(0,inf) are no bounds"),
        (["lr=choice()"], 3, "a value is missing"),
        (["lr=choice(1,2)"], 3, "--random 3: the draws give 2 different points only; accepted: 2 at most"),
        (
            ["lr=uniform(1,1.0000001)"],
            2,
            "give 1 different point only, as numbers are rounded to six digits; ",
        ),
        (
            ["lr=loguniform(1,1.0000001)", "clients=choice(1,2)"],
            3,
            "2 different points only, as numbers are rounded",
        ),
        (["lr=choice(1,2)", "lr=choice(3)"], 1, "lr is drawn already"),
    ],
)
def test_bad_draws_are_refused_by_name(texts: list[str], number: int, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        draw(number, read_laws(texts), 0)
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("given", [{"draw": ("lr=uniform(1,2)",)}, {"draw_seed": 0}, {"draw_seed": 1}])
def test_what_says_how_to_draw_needs_to_know_how_often(given: Mapping[str, Any]) -> None:
    (option,) = given
    with pytest.raises(ConfigError, match=f"--{option}: says what to draw, but not how often; give --random N"):
        SweepOptions(**given)
    SweepOptions(random=3, **given)


def test_the_seed_of_draws_is_0_if_it_is_not_told() -> None:
    seeds: Sequence[int | None] = (None, 0, 1)
    axes = [SweepOptions(random=3, draw=("lr=uniform(1,2)",), draw_seed=seed).axes() for seed in seeds]
    assert axes[0] == axes[1] != axes[2]


def test_points_are_read_from_tables_and_lists(tmp_path: Path) -> None:
    table, listing = tmp_path / "points.csv", tmp_path / "points.yaml"
    table.write_text('method,method.mu,model.hidden\nFedProx,0.1,"[64,32]"\n\nFedAvg,,16\n')
    listing.write_text(
        "- {method: {name: FedProx, mu: 0.1}, model.hidden: [64, 32]}\n- {method: FedAvg, model.hidden: 16}\n"
    )
    expected = (
        {"method": "FedProx", "method.mu": "0.1", "model.hidden": "[64,32]"},
        {"method": "FedAvg", "model.hidden": "16"},
    )
    assert read_points(table).points == read_points(listing).points == expected
    assert len(combined([read_points(table), read_grid("seed=0..2")])) == 6


def test_files_that_points_name_lie_beside_their_list(tmp_path: Path) -> None:
    table, listing = tmp_path / "points.csv", tmp_path / "points.yaml"
    table.write_text('method,data,availability\nmine.py:Mine, "sub/my,own.npz" ,~/a.csv\nFedAvg,MNIST,on.csv\n')
    listing.write_text(
        "- {method: 'mine.py:Mine', data: 'sub/my,own.npz', availability: ~/a.csv}\n"
        "- {method: FedAvg, data: MNIST, availability: on.csv}\n"
    )
    expected = (
        {"method": f"{tmp_path}/mine.py:Mine", "data": f"{tmp_path}/sub/my,own.npz", "availability": "~/a.csv"},
        {"method": "FedAvg", "data": "MNIST", "availability": f"{tmp_path}/on.csv"},
    )
    assert read_points(table).points == read_points(listing).points == expected


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.csv", None, "none.csv: cannot be read: No such file"),
        ("points.txt", "lr\n1\n", "is no list of points; accepted: a .csv or .yaml file"),
        ("points.csv", "", "lists no points"),
        ("points.csv", "lr,seed\n1\n", "line 2: has 1 cells; accepted: 2"),
        ("points.csv", "lr,lr\n1,2\n", "line 1: a key stands there twice"),
        ("points.csv", "lr,name\n1,2\n", "line 1: name cannot be varied"),
        ("points.csv", "lr,seed\n1,2\n2,2\n1,2\n", "line 4: lr=1, seed=2 is line 2 already"),
        ("points.csv", 'lr,seed\n"1,2\n', "line 2: a quote is not closed; accepted: cells of one line each"),
        ("points.csv", 'method,lr\n"FedAvg,1\nFedProx,"\n', "line 2: a quote is not closed"),
        ("points.csv", '"lr\n1\n', "line 1: a quote is not closed"),
        ("points.yaml", "- {lr: 1}\n- 2\n", "point 2: 2 is not a mapping"),
        ("points.yaml", "lr: 1\n", "is not a list"),
        ("points.yaml", "- {lr: 1}\n- {}\n", "point 2: names no option"),
        ("points.yaml", "- [\n", "not YAML"),
    ],
)
def test_bad_lists_are_refused_by_place(tmp_path: Path, name: str, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(ConfigError) as error:
        read_points(tmp_path / name)
    assert message in str(error.value) and name in str(error.value) and "\n" not in str(error.value)
