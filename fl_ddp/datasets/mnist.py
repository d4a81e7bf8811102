"""MNIST and the data sets that share its file format."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.error import URLError

import numpy as np
import numpy.typing as npt

from fl_ddp.datasets.dataset import Arrays
from fl_ddp.datasets.download import Downloadable
from fl_ddp.datasets.idx import read_idx
from fl_ddp.protocol import Inputs
from fl_ddp.reading.homes import users_path

Split = Literal["byclass", "bymerge", "balanced", "letters", "digits", "mnist"]


@dataclass(frozen=True)
class MNIST(Downloadable):
    """70,000 handwritten digits of 28 x 28 pixels, 60,000 of them for training.

    Source: LeCun et al. 1998, "Gradient-based learning applied to document recognition".
    """

    @property
    def folder(self) -> Path:
        """Where the files lie: torchvision's layout."""
        return users_path("--data.root", self.root) / type(self).__name__ / "raw"

    @property
    def files(self) -> tuple[str, ...]:
        """The four idx files; each may also lie there gzipped, as downloaded."""
        return tuple(self._file(part) for part in ("x_train", "y_train", "x_test", "y_test"))

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the labels."""
        return tuple(str(digit) for digit in range(10))

    def origin(self, part: str) -> str:
        """The file a part comes from."""
        return str(self.find(self._file(part)) or self.folder / self._file(part))

    def find(self, name: str) -> Path | None:
        """The file of that name, plain or gzipped."""
        return super().find(name) or super().find(f"{name}.gz")

    def parse(self) -> Arrays:
        """Read the four files; images become [N, 1, 28, 28] uint8."""
        x_train, x_test = (self._read(part, 3)[:, None] for part in ("x_train", "x_test"))
        y_train, y_test = (self._read(part, 1).astype(np.int64) for part in ("y_train", "y_test"))
        return Arrays(x_train, y_train, x_test, y_test, self.class_names)

    def fetch(self, into: Path) -> Path:
        """Download the four files from the first mirror that has them."""
        import torchvision.datasets  # takes seconds to import: only a download pays for it
        from torchvision.datasets.utils import download_and_extract_archive

        source = getattr(torchvision.datasets, type(self).__name__)
        for name, md5 in source.resources:
            failures = []
            for mirror in source.mirrors:
                try:
                    download_and_extract_archive(f"{mirror}{name}", into, filename=name, md5=md5)
                    break
                except (RuntimeError, URLError) as error:
                    failures.append(f"{mirror}{name}: {error}")
            else:
                raise RuntimeError("; ".join(failures))
        return into

    def _file(self, part: str) -> str:
        kind = "images-idx3-ubyte" if part.startswith("x") else "labels-idx1-ubyte"
        return f"{'train' if part.endswith('train') else 't10k'}-{kind}"

    def _read(self, part: str, ndim: int) -> npt.NDArray[np.uint8]:
        path = Path(self.origin(part))
        try:
            return read_idx(path, ndim)
        except ValueError as error:
            raise self.damaged(path, str(error)) from None


@dataclass(frozen=True)
class FashionMNIST(MNIST):
    """70,000 grey images of ten kinds of clothes, 28 x 28 pixels, 60,000 of them for training.

    Source: Xiao et al. 2017, arXiv:1708.07747.
    """

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the labels."""
        return (
            "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
        )  # fmt: skip


@dataclass(frozen=True)
class EMNIST(MNIST):
    """Handwritten letters and digits of 28 x 28 pixels, turned upright (the files hold them transposed).

    Attributes:
        split: balanced has 47 classes of 2,400 training images each; letters are numbered from 0 here, not from 1.

    Source: Cohen et al. 2017, arXiv:1702.05373.
    """

    split: Split = "balanced"

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the labels."""
        digits, capitals, small = "0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"
        merged = "abdefghnqrt"  # the small letters that do not look like their capitals
        names = {"byclass": digits + capitals + small, "letters": small, "digits": digits, "mnist": digits}
        return tuple(names.get(self.split, digits + capitals + merged))

    def parse(self) -> Arrays:
        """Read the split's four files; images become upright [N, 1, 28, 28] uint8."""
        stored = super().parse()
        first = 1 if self.split == "letters" else 0
        y_train, y_test = stored.y_train - first, stored.y_test - first
        return Arrays(_transposed(stored.x_train), y_train, _transposed(stored.x_test), y_test, stored.classes)

    def fetch(self, into: Path) -> Path:
        """Download the one archive of all splits and unpack this split's files."""
        import torchvision.datasets  # takes seconds to import, see MNIST
        from torchvision.datasets.utils import download_and_extract_archive, extract_archive

        source = torchvision.datasets.EMNIST
        download_and_extract_archive(source.url, into, md5=source.md5)
        for name in self.files:
            extract_archive(into / "gzip" / f"{name}.gz", into)
        return into

    def _file(self, part: str) -> str:
        kind = "images-idx3-ubyte" if part.startswith("x") else "labels-idx1-ubyte"
        return f"emnist-{self.split}-{part.removeprefix('x_').removeprefix('y_')}-{kind}"


def _transposed(images: Inputs) -> Inputs:
    return images.swapaxes(2, 3).copy()
