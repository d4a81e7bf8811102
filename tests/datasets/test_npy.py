"""Arrays in files of their own: they are those of a .npz file, mapped, and what is refused."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from launching import SMALL, numbers, simulated

from fl_ddp.datasets.npy import Npy
from fl_ddp.datasets.npz import Npz
from fl_ddp.errors import ConfigError

RANDOM = np.random.default_rng(0)
ARRAYS: Mapping[str, npt.NDArray[np.generic]] = {
    "x_train": RANDOM.random((60, 5)).astype(np.float32), "y_train": np.arange(60) % 3,
    "x_test": RANDOM.random((20, 5)).astype(np.float32), "y_test": np.arange(20) % 3,
    "classes": np.array(["a", "b", "c"]), "client_train": np.arange(60) % 4, "client_test": np.arange(20) % 4,
}  # fmt: skip


def written(folder: Path, arrays: Mapping[str, npt.NDArray[np.generic]] = ARRAYS) -> Path:
    folder.mkdir()
    for key, array in arrays.items():
        np.save(folder / f"{key}.npy", array)
    return folder


def refusal(path: str | Path) -> str:
    with pytest.raises(ConfigError) as error:
        Npy(path=str(path)).load()
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_run_has_the_bits_of_one_on_the_same_npz(tmp_path: Path) -> None:
    np.savez(tmp_path / "same.npz", **ARRAYS)  # type: ignore[arg-type]
    natural = {**SMALL, "partition": "Natural", "clients": 4, "cohort": 3, "rounds": 2}
    one = simulated({**natural, "data": str(tmp_path / "same.npz")}, tmp_path / "one")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        folder = written(tmp_path / "mine")
        other = simulated({**natural, "data": "Npy", "data.path": str(folder)}, tmp_path / "other")
    assert numbers(one) == numbers(other)
    np.testing.assert_array_equal(np.load(folder / "x_train.npy"), ARRAYS["x_train"])


def test_large_arrays_are_mapped_and_others_converted_as_of_an_npz(tmp_path: Path) -> None:
    mapped = Npy(path=str(written(tmp_path / "mine"))).load()
    assert isinstance(mapped.x_train.base, np.memmap) and mapped.x_train.flags.writeable
    assert mapped.classes == ("a", "b", "c")
    pixels = {"x_train": np.full((6, 4, 4, 3), 7, np.uint8), "x_test": np.full((3, 4, 4, 3), 7, np.uint8)}
    arrays: dict[str, npt.NDArray[np.generic]] = {
        **pixels,
        "y_train": np.arange(6, dtype=np.int32) % 3,
        "y_test": np.arange(3),
    }
    np.savez(tmp_path / "same.npz", allow_pickle=False, **arrays)
    ours, theirs = Npy(path=str(written(tmp_path / "pixels", arrays))).load(), Npz(path=f"{tmp_path}/same.npz").load()
    assert ours.x_train.shape == (6, 3, 4, 4) and ours.classes == theirs.classes == ("0", "1", "2")
    assert ours.owners is theirs.owners is None and ours.y_train.dtype == np.int64


def test_what_is_wrong_is_told_with_its_file(tmp_path: Path) -> None:
    assert refusal("") == (
        "--data.path: no folder is named; accepted: a folder with x_train.npy, y_train.npy, x_test.npy, y_test.npy"
    )
    assert refusal(tmp_path / "no").startswith(f"--data.path: {tmp_path}/no does not exist; accepted: a folder with")
    folder = written(tmp_path / "mine")
    assert "x_train.npy is no folder" in refusal(folder / "x_train.npy")
    whole = (folder / "y_test.npy").read_bytes()
    np.save(folder / "y_test.npy", np.array([None] * 20), allow_pickle=True)
    assert refusal(folder).startswith(f"{folder}/y_test.npy: cannot be read as a plain array (")
    (folder / "y_test.npy").write_bytes(whole[:-9])
    assert refusal(folder).startswith(f"{folder}/y_test.npy: cannot be read as a plain array (")
    (folder / "y_test.npy").write_bytes(b"cos\nsystem\n")
    assert refusal(folder) == f"{folder}/y_test.npy: is not a .npy file; accepted: one written by numpy.save"
    (folder / "y_test.npy").unlink()
    assert refusal(folder).startswith(f"{folder}: has no y_test.npy; accepted: a folder with x_train.npy")
    np.save(folder / "y_test.npy", np.zeros(20))
    assert refusal(folder).startswith(f"{folder}/y_test.npy: float64 of shape [20] are no labels")
