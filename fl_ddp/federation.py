"""What a run is made of before its first round: data, clients, model, method."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from functools import partial

import numpy as np
import torch

from fl_ddp.clients.kept_optimizer import first_state
from fl_ddp.compiler.compilation import require_compiler
from fl_ddp.config import registry
from fl_ddp.config.settings import Config
from fl_ddp.datasets.dataset import Arrays, Dataset
from fl_ddp.engine.plan import Plan
from fl_ddp.engine.samples import Normaliser, Samples, channel_statistics, of_channels
from fl_ddp.engine.seeds import Purpose, generator, torch_seed
from fl_ddp.errors import ConfigError
from fl_ddp.guards.global_random import refuse_global_draws
from fl_ddp.guards.hooks import misspelt, refuse_unusable, uncalled
from fl_ddp.guards.room import activation_bytes, lanes_with_room, memory_of, need, with_room
from fl_ddp.host.arithmetic import require_precision
from fl_ddp.losses.criterion import ByOutput, Criterion
from fl_ddp.losses.named import loss_named
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.network.row_check import looks, refuse_other_rows
from fl_ddp.network.running_statistics import Statistics
from fl_ddp.network.vmap_check import try_gradient
from fl_ddp.optimizers.rule import Optimizer
from fl_ddp.optimizers.sgd import SGD
from fl_ddp.partitions.class_reduction import ClassReduction, read_reductions
from fl_ddp.partitions.local_split import drawn_like, local_split
from fl_ddp.partitions.partition import Partition
from fl_ddp.protocol import Factors, Indices, Inputs, Numbers, Origin, Owners, Tensors
from fl_ddp.ranks.cohort import auto_lanes
from fl_ddp.ranks.collectives import Ranks
from fl_ddp.ranks.memory import room_on
from fl_ddp.streams.static import Static
from fl_ddp.streams.stream import Stream
from fl_ddp.tasks.of_stream import classes_in, refuse_other_tasks
from fl_ddp.tasks.pace import Pace
from fl_ddp.tasks.turnout import Turnout
from fl_ddp.tasks.world import Data, Parts, Worlds


@dataclass(frozen=True)
class Federation:
    """The clients' samples, and the method with its model.

    Attributes:
        stream: tasks of the run.
        worlds: samples, clients and test sets of its tasks.
        turnout: who takes part in its rounds.
        pace: what each client does in them.
        labels: [N] of the training set, on the host, as the data have them; all 0 where samples have other targets.
        names: of these labels.
        classes: names of the labels that tasks have, which the model knows; or of the numbers that it gives.
        clients: training samples of each client, all tasks' together.
        client_names: as the data have them; empty where another division than theirs made the clients.
        local_test: each client's own test samples; empty arrays if none were asked for.
        local_test_from: whether they are of the training or of the test set.
        partition_seed: that the partition was drawn with.
        model: the network.
        statistics: what becomes of its running statistics.
        optimizer: of the clients.
        remembered: by a client's optimizer before it first takes part; empty where every round begins anew.
        method: the federated method.
        lanes: clients side by side in a group.
        remarks: on the data, for who started the run.
    """

    stream: Stream
    worlds: Worlds
    turnout: Turnout
    pace: Pace
    labels: Indices
    names: tuple[str, ...]
    classes: tuple[str, ...]
    clients: Parts
    client_names: tuple[str, ...]
    local_test: Parts
    local_test_from: Origin
    partition_seed: int
    model: FlatModel
    statistics: Statistics
    optimizer: Optimizer
    remembered: Tensors
    method: FedAvg
    lanes: int
    remarks: tuple[str, ...]

    @property
    def counts(self) -> list[dict[str, int]]:
        """Training samples of each client, before any class reduction, by the name of the class."""
        by_class = (np.unique(self.labels[part], return_counts=True) for part in self.clients)
        return [{self.names[k]: int(n) for k, n in zip(*each, strict=True)} for each in by_class]

    @property
    def told_apart(self) -> tuple[str, ...]:
        """Names of the classes whose accuracies are told one by one; none where there are no accuracies."""
        return self.classes if self.model.criterion.score == "accuracy" else ()

    def plan(self, config: Config, index: int) -> Plan:
        """The clients' local training in a round, from 0."""
        return Plan(
            # a batch that is wider than any client would only be padded
            batch_size=min(config.batch_size, self.worlds.largest_client),
            epochs=config.epochs,
            steps=config.local_steps,
            lr=config.lr_in_round(index),
            momentum=config.momentum,
            weight_decay=config.weight_decay,
            drop_last=config.drop_last,
            optimizer=self.optimizer,
            clip_norm=config.clip_norm,
            over_steps=config.lr_over_steps,
            augment=config.augment,
        )

    def first_memory(self, of_method: Tensors) -> Tensors:
        """A client's memory before it first takes part: the method's, and what its training keeps between rounds."""
        return self.statistics.first_memory(of_method) | self.remembered


def build_federation(config: Config, ranks: Ranks, module: torch.nn.Module | None = None) -> Federation:
    """Build all parts of a run, alike on every rank.

    Args:
        config: all settings.
        ranks: of the run.
        module: the model, where a notebook has given it as an object.

    Raises:
        ConfigError: the data are missing or broken, a part cannot work with another, a rank would have no
            clients, no compiler is there, or the device has not this precision.
    """
    if ranks.size > config.cohort_size:
        raise ConfigError(
            "--nproc_per_node",
            (
                f"{ranks.size} ranks, but a cohort of {config.cohort_size} clients leaves ranks without "
                f"clients; give at most {config.cohort_size} ranks, or a larger --participation or "
                "--cohort"
            ),
        )
    device = ranks.device
    require_precision(config.precision, device)
    if config.compile:
        require_compiler(device.type)
    if config.convolution != "auto" and ranks.device.type == "cpu":
        raise ConfigError("--convolution", f"{config.convolution} is of GPUs, and this run is on a CPU", "auto")
    source = registry.build(config.data)
    assert isinstance(source, Dataset)
    if source.merge and (config.local_test == 0 or config.local_test_from == "test"):
        kept = "what --local_test keeps aside of the clients' samples is then the test set"
        raise ConfigError("--data.merge", f"true, but {kept}; give --local_test 0.25, say, and --local_test_from train")
    stream = registry.build(config.stream)
    assert isinstance(stream, Stream)
    refuse_other_tasks(stream, config.rounds)
    loss = loss_named(config.loss, config.label_smoothing)
    if isinstance(loss, ByOutput) and not isinstance(stream, Static):
        what = f"{config.stream.name} is of classes, and --loss {loss.name} has none"
        raise ConfigError("--stream", what, "Static")
    if stream.num_tasks > 1 and (config.stop_at or config.patience):
        what = f"of {stream.num_tasks} tasks each makes the numbers fall anew, so that none of them tells when to end"
        raise ConfigError("--stop_at" if config.stop_at else "--patience", what, "one task, or --rounds")
    data = source.load(loss.targets)
    labels, test_labels, names = _labels(data, loss)
    classes = classes_in(stream, data.classes)
    in_shape, num_classes = data.x_train.shape[1:], len(classes)

    if config.augment and len(in_shape) != 3:
        given = ",".join(config.augment)
        raise ConfigError("--augment", f"{given}, but samples are {list(in_shape)}", "images [channels, height, width]")

    def make() -> object:
        with torch_seed(config.seed, Purpose.MODEL):
            known = {"in_shape": in_shape, "num_classes": num_classes, "num_tokens": data.num_tokens, "given": module}
            return registry.build(config.model, **known)

    with _keyed(config, "constructor", "from torch's generator, which the run seeds for it", make):
        network = with_room(make, config.model.name, config.model.init_args, device)
    assert isinstance(network, torch.nn.Module)
    dtype = next((p.dtype for p in network.parameters()), torch.float32)
    train, test = _on_device(data, source, device, dtype)
    example = test.inputs(test.x[:1], dtype)
    if data.num_tokens:
        example = torch.full_like(example, data.num_tokens - 1)  # that a table too short for it be told now
    products = config.convolution == "auto" and config.compile and config.precision != "bfloat16"
    activations = activation_bytes(network, example, products) if device.type == "cuda" else 0
    model = FlatModel(network, num_classes, example, loss)
    autocast = config.precision == "bfloat16" and not config.compile
    try_once = partial(try_gradient, model, example, test.y[:1], config.model.name, autocast=autocast)
    with _keyed(config, "forward", "by torch.nn.Dropout layers, whose keys are the run's", try_once):
        try_once()
    look = partial(looks, model, test.inputs(test.x[:2].expand(2, *in_shape), dtype), config.model.name)
    with _keyed(config, "forward", "nothing in evaluation mode", look):
        found = look()
    refuse_other_rows(found, num_classes, config.model.name)
    method = registry.build(config.method, model=model, num_clients=config.clients)
    assert isinstance(method, FedAvg)
    refuse_unusable(method, FedAvg)
    if isinstance(loss, ByOutput) and method.needs_classes:
        raise _reckons_with_classes(method, loss)
    optimizer = _optimizer(config, method)
    clients, local_test, partition_seed = _divide(config, loss, labels, test_labels, data.owners)
    if source.merge:
        tested = np.unique(np.concatenate(local_test))
        if not len(tested):
            raise ConfigError("--local_test", f"{config.local_test} leaves no client a test sample", "a larger share")
        rows = torch.from_numpy(tested).to(device)
        test, test_labels = Samples(train.x[rows], train.y[rows], train.normaliser), labels[tested]
    whole = Data(train, test, labels, test_labels, classes, clients, local_test, config.local_test_from)
    worlds = Worlds(
        whole, stream, method, config.seed, _reduction(config, stream, clients, data.classes, labels, partition_seed)
    )
    turnout = Turnout(config, worlds, stream)
    pace = Pace(config, turnout)
    _refuse_idle(config, stream, worlds, pace.work)
    statistics = Statistics(model, config.running_statistics)
    momentum = config.momentum > 0
    lanes = auto_lanes(config.cohort_size, device.type, model.num_params) if config.lanes == "auto" else config.lanes
    if config.lanes == "auto" and device.type == "cuda":
        slots, samples = len(optimizer.remembers(momentum=momentum)), min(config.batch_size, worlds.largest_client)
        remembered = statistics.first_memory(method.init_client())
        data_bytes = sum(each.x.nbytes + each.y.nbytes for each in (train, test))
        needed = need(model.init(), slots, activations * samples, remembered, data_bytes)
        lanes = lanes_with_room(lanes, needed, memory_of(device) - (room_on(device) if remembered else 0))
    return Federation(
        stream=stream,
        worlds=worlds,
        turnout=turnout,
        pace=pace,
        labels=labels,
        names=names,
        classes=classes,
        clients=clients,
        client_names=_names(data.owners, clients) if data.owners and config.partition.name == "Natural" else (),
        local_test=local_test,
        local_test_from=config.local_test_from,
        partition_seed=partition_seed,
        model=model,
        statistics=statistics,
        optimizer=optimizer,
        remembered=first_state(model, optimizer, momentum=momentum) if optimizer.keep else {},
        method=method,
        lanes=lanes,
        remarks=(*_remarks(config, data), *misspelt(type(stream), Stream), *uncalled(method, FedAvg)),
    )


def _names(owners: Owners, clients: Parts) -> tuple[str, ...]:
    """Names of clients each of which has all its training samples, at least one, from one owner."""
    return tuple(owners.names[owners.train[part[0]]] for part in clients)


def _remarks(config: Config, data: Arrays) -> Iterator[str]:
    """What may surprise in data that are none the less run on."""
    if data.y_train.dtype == np.int64 and min(int(np.min(data.y_train)), int(np.min(data.y_test))) == 1:
        yield (
            f"warning: class {data.classes[0]} has no samples: labels seem to count from 1; the model has one output "
            "too many"
        )
    if config.partition.name == "Natural" and data.owners and config.clients < len(data.owners.names):
        yield f"{config.clients} of the {len(data.owners.names)} clients that the data name take part (--clients)"


def _keyed(config: Config, part: str, instead: str, again: Callable[[], object]) -> AbstractContextManager[None]:
    """Refuse a block in which the model draws from a global generator."""
    return refuse_global_draws(f"{part} of {config.model.name}", instead, again)


def _optimizer(config: Config, method: FedAvg) -> Optimizer:
    """The clients' optimizer, if it fits the options and the method."""
    optimizer = registry.build(config.optimizer)
    assert isinstance(optimizer, Optimizer)
    name, of_method = config.optimizer.name, type(method).__name__
    if config.momentum and not optimizer.takes_momentum:
        raise ConfigError("--momentum", f"{config.momentum}, but {name} has none", "0")
    if config.weight_decay and not optimizer.takes_weight_decay:
        what = f"{config.weight_decay}, but {name} has one of its own"
        raise ConfigError("--weight_decay", what, "--optimizer.weight_decay")
    if isinstance(optimizer, SGD) and optimizer.nesterov and not config.momentum:
        raise ConfigError("--optimizer.nesterov", "true, but there is no momentum", "--momentum above 0 beside it")
    if method.counts_sgd_steps and replace(optimizer, keep=False) != SGD():
        what = f"{of_method} reckons with steps of plain SGD or SGD with momentum"
        raise ConfigError("--optimizer", f"{name}, but {what}", "SGD without nesterov and dampening")
    if method.counts_sgd_steps and config.lr_schedule_over == "steps":
        raise ConfigError(
            "--lr_schedule_over", f"steps, but {of_method} reckons with steps of the same length", "rounds"
        )
    if optimizer.keep and not optimizer.remembers(momentum=config.momentum > 0):
        raise ConfigError("--optimizer.keep", "true, but there is nothing to keep", "--momentum above 0 beside it")
    if optimizer.keep and not method.keeps_optimizer:
        raise ConfigError("--optimizer.keep", f"true, but {of_method} needs an optimizer that begins anew", "false")
    return optimizer


def _labels(data: Arrays, loss: Criterion) -> tuple[Indices, Indices, tuple[str, ...]]:
    """Labels of the training and of the test set, and their names; one for all where samples have other targets."""
    if isinstance(loss, ByOutput):
        return np.zeros(len(data.y_train), np.int64), np.zeros(len(data.y_test), np.int64), ("samples",)
    return data.y_train.astype(np.int64, copy=False), data.y_test.astype(np.int64, copy=False), data.classes


def _reckons_with_classes(method: FedAvg, loss: Criterion) -> ConfigError:
    """What to say of a method that needs the classes which a loss has not."""
    what = f"{type(method).__name__} reckons with classes or their probabilities, and --loss {loss.name} has none"
    by_kind = any(field.name == "kind" for field in fields(method))
    return ConfigError("--method", what, "--method.kind empirical" if by_kind else "another method")


def _reduction(
    config: Config, stream: Stream, clients: Parts, names: tuple[str, ...], labels: Indices, seed: int
) -> ClassReduction | None:
    if config.class_reduction is None:
        return None
    if stream.num_tasks > 1:
        raise ConfigError(
            "--class_reduction", f"belongs to data that stay as they are, not to {stream.num_tasks} tasks"
        )
    reductions = read_reductions(config.class_reduction, names)
    return ClassReduction(reductions, clients, labels, partial(generator, seed, Purpose.REDUCTION))


def _refuse_idle(config: Config, stream: Stream, worlds: Worlds, work: Factors | None) -> None:
    """Refuse a task in which nobody has a full batch, and --drop_last leaves out all else."""
    for task in range(stream.num_tasks):
        clients = worlds.clients_in(task)
        largest = max(map(len, clients))
        if largest and num_idle(config, clients, work) == sum(1 for part in clients if len(part)):
            in_task = f" in task {task + 1}" if stream.num_tasks > 1 else ""
            what = f"no client has a full batch of {config.batch_size}{in_task}, the largest has {largest}"
            instead = "a smaller --batch_size, or more --local_epochs"
            if config.client_work is not None:
                instead += f", of which clients do the parts --client_work {config.client_work}"
            raise ConfigError("--drop_last", f"{what} training samples", instead)


def _divide(
    config: Config, loss: Criterion, labels: Indices, test_labels: Indices, owners: Owners | None
) -> tuple[Parts, Parts, int]:
    partition = registry.build(config.partition, owners=owners, num_clients=config.clients)
    assert isinstance(partition, Partition)
    if isinstance(loss, ByOutput) and partition.by_label:
        what = f"{config.partition.name} divides by class, and --loss {loss.name} has none"
        raise ConfigError("--partition", what, "IID, Quantity, Natural or FromFile")
    seed = config.seed if partition.seed is None else partition.seed
    clients = partition.split(labels, config.clients, generator(seed, Purpose.PARTITION))
    empty = [i for i, samples in enumerate(clients) if not len(samples)]
    if empty:
        raise ConfigError("--partition", f"client {empty[0]} has no samples", "at least one for every client")
    test = [np.zeros(0, np.int64)] * len(clients)
    rng = generator(seed, Purpose.LOCAL_TEST)
    if config.local_test > 0 and (known := partition.local_test(config.local_test_from, len(test_labels))):
        test = known
    elif config.local_test > 0 and config.local_test_from == "test":
        test = drawn_like(clients, labels, test_labels, config.local_test, rng)
    elif config.local_test > 0:
        clients, test = local_split(clients, config.local_test, rng)
    return clients, test, seed


def num_idle(config: Config, clients: Parts, work: Factors | None = None) -> int:
    """Number of all clients that never train though they have samples, since --drop_last leaves out all they have.

    Args:
        config: the plan of a round.
        clients: samples of each client [K].
        work: what part of the plan each does [K]; all of it if None.
    """
    plan = Plan(config.batch_size, config.epochs, config.local_steps, config.lr, drop_last=config.drop_last)
    if work is not None:
        plan = plan.of_parts(work)
    n = np.array([len(samples) for samples in clients])
    return int(((plan.num_steps(n) == 0) & (n > 0)).sum())


def _on_device(data: Arrays, source: Dataset, device: torch.device, dtype: torch.dtype) -> tuple[Samples, Samples]:
    normaliser = Normaliser()
    if source.mean:
        given = (of_channels(values, data.x_train.ndim) for values in (source.mean, source.deviation))
        normaliser = Normaliser(*(t.to(device, dtype) for t in given))
    if source.normalize:
        normaliser = Normaliser(*(t.to(device, dtype) for t in channel_statistics(data.x_train)))

    def place(x: Inputs, y: Indices | Numbers) -> Samples:
        stored, targets = torch.from_numpy(x), torch.from_numpy(y)
        stored, targets = (
            each.to(device, dtype) if each.is_floating_point() else each.to(device) for each in (stored, targets)
        )
        return Samples(stored, targets, normaliser)

    return place(data.x_train, data.y_train), place(data.x_test, data.y_test)
