"""Folders of image files, one folder a class."""

from __future__ import annotations

import hashlib
import io
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from fl_ddp.bounds import Count, Seed
from fl_ddp.datasets.array_cache import cached
from fl_ddp.datasets.dataset import Arrays, Dataset
from fl_ddp.datasets.file_tree import FileTree
from fl_ddp.datasets.held_out import TestShare, held_out
from fl_ddp.datasets.owners import owners_of
from fl_ddp.datasets.pixels import pixels_of
from fl_ddp.errors import ConfigError, some_of
from fl_ddp.protocol import Indices
from fl_ddp.reading.homes import users_path

IMAGE_SUFFIXES = {".jpeg", ".jpg", ".png", ".bmp", ".webp", ".gif", ".ppm", ".pgm", ".tif", ".tiff"}
_SPLITS = {"train", "test", "val"}
ANNOTATIONS = "val/val_annotations.txt"
UNDECODABLE = (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError)


class Labelled(NamedTuple):
    """An image file, and the names of the folders of its class and of its domain."""

    file: str
    folder: str
    domain: str


@dataclass(frozen=True)
class ImageFolder(Dataset):
    """Images below train/<class>/ and test/<class>/ (or val/<class>/), in a directory or a .zip of one.

    Images may lie deeper (train/<class>/images/), all may lie in one outer folder, and Tiny-ImageNet's val/images with
    val_annotations.txt is understood. With test_share there need be no test/, and no train/ around <class>/. There may
    be <domain>/<class>/ in the place of <class>/; to --partition Natural and --stream Domains domains are clients. Grey
    images become RGB. A file words.txt (folder name, tab, names) gives class names. Decoded images are kept in the
    user's cache folder ($XDG_CACHE_HOME, else ~/.cache) below fl_ddp/datasets.

    Attributes:
        root: the directory or the .zip file.
        size: height and width in pixels that every image is resized to, whatever its shape; null takes images as they
            are, which must then all be of one size.
        domains: whether there are folders of domains around those of classes; must be said where several folders have
            the same several ones in them.
        test_share: share of the images that are drawn as the test set, of each class of a domain alike, where none lie
            apart; null where they do.
        test_seed: of that draw, whatever the run's --seed.
    """

    root: str = "data"
    size: Count | None = None
    domains: bool | None = None
    test_share: TestShare | None = None
    test_seed: Seed = 0

    def origin(self, part: str) -> str:
        """The folder or zip file all parts come from."""
        return f"{self.root}: {part}"

    def read(self) -> Arrays:
        """Read and decode all images, [N, 3, H, W] uint8, in the order of their paths.

        Raises:
            ConfigError: no such folder, a class without a training folder, an image damaged or of another size.
        """
        root = users_path("--data.root", self.root)
        tree = FileTree(root, "train")
        train, test = self._apart(tree, root)
        folders = sorted({image.folder for image in train + test})
        names = _class_names(tree, folders)
        stamps = [(image.file, image.folder, tree.stamps[image.file]) for image in train + test]
        drawn = [] if self.test_share is None else [len(train)]
        key = hashlib.sha256(json.dumps([stamps, names, self.size, *drawn]).encode()).hexdigest()[:20]

        def build() -> Arrays:
            (x_train, y_train), (x_test, y_test) = (self._decode_all(tree, part, folders) for part in (train, test))
            return Arrays(x_train, y_train, x_test, y_test, names)

        arrays = cached(f"{root.stem}-{key}", build)
        return replace(arrays, owners=owners_of(*map(_domains, (train, test)))) if self.domains else arrays

    def _apart(self, tree: FileTree, root: Path) -> tuple[list[Labelled], list[Labelled]]:
        """The training and the test images."""
        if not tree.has_folder("train"):
            if self.test_share is None:
                what = f"{root} has no folder train/ with files in it; accepted: train/<class>/<image>, or"
                raise ConfigError("--data.root", f"{what} <class>/<image> with --data.test_share 0.2")
            return self._drawn(self._in_class_folders(tree, ""))
        train = self._in_class_folders(tree, "train/")
        test = self._test_images(tree, root, {image.folder for image in train})
        if test and self.test_share is not None:
            raise ConfigError("--data.test_share", f"{self.test_share}, but {root} has test images of its own", "null")
        if not test and self.test_share is None:
            wanted = (
                "test/<class>/ or val/<class>/ with the class names of train/, or val/images/ with val_annotations.txt"
            )
            raise ConfigError(
                root, f"has no labelled test images; looked for {wanted}; --data.test_share 0.2 draws some"
            )
        return (train, test) if test else self._drawn(train)

    def _drawn(self, images: list[Labelled]) -> tuple[list[Labelled], list[Labelled]]:
        """All images, a share of them kept aside for testing."""
        assert self.test_share is not None
        if not images:
            of = "classes in folders of domains" if self.domains else "classes"
            raise ConfigError(self.root, f"has no images in folders of {of}", ", ".join(sorted(IMAGE_SUFFIXES)))
        _, labels = np.unique([f"{image.domain}/{image.folder}" for image in images], return_inverse=True)
        aside = held_out(labels, self.test_share, self.test_seed)
        train, test = ([images[i] for i in np.flatnonzero(chosen)] for chosen in (~aside, aside))
        return train, test

    def _in_class_folders(self, tree: FileTree, below: str) -> list[Labelled]:
        """The images at any depth of the folders of classes that lie below a folder, "train/", or "" for all."""
        paths = (PurePosixPath(name.removeprefix(below)) for name in tree.stamps if name.startswith(below))
        images = [(f"{below}{path}", _around(path)) for path in paths if path.suffix.lower() in IMAGE_SUFFIXES]
        if self.domains is None:
            _refuse_ambiguous([folders for _, folders in images])
        place = 1 if self.domains else 0
        found = [Labelled(file, of[place], of[0] if place else "") for file, of in images if len(of) > place]
        if self.domains and (splits := _SPLITS & {image.folder for image in found}):
            what = f"true, but {', '.join(sorted(splits))} in the folders of domains are no classes"
            raise ConfigError("--data.domains", what, "<domain>/<class>, or train/<domain>/<class> and test/...")
        return found

    def _test_images(self, tree: FileTree, root: Path, known: set[str]) -> list[Labelled]:
        """Images of the first of test/ and val/ that is labelled, which Tiny-ImageNet's own test/ is not; or none."""
        for split in ("test/", "val/"):
            images = self._in_class_folders(tree, split)
            if known.isdisjoint(image.folder for image in images):
                continue
            for name, folder, _ in images:
                if folder not in known:
                    place = f"train/{'<domain>/' if self.domains else ''}{folder}"
                    raise ConfigError(root, f"{name} is of class {folder!r}, which has no folder {place}")
            return images
        return _annotated(tree, root, known) if ANNOTATIONS in tree.stamps else []

    def _decode_all(
        self, tree: FileTree, images: Sequence[Labelled], folders: Sequence[str]
    ) -> tuple[npt.NDArray[np.uint8], Indices]:
        """Pixels [N, 3, H, W] and labels [N]."""
        if not images:
            raise ConfigError(self.root, "has no training images", ", ".join(sorted(IMAGE_SUFFIXES)))
        first = self._decode(tree, images[0].file)
        x = np.empty((len(images), *first.shape), np.uint8)

        def fill(index: int) -> None:
            name = images[index].file
            pixels = self._decode(tree, name)
            if pixels.shape != first.shape:
                ours, others = (f"{shape[2]} x {shape[1]}" for shape in (pixels.shape, first.shape))
                raise ConfigError(
                    self.root,
                    f"{name} is {ours} pixels, {images[0].file} is {others}; resize all with --data.size N",
                )
            x[index] = pixels

        with ThreadPoolExecutor() as pool:  # Pillow decodes outside the interpreter lock
            for _ in pool.map(fill, range(len(images))):
                pass
        number = {folder: label for label, folder in enumerate(folders)}
        return x, np.array([number[image.folder] for image in images], np.int64)

    def _decode(self, tree: FileTree, name: str) -> npt.NDArray[np.uint8]:
        """Pixels [3, H, W] of one image."""
        raw = tree.read(name)
        try:
            with Image.open(io.BytesIO(raw)) as image:
                return pixels_of(image, "RGB", self.size).transpose(2, 0, 1)
        except UNDECODABLE as error:
            reason = "no image format known" if isinstance(error, UnidentifiedImageError) else str(error)
            raise ConfigError(self.root, f"{name} cannot be decoded ({reason})") from None


def _around(path: PurePosixPath) -> list[str]:
    """The folders around an image, but for those called images that lie in others."""
    first, *others = path.parts[:-1] or ("",)
    return [name for name in (first, *(each for each in others if each != "images")) if name]


def _refuse_ambiguous(images: Iterable[Sequence[str]]) -> None:
    """Refuse to guess where folders look like domains with the same classes, or like classes that are divided alike."""
    inner = defaultdict[str, set[str]](set)
    for first, *others in filter(None, images):
        inner[first].update([name for name in others if name not in _SPLITS][:1])
    for one, other in combinations(sorted(name for name, of in inner.items() if len(of) > 1), 2):
        if len(common := inner[one] & inner[other]) > 1:
            what = f"{one}/ and {other}/ have {some_of(sorted(common), 3)} in them, so they may be domains"
            raise ConfigError("--data.domains", what, "true, or false if they are the classes")


def _domains(images: Sequence[Labelled]) -> list[str]:
    return [image.domain for image in images]


def _annotated(tree: FileTree, root: Path, known: set[str]) -> list[Labelled]:
    """Tiny-ImageNet's validation images: one folder, and a list of file name, class and box."""
    images = []
    for number, line in enumerate(tree.read(ANNOTATIONS).decode(errors="replace").splitlines(), start=1):
        name, _, rest = line.partition("\t")
        path, folder = f"val/images/{name}", rest.partition("\t")[0]
        if folder not in known or path not in tree.stamps:
            wrong = f"{path} does not exist" if folder in known else f"class {folder!r} has no folder in train/"
            raise ConfigError(root, f"{ANNOTATIONS}, line {number}: {wrong}")
        images.append(Labelled(path, folder, ""))
    return images


def _class_names(tree: FileTree, folders: Sequence[str]) -> tuple[str, ...]:
    """The first name that words.txt has for each folder, with the folder where two classes share it (crane, crane)."""
    if "words.txt" not in tree.stamps:
        return tuple(folders)
    lines = tree.read("words.txt").decode(errors="replace").splitlines()
    words = {folder: names.partition(",")[0].strip() for folder, _, names in (line.partition("\t") for line in lines)}
    named = [words.get(folder) or folder for folder in folders]
    return tuple(n if named.count(n) == 1 else f"{n} ({f})" for n, f in zip(named, folders, strict=True))
