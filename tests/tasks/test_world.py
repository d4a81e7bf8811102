"""The samples, the clients and the test sets of each task."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import own_models
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fl_ddp.check.runs import SOLO
from fl_ddp.config.command_line import from_mapping
from fl_ddp.engine.seeds import Purpose, generator
from fl_ddp.errors import ConfigError
from fl_ddp.federation import Federation, build_federation
from fl_ddp.streams.permuted import Permuted

DATA = {
    "data": "digits", "partition": "IID", "clients": 4, "compile": False, "device": "cpu", "model.hidden": 4, "seed": 5,
}  # fmt: skip
BAD = "from fl_ddp.api import Permuted\n\nclass Bad(Permuted):\n"
FOUR = {"stream": "ClassGroups", "stream.tasks": 4, "stream.size": 2, "stream.task_rounds": 3}


def federation(settings: dict[str, object]) -> Federation:
    return build_federation(from_mapping(DATA | settings), SOLO)


def test_data_that_stay_are_those_of_the_run_and_nothing_is_copied() -> None:
    built = federation({"stream.tasks": 3, "stream.task_rounds": 1})
    first, last = built.worlds.at(0), built.worlds.at(2)
    assert first.train.x is last.train.x and first.tests[0].samples.x is last.tests[0].samples.x
    assert first.clients == built.clients and len(last.tests) == 1
    assert first.present.tolist() == [0, 1, 2, 3] and last.task == 2


def test_a_task_has_its_classes_and_its_tests_those_so_far() -> None:
    built = federation(FOUR)
    for task in range(4):
        world = built.worlds.at(3 * task)
        assert world.task == task and len(world.tests) == task + 1
        for part, own in zip(world.clients, built.clients, strict=True):
            assert set(part) <= set(own) and set(built.labels[part]) == {2 * task, 2 * task + 1}
            assert len(part) == np.isin(built.labels[own], [2 * task, 2 * task + 1]).sum()
        for before, test in enumerate(world.tests):
            assert set(test.samples.y.tolist()) == {2 * before, 2 * before + 1}
    assert built.worlds.at(99).task == 3
    assert len(built.worlds.all_tests(3)) == 4
    assert built.classes == tuple("01234567") and built.names == tuple("0123456789")


@pytest.mark.parametrize("keep", [False, 0.5])
def test_a_tasks_classes_are_told_without_those_of_what_is_kept(keep: bool | float) -> None:
    built = federation(FOUR | {"stream.keep": keep})
    assert [built.worlds.at(3 * task).classes.tolist() for task in range(4)] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert federation(FOUR | {"stream.scenario": "domain"}).worlds.at(9).classes.tolist() == [0, 1]
    assert federation({}).worlds.at(0).classes.tolist() == list(range(10))


def test_classes_have_other_test_samples_from_the_first_round_of_a_task_on() -> None:
    def renewed(settings: dict[str, object], rounds: int = 10, outputs: int | None = None) -> dict[int, list[int]]:
        found = federation(settings).worlds.renewed(rounds, outputs)
        return {first: each.tolist() for first, each in found.items()}

    assert renewed(FOUR) == {4: [2, 3], 7: [4, 5], 10: [6, 7]} and renewed(FOUR, 6) == {4: [2, 3]}
    assert renewed(FOUR | {"stream.scenario": "domain"}, 7) == {4: [0, 1], 7: [0, 1]}
    assert renewed(FOUR, 4, 3) == {4: [0, 1, 2]}
    assert renewed({"stream.tasks": 3, "stream.task_rounds": 1}) == {}


def test_labels_of_mapped_classes_begin_at_zero() -> None:
    built = federation(FOUR | {"stream.scenario": "domain"})
    world = built.worlds.at(4)
    rows = torch.from_numpy(np.concatenate(world.clients))
    assert built.classes == ("0", "1")
    assert np.array_equal(world.train.y[rows].numpy() + 2, built.labels[rows.numpy()])
    assert set(world.tests[1].samples.y.tolist()) == {0, 1}


def test_a_known_task_allows_its_classes_alone() -> None:
    world = federation(FOUR | {"stream.scenario": "task"}).worlds.at(3)
    assert world.allowed is not None and world.allowed.nonzero().flatten().tolist() == [2, 3]
    first, second = (test.allowed for test in world.tests)
    assert first is not None and first.nonzero().flatten().tolist() == [0, 1]
    assert second is not None and torch.equal(second, world.allowed)


def test_permuted_samples_are_the_same_in_training_and_test() -> None:
    built = federation({"stream": "Permuted", "stream.tasks": 3, "stream.task_rounds": 1})
    plain = federation({}).worlds.at(0)
    for task in (0, 1, 2):
        world = built.worlds.at(task)
        order = generator(5, Purpose.STREAM, task).permutation(64) if task else np.arange(64)
        for ours, theirs in ((world.train, plain.train), (world.tests[task].samples, plain.tests[0].samples)):
            assert torch.equal(ours.x.flatten(2), theirs.x.flatten(2)[..., torch.from_numpy(order)])
            assert torch.equal(ours.y, theirs.y)


def test_a_streams_seed_is_its_own_if_it_has_one() -> None:
    def second(seed: int, own: int | None = None) -> torch.Tensor:
        settings = {"stream": "Permuted", "stream.task_rounds": 1, "stream.seed": own, "partition.seed": 0}
        return federation(settings | {"seed": seed}).worlds.at(1).train.x

    assert not torch.equal(second(1), second(2))
    assert torch.equal(second(1, own=9), second(2, own=9))


@pytest.mark.parametrize("keep", [True, 0.25])
def test_what_is_kept_lies_behind_the_tasks_own(keep: bool | float) -> None:
    settings = {"stream": "Permuted", "stream.tasks": 3, "stream.task_rounds": 1}
    kept, gone = federation(settings | {"stream.keep": keep}), federation(settings)
    apart = [gone.worlds.at(task).train.x for task in range(3)]
    world, size = kept.worlds.at(2), len(kept.labels)
    assert kept.worlds.largest_client == max(map(len, world.clients))
    for part, own in zip(world.clients, kept.clients, strict=True):
        assert part[: len(own)].tolist() == own.tolist() and (part[len(own) :] >= size).all()
        old = world.train.x[torch.from_numpy(part[len(own) :])]
        share = round(keep * len(own))
        assert len(old) == 2 * share and len(set(part)) == len(part)
        for task in (0, 1):
            theirs = {image.numpy().tobytes() for image in apart[task][torch.from_numpy(own)]}
            assert all(image.numpy().tobytes() in theirs for image in old[task * share : (task + 1) * share])
        assert sorted(world.labels[part[len(own) : len(own) + share]]) == sorted(
            world.train.y[torch.from_numpy(part[len(own) : len(own) + share])].tolist()
        )


@pytest.mark.parametrize("clients", [4, 40, 100])
def test_a_fixed_budget_is_the_room_of_one_task(clients: int) -> None:
    """Of tasks of about 359, 36 and 14 samples a tenth, and of the first task none that was gone before."""
    streams = {"stream": "Permuted", "stream.tasks": 9, "stream.task_rounds": 1, "clients": clients}
    built = federation({**streams, "stream.keep": 0.1, "stream.budget": "fixed"})
    own, before = [len(part) for part in built.clients], set[bytes]()
    of_first_task = {image.numpy().tobytes() for image in built.worlds.at(0).train.x}
    for task in range(1, 9):
        world = built.worlds.at(task)
        room = [len(part) - size for part, size in zip(world.clients, own, strict=True)]
        assert room == [round(0.1 * size) for size in own]
        old = world.clients[0][own[0] :]
        assert (old >= sum(own)).all()
        assert len(np.unique(np.concatenate(world.clients))) == sum(own) + sum(room)
        images = {each.numpy().tobytes() for each in world.train.x[torch.from_numpy(old)]} & of_first_task
        assert len(images) == -(-room[0] // task), "the first task has the odd one"
        assert task == 1 or images <= before
        before = images


def test_only_tasks_that_a_client_has_samples_of_share_its_room() -> None:
    settings = {"partition": "Classes", "partition.classes_per_client": 2, "clients": 10, "stream.budget": "fixed"}
    built = federation(FOUR | settings | {"stream.keep": True})
    own = [[int((built.labels[part] // 2 == task).sum()) for task in range(4)] for part in built.clients]
    assert any(0 in sizes for sizes in own)
    for task in range(4):
        for sizes, part in zip(own, built.worlds.at(3 * task).clients, strict=True):
            had = [size for size in sizes[:task] if size]
            assert len(part) - sizes[task] <= round(sum(had) / max(len(had), 1))
            assert len(had) != 1 or len(part) - sizes[task] == had[0]


@given(st.lists(st.integers(1, 40), max_size=8), st.floats(0.01, 1.0))
def test_a_room_is_shared_and_what_is_thrown_away_stays_away(sizes: list[int], keep: float) -> None:
    stream = Permuted(keep=keep, budget="fixed")
    before: list[int] = []
    for now in range(1, len(sizes) + 1):
        kept, room = stream.kept(sizes[:now]), keep * sum(sizes[:now]) / now
        assert sum(kept) <= round(room) and all(0 <= a <= b for a, b in zip(kept, sizes, strict=False))
        assert all(a <= b for a, b in zip(kept, before, strict=False))
        assert all(abs(a - keep * size / now) < 1 or a == b for a, b, size in zip(kept, before, sizes, strict=False))
        assert kept[-1] > keep * sizes[now - 1] / now - 1
        before = kept
    if len(set(sizes)) == 1:
        assert sum(before) == round(keep * sizes[0])
    assert Permuted(keep=keep).kept(sizes) == [round(keep * size) for size in sizes]


def test_a_fixed_budget_of_nothing_is_refused() -> None:
    expected = "--stream.budget: fixed, but nothing is kept; accepted: --stream.keep beside it, or growing"
    with pytest.raises(ConfigError, match=f"^{expected}$"):
        federation({"stream": "Permuted", "stream.budget": "fixed"})


def test_a_client_keeps_nothing_of_tasks_that_it_did_not_take_part_in() -> None:
    built = federation(FOUR | {"stream.enrolment": "increasing", "stream.keep": True})
    world = built.worlds.at(6)
    assert world.present.tolist() == [0, 1, 2]
    assert [set(world.labels[part].tolist()) for part in world.clients] == [
        {0, 1, 2, 3, 4, 5},
        {2, 3, 4, 5},
        {4, 5},
        set(),
    ]


def test_clients_that_are_not_enrolled_have_no_samples_and_their_own_tests_stay() -> None:
    built = federation(FOUR | {"stream.enrolment": "scattered", "local_test": 0.25})
    for task in range(4):
        world = built.worlds.at(3 * task)
        assert world.present.tolist() == [task]
        assert [len(part) > 0 for part in world.clients] == [i == task for i in range(4)]
        assert all(set(built.labels[part]) == {2 * task, 2 * task + 1} for part in world.local_test)
        assert world.own_samples is world.train


def test_own_tests_of_the_test_set_are_of_the_task() -> None:
    built = federation(FOUR | {"local_test": 0.5, "local_test_from": "test", "partition": "Shards"})
    world = built.worlds.at(3)
    whole = federation({}).worlds.at(0).tests[0].samples
    for part, own in zip(world.local_test, built.local_test, strict=True):
        mine = own[np.isin(whole.y.numpy()[own], [2, 3])]
        assert torch.equal(world.own_samples.x[torch.from_numpy(part)], whole.x[torch.from_numpy(mine)])
        assert torch.equal(world.own_samples.y[torch.from_numpy(part)], whole.y[torch.from_numpy(mine)])


@pytest.mark.parametrize("origin", ["train", "test"])
def test_own_tests_of_all_tasks_so_far_are_those_of_each_of_them(origin: str) -> None:
    """Also of a task in which nobody but who is enrolled has any, and whoever had no samples so far has none."""
    given = {"stream": "Rotated", "stream.tasks": 4, "stream.task_rounds": 3, "stream.enrolment": "decreasing"}
    built = federation(given | {"local_test": 0.3, "local_test_from": origin})
    for task in range(4):
        found = built.worlds.own_tests(task)
        for before, test in enumerate(found):
            world = built.worlds.at(3 * before)
            for client, (part, own) in enumerate(zip(test.parts, world.local_test, strict=True)):
                assert len(part) == (len(own) if client + before < 4 else 0)
                if len(part):
                    assert torch.equal(
                        test.samples.x[torch.from_numpy(part)], world.own_samples.x[torch.from_numpy(own)]
                    )
                    assert torch.equal(
                        test.samples.y[torch.from_numpy(part)], world.own_samples.y[torch.from_numpy(own)]
                    )
        assert len(found) == task + 1
        assert origin == "test" or len(found[0].samples.y) == sum(map(len, found[0].parts)), "and no others are made"
    increasing = federation(FOUR | {"stream.enrolment": "increasing", "local_test": 0.3}).worlds
    assert [len(part) > 0 for part in increasing.own_tests(1)[1].parts] == [True, True, False, False]


def test_the_servers_samples_are_of_the_task_and_of_those_who_take_part() -> None:
    built = federation(FOUR | {"method": "FedCL", "method.proxy": 0.5, "stream.enrolment": "increasing"})
    for task in (0, 2):
        world = built.worlds.at(3 * task)
        assert set(np.concatenate(world.proxy)) <= set(np.concatenate(world.clients))
        assert len(np.concatenate(world.proxy)) == round(0.5 * len(np.concatenate(world.clients)))


def test_the_servers_samples_may_be_of_those_who_join_later_too() -> None:
    """Of the first task, which the encoder is trained on, and of who is enrolled in it alone unless asked."""
    joining = {"method": "FilVer", "model": f"{own_models.__file__}:Embedded", "stream.enrolment": "increasing"}
    domain = FOUR | joining | {"stream.scenario": "domain"}
    for whose, everyone in (("enrolled", False), ("all", True)):
        built = federation(domain | {"method.pretrain_on": whose})
        world = built.worlds.at(0)
        (samples,) = world.proxy
        there = np.concatenate(built.clients if everyone else world.clients)
        assert sorted(samples) == sorted(there[world.labels[there] >= 0])
        assert len(np.setdiff1d(samples, np.concatenate(world.clients))) > 0 or not everyone


def test_shared_samples_are_of_the_tasks_classes() -> None:
    world = federation(FOUR | {"method": "FedKA"}).worlds.at(3)
    assert (world.shared >= 0).tolist() == [False, False, True, True, False, False, False, False]
    assert world.labels[world.shared[2:4]].tolist() == [2, 3]


def test_which_sample_of_a_class_is_shared_is_drawn() -> None:
    of_run = {"method": "FedKA", "partition.seed": 0}
    drawn = {tuple(federation(of_run | {"seed": seed}).worlds.at(0).shared.tolist()) for seed in range(4)}
    assert len(drawn) == 4


def test_the_server_has_other_samples_in_each_task() -> None:
    built = federation({"method": "FedCL", "method.proxy": 0.5, "stream": "Permuted", "stream.tasks": 2})
    first, second = (np.sort(np.concatenate(built.worlds.at(index).proxy)) for index in (0, built.stream.task_rounds))
    assert built.worlds.at(built.stream.task_rounds).task == 1
    assert len(first) == len(second) and not np.array_equal(first, second)


def test_shared_samples_of_data_that_stay_are_given_once_to_everyone() -> None:
    of_static = {"method": "FedKA", "stream.tasks": 4, "stream.task_rounds": 3, "stream.enrolment": "increasing"}
    built = federation(of_static)
    plain = federation({"method": "FedKA"}).worlds
    assert all(built.worlds.at(3 * task).shared.tolist() == plain.at(0).shared.tolist() for task in range(4))
    of_one = plain.given_bytes(0) // 4
    assert [built.worlds.given_bytes(index) // of_one for index in range(12)] == [1, 0, 0] * 4
    assert [plain.given_bytes(index) for index in (1, 2)] == [0, 0]


def test_a_class_that_nobody_has_cannot_be_shared(tmp_path: Path) -> None:
    counts = tmp_path / "counts.csv"
    counts.write_text("client,0,1,2,3,4,5,6,7,8,9\n" + "".join(f"{k},5,5,5,5,5,5,5,5,5,0\n" for k in range(4)))
    with pytest.raises(ConfigError, match=r"^--partition: no client has a training sample of class 9, and FedKA"):
        federation({"method": "FedKA", "partition": "FromCounts", "partition.path": str(counts)})


def test_a_stream_may_leave_some_inputs_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "stream_clamped.py"
    plain = federation({}).worlds.at(0).train.x
    dim = float(plain[-1].sum())
    file.write_text(f"{BAD}    def inputs(self, task, x, rng):\n        return x.mul_(0.5) if x.sum() > {dim} else x\n")
    monkeypatch.setattr("fl_ddp.tasks.world._AT_ONCE", 1)
    found = federation({"stream": f"{file}:Bad"}).worlds.at(0).train.x
    changed = (plain.flatten(1).sum(1) > dim)[:, None, None, None]
    assert changed.any() and not changed[-1]
    assert torch.equal(found, torch.where(changed, plain / 2, plain))


def test_somebody_must_take_part_in_every_task(tmp_path: Path) -> None:
    file = tmp_path / "who.csv"
    file.write_text("1,1,0,1\n" * 4)
    message = r"^--stream.enrolment: .*: no client that is enrolled in task 3 has samples in it; accepted: another, or"
    with pytest.raises(ConfigError, match=message):
        federation(FOUR | {"stream.enrolment": str(file)})
    skipping = federation(FOUR | {"stream.enrolment": str(file), "stream.empty": "skip"})
    assert len(skipping.worlds.at(6).present) == 0


def test_a_task_without_test_samples_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tasks.json"
    file.write_text('{"train": [[0, 1, 2, 3, 4, 5, 6, 7], [8, 9, 10, 11]], "test": [[0], []]}')
    with pytest.raises(ConfigError, match=r"^--stream: task 2 has no test samples"):
        federation({"stream": "FromFile", "stream.path": str(file)})


def test_the_first_task_has_somebody_even_where_rounds_may_be_skipped(tmp_path: Path) -> None:
    file = tmp_path / "who.csv"
    file.write_text("0,1,1,1\n" * 4)
    with pytest.raises(
        ConfigError, match=r"no client that is enrolled in task 1 has samples in it; accepted: another$"
    ):
        federation(FOUR | {"stream.enrolment": str(file), "stream.empty": "skip"})


def test_samples_of_known_tasks_cannot_be_mixed() -> None:
    with pytest.raises(ConfigError, match=r"^--stream.keep: True, but samples of earlier tasks would be classified"):
        federation(FOUR | {"stream.scenario": "task", "stream.keep": True})


def test_classes_are_reduced_where_data_stay() -> None:
    with pytest.raises(ConfigError, match=r"^--class_reduction: belongs to data that stay as they are, not to 4 tasks"):
        federation(FOUR | {"class_reduction": "0,1,2,0"})


@pytest.mark.parametrize(("tasks", "who"), [(1, "1\n0\n1\n1\n"), (2, "1,1\n1,1\n1,1\n1,1\n")])
def test_who_is_enrolled_is_told_unless_it_is_everybody_in_a_single_task(tmp_path: Path, tasks: int, who: str) -> None:
    (tmp_path / "who.csv").write_text(who)
    given = {"stream.tasks": tasks, "stream.enrolment": str(tmp_path / "who.csv")}
    assert federation(given).worlds.enrolment == who
    assert federation({}).worlds.enrolment == ""


def test_the_sum_of_tasks_tells_which_labels_are_allowed() -> None:
    of_classes, of_tasks = (federation(FOUR | {"stream.scenario": each}).worlds for each in ("class", "task"))
    assert of_classes.sha256 != of_tasks.sha256
    assert of_classes.sha256 == federation(FOUR).worlds.sha256


def test_the_sum_of_tasks_tells_where_the_samples_of_one_client_end(tmp_path: Path) -> None:
    sums = set[str]()
    for clients in ("[[0, 1], [2]]", "[[0], [1, 2]]"):
        (tmp_path / "mine.json").write_text(f'{{"clients": {clients}}}')
        given = {"partition": "FromFile", "partition.path": str(tmp_path / "mine.json"), "clients": 2}
        sums.add(federation(given).worlds.sha256)
    assert len(sums) == 2
