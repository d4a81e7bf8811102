"""What a run is made of before its first round: data, clients, model, method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from fl_ddp.arithmetic.repeatable import require_precision
from fl_ddp.building.data import dataset_of, labels_of, names_of_clients, own_tests_together, renumbered
from fl_ddp.building.division import Division, divide
from fl_ddp.building.idle_clients import refuse_idle
from fl_ddp.building.lanes import lanes_of
from fl_ddp.building.method import build_method
from fl_ddp.building.model import build_model
from fl_ddp.building.optimizer import build_optimizer
from fl_ddp.building.remarks import remarks_on
from fl_ddp.building.stream import build_stream
from fl_ddp.clients.kept_optimizer import first_state
from fl_ddp.compiler.compilation import require_compiler
from fl_ddp.config.settings import Config
from fl_ddp.engine.plan import Plan
from fl_ddp.engine.seeds import Purpose, generator
from fl_ddp.errors import ConfigError
from fl_ddp.host.stopwatch import PHASES
from fl_ddp.losses.criterion import ByOutput
from fl_ddp.losses.named import loss_named
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.network.running_statistics import Statistics
from fl_ddp.optimizers.rule import Optimizer
from fl_ddp.partitions.class_reduction import ClassReduction, read_reductions
from fl_ddp.partitions.saved import SavedPartition
from fl_ddp.protocol import Indices, Origin, Tensors
from fl_ddp.ranks.collectives import Ranks
from fl_ddp.results.metrics import Columns, of_function
from fl_ddp.streams.stream import Stream
from fl_ddp.tasks.data import Data, Parts
from fl_ddp.tasks.of_stream import classes_in, tells_task, told_owners
from fl_ddp.tasks.pace import Pace
from fl_ddp.tasks.turnout import Turnout
from fl_ddp.tasks.world import Worlds


@dataclass(frozen=True)
class Federation:
    """The clients' samples, and the method with its model.

    Attributes:
        stream: tasks of the run.
        worlds: samples, clients and test sets of its tasks.
        turnout: who takes part in its rounds.
        pace: what each client does in them.
        labels: [N] of the training set, on the host, as the run numbers them; all 0 where samples have other targets.
        names: of these labels.
        class_order: these names, where the data number the labels otherwise; else empty.
        task_names: of the tasks in their order, if they have names.
        classes: names of the labels that tasks have, which the model knows; or of the numbers that it gives.
        clients: training samples of each client, all tasks' together.
        client_names: as the data have them; empty where another division than theirs made the clients.
        local_test: each client's own test samples; empty arrays if none were asked for.
        local_test_from: whether they are of the training or of the test set.
        partition_seed: that the partition was drawn with.
        model: the network.
        fresh: makes its module anew, as the user wrote it.
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
    class_order: tuple[str, ...]
    task_names: tuple[str, ...]
    classes: tuple[str, ...]
    clients: Parts
    client_names: tuple[str, ...]
    local_test: Parts
    local_test_from: Origin
    partition_seed: int
    model: FlatModel
    fresh: Callable[[], torch.nn.Module]
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

    def division(self, config: Config) -> SavedPartition:
        """What partition.json holds."""
        return SavedPartition(
            self.clients,
            self.local_test if config.local_test else None,
            config.partition.name,
            self.partition_seed,
            len(self.labels),
            self.local_test_from,
            self.counts,
            self.client_names,
        )

    @property
    def told_apart(self) -> tuple[str, ...]:
        """Names of the classes whose accuracies are told one by one; none where there are no accuracies."""
        return self.classes if self.model.criterion.score == "accuracy" else ()

    def columns(self, config: Config) -> Columns:
        """Of a run's metrics.csv."""
        told, loss, tests = self.told_apart, self.model.criterion, self.worlds.num_tests
        renewed = self.worlds.renewed(config.rounds, len(told) if told != self.classes else None)
        return Columns(
            told,
            PHASES,
            everybody=config.personalise == "all",
            degree=config.forgetting_every > 0,
            tasks=tests,
            score=loss.score,
            measures=(*loss.measures, *map(of_function, config.measures)),
            entropy=not isinstance(loss, ByOutput),
            reported=self.method.reports,
            renewed=renewed,
            knows=bool(config.init),
        )

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
        return _first_memory(self.statistics, self.remembered, of_method)


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
    _refuse_impossible(config, ranks)
    loss = loss_named(config.loss, config.label_smoothing)
    source, stream = dataset_of(config), build_stream(config, loss)
    if source.merge and type(stream).of_owners is not Stream.of_owners:
        what = f"true, but tasks of {config.stream.name} are tested on what the data have for it"
        raise ConfigError("--data.merge", what, "false")
    loaded = source.load(loss.targets)
    stream = told_owners(stream, loaded.owners, config.rounds)
    data = renumbered(loaded, stream, loss, config.seed)
    labels, test_labels, names = labels_of(data, loss)
    classes = classes_in(stream, data.classes)
    model, train, test, activations, fresh = build_model(config, source, data, len(classes), loss, ranks.device, module)
    method = build_method(config, model)
    optimizer = build_optimizer(config, method)
    own_labels, own_test_labels, _ = labels_of(loaded, loss)
    division = divide(config, loss, own_labels, own_test_labels, data.owners)
    if source.merge:
        test, test_labels = own_tests_together(division, train, labels)
    clients, local_test = division.clients, division.local_test
    whole = Data(train, test, labels, test_labels, classes, clients, local_test, config.local_test_from)
    reduction = _reduction(config, stream, division, loaded.classes, own_labels)
    worlds = Worlds(whole, stream, method, config.seed, reduction)
    turnout = Turnout(config, worlds, stream)
    pace = Pace(config, turnout)
    refuse_idle(config, stream, worlds, pace.work, method.share_held_out)
    statistics = Statistics(model, config.running_statistics)
    remembered = first_state(model, optimizer, momentum=config.momentum > 0) if optimizer.keep else {}
    lanes = lanes_of(
        config=config,
        whole=whole,
        optimizer=optimizer,
        method=method,
        first_memory=partial(_first_memory, statistics, remembered),
        activations=activations,
        largest_client=worlds.largest_client,
        device=ranks.device,
    )
    natural = config.partition.name == "Natural"
    federation = Federation(
        stream=stream,
        worlds=worlds,
        turnout=turnout,
        pace=pace,
        labels=labels,
        names=names,
        class_order=names if data is not loaded else (),
        task_names=stream.task_names,
        classes=classes,
        clients=clients,
        client_names=names_of_clients(data.owners, clients) if data.owners and natural else (),
        local_test=local_test,
        local_test_from=config.local_test_from,
        partition_seed=division.seed,
        model=model,
        fresh=fresh,
        statistics=statistics,
        optimizer=optimizer,
        remembered=remembered,
        method=method,
        lanes=lanes,
        remarks=remarks_on(config, loaded, division, stream, turnout, method, renumbered=data is not loaded),
    )
    method.refuse(federation.plan(config, 0), tells_task(stream))
    return federation


def _first_memory(statistics: Statistics, remembered: Tensors, of_method: Tensors) -> Tensors:
    return statistics.first_memory(of_method) | remembered


def _refuse_impossible(config: Config, ranks: Ranks) -> None:
    """Refuse what these ranks cannot run, whatever the data."""
    if ranks.size > config.cohort_size:
        raise ConfigError(
            "--nproc_per_node",
            (
                f"{ranks.size} ranks, but a cohort of {config.cohort_size} clients leaves ranks without "
                f"clients; give at most {config.cohort_size} ranks, or a larger --participation or "
                "--cohort"
            ),
        )
    require_precision(config.precision, ranks.device)
    if config.compile:
        require_compiler(ranks.device.type)
    if config.convolution != "auto" and ranks.device.type == "cpu":
        raise ConfigError("--convolution", f"{config.convolution} is of GPUs, and this run is on a CPU", "auto")


def _reduction(
    config: Config, stream: Stream, division: Division, names: tuple[str, ...], labels: Indices
) -> ClassReduction | None:
    """Which classes clients lose, and when; None where none do."""
    if config.class_reduction is None:
        return None
    if stream.num_tasks > 1:
        raise ConfigError(
            "--class_reduction", f"belongs to data that stay as they are, not to {stream.num_tasks} tasks"
        )
    reductions = read_reductions(config.class_reduction, names)
    return ClassReduction(reductions, division.clients, labels, partial(generator, division.seed, Purpose.REDUCTION))
