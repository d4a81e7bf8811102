"""Partitions: invariants for any labels, the published settings, and the errors of impossible ones."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fl_ddp.datasets.mnist import MNIST
from fl_ddp.errors import ConfigError, RunError
from fl_ddp.partitions.blocks import Blocks
from fl_ddp.partitions.classes import Classes
from fl_ddp.partitions.client_dirichlet import ClientDirichlet
from fl_ddp.partitions.dirichlet import Dirichlet
from fl_ddp.partitions.from_file import FromFile
from fl_ddp.partitions.iid import IID
from fl_ddp.partitions.local_split import drawn_like, local_split
from fl_ddp.partitions.partition import Partition
from fl_ddp.partitions.quantity import Quantity
from fl_ddp.partitions.shards import Shards
from fl_ddp.protocol import Indices

ALPHAS = st.sampled_from([1e-320, 1e-300, 1e-8, 0.01, 0.1, 1.0, 100.0, 1e308])


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def balanced_labels(num_samples: int = 1000, num_classes: int = 10) -> Indices:
    return np.arange(num_samples) % num_classes


@st.composite
def labels_and_clients(draw: st.DrawFn) -> tuple[Indices, int, int]:
    """Skewed labels with gaps, a number of clients and a least size that fit them."""
    num_samples = draw(st.integers(1, 300))
    classes = draw(st.lists(st.integers(0, 12), min_size=1, max_size=6, unique=True))
    labels = generator(draw(st.integers(0, 9))).choice(np.array(classes), num_samples)
    num_clients = draw(st.integers(1, num_samples))
    return labels, num_clients, draw(st.integers(1, num_samples // num_clients))


def assert_division(parts: list[Indices], num_samples: int, num_clients: int, *, complete: bool = True) -> None:
    assert len(parts) == num_clients
    assert all(part.dtype == np.int64 for part in parts)
    assert all((np.diff(part) > 0).all() for part in parts), "each ascending, without repeats"
    together = np.sort(np.concatenate(parts))
    assert len(np.unique(together)) == len(together), "disjoint"
    if complete:
        np.testing.assert_array_equal(together, np.arange(num_samples))


@settings(max_examples=60, deadline=None)
@given(case=labels_and_clients(), alpha=ALPHAS, seed=st.integers(0, 5))
def test_partitions_with_minimum_size_are_disjoint_complete_and_end(
    case: tuple[Indices, int, int], alpha: float, seed: int
) -> None:
    labels, num_clients, min_size = case
    kinds: list[Partition] = [
        IID(min_size=min_size),
        Dirichlet(alpha=alpha, min_size=min_size),
        Quantity(alpha=alpha, min_size=min_size),
        ClientDirichlet(alpha=alpha, min_size=min_size, overlap=False),
    ]
    for partition in kinds:
        parts = partition.split(labels, num_clients, generator(seed))
        assert_division(parts, len(labels), num_clients)
        assert min(len(part) for part in parts) >= min_size


@settings(max_examples=60, deadline=None)
@given(case=labels_and_clients(), seed=st.integers(0, 5))
def test_shards_are_complete_and_differ_by_at_most_one_sample_each(case: tuple[Indices, int, int], seed: int) -> None:
    labels, num_clients, shards_per_client = case
    parts = Shards(shards_per_client=shards_per_client).split(labels, num_clients, generator(seed))
    assert_division(parts, len(labels), num_clients)
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= shards_per_client


@settings(max_examples=60, deadline=None)
@given(case=labels_and_clients(), seed=st.integers(0, 5))
def test_blocks_are_homogeneous_and_as_large_as_possible(case: tuple[Indices, int, int], seed: int) -> None:
    labels, num_clients, blocks_per_client = case
    parts = Blocks(blocks_per_client=blocks_per_client).split(labels, num_clients, generator(seed))
    assert_division(parts, len(labels), num_clients, complete=False)
    size, rest = divmod(len(parts[0]), blocks_per_client)
    assert rest == 0
    assert {len(part) for part in parts} == {size * blocks_per_client}
    assert all((np.bincount(labels[part]) % size == 0).all() for part in parts)
    assert (np.bincount(labels) // size).sum() >= num_clients * blocks_per_client
    assert (np.bincount(labels) // (size + 1)).sum() < num_clients * blocks_per_client


@pytest.mark.parametrize(
    "partition",
    [IID(), Shards(), Blocks(), Dirichlet(), Quantity(), ClientDirichlet(), ClientDirichlet(overlap=False)],
    ids=str,
)
def test_partition_is_a_function_of_the_generator(partition: Partition) -> None:
    labels = balanced_labels()
    first, again, other = (partition.split(labels, 20, generator(seed)) for seed in (3, 3, 4))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize(
    "partition",
    [
        IID(), Blocks(), Classes(classes_per_client=1), Dirichlet(alpha=100), Quantity(alpha=100), ClientDirichlet(),
        ClientDirichlet(overlap=False),
    ],
    ids=str,
)  # fmt: skip
def test_samples_of_a_class_are_dealt_at_random(partition: Partition) -> None:
    parts = partition.split(np.zeros(1000, np.int64), 10, generator())
    for part in parts:  # a tenth of all, with gaps of a tenth of the samples at most, by chance
        assert 50 < len(part) < 200
        assert len(np.unique(np.diff(part))) > 5 and part[0] < 200 and part[-1] >= 800


def test_clients_that_overlap_draw_samples_of_their_own() -> None:
    parts = ClientDirichlet(alpha="inf").split(balanced_labels(1000), 10, generator())
    different = len(np.unique(np.concatenate(parts)))
    assert different == pytest.approx(1000 * (1 - 0.9**10), rel=0.1)  # of ten draws of a tenth


def test_blocks_that_are_dealt_are_drawn_from_all_classes() -> None:
    labels = np.sort(balanced_labels(1000))
    parts = Blocks(blocks_per_client=1, block_size=10).split(labels, 20, generator())  # 20 of 100 blocks
    assert len(np.unique(labels[np.concatenate(parts)])) > 5


def test_iid_sizes_differ_by_at_most_one() -> None:
    assert sorted({len(part) for part in IID().split(balanced_labels(103), 10, generator())}) == [10, 11]


def test_two_shards_give_at_most_two_labels_where_shards_do_not_straddle() -> None:
    labels = balanced_labels()
    parts = Shards(shards_per_client=2).split(labels, 50, generator())
    assert all(len(part) == 20 and len(np.unique(labels[part])) <= 2 for part in parts)


def test_shards_are_dealt_at_random() -> None:
    labels = np.sort(balanced_labels())
    parts = Shards(shards_per_client=2).split(labels, 50, generator())
    assert len({tuple(np.unique(labels[part])) for part in parts}) > 10


def test_small_alpha_skews_labels_and_large_alpha_does_not() -> None:
    labels = balanced_labels(10_000)

    def mean_largest_share(alpha: float) -> float:
        parts = Dirichlet(alpha=alpha).split(labels, 10, generator(1))
        return float(np.mean([np.max(np.bincount(labels[part])) / len(part) for part in parts]))

    assert mean_largest_share(0.05) > 0.5
    assert mean_largest_share(1000.0) < 0.15


def test_dirichlet_draws_no_class_for_a_client_that_has_its_share() -> None:
    labels = np.sort(balanced_labels(1000, 4))
    for seed in range(8):  # each class goes to one client; two of four would by chance in 6 of 16 draws
        parts = Dirichlet(alpha=1e-8).split(labels, 2, generator(seed))
        assert [len(part) for part in parts] == [500, 500]


@settings(max_examples=60, deadline=None)
@given(case=labels_and_clients(), alpha=ALPHAS | st.just("inf"), seed=st.integers(0, 5))
def test_client_dirichlet_clients_overlap_but_repeat_nothing(
    case: tuple[Indices, int, int], alpha: Literal["inf"] | float, seed: int
) -> None:
    labels, num_clients, min_size = case
    parts = ClientDirichlet(alpha=alpha, min_size=min_size).split(labels, num_clients, generator(seed))
    assert len(parts) == num_clients
    for part in parts:
        assert part.dtype == np.int64 and (np.diff(part) > 0).all() and part[0] >= 0 and part[-1] < len(labels)
        assert min_size <= len(part) <= max(min_size, len(labels) // num_clients)


@settings(max_examples=60, deadline=None)
@given(case=labels_and_clients(), alpha=ALPHAS | st.just("inf"), seed=st.integers(0, 5))
def test_client_dirichlet_apart_is_complete_and_sizes_differ_by_at_most_one(
    case: tuple[Indices, int, int], alpha: Literal["inf"] | float, seed: int
) -> None:
    labels, num_clients, _ = case
    parts = ClientDirichlet(alpha=alpha, overlap=False).split(labels, num_clients, generator(seed))
    assert_division(parts, len(labels), num_clients)
    assert {len(part) for part in parts} <= {len(labels) // num_clients, -(-len(labels) // num_clients)}


@pytest.mark.parametrize("overlap", [True, False])
def test_client_dirichlet_shares_are_those_of_its_distribution(overlap: bool) -> None:
    labels = balanced_labels(50_000)

    def counts(alpha: Literal["inf"] | float, num_clients: int) -> Indices:
        parts = ClientDirichlet(alpha=alpha, overlap=overlap).split(labels, num_clients, generator(1))
        return np.array([np.bincount(labels[part], minlength=10) for part in parts])

    assert (counts("inf", 10) == 500).all()
    shares = counts(1.0, 250) / 200
    variance = 0.1 * 0.9 / (10 * 1.0 + 1)  # of a coordinate of Dirichlet(1, ..., 1)
    assert shares.var(axis=0).mean() == pytest.approx(variance, rel=0.25)
    assert (counts(0.01, 10).max(axis=1) > 2000).sum() >= 8


def test_client_dirichlet_takes_whole_parts_of_5000_images_for_ten_clients_on_50000() -> None:
    labels = np.sort(balanced_labels(50_000))
    parts = ClientDirichlet(alpha=10.0).split(labels, 10, generator(1))
    drawn = generator(1).dirichlet(np.full(10, 10.0), 10)
    counts = [np.bincount(labels[part], minlength=10) for part in parts]
    np.testing.assert_array_equal(counts, (5000 * drawn).astype(int))
    assert len(np.unique(np.concatenate(parts))) < sum(map(len, parts)), "clients overlap"


def test_client_dirichlet_takes_all_of_a_class_that_is_too_small() -> None:
    labels = np.repeat([0, 1], [10, 990])
    parts = ClientDirichlet(alpha="inf").split(labels, 2, generator())
    assert [np.bincount(labels[part]).tolist() for part in parts] == [[10, 250], [10, 250]]
    parts = ClientDirichlet(alpha="inf", overlap=False).split(labels, 2, generator())
    assert [np.bincount(labels[part]).tolist() for part in parts] == [[5, 495], [5, 495]]


def test_quantity_skews_sizes_and_keeps_the_mixture_of_labels() -> None:
    labels = np.sort(balanced_labels(100_000))
    parts = Quantity(alpha=0.5).split(labels, 20, generator(1))
    sizes = np.array([len(part) for part in parts])
    assert sizes.max() > 10 * sizes.min()
    largest = np.bincount(labels[parts[int(np.argmax(sizes))]]) / sizes.max()
    np.testing.assert_allclose(largest, 0.1, atol=0.02)  # four deviations of a share of 0.1 among 5,000 samples


@pytest.mark.data
def test_fedcurv_blocks_on_mnist_have_306_images_and_leave_out_1248() -> None:
    labels = MNIST(root=os.environ["FL_DDP_DATA"]).load().y_train.astype(np.int64)
    parts = Blocks().split(labels, 96, generator())
    assert {len(part) for part in parts} == {612}
    assert len(labels) - sum(len(part) for part in parts) == 1248


@pytest.mark.slow
def test_hundred_thousand_clients_share_a_million_samples() -> None:
    labels = balanced_labels(1_000_000)
    for partition in (IID(), Shards(), Quantity(), ClientDirichlet(overlap=False)):
        parts = partition.split(labels, 100_000, generator())
        assert sum(len(part) for part in parts) == 1_000_000


@pytest.mark.parametrize(
    ("make", "num_clients", "message"),
    [
        (lambda: IID(), 1001, "--clients: 1001 clients of at least 1"),
        (lambda: IID(min_size=51), 20, "--clients: 20 clients of at least 51"),
        (lambda: IID(min_size=0), 20, "--partition.min_size: 0 is impossible"),
        (
            lambda: Shards(shards_per_client=51),
            20,
            "shards_per_client: 51 is impossible; accepted: 1 to 50",
        ),
        (lambda: Shards(shards_per_client=0), 20, "--partition.shards_per_client: 0 is impossible"),
        (lambda: Blocks(blocks_per_client=0), 20, "--partition.blocks_per_client: 0 is impossible"),
        (lambda: Blocks(block_size=26), 20, "--partition.block_size: 26 is impossible; accepted: 1 to 25"),
        (lambda: Blocks(block_size=2, min_size=5), 20, "--partition.min_size: Blocks gives client 0 only 4 samples"),
        (lambda: Dirichlet(alpha=0.0), 20, "--partition.alpha: 0.0 is impossible"),
        (lambda: Dirichlet(alpha=float("nan")), 20, "--partition.alpha: nan is impossible"),
        (lambda: Quantity(alpha=-1.0), 20, "--partition.alpha: -1.0 is impossible"),
        (
            lambda: ClientDirichlet(alpha=0.0),
            20,
            "alpha: 0.0 is impossible; accepted: inf or numbers above 0",
        ),
        (lambda: FromFile(), 20, "--partition.path: no file is named"),
    ],
)
def test_impossible_partition_is_one_line_that_names_the_option(
    make: Callable[[], Partition], num_clients: int, message: str
) -> None:
    with pytest.raises(ConfigError) as error:
        make().split(balanced_labels(), num_clients, generator())
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@settings(max_examples=60, deadline=None)
@given(case=labels_and_clients(), share=st.sampled_from([0.0, 0.1, 0.5, 0.99]))
def test_local_split_divides_every_client_and_keeps_a_training_sample(
    case: tuple[Indices, int, int], share: float
) -> None:
    labels, num_clients, _ = case
    clients = IID().split(labels, num_clients, generator())
    train, test = local_split(clients, share, generator(1))
    assert_division([*train, *test], len(labels), 2 * num_clients)
    for whole, kept, aside in zip(clients, train, test, strict=True):
        np.testing.assert_array_equal(np.sort(np.concatenate([kept, aside])), whole)
        assert len(aside) == min(round(share * len(whole)), len(whole) - 1)


@settings(max_examples=60, deadline=None)
@given(case=labels_and_clients(), share=st.sampled_from([0.0, 0.1, 0.5, 0.99]))
def test_local_split_of_overlapping_clients_tests_nobody_on_what_another_trains_on(
    case: tuple[Indices, int, int], share: float
) -> None:
    labels, num_clients, _ = case
    clients = ClientDirichlet().split(labels, num_clients, generator())
    train, test = local_split(clients, share, generator(1))
    for whole, kept, aside in zip(clients, train, test, strict=True):
        np.testing.assert_array_equal(np.sort(np.concatenate([kept, aside])), whole)
        assert len(kept) >= 1
    assert not set(np.concatenate(train)) & set(np.concatenate(test))


def test_local_split_of_overlapping_clients_keeps_the_share_on_average() -> None:
    clients = ClientDirichlet(alpha=10.0).split(balanced_labels(50_000), 10, generator())
    _, test = local_split(clients, 0.2, generator(1))
    assert all(abs(len(aside) / len(whole) - 0.2) < 0.03 for aside, whole in zip(test, clients, strict=True))


def test_local_split_chooses_at_random() -> None:
    _, (first,) = local_split([np.arange(100)], 0.2, generator(1))
    _, (other,) = local_split([np.arange(100)], 0.2, generator(2))
    assert not np.array_equal(first, other)
    assert not np.array_equal(first, np.arange(20))


def test_test_samples_are_drawn_in_a_client_s_shares_of_the_classes() -> None:
    labels, test_labels = balanced_labels(1000), np.random.default_rng(0).permutation(np.arange(150) % 10)
    clients = [np.flatnonzero(labels == 3)[:50], np.flatnonzero((labels == 3) | (labels == 7)), np.zeros(0, np.int64)]
    parts = drawn_like(clients, labels, test_labels, 0.1, generator(1))
    assert [dict(Counter(test_labels[part].tolist())) for part in parts] == [{3: 5}, {3: 10, 7: 10}, {}]
    assert all(len(np.unique(part)) == len(part) and (np.diff(part) > 0).all() for part in parts)
    assert not np.array_equal(parts[0], drawn_like(clients, labels, test_labels, 0.1, generator(2))[0])
    all_there_are = drawn_like(clients, labels, test_labels, 0.9, generator(1))
    assert [len(part) for part in all_there_are] == [15, 30, 0]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (None, r"gives NoneType; accepted: 3 arrays of indices, one for each client"),
        ([np.arange(3)] * 2, r"gives 2 parts; accepted: 3 arrays"),
        ([np.arange(3), np.array([-1, 2]), np.arange(3)], r"gives client 1 the sample -1; accepted: 0 to 9"),
        ([np.arange(3), np.arange(3), np.array([10])], r"gives client 2 the sample 10; accepted: 0 to 9"),
        ([np.arange(3), np.array([0.5]), np.arange(3)], r"gives client 1 an array of float64 \[1\]; accepted: whole"),
        ([np.arange(3), np.eye(2, dtype=int), np.arange(3)], r"gives client 1 an array of int64 \[2, 2\]; accepted"),
        ([np.arange(3), [1, [2, 3]], np.arange(3)], r"gives client 1 lists within a list; accepted: whole numbers"),
        ([np.arange(3), np.array([4, 4]), np.arange(3)], r"gives client 1 a sample twice; accepted: each at most once"),
    ],
)
def test_what_a_users_division_gives_is_looked_at(parts: object, message: str) -> None:
    class Mine(IID):
        def divide(self, labels: Indices, num_clients: int, rng: np.random.Generator) -> list[Indices]:
            return parts  # type: ignore[return-value]

    with pytest.raises(ConfigError, match=rf"^\S*test_partitions.py:\d+: divide of Mine: {message}"):
        Mine().split(np.zeros(10, np.int64), 3, np.random.default_rng(0))


def test_clients_of_a_users_division_may_share_samples_and_have_them_in_lists_in_any_order() -> None:
    class Mine(IID):
        def divide(self, labels: Indices, num_clients: int, rng: np.random.Generator) -> list[Indices]:
            return [[2, 1], [2, 3]]  # type: ignore[list-item]

    parts = Mine().split(np.zeros(10, np.int64), 2, np.random.default_rng(0))
    assert [part.tolist() for part in parts] == [[1, 2], [2, 3]] and parts[0].dtype == np.int64


def test_a_users_division_draws_from_what_it_is_given_and_writes_into_no_labels() -> None:
    class Draws(IID):
        def divide(self, labels: Indices, num_clients: int, rng: np.random.Generator) -> list[Indices]:
            return np.array_split(np.random.permutation(len(labels)), num_clients)

    class Sorts(IID):
        def divide(self, labels: Indices, num_clients: int, rng: np.random.Generator) -> list[Indices]:
            labels.sort()
            return np.array_split(np.arange(len(labels)), num_clients)

    with pytest.raises(RunError, match=r"divide of Draws draws from numpy's global generator .*; draw from rng, which"):
        Draws().split(np.zeros(10, np.int64), 2, np.random.default_rng(0))
    with pytest.raises(ValueError, match="read-only"):
        Sorts().split(np.arange(10)[::-1].copy(), 2, np.random.default_rng(0))
