"""launch.results: runs, and folders of runs, that are links."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from written_runs import Written

from launch.compare.found_runs import find_runs


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs in runs/, and two elsewhere."""
    monkeypatch.chdir(tmp_path)
    for seed, place in enumerate(("runs/a", "runs/deep/b", "disk/c", "disk/d")):
        Written({"seed": seed}, [0.5]).at(Path(place))


def found(*folders: str) -> list[str]:
    return [str(each.run.folder) for each in find_runs([Path(folder) for folder in folders]).runs]


def test_links_beside_runs_are_followed() -> None:
    Path("runs/c").symlink_to("../disk/c")
    assert found("runs") == ["runs/a", "runs/c", "runs/deep/b"]
    Path("links").mkdir()
    Path("links/all").symlink_to("../disk", target_is_directory=True)
    assert found("links") == ["links/all/c", "links/all/d"]
    Path("linked").symlink_to("disk")
    assert found("linked") == ["linked/c", "linked/d"]


def test_links_that_lead_back_have_an_end_and_each_run_counts_once() -> None:
    for name, to in (
        ("0", "a"),
        ("deep/up", "../.."),
        ("deep/self", "."),
        ("gone", "nowhere"),
        ("file", "a/metrics.csv"),
    ):
        Path("runs", name).symlink_to(to)
    assert found("runs") == ["runs/a", "runs/deep/b", "runs/deep/up/disk/c", "runs/deep/up/disk/d"]
    assert found("runs", "disk")[2:] == ["runs/deep/up/disk/c", "runs/deep/up/disk/d"]


def test_a_point_that_is_a_link_is_the_sweeps() -> None:
    """So that what its sweep says of it is of that run."""
    Path("runs/sweep").mkdir()
    Path("runs/sweep/seed=0").symlink_to("../a")
    points = [{"folder": "seed=0", "options": {"seed": "0"}, "failed": "it broke"}]
    Path("runs/sweep/sweep.json").write_text(json.dumps({"base": [], "varied": ["seed"], "points": points}))
    finds = find_runs([Path("runs")])
    assert found("runs") == ["runs/sweep/seed=0", "runs/deep/b"] and not finds.failed and not finds.waiting


def test_a_sweep_that_is_a_link_is_read() -> None:
    points = [{"folder": name, "options": {"seed": "2"}} for name in ("c", "d", "e")]
    Path("disk/sweep.json").write_text(json.dumps({"base": [], "varied": ["seed"], "points": points}))
    Path("sweeps").mkdir()
    Path("sweeps/mine").symlink_to("../disk")
    assert found("sweeps") == ["sweeps/mine/c", "sweeps/mine/d"]
    assert find_runs([Path("sweeps")]).waiting == (Path("sweeps/mine/e"),)


def test_a_finished_run_that_two_sweeps_share_has_failed_in_neither() -> None:
    for sweep, place in (("one", "../../runs/a"), ("two", "../one/seed=0")):
        Path("sweeps", sweep).mkdir(parents=True)
        Path("sweeps", sweep, "seed=0").symlink_to(place)
        points = [{"folder": "seed=0", "options": {"seed": "0"}, "failed": "it broke"}]
        Path("sweeps", sweep, "sweep.json").write_text(json.dumps({"base": [], "varied": ["seed"], "points": points}))
    assert not find_runs([Path("sweeps")]).failed and found("sweeps") == ["sweeps/one/seed=0"]


def test_a_point_that_two_folders_lead_to_waits_once() -> None:
    points = [{"folder": "e", "options": {"seed": "2"}}]
    Path("disk/sweep.json").write_text(json.dumps({"base": [], "varied": ["seed"], "points": points}))
    Path("same").symlink_to("disk")
    assert len(find_runs([Path("disk"), Path("same")]).waiting) == 1
