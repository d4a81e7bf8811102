"""A GPU's numbers beside a CPU's in float64, and its sums of float64 over ranks."""

from __future__ import annotations

from typing import get_args

import pytest
import torch
import torch.distributed as dist  # noqa: TID251
from device_runs import DEVICES, GPU, MODELS, trained

from fl_ddp.engine.choices import Convolution
from fl_ddp.engine.seeds import torch_seed
from fl_ddp.engine.transfer import on_its_way
from fl_ddp.models.layers import MaxPool
from fl_ddp.protocol import alike
from fl_ddp.ranks.collectives import Ranks


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("model", MODELS)
def test_local_steps_and_fisher_in_float64_are_a_cpus(model: str, device: str) -> None:
    for right, found in zip(trained(model, "cpu", torch.float64), trained(model, device, torch.float64), strict=True):
        torch.testing.assert_close(found, right, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("model", MODELS)
def test_local_steps_and_fisher_in_float32_are_near_them(model: str, device: str) -> None:
    for right, found in zip(trained(model, "cpu", torch.float64), trained(model, device, torch.float32), strict=True):
        assert float((found - right).norm() / right.norm()) < 1e-4


@pytest.mark.parametrize("device", [GPU])
def test_convolutions_are_near_them_however_they_are_made(device: str) -> None:
    """LeNet5's second layer has filters enough to be a product."""
    right = trained("LeNet5", "cpu", torch.float64)
    found = [trained("LeNet5", device, torch.float32, ways) for ways in get_args(Convolution)]
    for each in found:
        assert all(float((f - r).norm() / r.norm()) < 1e-4 for f, r in zip(each, right, strict=True))
    assert len({each[0].numpy().tobytes() for each in found}) == len(found), "each way sums in an order of its own"


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_drawn_under_a_seed_is_its_own_and_nothing_of_what_comes_after(device: str) -> None:
    def drawn(*words: int) -> list[float]:
        with torch_seed(*words, device=torch.device(device)):
            return [*torch.rand(2, device=device).tolist(), *torch.rand(2).tolist()]

    with torch.random.fork_rng(devices=[device] if device != "cpu" else []):
        before = torch.rand(1, device=device).item()
        assert drawn(1, 2) == drawn(1, 2) and not set(drawn(1, 2)) & set(drawn(1, 3))
        assert torch.rand(1, device=device).item() not in (before, *drawn(1, 2), *drawn(1, 3))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("size", [2, 3])
def test_pooling_gives_the_same_numbers_whether_gradients_are_asked_for_or_not(size: int, device: str) -> None:
    x = torch.linspace(-1, 1, 2 * 3 * 8 * 11, device=device).sin().view(2, 3, 8, 11)
    trained = MaxPool(size)(x)
    with torch.no_grad():
        assert torch.equal(MaxPool(size)(x), trained)
    assert trained.shape == (2, 3, 8 // size, 11 // size)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("length", [1210, 1000, 129])
def test_a_row_is_summed_in_one_order_wherever_it_lies(length: int, device: str) -> None:
    row = torch.linspace(-1, 1, length, device=device).exp()
    apart = torch.stack([row] * 7 + [row.neg()])[:, : length - 1]
    assert len(torch.linalg.vector_norm(alike(row.repeat(8, 1)), dim=1).unique()) == 1
    assert len(torch.linalg.vector_norm(alike(apart), dim=1).unique()) == 1


@pytest.mark.parametrize("device", [GPU])
def test_numbers_reach_the_host_before_what_the_device_was_given_behind_them_is_done(device: str) -> None:
    numbers = torch.arange(3.0, device=device)
    on_its_way(numbers.clone().zero_())()  # CUDA waits for the device where it loads a kernel for the first time
    wait = on_its_way(numbers)
    torch.cuda._sleep(2 * 10**9)  # type: ignore[no-untyped-call]
    later = torch.cuda.Event()  # type: ignore[no-untyped-call]
    later.record()
    numbers.zero_()
    assert wait().tolist() == [0, 1, 2]
    assert not later.query()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("device", DEVICES)
def test_one_rank_of_the_devices_own_backend_sums_float64_exactly(device: str) -> None:
    place = torch.device("cuda", 0) if device == "cuda" else torch.device("cpu")
    backend = "nccl" if device == "cuda" else "gloo"
    store = dist.HashStore()  # type: ignore[attr-defined]
    dist.init_process_group(backend, store=store, rank=0, world_size=1, device_id=place if place.index == 0 else None)
    try:
        given = torch.linspace(-1, 1, 1001, dtype=torch.float64, device=place)
        total = given.clone()
        dist.all_reduce(total)
        assert torch.equal(total, given)
        assert torch.equal(Ranks(0, 2, place).add(total), given), "as a rank of several waits for it"
    finally:
        dist.destroy_process_group()
