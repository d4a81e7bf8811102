"""launch.reproduce: a paper's table run, read and judged."""

from __future__ import annotations

import json
import math
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from launching import checkpoints, launched

from fl_ddp.errors import ConfigError
from launch.reproduce import main
from launch.run.metric import Curve, measure, parse_metric
from launch.run.stored import read_run
from launch.tables.arguments import read_arguments, read_seeds
from launch.tables.ordering import Ordering, decide, parse_ordering
from launch.tables.yaml_file import load_table

BASE = """
data: Digits
partition: Shards
model: {name: MLP, hidden: 8}
clients: 6
rounds: 3
batch_size: 20
compile: false
device: cpu
"""
TABLE = """
id: tiny_t1
paper: Nobody 2026
item: Table 1
title: a tiny table
cost: seconds
note: Nothing is left out.
columns:
  early: [running_mean@2, final@2]
  end: final
  rounds: rounds_to 0.05 of best
  ratio: rounds_to 0.05 of best / fedavg
small:
  options: {rounds: 1}
  columns: {early: final}
groups:
  digits:
    base: base.yaml
    rows:
      fedavg: {expect: {early: 20, end: 50}}
      slow: {lr: 0.0001, small: {clients: 3}}
      broken: {lr: 1000000.0, expect: {end: 1}}
orderings:
  - {order: fedavg > slow, column: end, small: true}
  - {order: slow > fedavg, column: end, tolerance: 0.5}
  - {order: fedavg > broken, column: end}
"""
CURVE: Curve = [(2, 0.1), (4, 0.5), (6, 0.3), (8, 0.7)]
"""Of a run that evaluates every second round."""


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A table of three rows, in the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "base.yaml").write_text(BASE)
    (tmp_path / "tiny" / "table1.table.yaml").write_text(TABLE)
    return "tiny/table1.table.yaml"


def read(text: str, curve: Curve = CURVE, ended: bool = True) -> float | None:
    return measure(parse_metric(text), {"accuracy": curve, "initial_accuracy": [(r, v / 2) for r, v in curve]}, ended)


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
        ("last5@8", 50),
        ("last10@6 of initial", 15),
        ("initial", 35),
        ("generic", 70),
        ("rounds_to 0.5", 4),
        ("rounds_to 0.6", 8),
        ("rounds_to 0.3 of running_mean", 4),
        ("rounds_to 0.3 of initial", 8),
        ("rounds_to 0.9", math.inf),
        ("ema0.5@4", 100 * (0.25 * 0.1 + 0.5) / 1.25),
    ],
)
def test_metrics_are_read_off_the_evaluated_rounds(metric: str, expected: float) -> None:
    assert read(metric) == pytest.approx(expected)


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
        "final / ",
    ],
)
def test_malformed_metrics_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="accepted"):
        parse_metric(text)


def judged(text: str, values: dict[str, float | None], tolerance: float = 0) -> tuple[str, str]:
    rows, relations = parse_ordering(text)
    return decide(Ordering(text, rows, relations, "column", tolerance, ("group",), False), values)


@pytest.mark.parametrize(
    ("text", "tolerance", "verdict"),
    [
        ("a > b > c", 0, "holds"),
        ("c < b < a", 0, "holds"),
        ("a > c > b", 0, "does not hold"),
        ("a > c > b", 1, "holds"),
        ("b ~ c", 0.5, "does not hold"),
        ("b ~ c", 1, "holds"),
        ("a > twin", 0, "does not hold"),
        ("a ~ twin", 0, "holds"),
        ("a > missing", 0, "not decided"),
        ("c > a > missing", 0, "does not hold"),
        ("never > a", 0, "holds"),
        ("never < a", 100, "does not hold"),
        ("never < nowhere", 0, "not decided"),
    ],
)
def test_orderings_are_judged(text: str, tolerance: float, verdict: str) -> None:
    values = {"a": 3.0, "twin": 3.0, "b": 2.0, "c": 1.0, "never": math.inf, "nowhere": math.inf, "missing": None}
    assert judged(text, values, tolerance)[0] == verdict


@pytest.mark.parametrize("text", ["a", "a >", "a >> b", "a > b c", "> a"])
def test_malformed_orderings_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="accepted"):
        parse_ordering(text)


@pytest.mark.parametrize(("text", "seeds"), [("0..2", (0, 1, 2)), ("0,3,5", (0, 3, 5)), ("7", (7,)), ("1,1", (1,))])
def test_seeds_are_a_range_or_a_list(text: str, seeds: tuple[int, ...]) -> None:
    assert read_seeds(text) == seeds


def test_options_of_a_run_are_handed_on() -> None:
    words = ["a/b", "--small", "--data.root", "there", "--row", "x", "--compile=false", "--row=y", "--data.download"]
    arguments = read_arguments(words)
    assert (arguments.table, arguments.rows, arguments.seeds) == ("a/b", ("x", "y"), (0,))
    assert arguments.extra == ("--data.root=there", "--compile=false", "--data.download")


def change(old: str, new: str) -> Callable[[str], str]:
    return lambda text: text.replace(old, new)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (change("title: a tiny table\n", ""), "title: is missing"),
        (change("orderings:", "ordering:"), "ordering: unknown key; did you mean orderings?"),
        (change("running_mean@2", "runing_mean@2"), "columns.early: 'runing_mean@2' is no metric"),
        (change("{early: 20,", "{erly: 20,"), "rows.fedavg.expect.erly: there is no such column; did you mean early?"),
        (change("{early: 20,", "{early: much,"), "rows.fedavg.expect.early: 'much' is not a number"),
        (change("base: base.yaml", "base: bas.yaml"), "groups.digits.base:"),
        (change("    base: base.yaml\n", ""), "groups.digits.base: is missing"),
        (change("base: base.yaml", "base: base.yaml\n    variant: cod"), "groups.digits.variant: cod is unknown"),
        (change("      slow:", "      fedavg:"), "fedavg stands here a second time"),
        (change("fedavg > slow", "fedavg > slo"), "orderings[0].order: no group has all of the rows fedavg, slo"),
        (change("slow, column: end, small", "slow, column: ed, small"), "orderings[0].column.ed: there is no such"),
        (change("tolerance: 0.5", "tolerance: -1"), "orderings[1].tolerance: -1.0 is impossible"),
        (change("small: true", "small: maybe"), "orderings[0].small: 'maybe' is unknown"),
        (change("/ fedavg", "/ fedavgg"), "there is no row fedavgg"),
        (change("broken: {lr: 1000000.0,", "broken: {run: table2/a/b,"), "table2/a/b is no run"),
        (change("id: tiny_t1", "id: [1"), "not YAML"),
    ],
)  # fmt: skip
def test_errors_in_a_table_name_file_and_key(table: str, edit: Callable[[str], str], message: str) -> None:
    assert edit(TABLE) != TABLE
    Path(table).write_text(edit(TABLE))
    with pytest.raises(ConfigError) as error:
        load_table(table)
    assert str(error.value).startswith(table) and message in str(error.value) and "\n" not in str(error.value)


def test_rows_may_be_runs_of_another_table(table: str) -> None:
    text = TABLE.replace("slow: {lr: 0.0001, small: {clients: 3}}", "slow: {run: table1/digits/slow, expect: {end: 3}}")
    Path("tiny/table2.table.yaml").write_text(text)
    row = load_table("tiny/table2.table.yaml").choose(["slow"])[0]
    assert (row.table, row.run, row.options["lr"], row.expected) == ("tiny/table1", "digits-slow", 0.0001, {"end": 3})
    Path(table).write_text(TABLE.replace("{lr: 1000000.0,", "{run: table2/digits/slow,"))
    with pytest.raises(ConfigError, match="has no run digits/slow of its own"):
        load_table(table)


def reproduce(capfd: pytest.CaptureFixture[str], words: Sequence[str]) -> tuple[int, str, str]:
    code = main(words)
    out, err = capfd.readouterr()
    return code, out, err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no table is named"),
        (["importance/tabel3"], "importance/tabel3: there is no such table; did you mean importance/table3?"),
        (["nowhere.table.yaml"], "nowhere.table.yaml: cannot be read"),
        (["TABLE", "--row", "fedavgg"], "has no row or group fedavgg; did you mean fedavg?"),
        (["TABLE", "--seeds", "2..0"], "--seeds: 2..0 are no seeds; accepted: 0..2, or 0,3,5"),
        (["TABLE", "--seeds", "a"], "--seeds: a are no seeds"),
        (["TABLE", "--seeds"], "--seeds: needs a value"),
        (["TABLE", "--ranks", "0"], "--ranks: 0 is impossible"),
        (["TABLE", "--seed", "1"], "--seed: is not the user's to give here; give --seeds"),
        (["TABLE", "--smal"], "--smal: unknown option; did you mean --small?"),
        (["TABLE", "--small=maybe"], "--small: maybe is unknown; accepted: true or false"),
        (["TABLE", "other"], "other: belongs to no option"),
        (["TABLE", "--mu", "1"], "--mu: unknown option; did you mean --method.mu?"),
        (["TABLE", "--lr", "fast"], "--lr: fast has the wrong type; accepted: a number"),
    ],
)
def test_bad_input_is_one_line_and_runs_nothing(
    table: str, capfd: pytest.CaptureFixture[str], words: Sequence[str], message: str
) -> None:
    code, out, err = reproduce(capfd, [table if word == "TABLE" else word for word in words])
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("reproduce: error: ") and message in err
    assert not Path("reproduce").exists()


def test_help_tells_of_every_option(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = reproduce(capfd, ["--help"])
    assert code == 0
    for option in ("row", "small", "seeds", "ranks", "out", "dry_run", "report", "list"):
        assert f"--{option} " in out


def test_dry_run_prints_the_commands(table: str, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = reproduce(
        capfd, [table, "--row", "slow", "--small", "--dry_run", "--ranks", "2", "--eval_every", "2"]
    )
    assert code == 0 and out.splitlines() == [
        "python -m torch.distributed.run --standalone --nproc_per_node=2 -m fl_ddp.main --config=tiny/base.yaml "
        "--lr=0.0001 --rounds=1 --clients=3 --seed=0 --eval_every=2 "
        "--out=reproduce/tiny/table1-small --name=digits-slow-seed0"
    ]
    assert not Path("reproduce").exists()


@pytest.mark.slow
def test_a_table_is_run_skipped_resumed_and_judged(table: str, capfd: pytest.CaptureFixture[str]) -> None:
    folder = Path("reproduce/tiny/table1")
    died_before_it_began = folder / "digits-fedavg-seed0" / ".lock"
    died_before_it_began.parent.mkdir(parents=True)
    died_before_it_began.touch()
    code, out, err = reproduce(capfd, [table, "--row", "fedavg", "--row", "slow", "--seeds", "0..1", "--rounds", "2"])
    assert (code, err) == (0, "")
    assert [f"digits/{row} seed {seed} finished" in out for row in ("fedavg", "slow") for seed in (0, 1)] == [True] * 4
    assert "not decided (no number of broken)" in out
    parameters = [json.loads(file.read_text())["parameters_sha256"] for file in sorted(folder.glob("*/summary.json"))]

    # a second call with the table's own three rounds: what has two goes on, what is finished is skipped
    code, out, err = reproduce(capfd, [table, "--row", "slow", "--seeds", "0"])
    assert code == 0 and "digits/slow seed 0 finished" in out
    assert "going on after round 2" in (folder / "digits-slow-seed0.log").read_text()
    before = {file: file.stat().st_mtime_ns for file in folder.glob("digits-slow-seed0/*")}
    code, out, err = reproduce(capfd, [table, "--row", "slow", "--row", "broken", "--seeds", "0"])
    assert code == 1 and "digits/slow seed 0 was finished" in out
    assert {file: file.stat().st_mtime_ns for file in folder.glob("digits-slow-seed0/*")} == before
    assert err.startswith("failed: digits/broken seed 0: ") and "a smaller --lr usually helps" in err

    results = json.loads((folder / "results.json").read_text())
    rows = {row["row"]: row["columns"] for row in results["rows"]}
    slow = read_run(folder / "digits-slow-seed0")
    assert slow is not None and slow.ended and slow.rounds == 3
    accuracies = [value for _, value in slow.curves["accuracy"]]
    measured = rows["slow"]["early"]["metrics"]["running_mean@2"]
    assert measured["mean"] == pytest.approx(50 * sum(accuracies[:2])) and measured["spread"] is None
    assert rows["broken"]["end"]["metrics"]["final"]["by_seed"] == {}

    # both seeds again, of which the first one's mean and difference are checked by hand
    code, out, err = reproduce(capfd, [table, "--seeds", "0..1", "--rounds", "2", "--report", "--row", "fedavg"])
    assert code == 0
    results = json.loads((folder / "results.json").read_text())
    cell = {row["row"]: row["columns"] for row in results["rows"]}["fedavg"]["end"]
    first, second = cell["metrics"]["final"]["by_seed"].values()
    assert cell["metrics"]["final"]["mean"] == pytest.approx((first + second) / 2)
    assert cell["metrics"]["final"]["spread"] == pytest.approx(abs(first - second) / math.sqrt(2))
    assert cell["difference"] == pytest.approx((first + second) / 2 - 50)
    assert [each["verdict"] for each in results["orderings"]] == ["holds", "does not hold", "not decided"]
    assert "| digits/fedavg | paper | end | 50.00 |" in (folder / "results.md").read_text()
    assert len(set(parameters)) == 4

    # a run that went on longer than it is asked for is read at that round
    main([table, "--row", "slow", "--seeds", "0", "--rounds", "2", "--report"])
    cell = json.loads((folder / "results.json").read_text())["rows"][1]["columns"]["end"]
    assert cell["metrics"]["final"]["mean"] == pytest.approx(100 * accuracies[1])

    # another run than the row's is never counted as the row's
    capfd.readouterr()
    code, out, err = reproduce(capfd, [table, "--row", "slow", "--seeds", "0", "--lr", "0.5", "--report"])
    assert code == 1 and "digits-slow-seed0: holds another run (lr is 0.0001, not 0.5); remove it" in err


def test_ctrl_c_saves_the_run_and_the_same_command_goes_on(table: str, tmp_path: Path) -> None:
    run = tmp_path / "reproduce" / "tiny" / "table1" / "digits-slow-seed0"
    words = ["-m", "launch.reproduce", table, "--row", "slow", "--seeds", "0..1", "--checkpoint_every", "1"]
    with launched([*words, "--rounds", "100000"], 1, tmp_path) as launch:
        launch.until(lambda: checkpoints(run))
        launch.launcher.send_signal(signal.SIGINT)
        ended = launch.ended()
    assert ended.code == 1 and "the same command goes on" in ended.err
    assert "digits/slow seed 1: not started" in ended.err
    stopped = read_run(run)
    assert stopped is not None and not stopped.ended and checkpoints(run)[-1] == f"round_{stopped.rounds:06}"


def test_a_folder_that_holds_no_run_is_left_alone(table: str, capfd: pytest.CaptureFixture[str]) -> None:
    precious = Path("reproduce/tiny/table1-small/digits-slow-seed0/thesis.tex")
    precious.parent.mkdir(parents=True)
    precious.touch()
    code, out, err = reproduce(capfd, [table, "--row", "slow", "--small"])
    assert code == 1 and "scaled-down twin" in out and "is not the folder of a run" in err
    assert precious.exists()
