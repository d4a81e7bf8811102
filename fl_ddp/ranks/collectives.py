"""Sums over ranks, by which all that they compute crosses them, and how a lost one is heard of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Thread
from typing import Any, NamedTuple, TypeVar, cast

import torch
import torch.distributed as dist  # noqa: TID251
from torch import Tensor
from torch.distributed import distributed_c10d  # noqa: TID251

from fl_ddp.config.settings import Config
from fl_ddp.errors import ConfigError, ElsewhereError, InterruptedRunError, RankLostError
from fl_ddp.host.device_errors import gpu_failure
from fl_ddp.ranks.waiting import GONE, Done, Question, keep_newest, on_gpu, on_host, wait

Result = TypeVar("Result")

_CODES = 4
_FINE, _STOPPED, _FAULT, _USER_ERROR = range(_CODES)
FOR_EVER = timedelta(days=365)


class Offer(NamedTuple):
    """What a rank gives for a sum: numbers [length], and behind them marks of all ranks, of which it knows its own."""

    numbers: Tensor
    length: int


class Common(NamedTuple):
    """What all ranks' buffers and marks come to.

    Attributes:
        total: the sum [S] of the buffers.
        same: [] whether all ranks gave the same mark.
        whole: [] whether all ranks gave a buffer.
    """

    total: Tensor
    same: Tensor
    whole: Tensor


@dataclass(frozen=True)
class Ranks:
    """This process among the ranks of a run; without torchrun or Slurm there is one.

    Attributes:
        index: of this rank, from 0.
        size: number of ranks.
        device: where this rank trains.
        store: small values of all ranks, kept by the launcher, so that it outlives a lost rank; None for a single rank.
        limit: seconds that the others may be silent for.
        lifeline: tells of lost ranks where the backend does not.
        of_host: in which tensors of the host are summed, so that no GPU is waited for; the default group if None.
        late: errors of this rank that its next agreement tells.
    """

    index: int
    size: int
    device: torch.device
    store: distributed_c10d.Store | None = None
    limit: float = Config.rank_timeout
    lifeline: Lifeline | None = None
    of_host: dist.ProcessGroup | None = None
    late: list[Exception] = field(default_factory=list, compare=False)

    @property
    def is_main(self) -> bool:
        """Whether this rank writes files and talks to the user."""
        return self.index == 0

    def add(self, buffer: Tensor) -> Tensor:
        """The sum of all ranks' buffers; the given one may be overwritten.

        Raises:
            RankLostError: another rank is gone, or silent for longer than the limit.
            DeviceError: this rank's GPU has failed.
        """
        if self.size > 1:
            try:
                group = None if buffer.is_cuda else self.of_host
                work = dist.all_reduce(buffer, group=group, async_op=True)
                assert work is not None
                wait(_queued(work) if buffer.is_cuda else on_host(work), self.limit, self._lost)
            except RuntimeError as error:
                if (failure := gpu_failure(error)) is not None:
                    raise failure from error
                raise RankLostError(GONE) from error
        return buffer

    def _lost(self) -> bool:
        return self.lifeline is not None and self.lifeline.broken

    @property
    def agree_in_sums(self) -> bool:
        """Whether a sum can say, too, that all ranks have one to give; that of GPUs would be waited for once more."""
        return self.size > 1 and self.device.type == "cpu"

    def offer(self, parts: Sequence[Tensor], mark: Tensor | None = None, *, given: bool = True) -> Offer:
        """What add_common() adds; a GPU's memory may be too small for it.

        Args:
            parts: vectors of float32 or float64, as long together on every rank.
            mark: whole numbers [K] below 2^16, as many on every rank.
            given: whether this rank has something to add; if not, its parts are zeros.
        """
        like = parts[0] if parts else torch.zeros(0, device=self.device)
        mark = torch.zeros(0, device=like.device) if mark is None else mark
        marks = torch.zeros(self.size, len(mark) + 1, dtype=like.dtype, device=like.device)
        marks[self.index, 1:] = mark
        marks[self.index, 0] = float(not given)
        return Offer(torch.cat([*parts, marks.flatten()]), sum(map(len, parts)))

    def add_common(self, offer: Offer) -> Common:
        """The sum of all ranks' buffers, and what they have in common, in one sum.

        Raises:
            RankLostError: another rank is gone.
        """
        total, marks = self.add(offer.numbers).tensor_split([offer.length])
        marks = marks.view(self.size, -1)
        return Common(total, (marks[:, 1:] == marks[0, 1:]).all(), ~marks[:, 0].any())

    def add_together(self, make: Callable[[], Tensor], length: int) -> Tensor:
        """The sum of what all ranks make, if it fails on none; raises as agree() does.

        Args:
            make: a buffer [length], float64.
            length: of it, for a rank that fails.
        """
        if not self.agree_in_sums:
            return self.add(self.together(make))
        made, error = self._tried(make)
        offered = torch.zeros(length, dtype=torch.float64) if made is None else made
        common = self.add_common(self.offer([offered], given=error is None))
        if not common.whole:
            self.agree(error)
        return common.total

    def tell_later(self, error: Exception) -> None:
        """Let the next agreement tell an error of this rank, which does no more until then; the first one counts."""
        self.late.append(error)

    def first(self, error: Exception | None) -> Exception | None:
        """The error of this rank that the next agreement tells, where there is this one, too."""
        return self.late[0] if self.late else error

    def agree(self, error: Exception | None, form: int = 0) -> bool:
        """Go on only if no rank has an error; of several, the lowest rank's counts.

        Args:
            error: of this rank; one that was to be told later comes first.
            form: a whole number below 2^50, of what this rank is about to sum.

        Returns:
            whether all ranks gave the same form.

        Raises:
            the own error, on the rank whose error counts; ElsewhereError on the others.
            InterruptedRunError: no rank has failed, but one was asked to stop.
        """
        error = self.first(error)
        self.late.clear()
        if self.size == 1:
            if error:
                raise error
            return True
        given = torch.zeros(self.size, dtype=torch.float64)
        given[self.index] = _CODES * form + _code(error)
        given = self.add(given)
        forms, codes = given.div(_CODES).floor(), given % _CODES
        failed = (codes > _STOPPED).nonzero()
        if len(failed):
            rank = int(failed[0])
            if rank == self.index and error is not None:
                raise error
            raise ElsewhereError(rank, user_error=int(codes[rank]) == _USER_ERROR) from error
        if bool((codes == _STOPPED).any()):
            raise InterruptedRunError
        return bool((forms == forms[0]).all())

    def together(self, work: Callable[[], Result]) -> Result:
        """Do something on every rank and go on only if it failed on none; raises as agree() does."""
        result, error = self._tried(work)
        self.agree(error)
        return cast(Result, result)

    def _tried(self, work: Callable[[], Result]) -> tuple[Result | None, Exception | None]:
        """What work gives, or its error; it is not done where an error is to be told before."""
        if self.late:
            return None, self.late[0]
        try:
            return work(), None
        except RankLostError:
            raise
        except Exception as error:
            return None, error

    def told_later(self, work: Callable[[], Result], otherwise: Result) -> Result:
        """Do something on every rank and go on; where it fails, with something else, until the next agreement tells."""
        try:
            return work()
        except RankLostError:
            raise
        except Exception as error:
            if self.size == 1:
                raise
            self.tell_later(error)
            return otherwise

    def under(self, guard: AbstractContextManager[None], work: Callable[[], Result]) -> Result:
        """Do what ranks do together, and go on only if no rank's guard of its own objects to what was done.

        Raises:
            what work raises, on all ranks alike; what agree() does of a guard's error.
        """
        result: list[Result] = []
        objection = None
        try:
            with guard:
                result.append(work())
        except Exception as error:
            if not result:
                raise
            objection = error
        self.agree(objection)
        return result[0]

    def share(self, text: str) -> str:
        """The text that rank 0 gives, on every rank."""
        own = list(text.encode(errors="surrogateescape")) if self.is_main else []
        length = int(self.add(torch.tensor([float(len(own))], dtype=torch.float64)))
        if length == 0:
            return ""
        row = torch.tensor(own or [0.0] * length, dtype=torch.float64)
        return bytes(map(int, self.add(row).tolist())).decode(errors="surrogateescape")

    def first_to_say(self) -> bool:
        """Whether no rank asked this before: who tells the user of a loss, when ranks cannot agree any more."""
        store = self.store
        return store is None or Question(lambda: store.add("said", 1) == 1, gone=True, silent=True).answer()

    def wait(self) -> None:
        """Return when all ranks have come here."""
        self.add(torch.zeros(1))

    def close(self) -> None:
        """Leave the process group."""
        if self.lifeline is not None:
            self.lifeline.let_go()
        keep_newest()
        if self.size > 1:
            dist.destroy_process_group()


def _code(error: Exception | None) -> int:
    if error is None:
        return _FINE
    if isinstance(error, InterruptedRunError):
        return _STOPPED
    return _USER_ERROR if isinstance(error, ConfigError) else _FAULT


def _queued(work: dist.Work) -> Done:
    work.wait()  # of NCCL: the GPU's queue waits, this thread does not
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record()
    return on_gpu(work, event)


class Lifeline:
    """Tells of a lost rank while NCCL waits for it in silence: each rank holds a connection of gloo's to the next.

    Its end breaks when the process ends, however it does; whoever holds the other tells all in the store.
    """

    def __init__(self, index: int, size: int, store: distributed_c10d.Store, patience: float) -> None:
        """Connect with the neighbours; all ranks do at the same time, or it is an error after so many seconds."""
        self._next, self._before, self._store = (index + 1) % size, (index - 1) % size, store
        self._told = Question(lambda: store.check(["lost"]), gone=True, silent=False)
        own = distributed_c10d.PrefixStore("lifeline", store)
        self._group: Any = distributed_c10d.ProcessGroupGloo(own, index, size, timedelta(seconds=patience))
        self._over = self._broken = False
        self._thread = Thread(target=self._hold, daemon=True)
        self._thread.start()

    @property
    def broken(self) -> bool:
        """Whether any rank knows of a lost one."""
        return self._broken or self._told.answer()

    def let_go(self, patience: float = 5.0) -> None:
        """Tell the neighbour that this rank leaves in order, and wait so many seconds for the other one's word."""
        self._over = True
        with suppress(RuntimeError):
            self._group.send([torch.zeros(1)], self._before, 0).wait()
        self._thread.join(patience)

    def _hold(self) -> None:
        try:
            self._group.recv([torch.zeros(1)], self._next, 0).wait(FOR_EVER)
        except RuntimeError:
            self._broken = not self._over
            if self._broken:
                with suppress(RuntimeError):
                    self._store.set("lost", str(self._next))
