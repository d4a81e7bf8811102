"""Data sets of the Hugging Face Hub, and of its library's folders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fl_ddp.bounds import Count, Seed
from fl_ddp.datasets.dataset import Arrays
from fl_ddp.datasets.held_out import TestShare, held_out
from fl_ddp.datasets.labels import from_numbers, from_words, no_number
from fl_ddp.datasets.npz import NamedArrays
from fl_ddp.datasets.pixels import pixels_of
from fl_ddp.errors import ConfigError, one_line
from fl_ddp.reading.homes import users_path

Raw = npt.NDArray[np.generic]


@dataclass(frozen=True)
class HuggingFace(NamedArrays):
    """A data set of the Hugging Face Hub, or a folder that the library datasets has written (save_to_disk).

    Needs that library: pip install 'fl_ddp[huggingface]'. Images become grey or RGB pixels, numbers float32 features.

    Attributes:
        dataset: its name on the Hub, such as ylecun/mnist.
        path: the folder, in place of a name.
        subset: one of a data set's configurations; null for its default.
        train: name of the split to train on, where there are several.
        test: name of the split to test on; null to draw it from the first.
        test_share: share of the samples that are drawn as the test set where there is no split for it, of each class
            alike.
        test_seed: of that draw, whatever the run's --seed.
        features: columns of inputs; left empty, the one of images, if there is one, else all others.
        label: column of labels: classes, whole numbers from 0 up, or words.
        client: column that names each sample's client, for --partition Natural; null for none.
        size: height and width in pixels that images are resized to; null takes them as they are.
    """

    dataset: str = ""
    path: str = ""
    subset: str | None = None
    train: str = "train"
    test: str | None = "test"
    test_share: TestShare = 0.2
    test_seed: Seed = 0
    features: tuple[str, ...] = ()
    label: str = "label"
    client: str | None = None
    size: Count | None = None

    def origin(self, part: str) -> str:
        """The data set, the split and the column of a part."""
        split = self.test if self.test and part.endswith("test") else self.train
        column = {"y": self.label, "client": str(self.client)}.get(part.partition("_")[0], "inputs")
        return f"{self.dataset or self.path}: {split}: {column}"

    def raw(self) -> Mapping[str, Raw]:
        """Load the data set, from the library's cache where it was downloaded before."""
        return self._raw(words=True)

    def read_numbers(self) -> Arrays:
        """Load the data set, whose labels have to be numbers."""
        return self.arrays_of(self._raw(words=False))

    def _raw(self, *, words: bool) -> dict[str, Raw]:
        train, test = self._splits(self._loaded())
        splits, columns = [train] if test is None else [train, test], self._features(train)
        for name in (*columns, self.label, *([self.client] if self.client else ())):
            self._require(splits[-1], name)
        x = self._together("inputs", _alike_in_colour([self._inputs_of(split, columns) for split in splits]))
        labels = [self._column(split, self.label) for split in splits]
        if not words:
            for part, column in zip(("y_train", "y_test"), labels, strict=False):
                self._refuse_words(part, column)
        y = self._together(f"column {self.label}", labels)
        # the library has NaN in numbers for what is missing
        if words and (missing := [i for i, each in enumerate(y.tolist()) if each is None or each != each]):
            part, place = ("y_train", missing[0]) if missing[0] < len(train) else ("y_test", missing[0] - len(train))
            raise ConfigError(self.origin(part), f"row {place} has no label", "a label in every row")
        classes = tuple(getattr(train.features[self.label], "names", None) or ())
        if not classes and y.ndim == 1:
            plain = y.dtype.kind in ("iuf" if words else "iufb")
            y, classes = from_numbers(y) if plain else from_words([str(label) for label in y.tolist()])
        if test is None:
            kinds = y.astype(np.int64) if classes else np.zeros(len(y), np.int64)
            aside = held_out(kinds, self.test_share, self.test_seed)
        else:
            aside = np.arange(len(y)) >= len(train)
        found = {"x_train": x[~aside], "y_train": y[~aside], "x_test": x[aside], "y_test": y[aside]}
        if self.client is not None:
            clients = np.concatenate([self._column(split, self.client) for split in splits])
            found |= {"client_train": clients[~aside], "client_test": clients[aside]}
        return found | ({"classes": np.array(classes)} if classes else {})

    def _loaded(self) -> Any:
        """What the library gives: a Dataset, or several by the names of splits."""
        if bool(self.dataset) == bool(self.path):
            what = "is given beside --data.dataset" if self.path else "is missing, and so is --data.dataset"
            raise ConfigError("--data.path", what, "a folder of save_to_disk; or a name on the Hub with --data.dataset")
        try:
            from datasets import load_dataset, load_from_disk  # an extra, which takes seconds to import
        except ImportError:
            needed = "the library datasets, which is not installed"
            raise ConfigError("--data HuggingFace", f"needs {needed}", "pip install 'fl_ddp[huggingface]'") from None
        option, given = ("--data.dataset", self.dataset) if self.dataset else ("--data.path", self.path)
        folder = users_path("--data.path", self.path)
        try:
            if self.dataset:
                return load_dataset(self.dataset, self.subset)
            return load_from_disk(str(folder))
        except Exception as error:  # of many kinds, from the network down to its file formats
            raise ConfigError(option, f"{given} cannot be loaded ({one_line(error)})") from None

    def _splits(self, loaded: Any) -> tuple[Any, Any | None]:
        """The split to train on, and that to test on, if it has one of its own."""
        if not isinstance(loaded, dict):
            return loaded, None
        for option, name in (("train", self.train), ("test", self.test)):
            if name is not None and name not in loaded:
                null = ", or null to draw it by --data.test_share" if option == "test" else ""
                raise ConfigError(f"--data.{option}", f"there is no split {name}", f"{', '.join(loaded)}{null}")
        return loaded[self.train], None if self.test is None else loaded[self.test]

    def _features(self, split: Any) -> list[str]:
        """The columns of inputs."""
        for option, names in (("label", [self.label]), ("client", [self.client]), ("features", self.features)):
            for name in names:
                if name is not None and name not in split.column_names:
                    raise ConfigError(f"--data.{option}", f"there is no column {name}", ", ".join(split.column_names))
        if self.features:
            return list(self.features)
        others = [name for name in split.column_names if name not in (self.label, self.client)]
        images = [name for name in others if _of_images(split, name)]
        if len(images) > 1 or not others:
            what = f"is needed: columns of images are {', '.join(images)}" if images else "there is no column of inputs"
            raise ConfigError("--data.features", what, f"some of {', '.join(split.column_names)}")
        return images or others

    def _inputs_of(self, split: Any, columns: list[str]) -> Raw:
        """Inputs [N, ...]: pixels of a column of images, an array of one of lists, else numbers side by side."""
        if any(_of_images(split, name) for name in columns):
            if len(columns) > 1:
                raise ConfigError(
                    "--data.features", f"{', '.join(columns)} are several, one of images", "that one alone"
                )
            return self._pixels(split[columns[0]])
        parts = [self._column(split, name) for name in columns]
        for name, part in zip(columns, parts, strict=True):
            if part.dtype.kind not in "biuf":
                what = f"column {name} holds no numbers (or lists of unlike lengths)"
                raise ConfigError("--data.features", what, "columns of numbers, or one of images")
        if len(parts) == 1 and parts[0].ndim > 1:
            return parts[0]
        return np.concatenate([part.reshape(len(part), -1).astype(np.float32) for part in parts], axis=1)

    def _refuse_words(self, part: str, labels: Raw) -> None:
        """Refuse labels that are no finite numbers, where they are to be those."""
        if labels.ndim == 1 and (place := no_number(labels.tolist())) is not None:
            what = f"row {place}: {labels.tolist()[place]!r} is no number"
            raise ConfigError(self.origin(part), what, "targets that are finite numbers")

    def _pixels(self, images: Any) -> Raw:
        """Pixels [N, H, W], or [N, H, W, 3] where one has colours."""
        found = []
        for number, image in enumerate(images):
            try:
                found.append(pixels_of(image, "L" if image.mode in ("1", "L") else "RGB", self.size))
            except (OSError, ValueError, AttributeError) as error:
                what = f"image {number} cannot be decoded ({one_line(error)})"
                raise ConfigError(self.dataset or self.path, what) from None
            ours, first = found[-1].shape[:2], found[0].shape[:2]
            if ours != first:
                what = f"image {number} is {ours[1]} x {ours[0]} pixels, the first is {first[1]} x {first[0]}"
                raise ConfigError(self.dataset or self.path, f"{what}; resize all with --data.size N")
        if any(each.ndim == 3 for each in found):
            found = [each if each.ndim == 3 else np.repeat(each[:, :, None], 3, axis=2) for each in found]
        return np.stack(found)

    def _together(self, what: str, parts: list[Raw]) -> Raw:
        """What the splits have of something, one behind the other."""
        first, last = parts[0].shape[1:], parts[-1].shape[1:]
        if first != last:
            shapes = f"{what} of split {self.test} are of shape {list(last)}, those of {self.train} of {list(first)}"
            resize = "; resize all with --data.size N" if what == "inputs" and len(first) > 1 else ""
            raise ConfigError(self.dataset or self.path, f"{shapes}{resize}")
        return np.concatenate(parts)

    def _require(self, split: Any, name: str) -> None:
        if name not in split.column_names:
            raise ConfigError(self.dataset or self.path, f"split {self.test} has no column {name}")

    def _column(self, split: Any, name: str) -> Raw:
        try:
            column: Raw = np.asarray(split.with_format("numpy")[name][:])
        except ValueError as error:
            what = f"column {name} holds lists of unlike lengths ({one_line(error)})"
            raise ConfigError(self.dataset or self.path, what) from None
        return column


def _of_images(split: Any, name: str) -> bool:
    return type(split.features[name]).__name__ == "Image"


def _alike_in_colour(parts: list[Raw]) -> list[Raw]:
    """Pixels of splits of which one has colours, and so the other, too."""
    coloured = any(part.ndim == 4 for part in parts)
    return [np.repeat(part[..., None], 3, axis=3) if coloured and part.ndim == 3 else part for part in parts]
