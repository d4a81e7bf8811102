"""load() of runs whose folder, data, code or module are no longer what they were."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from copy import deepcopy
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import numpy as np
import pytest
import torch
from launching import SMALL, one_thread
from torch import Tensor, nn
from written_runs import Written

import fl_ddp
from fl_ddp.errors import ConfigError
from fl_ddp.notebook.result import Result
from fl_ddp.notebook.trained import Trained
from fl_ddp.results import checkpoint
from fl_ddp.tasks.recorded import refuse_others

SHARED = {key: value for key, value in SMALL.items() if key not in ("data", "model.hidden")}
NET = """
import torch

class Net(torch.nn.Sequential):
    def __init__(self, num_classes: int = 10) -> None:
        super().__init__(torch.nn.Flatten(), torch.nn.Linear(64, 8), torch.nn.ReLU(), torch.nn.Linear(8, num_classes))
"""


class Shifted(nn.Module):
    """A network with something that is not trained."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(64, 10)
        self.shift: Tensor
        self.register_buffer("shift", torch.randn(64))

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        logits: Tensor = self.head(x.flatten(1) - self.shift)
        return logits


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """One thread."""
    with one_thread():
        yield


def arrays(seed: int = 1) -> dict[str, np.ndarray]:
    """A data set of one's own."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(360, 64)).astype(np.float32)
    y = x[:, :10].argmax(1)
    return {"x_train": x[:300], "y_train": y[:300], "x_test": x[300:], "y_test": y[300:]}


def on_file(tmp_path: Path, **options: object) -> Result:
    """A run on a file of a user's."""
    np.savez(tmp_path / "own.npz", **arrays())  # type: ignore[arg-type]
    return fl_ddp.simulate({**SHARED, "data": str(tmp_path / "own.npz"), "out": str(tmp_path), **options})


def same(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> bool:
    """Whether two state dicts are equal to the last bit."""
    return ours.keys() == theirs.keys() and all(torch.equal(t, theirs[name]) for name, t in ours.items())


@pytest.mark.parametrize("half", ["3,0.1", "3,-", "3"])
def test_a_row_that_is_being_written_is_none_yet(half: str, tmp_path: Path) -> None:
    run = Path(fl_ddp.simulate(SMALL, rounds=2, out=str(tmp_path))["folder"])
    with (run / "metrics.csv").open("a") as file:
        file.write(half)
    assert list(fl_ddp.load(run).history["round"]) == [1, 2]
    (run / "cohorts.csv").write_bytes(b"round,client\n1,\xff\n")
    with pytest.raises(ConfigError, match=r"cohorts\.csv: is not what a run writes"):
        fl_ddp.load(run).cohorts  # noqa: B018


def test_a_run_that_has_gone_on_gives_what_it_has_now(tmp_path: Path) -> None:
    early, seen = on_file(tmp_path, method="LocalOnly"), list[int]()

    def look(record: object) -> None:
        found = fl_ddp.load(early["folder"])
        if (before := found.checkpoints[-1]) > 3:
            assert "accuracy" not in found, "summary.json is of round 3"
            weights = found.weights
            # Checkpoints are written meanwhile.
            since = [round for round in found.checkpoints if round >= before]
            assert any(same(weights, found.weights_after(round)) for round in since)
            seen.append(before)

    fl_ddp.simulate({"resume": early["folder"], "rounds": 8, "keep_checkpoints": 8}, callbacks=[look])
    assert seen
    assert early["rounds"] == 3 and fl_ddp.load(early["folder"])["rounds"] == 8
    assert same(early.model.state_dict(), early.weights_after(8))


def test_other_data_than_the_runs_are_refused(tmp_path: Path) -> None:
    run = on_file(tmp_path)
    other, order = arrays(), np.random.default_rng(2).permutation(300)
    other["x_train"], other["y_train"] = other["x_train"][order], other["y_train"][order]
    np.savez(tmp_path / "own.npz", **other)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"partition.json: the run was started with another division of the data"):
        fl_ddp.load(run["folder"]).own_samples(0)
    np.savez(tmp_path / "own.npz", **{**arrays(), "y_test": arrays()["y_test"][::-1]})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"run: the run was made with other samples, inputs or labels in its tasks"):
        fl_ddp.load(run["folder"]).tests  # noqa: B018


def test_a_single_other_input_is_refused_wherever_it_is(tmp_path: Path) -> None:
    run = on_file(tmp_path)
    before = {file: file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file()}
    for name, place in (("x_test", 59), ("x_test", 0), ("x_train", 299), ("x_train", 30)):
        other = arrays()
        other[name][place, 63] += 1
        np.savez(tmp_path / "own.npz", **other)  # type: ignore[arg-type]
        message = r"run: the run was made with other samples, .* or began with other weights; restore its files"
        with pytest.raises(ConfigError, match=message):
            fl_ddp.load(run["folder"]).tests  # noqa: B018
        with pytest.raises(ConfigError, match=message):
            fl_ddp.simulate({"resume": run["folder"], "rounds": 4})
        assert {file: file.read_bytes() for file in before} == before
    np.savez_compressed(tmp_path / "own.npz", **arrays())  # type: ignore[arg-type]
    assert fl_ddp.simulate({"resume": run["folder"], "rounds": 4})["rounds"] == 4, "content counts, not the file"
    refuse_others(tmp_path, {}, {"data_sha256": "of an older version's run"})


def test_data_that_have_moved_are_found_where_they_are_told_to_be(tmp_path: Path) -> None:
    run = on_file(tmp_path)
    (tmp_path / "own.npz").rename(tmp_path / "moved.npz")
    with pytest.raises(ConfigError, match=r"own.npz"):
        fl_ddp.load(run["folder"]).tests  # noqa: B018
    found = fl_ddp.load(run["folder"], data={"path": str(tmp_path / "moved.npz")})
    assert torch.equal(found.tests[0][0], torch.from_numpy(arrays()["x_test"]))
    with pytest.raises(ConfigError, match=r"lr: does not say where data lie; accepted: data.root or data.path"):
        fl_ddp.load(run["folder"], lr=3).tests  # noqa: B018


def test_code_that_was_edited_is_told_of(tmp_path: Path) -> None:
    file = tmp_path / "own_net.py"
    file.write_text(NET)
    run = on_file(tmp_path, model=f"{file}:Net")
    file.write_text(NET.replace("ReLU", "Tanh"))
    del sys.modules["own_net"]  # as in another process
    with pytest.warns(UserWarning, match=r"own_net.py is not as it was when the run was made"):
        fl_ddp.load(run["folder"]).tests  # noqa: B018


def test_who_writes_into_samples_has_copies(tmp_path: Path) -> None:
    run = on_file(tmp_path, local_test=0.2)
    own = run.own_samples(0)
    for x, y in (run.tests[0], (own.x, own.y), (own.x_test, own.y_test)):
        x.zero_()
        y.zero_()
    assert torch.equal(run.tests[0][0], torch.from_numpy(arrays()["x_test"]))
    assert run.tests[0][1].tolist() == arrays()["y_test"].tolist()
    assert all(each.count_nonzero() for each in run.own_samples(0))


def test_a_folder_is_where_it_was_when_it_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = on_file(tmp_path)
    monkeypatch.chdir(tmp_path)
    found = fl_ddp.load("run")
    monkeypatch.chdir("/")
    assert len(found.history) == 3 and found.checkpoints == run.checkpoints and found.weights and found.partition
    assert found["folder"] == "run"


def test_results_can_be_copied_and_sent(tmp_path: Path) -> None:
    run = on_file(tmp_path)
    assert run.tests
    for copy in (ForkingPickler.loads(ForkingPickler.dumps(run)), deepcopy(run)):
        assert copy == run and type(copy) is Result and same(copy.model.state_dict(), run.weights)


def test_a_module_may_be_used_after_the_run_and_one_of_its_kind_in_its_place(tmp_path: Path) -> None:
    net = Shifted()
    before, data = deepcopy(net), tuple(arrays().values())
    run = fl_ddp.simulate(SHARED, model=net, data=data, method="Ditto", cohort=3, out=str(tmp_path))
    net.load_state_dict(run.weights)
    net.head.weight.data.zero_()
    assert run.tests and torch.equal(run.model.state_dict()["shift"], before.shift)

    later = fl_ddp.load(run["folder"], model=Shifted())
    x, y = later.tests[0]
    assert float((later.model(x).argmax(1) == y).double().mean()) == run["accuracy"]
    assert torch.equal(later.weights_after(3)["shift"], before.shift), "it is the run's, which nobody trained"
    never = []
    for client in range(12):
        try:
            assert same(later.own_weights(client), run.own_weights(client))
        except ConfigError as error:
            never.append(client)
            assert f"client: {client} has not taken part yet, and begins with what the given module was" in str(error)
    assert 0 < len(never) < 12
    with pytest.raises(ConfigError, match=r"round: 0 is before the given module was trained; accepted: fl_ddp"):
        later.weights_after(0)
    as_it_was = fl_ddp.load(run["folder"], model=before)
    assert torch.equal(as_it_was.weights_after(0)["head.weight"], before.head.weight)
    assert torch.equal(as_it_was.own_weights(never[0])["head.weight"], before.head.weight)


def test_another_module_than_the_runs_is_refused(tmp_path: Path) -> None:
    run = fl_ddp.simulate(SHARED, model=Shifted(), data=tuple(arrays().values()), rounds=1, out=str(tmp_path / "given"))
    with pytest.raises(ConfigError, match=r"model: is another module than .* began with"):
        fl_ddp.load(run["folder"], model=nn.Linear(64, 10)).tests  # noqa: B018
    with pytest.raises(ConfigError, match=r"model: was a Shifted of a notebook, which alone has it; accepted: fl_ddp"):
        fl_ddp.load(run["folder"]).tests  # noqa: B018
    other = type("Other", (Shifted,), {})
    with pytest.raises(ConfigError, match=r"model: is another module than .* began with \(a Other, no Shifted\)"):
        fl_ddp.load(run["folder"], model=other()).tests  # noqa: B018
    with pytest.raises(ConfigError, match="model: is type; accepted: a module, an object"):
        fl_ddp.load(run["folder"], model=Shifted)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="model: is given, and the run's own is MLP; accepted: none"):
        fl_ddp.load(on_file(tmp_path)["folder"], model=Shifted()).tests  # noqa: B018


def test_a_model_whose_class_or_function_is_gone_is_read_with_an_object_of_its_kind(tmp_path: Path) -> None:
    file = tmp_path / "nets.py"
    lines = "def small(*, in_shape, num_classes):", "    return nn.Sequential(nn.Linear(64, num_classes))"
    file.write_text("\n".join(("from torch import nn", *lines)))
    run = on_file(tmp_path, model=f"{file}:small")
    before = fl_ddp.load(run["folder"])
    x, y = before.tests[0]
    logits, own = before.model(x), before.own_samples(0)
    file.unlink()
    with pytest.raises(ConfigError, match=r"nets\.py"):
        fl_ddp.load(run["folder"]).tests  # noqa: B018
    later = fl_ddp.load(run["folder"], model=nn.Sequential(nn.Linear(64, 10)))
    assert torch.equal(later.model(x), logits) and torch.equal(later.tests[0][1], y)
    assert all(torch.equal(a, b) for a, b in zip(later.own_samples(0), own, strict=True))
    with pytest.raises(ConfigError, match="round: 0 is before the given module was trained; accepted: small itself"):
        later.weights_after(0)
    with pytest.raises(ConfigError, match=r"model: is another module than .* began with \("):
        fl_ddp.load(run["folder"], model=nn.Sequential(nn.Linear(64, 7))).tests  # noqa: B018


def test_damaged_checkpoints_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, compared, usual = on_file(tmp_path, method="LocalOnly"), list[str](), checkpoint._verify

    def counted(folder: Path) -> None:
        compared.append(folder.name)
        usual(folder)

    monkeypatch.setattr(checkpoint, "_verify", counted)
    run = fl_ddp.load(run["folder"])
    for client in range(4):
        assert same(run.own_weights(client, 2), run.own_weights(client, 2))
        assert run.own_weights(client) and run.weights_after(3) and run.weights_after(2)
    assert [compared.count(f"round_00000{each}") for each in (2, 3)] == [1, 2], "not for each client"
    file = tmp_path / "run" / "checkpoints" / "round_000002" / "server.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=r"server.safetensors: was edited or damaged"):
        run.weights_after(2)


def test_a_checkpoint_that_was_cut_short_is_passed_over(tmp_path: Path) -> None:
    run = on_file(tmp_path)
    (tmp_path / "run" / "checkpoints" / "round_000003" / "state.json").unlink()
    found = fl_ddp.load(run["folder"])
    assert found.tests and found.weights_after(2)
    with pytest.raises(ConfigError, match=r"round_000003: cannot be used \(.* has no state.json\)$"):
        found.weights_after(3)
    (tmp_path / "run" / "checkpoints" / "best").write_text("")
    assert found.best_round is None
    with pytest.raises(ConfigError, match="round: None, as best_round is where no model was evaluated"):
        found.weights_after(found.best_round)


def test_a_round_that_was_pruned_meanwhile_has_no_checkpoint(tmp_path: Path) -> None:
    run = on_file(tmp_path, checkpoint_every=1, keep_checkpoints=9, rounds=2)
    later = fl_ddp.load(str(run["folder"]))
    assert later.weights_after(1)
    shutil.rmtree(Path(str(run["folder"])) / "checkpoints" / "round_000001")
    with pytest.raises(ConfigError, match=r"^round: 1 is of no checkpoint in .*; accepted: 2$"):
        later.weights_after(1)


def test_numbers_of_numpys_are_clients(tmp_path: Path) -> None:
    run = on_file(tmp_path, local_test=0.3)
    first = run.clients["client"].iloc[0]
    assert torch.equal(run.own_samples(first)[0], run.own_samples(int(first))[0])
    with pytest.raises(ConfigError, match="client: True is none of the run"):
        run.own_samples(True)


def test_a_run_of_a_module_that_is_not_over_wants_the_module_as_it_was(tmp_path: Path) -> None:
    net = Shifted()
    run = fl_ddp.simulate(SHARED, model=net, data=tuple(arrays().values()), out=str(tmp_path))
    (tmp_path / "run" / "model.safetensors").unlink()
    (tmp_path / "run" / "summary.json").unlink()
    assert fl_ddp.load(run["folder"], model=net).weights
    with pytest.raises(ConfigError, match=r"model: is not as .* began with it, and no other will do before the run is"):
        fl_ddp.load(run["folder"], model=Shifted()).tests  # noqa: B018


def test_a_summary_counts_until_the_run_goes_on(tmp_path: Path) -> None:
    run, seen = on_file(tmp_path, checkpoint_every=10), list[dict[str, object]]()

    def look(record: object) -> None:
        seen.append(dict(fl_ddp.load(run["folder"])))

    fl_ddp.simulate({"resume": run["folder"], "rounds": 5}, callbacks=[look])
    assert [len(each) > 1 for each in seen] == [False, False], "round 4 has no checkpoint, and a row"


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere: is not the folder of a run"):
        fl_ddp.load(tmp_path / "nowhere")
    run = on_file(tmp_path)
    with pytest.raises(ConfigError, match=r"method: FedAvg tells of no models that clients keep from round to round"):
        run.own_weights(0)
    for client in (12, -1, "3"):
        with pytest.raises(ConfigError, match=rf"client: {client!r} is none of the run; accepted: 0 to 11"):
            run.own_samples(client)  # type: ignore[arg-type]
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    (tmp_path / "run" / "summary.json").unlink()
    with pytest.raises(ConfigError, match=r"round: .*run has no checkpoint"):
        run.model  # noqa: B018


def test_another_rank_than_the_first_has_nothing() -> None:
    elsewhere = Result()
    assert not elsewhere.tests and not elsewhere.checkpoints and not elsewhere.history and not elsewhere.allowed
    assert elsewhere.weights == elsewhere.partition == {} and elsewhere.best_round is None
    with pytest.raises(ConfigError, match=r"this result: is that of another rank than the first"):
        elsewhere.model  # noqa: B018


def test_a_run_without_results_has_what_it_has_so_far(tmp_path: Path) -> None:
    on_file(tmp_path)
    (tmp_path / "run" / "summary.json").unlink()
    (tmp_path / "run" / "model.safetensors").unlink()
    found = fl_ddp.load(tmp_path / "run")
    assert found == {"folder": str(tmp_path / "run")}
    assert same(found.weights_after(3), found.weights) and len(found.history) == 3


def test_own_samples_are_those_of_the_last_round_whatever_was_saved(tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", **arrays())  # type: ignore[arg-type]
    divided = tmp_path / "partition.json"
    divided.write_text(json.dumps({"clients": [[0, 1, 2], [3, 4, 5]]}))
    given = {"data": f"{tmp_path}/own.npz", "partition": "FromFile", "partition.path": f"{divided}", "clients": 2}
    tasks = {"stream": "Permuted", "stream.tasks": 2, "stream.task_rounds": 1}
    found = list[Tensor]()
    for done in (1, 2):
        run = Written({**given, **tasks}, [0.5] * done, rounds=2).at(tmp_path / f"{done}")
        shutil.copy(divided, run)
        found.append(Trained(run).own_samples(1)[0])
    assert not torch.equal(*found) and torch.equal(found[0].sort(1).values, found[1].sort(1).values)
