"""Whole rounds on the pretended device: no mixed devices, the bits of a CPU, and hardly a wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import device_cases
import pretend_device
import pytest
import torch
from on_device import CPU, Settings, played
from pretend_device import DEVICE, Seen, note_wait, pretending
from safetensors.torch import load_file

from fl_ddp.check.runs import SETTINGS
from fl_ddp.config.command_line import from_mapping
from fl_ddp.engine.group import Group
from fl_ddp.engine.samples import Samples
from fl_ddp.engine.transfer import upload
from fl_ddp.errors import ConfigError, RankLostError, RunError
from fl_ddp.evaluation.models import Evaluation
from fl_ddp.evaluation.scores import Scores, evaluate
from fl_ddp.host.interrupt import StopRequest
from fl_ddp.host.stopwatch import Stopwatch
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.methods.fedcurv import FedCurv
from fl_ddp.methods.fedpac import FedPAC
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.protocol import Indices, Info, Round, Tensors, Total, Trained, Upload
from fl_ddp.ranks.collectives import Common, Offer, Ranks
from fl_ddp.ranks.exchange import Exchange, Work
from fl_ddp.ranks.outputs import Passes
from fl_ddp.results import checkpoint
from fl_ddp.results.metrics import Record
from fl_ddp.run import run
from fl_ddp.run_files import RunFiles
from fl_ddp.run_tables import OfClients

pytestmark = pretend_device.needed
QUICK = ("FedAvg",)
"""Cases of the default suite."""
MOST_WAITS = 1
"""A round of one rank, and two more where it is evaluated: one for each of the two models."""
CASES: Mapping[str, Settings] = {**device_cases.METHODS, **device_cases.SETTINGS}


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.cuda_code) for name in CASES]
)
def test_a_run_has_the_bits_of_a_cpu_and_seldom_waits(name: str, tmp_path: Path) -> None:
    settings = {**device_cases.SHORT, **device_cases.with_data(CASES[name], tmp_path)}
    there = played(settings)
    assert name in device_cases.OTHER_BITS or there.unlike(played(settings, CPU)) == []
    _, plain, evaluated, _ = there.rounds  # what is made once a run is made in the first one
    more = device_cases.MORE_WAITS.get(name, 0)
    assert plain.waits <= MOST_WAITS + more, plain.told
    assert evaluated.waits <= MOST_WAITS + 2 + more, evaluated.told


@pytest.mark.cuda_code
def test_local_steps_never_wait_and_little_is_launched_beside_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Exchange, "begin", lambda *_: None)  # each round launches what is its own
    (_, one, evaluated, _), (_, nine, *_) = (
        played({**device_cases.SHORT, "local_steps": steps}).rounds for steps in (1, 9)
    )
    assert one.waits == nine.waits
    assert "step.py" not in nine.told
    per_step = (nine.launches - one.launches) / (2 * 8)  # of two groups, of an eager step, which one graph takes over
    assert per_step <= 80
    assert one.launches - 2 * per_step <= 240
    assert evaluated.launches - one.launches <= 290


def test_groups_of_clients_add_no_wait_and_few_uploads() -> None:
    settings = {**device_cases.SHORT, "local_test": 0}  # the next round is begun in this one, and has tests of its own
    one, four = (played({**settings, "lanes": lanes}).rounds[1] for lanes in (6, 1))
    assert one.waits == four.waits == 1
    assert (one.uploads, four.uploads - one.uploads) == (3, 3 * 2), four.told  # its numbers and steps


@pytest.mark.parametrize("every", [1, 2])
def test_nothing_goes_up_between_a_wait_and_the_next_rounds_training(
    every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the device always has something to do: what the host knows of a round lies ready before."""
    told: list[str] = []
    note, train = Seen.note, FedAvg.client_update

    def noting(self: Seen, kind: str, operator: str, number: int = 1, size: int = 0) -> None:
        told.append(kind.partition(":")[0])
        note(self, kind, operator, number, size)

    def training(self: FedAvg, group: Group, server: Tensors, memory: Tensors) -> Upload:
        upload = train(self, group, server, memory)
        told.append("trained")
        return upload

    monkeypatch.setattr(Seen, "note", noting)
    monkeypatch.setattr(FedAvg, "client_update", training)
    played({**device_cases.SHORT, "local_test": 0, "eval_every": every})
    in_turn = [what for what, _ in groupby(told)]
    # it trains the next round's first group while the host hears of this one, or of its test
    round_, tested = "trained upload trained wait", "trained upload wait upload trained wait"
    first = tested if every == 1 else round_
    expected = " ".join([first, tested, first, "trained upload wait upload wait"])
    assert " ".join(in_turn).endswith(expected), in_turn


@pytest.mark.parametrize("settings", [{}, {"data": "numbers", "loss": "mse", "partition": "Quantity"}])
def test_scores_are_waited_for_when_the_next_round_has_begun(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what that takes is taken from the phase that it is in."""
    told: list[str] = []
    test, begin, phase, note = Evaluation.of_server, Exchange.begin, Stopwatch.phase, Seen.note

    def noting(self: Seen, kind: str, operator: str, number: int = 1, size: int = 0) -> None:
        told.extend(["waited"] * kind.startswith("wait"))
        note(self, kind, operator, number, size)

    def testing(self: Evaluation, theta: torch.Tensor, of_all_tasks: bool = False) -> Callable[[], Scores]:
        scores = test(self, theta, of_all_tasks)
        told.append("tested")
        return scores

    def beginning(self: Exchange, hand: Indices, work: Work) -> None:
        told.append("begun" + " in server" * (told.count("server") > told.count("no longer")))
        begin(self, hand, work)

    @contextmanager
    def timed(self: Stopwatch, name: str) -> Iterator[None]:
        with phase(self, name):
            told.extend(["server"] * (name == "server"))
            yield
            told.extend(["no longer"] * (name == "server"))

    monkeypatch.setattr(Seen, "note", noting)
    monkeypatch.setattr(Evaluation, "of_server", testing)
    monkeypatch.setattr(Exchange, "begin", beginning)
    monkeypatch.setattr(Stopwatch, "phase", timed)
    every = {**device_cases.SHORT, "local_test": 0, "eval_every": 1}
    played(device_cases.with_data({**every, **settings}, tmp_path))
    seen = [each for each in told[told.index("tested") :] if each not in ("server", "no longer")]
    assert seen == [*["tested", "begun in server", "waited", "waited"] * 3, "tested", "waited"], "then for the round"


def test_a_method_is_asked_of_a_round_before_its_clients_train_in_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, str]] = []
    train, sent = FedAvg.client_update, FedAvg.sent_bytes

    def training(self: FedAvg, group: Group, server: Tensors, memory: Tensors) -> Upload:
        asked.append((group.round, "trains"))
        return train(self, group, server, memory)

    def sending(self: FedAvg, server: Tensors, in_round: Round) -> int:
        asked.append((in_round.index, "was sent"))
        return sent(self, server, in_round)

    monkeypatch.setattr(FedAvg, "client_update", training)
    monkeypatch.setattr(FedAvg, "sent_bytes", sending)
    played({**device_cases.SHORT, "local_test": 0, "eval_every": 100})
    assert len(asked) > 4 and asked == sorted(asked, key=lambda each: each[0])


def full_once(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> list[str]:
    """Have the first call of a function of a class find no memory; it is named in a list for each call."""
    calls, function = list[str](), getattr(owner, name)

    def full(*given: Any, **options: Any) -> Any:
        calls.append(name)
        if len(calls) == 1:
            raise torch.OutOfMemoryError("no room")
        return function(*given, **options)

    monkeypatch.setattr(owner, name, full)
    return calls


def test_a_test_without_room_beside_the_next_round_is_done_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test of what clients receive, which comes when they are in training."""
    settings: Settings = {**device_cases.SHORT, "eval_every": 2}
    right = played(settings)
    tries = full_once(monkeypatch, Evaluation, "received")
    assert played(settings).unlike(right) == [] and len(tries) == 1 + 2


def test_a_measure_without_room_beside_the_next_round_is_taken_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    settings: Settings = {**device_cases.SHORT, **device_cases.SETTINGS["a measure"], "eval_every": 2}
    right = played(settings)
    tries = full_once(monkeypatch, Samples, "copies")
    assert played(settings).unlike(right) == [] and len(tries) == 1 + 2


@pytest.mark.parametrize("method", ["FedAvg", "FedPAC"])
def test_no_group_is_trained_twice(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """FedPAC's clients have models of their own, without memory, that are tested before they train."""
    trained: list[tuple[int, ...]] = []
    train = Group.train

    def training(self: Group, *given: Any, **options: Any) -> Trained:
        trained.append((self.round, *self.client))
        return train(self, *given, **options)

    monkeypatch.setattr(Group, "train", training)
    played({**device_cases.SHORT, "method": method, "eval_every": 2})
    once = {"FedAvg": 1, "FedPAC": 2}[method]  # heads, then bodies
    assert set(Counter(trained).values()) == {once}


def test_a_batch_of_an_evaluation_is_few_launches() -> None:
    draw = torch.Generator().manual_seed(0)
    x, y = torch.randn(100, 6, generator=draw), torch.randint(4, (100,), generator=draw)
    with pretending() as seen:
        samples = Samples(upload(x, DEVICE), upload(y, DEVICE))
        layer, found, launches = torch.nn.Linear(6, 4).to(DEVICE), [], []
        for size in (100, 10):
            seen.clear()
            found.append(evaluate(layer, samples, 4, Passes(torch.float32, size), Ranks(0, 1, DEVICE))())
            launches.append(sum(seen.launches.values()))
            assert seen.waits() == 1
    assert (launches[1] - launches[0]) / 9 <= 10
    assert found[0].confusion == found[1].confusion


class FirstOfTwo(Ranks):
    """Rank 0 of two, of which the other one adds nothing but the same mark; sums of the device are waited for.

    Attributes:
        verdicts: on which the ranks have agreed, among hosts.
    """

    verdicts = 0

    def agree(self, error: Exception | None, form: int = 0) -> bool:
        self.verdicts += 1
        return super().agree(error, form) or True

    def add(self, buffer: torch.Tensor) -> torch.Tensor:
        if buffer.device == DEVICE:
            note_wait("sum")
        return buffer

    def add_common(self, offer: Offer) -> Common:
        common = super().add_common(offer)
        return common._replace(same=common.same | True)


@pytest.mark.cuda_code
@pytest.mark.parametrize(("local_test", "models"), [(0.3, 2), (0, 1)])
def test_two_ranks_wait_for_their_sums_and_verdicts_alone(local_test: float, models: int) -> None:
    settings, ranks = {**device_cases.SHORT, "cohort": 8, "local_test": local_test}, FirstOfTwo(0, 2, DEVICE)
    _, plain, evaluated, _ = played(settings, ranks=ranks).rounds
    assert plain.waits <= 3, plain.told  # verdicts of training, the sum, and all that comes of it
    assert evaluated.waits <= 3 + 2 * models, evaluated.told  # of each of the models, the sum and its copy
    # on the samples that there are, on four rounds' training, the server's steps of the two without a test, twice on
    # each model's test, and on saving
    assert ranks.verdicts == 1 + 4 + 2 + 2 * models * 2 + 2


@pytest.mark.parametrize("method", [FedCurv, FedPAC])
def test_totals_lie_in_memory_as_those_of_one_rank(method: type[FedAvg], monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU sums a row of numbers by where it begins, and a server's step may do so, with sums and with rows."""
    places: list[dict[str, int]] = []
    update = method.server_update

    def noted(self: FedAvg, server: Tensors, total: Total, info: Info) -> Tensors:
        places.append({name: t.data_ptr() % 64 for name, t in {**total.sums, **total.rows}.items()})
        return update(self, server, total, info)

    monkeypatch.setattr(method, "server_update", noted)
    for ranks in (Ranks(0, 1, DEVICE), FirstOfTwo(0, 2, DEVICE)):
        played({**device_cases.SHORT, "method": method.__name__, "rounds": 2}, ranks=ranks)
    one, two = places[:2], places[2:]
    assert one == two and len(one[1]) > 2


@pytest.mark.cuda_code
def test_a_run_with_files_goes_on_after_its_end(tmp_path: Path) -> None:
    settings = {**SETTINGS, **device_cases.SHORT, "method": "Scaffold", "rounds": 2, "out": str(tmp_path)}
    with pretending():
        ended = run(from_mapping({**settings, "name": "there"}), Ranks(0, 1, DEVICE), StopRequest())
        again = {"resume": str(tmp_path / "there"), "rounds": 4}
        resumed = run(from_mapping(again), Ranks(0, 1, DEVICE), StopRequest())
    whole = run(from_mapping({**settings, "name": "here", "rounds": 4}), Ranks(0, 1, CPU), StopRequest())
    assert ended["parameters_sha256"] != resumed["parameters_sha256"] == whole["parameters_sha256"]


def test_rounds_that_are_over_are_written_down_though_the_next_one_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    tries: list[int] = []
    of_fourth: Exception = ValueError("of the fourth round")
    unwritten = 3
    train, write = FedAvg.client_update, RunFiles.round

    def failing(self: FedAvg, group: Group, server: Tensors, memory: Tensors) -> Upload:
        tries.append(group.round)
        if group.round == 3:
            raise of_fourth
        return train(self, group, server, memory)

    def full(self: RunFiles, record: Record, clients: OfClients) -> Record:
        if record.round == unwritten:
            raise RunError("the disk is full")
        return write(self, record, clients)

    def failed(name: str, settings: Settings, error: type[Exception]) -> list[str]:
        given = {**SETTINGS, **device_cases.SHORT, "rounds": 6, "out": str(tmp_path), "name": name, **settings}
        ranks = Ranks(0, 1, DEVICE)
        with pretending(), pytest.raises(error):
            run(from_mapping(given), ranks, StopRequest())
        assert not ranks.late
        return (tmp_path / name / "metrics.csv").read_text().splitlines()[1:]

    monkeypatch.setattr(FedAvg, "client_update", failing)
    assert len(failed("begun", {"eval_every": 6}, ValueError)) == 3
    assert tries.count(3) == 1
    assert len(failed("tested", {"eval_every": 3}, ValueError)) == 3
    monkeypatch.setattr(RunFiles, "round", full)
    for of_fourth in (ValueError("of the fourth round"), RankLostError("of the fourth round")):
        capfd.readouterr()
        assert len(failed(type(of_fourth).__name__, {"eval_every": 6}, type(of_fourth))) == 2
        said = capfd.readouterr().out
        assert said.count("the disk is full") == said.count("fl_ddp: warning: ") == 1, said
    monkeypatch.setattr(FedAvg, "client_update", train)
    unwritten = 2
    assert len(failed("full", {"eval_every": 6}, RunError)) == 1
    saved = checkpoint.newest(tmp_path / "full")[0]
    assert saved and saved.round in (2, 3)


def test_a_client_that_writes_into_what_it_is_given_spoils_no_round_that_is_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    train = FedAvg.client_update

    def writing(self: FedAvg, group: Group, server: Tensors, memory: Tensors) -> Upload:
        if group.round == 2:
            server["theta"].add_(1)
        return train(self, group, server, memory)

    settings = {**SETTINGS, **device_cases.SHORT, "eval_every": 6, "out": str(tmp_path)}
    with pretending():
        run(from_mapping({**settings, "rounds": 2, "name": "right"}), Ranks(0, 1, DEVICE), StopRequest())
        monkeypatch.setattr(FedAvg, "client_update", writing)
        with pytest.raises(ConfigError, match="writes into theta"):
            run(from_mapping({**settings, "rounds": 6, "name": "spoilt"}), Ranks(0, 1, DEVICE), StopRequest())
    for name in ("right", "spoilt"):
        found = checkpoint.newest(tmp_path / name)[0]
        assert found and found.round == 2
    files = (tmp_path / name / "checkpoints" / "round_000002" / checkpoint.SERVER for name in ("right", "spoilt"))
    right, spoilt = (load_file(file)["theta"] for file in files)
    assert torch.equal(right, spoilt)


def test_a_planted_mistake_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that adds a tensor of the host to its logits."""
    logits = FlatModel.logits

    def planted(self: FlatModel, *args: object) -> torch.Tensor:
        return logits(self, *args) + torch.zeros(self.num_classes)  # type: ignore[arg-type]

    monkeypatch.setattr(FlatModel, "logits", planted)
    with pytest.raises(Exception, match=r"device .* and host"):
        played(device_cases.SHORT)
