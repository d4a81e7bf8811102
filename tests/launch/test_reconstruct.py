"""launch.reconstruct: how well images can be told from what clients of a run send."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import own_models
import pytest
import torch
from launching import resumed, simulated
from PIL import Image
from safetensors.numpy import load_file

from fl_ddp.check.runs import SOLO, course
from fl_ddp.config.command_line import from_file
from fl_ddp.federation import build_federation
from fl_ddp.methods.filver import FilVer
from fl_ddp.protocol import Batch
from launch.compare.found_runs import find_runs
from launch.compare.replicates import rows_of
from launch.numbers.metric import parse_metric
from launch.numbers.read_off import read_off
from launch.privacy import of_run
from launch.privacy.attack import Reconstructed, Seen, reconstruct
from launch.reconstruct import main
from launch.reproduce import main as reproduce
from launch.run.stored import read_run

pytestmark = pytest.mark.slow
TINY: dict[str, object] = {
    "method": "FilVer", "model": f"{own_models.__file__}:Embedded", "method.sst": 40, "stream": "ClassGroups",
    "stream.tasks": 3, "stream.size": 3, "stream.scenario": "domain", "stream.task_rounds": 1, "rounds": 3,
    "stream.enrolment": "increasing", "clients": 3, "partition": "IID",
    "compile": False, "figures": False, "device": "cpu",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs with two seeds, of a row each of which was attacked."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        simulated({**TINY, "seed": seed, "name": f"s1-sampled-seed{seed}"}, folder)
    assert main([str(folder), "--epochs", "1"]) == 0
    return folder


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "reconstruction.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_each_task_has_its_number_beside_that_of_the_mean_image(folder: Path) -> None:
    for seed in (0, 1):
        found = rows(folder / f"s1-sampled-seed{seed}")
        assert [(row["task"], row["epochs"]) for row in found] == [(f"{t}", "1") for t in (1, 2, 3)]
        run = read_run(folder / f"s1-sampled-seed{seed}")
        assert run is not None
        for row in found:
            for name in ("psnr", "psnr_of_mean"):
                metric = parse_metric(f"final of {name}/{row['task']}")
                reading = read_off(metric, run.curve(metric.quantity), run.ended)
                assert metric.unit == "dB" and reading is not None and reading.value == float(row[name])


def test_pictures_are_of_different_classes_with_their_reconstructions(folder: Path) -> None:
    stored = load_file(folder / "s1-sampled-seed0" / "reconstruction.safetensors")
    assert sorted(stored) == sorted(f"{name}/{task}" for name in ("images", "reconstructions") for task in (1, 2, 3))
    assert {images.shape for images in stored.values()} == {(4, 1, 8, 8)}
    for images in stored.values():
        assert images.min() >= 0 and images.max() <= 1
    with Image.open(folder / "reconstructions.png") as image:
        assert image.width > image.height


def test_what_is_there_is_not_made_again_and_an_attack_can_be_repeated(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    files = [folder / "s1-sampled-seed1" / name for name in ("reconstruction.csv", "reconstruction.safetensors")]
    before = [file.read_bytes() for file in files]
    times = [file.stat().st_mtime_ns for file in files]
    assert main([str(folder), "--epochs", "1"]) == 0
    assert [file.stat().st_mtime_ns for file in files] == times
    assert "reconstructing" not in capfd.readouterr().out
    files[0].unlink()
    assert main([str(folder / "s1-sampled-seed1"), "--epochs", "1"]) == 0
    assert [file.read_bytes() for file in files] == before


@pytest.mark.parametrize("share", ["sampled", "stats"])
def test_the_attacker_knows_the_first_tasks_images_and_is_tested_on_others(
    share: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = simulated({**TINY, "method.share": share, "data.normalize": True, "rounds": 1}, tmp_path)
    seen: list[tuple[Seen, Sequence[Seen], list[Reconstructed]]] = []

    def spy(known: Seen, others: Sequence[Seen], *, statistics: bool, epochs: int) -> list[Reconstructed]:
        assert statistics == (share == "stats") and epochs == 2
        found = reconstruct(known, others, statistics=statistics, epochs=epochs)
        seen.append((known, others, found))
        return found

    monkeypatch.setattr(of_run, "reconstruct", spy)
    of_run.attack(run, 2)
    ((known, others, found),) = seen
    federation = build_federation(from_file(run / "config.yaml"), SOLO)
    method, first, world = federation.method, federation.worlds.clients_in(0), federation.worlds.at(0)
    assert isinstance(method, FilVer) and len(first[1]) == len(first[2]) == 0  # they join later
    theta = federation.model.leaves(course(run)[-1].server["theta"])
    low, high = world.train.x.min(), world.train.x.max()
    sets = [
        (world.train.x[np.sort(first[0])], known),
        *zip((test.x for test in federation.worlds.test_samples), others, strict=True),
    ]
    for x, each in sets:
        torch.testing.assert_close(each.images, (x - low) / (high - low))
        batch = Batch(world.train.inputs(x, torch.float32), torch.zeros(len(x)), torch.ones(len(x)), torch.zeros(()))
        torch.testing.assert_close(each.embeddings, method.embed(theta, batch)["x"], rtol=1e-4, atol=1e-5)
    stored = load_file(run / "reconstruction.safetensors")
    for task, (test, each, of_task) in enumerate(zip(federation.worlds.test_samples, others, found, strict=True), 1):
        labels = sorted(set(test.y.tolist()))[:4]
        places = [test.y.tolist().index(label) for label in labels]
        places += [place for place in range(len(test.y)) if place not in places][: 4 - len(places)]
        np.testing.assert_array_equal(stored[f"images/{task}"], each.images[places].numpy())
        np.testing.assert_array_equal(stored[f"reconstructions/{task}"], of_task.images[places].numpy())


def test_the_server_has_the_images_that_it_trained_the_encoder_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def spy(known: Seen, others: Sequence[Seen], *, statistics: bool, epochs: int) -> list[Reconstructed]:
        seen.append(len(known.images))
        return reconstruct(known, others, statistics=statistics, epochs=epochs)

    monkeypatch.setattr(of_run, "reconstruct", spy)
    run = simulated({**TINY, "rounds": 1, "method.pretrain_on": "all", "name": "all"}, tmp_path)
    of_run.attack(run, 1)
    federation = build_federation(from_file(run / "config.yaml"), SOLO)
    everyone, world = np.concatenate(federation.clients), federation.worlds.at(0)
    assert seen == [int((world.labels[everyone] >= 0).sum())] != [sum(map(len, world.clients))]


def test_a_run_that_goes_on_keeps_its_numbers(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    runs = [simulated({**TINY, "rounds": 1, "seed": seed, "name": f"r-seed{seed}"}, tmp_path) for seed in (0, 1)]
    assert main([str(tmp_path), "--epochs", "1"]) == 0
    resumed(runs[1], rounds=2)
    (row,) = rows_of(find_runs([tmp_path]).runs).sets
    assert len(row.numbers(parse_metric("final of psnr/1"))) == 2
    (runs[0] / "reconstruction.safetensors").unlink()
    capfd.readouterr()
    assert main([str(tmp_path), "--epochs", "1", "--out", str(tmp_path / "figures")]) == 0
    assert "[1/1] reconstructing from what r-seed0 sends" in capfd.readouterr().out
    assert (tmp_path / "figures" / "reconstructions.svg").is_file()


def test_rows_of_a_table_read_it(folder: Path) -> None:
    (row,) = rows_of(find_runs([folder]).runs).sets
    numbers = row.numbers(parse_metric("final of psnr/2"))
    assert [each.value for each in numbers] == [float(rows(folder / f"s1-sampled-seed{s}")[1]["psnr"]) for s in (0, 1)]


@pytest.mark.slow
def test_a_recipe_that_asks_for_it_attacks_its_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("launch.reproduce.DECODER_EPOCHS", 1)
    (tmp_path / "tiny").mkdir()
    base = "".join(f"{key}: {str(value).lower() if value is False else value}\n" for key, value in TINY.items())
    (tmp_path / "tiny" / "base.yaml").write_text(base)
    (tmp_path / "tiny" / "privacy.table.yaml").write_text(
        "id: t\npaper: none\nitem: privacy\ntitle: tiny\ncost: none\ncolumns:\n  first: [final of psnr/1]\n"
        "groups:\n  digits:\n    base: base.yaml\n    rows:\n      sampled: {}\n"
    )
    assert reproduce(["tiny/privacy.table.yaml", "--seeds", "0"]) == 0
    run = read_run(tmp_path / "reproduce" / "tiny" / "privacy" / "digits-sampled-seed0")
    assert run is not None and len(run.curve("psnr/1")) == 1
    assert f"{run.curve('psnr/1')[0][1]:.2f}" in (tmp_path / "reproduce" / "tiny" / "privacy" / "table.md").read_text()

    # attacked otherwise since: a table that reads it says so, another one does not mind
    monkeypatch.setattr("launch.reproduce.DECODER_EPOCHS", 2)
    table = tmp_path / "tiny" / "privacy.table.yaml"
    assert reproduce([str(table), "--seeds", "0", "--report"]) == 1
    table.write_text(table.read_text().replace("final of psnr/1", "final"))
    assert reproduce([str(table), "--seeds", "0", "--report"]) == 0


def test_bad_input_is_one_line(folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plain = {
        "clients": 3,
        "rounds": 1,
        "compile": False,
        "figures": False,
        "device": "cpu",
        "partition": "IID",
        "name": "plain",
    }
    simulated(plain, tmp_path)
    broken = tmp_path / "broken"
    broken.mkdir()
    for file in (folder / "s1-sampled-seed0").glob("*.[ycj]*"):
        (broken / file.name).write_bytes(file.read_bytes())
    (broken / "reconstruction.csv").unlink()
    (tmp_path / "only.log").touch()
    simulated({**TINY, "rounds": 1, "method.sst": 0, "name": "silent"}, tmp_path)
    simulated({**TINY, "rounds": 1, "method.pretrain_epochs": 0, "name": "noise"}, tmp_path)
    simulated({**TINY, "rounds": 1, "stream.tasks": 2, "name": "other-seed0"}, tmp_path)
    for words, message in (
        ([], "FOLDER: is missing"),
        (["nowhere"], "nowhere: is no folder"),
        ([str(tmp_path / "plain")], "is a run of FedAvg, whose clients send no embeddings; accepted: runs of FilVer"),
        ([str(broken)], "model.safetensors: is not the model of the run"),
        ([str(folder), "--epochs", "0"], "--epochs: 0"),
        ([str(folder), "--epoch", "1"], "--epoch: unknown option"),
        ([str(tmp_path / "only.log")], "only.log: is no folder"),
        ([str(tmp_path / "silent")], "is a run whose clients send no embeddings (--method.sst 0)"),
        ([str(tmp_path / "noise")], "is a run whose server has no images (--method.pretrain_epochs 0)"),
        ([str(folder), str(tmp_path / "other-seed0"), "--epochs", "1"], "has other images than"),
    ):
        capfd.readouterr()
        assert main(words) == 2, words
        _, err = capfd.readouterr()
        assert err.count("\n") == 1 and err.startswith("reconstruct: error: ") and message in err, (words, err)
