"""What is emitted for a GPU of each shipped model's local step, recorded too, and Fisher pass; emitted.json keeps some.

`python tests/support/devices/emitted_models.py [NAME ...]` writes the numbers of this version of torch
anew; the changelog says why.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple, ParamSpec, TypeVar
from unittest import mock

import numpy as np
import torch
from emitted import Emitted, emitted
from torch import nn

from fl_ddp.compiler import compilation
from fl_ddp.convolutions import products
from fl_ddp.engine import stacks
from fl_ddp.engine.graphed import Recordings
from fl_ddp.engine.group import Group
from fl_ddp.engine.plan import Plan
from fl_ddp.engine.samples import Normaliser, Samples
from fl_ddp.engine.seeds import torch_seed
from fl_ddp.engine.workplace import Workplace
from fl_ddp.importance import fisher as importance_pass
from fl_ddp.importance.fisher import fisher
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.models.cnn import FedCLCIFAR, FedCLMNIST, FedCurvCNN, FedKACNN, ImportanceCNN, LeNet5, PflCNN
from fl_ddp.models.filver import FilVerNet
from fl_ddp.models.lstm import CharLSTM
from fl_ddp.models.mlp import MLP
from fl_ddp.models.resnet import ResNet18
from fl_ddp.network import recurrence
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.protocol import Round

P = ParamSpec("P")
Result = TypeVar("Result")

FILE = Path(__file__).parents[2] / "cuda_code" / "emitted.json"
BATCH, FISHER, CLASSES, TOKENS = 10, 50, 10, 80
"""Samples of a client: one batch of a local step, one chunk of a Fisher pass."""
VERSION = torch.__version__.partition("+")[0]


class ResNet10(ResNet18):
    """ResNet-18 with one block a stage: both kinds of its blocks, in a third of the compiler's time."""

    depths = (1, 1, 1, 1)


class Shipped(NamedTuple):
    """A model, its samples and how many lanes of it are emitted."""

    model: Callable[..., nn.Module]
    in_shape: tuple[int, ...]
    lanes: int = 5
    options: Mapping[str, object] = {}


MODELS = {
    "MLP": Shipped(MLP, (1, 28, 28), 10),
    "ImportanceCNN": Shipped(ImportanceCNN, (1, 28, 28)),
    "LeNet5": Shipped(LeNet5, (3, 32, 32)),
    "FedCurvCNN": Shipped(FedCurvCNN, (1, 28, 28)),
    "FedKACNN": Shipped(FedKACNN, (1, 28, 28)),
    "PflCNN": Shipped(PflCNN, (3, 32, 32)),
    "FedCLMNIST": Shipped(FedCLMNIST, (1, 28, 28)),
    "FedCLMNIST code": Shipped(FedCLMNIST, (1, 28, 28), 5, {"variant": "code"}),
    "FedCLCIFAR": Shipped(FedCLCIFAR, (3, 32, 32)),
    "FilVerNet": Shipped(FilVerNet, (1, 28, 28), 2),
    "CharLSTM": Shipped(CharLSTM, (8,), 2, {"num_tokens": TOKENS}),
    "ResNet10": Shipped(ResNet10, (3, 32, 32), 2),
}
MOST = {"MLP": 12, "PflCNN": 33}
"""Launches of a local step that are allowed with any version of torch."""


RECORDED = ("MLP", "PflCNN", "CharLSTM")
"""Of products, convolutions and a loop over time: models whose recorded step is looked at, which finds its samples."""


CONVOLVED = (("PflCNN", "step"), ("FedKACNN", "fisher"))
"""Models all of whose layers are neither narrow nor large, in a step's batch or a chunk of the Fisher pass."""


class Numbers(NamedTuple):
    """Of one compiled function: launches, bytes that they must move, numbers in its largest buffer."""

    launches: int
    bytes: int
    largest: int


def of_step(
    name: str,
    *,
    deterministic: bool = True,
    head_alone: bool = False,
    recorded: bool = False,
) -> Emitted:
    """The local step of a model under FedAvg; a recurrent layer is one call, whose own launches are not seen."""
    model, group = _federation(MODELS[name], BATCH)
    fixed = model.body if head_alone else ()
    if recorded:
        group.workplace = replace(group.workplace, recordings=Recordings(_run))
    with _as_on_a_gpu():
        return emitted(
            lambda: group.train(model.init(), FedAvg(model), {}, {}, fixed=fixed), deterministic=deterministic
        )


def of_fisher(name: str) -> Emitted:
    """A chunk of the per-sample Fisher of a model."""
    model, group = _federation(MODELS[name], FISHER)
    with _as_on_a_gpu():
        return emitted(lambda: fisher(group, model.init(), model))


def _run(step: Callable[[], None]) -> Callable[[], object]:
    """Stands for the recording of a step as a CUDA graph."""
    step()
    return step


@contextmanager
def _as_on_a_gpu() -> Iterator[None]:
    """Recurrent layers are cuDNN's, pixels come as stored, no client goes alone, and the compiler is told of a GPU.

    It multiplies float32 numbers as IEEE has it, and the Fisher pass convolves as local steps do.
    """
    with (
        mock.patch.object(compilation, "holds_cuda", lambda _: True),
        mock.patch.object(products, "in_ieee", lambda: True),
        mock.patch.object(recurrence, "_is_onednns", lambda *_: False),
        mock.patch.object(stacks, "_scales_on", lambda _: False),
        mock.patch.object(importance_pass, "_ALONE", sys.maxsize),
        mock.patch.object(importance_pass, "_products", lambda _: True),
    ):
        yield


def numbers(code: Emitted) -> Numbers:
    """What is kept of it."""
    return Numbers(sum(code.launches.values()), code.bytes, max(code.temporaries, default=0))


def _federation(shipped: Shipped, samples: int) -> tuple[FlatModel, Group]:
    random, size = np.random.default_rng(0), shipped.lanes * samples
    tokens = "num_tokens" in shipped.options
    x = torch.from_numpy(random.integers(0, TOKENS if tokens else 256, (size, *shipped.in_shape)))
    y = torch.from_numpy(random.integers(0, CLASSES, size))
    normaliser = Normaliser() if tokens else Normaliser(torch.tensor(0.4), torch.tensor(0.6))
    data = Samples(x.to(torch.int32 if tokens else torch.uint8), y, normaliser)
    with torch_seed(0):
        module = shipped.model(in_shape=shipped.in_shape, num_classes=CLASSES, **shipped.options)
    example = torch.full((1, *shipped.in_shape), TOKENS - 1) if tokens else data.inputs(data.x[:1], torch.float32)
    model = FlatModel(module, CLASSES, example)
    work = Workplace(data, torch.float32, False, True, lambda: None, samples)
    own = np.split(np.arange(size), shipped.lanes)
    plan, first = Plan(BATCH, 1.0, None, 0.1), Round(0, -1, ends_task=False, task=0)
    return model, Group(work, plan, np.arange(shipped.lanes), own, shipped.lanes, 0, first)


class Seen(NamedTuple):
    """What is to be seen in a compiled function's code.

    Attributes:
        atomics: kernels that add floats in an order that nobody decides.
        late_reads: parameters that are read behind their writing.
        configurations: of reductions, how many would be timed against each other.
        fuses: kernels that round a * b + c once, or twice where one of them is made elsewhere.
        hashes: kernels that hash a key anew for each number.
        convolutions: calls of cuDNN's.
        numbers: that are kept.
    """

    atomics: list[str]
    late_reads: set[str]
    configurations: set[int]
    fuses: list[str]
    hashes: list[str]
    convolutions: int
    numbers: Numbers


def seen(name: str, what: str) -> Seen:
    """What is to be seen in a model's "step", so "recorded", of its "head" alone, or "fisher"."""
    if what == "fisher":
        code = of_fisher(name)
    else:
        code = of_step(name, head_alone=what == "head", recorded=what == "recorded")
    configurations = set(code.configurations().values())
    convolutions = sum(number for call, number in code.launches.items() if "convolution" in call)
    return Seen(code.atomics, code.late_reads, configurations, code.fuses, code.hashes, convolutions, numbers(code))


def seen_apart(name: str, what: str) -> Seen:
    """The same, in a process of its own."""
    return apart(seen, name, what)


def apart(emit: Callable[P, Result], *given: P.args, **named: P.kwargs) -> Result:
    """What a process of its own emits: behind other graphs some code differs, and torch may ask for a real GPU."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["fl_ddp.check.preloaded"])  # it has imported the compiler, and compiled nothing
    with ProcessPoolExecutor(1, context) as pool:
        return pool.submit(emit, *given, **named).result()


def kept() -> dict[str, dict[str, Numbers]]:
    """What was seen with this version of torch by model, as seen() names it; nothing where it was never looked at."""
    stored = json.loads(FILE.read_text()) if FILE.exists() else {}
    of_version = stored.get(VERSION, {})
    return {model: {what: Numbers(*n) for what, n in each.items()} for model, each in of_version.items()}


def _block(version: str, found: Mapping[str, object]) -> str:
    lines = [f'  "{model}": {json.dumps(each)}' for model, each in sorted(found.items())]
    return f' "{version}": {{\n' + ",\n".join(lines) + "\n }"


def main(names: list[str]) -> None:
    """Write the numbers of some models, or all."""
    found = {model: {what: list(n) for what, n in each.items()} for model, each in kept().items()}
    for name in names or MODELS:
        more = ["recorded"] if name in RECORDED else []
        found[name] = {what: list(seen_apart(name, what).numbers) for what in ("step", *more, "fisher")}
        print(name, found[name], flush=True)
        stored = json.loads(FILE.read_text()) if FILE.exists() else {}
        versions = stored | {VERSION: found}
        FILE.write_text("{\n" + ",\n".join(_block(*each) for each in sorted(versions.items())) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
