from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fl_ddp.engine.transfer import Readings
from fl_ddp.errors import RunError
from fl_ddp.protocol import Term
from fl_ddp.ranks.exact_sum import LIMIT, CohortSum, Sums, bins, exact_total

# 16 of the largest with the largest weight stay below the limit of a sum
MAGNITUDE = st.floats(-12, 6).map(lambda exponent: 10.0**exponent)
SHUFFLES = st.integers(0, 10**6)
NUMBER = st.builds(lambda size, sign: size * sign, MAGNITUDE, st.sampled_from([1.0, -1.0]))


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def add(total: CohortSum, sums: Sums, real: Tensor | None = None) -> CohortSum:
    first = next(iter(sums.values()))
    lanes = (first.value if isinstance(first, Term) else first).shape[0]
    real = torch.ones(lanes) if real is None else real
    total.add(total.of_group(sums, real), sums, real, [f"round 4, client {lane + 30}" for lane in range(lanes)])
    return total


def sum_of(sums: Sums, real: Tensor | None = None, *, exact: bool = True, compile: bool = False) -> dict[str, Tensor]:
    total = add(CohortSum(exact, compile, 1), sums, real)
    return total.totals(total.parts())


@settings(deadline=None, max_examples=100)
@given(st.lists(NUMBER, min_size=1, max_size=20))
def test_bins_are_multiples_that_add_up_to_the_number(numbers: list[float]) -> None:
    d = torch.tensor(numbers, dtype=torch.float64)
    high, low = bins(d)
    assert torch.equal(high, (high * 2.0**24).round() / 2.0**24)
    assert torch.equal(low, (low * 2.0**62).round() / 2.0**62)
    assert ((high + low - d).abs() <= 2.0**-63).all()


@settings(deadline=None, max_examples=100)
@given(st.lists(st.lists(NUMBER, min_size=3, max_size=3), min_size=1, max_size=16), SHUFFLES)
def test_sums_do_not_depend_on_order_groups_or_ranks(clients: list[list[float]], shuffle: int) -> None:
    random = np.random.default_rng(shuffle)
    weight = torch.tensor([1 + 7 * i % 8 for i in range(len(clients))])
    value, minus = torch.tensor(clients), torch.tensor([1e-3, 0.1, -7.0])

    def dealt(order: list[int], lanes: int, num_ranks: int) -> Tensor:
        ranks = [CohortSum(True, False, 1) for _ in range(num_ranks)]
        for number, start in enumerate(range(0, max(len(order), num_ranks * lanes), lanes)):
            part = order[start : start + lanes]
            index = torch.tensor(part + [0] * (lanes - len(part)))
            real = torch.tensor([1.0] * len(part) + [0.0] * (lanes - len(part)))
            add(ranks[number % num_ranks], {"delta": Term(value[index], minus, weight[index])}, real)
        total = [torch.zeros_like(part) for part in ranks[0].parts()]
        for rank in random.permutation(num_ranks):
            total = [a + b for a, b in zip(total, ranks[rank].parts(), strict=True)]
        return ranks[0].totals(total)["delta"]

    order = [*range(len(clients))]
    expected = dealt(order, len(order), 1)
    for lanes, num_ranks in ((1, 1), (2, 3), (5, 2), (3, 4)):
        order = random.permutation(len(clients)).tolist()
        assert torch.equal(dealt(order, lanes, num_ranks), expected)


@settings(deadline=None, max_examples=100)
@given(st.lists(NUMBER, min_size=1, max_size=16))
def test_sums_are_those_of_fsum_to_a_rounding(numbers: list[float]) -> None:
    found = sum_of({"a": torch.tensor(numbers, dtype=torch.float64)})["a"].item()
    expected = math.fsum(numbers)
    # each number is cut at 2^-63, the two bins are added with one rounding
    assert abs(found - expected) <= len(numbers) * 2.0**-63 + 2.0**-52 * abs(expected)


@pytest.mark.parametrize("exponent", [-3, 0, 5])
def test_the_relative_error_of_a_sum_of_small_changes_is_tiny(exponent: int) -> None:
    value = noise(100, 50).double() * 10.0**exponent
    found = sum_of({"a": value})["a"]
    expected = torch.tensor([math.fsum(column) for column in value.T.tolist()], dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=1e-14, atol=100 * 2.0**-63)


@settings(deadline=None, max_examples=50)
@given(st.lists(NUMBER, min_size=1, max_size=50), SHUFFLES)
def test_exact_total_does_not_depend_on_order_or_parts(numbers: list[float], shuffle: int) -> None:
    # at most 50 numbers of at most 10^6 stay below the limit
    expected = exact_total(torch.tensor(numbers))
    np.random.default_rng(shuffle).shuffle(numbers)
    cut = len(numbers) // 3
    parts = [exact_total(torch.tensor(part)) for part in (numbers[cut:], numbers[:cut])]
    assert torch.equal(parts[0] + parts[1], expected)
    assert expected.sum().item() == pytest.approx(math.fsum(torch.tensor(numbers).tolist()), rel=1e-12, abs=1e-16)


SHAPES = [(), (1,), (3,), (2, 3), (70,), (1, 2, 2)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("exact", [True, False])
def test_a_term_is_weight_times_difference_in_all_shapes(shape: tuple[int, ...], exact: bool) -> None:
    lanes = 4
    real = torch.tensor([1.0, 1.0, 0.0, 1.0])
    # eighths and small integers, so that every sum is exact
    value, minus = ((noise(lanes, *shape, seed=s) * 16).round() / 8 for s in (1, 2))
    weight = torch.arange(1.0, lanes + 1)
    full = weight.view(lanes, *[1] * len(shape)).expand(lanes, *shape) + value.abs().round()
    for m, w in product((None, minus[0], minus), (None, weight, full)):
        term = Term(value, m, w)
        expected = (value - (0 if m is None else m)).double()
        if w is not None:
            expected = expected * w.view(lanes, *[1] * (len(shape) + 1 - w.ndim), *w.shape[1:])
        found = sum_of({"a": term}, real, exact=exact)["a"]
        assert found.dtype == torch.float64 and found.shape == shape
        assert torch.equal(found, expected[real > 0].sum(0))


@pytest.mark.parametrize("exact", [True, False])
def test_several_sums_are_flat_vectors_in_order(exact: bool) -> None:
    total = CohortSum(exact, False, 1)
    first = {"n": torch.tensor([2.0, 3.0]), "delta": torch.ones(2, 65), "c": torch.full((2, 2, 2), 0.25)}
    for _ in range(3):
        add(total, first)
    assert {part.ndim for part in total.parts()} == {1}
    found = total.totals([part * 2 for part in total.parts()])
    assert found.keys() == first.keys()
    assert found["n"].item() == 30
    assert torch.equal(found["delta"], torch.full((65,), 12.0, dtype=torch.float64))
    assert torch.equal(found["c"], torch.full((2, 2), 3.0, dtype=torch.float64))


def test_identical_models_average_to_themselves_bit_for_bit() -> None:
    theta = noise(1000)
    weight = torch.tensor([3.0, 11.0, 600.0])
    same = theta[None].expand(3, -1)
    found = sum_of({"weight": weight, "delta": Term(same, theta * 0.9, weight), "none": Term(same, theta, weight)})
    assert not found["none"].any()
    # the change of one client times 614 / 614 rounds in float64, 29 bits below the float32 it is added to
    moved = (theta * 0.9).double() + found["delta"] / found["weight"]
    assert torch.equal(moved.float(), theta)


def test_differences_and_products_are_taken_in_float64() -> None:
    value, minus = torch.tensor([[1.0 + 2.0**-23]]), torch.tensor([2.0**-25])  # their difference has 25 bits
    found = sum_of({"a": Term(value, minus, torch.tensor([3.0]))})["a"].item()
    assert found == 3 * (1 + 2.0**-23 - 2.0**-25)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_padded_lanes_do_not_count_whatever_they_hold(bad: float) -> None:
    value = torch.tensor([[1.0, 2.0], [bad, bad]])
    term = Term(value, value.clone(), torch.tensor([2.0, bad]))
    for exact in (True, False):
        found = sum_of({"a": value, "b": term, "n": torch.tensor([1.0, bad])}, torch.tensor([1.0, 0.0]), exact=exact)
        assert found["a"].tolist() == [1, 2]
        assert found["b"].tolist() == [0, 0]
        assert found["n"].item() == 1
        nothing = sum_of({"a": value}, torch.zeros(2), exact=exact)
        assert nothing["a"].tolist() == [0, 0]


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(
    ("values", "culprit", "what"),
    [
        ([1.0, math.nan, 1.0], 31, "not finite"),
        ([1.0, 1.0, math.inf], 32, "not finite"),
        ([math.inf, -math.inf, 1.0], 30, "not finite"),
        ([1.0, -3e9, 1.0], 31, r"out of range \(-3e\+09\)"),
    ],
)
def test_a_summand_out_of_range_names_client_and_key(values: list[float], culprit: int, what: str, exact: bool) -> None:
    sums = {"n": torch.ones(3), "delta": torch.stack([torch.zeros(3), torch.tensor(values)], 1)}
    with pytest.raises(RunError, match=f"^round 4, client {culprit}: 'delta' is {what}; a smaller --lr usually helps$"):
        sum_of(sums, exact=exact)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("name", ["first", "weighted", "changed"])
@pytest.mark.parametrize(("bad", "what"), [(math.nan, "not finite"), (-3e9, r"out of range \(-3e\+09\)")])
def test_of_several_numbers_the_one_out_of_range_is_named(name: str, bad: float, what: str, exact: bool) -> None:
    values = {each: torch.tensor([1.0, bad if each == name else 1.0]) for each in ("first", "weighted", "changed")}
    sums: Sums = {
        "first": values["first"],
        "delta": torch.zeros(2, 3),
        "weighted": Term(values["weighted"], weight=torch.ones(2)),
        "changed": Term(values["changed"], minus=torch.tensor(0.0)),
    }
    with pytest.raises(RunError, match=f"^round 4, client 31: '{name}' is {what}"):
        sum_of(sums, exact=exact)


@pytest.mark.parametrize("exact", [True, False])
def test_of_several_numbers_the_sum_above_the_limit_is_named(exact: bool) -> None:
    of_rank: Sums = {"n": torch.ones(1), "a": torch.full((1,), LIMIT * 0.7)}
    with pytest.raises(RunError, match="the sum of 'a' over the cohort is above 134217728"):
        add(add(CohortSum(exact, False, 1), of_rank), of_rank)
    ranks = [add(CohortSum(exact, False, 1), of_rank) for _ in "12"]
    with pytest.raises(RunError, match="the sum of 'a' over the cohort is above 134217728"):
        ranks[0].totals([a + b for a, b in zip(*(rank.parts() for rank in ranks), strict=True)])


@pytest.mark.parametrize("exact", [True, False])
def test_numbers_have_the_sums_that_each_has_alone(exact: bool) -> None:
    fine = torch.arange(32).double() / 3 + 1e5  # float32 holds none of them
    sums: Sums = {
        "fine": fine,
        "whole": torch.arange(32),
        "loss": Term(noise(32), weight=noise(32, seed=5).abs()),
        "change": Term(noise(32, seed=1), minus=noise(32, seed=2), weight=noise(32, seed=3).double()),
        "from one": Term(noise(32, seed=4), minus=torch.tensor(0.3)),
        "half": noise(32, seed=6).half(),
    }
    together = sum_of(sums, exact=exact)
    assert not exact or together["fine"].item() == pytest.approx(math.fsum(fine.tolist()), rel=1e-15)
    for name, summand in sums.items():
        assert torch.equal(together[name], sum_of({name: summand}, exact=exact)[name]), name
    assert list(together) == list(sums)


def test_any_number_of_numbers_may_be_summed() -> None:
    many = {f"n{i}": torch.full((2,), float(i)) for i in range(5000)}
    assert [*sum_of(many, compile=True).values()] == [2.0 * i for i in range(5000)]


def test_of_a_model_that_is_not_finite_its_change_is_told_before_its_loss() -> None:
    with pytest.raises(RunError, match="client 30: 'delta' is not finite"):
        sum_of({"loss": torch.tensor([math.nan]), "delta": torch.full((1, 3), math.nan)})


def test_summands_out_of_range_that_cancel_are_found() -> None:
    # 2^60 swallows the 1: such a sum would depend on order
    with pytest.raises(RunError, match=r"client 30: 'a' is out of range \(1\.15e\+18\)"):
        sum_of({"a": torch.tensor([2.0**60, -(2.0**60), 1.0])})


def test_a_product_that_overflows_is_not_finite() -> None:
    with pytest.raises(RunError, match="client 31: 'a' is out of range"):
        sum_of({"a": Term(torch.full((2, 1), 1e30), None, torch.tensor([0.0, 1.0]))})
    with pytest.raises(RunError, match="client 31: 'a' is not finite"):
        sum_of({"a": Term(torch.tensor([0.0, math.nan]), None, torch.zeros(2))})


@pytest.mark.parametrize("exact", [True, False])
def test_a_sum_above_the_limit_is_refused(exact: bool) -> None:
    each = torch.full((1, 1), LIMIT * 0.7)
    total = add(CohortSum(exact, False, 1), {"a": each})
    with pytest.raises(RunError, match="the sum of 'a' over the cohort is above 134217728"):
        add(total, {"a": each})


@pytest.mark.parametrize("exact", [True, False])
def test_a_sum_of_no_numbers_is_one(exact: bool) -> None:
    assert sum_of({"a": torch.ones(3, 1), "none": torch.zeros(3, 0)}, exact=exact)["none"].shape == (0,)


def test_large_summands_of_a_group_that_would_cancel_are_refused() -> None:
    each = torch.tensor([0.97, -0.97] * 8)[:, None] * LIMIT  # on the way their sum is beyond what two bins hold exactly
    with pytest.raises(RunError, match="client 30: 'a' is out of range"):
        sum_of({"a": each})


@pytest.mark.parametrize("exact", [True, False])
def test_a_sum_above_the_limit_is_refused_on_several_ranks_too(exact: bool) -> None:
    ranks = [add(CohortSum(exact, False, 1), {"n": torch.ones(1), "a": torch.full((1, 1), LIMIT * 0.7)}) for _ in "12"]
    with pytest.raises(RunError, match="the sum of 'a' over the cohort is above 134217728"):
        ranks[0].totals([a + b for a, b in zip(*(rank.parts() for rank in ranks), strict=True)])


def test_fast_sums_are_close_to_exact_ones_at_half_the_traffic() -> None:
    value, minus, weight = noise(20, 300), noise(300, seed=1), torch.arange(1.0, 21)
    sums: Sums = {"n": weight, "delta": Term(value, minus, weight)}
    exact, fast = (sum_of(sums, exact=e) for e in (True, False))
    for name in exact:
        torch.testing.assert_close(fast[name], exact[name], rtol=1e-5, atol=1e-4)
    exact_parts, fast_parts = (add(CohortSum(e, False, 1), sums).parts() for e in (True, False))
    assert {part.dtype for part in fast_parts} == {torch.float32}
    assert sum(part.nbytes for part in exact_parts) == 4 * sum(part.nbytes for part in fast_parts)


@pytest.mark.parametrize(
    ("size", "kind"), [(4097, "weight"), (159_010, "minus"), (5003, "odd views"), (5003, "float64")]
)
def test_compiled_sums_are_the_eager_ones_bit_for_bit(size: int, kind: str) -> None:
    def view(*shape: int, seed: int) -> Tensor:
        """A tensor whose rows start off the alignment of vector instructions."""
        return noise(*shape[:-1], shape[-1] + 3, seed=seed)[..., 1:-2]

    make = view if kind == "odd views" else noise
    value = make(3, size, seed=1)
    value *= 10.0 ** torch.randint(-9, 4, (3, size), generator=torch.Generator().manual_seed(5))
    value[2] = math.nan
    minus = {"weight": None, "minus": make(size, seed=2)}.get(kind, make(3, size, seed=2))
    weight = torch.tensor([0.3, 700.1, 5.0]) if kind in ("weight", "minus") else make(3, size, seed=3)
    if kind == "float64":
        # the shapes of the case before
        value, minus = value.double() / 3, noise(3, size, seed=2).double() / 3
    sums, real = {"a": Term(value, minus, weight)}, torch.tensor([1.0, 1.0, 0.0])
    # a method's sums come in several shapes and a process may run many models: none may count against another's limit
    with torch._dynamo.config.patch(recompile_limit=1):
        compiled, eager = (add(add(CohortSum(True, c, 1), sums, real), sums, real) for c in (True, False))
    for a, b in zip(compiled.parts(), eager.parts(), strict=True):
        assert torch.equal(a, b) and a.any()


def test_questions_are_answered_in_order_by_one_reading() -> None:
    readings = Readings("cuda")
    total = CohortSum(True, False, 1, readings=readings)
    each = torch.tensor([[1.0], [math.nan]])
    add(total, {"n": torch.tensor([1.0, 2.0]), "a": each, "b": each})
    add(total, {"n": torch.ones(1), "a": torch.full((1, 1), math.inf)})
    with pytest.raises(RunError, match="client 31: 'a' is not finite"):
        readings.read()
    total = CohortSum(True, False, 1, readings=readings)
    for _ in "12":
        add(total, {"n": torch.tensor([1.0, 2.0]), "a": torch.ones(2, 3)})
    found = total.totals(total.parts())
    assert total.numbers == {}
    readings.read()
    assert total.numbers == {"n": 6.0} and found["a"].tolist() == [4, 4, 4]
