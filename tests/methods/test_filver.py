"""FIL-VER: what is frozen, what is rehearsed, what is sent and what the server trains on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import own_models
import pytest
import torch
from given import round_of_one_task
from launching import finished, numbers, simulated
from torch import Tensor
from torch.nn import functional as F

from fl_ddp.check.runs import SETTINGS, SOLO, Unwritten, course, play
from fl_ddp.clients import own_samples
from fl_ddp.clients.embeddings import divergence
from fl_ddp.clients.own_samples import OfSamples
from fl_ddp.config.command_line import from_mapping
from fl_ddp.engine import group as engine_group
from fl_ddp.engine.plan import Plan
from fl_ddp.engine.seeds import normal
from fl_ddp.engine.workplace import Workplace
from fl_ddp.errors import ConfigError
from fl_ddp.federation import Federation, build_federation
from fl_ddp.methods import filver
from fl_ddp.methods.filver import FilVer
from fl_ddp.protocol import Batch, Info, Tensors, Total

THREE: dict[str, object] = {
    "method": "FilVer", "model": f"{own_models.__file__}:Embedded", "method.sst": 40, "method.send": 6,
    "method.remember": 30, "method.store": 90, "stream": "ClassGroups", "stream.tasks": 3, "stream.size": 3,
    "stream.scenario": "domain", "stream.task_rounds": 2, "rounds": 6, "cohort": 8, "keep_checkpoints": 9,
    "local_test": 0,
}  # fmt: skip


def federation(**changes: object) -> Federation:
    settings = {**SETTINGS, **THREE, **{key.replace("__", "."): value for key, value in changes.items()}}
    return build_federation(from_mapping(settings), SOLO)


def played(**changes: object) -> Unwritten:
    return play({**THREE, **{key.replace("__", "."): value for key, value in changes.items()}})


def method_of(built: Federation) -> FilVer:
    assert isinstance(built.method, FilVer)
    return built.method


@pytest.fixture(scope="module")
def run() -> Unwritten:
    return played()


def test_the_encoder_is_trained_on_the_first_task_and_then_frozen_in_all_bits(run: Unwritten) -> None:
    model = federation().model
    encoder, classifier = model.part("encoder"), model.part("classifier")
    thetas = [state.server["theta"] for state in run.states]
    assert not torch.equal(model.take(thetas[0], encoder), model.take(model.init(), encoder))
    assert all(torch.equal(model.take(theta, encoder), model.take(thetas[0], encoder)) for theta in thetas)
    assert not torch.equal(model.take(thetas[0], classifier), model.take(thetas[1], classifier))


def test_without_passes_the_encoder_stays_as_it_is_made() -> None:
    model = federation().model
    (state,) = played(method__pretrain_epochs=0, rounds=1).states
    encoder = model.part("encoder")
    assert torch.equal(model.take(state.server["theta"], encoder), model.take(model.init(), encoder))


def test_a_fresh_classifier_is_not_the_pretrained_one() -> None:
    built = federation()
    method, theta = method_of(built), built.model.init() + 1
    total = method.measured(method.init(), Total({"theta": theta.double()}))["theta"]
    assert torch.equal(total, theta)
    fresh = method_of(federation(method__start="fresh"))
    begun = fresh.measured(fresh.init(), Total({"theta": theta.double()}))["theta"]
    encoder, classifier = built.model.part("encoder"), built.model.part("classifier")
    assert torch.equal(built.model.take(begun, encoder), built.model.take(theta, encoder))
    assert torch.equal(built.model.take(begun, classifier), built.model.take(built.model.init(), classifier))


def test_the_loss_on_images_is_that_of_a_draw_and_the_divergence() -> None:
    built = federation()
    model, method = built.model, method_of(federation(method__beta=0.25))
    world = built.worlds.at(0)
    rows = torch.from_numpy(world.clients[0][:5])
    batch = Batch(world.train.x[rows].float(), world.train.y[rows], torch.ones(5), torch.tensor(11))
    theta = model.init()
    mu, log_sigma = model.call("encoder", theta, batch.x)
    z = mu + log_sigma.exp() * normal(torch.tensor(11), 0, mu.shape)
    kl = (0.5 * (mu**2 + (2 * log_sigma).exp() - 1 - 2 * log_sigma)).sum(1).mean()
    expected = F.cross_entropy(model.call("classifier", theta, z)[1], batch.y) + 0.25 * kl
    assert float(method.loss(model.leaves(theta), batch, {}, {})) == pytest.approx(float(expected), abs=1e-6)
    assert float(divergence(torch.cat([mu, log_sigma.exp()], 1)).mean()) == pytest.approx(float(kl), abs=1e-5)


def test_clients_remember_their_own_samples_of_tasks_they_took_part_in(run: Unwritten) -> None:
    built = federation()
    for index, state in enumerate(run.states):
        task, memory = index // 2, state.memory
        for lane, client in enumerate(memory["ids"].tolist()):
            tasks, labels = memory["task"][lane], memory["y"][lane]
            assert set(tasks.tolist()) <= {-1, *range(task + 1)}
            for each in range(task + 1):
                world = built.worlds.at(2 * each)
                own = torch.bincount(world.train.y[torch.from_numpy(world.clients[client])], minlength=3)
                held = torch.bincount(labels[tasks == each], minlength=3)
                assert (held <= own).all()  # none twice
        assert (memory["task"] == task).any()


def test_what_is_remembered_are_embeddings_of_the_frozen_encoder(run: Unwritten) -> None:
    built = federation()
    memory, world = run.states[0].memory, built.worlds.at(0)
    theta = run.states[0].server["theta"]
    mu, log_sigma = built.model.call("encoder", theta, world.train.inputs(world.train.x, torch.float32))
    whole = torch.cat([mu, log_sigma.exp()], 1)
    for lane, client in enumerate(memory["ids"].tolist()):
        mine = whole[torch.from_numpy(world.clients[client])]
        kept = memory["x"][lane][memory["y"][lane] >= 0]
        assert len(kept) == min(30, len(mine))
        assert all(((mine - row).abs().max(1).values < 1e-4).any() for row in kept)


def test_the_server_stores_what_enrolled_clients_sent_alone() -> None:
    states = played(stream__enrolment="scattered", clients=6, cohort=None).states
    for index, state in enumerate(states):
        assert set(state.server["task"].tolist()) <= {-1, *range(index // 2 + 1)}
        sent = min(6 * 2 * (index + 1), 90)  # two clients of a task, six samples each, in every round
        assert int((state.server["y"] >= 0).sum()) <= sent
    assert set(states[-1].server["task"].tolist()) - {-1} == {0, 1, 2}
    memory = states[-1].memory
    for lane, client in enumerate(memory["ids"].tolist()):
        assert set(memory["task"][lane].tolist()) - {-1} == {client // 2}  # nothing of tasks it was not enrolled in


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, Tensor, Plan]]]:
    """Labels and tasks that the server trained on, and its plan."""
    seen: list[tuple[str, Tensor, Plan]] = []
    train = FilVer.server_train

    def noted(self: FilVer, group: engine_group.Group, server: Tensors, total: Total, info: Info) -> Tensors:
        over = engine_group.Group.over

        def noting(own: engine_group.Group, x: Tensor, y: Tensor) -> engine_group.Group:
            seen.append(("sst", y.clone(), own.plan))
            return over(own, x, y)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(engine_group.Group, "over", noting)
            return train(self, group, server, total, info)

    monkeypatch.setattr(FilVer, "server_train", noted)
    yield seen


def test_the_server_trains_on_as_many_examples_in_every_round(trainings: list[tuple[str, Tensor, Plan]]) -> None:
    played(method__sst=300)
    assert len(trainings) == 6
    for _, y, _ in trainings:
        assert y.shape == (1, 300)
        counts = torch.bincount(y[0], minlength=3).float()
        assert (counts / 300 - 1 / 3).abs().max() < 0.15


def test_what_came_in_a_round_is_trained_on_whatever_is_stored() -> None:
    """A store of one example of each class of each task, which it already has."""
    built = federation(method__store=9, method__sst=4000)
    method, seen = method_of(built), list[Tensor]()
    over = engine_group.Group.over

    def noting(own: engine_group.Group, x: Tensor, y: Tensor) -> engine_group.Group:
        seen.append(torch.unique(x[0, :, 0]))
        return over(own, x, y)

    (work,) = _groups(built)
    server, key = method.init(), torch.tensor(5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_group.Group, "over", noting)
        for index in range(6):
            x = torch.arange(8 * 6).reshape(8, 6, 1).expand(8, 6, 6) / 100 + index
            came = Total({}, {"x": x, "y": torch.arange(6).expand(8, 6) % 3})
            server = method.server_train(work, server, came, Info(index, torch.arange(8), 8, key, index // 2))
    kinds = (server["task"] * 3 + server["y"]).sort().values
    assert kinds.tolist() == [*range(9)]
    for index, places in enumerate(seen):
        assert (places.floor() == index).sum() == 8 * 6  # all that came
        assert (places.floor() < index).sum() == (9 if index else 0)  # all that was stored


def test_server_side_training_changes_the_classifier_alone_and_none_changes_nothing() -> None:
    with_it, without_it = played(rounds=1), played(rounds=1, method__sst=0)
    model = federation().model
    one, other = (each.state.server["theta"] for each in (with_it, without_it))
    encoder, classifier = model.part("encoder"), model.part("classifier")
    assert torch.equal(model.take(one, encoder), model.take(other, encoder))
    assert not torch.equal(model.take(one, classifier), model.take(other, classifier))
    built = federation()
    method = method_of(built)
    empty = method.init()
    (work,) = _groups(built)
    nothing = Total({}, {"x": torch.zeros(8, 6, 6), "y": torch.full((8, 6), -1)})
    after = method.server_train(work, empty, nothing, Info(0, torch.arange(8), 8, torch.tensor(5)))
    assert torch.equal(after["theta"], empty["theta"])  # an empty bank is no training


def _groups(built: Federation) -> list[engine_group.Group]:
    world = built.worlds.at(0)
    place = Workplace(world.train, torch.float32, False, False, lambda: None, 100, batch_size=100)
    plan, nothing = Plan(10, 1.0, None, 0.1), [np.zeros(0, np.int64)]
    return [engine_group.Group(place, plan, np.array([8]), nothing, 1, 0, round_of_one_task(0))]


def test_rehearsal_is_a_share_of_a_clients_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[tuple[int, list[int], list[int]]] = []
    over = engine_group.Group.over

    def noting(own: engine_group.Group, x: Tensor, y: Tensor) -> engine_group.Group:
        if own.client[0] < 8:
            sizes.append((own.task, own.n.tolist(), (y >= 0).sum(1).tolist()))
        return over(own, x, y)

    monkeypatch.setattr(engine_group.Group, "over", noting)
    played(method__rehearsal=0.2, method__sst=0)
    assert {task for task, *_ in sizes} == {0, 1, 2}
    for task, own, trained in sizes:
        rehearsed = [int(b - a) for a, b in zip(own, trained, strict=True)]
        most = [min(int(0.2 * n), 30) for n in own]
        assert (
            all(r == 0 for r in rehearsed)
            if task == 0
            else all(0 <= r <= m for r, m in zip(rehearsed, most, strict=True))
        )
        assert task == 0 or sum(rehearsed) > 0


def test_vanilla_is_fedavg_of_the_classifier_on_embeddings() -> None:
    """No rehearsal, no server-side training: local SGD on the frozen encoder's embeddings, points here."""
    changes: dict[str, object] = {
        "model": f"{own_models.__file__}:Pointed", "method__rehearsal": 0, "method__sst": 0,
        "method__pretrain_epochs": 0, "rounds": 1, "batch_size": 10_000, "momentum": 0, "lr_decay": 1.0,
    }  # fmt: skip
    built, world = federation(**changes), federation(**changes).worlds.at(0)
    model, theta = built.model, built.model.init()
    part = model.part("classifier")
    w0 = model.take(theta, part)
    total, weight = torch.zeros_like(w0, dtype=torch.float64), 0
    for own in world.clients:
        rows = torch.from_numpy(own)
        z = model.call("encoder", theta, world.train.inputs(world.train.x[rows], torch.float32))[0]
        w = w0.clone().requires_grad_()
        loss = F.cross_entropy(model.call("classifier", model.leaves(w, part), z)[1], world.train.y[rows])
        (g,) = torch.autograd.grad(loss, w)
        total, weight = total - 0.1 * len(own) * g.double(), weight + len(own)
    after = played(**changes).state.server["theta"]
    torch.testing.assert_close(model.take(after, part).double(), w0 + total / weight, rtol=0, atol=1e-6)


def test_points_are_sent_alike_whether_sampled_or_as_statistics() -> None:
    changes: dict[str, object] = {"model": f"{own_models.__file__}:Pointed"}
    one, other = played(**changes), played(**changes, method__share="stats")
    assert one.states[0].server["x"].shape == (90, 6) and other.states[0].server["x"].shape == (90, 12)
    assert torch.equal(one.states[0].server["x"], other.states[0].server["x"][:, :6])
    assert torch.equal(one.state.server["theta"], other.state.server["theta"])


def test_what_travels() -> None:
    classifier = 6 * 16 + 16 + 16 * 3 + 3
    encoder = 2 * (64 * 6 + 6)
    for share, width in (("sampled", 6), ("stats", 12)):
        first, second = played(rounds=2, method__share=share).records[1:]
        up = 4 * (classifier + 6 * width) + 8 * 6
        assert first.traffic_up_bytes == second.traffic_up_bytes == 8 * (up + 2 * 4)  # and a weight and a loss
        assert first.traffic_down_bytes == 8 * 4 * (classifier + encoder)
        assert second.traffic_down_bytes == 8 * 4 * classifier


def test_each_client_is_given_the_encoder_once(tmp_path: Path) -> None:
    """Of eight clients two join in the second task, one of which leaves and comes back."""
    who = tmp_path / "who.csv"
    who.write_text("1,1,1\n" * 5 + "1,0,1\n" + "0,1,1\n" * 2)
    classifier, encoder = 6 * 16 + 16 + 16 * 3 + 3, 2 * (64 * 6 + 6)
    records = played(stream__enrolment=str(who), cohort=4).records[1:]
    given = [record.traffic_down_bytes - 4 * 4 * classifier for record in records]
    assert given == [6 * 4 * encoder, 0, 2 * 4 * encoder, 0, 0, 0]


def test_nothing_is_sent_to_a_server_that_does_not_train() -> None:
    classifier = 6 * 16 + 16 + 16 * 3 + 3
    quiet = played(rounds=1, method__sst=0)
    assert quiet.records[1].traffic_up_bytes == 8 * 4 * (classifier + 2)
    assert bool((quiet.state.server["y"] == -1).all())


@pytest.mark.slow
def test_it_goes_on_in_the_middle_of_the_second_task_on_other_ranks(tmp_path: Path) -> None:
    settings = {**SETTINGS, **THREE, "name": "run"}
    whole = simulated(settings, tmp_path / "whole")
    short = simulated({**settings, "rounds": 3}, tmp_path / "short")
    finished({"resume": str(short), "rounds": 6}, 2, tmp_path)
    assert numbers(short).parameters == numbers(whole).parameters
    assert course(short)[-1].unlike(course(whole)[-1]) == ""


def test_known_tasks_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"^--stream.scenario: task, but FilVer rehearses earlier ones"):
        played(stream__scenario="task")


def test_batches_of_rehearsal_are_as_wide_as_asked_for_however_few_samples_clients_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    widths: set[tuple[bool, int]] = set()
    over = engine_group.Group.over

    def noting(own: engine_group.Group, x: Tensor, y: Tensor) -> engine_group.Group:
        group = over(own, x, y)
        widths.add((bool(own.client[0] == 8), group.plan.batch_size))
        return group

    monkeypatch.setattr(engine_group.Group, "over", noting)
    largest = federation().worlds.largest_client
    played(batch_size=1000, method__sst=700, rounds=1)
    assert (True, 700) in widths and all(width > largest for server, width in widths if not server)


def test_embeddings_are_looked_at_again_when_a_client_loses_samples() -> None:
    """A class reduction within a task: what is trained on are the embeddings of the samples that are left."""
    changes = {
        "stream": "Static",
        "stream.tasks": 1,
        "stream.size": None,
        "stream.scenario": None,
        "stream.task_rounds": 50,
    }
    kept = {key: value for key, value in THREE.items() if key not in changes}
    settings = {**kept, "class_reduction": "0,1,2,0;1,2,2,0", "rounds": 2, "method.sst": 0, "method.rehearsal": 0}
    seen: list[Tensor] = []
    of_each = own_samples.of_each

    def noting(group: engine_group.Group, function: OfSamples, theta: Tensor, keep: str = "") -> Tensors:
        found = of_each(group, function, theta, keep)
        seen.append((found["x"] - of_each(group, function, theta)["x"]).abs().max())
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filver, "of_each", noting, raising=True)
        play(settings)
    assert len(seen) > 3 and max(map(float, seen)) == 0


def test_a_model_without_its_parts_is_refused() -> None:
    message = r"^--model: MLP has no submodule 'encoder' with parameters, which the method looks at; accepted: a module"
    with pytest.raises(ConfigError, match=message):
        federation(model="MLP")
