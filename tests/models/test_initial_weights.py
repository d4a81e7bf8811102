"""--init: a run begins with the weights of a file, or of another run, and goes on with them come what may."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from launching import SMALL, numbers, one_thread, resumed, simulated
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import fl_ddp
from fl_ddp.errors import ConfigError
from fl_ddp.models.mlp import MLP

Weights = dict[str, Tensor]
UNTRAINED = {**SMALL, "rounds": 0}


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """One thread."""
    with one_thread():
        yield


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a run that is over."""
    return simulated({**SMALL, "name": "trained"}, tmp_path_factory.mktemp("trained"))


def weights(run: Path, name: str = "model") -> Weights:
    return load_file(run / f"{name}.safetensors")


def same(ours: Weights, theirs: Weights) -> bool:
    return ours.keys() == theirs.keys() and all(torch.equal(t, theirs[name]) for name, t in ours.items())


@pytest.mark.parametrize("given", [".", "model.safetensors"])
def test_a_run_begins_with_the_weights_of_a_run_or_a_file_whatever_its_seed(
    tmp_path: Path, trained: Path, given: str
) -> None:
    run = simulated({**UNTRAINED, "seed": 7, "init": str(trained / given)}, tmp_path)
    assert same(weights(run), weights(trained)) and same(weights(run, "initial"), weights(trained))
    assert not same(weights(simulated({**UNTRAINED, "name": "drawn"}, tmp_path)), weights(trained))


def test_running_statistics_and_numbers_of_other_types_are_weights_too(tmp_path: Path) -> None:
    own = f"{Path(__file__).parents[1] / 'support' / 'own_models.py'}:Normed"
    given = {**UNTRAINED, "model": own}
    del given["model.hidden"]
    drawn = weights(simulated({**given, "name": "drawn"}, tmp_path))
    file, others = tmp_path / "weights.safetensors", {name: (t + 1).double() for name, t in drawn.items()}
    save_file(others, file)
    found = weights(simulated({**given, "init": str(file)}, tmp_path))
    assert any("running_mean" in name for name in found)
    assert same({name: t.double() for name, t in found.items()}, others)
    assert {name: t.dtype for name, t in found.items()} == {name: t.dtype for name, t in drawn.items()}


def test_a_model_whose_clients_kept_its_statistics_has_none_to_begin_with(tmp_path: Path) -> None:
    own = f"{Path(__file__).parents[1] / 'support' / 'own_models.py'}:Normed"
    given = {**UNTRAINED, "model": own, "running_statistics": "local", "local_test": 0.2}
    del given["model.hidden"]
    donor = simulated({**given, "name": "donor"}, tmp_path)
    begun = simulated({**given, "init": str(donor), "name": "again"}, tmp_path)
    assert same(weights(begun), weights(donor))
    for init in (donor, donor / "model.safetensors"):
        with pytest.raises(ConfigError, match="whose model has none that count; accepted: --running_statistics local"):
            simulated({**given, "init": str(init), "running_statistics": "average", "name": "other"}, tmp_path)
    shutil.copy(donor / "model.safetensors", tmp_path / "copy.safetensors")
    simulated({**given, "init": str(tmp_path / "copy.safetensors"), "running_statistics": "average"}, tmp_path)


def test_a_run_goes_on_as_it_began_when_the_file_has_changed_or_is_gone(tmp_path: Path, trained: Path) -> None:
    """FedPer's clients begin with a head that no server has."""
    file = tmp_path / "weights.safetensors"
    shutil.copy(trained / "model.safetensors", file)
    settings = {**SMALL, "method": "FedPer", "cohort": 2, "init": str(file)}
    whole = simulated({**settings, "rounds": 6, "name": "whole"}, tmp_path)
    part = simulated({**settings, "rounds": 2, "name": "part"}, tmp_path)
    save_file({name: torch.zeros_like(t) for name, t in weights(trained).items()}, file)
    assert numbers(resumed(part, rounds=4)).parameters != numbers(whole).parameters
    file.unlink()
    assert numbers(resumed(part, rounds=6)) == numbers(whole)
    assert same(fl_ddp.load(part).weights_after(0), weights(trained))


def test_a_notebooks_module_stays_as_it_is(tmp_path: Path, trained: Path) -> None:
    net = MLP(in_shape=(1, 8, 8), num_classes=10, hidden=(int(str(SMALL["model.hidden"])),))
    before = {name: t.clone() for name, t in net.state_dict().items()}
    given = {key: value for key, value in UNTRAINED.items() if not key.startswith("model")}
    result = fl_ddp.simulate({**given, "out": str(tmp_path), "init": str(trained)}, model=net)
    assert same(dict(net.state_dict()), before) and same(dict(result.weights), weights(trained))


def without_bias(found: Weights) -> None:
    del found["body.1.bias"]


def with_another(found: Weights) -> None:
    found["other"] = torch.zeros(1)


def wider(found: Weights) -> None:
    found["body.1.bias"] = torch.zeros(3)


def infinite(found: Weights) -> None:
    found["body.1.bias"][0] = torch.inf


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (without_bias, "has nothing for body.1.bias, where the model has [{hidden}]"),
        (with_another, "has other, which the model has not"),
        (wider, "has [3] for body.1.bias, where the model has [{hidden}]"),
        (infinite, "has numbers in body.1.bias that are not finite"),
    ],
)
def test_other_weights_than_the_models_are_refused(
    tmp_path: Path, trained: Path, spoil: Callable[[Weights], None], said: str
) -> None:
    file, found = tmp_path / "weights.safetensors", weights(trained)
    spoil(found)
    save_file(found, file)
    with pytest.raises(ConfigError) as caught:
        simulated({**UNTRAINED, "init": str(file)}, tmp_path)
    told = said.format(hidden=SMALL["model.hidden"])
    assert str(caught.value) == f"--init: {file} {told}; accepted: weights of MLP as this run makes it"
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "said"), [("nowhere", "is no file"), (".", "has no model.safetensors"), ("text", "holds no safetensors")]
)
def test_what_holds_no_weights_is_refused(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "text").write_text("{}")
    with pytest.raises(ConfigError, match=said):
        simulated({**UNTRAINED, "init": str(tmp_path / name)}, tmp_path)


def test_a_loaded_run_of_no_rounds_has_the_weights_that_it_began_with(tmp_path: Path, trained: Path) -> None:
    net: nn.Module = fl_ddp.load(simulated({**UNTRAINED, "init": str(trained)}, tmp_path)).model
    assert same(dict(net.state_dict()), weights(trained))


def test_paths_are_the_texts_that_they_stand_for(tmp_path: Path, trained: Path) -> None:
    partition = {"name": "FromFile", "path": trained / "partition.json"}
    result = fl_ddp.simulate({**UNTRAINED, "partition": partition}, out=tmp_path, init=trained, seed=5)
    assert same(dict(result.weights), weights(trained))


def test_a_run_that_went_on_since_it_left_its_model_is_refused(tmp_path: Path, trained: Path) -> None:
    on = tmp_path / "on"
    shutil.copytree(trained, on)
    table = on / "metrics.csv"
    newest = table.read_text().splitlines()[-1].partition(",")
    table.write_text(f"{table.read_text()}{int(newest[0]) + 1},{newest[2]}\n")
    with pytest.raises(ConfigError, match=r"--init: .*on has gone on since it left its model.safetensors; accepted: "):
        fl_ddp.simulate({**UNTRAINED, "out": str(tmp_path), "init": str(on)})


@pytest.mark.parametrize("type_", [torch.int8, torch.complex64])
def test_numbers_that_are_no_weights_are_refused(tmp_path: Path, trained: Path, type_: torch.dtype) -> None:
    file = tmp_path / "weights.safetensors"
    save_file({name: t.to(type_) for name, t in weights(trained).items()}, file)
    message = rf"--init: .* has {type_} for .*, where the model has torch.float32; accepted: weights of MLP"
    with pytest.raises(ConfigError, match=message):
        fl_ddp.simulate({**UNTRAINED, "out": str(tmp_path), "init": str(file)})


def test_numbers_that_the_models_type_does_not_hold_are_refused(tmp_path: Path, trained: Path) -> None:
    file = tmp_path / "weights.safetensors"
    save_file({name: t.double().fill_(1e300) for name, t in weights(trained).items()}, file)
    with pytest.raises(ConfigError, match=r"--init: .* has numbers in .* that are not finite"):
        fl_ddp.simulate({**UNTRAINED, "out": str(tmp_path), "init": str(file)})


def test_a_run_does_not_go_on_from_other_weights_than_it_began_with(tmp_path: Path, trained: Path) -> None:
    run = simulated({**SMALL, "rounds": 1, "init": str(trained)}, tmp_path)
    kept = run / "initial.safetensors"
    save_file({name: -t for name, t in load_file(kept).items()}, kept)
    with pytest.raises(ConfigError, match=r"or began with other weights; restore its files"):
        fl_ddp.simulate(resume=str(run), rounds=2)


def test_what_the_first_weights_knew_can_be_forgotten(tmp_path: Path) -> None:
    """Clients that have the first five classes alone lose what the others' model knew of the rest."""
    whole = fl_ddp.simulate({**SMALL, "rounds": 12, "lr": 0.3, "out": str(tmp_path), "name": "whole"})
    few = {"name": "Shards", "shards_per_client": 1}
    given = {**SMALL, "partition": few, "clients": 12, "cohort": 3, "rounds": 2, "local_epochs": 3, "lr": 0.1}
    run = fl_ddp.simulate(given, init=whole["folder"], out=str(tmp_path), name="few")
    known, now = whole["class_accuracy"], run["class_accuracy"]
    first, *rounds = run.history if isinstance(run.history, list) else run.history.to_dict("records")
    assert (first["round"], first["accuracy"]) == (0, whole["accuracy"]) and len(rounds) == 2
    lost = run["class_forgetting"]
    for name, before in known.items():
        between = rounds[0][f"accuracy/{name}"]
        assert lost[name] == max(before, between, now[name]) - now[name]
    assert sum(lost.values()) > sum(max(rounds[0][f"accuracy/{name}"] - now[name], 0) for name in known) + 0.5
    assert run["best_accuracy"] == max(each["accuracy"] for each in rounds), "of the run's own models"
    on = fl_ddp.simulate(resume=run["folder"], rounds=3)
    straight = fl_ddp.simulate({**given, "rounds": 3}, init=whole["folder"], out=str(tmp_path), name="straight")
    assert numbers(Path(on["folder"])) == numbers(Path(straight["folder"]))
    assert on["class_forgetting"] == straight["class_forgetting"]
