"""A group of clients side by side on one device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from fl_ddp.compiler.compilation import layout
from fl_ddp.engine.plan import Plan, num_held_out
from fl_ddp.engine.samples import Samples
from fl_ddp.engine.seeds import Keys, Purpose, keys, noise_key, shuffled
from fl_ddp.engine.stacks import Stack, stacks
from fl_ddp.engine.step import (
    STEPS,
    Drawn,
    Objective,
    State,
    StepKind,
    Steps,
    Training,
    as_leaves,
    first_state,
    joined,
    local_step,
    try_step,
)
from fl_ddp.engine.transfer import upload, upload_all
from fl_ddp.engine.workplace import Workplace
from fl_ddp.guards.coefficients import coefficients_of, for_any_coefficients
from fl_ddp.guards.padding import is_unseen
from fl_ddp.optimizers.rule import Rates
from fl_ddp.protocol import Counts, Factors, Indices, Round, Tensors, Trained


@dataclass
class Carried:
    """What clients' training carries from round to round, of a group and of all its parts.

    Attributes:
        statistics: [G, S] running statistics of BatchNorm that the clients keep to themselves; None where the received
            ones count.
        optimizer: [G, P] what the clients' optimizers remember, and the number of their steps [G], which the first
            training of a round leaves anew; None where every round begins without.
        steps: [G] of the round's own plan that the clients have done, on whatever samples; None before they train.
    """

    statistics: Tensor | None = None
    optimizer: Tensors | None = None
    steps: Tensor | None = None


class Group:
    """G lanes, each a client with its samples; lanes without a client are padded and have no samples.

    Attributes:
        client: [G] ids on the host, a NumPy array, -1 for a padded lane; `ids` are on the device, 0 there.
        n: [G] numbers of training samples.
        real: [G] 1 for a client, 0 for a padded lane.
        steps: [G] local steps of the plan.
        plan: of local training in this round.
        keys: [G] of what a method draws for a client in this round, with uniform() or normal().
        carried: what the first training of a round begins with, beside the parameters.
    """

    def __init__(
        self,
        workplace: Workplace,
        plan: Plan,
        clients: Indices,
        samples: list[Indices],
        lanes: int,
        seed: int,
        in_round: Round,
    ) -> None:
        """Put clients [<= lanes] with their sample indices into lanes."""
        empty = lanes - len(clients)
        assert empty >= 0
        self.workplace, self.plan, self._round, self._seed = workplace, plan, in_round, seed
        self.client = np.concatenate([clients, np.full(empty, -1, np.int64)])
        self._samples = [*samples, *[np.zeros(0, np.int64)] * empty]
        self._order_keys = keys(seed, in_round.index, Purpose.ORDER, self.client)
        device = workplace.samples.x.device
        self._counts = np.array([len(own) for own in self._samples], np.int64)
        own_keys = noise_key(seed, in_round.index, Purpose.METHOD, self.client)
        numbers = (self._counts, self.client >= 0, plan.num_steps(self._counts))
        own = [torch.from_numpy(each).to(workplace.dtype) for each in numbers]
        self.keys, self.n, self.real, self.steps = upload_all([own_keys, *own], device)
        self.carried = Carried()
        self._ready: tuple[Plan, Steps] | None = None

    @property
    def round(self) -> int:
        """Its index, from 0."""
        return self._round.index

    @property
    def counts(self) -> Counts:
        """Numbers of samples [G], on the host."""
        return self._counts

    @property
    def previous(self) -> int:
        """The last round before this one in which somebody trained; -1 if there was none."""
        return self._round.previous

    @property
    def ends_task(self) -> bool:
        """Whether nobody trains in this task after this round, and another task follows."""
        return self._round.ends_task

    @property
    def lanes(self) -> int:
        """G."""
        return len(self.client)

    @cached_property
    def ids(self) -> Tensor:
        """Ids [G] of the clients on the device, to index with; a padded lane has client 0's."""
        return upload(torch.from_numpy(self.client.clip(0)), self.n.device)

    @property
    def largest(self) -> int:
        """The most samples that any client of the run has, in this group or not."""
        return self.workplace.largest

    @cached_property
    def task_keys(self) -> Tensor:
        """[G] of what a method draws for a client, the same in all rounds of the task."""
        return upload(noise_key(self._seed, self.task, Purpose.TASK, self.client), self.n.device)

    @property
    def task(self) -> int:
        """Of the round, from 0."""
        return self.workplace.task

    @property
    def momentum_steps(self) -> Tensor:
        """The sum [G] of momentum's weights on a client's gradients, float64; its steps where there is no momentum.

        In units of the plan's learning rate: a client whose own is another makes so much longer or shorter steps.
        Source: Wang et al. 2020 (FedNova), ||a||_1 = (tau - rho (1 - rho^tau) / (1 - rho)) / (1 - rho).
        """
        rho, tau = self.plan.momentum, self.steps.double()
        return self.lr_factor * (tau - rho * (1 - rho**tau) / (1 - rho)) / (1 - rho)

    @property
    def lr_factor(self) -> Tensor:
        """What the plan's learning rate is multiplied by for each client [G], float64."""
        own = self.plan.lr_factor
        return torch.ones_like(self.n, dtype=torch.float64) if own is None else self._up(own, torch.float64)

    def train(
        self,
        start: Tensor,
        objective: Objective,
        server: Tensors,
        memory: Tensors,
        trace: Mapping[str, Tensor] | None = None,
        plan: Plan | None = None,
        draw: int = 0,
        fixed: Sequence[int] = (),
    ) -> Trained:
        """Train every lane on its own samples.

        Args:
            start: [V] or [G, V] parameters to start from.
            objective: loss and its changes; a tensor whose last dimension is V is a parameter vector.
            server: what the clients received, seen by all lanes.
            memory: [G, ...] what each client remembers.
            trace: [V] or [G, V] vectors that the objective tracks from step to step, as they begin.
            plan: in place of the round's.
            draw: of the batches' order; a method that trains more than once in a round numbers its trainings.
            fixed: leaves that no step moves, such as model.body, but for running statistics; no norm counts them.

        Returns:
            theta [G, V], mean loss over a client's steps [G], the traces as they end [G, V].

        Raises:
            ValueError: what is fixed are no leaves, or all.
        """
        work, plan, normaliser = self.workplace, plan or self.plan, self.workplace.samples.normaliser
        order = keys(self._order_keys, Purpose.AGAIN, draw) if draw else self._order_keys
        earlier, statistics = (None, None) if draw else (self.carried.optimizer, self.carried.statistics)
        kind = _kind(plan, work, fixed, goes_on=earlier is not None)
        number = self.steps if plan is self.plan else self._up(plan.num_steps(self._counts))
        if plan is self.plan:
            self.carried.steps = number
        state = first_state(objective, kind, self.lanes, start, trace or {}, earlier, statistics)
        if not (leaves := set(range(len(state.walk.theta)))) > set(fixed):
            raise ValueError(f"fixed is {tuple(fixed)}; accepted: some of the leaves 0 to {max(leaves)}, not all")
        rates = Rates(*map(self._scalar, (plan.lr, plan.momentum, plan.weight_decay, plan.clip_norm or 0.0)))
        rates = rates if plan.lr_factor is None else rates._replace(lr=self._up(plan.lr * plan.lr_factor))
        received, remembered = (as_leaves(each, objective, start.shape[-1]) for each in (server, memory))
        numbers = {name: self._scalar(value) for name, value in coefficients_of(objective).items()}
        training = Training(state, received, remembered, rates, work.allowed, numbers)
        ready = self._ready if self._ready and self._ready[0] is plan and not draw else None
        steps = ready[1] if ready else self._planned(plan, order)
        for drawn in islice(self._draws(steps), is_unseen(objective)):
            at_first = rates if steps.lr is None else rates._replace(lr=steps.lr[0])
            try_step(objective, kind, training._replace(rates=at_first), drawn, normaliser)
        asked = for_any_coefficients(objective, numbers), kind
        step = None

        def ended(state: State) -> Trained:
            """What is kept of where training ends, in tensors of its own."""
            if earlier is not None:
                after = {name: joined(leaves) for name, leaves in state.walk.optimizer.items()}
                self.carried.optimizer = after | {STEPS: earlier[STEPS] + number.to(earlier[STEPS])}
            traces = {name: joined(leaves) for name, leaves in state.walk.trace.items()}
            return Trained(joined(state.walk.theta), state.loss / number.clamp_min(1), traces)

        with torch.no_grad():
            made = work.recordings and work.recordings.train(*asked, training, steps, work.samples, work.check, ended)
            if made:
                return made
            state = state.owned
            own, alike = training._replace(state=state), self._stacks(steps, alike=True)
            done = work.loops and work.loops.train(*asked, own, alike, normaliser, work.check, work.spread)
            for index, drawn in enumerate(() if done else self._draws(steps)):
                work.check()
                rates = rates if steps.lr is None else rates._replace(lr=steps.lr[index])
                given = (own._replace(rates=rates), drawn, normaliser)
                step = step or local_step(*asked, layout(given))
                step(*given)
            return ended(state)

    def put_steps(self) -> None:
        """Put the steps of the first training by the round's plan on the device, before it begins."""
        self._ready = self.plan, self._planned(self.plan, self._order_keys)

    def _planned(self, plan: Plan, order: Keys) -> Steps:
        return self._steps_of(plan.batches(order, self._samples), order, plan.lr_by_step(self._counts))

    def _up(self, numbers: Factors | Counts, dtype: torch.dtype | None = None) -> Tensor:
        """Numbers of the host, in the parameters' type unless another is given."""
        return upload(torch.from_numpy(numbers), self.n.device, dtype or self.workplace.dtype)

    def split(self, share: float) -> tuple[Group, Group]:
        """The same clients with a share of their samples and with the others, alike as long as they have these samples.

        A client with at least two samples has some in both; one with a single sample has it in the second.
        """
        n = self._counts
        order, held = shuffled(keys(self._seed, Purpose.HELD_OUT, self.client), n, 0), num_held_out(n, share)
        cut = [np.split(own[row[: len(own)]], [h]) for own, row, h in zip(self._samples, order, held, strict=True)]
        return self._with([first for first, _ in cut]), self._with([rest for _, rest in cut])

    def alone(self, lane: int) -> Group:
        """A group of one lane of these, for a look at its samples: what its training would carry stays here."""
        ids, own = self.client[lane : lane + 1], self._samples[lane : lane + 1]
        return Group(self.workplace, self.plan.of_lane(lane), ids, own, 1, self._seed, self._round)

    def over(self, x: Tensor, y: Tensor) -> Group:
        """The same clients on samples of their own making, which are the network's inputs as they are.

        Args:
            x: [G, N, ...].
            y: [G, N] labels, -1 where there is no sample.
        """
        places = np.arange(y.numel()).reshape(y.shape)
        own = [row[real] for row, real in zip(places, (y >= 0).cpu().numpy(), strict=True)]
        samples = Samples(x.flatten(0, 1), y.flatten())
        shared = torch.zeros(0, dtype=torch.int64, device=y.device)
        work = replace(self.workplace, samples=samples, largest=y.shape[1], shared=shared, kept={}, recordings=None)
        group = self._with(own, work)
        # the plan's batches are as wide as the clients' own samples at most
        group.plan = replace(self.plan, batch_size=min(work.batch_size, max(y.shape[1], 1)), augment=())
        group.steps = group._up(group.plan.num_steps(group._counts))
        return group

    def _with(self, samples: list[Indices], workplace: Workplace | None = None) -> Group:
        """The same lanes with other samples, of another place if one is given."""
        real = int((self.client >= 0).sum())
        ids, place = self.client[:real], workplace or self.workplace
        group = Group(place, self.plan, ids, samples[:real], self.lanes, self._seed, self._round)
        group.carried = self.carried
        return group

    def _scalar(self, value: float) -> Tensor:
        dtype = self.workplace.dtype
        return torch.full((), min(value, torch.finfo(dtype).max), dtype=dtype, device=self.n.device)

    def once(self, batch_size: int, max_samples: int = 0) -> Iterator[Drawn]:
        """Every sample of each lane once, in a random order of the client's in this round.

        Args:
            batch_size: samples of a lane in one batch; a client's last one may be smaller.
            max_samples: of a client; the first in its order. 0 for all.
        """
        order_keys = keys(self._order_keys, Purpose.IMPORTANCE)
        order = shuffled(order_keys, self._counts, 0)
        most = int(np.max(self._counts.clip(max=max_samples) if max_samples else self._counts, initial=0))
        batches = np.full((self.lanes, -(-most // batch_size) * batch_size), -1, np.int64)
        for lane, samples in enumerate(self._samples):
            batches[lane, : min(len(samples), most)] = samples[order[lane, : min(len(samples), most)]]
        return self._draws(self._steps_of(batches.reshape(self.lanes, -1, batch_size).swapaxes(0, 1), order_keys))

    @cached_property
    def positions(self) -> Tensor:
        """Each client's samples [G, N] in the training set, -1 behind its last one; N is the same for all groups."""
        return upload(torch.from_numpy(self._padded(self.largest)), self.n.device)

    def in_order(self, batch_size: int) -> Iterator[Drawn]:
        """Every sample of each lane once, as many batches as the largest of its clients needs, and at least one."""
        padded = self._padded(max(-(-int(np.max(self._counts, initial=0)) // batch_size), 1) * batch_size)
        batches = padded.reshape(self.lanes, -1, batch_size).swapaxes(0, 1)
        return self._draws(self._steps_of(batches, keys(self._order_keys, Purpose.SAMPLE)))

    def _padded(self, length: int) -> Indices:
        """Each client's samples [G, length], -1 behind its last one."""
        out = np.full((self.lanes, length), -1, np.int64)
        for lane, samples in enumerate(self._samples):
            out[lane, : len(samples)] = samples
        return out

    def _steps_of(self, indices: Indices, lane_keys: Keys, lr: Factors | None = None) -> Steps:
        """Steps by indices [T, G, B] of their samples, -1 where padded, keys [G] of the lanes' noise, and lr [T, G]."""
        noise_keys = noise_key(lane_keys[None], Purpose.NOISE, np.arange(len(indices))[:, None])
        rates = [] if lr is None else [torch.from_numpy(lr).to(self.workplace.dtype)]
        rows = torch.from_numpy(indices.copy())  # of strides that tell no more than the shape
        return Steps(*upload_all([rows, noise_keys, *rates], self.n.device))

    def _draws(self, taken: Steps) -> Iterator[Drawn]:
        """The samples of every step."""
        for stack in self._stacks(taken, alike=False):
            yield from map(Drawn._make, zip(*(part[: stack.size].unbind() for part in stack.drawn), strict=True))

    def _stacks(self, taken: Steps, *, alike: bool) -> Iterator[Stack]:
        return stacks(taken, self.workplace.samples, self.workplace.dtype, alike=alike)


def _kind(plan: Plan, work: Workplace, fixed: Sequence[int], *, goes_on: bool) -> StepKind:
    """What a plan compiles into its steps."""
    return StepKind(
        work.dtype,
        plan.optimizer,
        momentum=plan.momentum > 0,
        weight_decay=plan.weight_decay > 0,
        clip_norm=plan.clip_norm is not None,
        lr_of_lane=plan.over_steps is not None or plan.lr_factor is not None,
        augment=plan.augment,
        bfloat16=work.bfloat16,
        compile=work.compile,
        goes_on=goes_on,
        convolution=work.convolution,
        fixed=tuple(fixed),
    )
