"""What would run on a GPU of each shipped model's local step and Fisher pass."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from emitted_models import CONVOLVED, MODELS, MOST, RECORDED, VERSION, Seen, kept, seen_apart

KEPT = kept()
pytestmark = [
    pytest.mark.cuda_code,
    pytest.mark.skipif(find_spec("triton") is None, reason="this build of torch has no Triton"),
]


@pytest.mark.parametrize("name", MODELS)
def test_local_step_is_repeatable_and_moves_no_more_than_it_did(name: str) -> None:
    code = seen_apart(name, "step")
    assert code.numbers.launches <= MOST.get(name, 1000)
    check(name, "step", code)


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_step_is_as_repeatable_and_finds_its_samples_in_few_launches(name: str) -> None:
    """Beside those of the step that is given its samples: the row of indices, the counter."""
    code = seen_apart(name, "recorded")
    assert code.numbers.launches <= MOST.get(name, 1000) + 2
    check(name, "recorded", code)


@pytest.mark.parametrize(("name", "what"), CONVOLVED)
def test_convolutions_are_products_on_all_ways(name: str, what: str) -> None:
    assert seen_apart(name, what).convolutions == 0


def test_what_is_fixed_has_no_gradient_and_is_not_written() -> None:
    """The MLP's first layer is read once, where a step reads and writes it and computes its gradient."""
    whole, head = seen_apart("MLP", "step").numbers, seen_apart("MLP", "head").numbers
    assert head.launches < whole.launches and head.bytes < whole.bytes / 2, (head, whole)


@pytest.mark.parametrize("name", MODELS)
def test_fisher_pass_is_repeatable_and_moves_no_more_than_it_did(name: str) -> None:
    check(name, "fisher", seen_apart(name, "fisher"))


def check(name: str, what: str, code: Seen) -> None:
    """Same bits whatever the machine and other kernels do, no parameter written too early, few launches and bytes."""
    assert code.atomics == []
    assert code.late_reads == set()
    assert code.configurations <= {1}
    assert code.fuses == []
    assert code.hashes == []
    if name not in KEPT or what not in KEPT[name]:
        pytest.skip(f"emitted.json has no numbers of it with torch {VERSION}: emitted_models.py writes them")
    most = KEPT[name][what]
    assert all(ours <= theirs for ours, theirs in zip(code.numbers, most, strict=True)), (code.numbers, most)
