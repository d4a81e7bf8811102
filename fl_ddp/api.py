"""What a user's own methods, data sets, partitions and streams import: names that stay, wherever their files move."""

from fl_ddp import load, simulate
from fl_ddp.bounds import BelowOne, Count, CountOrZero, NonNegative, Positive, Real, Seed, Share, UnitInterval, Whole
from fl_ddp.clients.noise import normal, uniform
from fl_ddp.clients.own_samples import (
    best_of_class,
    class_counts,
    inputs_at,
    is_shared,
    labels,
    of_each,
    shared_inputs,
    sum_over,
    task_classes,
)
from fl_ddp.course.measures import GlobalModel
from fl_ddp.datasets.dataset import Arrays, Dataset
from fl_ddp.datasets.owners import owners_of
from fl_ddp.engine.group import Group
from fl_ddp.engine.plan import Plan
from fl_ddp.errors import ConfigError, InterruptedRunError, RunError
from fl_ddp.importance.fisher import Reduction, fisher, importance_sum
from fl_ddp.importance.scale import Norm, by_tensor_norm, of_largest
from fl_ddp.importance.sensitivity import Label, Sensitivity
from fl_ddp.losses.criterion import mean_over
from fl_ddp.losses.cross_entropy import among, cross_entropy, one_hot
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.optimizers.rule import Optimizer, Rates
from fl_ddp.partitions.partition import Partition, parts_of
from fl_ddp.protocol import (
    Batch,
    Counts,
    Indices,
    Info,
    Leaves,
    Origin,
    Owners,
    Quadratic,
    Round,
    Tensors,
    Term,
    Total,
    Trained,
    Upload,
    alike,
)
from fl_ddp.results.metrics import Record
from fl_ddp.streams.class_groups import ClassGroups
from fl_ddp.streams.permuted import Permuted
from fl_ddp.streams.rotated import Rotated
from fl_ddp.streams.static import Static
from fl_ddp.streams.stream import Stream

__all__ = [
    "Arrays",
    "Batch",
    "BelowOne",
    "ClassGroups",
    "ConfigError",
    "Count",
    "CountOrZero",
    "Counts",
    "Dataset",
    "FedAvg",
    "FlatModel",
    "GlobalModel",
    "Group",
    "Indices",
    "Info",
    "InterruptedRunError",
    "Label",
    "Leaves",
    "NonNegative",
    "Norm",
    "Optimizer",
    "Origin",
    "Owners",
    "Partition",
    "Permuted",
    "Plan",
    "Positive",
    "Quadratic",
    "Rates",
    "Real",
    "Record",
    "Reduction",
    "Rotated",
    "Round",
    "RunError",
    "Seed",
    "Sensitivity",
    "Share",
    "Static",
    "Stream",
    "Tensors",
    "Term",
    "Total",
    "Trained",
    "UnitInterval",
    "Upload",
    "Whole",
    "alike",
    "among",
    "best_of_class",
    "by_tensor_norm",
    "class_counts",
    "cross_entropy",
    "fisher",
    "importance_sum",
    "inputs_at",
    "is_shared",
    "labels",
    "load",
    "mean_over",
    "normal",
    "of_each",
    "of_largest",
    "one_hot",
    "owners_of",
    "parts_of",
    "shared_inputs",
    "simulate",
    "sum_over",
    "task_classes",
    "uniform",
]
