"""What a run is made of before its first round: data, clients, model, method."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from fl_ddp.clients.kept_momentum import first_momentum
from fl_ddp.config import registry
from fl_ddp.config.settings import Config
from fl_ddp.datasets.dataset import Arrays, Dataset
from fl_ddp.engine.compilation import require_compiler
from fl_ddp.engine.plan import Plan
from fl_ddp.engine.samples import Normaliser, Samples, channel_statistics
from fl_ddp.engine.seeds import Purpose, generator, torch_seed
from fl_ddp.errors import ConfigError
from fl_ddp.guards.global_random import refuse_global_draws
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.network.running_statistics import Statistics
from fl_ddp.network.vmap_check import try_gradient
from fl_ddp.partitions.class_reduction import ClassReduction, read_reductions
from fl_ddp.partitions.local_split import drawn_like, local_split
from fl_ddp.partitions.partition import Partition
from fl_ddp.protocol import Indices, Inputs, Origin, Tensors
from fl_ddp.ranks.cohort import auto_lanes
from fl_ddp.ranks.collectives import Ranks

Parts = list[Indices]


@dataclass(frozen=True)
class Federation:
    """Data on the device, the clients' samples, and the method with its model.

    Attributes:
        train: the training set, all clients' samples together.
        test: the test set.
        labels: [N] of the training set, on the host.
        classes: names of the labels.
        clients: training samples of each client.
        local_test: each client's own test samples; empty arrays if none were asked for.
        local_test_from: whether they are of the training or of the test set.
        proxy: the server's samples, copied from the clients', in parts that ranks can share.
        shared: [C] of each class a training sample that everyone is given; empty if the method wants none.
        partition_seed: that the partition was drawn with.
        model: the network.
        statistics: what becomes of its running statistics.
        momentum: of a client before it first takes part; empty where every round begins anew.
        method: the federated method.
        lanes: clients side by side in a group.
        reduction: of the clients' training samples during the run, if there is one.
    """

    train: Samples
    test: Samples
    labels: Indices
    classes: tuple[str, ...]
    clients: Parts
    local_test: Parts
    local_test_from: Origin
    proxy: Parts
    shared: Indices
    partition_seed: int
    model: FlatModel
    statistics: Statistics
    momentum: Tensors
    method: FedAvg
    lanes: int
    reduction: ClassReduction | None = None

    def clients_in(self, index: int) -> Parts:
        """Training samples of each client in a round, from 0."""
        return self.reduction.of_round(index) if self.reduction else self.clients

    @property
    def own_samples(self) -> Samples:
        """The set that the clients' own test samples are of."""
        return self.train if self.local_test_from == "train" else self.test

    @property
    def counts(self) -> list[dict[str, int]]:
        """Training samples of each client, before any class reduction, by the name of the class."""
        by_class = (np.unique(self.labels[part], return_counts=True) for part in self.clients)
        return [{self.classes[k]: int(n) for k, n in zip(*each, strict=True)} for each in by_class]

    def first_memory(self, of_method: Tensors) -> Tensors:
        """A client's memory before it first takes part: the method's, and what its training keeps between rounds."""
        return self.statistics.first_memory(of_method) | self.momentum


def build_federation(config: Config, ranks: Ranks) -> Federation:
    """Build all parts of a run, alike on every rank.

    Raises:
        ConfigError: the data are missing or broken, a part cannot work with another, a rank would have no
            clients, or no compiler is there.
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
    if config.compile and device.type == "cpu":
        require_compiler()
    source = registry.build(config.data)
    assert isinstance(source, Dataset)
    if source.merge and (config.local_test == 0 or config.local_test_from == "test"):
        kept = "what --local_test keeps aside of the clients' samples is then the test set"
        raise ConfigError("--data.merge", f"true, but {kept}; give --local_test 0.25, say, and --local_test_from train")
    data = source.load()
    in_shape, num_classes = data.x_train.shape[1:], len(data.classes)

    def make() -> object:
        with torch_seed(config.seed, Purpose.MODEL):
            return registry.build(config.model, in_shape=in_shape, num_classes=num_classes)

    with _keyed(config, "constructor", "from torch's generator, which the run seeds for it", make):
        module = make()
    assert isinstance(module, torch.nn.Module)
    dtype = next((p.dtype for p in module.parameters()), torch.float32)
    train, test = _on_device(data, source.normalize, device, dtype)
    example = test.inputs(test.x[:1], dtype)
    model = FlatModel(module, num_classes, example)
    try_once = partial(try_gradient, model, example, config.model.name)
    with _keyed(config, "forward", "by torch.nn.Dropout layers, whose keys are the run's", try_once):
        try_once()
    method = registry.build(config.method, model=model, num_clients=config.clients)
    assert isinstance(method, FedAvg)
    clients, local_test, partition_seed = _divide(config, data.y_train, data.y_test)
    if source.merge:
        tested = torch.from_numpy(np.unique(np.concatenate(local_test))).to(device)
        if not len(tested):
            raise ConfigError("--local_test", f"{config.local_test} leaves no client a test sample", "a larger share")
        test = Samples(train.x[tested], train.y[tested], train.normaliser)
    lanes = auto_lanes(config.cohort_size, device.type) if config.lanes == "auto" else config.lanes
    return Federation(
        train=train,
        test=test,
        labels=data.y_train,
        classes=data.classes,
        clients=clients,
        local_test=local_test,
        local_test_from=config.local_test_from,
        proxy=_proxy(method, clients, config.seed),
        shared=_shared(method, clients, data, config.seed),
        partition_seed=partition_seed,
        model=model,
        statistics=Statistics(model, config.running_statistics),
        momentum=_momentum(method, config.keep_momentum),
        method=method,
        lanes=lanes,
        reduction=_reduction(config, clients, data, partition_seed),
    )


def _keyed(config: Config, part: str, instead: str, again: Callable[[], object]) -> AbstractContextManager[None]:
    """Refuse a block in which the model draws from a global generator."""
    return refuse_global_draws(f"{part} of {config.model.name}", instead, again)


def _proxy(method: FedAvg, clients: Parts, seed: int) -> Parts:
    """Samples drawn from all clients' for the server, at least one, in parts of a batch each or in one."""
    if method.proxy == 0:
        return []
    samples = np.unique(np.concatenate(clients))
    drawn = generator(seed, Purpose.PROXY).permutation(samples)[: max(1, round(method.proxy * len(samples)))]
    return [drawn] if method.proxy_whole else np.split(drawn, range(method.proxy_batch, len(drawn), method.proxy_batch))


def _momentum(method: FedAvg, keep: bool) -> Tensors:
    """What a client keeps of its SGD's momentum, before it first takes part."""
    if keep and not method.keeps_momentum:
        what = f"true, but {type(method).__name__} needs a momentum that begins anew"
        raise ConfigError("--keep_momentum", what, "false")
    return first_momentum(method.model) if keep else {}


def _reduction(config: Config, clients: Parts, data: Arrays, seed: int) -> ClassReduction | None:
    if config.class_reduction is None:
        return None
    reductions = read_reductions(config.class_reduction, data.classes)
    return ClassReduction(reductions, clients, data.y_train, partial(generator, seed, Purpose.REDUCTION))


def _shared(method: FedAvg, clients: Parts, data: Arrays, seed: int) -> Indices:
    """One of all clients' training samples of each class, if the method has everyone be given such."""
    if not method.shares_samples:
        return np.zeros(0, np.int64)
    samples = np.unique(np.concatenate(clients))
    of_class = [samples[data.y_train[samples] == label] for label in range(len(data.classes))]
    for name, those in zip(data.classes, of_class, strict=True):
        if not len(those):
            what = f"no client has a training sample of class {name}, and {type(method).__name__} shares one of each"
            raise ConfigError("--partition", what)
    return np.array([generator(seed, Purpose.SHARED, i).choice(those) for i, those in enumerate(of_class)])


def _divide(config: Config, labels: Indices, test_labels: Indices) -> tuple[Parts, Parts, int]:
    partition = registry.build(config.partition)
    assert isinstance(partition, Partition)
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
    if num_idle(config, clients) == len(clients):
        raise ConfigError(
            "--drop_last",
            (
                f"no client has a full batch of {config.batch_size}, the largest has "
                f"{max(map(len, clients))} training samples"
            ),
            "a smaller --batch_size, or more --local_epochs",
        )
    return clients, test, seed


def num_idle(config: Config, clients: Parts) -> int:
    """Number of clients that never train, since --drop_last leaves out all they have."""
    plan = Plan(config.batch_size, config.epochs, config.local_steps, config.lr, drop_last=config.drop_last)
    return int((plan.num_steps(np.array([len(samples) for samples in clients])) == 0).sum())


def _on_device(data: Arrays, normalize: bool, device: torch.device, dtype: torch.dtype) -> tuple[Samples, Samples]:
    normaliser = Normaliser()
    if normalize:
        normaliser = Normaliser(*(t.to(device, dtype) for t in channel_statistics(data.x_train)))

    def place(x: Inputs, y: Indices) -> Samples:
        stored = torch.from_numpy(x)
        stored = stored.to(device) if x.dtype == np.uint8 else stored.to(device, dtype)
        return Samples(stored, torch.from_numpy(y).to(device), normaliser)

    return place(data.x_train, data.y_train), place(data.x_test, data.y_test)
