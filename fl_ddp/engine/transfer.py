"""What crosses between host and device, where the host need not wait for what the device does meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

_ALIGNMENT = 16
"""Bytes; kernels may read so many at once."""
_MOST_HELD = 2**29
"""Bytes on the device that questions may keep from being freed before they are answered."""


def upload(t: Tensor, device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """A tensor on a device, through pinned memory where it goes to a GPU: a copy from other memory waits."""
    t = t if dtype is None else t.to(dtype)
    crosses = device.type == "cuda" and t.device.type == "cpu"
    return (t.pin_memory() if crosses else t).to(device, non_blocking=True)


def upload_all(tensors: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """Tensors of the host on a device, in one copy; there they share their memory's life."""
    if device.type == "cpu":
        return list(tensors)
    sizes = [-(-t.nbytes // _ALIGNMENT) * _ALIGNMENT for t in tensors]
    packed = torch.zeros(sum(sizes), dtype=torch.uint8)
    for t, place in zip(tensors, torch.split(packed, sizes), strict=True):
        place[: t.nbytes] = t.contiguous().view(-1).view(torch.uint8)
    parts = torch.split(upload(packed, device), sizes)
    return [place[: t.nbytes].view(t.dtype).view(t.shape) for t, place in zip(tensors, parts, strict=True)]


def on_its_way(t: Tensor) -> Callable[[], Tensor]:
    """Send a tensor to the host, behind all that its device is to do so far; gives what waits for it alone."""
    if not t.is_cuda:
        return t.cpu
    there = t.to("cpu", non_blocking=True)
    sent = torch.cuda.Event()  # type: ignore[no-untyped-call]
    sent.record()

    def wait() -> Tensor:
        sent.synchronize()
        return there

    return wait


class Readings:
    """Numbers of the device that the host asks for, all read in one copy; on a CPU each at once, as it costs nothing.

    Answers are heard in the order of the questions, so that of several errors the first one counts.
    """

    def __init__(self, device_type: str = "cpu", meanwhile: Callable[[], None] = lambda: None) -> None:
        """Nothing is asked so far; meanwhile() is called once, in the first read() that waits for a device, or go_on().

        What it gives the device to do is not waited for.
        """
        self._at_once, self._meanwhile = device_type == "cpu", meanwhile
        self._asked: list[tuple[Tensor, Callable[[list[float]], None]]] = []
        self._held = 0

    def ask(self, numbers: Tensor, hear: Callable[[list[float]], None], held: int = 0) -> None:
        """Ask for numbers [n].

        Args:
            numbers: of any type that float64 holds exactly.
            hear: is given them once they are read.
            held: bytes of the tensors on the device that hear() needs.
        """
        if self._at_once:
            hear(numbers.tolist())
            return
        self._asked.append((numbers, hear))
        self._held += held
        if self._held > _MOST_HELD:
            self.hear()

    def read(self) -> None:
        """Hear all that was asked, and before the host waits, do what can be done meanwhile."""
        self.hear(at_leisure=True)

    def go_on(self) -> None:
        """Do what can be done while the host waits for a device, unless that is done; nothing on a CPU."""
        if not self._at_once:
            meanwhile, self._meanwhile = self._meanwhile, lambda: None
            meanwhile()

    def hear(self, *, at_leisure: bool = False) -> None:
        """Wait for all that was asked, and hear it; at leisure, do before what can be done meanwhile."""
        asked, self._asked, self._held = self._asked, [], 0
        if not asked:
            return
        wait = on_its_way(torch.cat([numbers.double() for numbers, _ in asked]))
        if at_leisure:
            self.go_on()
        found: list[float] = wait().tolist()
        for numbers, hear in asked:
            own, found = found[: len(numbers)], found[len(numbers) :]
            hear(own)
