"""Image folders without images for testing, or without train/: a share of the images is the test set."""

from __future__ import annotations

import io
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fl_ddp.datasets.dataset import Arrays
from fl_ddp.datasets.image_folder import ImageFolder
from fl_ddp.errors import ConfigError

pytestmark = pytest.mark.usefixtures("cache")
SIZES = {"ant": 10, "cat": 20, "dog": 5}


def png(*values: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (4, 4), values).save(file, "PNG")
    return file.getvalue()


def written(root: Path, below: str = "", **more: bytes) -> str:
    """Images whose first channel is their number in their class, and whose second is the class."""
    files = {f"{below}{name}/{i}.png": png(i, c, 0) for c, name in enumerate(SIZES) for i in range(SIZES[name])}
    for path, content in (files | more).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    return str(root)


def content(arrays: Arrays) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Class and number of each training and of each test image."""
    for x, y in ((arrays.x_train, arrays.y_train), (arrays.x_test, arrays.y_test)):
        np.testing.assert_array_equal(x[:, 1, 0, 0], y)
    train, test = ([(int(c), int(n)) for n, c in x[:, :2, 0, 0]] for x in (arrays.x_train, arrays.x_test))
    return train, test


@pytest.mark.parametrize("below", ["", "outer/", "train/"])
def test_a_share_of_each_class_is_the_test_set(tmp_path: Path, below: str) -> None:
    arrays = ImageFolder(root=written(tmp_path / "pets", below), test_share=0.2).load()
    train, test = content(arrays)
    assert arrays.classes == tuple(SIZES)
    assert sorted(train + test) == [(c, i) for c, size in enumerate(SIZES.values()) for i in range(size)]
    assert Counter(arrays.y_test.tolist()) == {0: 2, 1: 4, 2: 1}
    assert [n for c, n in test if c == 1] not in ([0, 1, 2, 3], [16, 17, 18, 19]), "drawn at random"


def test_it_is_drawn_by_its_own_seed_and_kept_in_the_cache_by_it(tmp_path: Path) -> None:
    root = written(tmp_path / "pets")
    first, other, again = (content(ImageFolder(root=root, test_share=0.2, test_seed=seed).load()) for seed in (0, 1, 0))
    assert first == again != other
    larger = content(ImageFolder(root=root, test_share=0.4).load())
    assert len(larger[1]) == 14 and len(first[1]) == 7


def test_a_zip_is_divided_as_its_directory(tmp_path: Path) -> None:
    root = Path(written(tmp_path / "pets"))
    with zipfile.ZipFile(tmp_path / "pets.zip", "w") as archive:
        for file in sorted(root.rglob("*.png")):
            archive.write(file, f"pets/{file.relative_to(root)}")
    zipped = ImageFolder(root=f"{tmp_path}/pets.zip", test_share=0.2).load()
    assert content(zipped) == content(ImageFolder(root=str(root), test_share=0.2).load())


def test_hidden_folders_and_what_lies_beside_the_outer_one_are_no_classes(tmp_path: Path) -> None:
    beside = {"LICENSE": b"mine", "pets/.ipynb_checkpoints/0.png": png(9, 9, 9), ".hidden/cat/0.png": png(9, 9, 9)}
    root = Path(written(tmp_path / "all", "pets/", **beside))
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for file in sorted(each for each in root.rglob("*") if each.is_file()):
            archive.write(file, file.relative_to(root))
    plain = content(ImageFolder(root=written(tmp_path / "plain"), test_share=0.2).load())
    for place in (root, f"{root}.zip"):
        arrays = ImageFolder(root=str(place), test_share=0.2).load()
        assert arrays.classes == tuple(SIZES) and content(arrays) == plain


def refusal(source: ImageFolder) -> str:
    with pytest.raises(ConfigError) as error:
        source.load()
    assert "\n" not in str(error.value)
    return str(error.value)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    classes = written(tmp_path / "classes")
    assert refusal(ImageFolder(root=classes)) == (
        f"--data.root: {classes} has no folder train/ with files in it; accepted: train/<class>/<image>, or "
        "<class>/<image> with --data.test_share 0.2"
    )
    train = written(tmp_path / "train_alone", "train/")
    line = refusal(ImageFolder(root=train))
    assert line.startswith(f"{train}: has no labelled test images; looked for test/<class>/")
    assert line.endswith("; --data.test_share 0.2 draws some")
    both = written(tmp_path / "both", "train/", **{"test/cat/0.png": png(0, 1, 0)})
    message = f"--data.test_share: 0.2, but {both} has test images of its own; accepted: null"
    assert refusal(ImageFolder(root=both, test_share=0.2)) == message
    (tmp_path / "flat").mkdir()
    (tmp_path / "flat" / "a.png").write_bytes(png(0, 0, 0))
    assert "flat: has no images in folders of classes; accepted: .bmp, " in refusal(
        ImageFolder(root=f"{tmp_path}/flat", test_share=0.2)
    )
    assert "--data.test_share: 0.01 of 35 samples leaves none to test on" in refusal(
        ImageFolder(root=classes, test_share=0.01)
    )
