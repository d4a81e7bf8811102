"""Settings of arithmetic; those of a GPU can be made and read without one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import torch
from torch.utils import deterministic

from fl_ddp.arithmetic.products import BY_PLACE
from fl_ddp.arithmetic.repeatable import repeatable, require_precision, versions_on_gpu
from fl_ddp.compiler.compilation import made_once
from fl_ddp.errors import ConfigError

PRODUCTS: Mapping[str, Callable[[], object]] = {
    "matmul": lambda: torch.backends.cuda.matmul.fp32_precision,
    "conv": lambda: torch.backends.cudnn.conv.fp32_precision,  # type: ignore[attr-defined]
    "rnn": lambda: torch.backends.cudnn.rnn.fp32_precision,  # type: ignore[attr-defined]
    "older matmul": lambda: torch.backends.cuda.matmul.allow_tf32,
    "older cudnn": lambda: torch.backends.cudnn.allow_tf32,
}


def settings() -> dict[str, object]:
    """All that repeatable() may change; an error's text where torch refuses to say."""
    made: dict[str, object] = {
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "warn only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "cudnn deterministic": torch.backends.cudnn.deterministic,
        "benchmark": torch.backends.cudnn.benchmark,
        "filled": deterministic.fill_uninitialized_memory,  # type: ignore[attr-defined]
    }
    for name, read in PRODUCTS.items():
        try:
            made[name] = read()
        except RuntimeError:
            made[name] = "contradicts another"
    return made


@pytest.fixture(autouse=True)
def untouched() -> Iterator[None]:
    before = settings()
    yield
    assert settings() == before


@pytest.mark.parametrize(("tf32", "newer"), [(False, "ieee"), (True, "tf32")])
def test_on_a_gpu_everything_is_repeatable_and_products_are_as_asked(tf32: bool, newer: str) -> None:
    with repeatable("cuda", tf32=tf32):
        assert settings() == {
            "deterministic": True, "warn only": False, "cudnn deterministic": True, "benchmark": False, "filled": False,
            "matmul": newer, "conv": newer, "rnn": newer, "older matmul": tf32, "older cudnn": tf32,
        }  # fmt: skip


def test_on_a_cpu_nothing_is_set() -> None:
    before = settings()
    with repeatable("cpu", tf32=False):
        assert settings() == before


def test_a_notebooks_own_settings_come_back_after_an_error() -> None:
    torch.backends.cudnn.benchmark = True
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    mine = settings()
    try:
        with pytest.raises(KeyError), repeatable("cuda", tf32=False):
            assert settings() != mine
            raise KeyError
        assert settings() == mine
    finally:
        torch.backends.cudnn.benchmark = False
        torch.use_deterministic_algorithms(False)
        torch.backends.cuda.matmul.fp32_precision = "none"


def test_what_is_compiled_for_one_precision_is_not_taken_for_another() -> None:
    made: list[int] = []

    @made_once
    def make(kind: int) -> int:
        made.append(kind)
        return len(made)

    assert [make(1), make(1), make(2)] == [1, 1, 2]
    for tf32, due in ((False, 3), (True, 4), (False, 3)):
        with repeatable("cuda", tf32=tf32):
            assert make(1) == due
    assert make(1) == 1


def test_numerics_of_a_gpu_name_what_makes_its_kernels() -> None:
    with repeatable("cuda", tf32=False):
        told = versions_on_gpu()
    assert told["deterministic"] is True and told.keys() == {"deterministic", "cuda", "cudnn", "triton", "fp_fusion"}


def test_tf32_is_refused_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"--precision: tf32 .* CPU; accepted: float32 or bfloat16"):
        require_precision("tf32", torch.device("cpu"))
    for precision in ("float32", "bfloat16"):
        require_precision(precision, torch.device("cpu"))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "Tesla V100")
    for major, refused in ((7, True), (8, False)):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _, major=major: (major, 0))
        if refused:
            with pytest.raises(ConfigError, match="Tesla V100"):
                require_precision("tf32", torch.device("cuda"))
        else:
            require_precision("tf32", torch.device("cuda"))


PRODUCTS_OF_LANES = """
import sys
if "torch first" in sys.argv:
    import torch
    torch.ones(8, 8) @ torch.ones(8, 8)
import fl_ddp, torch
from fl_ddp.arithmetic.products import products_by_place

print(products_by_place("cpu"))
torch.set_num_threads(1)
generator = torch.Generator().manual_seed(0)
for batch in (1, 3, 10, 64):
    for inputs in (*range(1, 40), 65, 129, 257):
        for outputs in (2, 6, 9, 17, 64):
            x = torch.randn(6, batch, inputs, generator=generator)
            w = torch.randn(6, outputs, inputs, generator=generator)
            for a, b in ((x, w.mT), (x.mT, x @ w.mT), (x @ w.mT, w)):
                order = torch.tensor([3, 0, 5, 1, 4, 2])
                if not torch.equal(torch.bmm(a, b)[order], torch.bmm(a[order], b[order])):
                    print("apart", list(a.shape), list(b.shape))
"""


def said_of_products(*words: str, **environment: str) -> list[str]:
    """Of a process of its own, whose MKL no test has called yet."""
    own = {key: value for key, value in os.environ.items() if key != "MKL_CBWR"} | environment
    command = [sys.executable, "-c", PRODUCTS_OF_LANES, *words]
    return subprocess.run(command, env=own, capture_output=True, text=True, check=True).stdout.splitlines()


def test_a_clients_products_are_the_same_in_any_place_of_a_group() -> None:
    assert said_of_products() == ["False"]


def test_products_that_depend_on_their_place_are_told() -> None:
    """As those of a notebook may that has multiplied before it has imported this."""
    known, *apart = said_of_products("torch first")
    assert known == str(bool(apart))
    assert said_of_products("torch first", MKL_CBWR="AUTO") == ["False"]


RUN = """
import sys
if sys.argv[1:] == ["torch first"]:
    import torch
    torch.ones(8, 8) @ torch.ones(8, 8)
import fl_ddp
from fl_ddp.arithmetic.products import products_by_place

given = {"data": "digits", "model.hidden": 8, "clients": 2, "rounds": 1, "compile": False, "device": "cpu"}
run = fl_ddp.simulate(given, figures=False)
print(products_by_place("cpu"), run["numerics"]["mkl_cbwr"])
"""


@pytest.mark.parametrize("words", [[], ["torch first"]])
def test_a_run_says_where_its_products_depend_on_their_place(words: list[str], tmp_path: Path) -> None:
    own = {key: value for key, value in os.environ.items() if key != "MKL_CBWR"}
    run = subprocess.run(
        [sys.executable, "-c", RUN, *words], env=own, capture_output=True, text=True, check=True, cwd=tmp_path
    )
    *said, last = run.stdout.splitlines()
    assert (f"fl_ddp: {BY_PLACE}" in said, last) in ((True, "True None"), (False, "False AUTO"))
    assert words or last == "False AUTO"
