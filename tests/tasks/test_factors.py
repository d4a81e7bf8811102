"""A factor of each client's own, by a law or from a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fl_ddp.errors import ConfigError
from fl_ddp.tasks.factors import FORM, factors

DRAWS = np.array([0.0, 0.25, 0.5])


def test_laws_go_from_one_bound_to_the_other() -> None:
    assert factors("--client_lr", "uniform(0.5,1.5)", DRAWS) == pytest.approx([0.5, 0.75, 1.0], abs=1e-15)
    found = factors("--client_lr", "loguniform( 0.01 , 100 )", DRAWS)
    assert found == pytest.approx([0.01, 0.1, 1.0], rel=1e-14)


def test_a_file_gives_some_and_all_others_have_one(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("client,factor\n2, 0.25\n\n0,3e1\n")
    assert factors("--client_lr", str(tmp_path / "own.csv"), DRAWS).tolist() == [30.0, 1.0, 0.25]


@pytest.mark.parametrize(
    "text",
    ["", "half", "uniform", "uniform(1)", "uniform(1,2", "uniform(0,1)", "uniform(2,1)", "normal(1,2)", "uniform(a,1)",
     "loguniform(1,inf)", "uniform(1,2,3)"],
)  # fmt: skip
def test_what_is_no_law_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as error:
        factors("--client_work", text, DRAWS)
    assert str(error.value) == f"--client_work: {text} is no law; accepted: {FORM}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("client,lr\n", " begins with 'client,lr'; accepted: " + FORM),
        ("client,factor\n1\n", ": '1' is no factor of a client; accepted: " + FORM),
        ("client,factor\n1,0\n", ": '1,0' is no factor of a client; accepted: " + FORM),
        ("client,factor\n1,nan\n", ": '1,nan' is no factor of a client; accepted: " + FORM),
        ("client,factor\nx,1\n", ": 'x,1' is no factor of a client; accepted: " + FORM),
        ("client,factor\n3,1\n", ": '3,1': there are 3 clients, numbered from 0"),
        ("client,factor\n1,1\n1,2\n", ": '1,2': client 1 has a factor already"),
    ],
)
def test_what_is_no_file_of_factors_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "own.csv"
    file.write_text(text)
    with pytest.raises(ConfigError) as error:
        factors("--client_lr", str(file), DRAWS)
    assert str(error.value) == f"--client_lr: {file}{message}"
