"""What a data source gives to a run, and the checks that every source has to pass."""

from __future__ import annotations

import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch

from fl_ddp.bounds import Finite, Positive, check_fields
from fl_ddp.datasets.kinds import channels_are_behind, inputs_of, names_of, owners_as, targets_of, whole
from fl_ddp.errors import ConfigError, place_of_code
from fl_ddp.guards.global_random import refuse_global_draws
from fl_ddp.protocol import Indices, Inputs, Numbers, Owners, Targets

UNSHOWN = ("Cc", "Cs", "Zl", "Zp")
"""Unicode's control characters, parts of undecodable file names, and ends of lines and paragraphs."""


@dataclass(frozen=True)
class Arrays:
    """A data set in memory, of numpy's arrays or of tensors, which load() gives as arrays.

    Attributes:
        x_train: [N, channels, height, width] uint8 pixels, features [N, ...], whose numbers load() gives as float32 and
            else as they are, or tokens [N, length] of a signed integer type, from 0 up.
        y_train: [N] labels from 0 up, which load() gives as int64, or any numbers [N] or [N, C], as float32 [N, C].
        x_test: [M, ...] like x_train.
        y_test: [M] or [M, C] like y_train.
        classes: names of the labels, or of the C numbers, in their order; left empty they are named by their places.
        owners: clients of the samples; None where the data name none.
        num_tokens: how many different tokens there may be; 0 where samples are none.
    """

    x_train: Inputs
    y_train: Indices | Numbers
    x_test: Inputs
    y_test: Indices | Numbers
    classes: tuple[str, ...] = ()
    owners: Owners | None = None
    num_tokens: int = 0


@dataclass(frozen=True, kw_only=True)
class Dataset(ABC):
    """A source of images and labels; its fields are its options. A new source overrides read.

    Attributes:
        normalize: subtract the training set's mean and divide by its deviation, per channel, pixels counted in [0, 1];
            with merge, those of all samples.
        mean: to subtract in place of the training set's; one number, or one for each channel.
        deviation: to divide by after it, likewise.
        merge: divide training and test set together among the clients; the test set is then the union of the clients'
            own test samples, which --local_test keeps aside.
    """

    normalize: bool = False
    mean: tuple[Finite, ...] = ()
    deviation: tuple[Positive, ...] = ()
    merge: bool = False

    def __post_init__(self) -> None:
        check_fields(self, "--data.")
        for given, other in (("mean", "deviation"), ("deviation", "mean")):
            if getattr(self, given) and not getattr(self, other):
                raise ConfigError(f"--data.{other}", f"is missing beside --data.{given}")
        if self.normalize and self.mean:
            what = "true takes the training set's mean and deviation, --data.mean and --data.deviation give others"
            raise ConfigError("--data.normalize", what, "false, or neither of them")

    def load(self, targets: Targets = "classes") -> Arrays:
        """Read the data and check it; several ranks may do so at once.

        Args:
            targets: what samples have to have; labels count as numbers, too, if those are asked for.

        Raises:
            ConfigError: it is missing, cut short or not what it should be; the message says what was looked for, where,
                and how to get it.
        """
        read = self.read if targets == "classes" else self.read_numbers
        with (
            refuse_global_draws(f"read of {type(self).__name__}", "from a generator with a seed of its own", read),
            torch.random.fork_rng(devices=[]),  # torch's loaders draw from it without anybody's asking
        ):
            torch.default_generator.manual_seed(0)
            given = read()
        if not isinstance(given, Arrays):
            where = place_of_code(type(self).read.__code__)
            raise ConfigError(f"{where}: read of {type(self).__name__}", f"gives {type(given).__name__}", "an Arrays")
        given = self._of_kinds(given)
        arrays = self._with_names(given) if targets == "classes" else _with_numbers(given)
        self._check(arrays, targets)
        return _merged(arrays) if self.merge else arrays

    @abstractmethod
    def read(self) -> Arrays:
        """Read the data, checking only what is special to this source.

        Raises:
            ConfigError: as load does.
        """

    def read_numbers(self) -> Arrays:
        """Read the data where targets are numbers; a source whose labels may be words refuses those.

        Raises:
            ConfigError: as load does.
        """
        return self.read()

    def origin(self, part: str) -> str:
        """Where x_train, y_train, x_test or y_test comes from (a file, if there is one), for messages."""
        return f"--data {type(self).__name__}: {part}"

    def _of_kinds(self, arrays: Arrays) -> Arrays:
        """With everything of the kind that Arrays says."""

        def refused(name: str, what: str, accepted: str) -> ConfigError:
            where = place_of_code(type(self).read.__code__)
            return ConfigError(f"{where}: read of {type(self).__name__}", f"gives {what} as {name}", accepted)

        def part(name: str) -> Callable[[str, str], ConfigError]:
            return partial(refused, name)

        x_train, x_test = (inputs_of(getattr(arrays, name), part(name)) for name in ("x_train", "x_test"))
        y_train, y_test = (targets_of(getattr(arrays, name), part(name)) for name in ("y_train", "y_test"))
        classes, owners = names_of(arrays.classes, part("classes")), owners_as(arrays.owners, part("owners"))
        return Arrays(x_train, y_train, x_test, y_test, classes, owners, whole(arrays.num_tokens, part("num_tokens")))

    def _with_names(self, arrays: Arrays) -> Arrays:
        """With names of the labels where a source gives none."""
        y = arrays.y_train
        if arrays.classes or y.dtype != np.int64:
            return arrays
        highest = int(np.max(y, initial=-1))
        if highest >= max(len(y), 1):
            what = f"label {highest} among {len(y)} samples; labels count from 0 up, or the key classes names them all"
            raise ConfigError(self.origin("y_train"), what)
        return replace(arrays, classes=tuple(str(label) for label in range(highest + 1)))

    def _check(self, arrays: Arrays, targets: Targets) -> None:
        """What is asked of every source: samples with targets, of one shape, finite, with distinct names."""
        if len(set(arrays.classes)) < len(arrays.classes):
            twice = next(name for name in arrays.classes if arrays.classes.count(name) > 1)
            raise ConfigError(
                f"--data {type(self).__name__}", f"two classes are named {twice!r}; names must be distinct"
            )
        for name in arrays.classes:
            if any(unicodedata.category(character) in UNSHOWN for character in name):
                raise ConfigError(
                    f"--data {type(self).__name__}",
                    (
                        f"a class is named {name!a}; names stand in tables and tags, accepted: text of one line "
                        "without control characters"
                    ),
                )
        if arrays.num_tokens and (self.normalize or self.mean):
            key, value, none = ("normalize", "true", "false") if self.normalize else ("mean", "is given", "[]")
            raise ConfigError(f"--data.{key}", f"{value}, but samples are tokens, of which no mean is taken", none)
        for split in ("train", "test"):
            x, y = getattr(arrays, f"x_{split}"), getattr(arrays, f"y_{split}")
            images, labels = self.origin(f"x_{split}"), self.origin(f"y_{split}")
            if not _is_input(x):
                wanted = "uint8 pixels [N, channels, height, width], floats [N, ...], int tokens [N, length]"
                raise ConfigError(images, f"{x.dtype} of shape {list(x.shape)} is no input", wanted)
            if x.dtype == np.uint8 and channels_are_behind(x.shape):
                raise ConfigError(
                    images,
                    f"shape {list(x.shape)} has its channels last",
                    "pixels [N, channels, height, width], or float32",
                )
            if targets == "classes" and (y.dtype != np.int64 or y.ndim != 1):
                what = f"{y.dtype} of shape {list(y.shape)} are no labels"
                wanted = "whole numbers from 0 up, [N]; --loss mse takes any numbers, --loss bce [N, C] of 0 and 1"
                raise ConfigError(labels, what, wanted)
            if len(x) != len(y):
                raise ConfigError(labels, f"{len(y)} labels do not fit the {len(x)} samples of {images}")
            if x.size == 0:
                raise ConfigError(images, f"shape {list(x.shape)} holds no data; a run needs training and test samples")
            if targets != "classes":
                self._check_numbers(y, labels, len(arrays.classes), binary=targets == "binary")
            elif y.min() < 0 or y.max() >= len(arrays.classes):
                wrong = y.min() if y.min() < 0 else y.max()
                raise ConfigError(labels, f"label {wrong} is not one of the {len(arrays.classes)} classes from 0 up")
            if x.dtype == np.float32 and not np.isfinite(x).all():
                sample = int(np.flatnonzero(~np.isfinite(x.reshape(len(x), -1)).all(axis=1))[0])
                raise ConfigError(images, f"sample {sample} is not finite (NaN or infinity)")
            if x.dtype.kind == "i" and not 0 <= x.min() <= x.max() < arrays.num_tokens:
                wrong = x.min() if x.min() < 0 else x.max()
                raise ConfigError(images, f"token {wrong} is not one of the {arrays.num_tokens} from 0 up")
        if arrays.x_train.shape[1:] != arrays.x_test.shape[1:] or arrays.x_train.dtype != arrays.x_test.dtype:
            ours = f"{arrays.x_test.dtype} of shape {list(arrays.x_test.shape[1:])}"
            theirs = f"{arrays.x_train.dtype} of shape {list(arrays.x_train.shape[1:])}"
            raise ConfigError(self.origin("x_test"), f"samples are {ours}, those of the training set {theirs}")
        for key, values in (("mean", self.mean), ("deviation", self.deviation)):
            if len(values) not in (0, 1, channels := arrays.x_train.shape[1]):
                what = f"{len(values)} numbers for samples of {channels} channel{'s' if channels > 1 else ''}"
                raise ConfigError(f"--data.{key}", what, "one number, or one for each channel")
        if arrays.owners:
            self._check_owners(arrays.owners, len(arrays.x_train), len(arrays.x_test))

    def _check_owners(self, owners: Owners, num_train: int, num_test: int) -> None:
        """What is asked of clients that the data name: one for each sample, with distinct names."""
        num_clients = len(owners.names)
        if len(set(owners.names)) < num_clients:
            raise ConfigError(f"--data {type(self).__name__}", "two clients have one name; names must be distinct")
        for split, owner, size in (("train", owners.train, num_train), ("test", owners.test, num_test)):
            if owner is None:
                continue
            where = self.origin(f"client_{split}")
            if owner.dtype != np.int64 or owner.shape != (size,):
                what = f"{owner.dtype} of shape {list(owner.shape)} does not name the clients of {size} samples"
                raise ConfigError(where, what)
            if size and not -1 <= np.min(owner) <= np.max(owner) < num_clients:
                raise ConfigError(where, f"a client is none of the {num_clients} that have names")

    def _check_numbers(self, y: Numbers, origin: str, width: int, *, binary: bool) -> None:
        """Refuse targets that are not so many finite numbers a sample, or not 0 and 1 alone."""
        if y.dtype != np.float32 or y.ndim != 2 or y.shape[1] != width or not width:
            what = f"{y.dtype} of shape {list(y.shape)} are no targets of {width} numbers"
            raise ConfigError(origin, what, "numbers [N] or [N, C], alike in both sets")
        if not np.isfinite(y).all():
            sample = int(np.flatnonzero(~np.isfinite(y).all(axis=1))[0])
            raise ConfigError(origin, f"the target of sample {sample} is not finite (NaN or infinity)")
        if binary and not np.isin(y, (0, 1)).all():
            sample = int(np.flatnonzero(~np.isin(y, (0, 1)).all(axis=1))[0])
            raise ConfigError(origin, f"sample {sample} has {y[sample].tolist()}", "0 or 1 for each label")


def _is_input(x: Inputs) -> bool:
    """Whether an array is of pixels, tokens or features."""
    axes = {"u": x.ndim == 4, "i": x.ndim == 2, "f": x.ndim >= 2}
    return (x.dtype in (np.uint8, np.float32) or x.dtype.kind == "i") and axes[x.dtype.kind]


def _with_numbers(arrays: Arrays) -> Arrays:
    """With targets [N, C] of numbers, each set's as they are; their names, if there are C, else their places."""
    with np.errstate(over="ignore"):  # what does not fit becomes infinite and is refused with its place
        y_train, y_test = (y.astype(np.float32) for y in (arrays.y_train, arrays.y_test))
    y_train, y_test = (y[:, None] if y.ndim == 1 else y for y in (y_train, y_test))
    width = y_train.shape[-1]
    names = arrays.classes if len(arrays.classes) == width else tuple(map(str, range(width)))
    return replace(arrays, y_train=y_train, y_test=y_test, classes=names)


def _merged(arrays: Arrays) -> Arrays:
    """With the test set behind the training set, in it."""
    x: Inputs = np.concatenate([arrays.x_train, arrays.x_test])
    owners = arrays.owners
    if owners:
        test = np.full(len(arrays.y_test), -1) if owners.test is None else owners.test
        owners = Owners(owners.names, np.concatenate([owners.train, test]), owners.test)
    return replace(arrays, x_train=x, y_train=np.concatenate([arrays.y_train, arrays.y_test]), owners=owners)
