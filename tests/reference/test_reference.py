"""Every number of a run is that of the reference, a second simulator that is written to be read."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases import CASES
from comparison import differences, start_of
from launching import simulated
from reference_run import program_options, reference_rounds
from round_loop import Round
from samples import write_samples
from shared_options import Options
from stored_run import divided, final_parameters, stored_rounds


def both(case: Options, folder: Path) -> tuple[list[Round], list[Round]]:
    """A case as the program and as the reference play it; the run's folder is `run`."""
    write_samples(folder)
    run = simulated(program_options(case, folder) | {"name": "run"}, folder)
    return stored_rounds(run, start_of(case)), reference_rounds(case, folder, divided(run / "partition.json"))


PLAIN = {case["method"]: name for name, case in list(CASES.items())[::-1] if "network" not in case}
"""A case of each method."""
AT_ONCE = {
    *PLAIN.values(), *(f"{method}: batch norm" for method in ("FedAvg", "FedAvgM", "FedKA", "FedFomo")),
    "FedAvg: single precision", "FedAvg: kept momentum", "FedALA: kept momentum",
}  # fmt: skip
"""What the default suite has of them."""


@pytest.mark.parametrize(
    "name", [name if name in AT_ONCE else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
def test_every_number_is_the_references(name: str, tmp_path: Path) -> None:
    found, expected = both(CASES[name], tmp_path)
    assert differences(CASES[name], found, expected) == []
    theta = found[-1].server["theta"]
    stored = final_parameters(tmp_path / "run")
    final = {name: own for name, own in stored.items() if not name.endswith("num_batches_tracked")}
    assert final.keys() == theta.keys() and all(own.equal(theta[name]) for name, own in final.items())


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PLAIN.values(), "LwF: a softmax for each task"])
def test_compiled_runs_are_the_references_too(name: str, tmp_path: Path) -> None:
    """They are what users run; the compiler rewrites the step, and its numbers are in float64 here."""
    case = {**CASES[name], "compile": True}
    found, expected = both(case, tmp_path)
    assert differences(case, found, expected) == []
