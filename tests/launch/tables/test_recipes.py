"""The recipes that come with the project: complete, understood by the program, and listed."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from fl_ddp.config import registry
from fl_ddp.config.command_line import from_file, from_mapping, parse
from fl_ddp.config.yaml_file import load_yaml, to_yaml
from fl_ddp.partitions.class_reduction import read_reductions
from launch.numbers.metric import Curve
from launch.run.stored import Run
from launch.sweeps.point_file import read_points
from launch.tables.comparison import compare
from launch.tables.recipe_list import recipe_list
from launch.tables.rows import Row
from launch.tables.seeded_row import seeded_rows
from launch.tables.yaml_file import CONFIGS, load_table, table_names

TABLES = {name: load_table(name) for name in table_names()}
BASES = sorted(path for path in CONFIGS.glob("*/*.yaml") if not path.name.endswith((".table.yaml", ".points.yaml")))

IDS = {
    *(f"p000_t1_{data}_{model}" for data in ("mnist", "cifar10") for model in ("mlp", "cnn")),
    *(f"p000_{item}" for item in ("t2", "t3", "t4", "f2")),
    *(f"p001_{item}" for item in ("f1", "f2", "t1", "readings")),
    *(f"p003_{item}" for item in ("t1_e50", "t1_e10", "f1", "f2")),
    *(f"p004_t{number}" for number in range(1, 10)),
    *(f"p004_f{number}" for number in (1, 2, 3, 5, 6, 7)),
}
"""Every table and figure of the papers that has rows; of a longer id the end is the name of a group."""

PARAMETERS = {
    "importance/mnist_mlp": 159_010,
    "importance/mnist_mlp_code": 199_210,
    "importance/mnist_cnn": 1_663_370,
    "importance/mnist_cnn_code": 1_663_370,
    "importance/cifar10_mlp": 616_610,
    "importance/cifar10_mlp_code": 656_810,
    "importance/cifar10_cnn": 2_156_490,
    "importance/cifar10_cnn_code": 62_006,
    "fedcl/mnist_cnn": 1_663_370,
    "fedcl/mnist_cnn_code": 1_630_602,
    "fedcl/cifar10_cnn": 1_756_426,
    "fedcl/cifar10_cnn_code": 1_756_426,
    "fedcurv/mnist_cnn": 431_080,
    "fedka/cifar10_tcnn": 878_538,
    "fedka/cifar10_tcnn_code": 878_538,
    "fedka/cifar10_tcnn_dirichlet": 878_538,
    "fedka/cifar100_resnet50": 23_712_932,
    "fedka/cifar100_resnet50_code": 23_712_932,
    "fedka/tinyimagenet_resnet50": 23_917_832,
    "fedka/tinyimagenet_resnet50_code": 23_917_832,
}
SHAPES = {"MNIST": (1, 28, 28), "CIFAR10": (3, 32, 32), "CIFAR100": (3, 32, 32), "ImageFolder": (3, 64, 64)}
CLASSES = {"CIFAR100": 100, "ImageFolder": 200}

STEPS = {
    "fedcl/mnist_cnn": 188_000,
    "fedcl/cifar10_cnn_code": 158_000,
    "importance/mnist_mlp": 600_000,
    "importance/mnist_cnn_code": 480_000,
    "importance/cifar10_mlp": 1_000_000,
    "importance/cifar10_cnn_code": 800_000,
    "fedcurv/mnist_cnn": 432_000,
    "fil_ver/emnist": 75_200,
}
"""Local steps of a run's cohorts, which the tables' costs name."""


def short(path: Path) -> str:
    return path.relative_to(CONFIGS).with_suffix("").as_posix()


OWN_ROWS = [row for table in TABLES.values() for row in table.rows if row.table == table.name]


FIRST_ROWS = {(row.table, row.group): row for row in reversed(OWN_ROWS)}
"""Of each group of each table."""


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, marks=[pytest.mark.slow] * (row is not FIRST_ROWS[row.table, row.group])) for row in OWN_ROWS],
    ids=[f"{row.table}/{row.full_name}" for row in OWN_ROWS],
)
def test_rows_and_their_twins_are_understood(row: Row) -> None:
    for small in (False, True):
        (asked,) = seeded_rows([row], [3], small=small, out=Path("out"), extra=[])
        where = f"out/{row.table}{'-small' if small else ''}"
        config = asked.trial.config
        assert (config.seed, config.out, config.name) == (3, where, f"{row.run}-seed3")


def test_each_seed_of_a_row_is_a_run_of_its_own() -> None:
    (row,) = TABLES["fedcurv/table1"].choose(["e10/fedavg"])
    asked = seeded_rows([row], [3, 5], small=True, out=Path("out"), extra=[])
    configs = [each.trial.config for each in asked]
    assert [(config.seed, config.name) for config in configs] == [(s, f"{row.run}-seed{s}") for s in (3, 5)]


def test_only_runs_on_data_from_elsewhere_are_told_where_they_lie() -> None:
    (row,) = TABLES["fedcurv/table1"].choose(["e10/fedavg"])
    extra = ["--data.root=there", "--device=cpu"]
    full, twin = (
        seeded_rows([row], [0], small=small, out=Path("out"), extra=extra)[0].trial.config for small in (False, True)
    )
    assert (full.data.name, full.data.init_args["root"], full.device) == ("MNIST", "there", "cpu")
    assert (twin.data.name, "root" in twin.data.init_args, twin.device) == ("Digits", False, "cpu")


def test_a_finished_row_is_its_own_wherever_another_rows_data_lie(tmp_path: Path) -> None:
    """A table of two data sets is made by a command for each, with its own root, and read as a whole by either."""
    chosen = ["cifar10/fedavg", "tinyimagenet/fedavg"]
    images = seeded_rows(
        TABLES["fedka/table1"].choose(chosen), [0], small=False, out=tmp_path, extra=["--data.root=cifar"]
    )[1]
    assert images.trial.config.data.name == "ImageFolder"
    rounds = images.trial.config.rounds
    began = parse([*images.given, f"--data.root={tmp_path}"])
    images.folder.mkdir(parents=True)
    (images.folder / "config.yaml").write_text(to_yaml(began))
    (images.folder / "metrics.csv").write_text(f"round,accuracy\n{rounds},0.5\n")
    (images.folder / "summary.json").write_text(json.dumps({"rounds": rounds}))
    assert images.trial.is_finished()


def test_every_table_of_the_papers_is_there() -> None:
    found = set()
    for table in TABLES.values():
        found |= {table.id, *(f"{table.id}_{group}" for group in table.groups)}
    assert found >= IDS
    assert len({table.id for table in TABLES.values()}) == len(TABLES)


@pytest.mark.parametrize("name", TABLES)
def test_rows_of_a_paper_variant_have_a_code_variant_or_the_note_says_why(name: str) -> None:
    table = TABLES[name]
    variants = {row.variant for row in table.rows}
    assert variants == {"paper", "code"} or "code" in table.note or name.startswith("fedcurv/figure")


WITHOUT = ("fedcl/figure1", "fedka/figure", "fedka/table2", "fedka/table8", "fil_ver/")
"""Tables and figures of which the paper gives no numbers, or not of all rows."""


@pytest.mark.parametrize("name", [name for name in TABLES if not name.startswith(WITHOUT)])
def test_tables_with_numbers_in_the_paper_give_them(name: str) -> None:
    table = TABLES[name]
    if table.name in ("fedcurv/figure1", "fedcurv/figure2", "fedcl/readings"):
        assert not any(row.expected for row in table.rows)
    elif table.name == "fedcl/figure2":
        assert {row.name for row in table.rows if row.expected} == {"fedcl"}
    else:
        assert all(row.expected for row in table.rows)


def test_every_table_has_orderings() -> None:
    assert [name for name, table in TABLES.items() if not table.orderings] == []


READ = {
    metric.quantity
    for table in TABLES.values()
    for column in (*table.columns, *table.small_columns)
    for metric in column.metrics
}
"""What all tables read off runs."""


def same_run(seed: int, reaches: bool) -> Run:
    """What all methods do with a seed: they reach every target at once, or none."""
    start = 0.985 if reaches else 0.01
    rounds = (1, 5, 8, 10, 15, 20, 30, 50, 100, 190, 200, 240, 500)
    curves = {
        quantity: [(round, start + (seed + i) / 1000 + round / 1e6) for round in rounds]
        for i, quantity in enumerate(sorted(READ))
    }
    return Doer(Path("run"), {}, 500, 500, curves, [], {"rounds": 500})


class Doer(Run):
    """A run whose curves of clients' classes are known."""

    def curve(self, quantity: str) -> Curve:
        """See Run."""
        return self.curves[quantity]


@pytest.mark.parametrize("reaching", [(0, 1, 2), (1,), ()], ids=["all", "one", "none"])
@pytest.mark.parametrize("name", TABLES)
def test_methods_that_do_nothing_pass_no_strict_ordering_of_any_table_or_twin(
    name: str, reaching: tuple[int, ...]
) -> None:
    table = TABLES[name]
    same = {seed: same_run(seed, seed in reaching) for seed in range(3)}
    for small in (False, True):
        judged = compare(table, {row.full_name: same for row in table.rows}, small=small).judged
        strict = [each for each in judged if set(each.ordering.relations) & {"<", ">"}]
        assert {each.group for each in strict} == {each.group for each in judged}
        metrics = {column.name: column.metrics[0] for column in table.columns_of(small)}
        for each in strict:
            untestable = not reaching and metrics[each.ordering.column].target is not None
            assert each.decision.verdict == ("not decided" if untestable else "does not hold"), (each, small)


def test_every_paper_has_an_ordering_that_must_show_in_the_twin() -> None:
    papers = {name.partition("/")[0] for name in TABLES}
    assert {name.partition("/")[0] for name, t in TABLES.items() if any(o.small for o in t.orderings)} == papers


def test_every_base_configuration_of_a_paper_is_used() -> None:
    used = {row.base for table in TABLES.values() for row in table.rows}
    of_no_paper = {
        "benchmarks/cifar10_1000_clients.yaml", "examples/cifar10_resnet18.yaml", "examples/split_mnist.yaml",
    }  # fmt: skip
    assert {str(base.relative_to(CONFIGS)) for base in set(BASES) - used} == of_no_paper


@pytest.mark.parametrize("name", PARAMETERS)
def test_models_have_the_parameters_of_the_paper(name: str) -> None:
    content = load_yaml(CONFIGS / f"{name}.yaml")
    assert isinstance(content, dict)
    data = content["data"] if isinstance(content["data"], str) else content["data"]["name"]
    choice = from_mapping({"model": content["model"]}).model
    model = registry.build(choice, in_shape=SHAPES[data], num_classes=CLASSES.get(data, 10))
    assert sum(each.numel() for each in model.parameters()) == PARAMETERS[name]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", STEPS)
def test_runs_cost_the_local_steps_that_are_named(name: str) -> None:
    config = from_file(CONFIGS / f"{name}.yaml")
    images = {"MNIST": 60_000, "CIFAR10": 50_000, "EMNIST": 24_000}[config.data.name]  # of the last, in a task
    size = config.partition.init_args.get("block_size")
    per_client = 2 * size if isinstance(size, int) else images // config.clients
    if config.local_test_from == "train":
        per_client -= round(config.local_test * per_client)
    assert config.epochs is not None
    steps = config.rounds * config.cohort_size * config.epochs * -(-per_client // config.batch_size)
    assert steps == STEPS[name]


READINGS = ("per_tensor", "per_param_sq", "per_param_abs", "mas", "si")


def test_fedcls_rows_cover_the_readings_of_its_text() -> None:
    rows = {row.name: row for row in TABLES["fedcl/readings"].rows}
    for reading in READINGS:
        for missing in ("identity", "local"):
            (seeded,) = seeded_rows([rows[f"{reading}_{missing}"]], [0], small=False, out=Path("out"), extra=[])
            arguments = seeded.trial.config.method.init_args
            assert (arguments["omega"], arguments["missing"], arguments["every"]) == (reading, missing, 10)


@pytest.mark.slow
@pytest.mark.parametrize(
    "row", [row for row in OWN_ROWS if row.table.startswith("fedcl/")], ids=lambda row: row.full_name
)
def test_fedcls_clients_are_tested_on_at_least_500_images_of_the_test_set(row: Row) -> None:
    for small in (False, True):
        (seeded,) = seeded_rows([row], [0], small=small, out=Path("out"), extra=[])
        config = seeded.trial.config
        images = {"MNIST": 60_000, "CIFAR10": 50_000}[config.data.name]
        assert config.local_test_from == "test" and config.local_test * images / config.clients >= 500
        assert config.personalise == "all"
        assert config.lr_schedule == ("cosine" if row.variant == "code" else "exponential")


def test_readme_is_what_the_program_lists() -> None:
    assert (CONFIGS / "README.md").read_text() == recipe_list(list(TABLES.values())), (
        "python -m launch.reproduce --list > configs/README.md"
    )


GRIDS: dict[str, dict[str, set[object]]] = {
    "fedka/cifar10_tcnn.yaml": {
        "FedProx.method.mu": {0.001, 0.01, 0.1, 1.0},
        "MOON.method.mu": {0.1, 1.0, 5.0, 10.0},
        "FedDyn.method.alpha": {0.001, 0.01, 0.1, 1.0},
        "FedKA.method.beta": {0.001, 0.01, 0.1, 0.5},
        "FedKA.method.gamma": {0.025, 0.1, 0.2},
    },
    "fedcurv/mnist_cnn.yaml": {
        "FedCurv.method.lam": {0.01, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0},
        "FedProx.method.mu": {2.5e-6, 5e-6, 1e-5, 2e-5, 4e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0},
    },
    "fil_ver/emnist.yaml": {"FilVer.method.beta": {1e-4, 1e-3, 1e-2, 1e-1}},
}
"""By the configuration that is tuned."""


@pytest.mark.parametrize("base", GRIDS)
def test_what_is_tuned_is_a_sweep_of_its_configuration(base: str) -> None:
    file = (CONFIGS / base).with_name("tuning.points.yaml")
    named = file.relative_to(CONFIGS)
    assert f"python -m launch.sweep --config configs/{base} --points configs/{named}\n" in file.read_text()
    grids: dict[str, set[object]] = {}
    for point in read_points(file).points:
        given = [f"--{key}={value}" for key, value in point.items()]
        method = parse([f"--config={CONFIGS / base}", *given]).method
        (option,) = point.keys() - {"method"}
        grids.setdefault(f"{method.name}.{option}", set()).add(method.init_args[option.removeprefix("method.")])
    assert grids == GRIDS[base]


def test_every_list_of_points_is_looked_at() -> None:
    lists = {path.parent.name for path in CONFIGS.glob("*/*.points.yaml")}
    assert lists == {base.split("/")[0] for base in GRIDS} | {"examples"}


def test_the_points_of_the_example_are_those_that_it_tells_of() -> None:
    file = CONFIGS / "examples" / "split_mnist.yaml"
    assert f"--points configs/examples/{file.stem}.points.yaml" in file.read_text()
    configs = [
        parse([f"--config={file}", *(f"--{key}={value}" for key, value in point.items())])
        for point in read_points(file.with_suffix(".points.yaml")).points
    ]
    assert [(config.method.name, config.stream.init_args["keep"]) for config in configs] == [
        ("FedAvg", False), ("OnlineEWC", False), ("LwF", False), ("FedAvg", 0.02), ("FedAvg", True),
    ]  # fmt: skip


def test_fedkas_clients_are_those_that_are_published_and_the_twins_a_tenth() -> None:
    def counts(name: str) -> list[list[int]]:
        with (CONFIGS / "fedka" / name).open(newline="") as file:
            return [[int(cell) for cell in row[1:]] for row in list(csv.reader(file))[1:]]

    published, tenth = counts("cifar10_alpha0.1.csv"), counts("cifar10_alpha0.1_tenth.csv")
    assert [sum(column) for column in zip(*published, strict=True)] == [6000] * 10
    assert tenth == [[max(1, round(n / 10)) if n else 0 for n in row] for row in published]
    for name, each in (("cifar10_iid.csv", 600), ("cifar10_iid_tenth.csv", 60)):
        assert counts(name) == [[each] * 10] * 10


def test_client_0_loses_a_percent_point_of_what_it_holds_at_each_step() -> None:
    rows = read_reductions(str(CONFIGS / "fedka" / "figure3_cats.csv"), ["airplane", "cat"])
    assert [each.round for each in rows] == [50 + 10 * k for k in range(19)]
    shares = [each.samples / (each.samples + 3907) for each in rows]
    assert shares == pytest.approx([0.20 - 0.01 * k for k in range(1, 20)], abs=2e-4)
