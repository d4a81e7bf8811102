from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import permutations, product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.func import vmap

from fl_ddp.engine.seeds import Purpose, generator, keys, noise_key, normal, shuffled, torch_seed, uniform

WORDS = st.integers(-(2**63), 2**63 - 1)


def noise(key: int, stream: int = 0, *shape: int) -> Tensor:
    return uniform(torch.tensor(key), stream, torch.Size(shape or (1000,)))


def test_keys_of_all_seeds_rounds_purposes_and_clients_differ() -> None:
    words = np.array([*product(range(20), range(20), Purpose, range(-1, 20))]).T
    assert len(np.unique(keys(*words))) == 20 * 20 * len(Purpose) * 21


def test_keys_depend_on_the_order_and_the_number_of_words() -> None:
    found = {int(keys(*words)[0]) for words in permutations([1, 2, 3, 0])}
    found |= {int(keys(*[0] * count)[0]) for count in range(5)}
    assert len(found) == 24 + 5


def test_keys_of_an_array_are_those_of_its_elements() -> None:
    clients = np.array([-1, 0, 7, 2**40])
    assert keys(3, clients, 5).tolist() == [int(keys(3, int(c), 5)[0]) for c in clients]
    grid = keys(clients[None], np.arange(3)[:, None])
    assert grid[2, 1] == keys(0, 2)[0] and grid.shape == (3, 4)


@given(WORDS, WORDS)
def test_large_and_negative_words_raise_no_warning(seed: int, client: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        keys(seed, Purpose.ORDER, np.array([client, -1, 2**40]))
        generator(seed, client)
        with torch_seed(seed, client):
            pass


def test_bits_of_keys_are_balanced_and_change_with_every_input_bit() -> None:
    first = keys(np.arange(4096))
    for bit in range(20):
        changed = first ^ keys(np.arange(4096) ^ (1 << bit))
        share = np.unpackbits(changed.view(np.uint8)).mean()
        # 262,144 fair bits: deviation 0.001
        assert abs(share - 0.5) < 0.006


def test_generators_of_other_words_give_other_numbers_and_the_same_words_the_same() -> None:
    one, other, again = (generator(*words).random(4) for words in ((1, 2), (2, 1), (1, 2)))
    assert np.array_equal(one, again) and not np.isin(one, other).any()


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=6), st.integers(0, 3), st.integers(0, 2**40))
def test_shuffled_is_a_permutation_that_no_other_client_changes(sizes: list[int], epoch: int, seed: int) -> None:
    n, order_keys = np.array(sizes, np.int64), keys(seed, np.arange(len(sizes)))
    together = shuffled(order_keys, n, epoch)
    assert together.shape == (len(sizes), max(sizes))
    for lane, count in enumerate(sizes):
        alone = shuffled(order_keys[lane : lane + 1], n[lane : lane + 1], epoch)[0]
        assert np.array_equal(together[lane, :count], alone)
        assert np.array_equal(np.sort(alone), np.arange(count))


def test_every_order_of_three_samples_is_as_likely() -> None:
    orders = shuffled(keys(np.arange(6000)), np.full(6000, 3), 0)
    _, counts = np.unique(orders, axis=0, return_counts=True)
    # chi-square, 5 degrees of freedom: 20.5 is passed by one in a thousand
    assert len(counts) == 6 and ((counts - 1000) ** 2 / 1000).sum() < 20.5


def test_epochs_have_other_orders() -> None:
    orders = [tuple(shuffled(keys(1), np.array([20]), epoch)[0]) for epoch in range(50)]
    assert len(set(orders)) == 50


def test_torch_seed_gives_the_same_module_and_leaves_the_global_generator_alone() -> None:
    before = torch.random.get_rng_state()
    made = []
    for words in ((5, Purpose.MODEL), (5, Purpose.MODEL), (6, Purpose.MODEL)):
        with torch_seed(*words):
            made.append(torch.nn.Linear(3, 3).weight)
    assert torch.equal(made[0], made[1]) and not torch.equal(made[0], made[2])
    assert torch.equal(before, torch.random.get_rng_state())
    with pytest.raises(KeyError), torch_seed(1):
        torch.rand(3)
        raise KeyError
    assert torch.equal(before, torch.random.get_rng_state())


def test_torch_seed_leaves_the_generators_of_gpus_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)
    with torch_seed(1):
        drawn = torch.rand(3)
    assert seeds == []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(keys(1)[0] >> np.uint64(1)))  # noqa: TID251
        assert torch.equal(drawn, torch.rand(3))
    assert len(seeds) == 1


@pytest.mark.parametrize("key", [0, 1, 12345, 2**31 - 1])
@pytest.mark.parametrize("stream", [0, 1, 7])
def test_uniform_has_the_moments_of_the_uniform_distribution(key: int, stream: int) -> None:
    values = noise(key, stream, 300, 1000).double()
    assert values.min() >= 0 and values.max() < 1
    # deviations of these estimates over 300,000 numbers: 0.0005, 0.00014, 0.0018
    assert abs(values.mean() - 1 / 2) < 0.0025
    assert abs(values.var() - 1 / 12) < 0.0007
    flat = values.flatten() - 0.5
    for lag in (1, 2, 1000):
        assert abs((flat[lag:] * flat[:-lag]).mean() * 12) < 0.009
    counts = torch.histc(values.float(), 100, 0, 1)
    # chi-square, 99 degrees of freedom: 148 is passed by one in a thousand
    assert ((counts - 3000) ** 2 / 3000).sum() < 160


def test_uniform_of_neighbouring_keys_and_streams_is_uncorrelated() -> None:
    rows = torch.stack([noise(key, stream, 20000) for key in (5, 6, 2**30) for stream in (0, 1, 2)]).double()
    correlation = torch.corrcoef(rows) - torch.eye(len(rows))
    # deviation of one: 0.007
    assert correlation.abs().max() < 0.035


def test_uniform_of_another_stream_is_not_the_same_numbers_in_another_order() -> None:
    values = [set(noise(5, stream, 1024).tolist()) for stream in range(4)]
    values += [set(noise(key, 0, 1024).tolist()) for key in (6, 7, 2**30)]
    # of 7,168 draws among 2^24 about 1.5 pairs are equal by chance
    assert sum(map(len, values)) - len(set().union(*values)) < 10


def test_uniform_depends_on_the_position_alone() -> None:
    assert torch.equal(noise(9, 1, 4, 6).flatten(), noise(9, 1, 24))
    assert torch.equal(noise(9, 1, 24), noise(9, 1, 30)[:24])
    assert noise(9, 1).shape == (1000,) and len(set(noise(9, 1).tolist())) > 990


@pytest.mark.slow
def test_uniform_is_the_same_eager_vmapped_and_compiled() -> None:
    keys_ = torch.tensor([0, 3, 2**31 - 1])

    def rows(key: Tensor) -> Tensor:
        return vmap(lambda k: uniform(k, 2, torch.Size((7, 11))))(key)

    plain = torch.stack([noise(int(k), 2, 7, 11) for k in keys_])
    assert torch.equal(rows(keys_), plain)
    assert torch.equal(torch.compile(rows, fullgraph=True, dynamic=False)(keys_), plain)


@pytest.mark.parametrize("shape", [(), (7,), (3, 11), (1001,)])
@pytest.mark.parametrize("draw", [uniform, normal])
def test_noise_of_several_keys_is_that_of_each(draw: Callable[..., Tensor], shape: tuple[int, ...]) -> None:
    several = noise_key(3, np.arange(5))
    together = draw(several, 2, shape)
    assert together.shape == (5, *shape) and together.dtype == torch.float32
    assert torch.equal(together, torch.stack([draw(key, 2, shape) for key in several]))
    assert torch.equal(together[[4, 1]], draw(several[[4, 1]], 2, shape))
    assert len(torch.unique(together.flatten())) > 0.99 * together.numel()


def test_normal_noise_is_standard_and_streams_are_independent() -> None:
    one, other = (normal(noise_key(9)[0], stream, (200_000,)).double() for stream in (0, 1))
    # four standard deviations of the estimates from 200,000 draws
    assert abs(one.mean()) < 4 * 200_000**-0.5 and abs(one.var() - 1) < 4 * (2 / 200_000) ** 0.5
    assert abs((one * other).mean()) < 4 * 200_000**-0.5
    assert abs((one > 1.96).double().mean() - 0.025) < 4 * (0.025 / 200_000) ** 0.5
    assert one.isfinite().all()
