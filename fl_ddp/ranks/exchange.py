"""What all clients of a round do, on all ranks, and the sums and rows that come of it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from math import prod
from typing import NamedTuple, TypeVar
from zlib import crc32

import torch
from torch import Tensor

from fl_ddp.config.settings import Config
from fl_ddp.engine.group import Group
from fl_ddp.engine.transfer import Readings
from fl_ddp.errors import DivergedError, StatesDifferError
from fl_ddp.guards.hooks import Hooks, is_reported
from fl_ddp.host.device_errors import out_of_memory
from fl_ddp.host.interrupt import StopRequest
from fl_ddp.host.stopwatch import Stopwatch
from fl_ddp.protocol import Indices, Tensors, Term, Total, Upload
from fl_ddp.ranks.checksum import checksum
from fl_ddp.ranks.cohort import cut
from fl_ddp.ranks.cohort_rows import CohortRows, hear_finite
from fl_ddp.ranks.collectives import Offer, Ranks
from fl_ddp.ranks.exact_sum import CohortSum, GroupSum
from fl_ddp.ranks.threads import in_this_thread, workers_on

Result = TypeVar("Result")


class Traffic(NamedTuple):
    """Bytes that all clients of a round together send, and that they receive or were given before it."""

    up: int
    down: int


class Work(NamedTuple):
    """What groups of clients do side by side.

    Attributes:
        hook: of the method, for messages.
        client: what to call a client in a message, before its number.
        order: ids of all ranks' clients, in the order of their rows.
        of: what is done with clients.
        phase: of the stopwatch.
        kind: what names and shapes depend on beside the hook, as far as all ranks know it.
    """

    hook: str
    client: str
    order: Indices
    of: Callable[[Indices], tuple[Group, Upload]]
    phase: str = "training"
    kind: Hashable = None

    @property
    def name(self) -> Hashable:
        """Which work of a run it is."""
        return self.hook, self.client, self.kind


class Made(NamedTuple):
    """Which round's function of the method made the server's state."""

    round: int
    by: str


class Kept(NamedTuple):
    """What stays of a group's upload after its sums: its clients, their memory, and the bytes that each sent."""

    clients: Indices
    memory: Tensors
    bytes_up: int


class _Form(NamedTuple):
    """Of all numbers that a rank adds: names and shapes, how many they are, and their type."""

    told: str
    length: int
    dtype: torch.dtype


class Summed(NamedTuple):
    """What comes of a sum.

    Attributes:
        total: of all ranks' clients.
        reported: its rows that are only reported, on the host once the readings are heard.
        kept: what stays on this rank of its groups' uploads.
    """

    total: Total
    reported: Tensors
    kept: list[Kept]


class _Begun(NamedTuple):
    """What groups have done of a work before its sum is asked for."""

    work: Hashable
    done: list[tuple[Group, Upload]]
    error: Exception | None = None


class Exchange:
    """Between the clients of all ranks and the server; one flat sum over the ranks a time.

    Attributes:
        made: what made the state that ranks compare, for the message where theirs differ.
    """

    def __init__(
        self,
        config: Config,
        ranks: Ranks,
        stop: StopRequest,
        hooks: Hooks,
        watch: Stopwatch,
        lanes: int,
        memory: Mapping[str, Tensor],
    ) -> None:
        """Begin with the state that init() gives, and what a client remembers at first; lanes clients are a group."""
        self._config, self._ranks, self._stop = config, ranks, stop
        self._hooks, self._watch, self._lanes = hooks, watch, lanes
        self._workers = workers_on(ranks.device.type)
        self.made = Made(0, "init")
        self._same = True
        self._finite = [name for name, t in memory.items() if t.is_floating_point() and bool(t.isfinite().all())]
        self._known: dict[Hashable, _Form] = {}
        self._begun: _Begun | None = None
        self._begins = True

    def begin(self, hand: Indices, work: Work) -> None:
        """Do what the next sum() begins with, if it is of this work; what goes wrong is told there.

        On one rank alone, which has nobody to wait for, until there is no room for it beside the state before.
        """
        if self._ranks.size > 1 or not self._begins:
            return
        groups, spoilt = next(self.parts(hand)), self._hooks.spoilt
        with self._watch.ahead("server", work.phase):
            try:
                with self._watched(work, groups):
                    self._begun = _Begun(work.name, self._workers.map(work.of, groups))
            except Exception as error:
                self._begins = not out_of_memory(error)
                self._begun = _Begun(work.name, [], error) if self._begins else None
        if not self._begins:
            _make_room()
        self._hooks.spoilt = spoilt  # the state of the round that is not over is another one

    def with_room(self, test: Callable[[], Result]) -> Result:
        """Do something beside what was begun; without that, and never again, where there is no room for both."""
        try:
            return test()
        except Exception as error:
            if not (self._begun and out_of_memory(error)):
                raise
            self._begun, self._begins = None, False
        _make_room()
        return test()

    def sum(self, hand: Indices, work: Work, server: Tensors, readings: Readings | None = None) -> Summed:
        """Sums over all clients of all ranks, and their rows.

        Args:
            hand: this rank's clients.
            work: what a group of them does.
            server: the state they start from, which must be the same on all ranks.
            readings: by which the caller hears whether all is sound, and then calls refuse_unlike(); whoever looks at
                the total's numbers before hears it then. If None, all is heard here.
        """
        watch, config = self._watch, self._config
        exact = config.reduction == "exact" or work.phase == "evaluation"  # whose sums tell and do not train
        heard_here = readings is None
        readings = readings or Readings(self._ranks.device.type)
        sums = CohortSum(exact, config.compile, self._ranks.size, readings)
        rows = CohortRows(work.order, torch.float64 if exact else torch.float32, readings)
        kept, form, error = list[Kept](), "", None
        mine, gathered = list[Tensor](), list[Tensor]()

        def of_group(done: tuple[Group, Upload]) -> list[GroupSum]:
            group, upload = done
            return sums.of_group(upload.sums, group.real)

        try:
            for groups in self.parts(hand):
                self._stop.check()
                begun, self._begun = self._begun, None
                if begun and begun.work == work.name:
                    if begun.error:
                        raise begun.error
                    done = begun.done
                else:
                    begun = None  # and its memory is free
                    with watch.phase(work.phase), self._watched(work, groups):
                        done = self._workers.map(work.of, groups)
                with watch.phase("summing"):
                    for (group, upload), shares in zip(done, self._workers.map(of_group, done), strict=True):
                        form = self._hooks.alike(work.hook, upload, form)
                        names = [f"{work.client} {i}" for i in group.client]
                        sums.add(shares, upload.sums, group.real, names)
                        rows.add(upload.rows, group.client, names)
                        remembered = {name: upload.memory[name] for name in self._finite if name in upload.memory}
                        hear_finite(remembered, group.real, names, readings)
                        kept.append(Kept(group.client, upload.memory, _bytes_up(upload)))
            with watch.phase("summing"):
                if self._ranks.size > 1:  # a rank on its own hears all with the totals
                    readings.read()
                mine, gathered = sums.parts(), rows.parts()
        except Exception as failure:
            error = failure
        with watch.phase("summing"):
            added = self._agreed(work, self._ranks.first(error), [*mine, *gathered], form, server, readings)
            self.refuse_unlike()  # a CPU has heard of it
            handed = partial(self._hooks.handed, work.hook)
            each = handed(sums.totals(added[: len(mine)])), handed(rows.totals(added[len(mine) :]))
            total = Total(*each, _Numbers(sums.numbers, readings))
            told = {name: t for name, t in total.rows.items() if is_reported(name)}
            reported = {name: torch.empty_like(t, device="cpu") for name, t in told.items()}
            for name, t in told.items():
                numbers = t.flatten().clone()  # the server's step may write into its rows before they are read
                readings.ask(numbers, partial(_fill, reported[name]))
            if heard_here:
                self.hear(readings)
            return Summed(total, reported, kept)

    def compare(self, server: Tensors, error: Exception | None) -> None:
        """Compare the ranks' states if none of them has an error; raises as agree() and refuse_unlike() do."""
        readings = Readings(self._ranks.device.type)
        if self._ranks.size == 1:  # has nobody to compare with
            self._ranks.agree(error)
        elif not self._ranks.agree_in_sums:
            offer, error = self._offered([], server, error)
            self._ranks.agree(error)
            self._added(offer, readings)
        elif self._added(self._offer([], server, given=self._ranks.first(error) is None), readings) is None:
            self._ranks.agree(error)
        self.hear(readings)

    def hear(self, readings: Readings) -> None:
        """Wait for all that a sum asked, on all ranks alike; raises what it finds, and as refuse_unlike() does."""
        readings.read()
        self.refuse_unlike()

    def refuse_unlike(self) -> None:
        """Go on if the states that were compared are the same, as far as was heard; if not, nothing else counts.

        Raises:
            StatesDifferError: they are not; on all ranks alike.
        """
        if not self._same:
            self._ranks.late.clear()
            when = f"round {self.made.round}" if self.made.round else "before round 1"
            raise StatesDifferError(
                f"{when}: the ranks' server states differ after {self._hooks.name(self.made.by)}; it must do the same "
                "on every rank, with random numbers from keys alone"
            )

    def parts(self, ids: Indices) -> Iterator[list[Indices]]:
        """This rank's clients, cut into groups, as many at a time as there are workers."""
        groups, at_once = cut(ids, self._lanes), self._workers.size
        return (groups[i : i + at_once] for i in range(0, len(groups), at_once))

    def _watched(self, work: Work, groups: list[Indices]) -> AbstractContextManager[None]:
        return self._hooks.keyed(work.hook, "group.keys", partial(in_this_thread, work.of, groups[0]))

    def _agreed(
        self, work: Work, error: Exception | None, mine: list[Tensor], names: str, server: Tensors, readings: Readings
    ) -> Sequence[Tensor]:
        """The sums of all ranks' numbers, if none has an error, and all have the same names and shapes.

        How many numbers such work gives is known of the last time: a rank that now has others, or an error, can take
        part in the sum and say so by it, so that ranks need not agree before.
        """
        if self._ranks.size == 1:
            self._ranks.agree(error)
            return mine
        lengths = [len(part) for part in mine]
        dtype = mine[0].dtype if mine else torch.get_default_dtype()
        key, form = (work.hook, work.kind, len(work.order)), _Form(names, sum(lengths), dtype)
        known = self._known.get(key)
        if known:
            given = error is None and form == known
            offered = mine if given else [torch.zeros(known.length, dtype=known.dtype)]
            total = self._added(self._offer(offered, server, given=given), readings)
            if total is not None:
                return _apart(total, lengths)
        offer, error = self._offered(mine, server, error)
        if not self._ranks.agree(error, crc32(repr(form).encode())):
            raise self._hooks.unlike(work.hook, names)
        if self._ranks.agree_in_sums:
            self._known[key] = form
        total = self._added(offer, readings)
        assert total is not None
        return _apart(total, lengths)

    def _offered(self, mine: list[Tensor], server: Tensors, error: Exception | None) -> tuple[Offer, Exception | None]:
        """What a rank without an error offers, or why it cannot: behind what ranks agree on nothing may fail on one."""
        nothing = Offer(torch.zeros(0), 0)
        if error:
            return nothing, error
        try:
            return self._offer(mine, server), None
        except Exception as failure:
            return nothing, failure

    def _offer(self, mine: list[Tensor], server: Tensors, *, given: bool = True) -> Offer:
        """A rank's numbers, with its state."""
        return self._ranks.offer(mine, checksum(server), given=given)

    def _added(self, offer: Offer, readings: Readings) -> Tensor | None:
        """The sum of all ranks' numbers, None if not all have given some; that they have one state is heard later."""
        total, same, whole = self._ranks.add_common(offer)
        if self._ranks.agree_in_sums and not whole:
            return None
        readings.ask(same.view(1), self._hear_whether_same)
        return total

    def _hear_whether_same(self, found: list[float]) -> None:
        self._same = self._same and bool(found[0])


def _apart(total: Tensor, lengths: list[int]) -> Sequence[Tensor]:
    """The parts of a vector; on a GPU, where what a row of numbers sums up to depends on its place, as one rank has."""
    parts = torch.split(total, lengths)
    return parts if total.device.type == "cpu" else [part.clone() for part in parts]


class _Numbers(Mapping[str, float]):
    """Sums that are numbers; the first look at them hears all that was asked."""

    def __init__(self, found: Mapping[str, float], readings: Readings) -> None:
        self._found, self._readings = found, readings

    def __getitem__(self, name: str) -> float:
        self._readings.read()
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        self._readings.read()
        return iter(self._found)

    def __len__(self) -> int:
        self._readings.read()
        return len(self._found)


def finite_server(server: Tensors, index: int, readings: Readings) -> Tensors:
    """A state of the server after a round; that all its numbers are finite is heard with the readings.

    Raises:
        DivergedError: one is not.
    """

    def judge(found: list[float]) -> None:
        if not found[0]:
            raise DivergedError(f"round {index + 1}: the server's state is not finite")

    numbers = [t for t in server.values() if t.is_floating_point() and t.numel()]
    ends = [torch.stack(t.aminmax()).isfinite().all() for t in numbers]
    readings.ask(torch.stack(ends).all().view(1), judge)
    return server


def _make_room() -> None:
    """Free what an error's frames hold, in a circle with it, and what torch keeps from libraries that allocate, too."""
    gc.collect()
    torch.cuda.empty_cache()


def _fill(t: Tensor, numbers: list[float]) -> None:
    """Write numbers into a tensor of the host."""
    t.view(-1).copy_(torch.tensor(numbers, dtype=torch.float64))


def _bytes_up(upload: Upload) -> int:
    """What one client sends; running statistics are coordinates of its change and no second time on the wire."""
    on_the_wire = {name: t for name, t in upload.on_the_wire.items() if name != "statistics"}
    values = [t.value if isinstance(t, Term) else t for t in on_the_wire.values()]
    return sum(prod(v.shape[1:]) * v.element_size() for v in values)
