"""What a user's own source gives of another kind than Arrays says, or of one that has to be made fit."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

from fl_ddp.datasets.dataset import Arrays, Dataset
from fl_ddp.datasets.labels import from_numbers
from fl_ddp.errors import ConfigError
from fl_ddp.protocol import Owners

X = np.arange(24.0, dtype=np.float32).reshape(6, 4)
Y = np.arange(6) % 3
PARTS: dict[str, Any] = {"x_train": X, "y_train": Y, "x_test": X, "y_test": Y, "classes": ()}


def own(changed: dict[str, Any]) -> Dataset:
    """Arrays with some parts changed."""

    class Own(Dataset):
        def read(self) -> Arrays:
            return Arrays(**(PARTS | changed))

    return Own()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"y_test": Y.tolist()}, "list as y_test; accepted: a numpy array or a dense tensor"),
        ({"y_train": torch.tensor(3)}, "a number alone as y_train; accepted: a numpy array or a dense tensor"),
        (
            {"x_train": torch.from_numpy(X).to_sparse()},
            "float32 [6, 4] that numpy cannot take as x_train; accepted: a numpy array or a dense tensor",
        ),
        ({"x_test": None}, "NoneType as x_test; accepted: a numpy array or a dense tensor"),
        ({"classes": range(3)}, "range as classes; accepted: a tuple of texts"),
        ({"classes": "abc"}, "str as classes; accepted: a tuple of texts"),
        ({"classes": np.array(["a", "b", "c"])}, "ndarray as classes; accepted: a tuple of texts"),
        ({"classes": ("a", "b", 3)}, "int among its names as classes; accepted: a tuple of texts"),
        ({"owners": {"a": [0, 1]}}, "dict as owners; accepted: what owners_of(train_names, test_names) gives, or None"),
        ({"owners": Owners(("a",), [0] * 6)}, "list as owners; accepted: a numpy array or a dense tensor"),  # type: ignore[arg-type]
        ({"owners": Owners(("a",), Y, [0] * 6)}, "list as owners; accepted: a numpy array or a dense tensor"),  # type: ignore[arg-type]
        ({"owners": Owners((1, 2, 3), Y)}, "int among its names as owners; accepted: a tuple of texts"),  # type: ignore[arg-type]
        ({"num_tokens": 1.5}, "1.5 as num_tokens; accepted: a whole number"),
    ],
)
@pytest.mark.parametrize("targets", ["classes", "numbers"])
def test_another_kind_is_refused_in_a_line(changed: dict[str, Any], words: str, targets: Any) -> None:
    with pytest.raises(ConfigError, match=r"^\S*test_kinds\.py:\d+: read of Own: gives " + re.escape(words) + "$"):
        own(changed).load(targets)


@pytest.mark.parametrize("form", [np.float64, np.float16, torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("label", [np.uint8, np.int32, torch.int64, torch.uint8])
def test_numbers_of_any_width_and_tensors_are_those_numbers(form: Any, label: Any) -> None:
    def as_given(values: np.ndarray, kind: Any) -> Any:
        if not isinstance(kind, torch.dtype):
            return values.astype(kind)
        return torch.from_numpy(values).to(kind).requires_grad_(kind.is_floating_point)

    changed = {"x_train": as_given(X, form), "y_train": as_given(Y, label), "x_test": as_given(X, form)}
    arrays = own(changed).load()
    assert arrays.x_train.dtype == arrays.x_test.dtype == np.float32 and np.array_equal(arrays.x_train, X)
    assert arrays.y_train.dtype == np.int64 and np.array_equal(arrays.y_train, Y)


def test_conjugate_views_are_the_numbers_that_they_show() -> None:
    turned = torch.from_numpy(X - 1j * X).conj().imag
    assert turned.is_neg() and np.array_equal(own({"x_train": turned}).load().x_train, X)


def test_owners_may_be_of_any_width() -> None:
    arrays = own({"owners": Owners(("a", "b", "c"), torch.from_numpy(Y).int(), Y.astype(np.uint8))}).load()  # type: ignore[arg-type]
    assert arrays.owners and np.array_equal(arrays.owners.train, Y) and arrays.owners.train.dtype == np.int64


def test_labels_beyond_int64_are_refused_or_numbers() -> None:
    large = {"y_train": np.array([2**63] * 6, np.uint64)}
    with pytest.raises(ConfigError, match=r"y_train: uint64 of shape \[6\] are no labels"):
        own(large).load()
    assert own(large).load("numbers").y_train.tolist() == [[2.0**63]] * 6


def test_numbers_beyond_float32_are_refused_with_their_place() -> None:
    with pytest.raises(ConfigError, match=r"x_train: sample 2 is not finite \(NaN or infinity\)$"):
        own({"x_train": np.where(X == 9, 1e300, X.astype(np.float64))}).load()


def test_names_may_be_a_list_or_none() -> None:
    assert own({"classes": ["a", "b", "c"]}).load().classes == ("a", "b", "c")
    assert own({"classes": None}).load().classes == ("0", "1", "2")
    assert own({"num_tokens": np.int64(0)}).load().num_tokens == 0
    assert Arrays(X, Y, X, Y).classes == ()


def test_arrays_that_go_backwards_can_be_tensors() -> None:
    arrays = own({"x_train": X[::-1], "y_train": Y[::-1], "owners": Owners(("a", "b", "c"), Y[::-1])}).load()
    assert torch.from_numpy(arrays.x_train).tolist() == X.tolist()[::-1]
    assert torch.from_numpy(arrays.y_train).tolist() == Y.tolist()[::-1]
    assert arrays.owners and torch.from_numpy(arrays.owners.train).tolist() == Y.tolist()[::-1]


def test_an_array_that_torch_can_take_is_not_copied() -> None:
    found = own({"x_train": X[::2, 1:], "y_train": Y[:3], "x_test": X[:, 1:]}).load()
    assert np.shares_memory(found.x_train, X) and found.x_train.strides == (32, 4)
    assert own({}).load().x_train is X


@pytest.mark.parametrize("shape", [(8, 9, 3), (28, 28, 1)])
def test_pixels_with_their_channels_behind_are_refused(shape: tuple[int, ...]) -> None:
    pixels = np.zeros((6, *shape), np.uint8)
    words = (
        f"x_train: shape {[6, *shape]} has its channels last; accepted: pixels [N, channels, height, width], or float32"
    )
    with pytest.raises(ConfigError, match=re.escape(words) + "$"):
        own({"x_train": pixels, "x_test": pixels}).load()


@pytest.mark.parametrize(
    "shape", [(3, 28, 28), (1, 28, 1), (3, 28, 3), (4, 28, 3), (13, 2, 3), (28, 28, 4), (12, 500, 1), (9, 128, 3)]
)
def test_other_pixels_are_taken_as_they_are(shape: tuple[int, ...]) -> None:
    pixels = np.zeros((6, *shape), np.uint8)
    assert own({"x_train": pixels, "x_test": pixels}).load().x_train.shape == (6, *shape)


def test_numbers_that_no_class_can_have_stay_as_they_are() -> None:
    labels, classes = from_numbers(np.array([1e19, 2e19]))
    assert (labels.tolist(), classes) == ([1e19, 2e19], ())
