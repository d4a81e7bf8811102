"""The settings of one run: what the command line, YAML files and notebooks are turned into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Literal

from fl_ddp.bounds import (
    BelowOne,
    Count,
    CountOrZero,
    NonNegative,
    Positive,
    Real,
    Seed,
    Share,
    UnitInterval,
    check_fields,
)
from fl_ddp.config.stop_at import NAMES, StopAt, read_stop_at
from fl_ddp.engine.choices import Augmentation, Convolution
from fl_ddp.errors import ConfigError
from fl_ddp.losses.choices import LossName
from fl_ddp.network.choices import RunningStatistics
from fl_ddp.optimizers.schedule import Schedule, ScheduleName, ScheduleUnit, falls_over_rounds

Device = Literal["auto", "cpu", "cuda"]
Precision = Literal["float32", "tf32", "bfloat16"]
Reduction = Literal["exact", "fast"]
Epochs = Annotated[float, Real(above=0, below=2**31)]
Seconds = Annotated[float, Real(above=0, below=2**31)]

OF_FOLDER = ("name", "out", "resume")
"""Options that say where a run lies."""


def bare_name(path: str) -> str:
    """What an import path ends in, without its module or file."""
    return path.replace(":", ".").rpartition(".")[2]


@dataclass(frozen=True)
class Choice:
    """A class picked by name, and its arguments; built only when the run starts."""

    class_path: str
    init_args: Mapping[str, object] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The class name without its module or file."""
        return bare_name(self.class_path)


@dataclass(frozen=True)
class Config:
    """All settings of a run, with the defaults of a run without options.

    Attributes:
        data: where images and labels come from.
        partition: how the training set is divided among the clients.
        stream: how data and clients change over the rounds.
        model: the network, or any torch.nn.Module by import path.
        method: the federated method.
        optimizer: of the clients' local steps, with torch's names and defaults.
        clients: number of simulated clients.
        participation: share of the reachable clients, rounded; 1.0 without cohort.
        cohort: number of clients in a round, instead of participation.
        client_sampling: how a cohort is drawn: uniform, or by the numbers of training samples (samples).
        dropout_rate: probability that a client of a round's cohort fails after it has received the model: it sends
            nothing, and the round goes on without it.
        availability: CSV file client,from,to of rounds from 1 in which clients can be drawn; others always.
        local_test: share of each client's samples kept aside as its own test split.
        local_test_from: train, or test: as many samples of the test set instead, in the client's shares of the classes.
        personalise: who trains to be tested on its own test split: the cohort, or all at each evaluation.
        class_reduction: client,class,round,count with ; between several, or a CSV file of such rows: from a round on,
            counted from 1, a client has only so many training samples of a class.
        rounds: number of communication rounds; 0 writes the initial model and the partition and stops.
        local_epochs: passes of a client over its samples in a round, fractions allowed; 1 if local_steps is not given.
        local_steps: number of local steps of every client in a round, instead of local_epochs.
        client_lr: what a client's lr is multiplied by: uniform(low,high) or loguniform(low,high), drawn once for each,
            or a CSV file client,factor, with 1 for a client without a row.
        client_work: what a client's local_epochs, or local_steps, are multiplied by, given in the same ways.
        stragglers: share of a round's cohort that does a part of its work: whole epochs, or steps, drawn evenly from 1
            to all (FedProx).
        drop_stragglers: leave stragglers out of the round, as clients that fail are, and as in FedProx's paper.
        batch_size: samples of a client in one local step.
        drop_last: leave out an epoch's last batch where it is not full.
        lr: learning rate of the clients in the first round; if not given, another --optimizer than SGD has torch's.
        lr_schedule: how it changes: constant; exponential, by lr_decay each time; step, by lr_decay every lr_step;
            cosine, from lr to lr_min; or warmup_cosine, the same after it has risen to lr lr_warmup times.
        lr_schedule_over: what these times are: rounds, or a client's local steps, in each round from the start.
        lr_decay: factor of the learning rate, of exponential and step.
        lr_step: rounds, or local steps, between two falls of step.
        lr_min: where the cosine ends, one round, or local step, after the last.
        lr_warmup: rounds, or local steps, in which warmup_cosine rises: lr / lr_warmup in the first one.
        momentum: momentum of the clients' SGD or RMSprop, which begins every round at zero without --optimizer.keep.
        weight_decay: L2 coefficient added to the clients' gradients.
        clip_norm: longest gradient of a local step, over all parameters of a model, with what the method adds to it,
            without weight_decay; a longer one is cut to it; null for any.
        augment: of images in local training, new in every step: crop shifts them by up to an eighth of their side, flip
            mirrors half of them.
        loss: of the clients, and what models are measured by: cross_entropy of classes, mse of numbers, or bce of
            labels of which a sample may have several.
        label_smoothing: share of a label's probability that is spread over all classes.
        init: weights to begin with in place of the seed's: a .safetensors file, or a finished run's folder.
        running_statistics: of BatchNorm after a round: the cohort's mean (average), that of the first round for good
            (first), or each client's own (local), so that clients' own models alone are tested.
        estimate_statistics: with local, test the global model too, on statistics of the cohort's training samples.
        lanes: clients side by side on a rank; auto is a function of cohort, model and device. Part of the numbers.
        compile: compile the local step; false is for debugging. Part of the numbers.
        precision: of the clients' forward and backward pass: float32 is IEEE everywhere; tf32, of GPUs alone,
            rounds factors of products to ten bits; bfloat16 is autocast, parameters stay float32. Part of the numbers.
        convolution: of lanes in compiled local steps: on a GPU cuDNN's (cudnn), or in float32 and tf32 matrix products
            of layers that are neither narrow nor large (auto); a CPU takes auto. Part of the numbers.
        device: auto takes CUDA where there is a GPU.
        rank_timeout: seconds that a rank waits in a sum for one that is silent, before the run ends.
        reduction: exact gives the same bits on any number of ranks, fast is a plain float32 sum.
        eval_every: rounds between tests of the global model; the last round has one.
        forgetting_every: rounds between looks at each class's accuracy before and after each client's local training; 0
            for none.
        checkpoint_every: rounds between checkpoints; the last round is always saved.
        keep_checkpoints: newest checkpoints kept, beside the best of those saved.
        figures: draw the images of a run's folder and of TensorBoard, which takes half a second.
        measures: functions of the tested model, my_file.py:drift, for columns measure/drift.
        log_clients: each client's training loss, and what the method reports of it, in cohorts.csv.
        targets: accuracies whose first round is reported.
        stop_at: end with the first evaluation that reaches it: accuracy=0.9, or loss, initial_accuracy,
            personalised_accuracy or a measure of the loss.
        patience: end after so many evaluations in a row without a better accuracy (loss of mse), or what stop_at names.
        seed: of everything random in the run.
        name: of the run's folder; default data-method-seed-time.
        out: folder of all runs.
        resume: run folder to go on with.
    """

    data: Choice = Choice("fl_ddp.datasets.digits.Digits")
    partition: Choice = Choice("fl_ddp.partitions.shards.Shards")
    stream: Choice = Choice("fl_ddp.streams.static.Static")
    model: Choice = Choice("fl_ddp.models.mlp.MLP")
    method: Choice = Choice("fl_ddp.methods.fedavg.FedAvg")
    optimizer: Choice = Choice("fl_ddp.optimizers.sgd.SGD")
    clients: Count = 20
    participation: Share | None = None
    cohort: Count | None = None
    client_sampling: Literal["uniform", "samples"] = "uniform"
    dropout_rate: BelowOne = 0.0
    availability: str | None = None
    local_test: BelowOne = 0.0
    local_test_from: Literal["train", "test"] = "train"
    personalise: Literal["cohort", "all"] = "cohort"
    class_reduction: str | None = None
    rounds: CountOrZero = 100
    local_epochs: Epochs | None = None
    local_steps: Count | None = None
    client_lr: str | None = None
    client_work: str | None = None
    stragglers: UnitInterval = 0.0
    drop_stragglers: bool = False
    batch_size: Count = 10
    drop_last: bool = False
    lr: Positive = 0.1
    lr_schedule: ScheduleName = "exponential"
    lr_schedule_over: ScheduleUnit = "rounds"
    lr_decay: Positive = 1.0
    lr_step: Count | None = None
    lr_min: NonNegative = 0.0
    lr_warmup: Count | None = None
    momentum: BelowOne = 0.0
    weight_decay: NonNegative = 0.0
    clip_norm: Positive | None = None
    augment: tuple[Augmentation, ...] = ()
    loss: LossName = "cross_entropy"
    label_smoothing: BelowOne = 0.0
    init: str | None = None
    running_statistics: RunningStatistics = "average"
    estimate_statistics: bool = False
    lanes: Count | Literal["auto"] = "auto"
    compile: bool = True
    precision: Precision = "float32"
    convolution: Convolution = "auto"
    device: Device = "auto"
    rank_timeout: Seconds = 600.0
    reduction: Reduction = "exact"
    eval_every: Count = 1
    forgetting_every: CountOrZero = 0
    checkpoint_every: Count = 10
    keep_checkpoints: Count = 2
    figures: bool = True
    measures: tuple[str, ...] = ()
    log_clients: bool = False
    targets: tuple[Share, ...] = ()
    stop_at: str | None = None
    patience: Count | None = None
    seed: Seed = 0
    name: str | None = None
    out: str = "runs"
    resume: str | None = None

    @property
    def cohort_size(self) -> int:
        """Number of clients in a round's cohort, where all are enrolled."""
        return self.cohort_of(self.clients)

    def stragglers_of(self, size: int) -> int:
        """How many of a cohort of so many do a part of their work; of a half, the even number."""
        return round(self.stragglers * size)

    def cohort_of(self, enrolled: int) -> int:
        """Number of clients in the cohort of a round in which so many may take part."""
        if self.cohort is not None:
            return min(self.cohort, enrolled)
        share = 1.0 if self.participation is None else self.participation
        return min(max(round(share * enrolled), 1), enrolled)

    @property
    def epochs(self) -> float | None:
        """Passes over a client's samples in a round; None where local_steps counts instead."""
        if self.local_steps is not None:
            return None
        return 1.0 if self.local_epochs is None else self.local_epochs

    @property
    def schedule(self) -> Schedule:
        """The clients' learning rate over the rounds, or over the local steps of each."""
        every, warmup = self.lr_step or 1, self.lr_warmup or 0
        return Schedule(self.lr_schedule, self.lr, self.lr_decay, every, self.lr_min, warmup)

    def lr_in_round(self, index: int) -> float:
        """The clients' learning rate in a round, from 0; what it begins with where it changes over local steps."""
        return self.schedule.at(index, self.rounds) if self.lr_schedule_over == "rounds" else self.lr

    @property
    def lr_over_steps(self) -> Schedule | None:
        """By how much it changes over the local steps of a round; None where it does not."""
        whole = self.schedule
        return None if self.lr_schedule_over == "rounds" else replace(whole, lr=1.0, least=whole.least / whole.lr)

    @property
    def good_enough(self) -> StopAt | None:
        """What ends the run before its last round; None where nothing does."""
        return None if self.stop_at is None else read_stop_at(self.stop_at, self.loss)

    @property
    def waited_for(self) -> str:
        """The column of metrics.csv that tells whether a run gets better."""
        return NAMES[self.loss][0] if self.good_enough is None else self.good_enough.name

    @property
    def depends_on_rounds(self) -> bool:
        """Whether a round's numbers depend on how many rounds there are."""
        return falls_over_rounds(self.lr_schedule, self.lr_schedule_over)

    def checked(self) -> Config:
        """This configuration, if it can be run.

        Raises:
            ConfigError: a value is impossible or two values contradict each other.
        """
        check_fields(self, "--")
        if self.participation is not None and self.cohort is not None:
            raise ConfigError("--participation and --cohort", "are both given; give one of them")
        if self.local_epochs is not None and self.local_steps is not None:
            raise ConfigError("--local_epochs and --local_steps", "are both given; give one of them")
        if self.cohort is not None and self.cohort > self.clients:
            raise ConfigError("--cohort", f"{self.cohort} is more than the {self.clients} clients there are")
        if self.personalise == "all" and not self.local_test:
            raise ConfigError("--personalise", "all needs test splits of the clients' own; give --local_test, too")
        if self.forgetting_every and self.running_statistics == "local":
            what = f"{self.forgetting_every}, but with --running_statistics local no received model can be tested"
            raise ConfigError("--forgetting_every", what, "0")
        if self.estimate_statistics and self.running_statistics != "local":
            raise ConfigError("--estimate_statistics", "belongs to --running_statistics local")
        if self.running_statistics == "local" and not self.local_test and not self.estimate_statistics:
            what = "local leaves the clients' models alone to be tested, and they have no samples for it"
            raise ConfigError("--running_statistics", what, "--local_test, or --estimate_statistics true, beside it")
        self._refuse_what_no_evaluation_has()
        names = [bare_name(path) for path in self.measures]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ConfigError("--measures", f"{twice[0]} is the name of two functions", "names that are not alike")
        if self.drop_stragglers and not self.stragglers:
            raise ConfigError("--drop_stragglers", "true, but there are none", "--stragglers above 0 beside it")
        if self.stragglers and not self.drop_stragglers and (self.local_steps or self.epochs or 0) < 2:
            what = f"{self.stragglers}, but there is no part of one epoch or step that they could do"
            raise ConfigError(
                "--stragglers", what, "--local_epochs or --local_steps from 2 up, or --drop_stragglers true"
            )
        self._refuse_what_no_schedule_has()
        if self.loss != "cross_entropy":
            self._refuse_what_needs_classes()
        if self.lr_min > self.lr:
            raise ConfigError("--lr_min", f"{self.lr_min} is more than --lr {self.lr}")
        return self

    def _refuse_what_no_evaluation_has(self) -> None:
        """Refuse to wait for a number that this run does not have.

        Raises:
            ConfigError: its evaluations leave the number out.
        """
        if self.good_enough is None and self.patience is None:
            return
        key = "--patience" if self.good_enough is None else "--stop_at"
        name = self.waited_for
        if name.startswith(("initial_", "personalised_")) and not self.local_test:
            raise ConfigError(key, f"{name} is of the clients' own test samples; give --local_test, too")
        of_clients = name.startswith(("initial_", "personalised_"))
        if self.running_statistics == "local" and not of_clients and not self.estimate_statistics:
            what = f"with --running_statistics local there is no {name}"
            own = next(each for each in NAMES[self.loss] if each.startswith("personalised_"))
            raise ConfigError(key, what, f"{own}, or {NAMES[self.loss][0]} with --estimate_statistics true")

    def _refuse_what_no_schedule_has(self) -> None:
        """Refuse options of other schedules than the one that is chosen, and one without its own.

        Raises:
            ConfigError: there is such an option, or it is missing.
        """
        of = {
            "lr_decay": ("exponential", "step"),
            "lr_step": ("step",),
            "lr_min": ("cosine", "warmup_cosine"),
            "lr_warmup": ("warmup_cosine",),
        }
        for key, names in of.items():
            if getattr(self, key) != getattr(Config, key) and self.lr_schedule not in names:
                what = f"belongs to --lr_schedule {' or '.join(names)}; here it is {self.lr_schedule}"
                raise ConfigError(f"--{key}", what)
        if self.lr_schedule == "step" and self.lr_decay == 1:
            raise ConfigError("--lr_decay", "1 changes nothing in the steps of --lr_schedule step", "below 1: 0.1, say")
        for key in ("lr_step", "lr_warmup"):
            if self.lr_schedule in of[key] and getattr(self, key) is None:
                raise ConfigError(f"--{key}", f"is missing; --lr_schedule {self.lr_schedule} needs it")

    def _refuse_what_needs_classes(self) -> None:
        """Refuse options that say something of classes.

        Raises:
            ConfigError: there is one.
        """
        keys = ("class_reduction", "label_smoothing", "forgetting_every")
        for key in (*keys, "targets") if self.loss == "mse" else keys:
            if (given := getattr(self, key)) != getattr(Config, key):
                shown = ",".join(map(str, given)) if isinstance(given, tuple) else given
                raise ConfigError(f"--{key}", f"{shown} is of classes, which --loss {self.loss} has not")

    def with_changes(self, **changes: object) -> Config:
        """A checked copy with other values."""
        unknown = changes.keys() - {f.name for f in fields(self)}
        assert not unknown, unknown
        return replace(self, **changes).checked()  # type: ignore[arg-type]


def by_key(config: Config) -> dict[str, object]:
    """All settings by their keys: data, the class's path, and data.root, its option."""
    found: dict[str, object] = {}
    for each in fields(config):
        value = getattr(config, each.name)
        found[each.name] = value.class_path if isinstance(value, Choice) else value
        if isinstance(value, Choice):
            found |= {f"{each.name}.{option}": given for option, given in value.init_args.items()}
    return found


def hyperparameters(config: Config) -> dict[str, object]:
    """The same for TensorBoard's table, with classes by their names; not where the run lies."""
    chosen = {each.name: getattr(config, each.name) for each in fields(config)}
    names = {key: value.name for key, value in chosen.items() if isinstance(value, Choice)}
    return {key: value for key, value in (by_key(config) | names).items() if key not in OF_FOLDER}
