"""Settings that nobody thought of: options of a run, drawn from what their types declare that they accept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
import own_models
from method_settings import FOR_METHODS

from fl_ddp.bounds import Real, Whole, declared
from fl_ddp.config import registry
from fl_ddp.config.command_line import from_layers, mapping_layer
from fl_ddp.config.settings import Choice, Config
from fl_ddp.errors import ConfigError

Settings = Mapping[str, object]
Generator = np.random.Generator
T = TypeVar("T")

ALWAYS: Settings = {
    "compile": False, "figures": False, "device": "cpu", "checkpoint_every": 1, "keep_checkpoints": 9,
}  # fmt: skip
"""Of every run: rounds of a fraction of a second, of which each is kept."""
LEFT_OUT = frozenset(
    {
        *ALWAYS, "name", "out", "resume", "init", "rank_timeout", "convolution", "reduction",
        "data.root", "data.download", "data.path", "data.test_path", "data.dataset", "data.subset", "data.train",
        "data.test", "data.test_share", "data.test_seed", "data.features", "data.label", "data.client", "data.split",
        "data.delimiter", "data.domains", "data.size", "data.length", "data.mean", "data.deviation",
        "stream.path", "partition.path",
    }
)  # fmt: skip
"""What says where files lie and how they are read, and what is a GPU's or promises less."""
OWN: Mapping[str, Sequence[object]] = {
    "data": ("digits", "digits", "few.npz", "owned.npz", "features.npz", "numbers.npz", "labels.npz"),
    "model": ("MLP", "MLP", f"{own_models.__file__}:Normed", f"{own_models.__file__}:Silu"),
    "model.hidden": (7, "[9,5]", "[33,17]"),
    "clients": (4, 5, 6, 9),
    "cohort": (3, 4),
    "participation": (0.75, 1.0),
    "rounds": (2, 3, 4),
    "batch_size": (3, 10, 13, 32),
    "local_epochs": (0.3, 1.5, 2.0),
    "local_steps": (1, 2, 5),
    "lr": (0.01, 0.05),
    "availability": ("away.csv",),
    "patience": (1,),
    "stop_at": ("accuracy=0.3", "loss=1.5"),
    "precision": ("bfloat16",),
    "class_reduction": ("1,0,1,1", "2,1,2,0.5"),
    "client_lr": ("uniform(0.5,1.5)", "loguniform(0.1,1)"),
    "client_work": ("uniform(0.2,1)", "loguniform(0.5,2)"),
    "measures": (f"{own_models.__file__}:confidence",),
    "partition.min_size": (1,),
    "partition.blocks_per_client": (1, 2),
    "partition.block_size": (5, 20),
    "partition.classes_per_client": (1, 2),
    "stream.enrolment": ("decreasing", "increasing", "scattered", "random", "all"),
    "stream.tasks": (2, 3),
    "stream.task_rounds": (1, 2),
    "stream.size": (1, 2),
    "stream.empty": ("skip",),
    "stream.angle": (33.3, 90.0),
    "method.server_lr": (0.5, 1.5),
    "method.lam": (0.0, 0.5, 5.0),
    "method.fisher_batch": (3, 100),
    "method.fisher_samples": (0, 5),
    "method.proxy_batch": (1, 7, 64),
    "method.passes": (1, 5),
    "method.send": (1, 5),
    "method.remember": (1, 20),
    "method.store": (5, 60),
    "method.sst": (0, 1, 30),
    "method.pretrain_epochs": (0.0, 0.5),
    "optimizer.eps": (1e-8, 1e-3),
}
"""Values of options whose types do not tell which are of use, or allow what takes long; cohorts do for three ranks."""
PARTITIONS = ("Blocks", "Classes", "ClientDirichlet", "Dirichlet", "IID", "Quantity", "Shards")
STREAMS = ("ClassGroups", "ClassGroups", "Permuted", "Rotated", "Static")
TOGETHER: Sequence[Settings] = (
    {"lr_schedule": "step", "lr_decay": 0.5, "lr_step": 1},
    {"lr_schedule": "warmup_cosine", "lr_warmup": 1, "lr_min": 0.001},
    {"lr_schedule": "cosine", "lr_schedule_over": "steps"},
    {"running_statistics": "local", "estimate_statistics": True},
    {"running_statistics": "first"},
    {"local_test": 0.25, "personalise": "all"},
    {"local_test": 0.5, "local_test_from": "test"},
    {"stragglers": 0.5, "drop_stragglers": True},
    {"stragglers": 0.5, "local_epochs": 2.0},
    {"momentum": 0.9, "optimizer.keep": True},
    {"momentum": 0.9, "optimizer.nesterov": True},
)
"""Options of which one is nothing without the other."""
READ = frozenset(name for key in ("data", "availability") for name in OWN[key] if name != "digits")
"""Files that draws read."""
FLOATS = (0.0, 1e-3, 0.05, 0.3, 0.5, 0.9, 1.0, 2.0)


def drawn(number: int, folder: Path) -> dict[str, object]:
    """The settings of a number, the same ones whenever it is asked for; what they read lies in a folder.

    Raises:
        ConfigError: a configuration cannot even begin with what was chosen.
    """
    rng = np.random.default_rng(number)
    settings: dict[str, object] = {**ALWAYS, "seed": int(rng.integers(5)), "name": f"drawn_{number}"}
    method = one_of(rng, sorted(registry.known("method")))
    settings |= {"method": method, **_needed(rng, method)}
    for additions in (_run(rng), *map(lambda kind: _chosen(rng, kind, settings), ("partition", "stream", "optimizer"))):
        for addition in additions:
            settings = _with(settings, addition)
    for kind in sorted(registry.KINDS & settings.keys()):
        for addition in _of_choice(rng, kind, settings):
            settings = _with(settings, addition)
    return {key: str(folder / str(value)) if value in READ else value for key, value in settings.items()}


def option_names() -> Iterator[tuple[str, object]]:
    """All options that a draw can have, by their keys, with their types."""
    for name, hint in get_type_hints(Config, include_extras=True).items():
        if name not in registry.KINDS:
            yield name, hint
    for kind in registry.KINDS:
        for owner in registry.known(kind).values():
            yield from _declared(kind, owner)


def values(key: str, hint: object) -> list[object]:
    """What a draw gives an option; nothing where its type does not tell and OWN has none."""
    if key in LEFT_OUT:
        return []
    if key in OWN:
        return list(OWN[key])
    if hint is bool:
        return [False, True]
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    if get_origin(hint) is Annotated:
        kind, bounds = get_args(hint)[:2]
        if isinstance(bounds, Whole):
            return [bounds.least, bounds.least + 1, bounds.least + 2]
        assert kind is float and isinstance(bounds, Real)
        return [value for value in FLOATS if bounds.refused(key, value) is None]
    if get_origin(hint) is tuple:
        alone = values(key, get_args(hint)[0])
        return [*(f"[{value}]" for value in alone[:1]), *(f"[{one},{other}]" for one, other in pairwise(alone))]
    return [value for part in get_args(hint) for value in values(key, part)]


def one_of(rng: Generator, among: Sequence[T]) -> T:
    return among[int(rng.integers(len(among)))]


def files(folder: Path) -> None:
    """Write what draws read, into the folder that their runs work in."""
    rng = np.random.default_rng(0)

    def write(name: str, x: np.ndarray, y: np.ndarray, test: int, **others: np.ndarray) -> None:
        order = rng.permutation(len(y))
        x, y = x[order].astype(np.float32), y[order]
        arrays = {"x_train": x[test:], "y_train": y[test:], "x_test": x[:test], "y_test": y[:test]}
        np.savez(folder / name, **arrays, **others)  # type: ignore[arg-type]

    few = np.repeat([0, 1, 2, 3], [80, 60, 9, 26])
    pixels = rng.normal(size=(len(few), 1, 6, 6)) + few[:, None, None, None] * 0.4
    names = np.array(["a", "b", "c,d", 'e "x"'])
    write("few.npz", pixels, few, 25, classes=names)
    owners = np.array([f"c{owner}" for owner in rng.integers(0, 7, len(few))])
    write("owned.npz", pixels, few, 25, client_train=owners[25:], client_test=owners[:25])
    y = rng.integers(0, 6, 200)
    x = rng.normal(size=(6, 9))[y] + rng.normal(size=(200, 9))
    write("features.npz", x, np.array(["zebra", "ape", "cat", "dog", "emu", "fox"])[y], 40)
    write("numbers.npz", x, (x[:, :2] * 0.5).astype(np.float32), 40)
    write("labels.npz", x, (x[:, :3] > 0).astype(np.int64), 40)
    (folder / "away.csv").write_text("client,from,to\n0,2,3\n1,1,1\n1,4,\n")


def _needed(rng: Generator, method: str) -> dict[str, object]:
    """What a method cannot do without; mostly digits and an MLP otherwise."""
    if method in FOR_METHODS:
        return {"data": "digits", **FOR_METHODS[method], **({"stream.empty": "skip"} if method != "FedBN" else {})}
    data = str(one_of(rng, OWN["data"]))
    loss = {"numbers.npz": "mse", "labels.npz": "bce"}.get(data)
    needed: dict[str, object] = {"data": data, "model": one_of(rng, OWN["model"])}
    needed |= {"model.hidden": one_of(rng, OWN["model.hidden"])} if needed["model"] == "MLP" else {}
    return needed | ({"loss": loss, "partition": "IID"} if loss else {})


def _run(rng: Generator) -> list[Settings]:
    """A part of the options of a run, in any order."""
    kept: list[Settings] = [{"clients": one_of(rng, OWN["clients"])}, {"rounds": one_of(rng, OWN["rounds"])}]
    kept += [one_of(rng, TOGETHER) for _ in range(int(rng.integers(3)))]
    others: list[dict[str, object]] = []
    for name, hint in get_type_hints(Config, include_extras=True).items():
        if name not in (*registry.KINDS, "clients", "rounds", "seed", "loss") and (known := values(name, hint)):
            value = one_of(rng, known)
            if rng.random() < 0.2:
                others.append({name: value})
    return [*kept, *(others[index] for index in rng.permutation(len(others)))]


def _chosen(rng: Generator, kind: str, settings: Settings) -> list[Settings]:
    """One class of a kind, for about half of the runs that have none yet."""
    names = {"partition": PARTITIONS, "stream": STREAMS, "optimizer": tuple(registry.known("optimizer"))}[kind]
    chosen: dict[str, object] = {kind: one_of(rng, names)}
    if kind == "stream":
        chosen |= {f"stream.{key}": one_of(rng, OWN[f"stream.{key}"]) for key in ("tasks", "task_rounds", "empty")}
        chosen |= {"stream.size": 1} if chosen["stream"] == "ClassGroups" else {}
    return [chosen] if rng.random() < 0.5 and kind not in settings else []


def _of_choice(rng: Generator, kind: str, settings: Settings) -> list[Settings]:
    """A part of the options of what was chosen."""
    layer = mapping_layer(settings)
    choice: Choice = getattr(from_layers([layer]), kind)
    owner = registry.load(kind, choice.class_path)
    others = {
        key: [value for value in values(key, hint) if value != registry.options(kind, owner).by_name[name].default]
        for (key, hint) in _declared(kind, owner)
        if (name := key.partition(".")[2])
    }
    return [
        {key: one_of(rng, known)}
        for key, known in others.items()
        if known and key not in settings and rng.random() < 0.4
    ]


def _declared(kind: str, owner: Callable[..., object]) -> Iterator[tuple[str, object]]:
    options = registry.options(kind, owner)
    hints = {**declared(owner)} | {key: declared(registry.any_model)[key] for key in options.beside}
    yield from ((f"{kind}.{name}", hints[name]) for name in options.by_name)


def _with(settings: dict[str, object], addition: Settings) -> dict[str, object]:
    """With more options, if what is checked of a configuration by itself allows it."""
    try:
        from_layers([mapping_layer({**settings, **addition})])
    except ConfigError:
        return settings
    return {**settings, **addition}
