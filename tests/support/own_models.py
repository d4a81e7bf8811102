"""Models of a user's own, which make a run do at a known moment what tests are about."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

from torch import Tensor

from fl_ddp.host.interrupt import StopRequest
from fl_ddp.models.mlp import MLP


class Small(MLP):
    """Sixteen hidden units."""

    def __init__(self, *, in_shape: tuple[int, ...], num_classes: int) -> None:
        super().__init__(in_shape=in_shape, num_classes=num_classes, hidden=16)


class Held(Small):
    """Waits in every local step while there is a file `hold` in the working folder.

    Leaves a file `waits.<process>` there once it does, and `asked.<process>` once its run was asked to stop meanwhile.
    """

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        while Path("hold").exists():
            Path(f"waits.{os.getpid()}").touch()
            listener = getattr(signal.getsignal(signal.SIGINT), "__self__", None)
            if isinstance(listener, StopRequest) and listener.asked:
                Path(f"asked.{os.getpid()}").touch()
            time.sleep(0.02)
        return super().forward(x)


class FailsOnRankOne(Small):
    """Has a mistake that shows on rank 1 alone, once there is a file `fail`."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if os.environ.get("RANK") == "1" and Path("fail").exists():
            raise ValueError("a mistake of the user's model")
        return super().forward(x)


class InterruptsItself(Small):
    """Presses Ctrl-C in round 2, if there is a file `interrupt`; twice, if it says so."""

    alone = threading.Lock()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        with self.alone:
            if Path("interrupt").exists() and Path("run/checkpoints/round_000001").exists():
                twice = Path("interrupt").read_text() == "twice"
                Path("interrupt").unlink()
                for _ in range(1 + twice):
                    os.kill(os.getpid(), signal.SIGINT)  # a thread's own signal would wait until the thread is done
                    time.sleep(0.5)  # two at once would be one
        return super().forward(x)
