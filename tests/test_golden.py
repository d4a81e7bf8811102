"""Short runs of the main job and of every method end with the bits they always had."""

from __future__ import annotations

import golden
import pytest

from fl_ddp.config import registry

RUNS = golden.runs()


@pytest.mark.parametrize("name", RUNS)
def test_golden_bits(name: str) -> None:
    known = golden.stored().get(golden.machine(), {})
    if name not in known:
        pytest.skip(f"no bits are known for {golden.machine()}; python tests/support/golden.py writes them")
    found = golden.bits(RUNS[name])
    of_known = {kind: found[kind] for kind in known[name]}  # a change of traffic alone leaves a machine its parameters
    assert of_known == known[name], "another change of numerics: CHANGELOG.md says why, or mend it"


def test_every_method_has_golden_bits() -> None:
    runs = {settings["method"] for name, settings in RUNS.items() if name != "main job"}
    assert runs == set(registry.known("method"))
    assert all(known.keys() <= RUNS.keys() for known in golden.stored().values())
    machines = golden.stored().values()
    assert all("parameters" in bits for known in machines for bits in known.values())
    assert any(known.keys() == RUNS.keys() and all("metrics" in of for of in known.values()) for known in machines)
