"""Training and test set divided together: the test set is then what the clients keep aside, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from fl_ddp.config.command_line import from_mapping
from fl_ddp.errors import ConfigError
from fl_ddp.federation import Federation, build_federation
from fl_ddp.ranks.collectives import Ranks

RNG = np.random.default_rng(3)
SIZES = {"train": 60, "test": 20}


def federation_of(folder: Path, **options: object) -> Federation:
    """Of samples whose one feature is their place, the training set's first."""
    file = folder / "data.npz"
    places = np.split(np.arange(80, dtype=np.float32)[:, None], [60])
    labels = np.split(RNG.permutation(np.arange(80) % 4), [60])
    np.savez(file, x_train=places[0], x_test=places[1], y_train=labels[0], y_test=labels[1])
    given = {
        "data": str(file),
        "data.merge": True,
        "partition": "IID",
        "clients": 5,
        "local_test": 0.25,
        "device": "cpu",
    }
    return build_federation(from_mapping(given | options), Ranks(0, 1, torch.device("cpu")))


def test_clients_train_on_images_of_both_and_are_tested_on_the_rest(tmp_path: Path) -> None:
    built = federation_of(tmp_path)
    train, test = (world := built.worlds.at(0)).train, world.tests[0].samples
    trained, kept = (np.concatenate(parts) for parts in (built.clients, built.local_test))
    assert sorted([*trained, *kept]) == list(range(80))
    assert (trained >= 60).any() and (kept < 60).any()
    assert sorted(test.x[:, 0].tolist()) == sorted(float(place) for place in kept)
    assert torch.equal(test.y, train.y[test.x[:, 0].long()])


def test_samples_that_are_shared_are_not_tested_on(tmp_path: Path) -> None:
    built = federation_of(tmp_path, method="FedKA")
    assert len(built.worlds.at(0).shared) == 4
    assert not set(built.worlds.at(0).shared.tolist()) & set(np.concatenate(built.local_test).tolist())


def test_a_division_may_name_samples_of_the_test_set(tmp_path: Path) -> None:
    division = tmp_path / "division.json"
    division.write_text(json.dumps({"clients": [[0, 79], [60, 61, 62, 63, 5]]}))
    built = federation_of(tmp_path, **{"partition": "FromFile", "partition.path": str(division), "clients": 2})
    assert sorted(np.concatenate([*built.clients, *built.local_test]).tolist()) == [0, 5, 60, 61, 62, 63, 79]


@pytest.mark.parametrize("options", [{"local_test": 0.0}, {"local_test_from": "test"}])
def test_without_samples_kept_aside_there_would_be_no_test_set(tmp_path: Path, options: dict[str, object]) -> None:
    with pytest.raises(
        ConfigError, match=r"^--data.merge: true, but what --local_test keeps aside .*; give --local_test"
    ):
        federation_of(tmp_path, **options)


def test_a_share_that_leaves_nothing_to_test_on_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"^--local_test: 0.01 leaves no client a test sample; accepted: a larger share"
    ):
        federation_of(tmp_path, local_test=0.01)
