"""The same bits on a GPU: every method, any company, after a resume, with cold caches, on two ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest
import torch
from device_runs import DEVICES, GPU, SLOW_DEVICES, alone_on, gaps, hashes_with_cold_caches, run_two_ranks
from device_runs import unlike_after_resume as unlike
from importance_bench import PASSES, bench
from method_settings import FOR_METHODS
from own_models import Normed
from recordings import Graphs, recording
from torch import nn

from fl_ddp.check.candidate import Candidate, Case
from fl_ddp.check.runs import unlike_runs
from fl_ddp.config import registry
from fl_ddp.importance.fisher import fisher
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.models.cnn import LeNet5

METHODS = {name: owner for name, owner in registry.known("method").items() if issubclass(owner, FedAvg)}


@pytest.mark.parametrize("device", [GPU])
@pytest.mark.parametrize("name", METHODS)
def test_every_method_passes_the_checks_of_one_rank(name: str, device: str, tmp_path: Path) -> None:
    assert gaps(name, {"method": name, **FOR_METHODS.get(name, {})}, device, tmp_path) == {}


@pytest.mark.slow
def test_the_checks_of_one_rank_work_on_a_cpu(tmp_path: Path) -> None:
    assert gaps("FedProx", {"method": "FedProx"}, "cpu", tmp_path) == {}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("method", ["FedAvg", pytest.param("Scaffold", marks=pytest.mark.slow)])
def test_a_resumed_run_ends_as_one_that_was_not_killed(method: str, device: str, tmp_path: Path) -> None:
    assert unlike({"method": method}, device, tmp_path) == ""


@pytest.mark.parametrize(
    ("model", "device"),
    [
        pytest.param("MLP", "cpu", marks=pytest.mark.slow),
        *(pytest.param(model, "cuda", marks=GPU.marks) for model in ("MLP", "FedCLMNIST")),
    ],
)
def test_two_processes_with_cold_caches_end_with_the_same_bits(model: str, device: str, tmp_path: Path) -> None:
    given = {"model": model} | ({"model.variant": "code"} if model == "FedCLMNIST" else {})
    (first := tmp_path / "first").mkdir()
    (second := tmp_path / "second").mkdir()
    hashes = hashes_with_cold_caches(given, device, [first, second])
    assert hashes[0] == hashes[1]


@pytest.mark.parametrize("device", SLOW_DEVICES)
def test_a_clients_fisher_has_its_bits_in_any_company_of_as_many(device: str) -> None:
    make = partial(LeNet5, in_shape=(3, 16, 16), num_classes=3)
    b = bench(make, (3, 16, 16), (23, 7, 60), dtype=torch.float32, device=device, compile=True)
    theta, found = b.theta(3), []
    for others in ([1, 2], [2, 1], []):
        found.append(fisher(b.group([0, *others], 3), theta, b.model)[0])
    assert all(torch.equal(each, found[0]) for each in found)


@pytest.mark.parametrize("device", [GPU])
@pytest.mark.parametrize(("name", "owner"), [*((name, LeNet5) for name in PASSES), ("empirical", Normed)])
def test_a_pass_that_is_recorded_has_the_bits_of_single_steps(
    name: str, owner: Callable[..., nn.Module], device: str
) -> None:
    make, graphs = partial(owner, in_shape=(3, 16, 16), num_classes=3), Graphs()
    b = bench(make, (3, 16, 16), (230, 7, 60), dtype=torch.float32, device=device, compile=True)
    recorded = b._replace(work=recording(b.work, graphs))
    for ids in ([0, 1, 2], [2], [1, 0]):
        theta = b.theta(3) * (1 + len(ids) / 8)
        single, again = (PASSES[name](each.group(ids, 3), theta, b.model) for each in (b, recorded))
        assert torch.equal(single, again) and single[0].any()
    assert graphs.made == 1


@pytest.mark.parametrize("device", SLOW_DEVICES)
@pytest.mark.parametrize("settings", [{"method": "FedCurv"}, {"method": "FedAvg", "model.hidden": [33, 17]}])
def test_two_gloo_ranks_that_share_a_device_end_as_one(
    settings: Mapping[str, object], device: str, tmp_path: Path
) -> None:
    with alone_on(device):
        alone = Candidate(Case("one", {**settings, "device": device}, tmp_path)).alone
    assert unlike_runs(alone, run_two_ranks(settings, device, tmp_path)) == ""
