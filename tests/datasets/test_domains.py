"""Image folders of domains, as clients and as tasks, in a directory or a zip."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fl_ddp.datasets.dataset import Arrays
from fl_ddp.datasets.image_folder import ImageFolder
from fl_ddp.errors import ConfigError

pytestmark = pytest.mark.usefixtures("cache")
DOMAINS, CLASSES = ("art", "photo", "sketch"), ("cat", "dog")


def png(*values: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (4, 4), values).save(file, "PNG")
    return file.getvalue()


def written(root: Path, below: str = "", each: int = 5, domains: tuple[str, ...] = DOMAINS) -> str:
    """Images of which the first channel is the domain, the second the class and the third their number."""
    for domain in domains:
        for c, name in enumerate(CLASSES):
            folder = root / below / domain / name
            folder.mkdir(parents=True)
            for i in range(each):
                (folder / f"{i}.png").write_bytes(png(DOMAINS.index(domain), c, i))
    return str(root)


def owned(arrays: Arrays) -> tuple[list[int], list[int]]:
    """Domains of the training and of the test images, which their pixels confirm, as they do the labels."""
    assert arrays.owners is not None and arrays.owners.test is not None and arrays.owners.names == DOMAINS
    assert arrays.classes == CLASSES
    for x, y, owner in (
        (arrays.x_train, arrays.y_train, arrays.owners.train),
        (arrays.x_test, arrays.y_test, arrays.owners.test),
    ):
        np.testing.assert_array_equal(x[:, 0, 0, 0], owner)
        np.testing.assert_array_equal(x[:, 1, 0, 0], y)
    return arrays.owners.train.tolist(), arrays.owners.test.tolist()


def test_domains_lie_around_classes_and_each_class_of_each_gives_its_share(tmp_path: Path) -> None:
    root = Path(written(tmp_path / "pets"))
    arrays = ImageFolder(root=str(root), domains=True, test_share=0.2).load()
    assert owned(arrays) == ([d for d in range(3) for _ in range(8)], [0, 0, 1, 1, 2, 2])
    assert arrays.y_test.tolist() == [0, 1] * 3
    with zipfile.ZipFile(tmp_path / "pets.zip", "w") as archive:
        for file in sorted(root.rglob("*.png")):
            archive.write(file, f"pets/{file.relative_to(root)}")
    zipped = ImageFolder(root=f"{tmp_path}/pets.zip", domains=True, test_share=0.2).load()
    np.testing.assert_array_equal(zipped.x_test, arrays.x_test)
    again = ImageFolder(root=str(root), domains=True, test_share=0.2).load()
    assert owned(again) == owned(arrays), "pixels are the cache's, domains of the folders"


def test_a_domain_may_be_tested_on_alone(tmp_path: Path) -> None:
    written(tmp_path / "pets", "train", each=2, domains=DOMAINS[:2])
    written(tmp_path / "pets", "test", each=1, domains=DOMAINS[1:])
    arrays = ImageFolder(root=str(tmp_path / "pets"), domains=True).load()
    assert owned(arrays) == ([0] * 4 + [1] * 4, [1, 1, 2, 2])


def test_domains_are_not_taken_for_classes(tmp_path: Path) -> None:
    root = written(tmp_path / "pets")
    with pytest.raises(ConfigError) as told:
        ImageFolder(root=root, test_share=0.2).load()
    assert str(told.value) == (
        "--data.domains: art/ and photo/ have cat, dog in them, so they may be domains; accepted: true, or false if "
        "they are the classes"
    )
    arrays = ImageFolder(root=root, domains=False, test_share=0.2).load()
    assert arrays.classes == DOMAINS and arrays.owners is None
    with pytest.raises(ConfigError, match=r"has no images in folders of classes in folders of domains; accepted: "):
        ImageFolder(root=f"{root}/art", domains=True, test_share=0.2).load()
    for folder in ("readme", "more/cat"):  # one folder beside them that has not the same
        (tmp_path / "pets" / folder).mkdir(parents=True)
        (tmp_path / "pets" / folder / "0.png").write_bytes(png(0, 0, 0))
        with pytest.raises(ConfigError, match=r"--data.domains: art/ and photo/ have cat, dog in them"):
            ImageFolder(root=root, test_share=0.2).load()


def test_classes_with_folders_in_them_are_no_domains(tmp_path: Path) -> None:
    for name in ("cat/images", "dog/images", "cat/train", "dog/train", "cat/val", "dog/val", "cat/left", "dog/left"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        for i in range(2):
            (tmp_path / "pets" / name / f"{i}.png").write_bytes(png(0, name.startswith("dog"), i))
    arrays = ImageFolder(root=str(tmp_path / "pets"), test_share=0.5).load()
    assert arrays.classes == CLASSES and arrays.owners is None


def test_folders_called_images_between_domains_and_classes_are_passed_over(tmp_path: Path) -> None:
    for domain in DOMAINS:
        for c, name in enumerate(CLASSES):
            (tmp_path / "office" / domain / "images" / name).mkdir(parents=True)
            for i in range(2):
                place = tmp_path / "office" / domain / "images" / name / f"{i}.png"
                place.write_bytes(png(DOMAINS.index(domain), c, i))
    with pytest.raises(ConfigError, match=r"--data.domains: art/ and photo/ have cat, dog in them"):
        ImageFolder(root=str(tmp_path / "office"), test_share=0.5).load()
    owned(ImageFolder(root=str(tmp_path / "office"), domains=True, test_share=0.5).load())


def test_splits_in_domains_are_told_to_lie_around_them(tmp_path: Path) -> None:
    for domain in DOMAINS:
        for split in ("train", "test"):
            for name in CLASSES:
                (tmp_path / "pets" / domain / split / name).mkdir(parents=True)
                (tmp_path / "pets" / domain / split / name / "0.png").write_bytes(png(0, 0, 0))
    with pytest.raises(ConfigError, match=r"--data.domains: art/ and photo/ have cat, dog in them"):
        ImageFolder(root=str(tmp_path / "pets"), test_share=0.5).load()
    with pytest.raises(
        ConfigError, match=r"--data.domains: true, but test, train .* are no classes; accepted: <domain>"
    ):
        ImageFolder(root=str(tmp_path / "pets"), domains=True, test_share=0.5).load()


def test_a_class_that_no_domain_trains_is_named(tmp_path: Path) -> None:
    written(tmp_path / "pets", "train", each=1)
    written(tmp_path / "pets", "test", each=1)
    (tmp_path / "pets" / "test" / "art" / "cow").mkdir()
    (tmp_path / "pets" / "test" / "art" / "cow" / "0.png").write_bytes(png(0, 0, 0))
    message = "test/art/cow/0.png is of class 'cow', which has no folder train/<domain>/cow"
    with pytest.raises(ConfigError, match=message):
        ImageFolder(root=str(tmp_path / "pets"), domains=True).load()
