"""What all groups of a run share as long as their samples are the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fl_ddp.engine.choices import Convolution
from fl_ddp.engine.graphed import Recordings
from fl_ddp.engine.lanes import ForEach, one_by_one
from fl_ddp.engine.looped import Loops
from fl_ddp.engine.samples import Samples
from fl_ddp.protocol import Tensors


@dataclass(frozen=True)
class Workplace:
    """What all groups of a run share.

    Attributes:
        samples: the training set.
        dtype: of the parameters.
        bfloat16: whether local steps run under autocast.
        compile: whether they are compiled.
        check: called before every local step.
        largest: the most samples that any client of the run has; no batch needs to be wider.
        shared: [C] one sample of each class that everyone has a copy of, -1 of a class that the task has not; empty
            where the method wants none.
        task: that the samples are of, from 0.
        allowed: [C] bool, labels among which they are classified; None for all.
        classes: [C] bool, labels that training samples of the task have, whoever has them.
        batch_size: of the run, of samples of a method's making.
        kept: what functions gave for a client's samples, by a name and the client, as long as the task goes on.
        recordings: of local steps, on these samples alone, and of importance passes; None where nothing is recorded.
        loops: of local steps without Python between them; None where it takes them one by one.
        convolution: how lanes are convolved in local steps.
        spread: does something with all lanes that go on alone.
        apart: does something with lanes' models one after another, where that beats convolving them side by side.
    """

    samples: Samples
    dtype: torch.dtype
    bfloat16: bool
    compile: bool
    check: Callable[[], None]
    largest: int
    shared: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    task: int = 0
    allowed: Tensor | None = None
    batch_size: int = 1
    classes: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.bool))
    kept: dict[tuple[str, int], Tensors] = field(default_factory=dict)
    recordings: Recordings | None = None
    loops: Loops | None = None
    convolution: Convolution = "auto"
    spread: ForEach = one_by_one
    apart: ForEach | None = None
