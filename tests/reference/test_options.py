"""The cases have every option in them, and each option of each case moves its numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import torch
from cases import CASES
from comparison import differences
from reference_run import METHODS, Division, program_options, reference_rounds
from samples import CLASSES, write_samples
from settings import Settings
from shared_options import BASE, Options

from fl_ddp.bounds import declared
from fl_ddp.config import registry
from fl_ddp.config.command_line import from_mapping
from fl_ddp.config.settings import Config
from fl_ddp.federation import build_federation
from fl_ddp.ranks.collectives import Ranks

FAR = 1e-3
"""By what share of what moved an option must move something: a hundred times what single precision may be off by."""
NOT_HERE = {
    "data", "partition", "stream", "model", "method", "optimizer", "lanes", "compile", "precision", "device",
    "convolution", "rank_timeout", "reduction", "checkpoint_every", "keep_checkpoints", "figures", "log_clients",
    "measures", "targets", "name", "out", "resume", "init",
}  # fmt: skip
"""Options of a run that the reference does not have: they choose its parts, or how fast and exactly it computes."""
GO_WITH = {
    "lr_schedule": ("lr_min", "lr_step", "lr_warmup", "lr_decay"),
    "running_statistics": ("estimate_statistics",),
    "local_epochs": ("stragglers", "drop_stragglers"),
    "local_steps": ("stragglers", "drop_stragglers"),
    "stragglers": ("drop_stragglers",),
    "momentum": ("optimizer.keep", "optimizer.nesterov", "optimizer.dampening"),
    "data.mean": ("data.deviation",),
    "data.deviation": ("data.mean",),
}
"""Options that make no sense without another."""
NEEDED = {"lr_step": 1, "lr_warmup": 1, "lr_decay": 0.77}
"""Options that a schedule cannot do without, and what takes their place."""
MORE_COLUMNS = {"forgetting_every", "personalise", "local_test", "estimate_statistics"}
"""Options that bring columns, and may change nothing else."""
MADE_OF = {"method", "network", "samples", "division", "clients", "rounds", "data.merge"}
"""What a case is made of."""


def division_of(case: Options, folder: Path) -> Division:
    """Whose samples are whose in a run of a case."""
    federation = build_federation(from_mapping(program_options(case, folder)), Ranks(0, 1, torch.device("cpu")))
    clients, local_test = ([part.tolist() for part in parts] for parts in (federation.clients, federation.local_test))
    return clients, local_test if {**BASE, **case}["local_test"] else [], federation.local_test_from


def own_options(name: str) -> Iterator[str]:
    """The options that a case gives and that are not the defaults; the plain case gives BASE's."""
    case: Options = {**BASE, **CASES[name]} if name == "FedAvg: plain" else CASES[name]
    for option, value in case.items():
        made_of = option in NOT_HERE | MADE_OF or option.startswith("stream.")
        if not made_of and value != default(case["method"], option):
            yield option


def default(method: str, option: str) -> Any:
    """What the program takes where an option is not given."""
    if option.startswith("method."):
        return asdict(METHODS[method]())[option.removeprefix("method.")]
    if option.startswith("optimizer."):
        owners = [each for each in registry.known("optimizer").values() if option.partition(".")[2] in declared(each)]
        return registry.options("optimizer", owners[0]).by_name[option.partition(".")[2]].default
    if option.startswith("data."):
        return False if option == "data.normalize" else ()
    return asdict(Settings())[option]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_each_option_of_a_case_moves_its_numbers(name: str, tmp_path: Path) -> None:
    write_samples(tmp_path)
    case = CASES[name]
    given = reference_rounds(case, tmp_path, division_of(case, tmp_path))
    silent = []
    for option in own_options(name):
        with_it = (each for each in GO_WITH.get(option, ()) if each in case)
        other = {**case, **{each: default(case["method"], each) for each in (option, *with_it)}}
        other |= {option: NEEDED[option]} if option in NEEDED else {}
        without = reference_rounds(other, tmp_path, division_of(other, tmp_path))
        if len(without) != len(given):
            continue
        moved = differences(case, without, given, FAR)
        if not any(math.isfinite(each.gap) or option in MORE_COLUMNS for each in moved):
            silent.append(option)
    assert silent == []


def test_the_reference_has_all_methods() -> None:
    assert METHODS.keys() == registry.known("method").keys()


@pytest.mark.parametrize("method", METHODS)
def test_the_reference_has_all_options_of_a_method(method: str) -> None:
    programs = registry.options("method", registry.known("method")[method]).by_name
    assert asdict(METHODS[method]()) == {name: option.default for name, option in programs.items()}


def test_the_reference_has_all_options_of_a_run() -> None:
    programs = {field.name: getattr(Config(), field.name) for field in fields(Config)}
    assert asdict(Settings()) == {name: value for name, value in programs.items() if name not in NOT_HERE}


@pytest.mark.parametrize("method", METHODS)
def test_every_value_of_an_option_is_in_a_case(method: str) -> None:
    options = registry.options("method", registry.known("method")[method]).by_name
    cases = [case for case in CASES.values() if case["method"] == method]
    for name, option in options.items():
        found = {case.get(f"method.{name}", option.default) for case in cases}
        if get_origin(option.type) is Literal:
            assert found >= set(get_args(option.type)), name
        else:
            assert found - {option.default}, name


def test_every_option_of_a_run_is_in_a_case() -> None:
    given = {option for case in CASES.values() for option in case}
    assert {field.name for field in fields(Settings)} - given <= {*MADE_OF, "lr"}


def test_every_column_says_something(tmp_path: Path) -> None:
    write_samples(tmp_path)
    case = CASES["FedAvg: plain"]
    rows = [kept.row for kept in reference_rounds(case, tmp_path, division_of(case, tmp_path))]
    constant = {"cohort", "traffic_up_bytes", "traffic_down_bytes", f"accuracy/{CLASSES - 1}"}
    for column in rows[0].keys() - constant:
        assert len({row[column] for row in rows}) > 1, column
    assert all(math.isnan(row[f"accuracy/{CLASSES - 1}"]) for row in rows)
