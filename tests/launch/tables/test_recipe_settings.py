"""The papers' hyper-parameters stand in the recipes' base files as the papers, or their official code, have them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from fl_ddp.config.command_line import from_file
from launch.tables.seeded_row import seeded_rows
from launch.tables.yaml_file import CONFIGS, load_table

IMPORTANCE: Mapping[str, object] = {
    "clients": 100, "participation": 0.1, "rounds": 100, "local_epochs": 10, "batch_size": 10, "lr": 0.01,
    "lr_decay": 1.0, "momentum": 0.0, "local_test": 0.0, "partition.shards_per_client": 2,
}  # fmt: skip
FEDCL: Mapping[str, object] = {
    "clients": 10, "participation": 0.2, "rounds": 500, "local_epochs": 2, "batch_size": 64, "lr": 0.005,
    "lr_schedule": "exponential", "lr_decay": 0.99, "momentum": 0.0, "weight_decay": 0.0, "local_test_from": "test",
    "partition.alpha": 1.0, "partition.overlap": False, "personalise": "all",
}  # fmt: skip
FEDCL_CODE: Mapping[str, object] = {
    **FEDCL, "lr_schedule": "cosine", "lr_decay": 1.0, "lr_min": 1e-4, "momentum": 0.9, "weight_decay": 1e-4,
    "partition.overlap": True,
}  # fmt: skip
FEDKA: Mapping[str, object] = {
    "clients": 10, "participation": None, "rounds": 100, "local_epochs": 10, "batch_size": 128, "lr": 0.01,
    "lr_decay": 1.0, "momentum": 0.9, "weight_decay": 1e-5, "local_test": 0.25, "local_test_from": "train",
    "data.merge": True, "drop_last": False, "optimizer.keep": False, "running_statistics": "average",
}  # fmt: skip
SISTER: Mapping[str, object] = {
    "drop_last": True, "optimizer.keep": True, "data.mean": (0.5,), "data.deviation": (0.5,),
}  # fmt: skip
OWN_NORMS: Mapping[str, object] = {**SISTER, "running_statistics": "local"}
SKEWED: Mapping[str, object] = {"partition.alpha": 0.1, "partition.min_size": 40}
RESNET: Mapping[str, object] = {**SKEWED, "model.norm": "batch", "model.stem": "imagenet"}
FIL_VER: Mapping[str, object] = {"local_epochs": 1, "batch_size": 64, "lr": 0.01, "momentum": 0.9}

SETTINGS: Mapping[str, Mapping[str, object]] = {
    "importance/mnist_mlp": IMPORTANCE,
    "importance/mnist_cnn": IMPORTANCE,
    "importance/cifar10_mlp": {**IMPORTANCE, "rounds": 200},
    "importance/cifar10_cnn": {**IMPORTANCE, "rounds": 200},
    "importance/mnist_mlp_code": {**IMPORTANCE, "momentum": 0.5, "local_test": 0.2, "data.normalize": True},
    "importance/mnist_cnn_code": {**IMPORTANCE, "momentum": 0.5, "local_test": 0.2, "data.normalize": True},
    **{
        f"importance/cifar10_{model}_code": {
            **IMPORTANCE, "rounds": 200, "momentum": 0.5, "local_test": 0.2, "data.mean": (0.5,),
            "data.deviation": (0.5,),
        }
        for model in ("mlp", "cnn")
    },
    "fedcl/mnist_cnn": {**FEDCL, "local_test": 0.16667},
    "fedcl/cifar10_cnn": {**FEDCL, "local_test": 0.2},
    "fedcl/mnist_cnn_code": {**FEDCL_CODE, "local_test": 0.16667},
    "fedcl/cifar10_cnn_code": {**FEDCL_CODE, "local_test": 0.2},
    "fedcurv/mnist_cnn": {
        "clients": 96, "participation": 1.0, "local_epochs": 10, "batch_size": 256, "lr": 0.01, "lr_decay": 1.0,
        "momentum": 0.0, "partition.blocks_per_client": 2, "partition.block_size": 306, "data.normalize": True,
    },
    "fedka/cifar10_tcnn": FEDKA,
    "fedka/cifar10_tcnn_dirichlet": {**FEDKA, **SKEWED},
    "fedka/cifar10_tcnn_code": {**FEDKA, **SISTER},
    "fedka/cifar100_resnet50": {**FEDKA, **RESNET},
    "fedka/cifar100_resnet50_code": {**FEDKA, **RESNET, **OWN_NORMS},
    "fedka/tinyimagenet_resnet50": {**FEDKA, **RESNET, "rounds": 20},
    "fedka/tinyimagenet_resnet50_code": {**FEDKA, **RESNET, **OWN_NORMS, "rounds": 20},
    "fil_ver/emnist": {**FIL_VER, "clients": 4, "rounds": 200, "stream.tasks": 4, "stream.task_rounds": 50},
    "fil_ver/mnist_permuted": {**FIL_VER, "clients": 1, "stream.tasks": 10},
}  # fmt: skip


@pytest.mark.parametrize("name", SETTINGS)
def test_a_base_file_has_the_papers_settings(name: str) -> None:
    config = from_file(CONFIGS / f"{name}.yaml")
    found = {}
    for key in SETTINGS[name]:
        part, _, option = key.partition(".")
        value = getattr(config, part)
        found[key] = value.init_args[option] if option else value
    assert found == dict(SETTINGS[name])


def test_all_base_files_of_papers_are_among_them() -> None:
    """A benchmark and an example are of no paper."""
    bases = {path for path in CONFIGS.glob("*/*.yaml") if not path.name.endswith((".table.yaml", ".points.yaml"))}
    names = {path.relative_to(CONFIGS).with_suffix("").as_posix() for path in bases}
    assert {name for name in names if not name.startswith(("benchmarks/", "examples/"))} == set(SETTINGS)


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("group", ["cifar10_code", "cifar100_code", "tinyimagenet_code"])
def test_fedprox_makes_plain_steps_in_the_sister_code(group: str, small: bool) -> None:
    rows = [row for row in load_table("fedka/table1").rows if row.group == group]
    for asked in seeded_rows(rows, [0], small=small, out=Path("out"), extra=[]):
        config = asked.trial.config
        found = (config.momentum, config.weight_decay, config.optimizer.init_args["keep"])
        assert found == ((0, 0, False) if asked.row.name == "fedprox" else (0.9, 1e-5, True))
