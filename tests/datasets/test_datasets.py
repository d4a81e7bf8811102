"""Digits, the user's own arrays, and the checks that every source has to pass."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from sklearn.datasets import load_digits

from fl_ddp.datasets import digits
from fl_ddp.datasets.dataset import Arrays, Dataset
from fl_ddp.datasets.digits import Digits
from fl_ddp.datasets.npz import Npz
from fl_ddp.errors import ConfigError, RunError


def refusal(source: Dataset) -> str:
    """The one line that a source refuses with."""
    with pytest.raises(ConfigError) as error:
        source.load()
    assert "\n" not in str(error.value)
    return str(error.value)


def pixels(*shape: int) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, shape, np.uint8)


@pytest.mark.parametrize("file", ["datasets/data/digits.csv.gz", "in/another/place.csv.gz"])
def test_digits_are_every_image_with_each_fifth_for_the_test(monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    monkeypatch.setattr(digits, "_FILE", file)
    arrays = Digits().load()
    assert (arrays.x_train.shape, arrays.x_test.shape) == ((1437, 1, 8, 8), (360, 1, 8, 8))
    assert arrays.x_train.dtype == np.float32
    assert [float(np.min(arrays.x_train)), float(np.max(arrays.x_train))] == [0, 1]
    images, labels = load_digits(return_X_y=True)
    np.testing.assert_array_equal(arrays.x_test[1, 0] * 16, images[5].reshape(8, 8))
    np.testing.assert_array_equal(arrays.y_test, labels[::5])
    np.testing.assert_array_equal(arrays.x_train[4, 0] * 16, images[6].reshape(8, 8))
    np.testing.assert_array_equal(arrays.x_test[:, 0] * 16, images[::5].reshape(-1, 8, 8))


def arrays_of(**changed: object) -> dict[str, npt.NDArray[np.generic]]:
    whole: dict[str, object] = {
        "x_train": pixels(6, 5, 4), "y_train": np.arange(6) % 3, "x_test": pixels(2, 5, 4), "y_test": np.array([2, 0]),
    }  # fmt: skip
    return {key: np.asarray(value) for key, value in (whole | changed).items() if value is not None}


def write_npz(folder: Path, **changed: object) -> Npz:
    np.savez(folder / "mine.npz", **arrays_of(**changed))  # type: ignore[arg-type]
    return Npz(path=str(folder / "mine.npz"))


def test_grey_pixels_of_an_npz_get_a_channel(tmp_path: Path) -> None:
    arrays = write_npz(tmp_path).load()
    np.testing.assert_array_equal(arrays.x_train, pixels(6, 5, 4)[:, None])
    assert arrays.y_train.dtype == np.int64
    assert arrays.classes == ("0", "1", "2")


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((5, 4, 3), (3, 5, 4)), ((5, 4, 1), (1, 5, 4)), ((3, 5, 4), (3, 5, 4)), ((1, 5, 3), (1, 5, 3))],
)
def test_channels_of_an_npz_come_first(tmp_path: Path, shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    x = pixels(6, *shape)
    arrays = write_npz(tmp_path, x_train=x, x_test=x[:2]).load()
    assert arrays.x_train.shape == (6, *expected)
    np.testing.assert_array_equal(arrays.x_train, np.moveaxis(x, 3, 1) if shape != expected else x)
    np.testing.assert_array_equal(arrays.x_test, arrays.x_train[:2])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f8"])
def test_floats_of_an_npz_are_taken_as_they_are(tmp_path: Path, dtype: npt.DTypeLike) -> None:
    x = np.linspace(-3, 300, 42).reshape(6, 7).astype(dtype)
    arrays = write_npz(tmp_path, x_train=x, x_test=x[:2]).load()
    assert arrays.x_train.dtype == np.float32
    np.testing.assert_array_equal(arrays.x_train, x.astype(np.float32))


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, ">i8"])
def test_other_whole_numbers_of_an_npz_are_tokens(tmp_path: Path, dtype: npt.DTypeLike) -> None:
    x = np.arange(42).reshape(6, 7).astype(dtype)
    arrays = write_npz(tmp_path, x_train=x[::-1], x_test=x[:2] + 50).load()
    assert arrays.x_train.dtype == np.int64 and arrays.num_tokens == 64
    np.testing.assert_array_equal(arrays.x_train, np.arange(42).reshape(6, 7)[::-1])
    assert write_npz(tmp_path).load().num_tokens == 0


@dataclass(frozen=True)
class Given(Dataset):
    """Arrays as they are."""

    x: npt.NDArray[np.generic]
    num_tokens: int

    def read(self) -> Arrays:
        y = np.zeros(len(self.x), np.int64)
        return Arrays(self.x, y, self.x, y, ("a",), num_tokens=self.num_tokens)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (Given(np.array([[0, 5]]), 5), "--data Given: x_train: token 5 is not one of the 5 from 0 up"),
        (Given(np.array([[-1, 2]]), 5), "--data Given: x_train: token -1 is not one of the 5 from 0 up"),
        (
            Given(np.array([[1, 2]], np.uint16), 5),
            "--data Given: x_train: uint16 of shape [1, 2] is no input; accepted:",
        ),
        (Given(np.array([[[1, 2]]]), 5), "--data Given: x_train: int64 of shape [1, 1, 2] is no input; accepted:"),
        (
            Given(np.array([[1, 2]]), 5, normalize=True),
            "--data.normalize: true, but samples are tokens, of which no mean is taken; accepted: false",
        ),
    ],
)
def test_wrong_tokens_are_refused_in_one_line(source: Given, message: str) -> None:
    assert refusal(source).startswith(message)


def test_what_a_users_source_reads_is_looked_at() -> None:
    class Nothing(Given):
        def read(self) -> Arrays:
            return None  # type: ignore[return-value]

    told = refusal(Nothing(np.array([[1, 2]]), 5))
    assert re.fullmatch(r"\S*test_datasets\.py:\d+: read of Nothing: gives NoneType; accepted: an Arrays", told)


def test_a_users_source_does_not_draw_from_global_generators() -> None:
    class Draws(Given):
        def read(self) -> Arrays:
            arrays = super().read()
            return replace(arrays, x_train=np.random.permutation(arrays.x_train))

    with pytest.raises(RunError, match=r"read of Draws draws from numpy's global generator .*a seed of its own"):
        Draws(np.array([[1, 2], [2, 3]]), 5).load()


def test_a_users_source_may_ask_torchs_loaders_which_draw() -> None:
    class Loaded(Given):
        def read(self) -> Arrays:
            arrays = super().read()
            order = [int(i) for i in torch.utils.data.DataLoader(torch.arange(2), batch_size=None, shuffle=True)]  # type: ignore[arg-type]
            return replace(arrays, x_train=arrays.x_train[order])

    source, before = Loaded(np.array([[1, 2], [2, 3]]), 5), torch.get_rng_state()
    assert np.array_equal(source.load().x_train, source.load().x_train)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("names", [np.array(["a", "b", "c", "d"]), np.array([b"a", b"b", b"c", b"d"])])
def test_classes_of_an_npz_are_named(tmp_path: Path, names: npt.NDArray[np.generic]) -> None:
    assert write_npz(tmp_path, classes=names).load().classes == ("a", "b", "c", "d")


WORDS = {"y_train": np.array(["dog", "cat", "dog", "emu", "cat", "emu"]), "y_test": np.array(["emu", "cat"])}


@pytest.mark.parametrize("kind", [str, np.bytes_])
@pytest.mark.parametrize(("classes", "expected"), [(None, ("cat", "dog", "emu")), (["emu", "dog", "eel", "cat"],) * 2])
def test_labels_may_be_words(tmp_path: Path, kind: type, classes: list[str] | None, expected: tuple[str, ...]) -> None:
    """In the alphabet's order, or as the classes are named."""
    found = write_npz(tmp_path, **{key: each.astype(kind) for key, each in WORDS.items()}, classes=classes).load()
    assert found.classes == tuple(expected)
    for part, labels in (("y_train", found.y_train), ("y_test", found.y_test)):
        assert [found.classes[label] for label in labels] == WORDS[part].tolist()


def test_whole_numbers_may_be_words(tmp_path: Path) -> None:
    """As OpenML has the labels of MNIST."""
    numbers = {"y_train": np.array([0, 2, 1, 10, 0, 2]), "y_test": np.array([10, 2])}
    more = {"x_train": pixels(12, 5, 4), "y_train": np.tile(numbers["y_train"], 2), "y_test": numbers["y_test"]}
    expected = write_npz(tmp_path, **more).load()
    found = write_npz(tmp_path, **more | {key: more[key].astype(str) for key in numbers}).load()
    assert found.classes == expected.classes
    assert found.y_train.tolist() == expected.y_train.tolist()
    assert found.y_test.tolist() == expected.y_test.tolist()


def test_words_are_no_numbers_to_a_loss_of_those(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="y_train: labels are words; accepted: numbers, or --loss cross_entropy"):
        write_npz(tmp_path, **WORDS).load("numbers")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (WORDS | {"y_test": ["1.5", "2"], "y_train": ["1"] * 6}, "y_test: '1.5' is no label; accepted: whole numbers"),
        (WORDS | {"y_test": [b"\xe9", b"\xe8"]}, r"y_test: label b'\xe9' is no text in UTF-8"),
        (WORDS | {"classes": ["cat", "dog"]}, "y_train: 'emu' names no class; accepted: cat, dog, as classes has it"),
        (WORDS | {"y_test": ["emu", ""]}, "y_test: a label is an empty word; accepted: names of classes"),
        (
            WORDS | {"y_test": [2, 0]},
            "y_train: <U3 of shape [6] are no labels; accepted: whole numbers from 0 up, or words",
        ),
        (
            {"y_test": None},
            "has no y_test; needed: x_train, y_train, x_test, y_test; it holds x_train, y_train, x_test",
        ),
        ({"y_train": np.arange(5) % 3}, "y_train: 5 labels do not fit the 6 samples of"),
        ({"y_train": np.zeros(6)}, "y_train: float64 of shape [6] are no labels"),
        ({"y_train": np.zeros((6, 1), int)}, "y_train: int64 of shape [6, 1] are no labels"),
        ({"y_train": np.array([0, 1, 2, 0, 1, -1])}, "y_train: label -1 is not one of the 3 classes"),
        ({"y_train": np.array([0, 1, 2, 0, 1, 10**9])}, "y_train: label 1000000000 among 6 samples"),
        ({"y_train": np.array([0, 1, 2, 0, 1, 2**64 - 1], np.uint64)}, "y_train: uint64 of shape [6] are no labels"),
        ({"y_test": np.array([0, 3])}, "y_test: label 3 is not one of the 3 classes"),
        ({"classes": np.array(["a", "b"])}, "y_train: label 2 is not one of the 2 classes"),
        ({"classes": np.array(["a", "b", "a"])}, "two classes are named 'a'"),
        ({"classes": np.array(["a", "b\nc", "d"])}, r"a class is named 'b\nc'; names stand in tables"),
        ({"classes": np.array(["a", "\x1b[31mb", "d"])}, r"a class is named '\x1b[31mb'"),
        ({"classes": np.array("abc")}, "classes: shape [] is no list of names"),
        ({"x_train": pixels(6, 5, 4).astype(int)}, "x_train: int64 of shape [6, 5, 4] is no input"),
        ({"x_train": pixels(6, 5, 4, 4)}, "x_train: uint8 of shape [6, 5, 4, 4] is no input"),
        ({"x_train": np.zeros(6, np.float32)}, "x_train: float32 of shape [6] is no input"),
        ({"x_train": pixels(6, 5, 5)}, "x_test: samples are uint8 of shape [1, 5, 4], those of the training set"),
        ({"x_train": np.zeros((6, 5, 4))}, "x_test: samples are uint8 of shape [1, 5, 4], those of the training set"),
        ({"x_test": pixels(0, 5, 4), "y_test": np.zeros(0, int)}, "x_test: shape [0, 1, 5, 4] holds no data"),
        ({"x_train": np.array([[0.0]] * 5 + [[np.nan]])}, "x_train: sample 5 is not finite"),
        ({"x_train": np.array([[0.0]] * 5 + [[1e300]])}, "x_train: sample 5 is not finite"),
        ({"x_train": np.array([None] * 6, object)}, "cannot be read as .npz of plain arrays"),
    ],
)
def test_wrong_npz_is_refused_in_one_line(tmp_path: Path, changed: dict[str, object], message: str) -> None:
    assert message in refusal(write_npz(tmp_path, **changed))


def test_unreadable_npz_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    assert "--data.path: no file is named" in refusal(Npz())
    assert f"{path} does not exist" in refusal(Npz(path=str(path)))
    write_npz(tmp_path)
    whole = path.read_bytes()
    single = io.BytesIO()
    np.save(single, pixels(3))
    for content in (b"", b"no zip", b"\x80\x04K\x01."):
        path.write_bytes(content)
        line = refusal(Npz(path=str(path)))
        assert line.startswith(f"{path}: is not a .npz file") and "pickle" not in line
    for content in (whole[:-100], whole.replace(pixels(6, 5, 4).tobytes(), bytes(120))):
        path.write_bytes(content)
        assert f"{path}: cannot be read as .npz of plain arrays" in refusal(Npz(path=str(path)))
    path.write_bytes(single.getvalue())
    assert "is a single array" in refusal(Npz(path=str(path)))
