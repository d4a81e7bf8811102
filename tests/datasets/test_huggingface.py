"""Data sets that the library datasets has stored: images, numbers, labels, clients, splits, and what is refused.

Where that library, an extra, is not installed only its message is tested.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from launching import SMALL, numbers, simulated
from PIL import Image

from fl_ddp.datasets.dataset import Arrays
from fl_ddp.datasets.huggingface import HuggingFace
from fl_ddp.errors import ConfigError

RANDOM = np.random.default_rng(0)
GREY = RANDOM.integers(0, 256, (12, 5, 4), np.uint8)
COLOURS = RANDOM.integers(0, 256, (12, 5, 4, 3), np.uint8)
LABELS = [0, 1, 2] * 4


@pytest.fixture
def library() -> Any:
    return pytest.importorskip("datasets", reason="the library datasets is not installed: pip install '.[huggingface]'")


def stored(library: Any, folder: Path, **splits: Mapping[str, object]) -> str:
    """Splits written by save_to_disk; one that is called alone without others around it."""
    made = {name: library.Dataset.from_dict(dict(columns)) for name, columns in splits.items()}
    (made["alone"] if "alone" in made else library.DatasetDict(made)).save_to_disk(str(folder))
    return str(folder)


def of(library: Any, arrays: npt.NDArray[np.uint8], **columns: object) -> Any:
    """A data set of images with named classes."""
    features = {"image": library.Image(), "label": library.ClassLabel(names=["a", "b", "c"])}
    features |= {name: library.Value("string") for name in columns}
    content = {"image": [Image.fromarray(each) for each in arrays], "label": LABELS, **columns}
    return library.Dataset.from_dict(content, features=library.Features(features))


def refusal(source: HuggingFace) -> str:
    with pytest.raises(ConfigError) as error:
        source.load()
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("images", [GREY, COLOURS], ids=["grey", "colours"])
def test_images_become_pixels_with_the_names_of_their_classes(
    library: Any, tmp_path: Path, images: npt.NDArray[np.uint8]
) -> None:
    whole = of(library, images)
    library.DatasetDict({"train": whole, "test": whole.select([3, 4])}).save_to_disk(str(tmp_path / "images"))
    arrays = HuggingFace(path=str(tmp_path / "images")).load()
    expected = images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(arrays.x_train, expected)
    np.testing.assert_array_equal(arrays.x_test, expected[3:5])
    assert arrays.classes == ("a", "b", "c")
    assert (arrays.y_train.tolist(), arrays.y_test.tolist()) == (LABELS, [0, 1])
    assert HuggingFace(path=str(tmp_path / "images"), size=8).load().x_test.shape[2:] == (8, 8)


def test_splits_of_which_one_has_colours_are_both_in_colour(library: Any, tmp_path: Path) -> None:
    whole = {"train": of(library, COLOURS), "test": of(library, GREY)}
    library.DatasetDict(whole).save_to_disk(str(tmp_path / "images"))
    arrays = HuggingFace(path=str(tmp_path / "images")).load()
    np.testing.assert_array_equal(arrays.x_train, COLOURS.transpose(0, 3, 1, 2))
    np.testing.assert_array_equal(arrays.x_test, np.repeat(GREY[:, None], 3, axis=1))


def test_splits_that_do_not_fit_each_other_are_refused(library: Any, tmp_path: Path) -> None:
    larger = RANDOM.integers(0, 256, (12, 6, 4), np.uint8)
    library.DatasetDict({"train": of(library, GREY), "test": of(library, larger)}).save_to_disk(
        str(tmp_path / "images")
    )
    said = refusal(HuggingFace(path=str(tmp_path / "images")))
    assert said.endswith(
        "inputs of split test are of shape [6, 4], those of train of [5, 4]; resize all with --data.size N"
    )
    assert HuggingFace(path=str(tmp_path / "images"), size=4).load().x_test.shape == (12, 1, 4, 4)
    train = {"x": [[1.0, 2.0]] * 3, "label": [0, 1, 0]}
    for name, test, told in (
        (
            "long",
            {"x": [[1.0, 2.0, 3.0]], "label": [0]},
            "inputs of split test are of shape [3], those of train of [2]",
        ),
        ("lacking", {"label": [0]}, "split test has no column x"),
        (
            "several",
            {"x": [[1.0, 2.0]], "label": [[0, 1]]},
            "column label of split test are of shape [2], those of train",
        ),
    ):
        assert told in refusal(HuggingFace(path=stored(library, tmp_path / name, train=train, test=test)))


def test_a_label_that_is_missing_is_no_class(library: Any, tmp_path: Path) -> None:
    words = ["oak", None, "ash", "oak", "ash", "oak"]
    path = stored(library, tmp_path / "mine", alone={"x": [1.0] * 6, "label": words})
    assert "row 1 has no label" in refusal(HuggingFace(path=path))
    numbers = stored(library, tmp_path / "numbers", alone={"x": [1.0] * 3, "label": [0, None, 1]})
    assert "row 1 has no label" in refusal(HuggingFace(path=numbers))
    given = {"train": {"x": [1.0], "label": ["oak"]}, "test": {"x": [1.0] * 6, "label": words}}
    assert "test: label: row 1 has no label" in refusal(HuggingFace(path=stored(library, tmp_path / "two", **given)))


def test_clients_are_those_of_a_column_and_a_test_set_is_drawn(library: Any, tmp_path: Path) -> None:
    of(library, GREY, writer=[f"w{i % 5}" for i in range(12)]).save_to_disk(str(tmp_path / "mine"))
    source = HuggingFace(path=str(tmp_path / "mine"), client="writer", test_share=0.25)
    arrays = source.load()
    assert arrays.x_train.shape == (9, 1, 5, 4) and sorted(arrays.y_test.tolist()) == [0, 1, 2]
    place = {image.tobytes(): i for i, image in enumerate(GREY)}
    assert arrays.owners is not None and arrays.owners.names == tuple(f"w{i}" for i in range(5))
    for x, owner in ((arrays.x_train, arrays.owners.train), (arrays.x_test, arrays.owners.test)):
        assert owner is not None
        assert [place[image.tobytes()] % 5 for image in x] == owner.tolist()
    other = HuggingFace(path=str(tmp_path / "mine"), client="writer", test_share=0.25, test_seed=1).load()
    assert not np.array_equal(arrays.x_test, other.x_test)


def test_numbers_stand_side_by_side_and_words_are_classes(library: Any, tmp_path: Path) -> None:
    train = {"a": [1, 2, 3], "kind": ["oak", "ash", "oak"], "b": [0.5, -1.0, 2.0], "who": [3, 10, 3]}
    test = {"a": [4, 5], "kind": ["elm", "oak"], "b": [0.25, 8.0], "who": [10, 3]}
    path = stored(library, tmp_path / "mine", here=train, there=test)
    source = HuggingFace(path=path, label="kind", client="who", train="here", test="there")
    arrays = source.load()
    assert arrays.x_train.dtype == np.float32
    assert arrays.x_train.tolist() == [[1, 0.5], [2, -1], [3, 2]] and arrays.x_test.tolist() == [[4, 0.25], [5, 8]]
    assert arrays.classes == ("ash", "elm", "oak")
    assert (arrays.y_train.tolist(), arrays.y_test.tolist()) == ([2, 0, 2], [1, 2])
    assert arrays.owners is not None and arrays.owners.test is not None and arrays.owners.names == ("3", "10")
    assert (arrays.owners.train.tolist(), arrays.owners.test.tolist()) == ([0, 1, 0], [1, 0])
    chosen = HuggingFace(path=path, label="kind", features=("b",), train="here", test="there").load()
    assert chosen.x_train.tolist() == [[0.5], [-1], [2]]
    drawn = HuggingFace(path=path, label="kind", train="here", test=None).load()
    assert (len(drawn.y_train), len(drawn.y_test), drawn.classes) == (2, 1, ("ash", "oak"))


def test_a_column_of_lists_is_the_input_itself(library: Any, tmp_path: Path) -> None:
    x = RANDOM.random((12, 3, 2)).astype(np.float32)
    path = stored(library, tmp_path / "mine", alone={"x": x.tolist(), "label": LABELS})
    arrays = HuggingFace(path=path, test_share=0.25).load()
    assert arrays.x_train.shape == (9, 3, 2) and arrays.classes == ("0", "1", "2")
    assert {each.tobytes() for each in (*arrays.x_train, *arrays.x_test)} == {each.tobytes() for each in x}


def test_a_run_has_the_bits_of_one_on_the_same_npz(library: Any, tmp_path: Path) -> None:
    whole = of(library, COLOURS)
    library.DatasetDict({"train": whole, "test": whole}).save_to_disk(str(tmp_path / "mine"))
    x, y = COLOURS.transpose(0, 3, 1, 2), np.array(LABELS)
    np.savez(tmp_path / "same.npz", x_train=x, y_train=y, x_test=x, y_test=y, classes=np.array(["a", "b", "c"]))
    shared = {**SMALL, "clients": 3, "cohort": 2, "rounds": 1, "partition": "IID"}
    one = simulated({**shared, "data": "HuggingFace", "data.path": str(tmp_path / "mine")}, tmp_path / "one")
    other = simulated({**shared, "data": str(tmp_path / "same.npz")}, tmp_path / "other")
    assert numbers(one) == numbers(other)


def test_numbers_as_targets_keep_their_values_and_others_are_refused(library: Any, tmp_path: Path) -> None:
    a = [1.0, 2.0, 3.0]
    columns: list[list[Any]] = [[0.1, -2.5, 1e-7], [5, 300, 0], [1.0, 0.0, 2.0], ["2.5", "1", "0"], [True] * 3]
    for index, label in enumerate(columns):
        path = stored(library, tmp_path / str(index), train={"a": a, "label": label}, test={"a": a, "label": label})
        arrays = HuggingFace(path=path).load("numbers")
        assert arrays.y_train.tolist() == np.array(label, np.float32)[:, None].tolist()
    wrong: list[tuple[list[Any], str]] = [([0.5, 1.0, np.nan], "nan"), (["2.5", "1", "NA"], "'NA'")]
    for index, (label, cell) in enumerate(wrong):
        good = {"a": a, "label": label[:2] + label[:1]}
        path = stored(library, tmp_path / f"bad{index}", train=good, test={"a": a, "label": label})
        with pytest.raises(ConfigError) as error:
            HuggingFace(path=path).load("numbers")
        place = f"{path}: test: label: row 2: {cell} is no number"
        assert str(error.value) == f"{place}; accepted: targets that are finite numbers"


def test_what_is_not_there_is_named(library: Any, tmp_path: Path) -> None:
    columns = {"a": [1.0, 2.0], "text": ["u", "v"], "label": [0, 1]}
    path = stored(library, tmp_path / "mine", train=columns, validation=columns)
    assert refusal(HuggingFace(path=path)) == (
        "--data.test: there is no split test; accepted: train, validation, or null to draw it by --data.test_share"
    )
    given: dict[str, Any] = {"path": path, "test": "validation"}
    assert refusal(HuggingFace(**given, train="x")).startswith("--data.train: there is no split x; accepted: train, v")
    assert refusal(HuggingFace(**given, label="y")) == "--data.label: there is no column y; accepted: a, text, label"
    assert refusal(HuggingFace(**given, client="y")).startswith("--data.client: there is no column y; accepted: a, ")
    assert refusal(HuggingFace(**given, features=("y",))).startswith("--data.features: there is no column y; accepted")
    message = "--data.features: column text holds no numbers (or lists of unlike lengths); accepted: columns of numbers"
    assert refusal(HuggingFace(**given)).startswith(message)
    assert refusal(HuggingFace(path=str(tmp_path))).startswith(f"--data.path: {tmp_path} cannot be loaded (")
    of(library, GREY).add_column("more", [0] * 12).save_to_disk(str(tmp_path / "images"))
    images: dict[str, Any] = {"path": str(tmp_path / "images"), "features": ("image", "more")}
    assert "--data.features: image, more are several, one of images" in refusal(HuggingFace(**images))
    assert HuggingFace(path=str(tmp_path / "images")).load().x_train.shape[1:] == (1, 5, 4)


def test_images_of_unlike_sizes_are_named(library: Any, tmp_path: Path) -> None:
    features = library.Features({"image": library.Image(), "label": library.Value("int64")})
    content = {"image": [Image.new("L", (4, 5)), Image.new("RGB", (6, 5))] * 5, "label": [0, 1] * 5}
    library.Dataset.from_dict(content, features=features).save_to_disk(str(tmp_path / "mine"))
    path = str(tmp_path / "mine")
    assert refusal(HuggingFace(path=path)).endswith(
        "image 1 is 6 x 5 pixels, the first is 4 x 5; resize all with --data.size N"
    )
    assert HuggingFace(path=path, size=4).load().x_train.shape == (8, 3, 4, 4), "grey ones become RGB beside others"


def test_one_of_name_and_folder_is_given() -> None:
    for source in (HuggingFace(), HuggingFace(path="a", dataset="b")):
        assert "; accepted: a folder of save_to_disk; or a name on the Hub with --data.dataset" in refusal(source)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "datasets":
            raise ImportError(name)
        return imported(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    assert refusal(HuggingFace(dataset="ylecun/mnist")) == (
        "--data HuggingFace: needs the library datasets, which is not installed; "
        "accepted: pip install 'fl_ddp[huggingface]'"
    )


class Pretended(dict[str, list[Any]]):
    """A split as the library gives it, without the library: of a column its first value says what it holds."""

    @property
    def column_names(self) -> list[str]:
        return list(self)

    @property
    def features(self) -> dict[str, object]:
        return {name: of[0] for name, of in self.items()}

    def with_format(self, kind: str) -> Pretended:
        return self


def alone(monkeypatch: pytest.MonkeyPatch, **columns: list[Any]) -> Arrays:
    """What is read of a split beside which there is none."""
    monkeypatch.setattr(HuggingFace, "_loaded", lambda self: {"train": Pretended(columns)})
    return HuggingFace(path="pretended", test=None).load()


def test_a_test_set_is_drawn_of_each_class_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = [0] * 900 + [1] * 100
    arrays = alone(monkeypatch, a=[float(i) for i in range(1000)], label=labels)
    assert np.unique(arrays.y_test, return_counts=True)[1].tolist() == [180, 20]


def test_images_of_a_palette_have_its_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    image = Image.new("RGB", (4, 5), (255, 0, 0)).convert("P")
    arrays = alone(monkeypatch, image=[image] * 10, label=[0, 1] * 5)
    assert arrays.x_train.shape == (8, 3, 5, 4) and arrays.x_train[0, :, 0, 0].tolist() == [255, 0, 0]
