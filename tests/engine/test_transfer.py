"""What the host asks of the device is read once, in the order of the questions."""

from __future__ import annotations

from collections.abc import Callable

import pretend_device
import pytest
import torch
from pretend_device import DEVICE, on_host, pretending
from torch import Tensor

from fl_ddp.engine import transfer
from fl_ddp.engine.transfer import Readings, upload, upload_all


def asked(readings: Readings, *questions: Tensor, held: int = 0) -> list[list[float]]:
    heard: list[list[float]] = []
    for numbers in questions:
        readings.ask(numbers, heard.append, held)
    return heard


@pytest.mark.parametrize(("place", "pinned"), [("cpu", True), ("meta", False)])
def test_what_is_on_a_device_already_is_not_pinned(monkeypatch: pytest.MonkeyPatch, place: str, pinned: bool) -> None:
    told: list[str] = []

    def noting(name: str) -> None:
        def note(t: Tensor, *_: object, **__: object) -> Tensor:
            told.append(name)
            return t

        monkeypatch.setattr(Tensor, name, note)

    noting("pin_memory")
    noting("to")
    upload(torch.ones(3, device=place), torch.device("cuda"))
    assert told == ["pin_memory"] * pinned + ["to"]


def test_a_cpu_answers_at_once_and_others_when_they_are_read() -> None:
    questions = (torch.tensor([1.5, 2.0]), torch.tensor([True]), torch.tensor([2**50], dtype=torch.int64))
    for device_type in ("cpu", "cuda"):
        readings = Readings(device_type)
        heard = asked(readings, *questions)
        assert bool(heard) == (device_type == "cpu")
        readings.read()
        assert heard == [[1.5, 2], [1], [2**50]]
        readings.read()
        assert len(heard) == 3


def test_what_can_be_done_meanwhile_is_done_once_before_the_host_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    tolist = Tensor.tolist

    def waiting(t: Tensor) -> object:
        told.append("wait")
        return tolist(t)

    monkeypatch.setattr(Tensor, "tolist", waiting)
    for device_type in ("cpu", "cuda"):
        readings = Readings(device_type, lambda: told.append("meanwhile"))
        readings.read()
        assert told == [], "nothing is waited for"
        for _ in range(2):
            asked(readings, torch.ones(1))
            readings.hear()
            asked(readings, torch.ones(1))
            readings.read()
        waits = ["wait"] * 4
        assert told == (waits if device_type == "cpu" else [*waits[:1], "meanwhile", *waits[1:]])
        told.clear()


def test_it_is_done_before_something_else_is_waited_for_and_not_again() -> None:
    told: list[str] = []
    for device_type in ("cpu", "cuda"):
        readings = Readings(device_type, lambda: told.append("meanwhile"))
        asked(readings, torch.ones(1))
        readings.hear()
        assert told == []
        for _ in range(2):
            readings.go_on()
            asked(readings, torch.ones(1))
            readings.read()
        assert told == ["meanwhile"] * (device_type == "cuda")


def test_numbers_are_on_their_way_before_a_device_is_given_more_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    def on_its_way(numbers: Tensor) -> Callable[[], Tensor]:
        told.append("sent")

        def wait() -> Tensor:
            told.append("waited for")
            return numbers

        return wait

    monkeypatch.setattr(transfer, "on_its_way", on_its_way)
    heard = asked(readings := Readings("cuda", lambda: told.append("meanwhile")), torch.ones(1))
    readings.read()
    assert (told, heard) == (["sent", "meanwhile", "waited for"], [[1.0]])


def test_what_is_held_for_answers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "_MOST_HELD", 100)
    told: list[str] = []
    heard = asked(Readings("cuda", lambda: told.append("meanwhile")), *torch.ones(5, 1), held=40)
    assert told == [], "there is more to come"
    assert len(heard) == 3, "the third question has 120 bytes held, so that it and those before it are answered"


def test_an_error_in_an_answer_is_the_first_one_and_is_told_once() -> None:
    def refuse(numbers: list[float]) -> None:
        raise ValueError(str(numbers))

    readings = Readings("cuda")
    heard = asked(readings, torch.ones(1))
    for number in (2.0, 3.0):
        readings.ask(torch.tensor([number]), refuse)
    with pytest.raises(ValueError, match=r"^\[2.0\]$"):
        readings.read()
    assert heard == [[1.0]]
    readings.read()


@pretend_device.needed
def test_many_questions_are_one_wait_and_uploads_are_none() -> None:
    with pretending() as seen:
        up = [upload(torch.arange(3), DEVICE), upload(torch.arange(2), DEVICE, torch.float64)]
        readings = Readings(DEVICE.type)
        heard = asked(readings, *up)
        assert (seen.waits(), up[1].dtype) == (0, torch.float64)
        readings.read()
        assert seen.waits() == 1 and heard == [[0, 1, 2], [0, 1]]


def test_uploads_to_a_gpu_are_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    def pin(t: Tensor) -> Tensor:
        told.append("pinned")
        return t

    def to(t: Tensor, device: torch.device, **how: object) -> Tensor:
        told.append(f"{device} {how}")
        return t

    monkeypatch.setattr(Tensor, "pin_memory", pin)
    monkeypatch.setattr(Tensor, "to", to)
    for device in ("cpu", "cuda"):
        upload(torch.ones(1), torch.device(device))
    assert told == ["cpu {'non_blocking': True}", "pinned", "cuda {'non_blocking': True}"]


@pretend_device.needed
def test_tensors_of_any_types_and_shapes_are_one_upload() -> None:
    given = [
        torch.arange(6).view(2, 3), torch.tensor([True, False, True]), torch.tensor(0.5, dtype=torch.float64),
        torch.zeros(0, 4), torch.randn(5, 3).T, torch.randn(3, dtype=torch.bfloat16),
    ]  # fmt: skip
    with pretending() as seen:
        up = upload_all(given, DEVICE)
        assert (seen.waits(), seen.uploads()) == (0, 1)
    for t, there in zip(given, up, strict=True):
        assert there.device == DEVICE and there.dtype == t.dtype
        assert torch.equal(on_host(there), t)
    assert all(a is b for a, b in zip(upload_all(given, torch.device("cpu")), given, strict=True))
