"""How long and on which batches a client trains in one round."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fl_ddp.engine.choices import Augmentation
from fl_ddp.engine.seeds import Keys, shuffled
from fl_ddp.optimizers.rule import Optimizer
from fl_ddp.optimizers.schedule import Schedule
from fl_ddp.optimizers.sgd import SGD
from fl_ddp.protocol import Counts, Factors, Indices

PLAIN = SGD()


def num_held_out(n: Counts, share: float) -> Counts:
    """How many of n samples [K] are a share: some, and not all, wherever there are two."""
    held: Counts = np.clip(np.rint(share * n).astype(np.int64), np.minimum(n // 2, 1), np.maximum(n - 1, 0))
    return held


@dataclass(frozen=True)
class Plan:
    """Local training of one round; epochs or steps is given, one number or one a client [G], the other None.

    The learning rate is lr, times what over_steps has for each step, and lr_factor [G] for each client, if given.
    """

    batch_size: int
    epochs: float | Factors | None
    steps: int | Counts | None
    lr: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    drop_last: bool = False
    optimizer: Optimizer = PLAIN
    clip_norm: float | None = None
    over_steps: Schedule | None = None
    augment: tuple[Augmentation, ...] = ()
    lr_factor: Factors | None = None

    def of_parts(self, work: Factors) -> Plan:
        """With epochs, or steps, multiplied by each client's factor [G]; at least one step is left."""
        if self.epochs is not None:
            return replace(self, epochs=self.epochs * work)
        return replace(self, steps=np.maximum(np.rint((self.steps or 0) * work), 1).astype(np.int64))

    def cut_short(self, late: npt.NDArray[np.bool_], draws: Factors) -> Plan:
        """With 1 to all of the whole epochs, or steps, for those [G] that are late, evenly by draws [G] in [0, 1)."""
        all_of_it = np.broadcast_to(np.asarray(self.steps if self.epochs is None else self.epochs), late.shape)
        part = 1 + np.floor(draws * np.floor(all_of_it))
        left = np.where(late & (all_of_it >= 1), part, all_of_it)
        return replace(self, steps=left.astype(np.int64)) if self.epochs is None else replace(self, epochs=left)

    def of_lane(self, lane: int) -> Plan:
        """Of one client, its own where each has one."""
        return replace(
            self,
            epochs=self.epochs[[lane]] if isinstance(self.epochs, np.ndarray) else self.epochs,
            steps=self.steps[[lane]] if isinstance(self.steps, np.ndarray) else self.steps,
            lr_factor=self.lr_factor[[lane]] if self.lr_factor is not None else None,
        )

    def num_steps(self, n: Counts) -> Counts:
        """Local steps [G] of clients with n [G] samples."""
        per_epoch = self._per_epoch(n)
        if self.epochs is None:
            return np.where(per_epoch > 0, 0 if self.steps is None else self.steps, 0)
        whole = np.floor(self.epochs).astype(np.int64)
        part = self._partial(n)
        last = part // self.batch_size if self.drop_last else -(-part // self.batch_size)
        steps: Counts = whole * per_epoch + last
        return steps

    def _per_epoch(self, n: Counts) -> Counts:
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

    def _partial(self, n: Counts) -> Counts:
        """Samples of the last epoch where it is a fraction; a client trains on at least one sample."""
        assert self.epochs is not None
        part: Counts = np.rint((self.epochs % 1) * n).astype(np.int64)
        return np.where(np.less(self.epochs, 1), np.maximum(part, np.minimum(n, 1)), part)

    def lr_by_step(self, n: Counts) -> Factors | None:
        """The learning rate [max steps, G] of clients with n [G] samples in each local step, where it changes."""
        if self.over_steps is None:
            return None
        table = self.lr * self.over_steps.over_steps(self.num_steps(n))
        return table if self.lr_factor is None else self.lr_factor * table

    def batches(self, order_keys: Keys, samples: list[Indices]) -> Indices:
        """The samples of every local step.

        Args:
            order_keys: [G] key of each client in this round.
            samples: [G] arrays of each client's sample indices.

        Returns:
            [max steps, G, batch_size] sample indices, -1 where padded; in an epoch each sample of a client comes once.
        """
        n = np.array([len(s) for s in samples], np.int64)
        num_steps, per_epoch, size = self.num_steps(n), self._per_epoch(n), self.batch_size
        out = np.full((len(samples), int(np.max(num_steps, initial=0)), size), -1, np.int64)
        epochs = -(-num_steps // np.maximum(per_epoch, 1))
        partial = None if self.epochs is None else self._partial(n)
        whole_epochs = np.broadcast_to(np.floor(0 if self.epochs is None else self.epochs), n.shape)
        for epoch in range(int(np.max(epochs, initial=0))):
            order = shuffled(order_keys, n, epoch)
            for lane in np.flatnonzero(epoch < epochs):
                first = epoch * per_epoch[lane]
                count = int(min(num_steps[lane] - first, per_epoch[lane]))
                whole = partial is None or epoch < whole_epochs[lane]
                take = min(count * size, int(n[lane] if whole or partial is None else partial[lane]))
                row = out[lane, first : first + count].reshape(-1)
                row[:take] = samples[lane][order[lane, :take]]
        return np.ascontiguousarray(out.swapaxes(0, 1))
