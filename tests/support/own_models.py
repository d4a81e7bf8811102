"""Models of a user's own, which make a run do at a known moment what tests are about, and a measure of them."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from itertools import pairwise
from math import prod
from pathlib import Path

import torch
import yaml
from torch import Tensor, nn

from fl_ddp.api import GlobalModel
from fl_ddp.host.interrupt import StopRequest
from fl_ddp.models.mlp import MLP


def confidence(run: GlobalModel) -> Tensor:
    """The mean probability of what the model takes samples for."""
    return torch.cat([run.model(x)[1].softmax(1).amax(1) for x, _ in run.tests]).mean()


class Small(MLP):
    """Sixteen hidden units."""

    def __init__(self, *, in_shape: tuple[int, ...], num_classes: int) -> None:
        super().__init__(in_shape=in_shape, num_classes=num_classes, hidden=16)


class Silu(nn.Sequential):
    """Ten hidden units with an activation whose last bits depend, in torch, on where a number lies."""

    def __init__(self, *, in_shape: tuple[int, ...], num_classes: int) -> None:
        super().__init__(nn.Flatten(), nn.Linear(prod(in_shape), 10), nn.SiLU(), nn.Linear(10, num_classes))


def rounds_done() -> int:
    """Rounds that the run of this process has recorded; -1 as long as it is only set up."""
    words = [part for word in sys.argv for part in (word.split("=", 1) if word.startswith("--") else [word])]
    given = dict(pairwise(words))
    if "--config" in given:  # a job of Slurm has all its options there
        stored = yaml.safe_load(Path(given["--config"]).read_text())
        given = {f"--{key}": stored[key] for key in ("out", "name") if stored.get(key)} | given
    folder = given.get("--resume") or Path(given.get("--out", ""), given.get("--name", "run"))
    file = Path(folder, "metrics.csv")
    return file.read_text().count("\n") - 1 if file.exists() else -1


def due(file: str) -> bool:
    """Whether a file is there and as many rounds are done as it says; an empty one is due at once."""
    try:
        rounds = Path(file).read_text()
    except FileNotFoundError:
        return False
    return not rounds or rounds_done() >= int(rounds)


def stop_asked() -> bool:
    """Whether this process's run was asked to stop."""
    listener = getattr(signal.getsignal(signal.SIGINT), "__self__", None)
    return isinstance(listener, StopRequest) and listener.asked


class Held(Small):
    """Waits in every local step as long as a file `hold` in the working folder is due.

    Leaves a file `waits.<process>` there once it does, and `asked.<process>` once its run was asked to stop meanwhile.
    """

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        while due("hold"):
            Path(f"waits.{os.getpid()}").touch()
            if stop_asked():
                Path(f"asked.{os.getpid()}").touch()
            time.sleep(0.02)
        return super().forward(x)


class FailsOnRankOne(Small):
    """Has a mistake that shows on rank 1 alone, once a file `fail` is due."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if os.environ.get("RANK") == "1" and due("fail"):
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
                    while not stop_asked():  # two at once would be one
                        time.sleep(0.02)
        return super().forward(x)


class Limited(Small):
    """Keeps its weights small, by writing into them before each use."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        for weight in self.parameters():
            with torch.no_grad():
                weight.mul_(0.9)
        return super().forward(x)


class Normed(nn.Module):
    """Hidden units with BatchNorm."""

    def __init__(self, *, in_shape: tuple[int, ...], num_classes: int, hidden: int = 16) -> None:
        super().__init__()
        self.hidden = nn.Linear(prod(in_shape), hidden)
        self.norm = nn.BatchNorm1d(hidden)
        self.out = nn.Linear(hidden, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.out(torch.relu(self.norm(self.hidden(x.flatten(1)))))
        return out


class LimitedNormed(Normed):
    """The same that writes into its weights before each use."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.out.weight.mul_(0.9)
        return super().forward(x)


class WritesIntoInputs(Small):
    """Centres its inputs where they lie."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return super().forward(x.sub_(0.3))


class Embedding(nn.Module):
    """A normal distribution of two dimensions for each sample; a point, whose logarithm of sigma is minus infinity."""

    def __init__(self, inputs: int, point: bool) -> None:
        super().__init__()
        self.mu, self.width = nn.Linear(inputs, 6), nn.Linear(inputs, 6)
        self.point = point

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mu, width = self.mu(x.flatten(1)), self.width(x.flatten(1))
        return mu, torch.full_like(width, -torch.inf) if self.point else width - 2


class Embedded(nn.Module):
    """A small network of an encoder and a classifier on embeddings, as FIL-VER's."""

    point = False

    def __init__(self, *, in_shape: tuple[int, ...], num_classes: int, hidden: int = 16) -> None:
        super().__init__()
        self.encoder = Embedding(prod(in_shape), self.point)
        self.classifier = Classified(6, hidden, num_classes)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        out: tuple[Tensor, Tensor] = self.classifier(self.encoder(x)[0])
        return out


class Pointed(Embedded):
    """The same with embeddings that are points."""

    point = True


class Classified(nn.Module):
    """Features and logits of embeddings."""

    def __init__(self, size: int, hidden: int, num_classes: int) -> None:
        super().__init__()
        self.hidden, self.out = nn.Linear(size, hidden), nn.Linear(hidden, num_classes)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = torch.relu(self.hidden(x))
        return features, self.out(features)


class Averaged(nn.Module):
    """Embeddings of tokens, averaged over a sample between two layers."""

    def __init__(self, *, num_tokens: int, num_classes: int, hidden: int = 12) -> None:
        super().__init__()
        self.table, self.hidden = nn.Embedding(num_tokens, 6), nn.Linear(6, hidden)
        self.out = nn.Linear(hidden, num_classes)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = torch.tanh(self.hidden(self.table(x))).mean(1)
        return features, self.out(features)


class Attentive(nn.Module):
    """Tokens that look at each other, with dropout."""

    def __init__(self, *, num_tokens: int, num_classes: int, hidden: int = 16) -> None:
        super().__init__()
        self.table, self.out = nn.Embedding(num_tokens, 8), nn.Linear(8, num_classes)
        self.look = nn.TransformerEncoderLayer(8, 2, hidden, 0.2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.out(self.look(self.table(x)).mean(1))
        return out


class Forgetful(Averaged):
    """Knows no word for the last token."""

    def __init__(self, *, num_tokens: int, num_classes: int) -> None:
        super().__init__(num_tokens=num_tokens - 1, num_classes=num_classes)
