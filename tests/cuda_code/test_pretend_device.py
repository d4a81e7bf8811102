"""The pretended device itself: what it counts, and what it refuses."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pretend_device
import pytest
import torch
from pretend_device import DEVICE, MixedDevicesError, pretending
from torch import Tensor

pytestmark = pretend_device.needed
GUIDE = Path(__file__).parents[2] / "CONTRIBUTING.md"


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        (lambda t: t.sum().item(), "wait: value"),
        (lambda t: bool((t > 0).any()), "wait: value"),
        (lambda t: torch.bincount(t.long()), "wait: value"),
        (lambda t: t.nonzero(), "wait: value"),
        (lambda t: t.cpu(), "wait: download"),
        (lambda t: t.tolist(), "wait: download"),
        (lambda t: torch.zeros(3).copy_(t), "wait: download"),
        (lambda t: t[t > 0], "wait: mask index"),
        (lambda t: t[torch.tensor([0])], "wait: host index"),
        (lambda t: t[[0, 2]], "wait: upload"),
        (lambda t: torch.tensor(1.0, device=t.device), "wait: upload"),
        (lambda t: torch.zeros(3).to(t.device), "wait: upload"),
        (lambda t: torch.zeros(3).to(t.device, non_blocking=True), "upload"),
        (lambda t: t * torch.tensor(2.0), "host number"),
        (lambda t: torch.full((3,), 2.0, device=t.device), None),
        (lambda t: torch.vmap(torch.func.grad(lambda a: (a * a).sum()))(t[:, None]), None),
    ],
)
def test_events(what: Callable[[Tensor], object], kind: str | None) -> None:
    with pretending("test_pretend") as seen:
        t = torch.ones(3, device=DEVICE)
        seen.clear()
        what(t)
        waits = seen.waits()
    assert {event.kind for event in seen.events} == ({kind} if kind else set())
    assert bool(waits) == bool(kind and kind.startswith("wait"))


def test_what_launches_is_counted_with_its_line_and_views_are_not() -> None:
    with pretending("test_pretend") as seen:
        t = torch.ones(4, device=DEVICE)
        seen.clear()
        (t.view(2, 2).T[0].expand(3, 2) * 2).sum()
    ((where, number),) = seen.launches.items()
    assert number == 2 and where.startswith("test_pretend_device.py:")


@pytest.mark.parametrize(
    "what",
    [
        lambda t: t + torch.zeros(3),
        lambda t: torch.where(t > 0, t, torch.zeros(3)),
        lambda t: torch.zeros(3)[t.long()],
        lambda t: torch.stack([t, torch.zeros(3)]),
        lambda t: torch.cat([t, torch.zeros(1)]),
        lambda t: torch.zeros(3).add_(t),
        lambda t: t @ torch.zeros(3, 2),
        lambda t: torch.stack([t.sum(), torch.tensor(0.0)]),
        lambda t: torch.vmap(lambda a: a + torch.arange(2))(t[:, None].expand(3, 2)),
        lambda t: torch.func.grad(lambda a: (a * torch.ones(3)).sum())(t),
    ],
)
def test_mixed_devices_raise(what: Callable[[Tensor], object]) -> None:
    with (
        pretending("test_pretend"),
        pytest.raises(MixedDevicesError, match=r"at test_pret.*device .* and host"),
    ):
        what(torch.ones(3, device=DEVICE))


@pytest.mark.parametrize("what", [
    lambda t: t.median(0), lambda t: torch.kthvalue(t, 2), lambda t: t.histc(4),
])  # fmt: skip
def test_what_has_no_form_with_the_same_bits_is_refused(what: Callable[[Tensor], object]) -> None:
    with pretending("test_pretend"):
        t = torch.ones(3, device=DEVICE)
        t.median()
        with pytest.raises(RuntimeError, match="does not have a deterministic implementation"):
            what(t)


def test_the_guides_median_has_one() -> None:
    blocks = re.split(r" *```(?:python)?\n", GUIDE.read_text(encoding="utf-8"))
    names: dict[str, Any] = {"__name__": "guide"}
    sys.modules["guide"] = ModuleType("guide")  # where dataclass looks for names
    exec("if True:\n" + next(block for block in blocks if "class Median(FedAvg)" in block), names)
    del sys.modules["guide"]
    with pretending("test_pretend"):
        change = torch.tensor([[1.0, 5.0], [3.0, 4.0], [2.0, 9.0]], device=DEVICE)
        total = SimpleNamespace(rows={"change": change})
        moved = names["Median"].server_update(None, {"theta": torch.ones(2, device=DEVICE)}, total, None)
        assert moved["theta"].tolist() == [3.0, 6.0]
