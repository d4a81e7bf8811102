"""Files of data that cannot be read, whatever is wrong with them."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fl_ddp.datasets.array_cache import cached
from fl_ddp.datasets.dataset import Arrays
from fl_ddp.datasets.image_folder import ImageFolder
from fl_ddp.datasets.npz import Npz
from fl_ddp.errors import ConfigError

CLASSES = np.array([0, 1])
PIXELS = np.random.default_rng(0).integers(0, 256, (2, 50, 40), np.uint8)


def encrypted(path: Path) -> None:
    """Have a zip file say that what it holds is encrypted."""
    content = bytearray(path.read_bytes())
    for head, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        for found in re.finditer(re.escape(head), bytes(content)):
            content[found.start() + flags] |= 1
    path.write_bytes(content)


def broken_lzma(path: Path) -> None:
    """Pack a zip file anew by LZMA, and break what is packed."""
    with zipfile.ZipFile(path) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        for name, packed in held.items():
            archive.writestr(name, packed)
        first = archive.infolist()[0]
    content = bytearray(path.read_bytes())
    start = first.header_offset + 30 + len(first.filename) + 9  # behind LZMA's own head
    content[start : start + 40] = b"\xff" * 40
    path.write_bytes(content)


DAMAGES = pytest.mark.parametrize("damage", [encrypted, broken_lzma])


def written(path: Path) -> Path:
    np.savez(path, x_train=PIXELS, y_train=CLASSES, x_test=PIXELS, y_test=CLASSES)
    return path


@DAMAGES
def test_arrays_are_refused_in_one_line(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    damage(path := written(tmp_path / "mine.npz"))
    with pytest.raises(ConfigError, match=r"mine\.npz: cannot be read as \.npz of plain arrays \(.+\)$"):
        Npz(path=str(path)).load()


@DAMAGES
def test_images_are_refused_in_one_line(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    path = tmp_path / "pets.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("train/ant/a.png", "test/ant/b.png"):
            archive.writestr(name, PIXELS.tobytes())
    damage(path)
    with pytest.raises(ConfigError, match=r"pets\.zip: train/ant/a\.png cannot be read \(.+\)$"):
        ImageFolder(root=str(path)).load()


@DAMAGES
def test_what_is_kept_of_another_run_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], None]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    built = Arrays(PIXELS[:, None], CLASSES, PIXELS[:, None], CLASSES, ("ant", "bee"))
    cached("pets", lambda: built)
    (file,) = tmp_path.rglob("pets.npz")
    damage(file)
    assert cached("pets", lambda: built) is built
    assert (cached("pets", lambda: pytest.fail("it is there")).x_train == built.x_train).all()
