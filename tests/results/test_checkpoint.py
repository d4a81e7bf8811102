import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from fl_ddp.errors import ConfigError, RunError
from fl_ddp.protocol import Tensors
from fl_ddp.results import checkpoint

SERVER: Tensors = {
    "theta": torch.arange(6.0).view(2, 3) / 7,
    "precise": torch.tensor([1 / 3, float("inf")], dtype=torch.float64),
    "count": torch.tensor(2**62),
    "seen": torch.tensor([True, False]),
    "half": torch.tensor([0.1, -2.0]).bfloat16(),
    "bank": torch.empty(0, 4),
}
MINE: Tensors = {"c": torch.zeros(3), "steps": torch.tensor(0), "flag": torch.tensor(False), "none": torch.empty(0)}


def mine(client: int) -> Tensors:
    return {
        "c": torch.arange(3.0) + client,
        "steps": torch.tensor(client),
        "flag": torch.tensor(client % 2 == 0),
        "none": torch.empty(0),
    }


def stacked(clients: list[int]) -> Tensors:
    each = [mine(client) for client in clients]
    return {"ids": torch.tensor(clients)} | {name: torch.stack([m[name] for m in each]) for name in MINE}


def save(
    run: Path, round: int, keep: int = 2, accuracy: float | None = None, server: Tensors = SERVER, since: int = 0
) -> Path:
    temporary = checkpoint.begin(run, round)
    checkpoint.write_server(temporary, server)
    return checkpoint.commit(run, temporary, {"round": round, "lr": 0.1}, keep, accuracy, since)


def names(run: Path) -> list[str]:
    return sorted(path.name for path in (run / "checkpoints").iterdir())


def found(run: Path) -> checkpoint.Checkpoint:
    newest = checkpoint.newest(run).checkpoint
    assert newest is not None
    return newest


@contextmanager
def full_disk(limit: int) -> Iterator[None]:
    """No file can grow beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_server_state_comes_back_bit_for_bit_in_every_type(tmp_path: Path) -> None:
    save(tmp_path, 3, accuracy=0.5)
    newest = found(tmp_path)
    assert (newest.round, newest.goodness, newest.state) == (3, 0.5, {"round": 3, "lr": 0.1})
    server = newest.server(SERVER)
    assert server.keys() == SERVER.keys()
    for name, tensor in SERVER.items():
        assert server[name].dtype == tensor.dtype and torch.equal(server[name], tensor)


def test_one_tensor_under_two_names_and_views_can_be_saved(tmp_path: Path) -> None:
    theta = torch.arange(4.0)
    server = {"theta": theta, "anchor": theta, "part": theta[1:3], "turned": theta.view(2, 2).T}
    save(tmp_path, 1, server=server)
    assert all(torch.equal(t, server[name]) for name, t in found(tmp_path).server(server).items())


@settings(max_examples=10, deadline=None)
@given(clients=st.sets(st.integers(0, 50), max_size=12), written=st.integers(1, 3), read=st.integers(1, 3))
def test_memory_is_dealt_anew_to_any_number_of_ranks(
    tmp_path_factory: pytest.TempPathFactory, clients: set[int], written: int, read: int
) -> None:
    run = tmp_path_factory.mktemp("run")
    temporary = checkpoint.begin(run, 1)
    checkpoint.write_server(temporary, SERVER)
    for rank in range(written):
        if held := sorted(client for client in clients if client % written == rank):
            checkpoint.write_memory(temporary, rank, stacked(held))
    checkpoint.commit(run, temporary, {}, 1, None)

    def part_of(rank: int) -> dict[int, Tensors]:
        return found(run).memory(lambda client: client % read == rank, MINE)

    parts = [part_of(rank) for rank in range(read)]
    assert sorted(client for part in parts for client in part) == sorted(clients)
    for rank, part in enumerate(parts):
        assert all(client % read == rank for client in part)
        for client, memory in part.items():
            assert all(torch.equal(memory[name], tensor) for name, tensor in mine(client).items())


def test_newest_ones_and_the_best_are_kept(tmp_path: Path) -> None:
    for round, accuracy in enumerate([0.1, 0.9, None, 0.9, 0.2, 0.3], 1):
        save(tmp_path, round, keep=2, accuracy=accuracy)
    assert names(tmp_path) == ["best", "latest", "round_000002", "round_000005", "round_000006"]
    assert (tmp_path / "checkpoints/best").read_text() == "round_000002\n"
    assert (tmp_path / "checkpoints/latest").read_text() == "round_000006\n"


def test_a_pointer_that_is_no_text_is_written_anew(tmp_path: Path) -> None:
    save(tmp_path, 1, accuracy=0.5)
    (tmp_path / "checkpoints/best").write_bytes(b"\xff\xfe")
    save(tmp_path, 2, accuracy=0.25)
    assert (tmp_path / "checkpoints/best").read_text() == "round_000001\n"


def test_the_millionth_round_is_newer_than_the_one_before(tmp_path: Path) -> None:
    for round in (999_999, 1_000_000, 1_000_010):
        save(tmp_path, round, keep=1)
    assert checkpoint.rounds(tmp_path) == [1_000_010] and found(tmp_path).round == 1_000_010


def test_what_is_best_stays_known_where_it_cannot_be_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, 1, keep=2, accuracy=0.5)

    @contextmanager
    def full(path: Path) -> Iterator[None]:
        raise OSError(28, "No space left on device")
        yield

    monkeypatch.setattr(checkpoint, "replacing", full)
    with pytest.raises(RunError, match="No space left on device"):
        save(tmp_path, 2, keep=2, accuracy=0.9)
    assert checkpoint.best(tmp_path) == 1 and checkpoint.rounds(tmp_path) == [1, 2]


def test_the_best_is_of_the_rounds_that_compare_with_the_last(tmp_path: Path) -> None:
    for round, accuracy, since in ((1, 0.9, 0), (2, 0.3, 2), (3, 0.4, 2), (4, 0.4, 2), (5, None, 2)):
        save(tmp_path, round, keep=1, accuracy=accuracy, since=since)
        best = {1: 1, 2: 2}.get(round, 3)
        assert checkpoint.best(tmp_path) == best
        assert checkpoint.rounds(tmp_path) == sorted({best, round})


def test_no_checkpoint_is_best_without_an_evaluation(tmp_path: Path) -> None:
    for round in (1, 2):
        save(tmp_path, round, keep=1)
    assert names(tmp_path) == ["latest", "round_000002"]


def test_half_written_checkpoint_and_missing_latest_do_not_matter(tmp_path: Path) -> None:
    save(tmp_path, 1)
    checkpoint.write_server(checkpoint.begin(tmp_path, 2), SERVER)
    (tmp_path / "checkpoints/latest").unlink()
    assert found(tmp_path).round == 1
    save(tmp_path, 3)
    assert names(tmp_path) == ["latest", "round_000001", "round_000003"]


@pytest.mark.parametrize("damage", ["server short", "server missing", "state short", "state missing", "state empty"])
def test_checkpoint_cut_short_is_skipped_with_a_warning(tmp_path: Path, damage: str) -> None:
    save(tmp_path, 1)
    file = save(tmp_path, 2) / {"server": "server.safetensors", "state": "state.json"}[damage.split()[0]]
    content = file.read_bytes()
    file.unlink()
    if "missing" not in damage:
        file.write_bytes(content[: 0 if "empty" in damage else len(content) // 2])
    newest = checkpoint.newest(tmp_path)
    assert newest.checkpoint is not None and newest.checkpoint.round == 1
    assert len(newest.warnings) == 1 and "round_000002" in newest.warnings[0]


def test_no_usable_checkpoint_is_none(tmp_path: Path) -> None:
    assert checkpoint.newest(tmp_path) == (None, [])
    (save(tmp_path, 1) / "state.json").unlink()
    newest = checkpoint.newest(tmp_path)
    assert newest.checkpoint is None and len(newest.warnings) == 1


def test_replay_after_a_step_back_replaces_the_later_checkpoints(tmp_path: Path) -> None:
    for round in (1, 2, 3):
        save(tmp_path, round, keep=3, accuracy=round / 10)
    save(tmp_path, 2, keep=3, accuracy=0.0)
    assert names(tmp_path) == ["best", "latest", "round_000001", "round_000002"]
    assert found(tmp_path).goodness == 0.0
    assert (tmp_path / "checkpoints/best").read_text() == "round_000001\n"


def test_edited_tensors_are_refused(tmp_path: Path) -> None:
    file = save(tmp_path, 1) / "server.safetensors"
    save_file(load_file(file) | {"theta": torch.ones(2, 3)}, file)
    with pytest.raises(ConfigError, match=r"server\.safetensors: was edited"):
        checkpoint.newest(tmp_path)


@pytest.mark.parametrize("number", ["0.2", "NaN", "1e999"])
def test_edited_state_is_refused(tmp_path: Path, number: str) -> None:
    file = save(tmp_path, 1) / "state.json"
    file.write_text(file.read_text().replace("0.1", number))
    with pytest.raises(ConfigError, match=r"state\.json: was edited"):
        checkpoint.newest(tmp_path)


@pytest.mark.parametrize(("content", "message"), [('{"format": 9}', "format 9"), ("[{}", "edited"), ("[{}]", "short")])
def test_foreign_state_is_refused(tmp_path: Path, content: str, message: str) -> None:
    folder = save(tmp_path, 1)
    (folder / "state.json").write_text(content + "\n")
    if message == "short":
        assert message in checkpoint.newest(tmp_path).warnings[0]
        return
    with pytest.raises(ConfigError, match=message):
        checkpoint.newest(tmp_path)


def test_pickle_in_place_of_tensors_is_refused_unread(tmp_path: Path) -> None:
    folder = save(tmp_path, 1)
    (folder / "server.safetensors").write_bytes(b"\x80\x04cos\nsystem\n" * 100)
    with pytest.raises(ConfigError, match="server"):
        checkpoint.newest(tmp_path)
    with pytest.raises(ConfigError, match="cannot be read"):
        checkpoint.load(tmp_path, 1).server(SERVER)


@pytest.mark.parametrize(
    "like",
    [
        {**SERVER, "theta": torch.zeros(3, 2)},
        {**SERVER, "theta": torch.zeros(2, 3, dtype=torch.float64)},
        {**SERVER, "velocity": torch.zeros(3)},
        {name: tensor for name, tensor in SERVER.items() if name != "theta"},
    ],
)
def test_tensors_of_another_run_are_refused(tmp_path: Path, like: Tensors) -> None:
    save(tmp_path, 1)
    with pytest.raises(ConfigError, match=r"server\.safetensors: tensor '(theta|velocity)'"):
        found(tmp_path).server(like)


def test_a_folder_that_somebody_has_removed_is_not_made_again(tmp_path: Path) -> None:
    """A checkpoint alone is nothing to go on from, and a run that cannot keep its files has to say so."""
    with pytest.raises(RunError, match="No such file or directory"):
        checkpoint.begin(tmp_path / "gone", 5)
    assert not (tmp_path / "gone").exists()


def test_full_disk_leaves_the_older_checkpoint_and_no_rubbish(tmp_path: Path) -> None:
    save(tmp_path, 1)
    temporary = checkpoint.begin(tmp_path, 2)
    with full_disk(4096), pytest.raises(RunError, match=r"server\.safetensors: cannot be written") as error:
        checkpoint.write_server(temporary, {"theta": torch.zeros(10_000)})
    assert "\n" not in str(error.value)
    assert names(tmp_path) == ["latest", "round_000001"]
    temporary = checkpoint.begin(tmp_path, 2)
    checkpoint.write_server(temporary, SERVER)
    with full_disk(4096), pytest.raises(RunError, match=r"state\.json: cannot be written"):
        checkpoint.commit(tmp_path, temporary, {"notes": "x" * 10_000}, 2, None)
    assert names(tmp_path) == ["latest", "round_000001"] and found(tmp_path).round == 1


def test_state_is_plain_json(tmp_path: Path) -> None:
    document = json.loads((save(tmp_path, 7) / "state.json").read_text())
    assert document["format"] == 1 and document["round"] == 7 and document["state"]["lr"] == 0.1
    assert document["files"].keys() == {"server.safetensors"}
