"""A round that fails in the middle of its end, or on its way to the disk, is saved as a whole or not at all."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Event

import pytest
from launching import SMALL, checkpoints, numbers, one_thread, resumed, simulated
from safetensors.torch import load_file

from fl_ddp import simulate
from fl_ddp.engine.group import Group
from fl_ddp.errors import ConfigError, RunError
from fl_ddp.host.atomic_file import writing
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.methods.fedcl import FedCL
from fl_ddp.protocol import Info, Tensors, Total, Upload
from fl_ddp.ranks.memory import OnHost
from fl_ddp.results import checkpoint
from fl_ddp.results.checkpoint import commit

OFTEN: Mapping[str, object] = {**SMALL, "checkpoint_every": 1, "keep_checkpoints": 9, "rounds": 4}
REMEMBERING: Mapping[str, object] = {**SMALL, "method": "Scaffold", "keep_checkpoints": 3, "lanes": 1}

Whole = Callable[[Mapping[str, object]], Path]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """The folder of the run of some settings that nothing interrupts, which all tests compare with."""
    made = dict[str, Path]()

    def run_of(settings: Mapping[str, object]) -> Path:
        name = repr(sorted(settings.items()))
        if name not in made:
            made[name] = simulated({**settings, "name": "whole"}, tmp_path_factory.mktemp("whole"))
        return made[name]

    return run_of


def test_memory_that_has_no_room_is_of_the_round_before(
    whole: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the second round the last of the clients that are new to it finds none."""
    usual = whole(REMEMBERING)
    known = len(load_file(usual / "checkpoints" / "round_000002" / "memory.0.safetensors")["ids"])
    assert known > 7 + 1, "of the first cohort"
    fresh, made = OnHost.fresh, []

    def full(self: OnHost) -> list[Tensors]:
        made.append(1)
        if len(made) == known:
            raise MemoryError
        return fresh(self)

    with monkeypatch.context() as machine:
        machine.setattr(OnHost, "fresh", full)
        with pytest.raises(RunError, match=r"memory is too small .*; round 1 is saved in "):
            simulated({**REMEMBERING, "checkpoint_every": 9}, tmp_path)
    run = tmp_path / "run"
    assert checkpoints(run) == ["round_000001"], "the error's"
    for each in ("server", "memory.0"):
        first = [folder / "checkpoints" / "round_000001" / f"{each}.safetensors" for folder in (run, usual)]
        assert first[0].read_bytes() == first[1].read_bytes()
    assert numbers(resumed(run)) == numbers(usual)


def broken(failing: int, times: int) -> Callable[[Path], AbstractContextManager[None]]:
    """Writing that fails so many times on what the table of clients has of a round."""

    @contextmanager
    def writing_to(path: Path) -> Iterator[None]:
        nonlocal times
        with writing(path):
            yield
            if times and path.name == "clients.csv" and f"\n{failing}," in path.read_text():
                times -= 1
                raise OSError(errno.EIO, "Input/output error")

    return writing_to


def ends_and_goes_on(
    usual: Whole, failing: int, times: int, saved: int, every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run whose table of clients fails in a round: what is saved, and that it goes on as if nothing had been."""
    settings = {**SMALL, "local_test": 0.3}
    whole = usual(settings)
    with monkeypatch.context() as disk:
        disk.setattr("fl_ddp.results.appended_csv.writing", broken(failing, times))
        with pytest.raises(RunError, match=f"clients.csv: cannot be written .*; round {saved} is saved in "):
            simulated({**settings, "checkpoint_every": every}, tmp_path)
    run = tmp_path / "run"
    assert checkpoints(run)[-1] == f"round_00000{saved}"
    assert (whole / "clients.csv").read_text().startswith((run / "clients.csv").read_text())
    assert numbers(resumed(run)) == numbers(whole)
    assert (run / "clients.csv").read_text() == (whole / "clients.csv").read_text()


@pytest.mark.parametrize("every", [1, 9])
@pytest.mark.parametrize("failing", [2, 3])
def test_a_row_that_fails_once_is_saved_with_its_round(
    failing: int, every: int, whole: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends_and_goes_on(whole, failing, 1, failing, every, tmp_path, monkeypatch)


@pytest.mark.parametrize(("failing", "saved"), [(2, 1), (3, 2)])
def test_a_round_whose_row_cannot_be_written_is_not_saved(
    failing: int, saved: int, whole: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends_and_goes_on(whole, failing, 99, saved, 1, tmp_path, monkeypatch)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize(("method", "hook"), [(FedAvg, "client_update"), (FedCL, "measure")])
def test_a_client_that_writes_into_the_servers_state_is_refused_and_nothing_of_it_is_saved(
    method: type[FedAvg], hook: str, fails: bool, whole: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other groups, on other ranks, receive what it has written over."""
    usual = getattr(method, hook)

    def in_place(self: FedAvg, group: Group, server: Tensors, *memory: Tensors) -> object:
        given = usual(self, group, server, *memory)
        if group.round == 1:
            server["theta"][0] += 1
            if fails:
                raise ValueError(f"{hook} of {method.__name__}: writes into theta of the server's state, and fails")
        return given

    of_cl = {"method.proxy": 0.3, "method.proxy_batch": 32} if method is FedCL else {}
    settings = {**SMALL, "method": method.__name__, **of_cl}
    with monkeypatch.context() as code:
        code.setattr(method, hook, in_place)
        with pytest.raises(
            (ConfigError, ValueError), match=f"{hook} of {method.__name__}: writes into theta of the server's state"
        ):
            simulated({**settings, "checkpoint_every": 9}, tmp_path)
    run = tmp_path / "run"
    assert not checkpoints(run)
    assert numbers(resumed(run)) == numbers(whole(settings))


def test_a_round_trains_while_the_one_before_gets_to_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained, usual = Event(), FedAvg.client_update

    def update(self: FedAvg, group: Group, server: Tensors, memory: Tensors) -> Upload:
        if group.round == 1:
            trained.set()
        return usual(self, group, server, memory)

    def slow(*given: object) -> Path:
        assert trained.wait(20.0)
        return commit(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(FedAvg, "client_update", update)
    monkeypatch.setattr(checkpoint, "commit", slow)
    run = simulated(OFTEN, tmp_path)
    assert checkpoints(run) == [f"round_{i:06d}" for i in (1, 2, 3, 4)]


def test_a_run_that_ends_early_leaves_no_file_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook keeps the error, and with it all that the run was made of."""

    def failing(*_: object) -> Upload:
        raise ValueError("own mistake")

    monkeypatch.setattr(FedAvg, "client_update", failing)
    with pytest.raises(ValueError, match="own mistake") as kept:
        simulate({**OFTEN, "local_test": 0.3, "forgetting_every": 2, "out": str(tmp_path), "name": "run"})
    held = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert kept and not [path for path in held if path.is_relative_to(tmp_path)]


@contextmanager
def failing_disk(monkeypatch: pytest.MonkeyPatch, fails: int, last: int) -> Iterator[None]:
    """Checkpoints of some rounds fail; the round behind the first such one goes on when that has come out."""
    failed, usual = Event(), FedAvg.client_update

    def failing(*given: object) -> Path:
        round = int(given[1].name[7:13])  # type: ignore[attr-defined]
        if fails <= round <= last and not (failed.is_set() and fails == last):
            failed.set()
            raise RunError(f"round_{round:06d}: cannot be written (No space left on device)")
        return commit(*given)  # type: ignore[arg-type]

    def update(self: FedAvg, group: Group, server: Tensors, memory: Tensors) -> Upload:
        if group.round >= fails:
            failed.wait(0.2)
        return usual(self, group, server, memory)

    with monkeypatch.context() as disk:
        disk.setattr(checkpoint, "commit", failing)
        disk.setattr(FedAvg, "client_update", update)
        yield


@pytest.mark.parametrize(
    ("every", "fails", "saved"), [(1, 1, [2]), (1, 2, [1, 3]), (1, 4, [1, 2, 3, 4]), (2, 2, [3]), (9, 4, [4])]
)
def test_a_checkpoint_that_fails_ends_the_run_which_saves_what_is_finished(
    every: int, fails: int, saved: list[int], whole: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is heard of in the round after it."""
    seen, settings = list[int](), {**OFTEN, "checkpoint_every": every, "out": str(tmp_path), "name": "run"}
    with (
        failing_disk(monkeypatch, fails, fails),
        pytest.raises(RunError, match=rf"cannot be written .*; round {saved[-1]} is saved in "),
        one_thread(),
    ):
        simulate(settings, callbacks=[lambda record: seen.append(record.round)])
    run = tmp_path / "run"
    assert checkpoints(run) == [f"round_{i:06d}" for i in saved]
    assert seen == list(range(1, saved[-1] + 1)), "of each round that is over, for which it is not made again"
    assert numbers(resumed(run)) == numbers(whole(OFTEN))


def test_a_disk_that_stays_full_leaves_the_checkpoint_before(
    whole: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with failing_disk(monkeypatch, 2, 9), pytest.raises(RunError, match=r"cannot be written .*; round 1 is saved in "):
        simulated(OFTEN, tmp_path)
    run = tmp_path / "run"
    assert checkpoints(run) == ["round_000001"]
    assert numbers(resumed(run)) == numbers(whole(OFTEN))


def test_a_checkpoint_that_fails_unheard_is_told_beside_another_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def diverges(self: FedAvg, server: Tensors, total: Total, info: Info) -> Tensors:
        if info.index == 2:
            raise ValueError("a mistake")
        return usual(self, server, total, info)

    usual = FedAvg.server_update
    monkeypatch.setattr(FedAvg, "server_update", diverges)
    with failing_disk(monkeypatch, 2, 9), pytest.raises(ValueError, match="a mistake"):
        simulated({**OFTEN, "checkpoint_every": 2}, tmp_path)
    assert "warning: round_000002: cannot be written" in capfd.readouterr().out
    assert checkpoints(tmp_path / "run") == []
