"""The Fisher's kernel: right in Triton's interpreter, and what ptxas makes of it."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import pytest
from cubin import cubin
from interpreted_scripts import interpreted

CASES = ("plain", "padded", "same", "strided", "exact", "absolute", "linear", "linear exact")
pytestmark = [
    pytest.mark.cuda_code,
    pytest.mark.skipif(find_spec("triton") is None, reason="this build of torch has no Triton"),
]


COMPANY = tuple(f"company of {outputs} outputs" for outputs in (5, 40, 100))


@cache
def errors() -> dict[str, float]:
    """Of the kernel in Triton's interpreter beside a CPU in float64, by case, and beside itself in other company."""
    return interpreted("products")


@pytest.mark.parametrize("case", CASES)
def test_kernel_sums_the_powers_that_a_cpu_does(case: str) -> None:
    assert set(errors()) == {*CASES, *COMPANY}
    assert errors()[case] < 1e-6


@pytest.mark.parametrize("case", COMPANY)
def test_a_lane_s_bits_depend_on_nothing_else(case: str) -> None:
    assert errors()[case] == 0


@pytest.mark.parametrize("precision", ["ieee", "tf32"])
def test_kernel_keeps_to_its_registers_and_adds_nothing_by_atomics(precision: str) -> None:
    from fl_ddp.importance.products_kernel import BLOCKS, STAGES, WARPS, powers

    constants = {"kernel_h": 3, "kernel_w": 3, "square": True, "precision": precision, **BLOCKS}
    found = cubin(powers, {"x", "d", "out"}, constants, WARPS, STAGES)
    assert found.stack == 0 and found.shared <= 232448
    assert {name: found.instructions[name] for name in ("LDL", "STL", "RED", "ATOM")} == dict.fromkeys(
        ("LDL", "STL", "RED", "ATOM"), 0
    )
    assert (found.instructions["HGMMA"] > 0) is (precision == "tf32")


def test_pieces_are_added_in_order_by_one_thread_each() -> None:
    from fl_ddp.importance.products_kernel import added

    found = cubin(added, {"pieces", "out"}, {"at_once": 1024}, 4, 1)
    assert found.stack == 0
    assert {name: found.instructions[name] for name in ("RED", "ATOM")} == {"RED": 0, "ATOM": 0}
