"""MNIST, its relatives and CIFAR: from tiny files, from a server of our own, and the real ones."""

from __future__ import annotations

import gzip
import hashlib
import os
import struct
import threading
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pytest
import torchvision

from fl_ddp.datasets.cifar import CIFAR10, CIFAR100
from fl_ddp.datasets.dataset import Dataset
from fl_ddp.datasets.mnist import EMNIST, MNIST, FashionMNIST
from fl_ddp.errors import ConfigError

UNREACHABLE = "http://127.0.0.1:9/"


def refusal(source: Dataset) -> str:
    """The one line that a source refuses with."""
    with pytest.raises(ConfigError) as error:
        source.load()
    assert "\n" not in str(error.value)
    return str(error.value)


def idx(values: npt.NDArray[np.uint8]) -> bytes:
    return struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape) + values.tobytes()


def pixels(*shape: int) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, shape, np.uint8)


MNIST_FILES = {
    "train-images-idx3-ubyte": idx(pixels(12, 5, 4)),
    "train-labels-idx1-ubyte": idx(np.arange(12, dtype=np.uint8) % 10),
    "t10k-images-idx3-ubyte": idx(pixels(3, 5, 4)),
    "t10k-labels-idx1-ubyte": idx(np.array([9, 0, 1], np.uint8)),
}


def write_mnist(root: Path, **changed: bytes) -> MNIST:
    """A tiny MNIST below root; changed files are named by what their name starts with, train_images and so on."""
    folder = root / "MNIST" / "raw"
    folder.mkdir(parents=True)
    for name, content in MNIST_FILES.items():
        (folder / name).write_bytes(changed.get("_".join(name.split("-")[:2]), content))
    return MNIST(root=str(root))


def test_mnist_files_become_images_with_a_channel(tmp_path: Path) -> None:
    arrays = write_mnist(tmp_path).load()
    np.testing.assert_array_equal(arrays.x_train, pixels(12, 5, 4)[:, None])
    np.testing.assert_array_equal(arrays.x_test, pixels(3, 5, 4)[:, None])
    assert arrays.x_train.dtype == np.uint8
    assert arrays.y_train.dtype == np.int64
    assert arrays.y_test.tolist() == [9, 0, 1]
    assert arrays.classes == tuple("0123456789")


def test_mnist_files_may_lie_there_gzipped(tmp_path: Path) -> None:
    source = write_mnist(tmp_path)
    for file in list(source.folder.iterdir()):
        file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    np.testing.assert_array_equal(source.load().x_test, pixels(3, 5, 4)[:, None])


@pytest.mark.parametrize(
    ("part", "content", "message"),
    [
        ("train_images", MNIST_FILES["train-images-idx3-ubyte"][:-1], "is 255 bytes long, its header says 256"),
        ("train_images", MNIST_FILES["train-images-idx3-ubyte"] + b"0", "is 257 bytes long, its header says 256"),
        ("train_images", MNIST_FILES["train-images-idx3-ubyte"][:9], "is 9 bytes long"),
        ("train_images", b"", "is not an idx file of unsigned bytes, or is cut short"),
        ("train_images", b"<html>not found</html>", "is not an idx file of unsigned bytes"),
        ("train_images", MNIST_FILES["train-labels-idx1-ubyte"], "holds labels where images are expected"),
        ("train_labels", MNIST_FILES["train-images-idx3-ubyte"], "holds images where labels are expected"),
        ("train_labels", MNIST_FILES["t10k-labels-idx1-ubyte"], "3 labels do not fit the 12 samples of "),
        ("t10k_labels", idx(np.array([0, 1, 10], np.uint8)), "label 10 is not one of the 10 classes"),
        ("t10k_images", idx(pixels(3, 4, 4)), "samples are uint8 of shape [1, 4, 4], those of the training set"),
    ],
)
def test_damaged_or_swapped_mnist_file_is_named(tmp_path: Path, part: str, content: bytes, message: str) -> None:
    line = refusal(write_mnist(tmp_path, **{part: content}))
    assert line.startswith(f"{tmp_path}/MNIST/raw/{part.replace('_', '-')}-idx")
    assert message in line


def test_damaged_gzip_file_is_named(tmp_path: Path) -> None:
    source = write_mnist(tmp_path)
    (source.folder / "t10k-labels-idx1-ubyte").unlink()
    packed = gzip.compress(MNIST_FILES["t10k-labels-idx1-ubyte"])
    for content in (packed[:-3], b"not gzip", packed[:-8] + b"\0" * 8):
        (source.folder / "t10k-labels-idx1-ubyte.gz").write_bytes(content)
        assert "t10k-labels-idx1-ubyte.gz: cannot be read" in refusal(source)


@pytest.mark.parametrize("kind", [MNIST, FashionMNIST, EMNIST, CIFAR10, CIFAR100])
def test_missing_data_says_what_where_and_how_to_get_it(tmp_path: Path, kind: Callable[..., MNIST | CIFAR10]) -> None:
    source = kind(root=str(tmp_path))
    line = refusal(source)
    for part in (source.files[0], str(source.folder), "--data.download true", "--data.root"):
        assert part in line
    assert list(tmp_path.iterdir()) == []


def test_emnist_images_are_turned_upright_and_letters_count_from_zero(tmp_path: Path) -> None:
    folder = tmp_path / "EMNIST" / "raw"
    folder.mkdir(parents=True)
    for part, num_samples in (("train", 26), ("test", 2)):
        (folder / f"emnist-letters-{part}-images-idx3-ubyte").write_bytes(idx(pixels(num_samples, 4, 4)))
        labels = np.arange(1, num_samples + 1, dtype=np.uint8)
        (folder / f"emnist-letters-{part}-labels-idx1-ubyte").write_bytes(idx(labels))
    arrays = EMNIST(root=str(tmp_path), split="letters").load()
    np.testing.assert_array_equal(arrays.x_train[:, 0], pixels(26, 4, 4).swapaxes(1, 2))
    np.testing.assert_array_equal(arrays.x_test[:, 0], pixels(2, 4, 4).swapaxes(1, 2))
    assert arrays.y_train.tolist() == list(range(26)) and arrays.y_test.tolist() == [0, 1]
    assert arrays.classes == tuple("abcdefghijklmnopqrstuvwxyz")


def test_emnist_classes_are_those_of_torchvision() -> None:
    for split, names in torchvision.datasets.EMNIST.classes_split_dict.items():
        assert EMNIST(split=split).class_names == tuple(name for name in names if name != "N/A")


def test_fashion_mnist_classes_are_those_of_torchvision() -> None:
    assert FashionMNIST().class_names == tuple(torchvision.datasets.FashionMNIST.classes)


def test_unknown_emnist_split_lists_the_known() -> None:
    with pytest.raises(ConfigError, match=r"--data\.split: ballanced is impossible; accepted: byclass, bymerge,"):
        EMNIST(split="ballanced")  # type: ignore[arg-type]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[Path, str, list[str]]]:
    """A folder that is served, its address, and what was fetched from it."""
    folder, fetched = tmp_path / "served", list[str]()
    folder.mkdir()

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            if self.command == "GET":
                fetched.append(self.path)

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder))) as http:
        threading.Thread(target=http.serve_forever).start()
        yield folder, f"http://127.0.0.1:{http.server_port}/", fetched
        http.shutdown()


def serve(monkeypatch: pytest.MonkeyPatch, source: type, folder: Path, address: str) -> None:
    """Let torchvision's MNIST look for the tiny files on our server."""
    resources = []
    for name, content in MNIST_FILES.items():
        packed = gzip.compress(content)
        (folder / f"{name}.gz").write_bytes(packed)
        resources.append((f"{name}.gz", hashlib.md5(packed).hexdigest()))
    monkeypatch.setattr(source, "mirrors", [UNREACHABLE, address])
    monkeypatch.setattr(source, "resources", resources)


def test_download_by_several_at_once_fetches_each_file_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: tuple[Path, str, list[str]]
) -> None:
    folder, address, fetched = server
    serve(monkeypatch, torchvision.datasets.MNIST, folder, address)
    MNIST(root=str(tmp_path / "alone"), download=True).load()
    alone, source = sorted(fetched), MNIST(root=str(tmp_path / "data"), download=True)
    fetched.clear()
    with ThreadPoolExecutor(3) as pool:
        loaded = list(pool.map(lambda _: source.load(), range(3)))
    assert all(np.array_equal(arrays.x_train, pixels(12, 5, 4)[:, None]) for arrays in loaded)
    assert sorted(fetched) == alone
    assert set(alone) == {f"/{name}.gz" for name in MNIST_FILES}
    assert {path.name for path in source.folder.iterdir()} == {*MNIST_FILES, ".download.lock"}


def test_download_with_a_wrong_checksum_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: tuple[Path, str, list[str]]
) -> None:
    folder, address, _ = server
    serve(monkeypatch, torchvision.datasets.MNIST, folder, address)
    (folder / "t10k-images-idx3-ubyte.gz").write_bytes(b"something else")
    source = MNIST(root=str(tmp_path / "data"), download=True)
    assert "MNIST could not be fetched (" in refusal(source)
    assert [path.name for path in source.folder.iterdir()] == [".download.lock"]


def test_emnist_download_unpacks_the_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: tuple[Path, str, list[str]]
) -> None:
    folder, address, _ = server
    with zipfile.ZipFile(folder / "gzip.zip", "w") as archive:
        for name, content in MNIST_FILES.items():
            ours = name.replace("t10k", "test")
            archive.writestr(f"gzip/emnist-digits-{ours}.gz", gzip.compress(content))
    monkeypatch.setattr(torchvision.datasets.EMNIST, "url", f"{address}gzip.zip")
    monkeypatch.setattr(torchvision.datasets.EMNIST, "md5", hashlib.md5((folder / "gzip.zip").read_bytes()).hexdigest())
    arrays = EMNIST(root=str(tmp_path / "data"), split="digits", download=True).load()
    np.testing.assert_array_equal(arrays.x_train[:, 0], pixels(12, 5, 4).swapaxes(1, 2))


@pytest.mark.parametrize("kind", [MNIST, FashionMNIST, EMNIST, CIFAR10])
def test_failed_download_is_one_line_that_says_where_files_belong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Callable[..., MNIST | CIFAR10]
) -> None:
    for name in ("MNIST", "FashionMNIST"):
        monkeypatch.setattr(getattr(torchvision.datasets, name), "mirrors", [UNREACHABLE])
    for name in ("EMNIST", "CIFAR10"):
        monkeypatch.setattr(getattr(torchvision.datasets, name), "url", f"{UNREACHABLE}file.tar.gz")
    source = kind(root=str(tmp_path), download=True)
    line = refusal(source)
    assert f"--data.download: {type(source).__name__} could not be fetched (" in line
    assert str(source.folder) in line


def test_cifar_file_with_a_wrong_checksum_is_named_and_never_opened(tmp_path: Path) -> None:
    source, marker = CIFAR10(root=str(tmp_path)), tmp_path / "opened"
    source.folder.mkdir()
    for name in source.files:
        (source.folder / name).write_bytes(f"cos\nmkdir\n(S'{marker}'\ntR.".encode())  # a pickle that leaves a trace
    line = refusal(source)
    assert line.startswith(f"{source.folder}/data_batch_1: its MD5 sum is not the published one")
    assert not marker.exists()


class TinyCIFAR:
    """What torchvision's class of that name shows of its files, with images that are not square."""

    base_folder = "cifar"
    classes: ClassVar[list[str]] = ["airplane", "truck", "ship"]

    def __init__(self, root: Path, train: bool) -> None:
        self.data = pixels(6, 5, 4, 3) if train else 255 - pixels(2, 5, 4, 3)
        self.targets = [2, 0, 1, 1, 0, 2] if train else [1, 0]


def test_cifar_images_are_upright_and_each_set_has_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CIFAR10, "_source", lambda self: TinyCIFAR)
    arrays = CIFAR10(root=str(tmp_path)).parse()
    np.testing.assert_array_equal(arrays.x_train, np.moveaxis(pixels(6, 5, 4, 3), 3, 1))
    np.testing.assert_array_equal(arrays.x_test, np.moveaxis(255 - pixels(2, 5, 4, 3), 3, 1))
    assert (arrays.y_train.tolist(), arrays.y_test.tolist()) == ([2, 0, 1, 1, 0, 2], [1, 0])
    assert arrays.classes == ("airplane", "truck", "ship")


@pytest.mark.data
def test_real_mnist_is_complete() -> None:
    arrays = MNIST(root=os.environ["FL_DDP_DATA"]).load()
    assert (arrays.x_train.shape, arrays.x_test.shape) == ((60000, 1, 28, 28), (10000, 1, 28, 28))
    assert arrays.y_train[:5].tolist() == [5, 0, 4, 1, 9]
    assert arrays.x_train.mean() / 255 == pytest.approx(0.1307, abs=5e-5)


@pytest.mark.data
def test_real_cifar10_is_complete_and_in_the_order_of_its_classes() -> None:
    arrays = CIFAR10(root=os.environ["FL_DDP_DATA"]).load()
    assert (arrays.x_train.shape, arrays.x_test.shape) == ((50000, 3, 32, 32), (10000, 3, 32, 32))
    assert (arrays.classes[0], arrays.classes[9]) == ("airplane", "truck")
    np.testing.assert_allclose(arrays.x_train.mean((0, 2, 3)) / 255, [0.4914, 0.4822, 0.4465], atol=5e-5)
    assert Counter(arrays.y_train.tolist()) == dict.fromkeys(range(10), 5000)


@pytest.mark.data
def test_one_changed_byte_in_real_cifar10_is_refused(tmp_path: Path) -> None:
    real = CIFAR10(root=os.environ["FL_DDP_DATA"])
    source = CIFAR10(root=str(tmp_path))
    source.folder.mkdir()
    for name in real.files:
        (source.folder / name).symlink_to(real.folder.resolve() / name)
    content = bytearray((source.folder / "test_batch").read_bytes())
    content[len(content) // 2] ^= 1
    (source.folder / "test_batch").unlink()
    (source.folder / "test_batch").write_bytes(content)
    assert refusal(source).startswith(f"{source.folder}/test_batch: its MD5 sum")
