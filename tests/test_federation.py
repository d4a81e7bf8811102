"""What a run is made of: data, clients, model and method, from a configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch

from fl_ddp import simulate
from fl_ddp.building.idle_clients import num_idle
from fl_ddp.check.runs import differences, play
from fl_ddp.config.command_line import from_mapping
from fl_ddp.errors import ConfigError
from fl_ddp.federation import Federation, build_federation
from fl_ddp.partitions.saved import SavedPartition, write_partition
from fl_ddp.protocol import Indices
from fl_ddp.ranks.collectives import Ranks

SMALL: Mapping[str, object] = {"model.hidden": 4, "clients": 6, "local_test": 0.3, "compile": False, "figures": False}


def founded(**changes: object) -> Federation:
    return build_federation(from_mapping({**SMALL, **changes}), Ranks(0, 1, torch.device("cpu")))


def equal(ours: list[Indices], others: list[Indices]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(ours, others, strict=True))


@pytest.mark.parametrize("kind", ["Dirichlet", "ClientDirichlet"])
def test_a_saved_partition_gives_the_same_training_and_test_samples_again(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "partition.json"
    first = founded(partition=kind)
    write_partition(file, SavedPartition(first.clients, first.local_test, num_samples=len(first.labels)))
    from_file = {"partition": "FromFile", "partition.path": str(file)}
    again = founded(**from_file, seed=7)
    assert equal(again.clients, first.clients) and equal(again.local_test, first.local_test)
    without = founded(**from_file, local_test=0)
    assert equal(without.clients, first.clients) and not any(map(len, without.local_test))


def test_convolutions_of_gpus_are_refused_on_a_cpu() -> None:
    with pytest.raises(ConfigError, match=r"--convolution: cudnn .* on a CPU.*accepted: auto"):
        founded(convolution="cudnn", compile=True)


@pytest.mark.parametrize(("weights", "told"), [("data", 1), ("uniform", 0)])
def test_samples_that_count_twice_are_told(weights: str, told: int) -> None:
    remarks = founded(cohort=2, client_sampling="samples", **{"method.weights": weights}).remarks
    assert sum("samples count twice" in each for each in remarks) == told


def test_counts_are_of_the_samples_that_clients_train_on() -> None:
    federation = founded(partition="Dirichlet")
    for part, counts in zip(federation.clients, federation.counts, strict=True):
        found = np.bincount(federation.labels[part], minlength=10)
        assert counts == {federation.classes[k]: n for k, n in enumerate(found) if n}


def test_a_partitions_own_seed_goes_before_the_runs() -> None:
    first = founded(seed=0, **{"partition.seed": 5})
    again, alone, other = founded(seed=1, **{"partition.seed": 5}), founded(seed=5), founded(seed=1)
    for same in (again, alone):
        assert equal(same.clients, first.clients) and equal(same.local_test, first.local_test)
    assert not any(map(np.array_equal, other.clients, first.clients))


def test_clients_without_a_full_batch_are_counted_as_a_run_counts_their_steps() -> None:
    clients = [np.arange(n) for n in (9, 10, 25, 40)]
    for changes, idle in (
        ({"drop_last": True}, 1),
        ({"drop_last": True, "local_epochs": 0.5}, 2),
        ({"drop_last": True, "local_steps": 3}, 1),
        ({}, 0),
    ):
        assert num_idle(from_mapping({"batch_size": 10, **changes}), clients) == idle


def test_drop_last_that_leaves_nobody_is_refused_after_the_local_test_split() -> None:
    settings: Mapping[str, object] = {"partition": "IID", "clients": 10, "drop_last": True}  # of 143 or 144 samples
    assert len(founded(**settings, batch_size=140, local_test=0).clients) == 10
    with pytest.raises(
        ConfigError, match=r"^--drop_last: no client has a full batch of 140, the largest has 7\d train"
    ):
        founded(**settings, batch_size=140, local_test=0.5)


@pytest.mark.parametrize("origin", ["train", "test"])
def test_test_splits_without_a_single_sample_are_refused(origin: str) -> None:
    settings: Mapping[str, object] = {"partition": "IID", "clients": 100, "local_test_from": origin}
    with pytest.raises(ConfigError, match=r"^--local_test: 0\.001 leaves no client a test sample; accepted: a larger"):
        founded(**settings, local_test=0.001)
    assert sum(map(len, founded(**settings, local_test=0.6).local_test)) > 0


def test_a_division_without_test_samples_is_named_whatever_the_share(tmp_path: Path) -> None:
    file = tmp_path / "partition.json"
    file.write_text('{"clients": [[0, 1], [2, 3]], "local_test": [[], []]}')
    settings: Mapping[str, object] = {"partition": "FromFile", "partition.path": str(file), "clients": 2}
    with pytest.raises(
        ConfigError, match=r"^--local_test: 0\.2, but FromFile has no test samples of a client there is"
    ):
        founded(**settings, local_test=0.2)


def test_an_origin_of_test_samples_that_there_are_none_of_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not refused: it is there where a sweep goes over --local_test from 0 up."""
    for share, told in ((0.0, True), (0.3, False)):
        simulate({**SMALL, "local_test": share, "local_test_from": "test", "rounds": 0, "out": str(tmp_path)})
        assert ("warning: --local_test_from test does nothing beside" in capsys.readouterr().out) == told


def test_what_is_held_out_is_in_no_full_batch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of 1,437 samples a client of ten has 144 at most, of which FedFomo holds out 29, as of 143."""
    settings: Mapping[str, object] = {"partition": "IID", "clients": 10, "drop_last": True, "method": "FedFomo"}
    with pytest.raises(
        ConfigError, match=r"140, the largest has 144 training samples, a share of 0\.2 of which is held "
    ):
        founded(**settings, batch_size=140, local_test=0)
    assert founded(**settings, batch_size=115, local_test=0).method.share_held_out == 0.2
    simulate({**SMALL, **settings, "batch_size": 115, "local_test": 0, "rounds": 0, "out": str(tmp_path)})
    assert "warning: 3 of 10 clients have no full batch of 115 and never train; " in capsys.readouterr().out


def test_work_that_leaves_nobody_a_full_batch_is_named() -> None:
    settings: Mapping[str, object] = {"partition": "IID", "clients": 10, "drop_last": True, "local_test": 0}
    work = r"or more --local_epochs, of which clients do the parts --client_work uniform\(0\.1,0\.3\)$"
    with pytest.raises(ConfigError, match=work):
        founded(**settings, batch_size=100, client_work="uniform(0.1,0.3)")
    with pytest.raises(ConfigError, match=r"or more --local_epochs$"):
        founded(**settings, batch_size=150)


def test_idle_clients_are_warned_of_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = {**SMALL, "partition": "Quantity", "local_test": 0, "rounds": 0, "out": str(tmp_path)}
    simulate({**settings, "drop_last": True, "batch_size": 100})
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "warning" in line)
    assert re.match(r"fl_ddp: warning: [1-5] of 6 clients have no full batch of 100 and never train; ", line)
    simulate({**settings, "batch_size": 100})
    assert "warning" not in capsys.readouterr().out


def test_a_batch_larger_than_every_client_is_all_of_its_samples() -> None:
    whole, huge = (play({"batch_size": size, "rounds": 1}).state.server for size in (10**4, 2**31 - 1))
    assert differences(whole, huge) == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"stream": "ClassGroups", "stream.budget": "fixed"}, "--stream.budget: fixed, but nothing is kept"),
        ({"stream": "ClassGroups", "stop_at": "accuracy>0.9"}, "--stop_at"),
        ({"stream": "Domains", "data.merge": True, "local_test": 0.2}, "--data.merge: true, but tasks of Domains"),
    ],
)
def test_a_mistaken_stream_is_told_before_data_are_read(settings: Mapping[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        founded(data="ImageFolder", **{"data.root": "nowhere"}, **settings)
