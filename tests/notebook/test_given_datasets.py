"""simulate() with torch's own data sets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from launching import SMALL, numbers, one_thread
from PIL import Image
from sklearn.datasets import load_digits
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, Subset, TensorDataset

import fl_ddp
from fl_ddp.errors import ConfigError, RunError

SHARED = {key: value for key, value in SMALL.items() if key not in ("data", "name")}


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """One thread."""
    with one_thread():
        yield


class Pictures(Dataset[tuple[object, object]]):
    """Images of Pillow's with their labels, as torchvision's data sets have them without a transform."""

    def __init__(self, images: list[Image.Image], labels: list[int]) -> None:
        self.images, self.labels = images, labels
        self.classes = ["zero", "one", "two"]

    def __len__(self) -> int:
        """Number of samples."""
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[object, object]:
        """One of them."""
        return self.images[index], self.labels[index]


class Endless(IterableDataset[Tensor]):
    """Has no length."""

    def __iter__(self) -> Iterator[Tensor]:
        """Of nothing."""
        return iter(())


class Named(Dataset[dict[str, int]]):
    """Has its samples by name."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        """Number of samples."""
        return self.size

    def __getitem__(self, index: int) -> dict[str, int]:
        """One of them."""
        return {"image": 1, "label": index}


class Flipped(TensorDataset):
    """Mirrors some of its images, as augmentation of other frameworks does each time that a sample is read."""

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        """One of them."""
        x, y = super().__getitem__(index)  # type: ignore[no-untyped-call]
        return (x.flip(0) if torch.rand(()) < 0.5 else x), y


def digits() -> tuple[Tensor, Tensor]:
    """Small images."""
    x, y = load_digits(return_X_y=True)
    return torch.from_numpy(x[:900] / 16).float(), torch.from_numpy(y[:900])


def test_they_are_their_arrays(tmp_path: Path) -> None:
    x, y = digits()
    whole = TensorDataset(x, y)
    given = (Subset(whole, range(700)), Subset(whole, range(700, 900)))
    ours = fl_ddp.simulate(SHARED, data=given, out=str(tmp_path / "a"))
    by_arrays = fl_ddp.simulate(SHARED, data=(x[:700], y[:700], x[700:], y[700:]), out=str(tmp_path / "b"))
    assert numbers(Path(ours["folder"])) == numbers(Path(by_arrays["folder"]))


def test_images_of_pillows_are_pixels_and_classes_have_their_names(tmp_path: Path) -> None:
    pixels = np.random.default_rng(3).integers(0, 256, (90, 8, 8, 3)).astype(np.uint8)
    labels = [number % 3 for number in range(90)]
    train, test = (
        Pictures([Image.fromarray(each) for each in pixels[rows]], labels[rows])
        for rows in (slice(60), slice(60, None))
    )
    run = fl_ddp.simulate(SHARED, data=(train, test), clients=4, cohort=4, partition="IID", out=str(tmp_path))
    assert list(run["class_accuracy"]) == ["zero", "one", "two"]
    x, y = run.tests[0]
    assert torch.equal((x * 255).round().byte(), torch.from_numpy(pixels[60:]).permute(0, 3, 1, 2))
    assert y.tolist() == labels[60:]


def test_names_of_classes_count_where_there_is_one_for_each(tmp_path: Path) -> None:
    images = [Image.new("L", (8, 8), 20 * number) for number in range(12)]
    two = (Pictures(images, [number % 2 for number in range(12)]),) * 2
    run = fl_ddp.simulate(SHARED, data=two, clients=2, cohort=2, partition="IID", out=str(tmp_path))
    assert list(run["class_accuracy"]) == ["0", "1"], "of three names that the data set has"


def test_narrow_floats_are_taken(tmp_path: Path) -> None:
    x, y = digits()
    held, kept = x.bfloat16().requires_grad_(), y.bfloat16()
    numbered = (TensorDataset(held[:700], kept[:700]), TensorDataset(held[700:], kept[700:]))
    told = {**SHARED, "loss": "mse", "partition": "IID", "rounds": 1, "out": str(tmp_path / "c")}
    assert fl_ddp.simulate(told, data=numbered)["mae"] > 0
    narrow = (TensorDataset(x[:700].bfloat16(), y[:700]), TensorDataset(x[700:].bfloat16(), y[700:]))
    ours = fl_ddp.simulate(SHARED, data=narrow, out=str(tmp_path / "a"))
    data = (x[:700].bfloat16(), y[:700], x[700:].bfloat16(), y[700:])
    assert numbers(Path(ours["folder"])) == numbers(
        Path(fl_ddp.simulate(SHARED, data=data, out=str(tmp_path / "b"))["folder"])
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((TensorDataset(torch.eye(4)),) * 2, "data: train: sample 0 is tuple of 1; accepted: (input, label)"),
        (
            (Endless(), Endless()),
            "data: train: Endless does not tell how many samples it has, or gives ",
        ),
        ((TensorDataset(torch.eye(4).to_sparse(), torch.arange(4)),) * 2, "data: train: sample 0 is float32 [4] that"),
        ((Pictures([[1, [2]]], [0]),) * 2, "data: train: sample 0 is no array (setting an array element"),  # type: ignore[list-item]
        (
            (Pictures([Image.new("P", (8, 8))], [0]),) * 2,
            "data: train: sample 0 is an image with a palette; .convert",
        ),
        (
            (Pictures([Image.new("L", (8, 8)), np.zeros((8, 8))], [0, 1]),) * 2,  # type: ignore[list-item]
            "data: train: its inputs are uint8 and float64; accepted: a transform to one type",
        ),
        ((TensorDataset(torch.eye(4), torch.arange(4)),) * 3, "data: 3 data sets; accepted: (train, test)"),
        (TensorDataset(torch.eye(4), torch.arange(4)), "data: TensorDataset; accepted: (x, y, x_test, y_test), "),
        (torch.eye(4), "data: Tensor; accepted: (x, y, x_test, y_test), torch's data sets (train, test), "),
        ((Pictures([], []),) * 2, "data: train: has no samples; accepted: one at least"),
        (
            (Pictures([Image.new("L", (8, 8)), Image.new("L", (8, 9))], [0, 1]),) * 2,
            "data: train: its samples are not alike (all input arrays must have the same shape); accepted: a transform",
        ),
        ((Pictures([{}], [0]),) * 2, "data: train: sample 0 is dict; accepted: numbers, arrays, tensors"),  # type: ignore[list-item]
        ((Pictures(["cat"], [0]),) * 2, "data: train: sample 0 is str; accepted: numbers, arrays, tensors"),  # type: ignore[list-item]
        ((Named(4),) * 2, "data: train: sample 0 has image, label; accepted: (input, label), two of them"),
    ],
)
def test_what_is_no_data_set_is_told(data: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as told:
        fl_ddp.simulate(SHARED, data=data, out=str(tmp_path))
    assert str(told.value).startswith(message)
    assert not list(tmp_path.iterdir())


def test_labels_may_be_words(tmp_path: Path) -> None:
    x, y = digits()
    words = [f"digit {label}" for label in y.tolist()]
    pictures = [Image.fromarray((each.reshape(8, 8) * 255).byte().numpy()) for each in x]
    ours = fl_ddp.simulate(SHARED, data=(Pictures(pictures, words),) * 2, out=str(tmp_path / "a"))  # type: ignore[arg-type]
    arrays = np.stack([np.asarray(each) for each in pictures]), np.array(words)
    assert numbers(Path(ours["folder"])) == numbers(
        Path(fl_ddp.simulate(SHARED, data=(*arrays, *arrays), out=str(tmp_path / "b"))["folder"])
    )


def test_samples_that_are_drawn_at_random_are_refused(tmp_path: Path) -> None:
    """They would be drawn once for all rounds, and otherwise in each run of the same seed."""
    x, y = digits()
    with pytest.raises(RunError) as told:
        fl_ddp.simulate(SHARED, data=(Flipped(x, y), Flipped(x, y)), out=str(tmp_path))
    assert "data: train: a sample of Flipped draws from torch's global generator (return (x.flip(0)" in str(told.value)
    assert "augment crops and flips in every step" in str(told.value) and not list(tmp_path.iterdir())


def test_a_lambda_is_no_model(tmp_path: Path) -> None:
    x, y = digits()
    with pytest.raises(ConfigError, match="model: is a lambda, which has no name to be found by; accepted: a function"):
        fl_ddp.simulate(SHARED, data=(x, y, x, y), model=lambda: torch.nn.Linear(64, 10), out=str(tmp_path))
