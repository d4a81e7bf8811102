"""What load() gives of a run's server, its clients' memory and their samples in each task."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from launching import SMALL, one_thread
from safetensors.torch import load_file
from torch import nn

import fl_ddp
from fl_ddp.errors import ConfigError
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.notebook.result import Result

SAVED = {"checkpoint_every": 1, "keep_checkpoints": 9, "rounds": 3}


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """One thread."""
    with one_thread():
        yield


def made(tmp_path: Path, **options: object) -> Result:
    """A run."""
    return fl_ddp.simulate({**SMALL, **SAVED, "out": str(tmp_path), **options})


def test_scaffolds_control_variates_are_those_that_its_rounds_leave(tmp_path: Path) -> None:
    run = fl_ddp.load(str(made(tmp_path, method="Scaffold")["folder"]))
    for finished in (0, 1, 3):
        state = run.server_state(finished)
        assert state.keys() == {"theta", "c"} and state["c"].any() == (finished > 0)
        if finished:
            mean = sum(run.client_memory(client, finished)["c"] for client in range(12)) / 12
            torch.testing.assert_close(state["c"], mean, atol=1e-6, rtol=0)
    last = load_file(Path(run["folder"]) / "checkpoints" / "round_000003" / "server.safetensors")
    assert all(torch.equal(t, last[name]) for name, t in run.server_state().items())
    absent = [client for client in range(12) if not run.client_memory(client, 1)["c"].any()]
    assert len(absent) == 12 - 7, "who has not taken part has what init_client() gives"


def test_a_method_without_memory_has_none(tmp_path: Path) -> None:
    run = made(tmp_path, **{"optimizer.keep": True})
    assert run.client_memory(3) == {} and run.server_state().keys() == {"theta"}, "the engine's own is not the method's"


def test_what_is_none_of_the_run_is_refused(tmp_path: Path) -> None:
    run = made(tmp_path, method="Ditto", checkpoint_every=3)
    for refused, where in (
        (lambda: run.server_state(2), "round: 2 is of no checkpoint"),
        (lambda: run.client_memory(12), "client: 12 is none of the run; accepted: 0 to 11"),
        (lambda: run.client_memory(3, 1), "round: 1 is of no checkpoint"),
        (lambda: run.own_samples(3, task=2), "task: 2 is none of the run; accepted: 1 to 1"),
        (lambda: run.own_samples(3, task=0), "task: 0 is none of the run"),
        (lambda: run.own_samples(3, task=True), "task: True is none of the run"),
    ):
        with pytest.raises(ConfigError, match=f"^{where}"):
            refused()


def test_a_given_module_is_known_after_its_rounds_alone(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    given = {key: value for key, value in SMALL.items() if key != "model.hidden"} | {"model": net}
    run = fl_ddp.load(
        str(fl_ddp.simulate({**given, **SAVED, "out": str(tmp_path)}, method="Scaffold")["folder"]),
        model=nn.Sequential(nn.Flatten(), nn.Linear(64, 10)),
    )
    assert run.server_state(1)["c"].any() and run.client_memory(0).keys() == {"c"}
    with pytest.raises(ConfigError, match=r"^round: 0 is before the given module was trained"):
        run.server_state(0)


def test_samples_of_each_task_are_those_of_its_rounds(tmp_path: Path) -> None:
    stream = {"stream": "ClassGroups", "stream.tasks": 3, "stream.size": 3, "stream.task_rounds": 1}
    run = made(tmp_path, partition="IID", local_test=0.3, **stream)
    for client in (0, 11):
        for task in (1, 2, 3):
            _, y, _, y_test = run.own_samples(client, task)
            classes = set(range(3 * (task - 1), 3 * task))
            assert set(y.tolist()) == classes >= set(y_test.tolist()) and len(y_test)
        assert all(
            torch.equal(ours, last)
            for ours, last in zip(run.own_samples(client, 3), run.own_samples(client), strict=True)
        )


def test_samples_of_a_task_are_as_it_left_them(tmp_path: Path) -> None:
    reduced = {"class_reduction": "0,3,2,1;0,3,3,0", "partition": "IID", "local_test": 0.3}
    run = made(tmp_path, **reduced)
    told, last = run.own_samples(0, task=1), run.own_samples(0)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(told, last, strict=True))
    assert not (last[1] == 3).any()


def test_before_the_first_round_a_client_remembers_what_it_begins_with(tmp_path: Path) -> None:
    run = made(tmp_path, method="Ditto", rounds=0)
    assert run.client_memory(3, 0).keys() == {"v"} and run.server_state(0).keys() == {"theta"}
    with pytest.raises(ConfigError, match=r"^client: 12 is none"):
        run.client_memory(12, 0)


IN_A_SCRIPT = """
from dataclasses import dataclass, replace
import fl_ddp
from fl_ddp.api import FedAvg, NonNegative

@dataclass(frozen=True)
class Keeping(FedAvg):
    \"\"\"Clients keep their models.\"\"\"
    share: NonNegative = 1.0

    def init_client(self):
        return {"own": self.model.init()}

    def client_update(self, group, server, memory):
        upload = super().client_update(group, server, memory)
        return replace(upload, memory={"own": self.share * upload.theta})

    def own_model(self, server, memory, client):
        return memory["own"]
"""


@pytest.mark.slow
def test_a_run_of_a_scripts_method_is_read_with_its_class(tmp_path: Path) -> None:
    script, file = tmp_path / "script_with_a_method.py", tmp_path / "has_the_method.py"
    call = f"fl_ddp.simulate({ {**SMALL, 'rounds': 1, 'out': str(tmp_path)}!r}, method=Keeping(share=0.5))"
    script.write_text(f"{IN_A_SCRIPT}\nif __name__ == '__main__':\n    {call}\n")
    file.write_text(IN_A_SCRIPT)
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, str(script)], check=True, capture_output=True, env=alone)
    with pytest.raises(ConfigError, match=r"method: __main__.Keeping .*; accepted: fl_ddp.load\(folder, method=...\)"):
        fl_ddp.load(tmp_path / "run").server_state()
    with pytest.raises(ConfigError, match=r"^method: is FedAvg, and the run's own is Keeping"):
        fl_ddp.load(tmp_path / "run", method="FedAvg").server_state()
    with pytest.raises(ConfigError, match=r"^method: is FedAvg; accepted: the class, or a name of it as mine.py:Mine"):
        fl_ddp.load(tmp_path / "run", method=FedAvg()).server_state()
    run = fl_ddp.load(tmp_path / "run", method=f"{file}:Keeping")
    first, own = run.weights_after(0), [run.own_weights(client) for client in range(12)]
    assert len(run.own_samples(3)[0]) and run.server_state()["theta"].shape == run.client_memory(3)["own"].shape
    trained = [each for each in own if not all(torch.equal(t, first[name]) for name, t in each.items())]
    assert len(trained) == 7, "of the cohort"
