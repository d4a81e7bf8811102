"""launch.reconstruct: how well images can be told from what clients of a run send."""

from __future__ import annotations

import csv
from pathlib import Path

import own_models
import pytest
from launching import simulated
from PIL import Image
from safetensors.numpy import load_file

from fl_ddp.check.runs import SOLO
from fl_ddp.config.command_line import from_file
from fl_ddp.federation import build_federation
from launch.compare.found_runs import find_runs
from launch.compare.replicates import rows_of
from launch.numbers.metric import parse_metric, read_off
from launch.privacy import of_run
from launch.privacy.attack import Seen, reconstruct
from launch.reconstruct import main
from launch.reproduce import main as reproduce
from launch.run.stored import read_run

TINY: dict[str, object] = {
    "method": "FilVer", "model": f"{own_models.__file__}:Embedded", "method.sst": 40, "stream": "ClassGroups",
    "stream.tasks": 3, "stream.size": 3, "stream.scenario": "domain", "stream.task_rounds": 1, "rounds": 3,
    "stream.enrolment": "increasing", "clients": 3, "partition": "IID", "compile": False, "device": "cpu",
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
        assert [(row["task"], row["round"], row["epochs"]) for row in found] == [(f"{t}", "3", "1") for t in (1, 2, 3)]
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


def test_the_attacker_knows_the_images_of_the_first_tasks_clients_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known: list[Seen] = []

    def spy(of: Seen, others: list[Seen], *, statistics: bool, epochs: int) -> object:
        known.append(of)
        assert not statistics and [len(each.images) for each in others] != []
        return reconstruct(of, others, statistics=statistics, epochs=epochs)

    monkeypatch.setattr(of_run, "reconstruct", spy)
    of_run.attack(folder / "s1-sampled-seed0", 1)
    federation = build_federation(from_file(folder / "s1-sampled-seed0" / "config.yaml"), SOLO)
    first = federation.worlds.clients_in(0)
    assert len(first[1]) == len(first[2]) == 0  # they join later
    assert len(known[0].images) == len(first[0])
    x = federation.worlds.at(0).train.x[first[0]]
    assert ((x - x.min()) / (x.max() - x.min()))[0].allclose(known[0].images[0], atol=0.1)


def test_rows_of_a_table_read_it(folder: Path) -> None:
    (row,) = rows_of(find_runs([folder]).runs).sets
    numbers = row.numbers(parse_metric("final of psnr/2"))
    assert [each.value for each in numbers] == [float(rows(folder / f"s1-sampled-seed{s}")[1]["psnr"]) for s in (0, 1)]


def test_a_recipe_that_asks_for_it_attacks_its_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("launch.privacy.runs.DECODER_EPOCHS", 1)
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
    assert (
        f"{run.curve('psnr/1')[0][1]:.2f}" in (tmp_path / "reproduce" / "tiny" / "privacy" / "results.md").read_text()
    )


def test_bad_input_is_one_line(folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plain = {"clients": 3, "rounds": 1, "compile": False, "device": "cpu", "partition": "IID", "name": "plain"}
    simulated(plain, tmp_path)
    broken = tmp_path / "broken"
    broken.mkdir()
    for file in (folder / "s1-sampled-seed0").glob("*.[ycj]*"):
        (broken / file.name).write_bytes(file.read_bytes())
    (broken / "reconstruction.csv").unlink()
    for words, message in (
        ([], "FOLDER: is missing"),
        (["nowhere"], "nowhere: is no folder"),
        ([str(tmp_path / "plain")], "is a run of FedAvg, whose clients send no embeddings; accepted: runs of FilVer"),
        ([str(broken)], "model.safetensors: is not the model of the run"),
        ([str(folder), "--epochs", "0"], "--epochs: 0"),
        ([str(folder), "--epoch", "1"], "--epoch: unknown option"),
    ):
        capfd.readouterr()
        assert main(words) == 2
        _, err = capfd.readouterr()
        assert err.count("\n") == 1 and err.startswith("reconstruct: error: ") and message in err, (words, err)
