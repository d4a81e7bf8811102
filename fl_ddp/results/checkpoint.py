"""Checkpoints: the whole state of a run after a finished round, in public formats, for any number of ranks.

    checkpoints/round_000010/server.safetensors     server state, replicated, written by rank 0
                             memory.3.safetensors   clients of rank 3: `ids` [n] int64, memories stacked [n, ...]
                             state.json             round, accuracy, the caller's state, size and sha256 of each file
    checkpoints/latest, best                        names of folders, for people and scripts

A folder appears under its name by one rename after all of its files are on the disk. When a run goes on, the newest
folder is taken; `latest` and `best` are not needed for that. What is found wrong is told apart:

- **Cut short** (power loss, full disk, half-finished copy): a file is missing or smaller than recorded, or state.json
  is empty or stops in the middle. The checkpoint is skipped with a warning, the one before is used.
- **Refused** (edited or foreign): a file of the recorded size or larger with another sha256, a state.json that is
  malformed, of an unknown format or whose own sha256 is wrong, tensors of other names, shapes or types than the run's.
  A ConfigError names the file, because going on from an older state would hide what happened. Nothing is unpickled.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from fl_ddp.errors import ConfigError, RunError
from fl_ddp.host.atomic_file import replacing, sync_file, sync_folder, write_synced, writing
from fl_ddp.protocol import Tensors
from fl_ddp.reading.json_file import read_json

FORMAT = 1
SERVER = "server.safetensors"


class _CutShortError(Exception):
    """The checkpoint is incomplete; the one before it can be used."""


def temporary_folder(run: Path, round: int) -> Path:
    """Where a checkpoint after so many finished rounds is written."""
    return run / "checkpoints" / f".round_{round:06d}.tmp"


def begin(run: Path, round: int) -> Path:
    """Make the temporary folder of a checkpoint after so many finished rounds; leftovers of a crash go. Rank 0 only.

    Raises:
        RunError: it cannot be made.
    """
    temporary = temporary_folder(run, round)
    with writing(temporary):
        for leftover in temporary.parent.glob(".*.tmp"):
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
        temporary.parent.mkdir(exist_ok=True)  # a run's folder that somebody has removed is not made again
        temporary.mkdir()
    return temporary


def write_server(temporary: Path, server: Tensors) -> None:
    """Write the server state into a folder made by begin(), not yet to the disk. Rank 0 only.

    Raises:
        RunError: the disk is full or the like; the temporary folder is gone, older checkpoints are untouched.
    """
    _write(temporary / SERVER, server)


def write_memory(temporary: Path, rank: int, memory: Tensors) -> None:
    """Write the memories of the clients a rank holds into a folder made by begin(). Any rank that has some.

    Args:
        temporary: what begin() made on rank 0.
        rank: of the writer.
        memory: `ids` [n] int64, the clients, and one tensor [n, ...] per name.

    Raises:
        RunError: like write_server().
    """
    assert all(len(tensor) == len(memory["ids"]) for tensor in memory.values())
    file = temporary / f"memory.{rank}.safetensors"
    _write(file, memory)
    with _undone_on_failure(temporary):
        sync_file(file)  # which rank 0 may not be able to do, on another machine


def commit(
    run: Path, temporary: Path, state: Mapping[str, object], keep: int, goodness: float | None, since: int = 0
) -> Path:
    """Turn the temporary folder into a checkpoint once every rank has written its files. Rank 0 only.

    Args:
        run: the run's folder.
        temporary: what begin() returned.
        state: whatever else the run needs to go on; JSON values.
        keep: number of newest checkpoints kept, beside the best one.
        goodness: of the saved model, finite, the more the better; None where it was not evaluated.
        since: the first round whose goodness compares with it, as it is of the same test samples.

    Returns:
        the checkpoint's folder.

    Raises:
        RunError: like write_server().
    """
    final = temporary.with_name(temporary.name.removeprefix(".").removesuffix(".tmp"))
    document: dict[str, object] = {"format": FORMAT, "round": _round(final), "accuracy": goodness, "state": dict(state)}
    with _undone_on_failure(temporary):
        sync_file(temporary / SERVER)
        files = {}
        for digest in sorted(temporary.glob("*.sha256")):
            files[digest.stem] = json.loads(digest.read_text())
            digest.unlink()
        document["files"] = files
        text = json.dumps({**document, "sha256": _digest(document)}, indent=1) + "\n"
        with writing(temporary / "state.json"):
            write_synced(temporary / "state.json", text.encode())
        # Left from before a resume that had to go back further.
        for outdated in _folders(run):
            if _round(outdated) >= _round(final):
                shutil.rmtree(outdated)
        temporary.rename(final)
        sync_folder(final.parent)
    folders = _folders(run)
    # Of equally good ones the oldest, max() takes the first.
    compared = {folder: _goodness(folder) for folder in folders if _round(folder) >= since}
    best = max((each for each in compared if compared[each] > -math.inf), key=compared.__getitem__, default=None)
    with writing(final.parent):
        _point(final.parent / "best", best)
        _point(final.parent / "latest", final)
        for folder in folders[:-keep]:
            if folder != best:
                shutil.rmtree(folder)
    return final


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on the disk.

    Attributes:
        path: its folder.
        round: number of finished rounds.
        goodness: of the saved model; None where it was not evaluated. In the file it is `accuracy`, which it mostly is.
        state: what commit() was given.
    """

    path: Path
    round: int
    goodness: float | None
    state: Mapping[str, object]

    def server(self, like: Tensors) -> Tensors:
        """The server state.

        Args:
            like: a server state of this run: names, shapes and types to expect.

        Raises:
            ConfigError: the file holds something else.
        """
        file = self.path / SERVER
        with _reading(file), safe_open(file, "pt") as tensors:
            # Cloned, because safetensors may map the file, which pruning removes later.
            server = {name: tensors.get_tensor(name).clone() for name in sorted(tensors.keys())}
        _check(file, server, like)
        return server

    def memory(self, owned: Callable[[int], bool], like: Tensors) -> dict[int, Tensors]:
        """The memories of some clients by client id, whatever number of ranks wrote them; others are not read.

        Args:
            owned: whether a client is wanted.
            like: one client's memory in this run: names, shapes and types to expect.

        Raises:
            ConfigError: a file holds something else.
        """
        memory: dict[int, Tensors] = {}
        for file in sorted(self.path.glob("memory.*.safetensors")):
            with _reading(file), safe_open(file, "pt") as tensors:
                names = sorted(set(tensors.keys()) - {"ids"})
                ids = tensors.get_tensor("ids").tolist() if "ids" in tensors.keys() else []  # noqa: SIM118
                rows = {name: tensors.get_slice(name) for name in names}
                for row, client in enumerate(ids):
                    if owned(client):
                        memory[client] = {name: rows[name][row : row + 1][0].clone() for name in names}
                        _check(file, memory[client], like)
        return memory


class Newest(NamedTuple):
    """What newest() found: the checkpoint to go on from, and a line for each one that had to be skipped."""

    checkpoint: Checkpoint | None
    warnings: list[str]


def newest(run: Path) -> Newest:
    """The newest complete checkpoint; every byte of it was compared with its sha256.

    Raises:
        ConfigError: it was edited, or comes from elsewhere.
    """
    warnings: list[str] = []
    for folder in reversed(_folders(run)):
        try:
            return Newest(_read(folder, verify=True), warnings)
        except _CutShortError as error:
            warnings.append(f"{error}; this checkpoint is skipped")
    return Newest(None, warnings)


def load(run: Path, round: int, *, verify: bool = False) -> Checkpoint:
    """The checkpoint after a round, which newest() verified on another rank, or which is verified here.

    Raises:
        ConfigError: it is not there; or it was edited.
    """
    folder = run / "checkpoints" / f"round_{round:06d}"
    try:
        return _read(folder, verify=verify)
    except _CutShortError as error:
        hint = "" if verify else "; do all ranks see the same run folder?"
        raise ConfigError(folder, f"cannot be used ({error}){hint}") from error


def rounds(run: Path) -> list[int]:
    """After which a run has checkpoints, ascending."""
    return [_round(folder) for folder in _folders(run)]


def best(run: Path) -> int | None:
    """The round of the best model that was saved; None if none of them was evaluated."""
    pointer = run / "checkpoints" / "best"
    name = pointer.read_text().strip() if pointer.is_file() else ""
    return next((_round(folder) for folder in _folders(run) if folder.name == name), None)


def _write(path: Path, tensors: Tensors) -> None:
    with _undone_on_failure(path.parent):
        try:
            save_file(_separate(tensors), path)
        except SafetensorError as error:
            raise RunError(f"{path}: cannot be written ({error})") from error
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        # Each rank hashes its own file; rank 0 only collects.
        path.with_name(f"{path.name}.sha256").write_text(json.dumps({"size": path.stat().st_size, "sha256": digest}))


def _separate(tensors: Tensors) -> Tensors:
    """CPU tensors that share no storage: a method may keep one tensor under two names, safetensors refuses that."""
    separate: Tensors = {}
    storages: set[int] = set()
    for name, tensor in tensors.items():
        tensor = tensor.detach().cpu().contiguous()
        storage = tensor.untyped_storage()
        if storage.data_ptr() in storages or storage.nbytes() != tensor.nbytes:
            tensor = tensor.clone()
        storages.add(tensor.untyped_storage().data_ptr())
        separate[name] = tensor
    return separate


@contextmanager
def _undone_on_failure(temporary: Path) -> Iterator[None]:
    try:
        with writing(temporary):
            yield
    except RunError:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


@contextmanager
def _reading(file: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise ConfigError(file, f"cannot be read ({error})") from error


def _check(file: Path, found: Tensors, like: Tensors) -> None:
    def listed(tensors: Tensors) -> dict[str, tuple[torch.Size, torch.dtype]]:
        return {name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()}

    ours, theirs = listed(like), listed(found)
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            has, needs = (_spelled(listing.get(name)) for listing in (theirs, ours))
            raise ConfigError(file, f"tensor {name!r} is {has}; this run needs {needs}; it is not a file of this run")


def _spelled(kind: tuple[torch.Size, torch.dtype] | None) -> str:
    return "absent" if kind is None else f"{list(kind[0])} {str(kind[1]).removeprefix('torch.')}"


def _folders(run: Path) -> list[Path]:
    """All checkpoints of a run, oldest first."""
    found = (path for path in (run / "checkpoints").glob("round_*") if re.fullmatch(r"round_\d+", path.name))
    return sorted(found, key=_round)


def _point(pointer: Path, folder: Path | None) -> None:
    """Write a folder's name, if it is not there already: replacing a file costs milliseconds."""
    name = f"{folder.name}\n".encode() if folder else b""
    if not name:
        pointer.unlink(missing_ok=True)
    elif not pointer.exists() or pointer.read_bytes() != name:
        with replacing(pointer) as file:
            file.write(name)


def _round(folder: Path) -> int:
    return int(folder.name.removeprefix("round_"))


def _goodness(folder: Path) -> float:
    """Of a saved model; minus infinity where it was not evaluated or the checkpoint cannot be read."""
    try:
        goodness = _read(folder).goodness
    except (_CutShortError, ConfigError):
        goodness = None
    return -math.inf if goodness is None else goodness


def _digest(document: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True, allow_nan=False).encode()).hexdigest()


def _document(folder: Path) -> dict[str, object]:
    """The content of state.json."""
    file = folder / "state.json"
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        raise _CutShortError(f"{folder} has no state.json") from None
    except OSError as error:
        raise ConfigError(file, f"cannot be read ({error})") from error
    if not content.endswith(b"}\n"):
        raise _CutShortError(f"{file} is cut short")
    document = read_json(file, f"was edited or damaged; remove {folder} to use the checkpoint before")
    if (version := document.get("format")) != FORMAT:
        raise ConfigError(file, f"format {version} is unknown; this version of fl_ddp reads format {FORMAT}")
    stored = document.pop("sha256", None)
    try:
        whole = stored == _digest(document) and document["round"] == _round(folder)
    except ValueError:  # of a number that is not finite, which no run writes
        whole = False
    if not whole:
        raise ConfigError(file, f"was edited or damaged (sha256); remove {folder} to use the checkpoint before")
    return document


def _read(folder: Path, *, verify: bool = False) -> Checkpoint:
    document = _document(folder)
    if verify:
        _verify(folder)
    round, goodness, state = document["round"], document["accuracy"], document["state"]
    assert isinstance(round, int) and isinstance(goodness, float | None) and isinstance(state, dict)
    return Checkpoint(folder, round, goodness, state)


def _verify(folder: Path) -> None:
    """Compare all files with their recorded size and sha256."""
    files = _document(folder)["files"]
    assert isinstance(files, dict)
    for name, recorded in files.items():
        file = folder / name
        if not file.is_file():
            raise _CutShortError(f"{file} is missing")
        if file.stat().st_size < recorded["size"]:
            raise _CutShortError(f"{file} is cut short ({file.stat().st_size} of {recorded['size']} bytes)")
        with _reading(file), file.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        if digest != recorded["sha256"]:
            raise ConfigError(file, f"was edited or damaged (sha256); remove {folder} to use the checkpoint before")
