"""Mistakes in a user's own file end in one line that names the file's line, eager or compiled, on one rank or two."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import pytest
from launching import SMALL, Numbers, failed, finished, numbers, one_thread, options, resumed, simulated
from users_method import METHOD, said, written

from fl_ddp.main import main
from fl_ddp.ranks.threads import Workers

Item = TypeVar("Item")
MISTAKES: Mapping[str, tuple[str, str]] = {
    "item": (
        """
        def loss(self, theta, batch, server, mine):
            return self.model.loss(theta, batch) * batch.mask.sum().item()
        """,
        r"{file}:14: Mine: depends on values outside of tensors \(such as \.item\(\), .*\); use torch.where$",
    ),
    "missing_key": (
        """
        def correct(self, g, theta, server, mine):
            return g - mine["c"]
        """,
        r"{file}:14: Mine: 'c' is none of the tensors that it is given; accepted: theta of the server's",
    ),
    "server_update": (
        """
        def server_update(self, server, total, info):
            return {"theta": server["theta"] + total.sums["detla"]}
        """,
        r"{file}:14: 'detla': is nothing that clients hand over; accepted: delta, loss, .*, weight$",
    ),
    "torch_random": (
        """
        def client_update(self, group, server, memory):
            upload = super().client_update(group, server, memory)
            noise = torch.randn_like(upload.theta)
            return replace(upload, theta=upload.theta + noise)
        """,
        r"{file}:15: client_update of Mine draws from torch's global generator \(noise = torch.randn_like\(",
    ),
    "numpy_random": (
        """
        def server_update(self, server, total, info):
            after = super().server_update(server, total, info)
            after["theta"] += 1e-3 * float(np.random.rand())
            return after
        """,
        r"{file}:15: server_update of Mine draws from numpy's global generator .*normal\(\) of info.key",
    ),
    "python_random": (
        """
        def init(self):
            return {"theta": self.model.init() * random.random()}
        """,
        r"{file}:14: init of Mine draws from Python's global generator \(return ",
    ),
    "random_memory": (
        """
        def init_client(self):
            return {"c": torch.rand(3)}
        """,
        r"{file}:14: init_client of Mine draws from torch's global generator .*group.keys in client_update",
    ),
    "random_measured": (
        """
        proxy = 0.5
        def measures(self, round_index):
            return True
        def measure(self, group, server):
            return {"n": group.n}
        def measured(self, server, total):
            return server | {"theta": server["theta"] + 0 * torch.rand(())}
        """,
        r"{file}:19: measured of Mine draws from torch's global generator",
    ),
    "random_loss": (
        """
        def loss(self, theta, batch, server, mine):
            return self.model.loss(theta, batch._replace(x=batch.x + torch.rand_like(batch.x)))
        """,
        r"{file}:14: Mine: draws random numbers that no seed .*; use uniform\(\) or normal\(\) of batch.key",
    ),
    "syntax": (
        """
        def loss(self, theta, batch, server, mine)
            return 0
        """,
        r"--method: importing {module} failed: {file}:13: SyntaxError: ",
    ),
    "import": (
        """
        import no_such_package
        """,
        r"--method: importing {module} failed: {file}:13: ModuleNotFoundError: No module named 'no_such_package'",
    ),
}


def of(case: str, folder: Path, prefix: str = "") -> dict[str, object]:
    """Settings of a run with a mistake."""
    return written(MISTAKES[case][0], folder / f"{prefix}{case}.py")


def message(case: str, prefix: str = "") -> str:
    return MISTAKES[case][1].format(file=rf"{prefix}{case}\.py", module=f"{prefix}{case}")


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_one_line_with_its_place(tmp_path: Path, capfd: pytest.CaptureFixture[str], case: str) -> None:
    code, lines = said(of(case, tmp_path), capfd)
    assert len(lines) == 1 and re.match("fl_ddp: error: " + message(case), lines[0]), lines
    assert code == (1 if "random" in case and case != "random_loss" else 2)


@pytest.mark.parametrize("case", ["missing_key", pytest.param("item", marks=pytest.mark.slow)])
def test_so_it_is_where_the_step_is_compiled(tmp_path: Path, capfd: pytest.CaptureFixture[str], case: str) -> None:
    code, lines = said({**of(case, tmp_path, "compiled_"), "compile": True}, capfd)
    assert len(lines) == 1 and re.match("fl_ddp: error: " + message(case, "compiled_"), lines[0]), lines
    assert code == 2


@pytest.mark.slow
@pytest.mark.parametrize("case", ["missing_key", "syntax"])
def test_so_it_is_on_two_ranks(tmp_path: Path, case: str) -> None:
    ended = failed(of(case, tmp_path, "two_"), 2, tmp_path)
    assert re.match("fl_ddp: error: " + message(case, "two_"), ended.ours[0]), ended.err


MODEL = """
import numpy as np
import torch
from fl_ddp.models.mlp import MLP


class Noisy(MLP):
    def forward(self, x):
        features, logits = super().forward(x)
"""
NOISES: Mapping[str, tuple[str, str]] = {
    "tried": (
        "if not torch.is_grad_enabled(): logits = logits + torch.randn_like(logits)",
        r"{file}:10: forward of Noisy draws from torch's global generator \(if not torch.is_grad_enabled",
    ),
    "evaluation": (
        "if not torch.is_grad_enabled() and len(x) > 2: logits = logits + torch.randn_like(logits)",
        r"{file}:10: forward of Noisy draws from torch's global generator \(if not torch.is_grad_enabled",
    ),
    "evaluation_numpy": (
        "if not torch.is_grad_enabled() and len(x) > 2: logits = logits + float(np.random.rand())",
        r"{file}:10: forward of Noisy draws from numpy's global generator",
    ),
    "importance": (
        "if not self.training and torch.is_grad_enabled(): logits = logits + float(np.random.rand())",
        r"{file}:10: client_update of FedCurv draws from numpy's global generator",
    ),
    "training": ("logits = logits + float(np.random.rand())", r"{file}:10: forward of Noisy draws from numpy's global"),
}


def drawing(case: str, file: Path, capfd: pytest.CaptureFixture[str], method: str = "FedAvg") -> None:
    """Run a model that draws, from a file that no other test imports."""
    file.write_text(f"{MODEL}        {NOISES[case][0]}\n        return features, logits\n")
    capfd.readouterr()
    with one_thread():
        assert main(options({**SMALL, "model": f"{file}:Noisy", "method": method, "out": file.parent})) == 1
    lines = capfd.readouterr().err.splitlines()
    message = "fl_ddp: error: " + NOISES[case][1].format(file=re.escape(file.name))
    assert len(lines) == 1 and re.match(message, lines[0]), lines


@pytest.mark.parametrize("case", ["tried", "evaluation", "evaluation_numpy", "training"])
def test_a_model_that_draws_is_named_with_its_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], case: str
) -> None:
    drawing(case, tmp_path / f"model_{case}.py", capfd)


def test_so_it_is_where_threads_test_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fl_ddp.ranks.outputs.workers_on", lambda device_type: Workers(2))
    drawing("evaluation_numpy", tmp_path / "model_in_threads.py", capfd)


class Elsewhere(Workers):
    """Threads that leave nothing to the one that asks, if they may."""

    def spread(self, work: Callable[[Item], None], items: Iterable[Item]) -> None:
        self.map(work, items)


def test_so_it_is_where_threads_measure_importance(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fl_ddp.importance.fisher._ALONE", 0)
    monkeypatch.setattr("fl_ddp.tasks.lineup.workers_on", lambda device_type: Elsewhere(2))
    drawing("importance", tmp_path / "model_elsewhere.py", capfd, "FedCurv")


@pytest.mark.slow
@pytest.mark.parametrize("case", ["evaluation", "evaluation_numpy"])
def test_so_it_is_where_one_rank_alone_tests_it(tmp_path: Path, case: str) -> None:
    file = tmp_path / f"model_{case}.py"
    file.write_text(f"{MODEL}        {NOISES[case][0]}\n        return features, logits\n")
    ended = failed({**SMALL, "model": f"{file}:Noisy"}, 2, tmp_path)
    message = "fl_ddp: error: " + NOISES[case][1].format(file=rf"model_{case}\.py")
    assert len(ended.ours) == 1 and re.match(message, ended.ours[0]), ended.err


NOISY = (
    METHOD
    + """
    def client_update(self, group, server, memory):
        trained = group.train(server["theta"], self, server, memory)
        theta = trained.theta + 1e-2 * normal(group.keys, 0, trained.theta.shape[1:])
        return Upload(self.average(group, server, trained._replace(theta=theta)), theta)

    def server_update(self, server, total, info):
        after = super().server_update(server, total, info)
        return {"theta": after["theta"] + 1e-2 * normal(info.key, 0, after["theta"].shape)}
"""
)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 3])
def test_noise_of_keys_has_the_same_bits_on_any_ranks_and_after_a_resume(tmp_path: Path, ranks: int) -> None:
    file = tmp_path / f"noisy_on_{ranks}.py"
    file.write_text(NOISY)
    settings = {**SMALL, "method": f"{file}:Mine", "lanes": 3}
    alone = numbers(simulated(settings, tmp_path / "1"))
    found: dict[str, Numbers] = {}
    finished({**settings, "out": tmp_path / "several"}, ranks, tmp_path)
    found["several"] = numbers(tmp_path / "several" / "run")
    simulated({**settings, "rounds": 1}, tmp_path / "again")
    found["resumed"] = numbers(resumed(tmp_path / "again" / "run", rounds=3))
    assert found == dict.fromkeys(found, alone)
    assert alone != numbers(simulated({**SMALL, "lanes": 3}, tmp_path / "fedavg"))
    assert alone != numbers(simulated({**settings, "seed": 1}, tmp_path / "seed"))


def test_a_file_that_would_end_the_program_is_told_as_a_failure(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    leaving, measure = tmp_path / "leaving.py", tmp_path / "leaving_later.py"
    leaving.write_text("import sys\nsys.exit(0)\n")
    measure.write_text("import sys\ndef f(run):\n    if run.round > 1:\n        sys.exit(0)\n    return 1.0\n")
    of_measure = f"{measure.name}:4: SystemExit: 0 ends the run without its results; raise an error, or return"
    for given, code, message in (
        ({"model": f"{leaving}:Net"}, 2, "--model: importing leaving failed: leaving.py:2: SystemExit: 0"),
        ({"measures": [f"{measure}:f"]}, 1, of_measure),
    ):
        capfd.readouterr()
        with one_thread():
            assert main(options({**SMALL, **given, "out": tmp_path})) == code
        assert capfd.readouterr().err.splitlines()[-1].startswith(f"fl_ddp: error: {message}")
    (run,) = (path.parent for path in tmp_path.glob("*/failure.txt"))
    assert of_measure in (run / "failure.txt").read_text() and [*run.glob("checkpoints/round_*")]
