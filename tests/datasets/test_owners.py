"""Names of clients beside the samples of an .npz file and of any data set, and in the cache."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from fl_ddp.datasets.array_cache import cached
from fl_ddp.datasets.dataset import Arrays, Dataset
from fl_ddp.datasets.npz import Npz
from fl_ddp.datasets.owners import owners_of
from fl_ddp.errors import ConfigError
from fl_ddp.protocol import Owners

X, Y = np.zeros((3, 2), np.float32), np.array([0, 1, 1])


def npz(folder: Path, **named: object) -> Npz:
    arrays = {"x_train": X, "y_train": Y, "x_test": X[:2], "y_test": Y[:2], **named}
    np.savez(folder / "mine.npz", **{key: np.asarray(value) for key, value in arrays.items()})  # type: ignore[arg-type]
    return Npz(path=str(folder / "mine.npz"))


@dataclass(frozen=True)
class Named(Dataset):
    """Three samples with owners."""

    owners: Owners | None = None

    def read(self) -> Arrays:
        return Arrays(X, Y, X[:2], Y[:2], ("0", "1"), owners=self.owners)


def refusal(source: Dataset) -> str:
    with pytest.raises(ConfigError) as error:
        source.load()
    assert "\n" not in str(error.value)
    return str(error.value)


def assert_owners(found: Owners | None, names: tuple[str, ...], train: list[int], test: list[int] | None) -> None:
    assert found is not None and found.names == names
    assert found.train.dtype == np.int64 and found.train.tolist() == train
    assert (None if found.test is None else found.test.tolist()) == test


def test_names_are_in_order_and_numbers_by_their_size() -> None:
    assert_owners(owners_of(["b", "10", "9"], ["a", "b"]), ("10", "9", "a", "b"), [3, 0, 1], [2, 3])
    assert_owners(owners_of(["10", "9", "100"], ["2"]), ("2", "9", "10", "100"), [2, 1, 3], [0])
    assert_owners(owners_of(["1", "01", "1"]), ("01", "1"), [1, 0, 1], None)


def test_an_npz_names_clients_by_numbers_texts_or_bytes(tmp_path: Path) -> None:
    assert npz(tmp_path).load().owners is None
    assert_owners(npz(tmp_path, client_train=[7, 7, 11]).load().owners, ("7", "11"), [0, 0, 1], None)
    texts = {"client_train": ["ö", "a", "ö"], "client_test": ["b", "a"]}
    assert_owners(npz(tmp_path, **texts).load().owners, ("a", "b", "ö"), [2, 0, 2], [1, 0])
    assert_owners(npz(tmp_path, client_train=np.array([b"y", b"x", b"y"])).load().owners, ("x", "y"), [1, 0, 1], None)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"client_test": [0, 1]}, "client_test: names clients, and there is no client_train"),
        ({"client_train": [0, 1]}, "client_train: int64 of shape [2] does not name the clients of 3 samples"),
        ({"client_train": [0.5, 1, 2]}, "client_train: float64 names no clients; accepted: texts or whole numbers"),
        ({"client_train": [[0], [1], [2]]}, "client_train: shape [3, 1] is no list of names; accepted: [N]"),
        (
            {"client_train": [0, 1, 2], "client_test": [0] * 3},
            "client_test: int64 of shape [3] does not name the clients of 2 samples",
        ),
    ],
)
def test_wrong_names_in_an_npz_are_refused_in_one_line(tmp_path: Path, named: dict[str, object], message: str) -> None:
    assert message in refusal(npz(tmp_path, **named))


@pytest.mark.parametrize(
    ("owners", "message"),
    [
        (Owners(("a", "a"), np.zeros(3, np.int64)), "--data Named: two clients have one name; names must be distinct"),
        (Owners(("a",), np.array([0, 1, 0])), "--data Named: client_train: a client is none of the 1 that have names"),
        (Owners(("a",), np.array([0, -2, 0])), "--data Named: client_train: a client is none of the 1"),
        (Owners(("a",), np.zeros(3, np.int64), np.array([0, 5])), "--data Named: client_test: a client is none of"),
        (Owners(("a",), np.zeros(3)), "--data Named: client_train: float64 of shape [3] does not name the clients"),  # type: ignore[arg-type]
    ],
)
def test_wrong_owners_of_any_source_are_refused_in_one_line(owners: Owners, message: str) -> None:
    assert refusal(Named(owners=owners)).startswith(message)


@pytest.mark.parametrize("test", [None, [1, 1]])
def test_the_cache_keeps_the_owners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, test: list[int] | None) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    owners = Owners(("a", "ö"), np.array([1, 0, 1]), None if test is None else np.array(test))
    for build in (Named(owners=owners).read, Named().read):  # the second is not called
        assert_owners(cached("mine", build).owners, ("a", "ö"), [1, 0, 1], test)
    assert cached("others", Named().read).owners is None
    assert cached("others", Named(owners=owners).read).owners is None
