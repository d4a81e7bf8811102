"""Image folders: their layouts, in directories and zip files, what is refused, and the cache."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fl_ddp.datasets.dataset import Arrays, Dataset
from fl_ddp.datasets.image_folder import ImageFolder
from fl_ddp.errors import ConfigError

pytestmark = pytest.mark.usefixtures("cache")


def refusal(source: Dataset) -> str:
    """The one line that a source refuses with."""
    with pytest.raises(ConfigError) as error:
        source.load()
    assert "\n" not in str(error.value)
    return str(error.value)


def png(value: int, size: tuple[int, int] = (6, 5), mode: str = "RGB") -> bytes:
    file = io.BytesIO()
    Image.new(mode, size, (value, 0, 0) if mode == "RGB" else value).save(file, "PNG")
    return file.getvalue()


FOLDER = {
    "train/cat/a.png": png(10),
    "train/cat/b.PNG": png(20, mode="L"),
    "train/ant/c.png": png(30),
    "train/ant/notes.txt": b"no image",
    "test/cat/d.png": png(40),
    "test/ant/e.png": png(50),
}
TINY_IMAGENET = {
    "train/n02/images/n02_0.png": png(10),
    "train/n02/n02_boxes.txt": b"n02_0.png\t0\t0\t5\t5\n",
    "train/n01/images/n01_0.png": png(20),
    "val/images/val_0.png": png(30),
    "val/images/val_1.png": png(40),
    "val/val_annotations.txt": b"val_1.png\tn01\t0\t0\t5\t5\nval_0.png\tn02\t0\t0\t5\t5\n",
    "test/images/test_0.png": png(50),
    "words.txt": b"n01\tgoldfish, Carassius auratus\nn02\tcrane\nn03\tcrane\n",
}


def write_folder(root: Path, files: dict[str, bytes]) -> ImageFolder:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return ImageFolder(root=str(root))


def write_zip(path: Path, files: dict[str, bytes], outer: str = "") -> ImageFolder:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"{outer}{name}", content)
    return ImageFolder(root=str(path))


def red(arrays: Arrays) -> tuple[list[int], list[int]]:
    """The first channel's value of each training and test image."""
    return arrays.x_train[:, 0, 0, 0].tolist(), arrays.x_test[:, 0, 0, 0].tolist()


def assert_is_folder(arrays: Arrays) -> None:
    assert arrays.x_train.shape == (3, 3, 5, 6)
    assert arrays.classes == ("ant", "cat")
    assert (arrays.y_train.tolist(), arrays.y_test.tolist()) == ([0, 1, 1], [0, 1])
    assert red(arrays) == ([30, 10, 20], [50, 40])
    assert arrays.x_train[2, :, 0, 0].tolist() == [20, 20, 20], "grey becomes RGB"


def test_image_folder_is_read_from_a_directory_or_a_zip_alike(tmp_path: Path) -> None:
    assert_is_folder(write_folder(tmp_path / "plain", FOLDER).load())
    assert_is_folder(write_zip(tmp_path / "plain.zip", FOLDER).load())
    assert_is_folder(write_zip(tmp_path / "outer.zip", FOLDER, outer="pets/").load())
    write_folder(tmp_path / "outer" / "pets", FOLDER)
    assert_is_folder(ImageFolder(root=str(tmp_path / "outer")).load())
    (tmp_path / "linked").mkdir()
    for name in ("train", "test"):
        (tmp_path / "linked" / name).symlink_to(tmp_path / "plain" / name)
    assert_is_folder(ImageFolder(root=str(tmp_path / "linked")).load())


def test_files_that_macos_adds_to_a_zip_are_passed_over(tmp_path: Path) -> None:
    extra = {"__MACOSX/pets/train/cat/._a.png": b"x", "pets/train/cat/._a.png": b"x", "pets/.DS_Store": b"x"}
    assert_is_folder(write_zip(tmp_path / "mac.zip", {f"pets/{k}": v for k, v in FOLDER.items()} | extra).load())


def test_validation_folder_serves_where_there_is_no_test_folder(tmp_path: Path) -> None:
    files = {name.replace("test/", "val/"): content for name, content in FOLDER.items()}
    assert_is_folder(write_folder(tmp_path / "pets", files).load())


def test_original_tiny_imagenet_layout_is_read_with_its_annotations_and_words(tmp_path: Path) -> None:
    arrays = write_folder(tmp_path / "tiny", TINY_IMAGENET).load()
    assert arrays.classes == ("goldfish", "crane")
    assert (arrays.y_train.tolist(), arrays.y_test.tolist()) == ([0, 1], [0, 1])
    assert red(arrays) == ([20, 10], [40, 30])


def test_classes_of_one_name_keep_their_folder_names(tmp_path: Path) -> None:
    files = TINY_IMAGENET | {"train/n03/images/n03_0.png": png(60)}
    assert write_folder(tmp_path / "tiny", files).load().classes == ("goldfish", "crane (n02)", "crane (n03)")


def test_images_are_resized_on_request(tmp_path: Path) -> None:
    write_folder(tmp_path / "pets", FOLDER | {"train/cat/b.PNG": png(20, size=(9, 9))})
    arrays = ImageFolder(root=str(tmp_path / "pets"), size=4).load()
    assert arrays.x_train.shape == (3, 3, 4, 4)
    assert red(arrays) == ([30, 10, 20], [50, 40])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"train/cat/b.PNG": png(20)[:-30]}, "train/cat/b.PNG cannot be decoded"),
        ({"train/cat/a.png": b"GIF89a no"}, "train/cat/a.png cannot be decoded"),
        ({"train/cat/a.png": b""}, "train/cat/a.png cannot be decoded (no image format known)"),
        ({"train/cat/a.png": png(9, mode="I;16")}, "train/cat/a.png cannot be decoded (more than 8 bits a channel)"),
        ({"train/cat/b.PNG": png(20, size=(6, 6))}, "train/cat/b.PNG is 6 x 6 pixels, train/ant/c.png is 6 x 5"),
        ({"test/cow/d.png": png(1)}, "test/cow/d.png is of class 'cow', which has no folder train/cow"),
    ],
)
def test_wrong_image_is_named(tmp_path: Path, changed: dict[str, bytes], message: str) -> None:
    assert message in refusal(write_folder(tmp_path / "pets", FOLDER | changed))
    assert message in refusal(write_zip(tmp_path / "pets.zip", FOLDER | changed))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"train/a.png": png(1), "test/cat/b.png": png(1)}, "has no labelled test images"),
        ({"train/cat/a.png": png(1)}, "has no labelled test images"),
        ({"cat/a.png": png(1), "dog/b.png": png(1)}, "has no folder train/ with files in it"),
        (
            TINY_IMAGENET | {"val/val_annotations.txt": b"val_7.png\tn01\n"},
            "line 1: val/images/val_7.png does not exist",
        ),
        (
            TINY_IMAGENET | {"val/val_annotations.txt": b"val_1.png\tn09\n"},
            "line 1: class 'n09' has no folder in train/",
        ),
        (TINY_IMAGENET | {"val/val_annotations.txt": b"\n"}, "has no"),
    ],
)
def test_folder_of_another_layout_is_refused(tmp_path: Path, files: dict[str, bytes], message: str) -> None:
    assert message in refusal(write_folder(tmp_path / "pets", files))


def test_missing_or_damaged_zip_is_named(tmp_path: Path) -> None:
    assert "nowhere does not exist; accepted: a directory, or a .zip" in refusal(
        ImageFolder(root=f"{tmp_path}/nowhere")
    )
    path = tmp_path / "pets.zip"
    write_zip(path, FOLDER)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert f"{path} cannot be read" in refusal(ImageFolder(root=str(path)))
    path.write_bytes(whole.replace(png(30)[:40], png(30)[:39] + b"\xff"))
    assert "train/ant/c.png cannot be read (Bad CRC" in refusal(ImageFolder(root=str(path)))


def test_decoded_images_come_from_the_cache_until_a_file_changes(tmp_path: Path, cache: Path) -> None:
    source = write_folder(tmp_path / "pets", FOLDER)
    source.load()
    (kept,) = cache.glob("*.npz")
    with np.load(kept) as archive:
        changed = dict(archive)
    changed["x_train"][:] = 7
    np.savez(kept, **changed)
    assert red(source.load())[0] == [7, 7, 7], "read from the cache"
    write_folder(tmp_path / "pets", {"train/cat/a.png": png(11)})
    os.utime(tmp_path / "pets" / "train/cat/a.png", ns=(1, 1))
    assert red(source.load())[0] == [30, 11, 20]


def test_other_sizes_have_a_cache_of_their_own(tmp_path: Path) -> None:
    root = str(write_folder(tmp_path / "pets", FOLDER).root)
    assert [ImageFolder(root=root, size=n).load().x_train.shape[2:] for n in (4, 8, 4)] == [(4, 4), (8, 8), (4, 4)]


def test_broken_cache_is_built_anew(tmp_path: Path, cache: Path) -> None:
    source = write_folder(tmp_path / "pets", FOLDER)
    source.load()
    (kept,) = cache.glob("*.npz")
    whole = kept.read_bytes()
    for content in (whole[:-100], b"", whole.replace(b"x_test", b"x_tess")):
        kept.write_bytes(content)
        assert_is_folder(source.load())
        assert kept.read_bytes() == whole


def test_cache_that_cannot_be_written_says_how_to_move_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert "set XDG_CACHE_HOME" in refusal(write_folder(tmp_path / "pets", FOLDER))


@pytest.mark.parametrize("name", ["cat\nlion", os.fsdecode(b"cat\xff")])
def test_a_class_whose_name_cannot_be_shown_is_refused(tmp_path: Path, name: str) -> None:
    files = {f"{split}/{each}/a.png": png(1) for split in ("train", "test") for each in ("dog", name)}
    line = refusal(write_folder(tmp_path / "images", files))
    assert f"a class is named {name!a}" in line
    line.encode()


def test_an_edited_test_image_is_read_anew(tmp_path: Path) -> None:
    source = write_folder(tmp_path / "pets", FOLDER)
    assert red(source.load())[1] == [50, 40]
    write_folder(tmp_path / "pets", {"test/cat/d.png": png(41)})
    os.utime(tmp_path / "pets" / "test/cat/d.png", ns=(1, 1))
    assert red(source.load())[1] == [50, 41]


def test_classes_that_are_named_anew_have_their_new_names(tmp_path: Path) -> None:
    source = write_folder(tmp_path / "tiny", TINY_IMAGENET)
    assert source.load().classes == ("goldfish", "crane")
    write_folder(tmp_path / "tiny", {"words.txt": b"n01\tcarp\nn02\tcrane\n"})
    assert source.load().classes == ("carp", "crane")
