"""Whether the run in a folder is the one that is wanted there."""

from __future__ import annotations

from pathlib import Path

import pytest
from launching import resumed, simulated
from written_runs import Written

from fl_ddp.config.command_line import parse
from fl_ddp.errors import ConfigError
from launch.run.trial import Trial

COUNTS = "client,0,1,2,3,4,5,6,7,8,9\n" + "".join(f"{k},9,9,9,9,9,9,9,9,9,9\n" for k in range(3))


def test_a_recipes_file_may_lie_in_another_checkout_if_it_holds_the_same(tmp_path: Path) -> None:
    for checkout in ("old", "new"):
        (tmp_path / checkout).mkdir()
        (tmp_path / checkout / "counts.csv").write_text(COUNTS)
    given: dict[str, object] = {
        "partition": "FromCounts",
        "clients": 3,
        "rounds": 1,
        "compile": False,
        "figures": False,
        "device": "cpu",
    }
    simulated({**given, "partition.path": f"{tmp_path}/old/counts.csv", "name": "run"}, tmp_path / "runs")

    def finished(file: Path) -> bool:
        options = tuple(f"--{key}={value}" for key, value in given.items())
        return Trial("row", tmp_path / "runs" / "run", (*options, f"--partition.path={file}")).is_finished()

    assert finished(tmp_path / "old" / "counts.csv") and finished(tmp_path / "new" / "counts.csv")
    other = tmp_path / "new" / "counts.csv"
    other.write_text(COUNTS.replace("0,9", "0,8", 1))
    for file in (other, tmp_path / "none.csv", Path("~nosuchuser/counts.csv")):
        with pytest.raises(ConfigError, match=r"holds another run \(partition\.path is .*old/counts\.csv, not"):
            finished(file)


@pytest.mark.slow
def test_a_run_that_ended_early_is_finished_for_its_own_rule_alone(tmp_path: Path) -> None:
    given: dict[str, object] = {
        "partition": "IID",
        "clients": 3,
        "rounds": 3,
        "compile": False,
        "figures": False,
        "device": "cpu",
    }
    run = simulated({**given, "stop_at": "accuracy=0.01", "name": "run"}, tmp_path)

    def finished(*more: str) -> bool:
        return Trial("row", run, (*(f"--{key}={value}" for key, value in given.items()), *more)).is_finished()

    assert finished("--stop_at=accuracy=0.01")
    assert not finished() and not finished("--stop_at=accuracy=0.999")
    resumed(run, stop_at=None)
    assert finished() and finished("--stop_at=accuracy=0.999")


@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_a_run_of_more_rounds_is_another_one_where_its_learning_rate_falls_over_them(
    tmp_path: Path, schedule: str
) -> None:
    run = Written({"lr_schedule": schedule}, [0.1, 0.2, 0.3]).at(tmp_path / "run")
    trial = Trial("row", run, (f"--lr_schedule={schedule}", "--rounds=2"))
    if schedule == "constant":
        assert trial.is_finished()
        return
    with pytest.raises(ConfigError, match=r"holds another run \(rounds is 3, not 2\)"):
        trial.is_finished()


def test_a_run_that_reports_other_targets_is_the_same_one(tmp_path: Path) -> None:
    run = Written({"targets": [0.5]}, [0.1, 0.2]).at(tmp_path / "run")
    assert Trial("row", run, ("--targets=[0.6,0.7]", "--rounds=2")).is_finished()


def test_a_run_goes_on_with_the_data_where_they_are_said_to_lie_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = Trial("row", tmp_path / "run", ("--data=MNIST", "--data.root=new", "--data.download"))
    places = (f"--data.root={tmp_path / 'new'}", "--data.download=true")
    assert said.free_options[-2:] == places
    unsaid = Trial("row", tmp_path / "run", ("--data=MNIST",)).free_options
    assert unsaid == said.free_options[:-2]
    Written({"data": "MNIST", "data.root": "old"}, [0.5], 2).at(tmp_path / "run")
    assert said.options_now() == (f"--resume={tmp_path / 'run'}", *said.free_options)
    assert parse(said.options_now()).data.init_args["root"] == str(tmp_path / "new")


def test_a_run_of_other_images_is_another_one(tmp_path: Path) -> None:
    for name in ("here/pets", "there/pets", "cars"):
        (tmp_path / name).mkdir(parents=True)
    Written({"data": "ImageFolder", "data.root": str(tmp_path / "here/pets")}, [0.5], 1).at(tmp_path / "run")

    def finished(root: str, *, of_recipe: bool = False) -> bool:
        said = [f"--data.root={tmp_path / root}"] if root else []
        return Trial("point", tmp_path / "run", ("--data=ImageFolder", *said, "--rounds=1"), of_recipe).is_finished()

    (tmp_path / "again").symlink_to(tmp_path / "here")
    assert finished("here/pets") and finished("again/pets")
    for other in ("cars", "there/pets"):
        with pytest.raises(ConfigError, match=rf"holds another run \(data.root is .*here/pets, not .*{other}"):
            finished(other)
        assert finished(other, of_recipe=True), "which says which images they are"
    assert finished(""), "nothing is said of them"
    (tmp_path / "base.yaml").write_text(f"data: {{name: ImageFolder, root: {tmp_path}/cars}}\nrounds: 1\n")
    with pytest.raises(ConfigError, match=r"holds another run \(data.root is .*here/pets, not .*cars"):
        Trial("point", tmp_path / "run", (f"--config={tmp_path}/base.yaml",)).is_finished()
    (tmp_path / "here/pets").rmdir()
    assert finished("there/pets"), "it has moved"
    for other in ("cars", "nowhere/pets"):
        with pytest.raises(ConfigError, match="holds another run"):
            finished(other)


def test_a_run_of_mnist_is_the_same_wherever_it_lies(tmp_path: Path) -> None:
    Written({"data": "MNIST", "data.root": str(tmp_path)}, [0.5], 1).at(tmp_path / "run")
    assert Trial("point", tmp_path / "run", ("--data=MNIST", "--data.root=elsewhere", "--rounds=1")).is_finished()


def test_a_run_that_began_with_other_weights_is_another_one_though_their_folder_is_gone(tmp_path: Path) -> None:
    """Folders of checkpoints are all called best or latest."""
    Written({"init": str(tmp_path / "a/checkpoints/best")}, [0.5], 1).at(tmp_path / "run")
    (tmp_path / "b/checkpoints/best").mkdir(parents=True)
    trial = Trial("point", tmp_path / "run", (f"--init={tmp_path / 'b/checkpoints/best'}", "--rounds=1"))
    with pytest.raises(ConfigError, match=r"holds another run \(init is"):
        trial.is_finished()


def test_a_run_goes_on_with_a_file_that_was_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    old, new = Path("old/mine.npz"), Path("new/mine.npz")
    for file in (old, new):
        file.parent.mkdir()
    new.touch()
    Written({"data": str(old.absolute())}, [0.5], 2).at(tmp_path / "run")
    trial = Trial("row", tmp_path / "run", (f"--data={new}", "--rounds=2"))
    assert not trial.is_finished() and trial.options_now()[-1] == f"--data.path={tmp_path / new}"
    assert parse(trial.options_now()).data.init_args["path"] == str(tmp_path / new)
    old.write_text("another")
    with pytest.raises(ConfigError, match=r"holds another run \(data.path is"):
        trial.is_finished()
    assert trial.options_now() == (f"--resume={tmp_path / 'run'}", *Trial("", Path("none"), trial.options).free_options)
