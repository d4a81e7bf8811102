"""Models and lanes that memory does not hold are told before it is taken."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from fl_ddp.errors import ConfigError
from fl_ddp.guards import room
from fl_ddp.guards.room import Need, activation_bytes, lanes_with_room, memory_of, need, with_room

CPU = torch.device("cpu")
LARGE = 10**6  # 40 MB: also an undetected mistake must not take the machine


def layers(width: int) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(nn.Linear(10, width), nn.ReLU(), nn.Linear(width, 3))


def test_a_model_that_fits_is_what_its_constructor_makes() -> None:
    torch.manual_seed(0)  # noqa: TID251
    alone = layers(7)()
    torch.manual_seed(0)  # noqa: TID251
    watched = with_room(layers(7), "Net", {}, CPU)
    assert all(torch.equal(*pair) for pair in zip(alone.parameters(), watched.parameters(), strict=True))


@pytest.mark.parametrize(
    "make", [layers(LARGE), lambda: nn.ModuleList(nn.Linear(LARGE, 1) for _ in range(100))], ids=["one", "many"]
)
def test_a_model_is_refused_before_its_memory_is_taken(
    make: Callable[[], nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "memory_of", lambda _: 2**24)
    with pytest.raises(ConfigError, match=r"--model: Net with hidden 1000000 needs [\d.]+ GiB .* this machine has"):
        with_room(make, "Net", {"hidden": LARGE, "norm": "own"}, CPU)


def test_a_module_that_fits_alone_must_leave_room_for_its_training(monkeypatch: pytest.MonkeyPatch) -> None:
    size = 4 * (11 * 1000 + 1001 * 3)
    monkeypatch.setattr(room, "memory_of", lambda _: 5 * size)
    with_room(layers(1000), "Net", {}, CPU)
    monkeypatch.setattr(room, "memory_of", lambda _: 5 * size - 1)
    with pytest.raises(ConfigError, match="--model: Net needs"):
        with_room(layers(1000), "Net", {}, CPU)


def test_other_mistakes_of_a_constructor_stay_what_they_are() -> None:
    def make() -> nn.Module:
        raise RuntimeError("a mistake of the user's model")

    with pytest.raises(RuntimeError, match="a mistake"):
        with_room(make, "Net", {}, CPU)


def test_torchs_own_refusal_is_told_alike() -> None:
    def make() -> nn.Module:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:127] data. DefaultCPUAllocator: can't allocate memory")

    with pytest.raises(ConfigError, match="--model: Net needs"):
        with_room(make, "Net", {}, CPU)


def test_a_samples_activations_are_all_that_is_new_on_its_way() -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 2))
    found = activation_bytes(module, torch.zeros(1, 2, 3))
    assert found.kept == 4 * (5 + 5 + 2) and found.passing == 3 * 4 * 6
    assert module.training


@pytest.mark.parametrize("groups", [1, 2])
def test_patches_of_convolutions_are_a_samples_too(groups: int) -> None:
    """A GPU writes them down to multiply them, and may keep them for the way back."""
    layers = nn.Sequential(nn.Conv2d(2, 16, 3, groups=groups), nn.Conv2d(16, 8, (1, 2), stride=2))
    stays, patches = 16 * 6 * 8 + 8 * 3 * 4, [6 * 8 * 2 * 3 * 3, 3 * 4 * 16 * 1 * 2]
    more = sum(patches) + max(patches)
    for products in (False, True):
        found = activation_bytes(layers, torch.zeros(1, 2, 8, 10), products=products)
        assert found == (4 * (stays + products * more), 3 * 4 * 16 * 6 * 8)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.ConvTranspose2d(8, 8, 3), (8, 8, 10)),
        (nn.Conv2d(2, 7, 3), (2, 8, 10)),
        (nn.Conv2d(8, 16, 3, groups=8), (8, 8, 10)),
        (nn.Conv1d(2, 8, 3), (2, 8)),
    ],
)
def test_what_is_no_product_has_no_patches(layer: nn.Module, shape: tuple[int, ...]) -> None:
    x = torch.zeros(1, *shape)
    assert activation_bytes(layer, x, products=True).kept == layer(x).nbytes


def test_what_cannot_be_a_model_is_left_for_others_to_tell() -> None:
    lazy = nn.LazyLinear(5)
    assert activation_bytes(lazy, torch.zeros(1, 6)) == (0, 0) and nn.parameter.is_lazy(lazy.weight)
    unfit = nn.Linear(7, 5)
    assert activation_bytes(unfit, torch.zeros(1, 2, 3)) == (0, 0) and unfit.training


def test_what_a_run_needs_is_what_its_vectors_samples_and_memory_take() -> None:
    theta = torch.zeros(1000)
    server = {"theta": theta}
    plain = need(server, 0, 0, {}, 0, recorded=False)
    assert plain == Need(5 * 4000, 4 * 4000 + 3 * 8000)
    more = need(server, 2, 10**6, {"control": theta}, 10**7, recorded=False)
    assert more == Need(plain.fixed + 10**7, plain.lane + 2 * 4000 + 2 * 10**6 + 2 * 4000)


def test_a_methods_own_state_lies_there_several_times() -> None:
    """That of FedFomo is every client's model."""
    theta = torch.zeros(1000)
    plain = need({"theta": theta}, 0, 0, {}, 0, recorded=False)
    more = need({"theta": theta, "models": torch.zeros(100, 1000)}, 0, 0, {}, 0, recorded=False)
    assert more == (plain.fixed + 4 * 100 * 4000, plain.lane)


@pytest.mark.parametrize("slots", [0, 2])
def test_a_recording_has_tensors_of_its_own(slots: int) -> None:
    theta = torch.zeros(1000)
    once, again = (
        need({"theta": theta, "u": theta}, slots, 0, {"control": theta}, 0, recorded=recorded)
        for recorded in (False, True)
    )
    assert again == (once.fixed, once.lane + (3 + slots) * 4000 + 4000)


@pytest.mark.parametrize(("asked", "memory", "given"), [(50, 10**6, 50), (50, 1500, 10), (50, 800, 4), (50, 100, 1)])
def test_lanes_are_as_many_as_fit_and_at_least_one(asked: int, memory: int, given: int) -> None:
    assert lanes_with_room(asked, Need(200, 100), memory) == given


def test_memory_is_that_of_the_kind_of_gpu_in_whole_gib(monkeypatch: pytest.MonkeyPatch) -> None:
    class Card:
        total_memory = 80 * 2**30 + 12345

    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: Card)
    assert memory_of(torch.device("cuda")) == 80 * 2**30
    assert 2**28 < memory_of(CPU) < 2**50
