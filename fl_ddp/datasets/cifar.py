"""CIFAR-10 and CIFAR-100."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fl_ddp.datasets.dataset import Arrays
from fl_ddp.datasets.download import Downloadable
from fl_ddp.reading.homes import users_path

if TYPE_CHECKING:
    import torchvision


@dataclass(frozen=True)
class CIFAR10(Downloadable):
    """60,000 colour photographs of 32 x 32 pixels in ten classes, 50,000 of them for training.

    The files are pickles: torchvision opens one only after all have shown the published MD5 sums.

    Source: Krizhevsky 2009, "Learning multiple layers of features from tiny images".
    """

    @property
    def folder(self) -> Path:
        """Where the files lie: torchvision's layout."""
        return users_path("--data.root", self.root) / str(self._source().base_folder)

    @property
    def files(self) -> tuple[str, ...]:
        """The batches and the file of class names."""
        return tuple(self._sums())

    def origin(self, part: str) -> str:
        """The folder all parts come from."""
        return f"{self.folder}: {part}"

    def parse(self) -> Arrays:
        """Read all batches; images become [N, 3, 32, 32] uint8."""
        root = users_path("--data.root", self.root)
        try:
            train, test = (self._source()(root, train=part) for part in (True, False))
        except RuntimeError:
            raise self._blame() from None
        y_train, y_test = (np.asarray(source.targets, np.int64) for source in (train, test))
        return Arrays(_channels_first(train.data), y_train, _channels_first(test.data), y_test, tuple(train.classes))

    def fetch(self, into: Path) -> Path:
        """Download and unpack the one archive."""
        from torchvision.datasets.utils import download_and_extract_archive

        source = self._source()
        download_and_extract_archive(source.url, into, filename=source.filename, md5=source.tgz_md5)
        return into / str(source.base_folder)

    def _source(self) -> type[torchvision.datasets.CIFAR10]:
        import torchvision.datasets  # takes seconds to import: only runs on this data pay for it

        source: type[torchvision.datasets.CIFAR10] = getattr(torchvision.datasets, type(self).__name__)
        return source

    def _sums(self) -> dict[str, str]:
        source = self._source()
        return dict([*source.train_list, *source.test_list, (source.meta["filename"], source.meta["md5"])])

    def _blame(self) -> Exception:
        """The error that names the file whose MD5 sum is wrong."""
        from torchvision.datasets.utils import check_integrity

        wrong = next((name for name, md5 in self._sums().items() if not check_integrity(self.folder / name, md5)), "")
        return self.damaged(self.folder / wrong, "its MD5 sum is not the published one, so it is not opened")


@dataclass(frozen=True)
class CIFAR100(CIFAR10):
    """60,000 colour photographs of 32 x 32 pixels in a hundred classes, 50,000 of them for training.

    Source: Krizhevsky 2009, as CIFAR-10.
    """


def _channels_first(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
