"""So many labels for each client, no more and no less."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fl_ddp.errors import ConfigError
from fl_ddp.partitions.classes import Classes
from fl_ddp.protocol import Indices


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@st.composite
def divisions(draw: st.DrawFn) -> tuple[Indices, int, int]:
    """Labels with gaps, as many samples as clients of each at least; clients, and labels of each that fit them."""
    num_clients, num_labels = draw(st.integers(1, 12)), draw(st.integers(1, 8))
    labels = np.repeat(3 * np.arange(num_labels) + 1, generator(draw(st.integers(0, 9))).integers(12, 40, num_labels))
    each = draw(st.integers(-(-num_labels // num_clients), num_labels))
    return generator().permutation(labels), num_clients, each


@settings(max_examples=60, deadline=None)
@given(case=divisions(), seed=st.integers(0, 5))
def test_every_client_has_so_many_labels_and_every_label_its_clients(case: tuple[Indices, int, int], seed: int) -> None:
    labels, num_clients, each = case
    parts = Classes(classes_per_client=each).split(labels, num_clients, generator(seed))
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(len(labels))), "complete and disjoint"
    counts = np.array([[(labels[part] == label).sum() for label in np.unique(labels)] for part in parts])
    assert ((counts > 0).sum(1) == each).all()
    owners: list[int] = (counts > 0).sum(0).tolist()
    assert max(owners) - min(owners) <= 1
    for of_label in counts.T.tolist():
        held = [number for number in of_label if number > 0]
        assert max(held) - min(held) <= 1


def test_it_is_a_function_of_the_generator_and_deals_at_random() -> None:
    labels = np.arange(1000) % 10
    first, again, other = (Classes().split(labels, 20, generator(seed)) for seed in (3, 3, 4))
    assert all(map(np.array_equal, first, again)) and not all(map(np.array_equal, first, other))
    pairs = {tuple(np.unique(labels[part])) for part in first}
    assert len(pairs) > 10, "clients differ in their labels"
    dealt_in_turn = [np.unique(np.diff(part[labels[part] == label])) for part in first for label in range(10)]
    assert max(map(len, dealt_in_turn)) > 5, "a client's samples of a label are anywhere among those of it"


@pytest.mark.parametrize(
    ("each", "num_clients", "message"),
    [
        (1, 5, "--partition.classes_per_client: 1 is impossible with 10 labels and 5 clients; accepted: 2 to 10"),
        (11, 5, "--partition.classes_per_client: 11 is impossible with 10 labels and 5 clients; accepted: 2 to 10"),
        (10, 11, "10 gives 11 clients the label 0, which 10 samples have; accepted: fewer, or fewer --clients"),
    ],
)
def test_what_is_impossible_is_refused(each: int, num_clients: int, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        Classes(classes_per_client=each).split(np.arange(100) % 10, num_clients, generator())
    assert message in str(error.value)


def test_a_hundred_thousand_clients_share_a_million_samples() -> None:
    parts = Classes(classes_per_client=3).split(np.arange(1_000_000) % 10, 100_000, generator())
    assert sum(map(len, parts)) == 1_000_000
