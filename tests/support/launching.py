"""Starts runs the way users do, as processes of their own, and reads what they leave."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import torch

import fl_ddp
from fl_ddp import simulate

SMALL: Mapping[str, object] = {
    "data": "digits", "partition": "Dirichlet", "model.hidden": 16, "clients": 12, "cohort": 7, "momentum": 0.5,
    "batch_size": 20, "compile": False, "figures": False, "rounds": 3, "checkpoint_every": 1, "device": "cpu",
    "name": "run",
}  # fmt: skip
"""Ragged clients, of which a part takes part, in rounds of a fraction of a second."""

SUPPORT = Path(__file__).parent
PATIENCE = 180.0
"""Seconds after which a run counts as hung, whatever else the machine does."""
GONE = 25.0
"""Seconds within which all processes must be gone that were told to; torchrun kills what is left after 30."""


class Numbers(NamedTuple):
    """What must be equal to the last bit for two runs to count as the same.

    Attributes:
        parameters: sha256 of the final ones.
        metrics: sha256 of metrics.csv without the columns of time, and of tasks.csv if there is one.
    """

    parameters: str
    metrics: str


def numbers(folder: Path) -> Numbers:
    """The numbers of a finished run."""
    with (folder / "metrics.csv").open(newline="") as file:
        rows = [{k: v for k, v in row.items() if not k.startswith("time")} for row in csv.DictReader(file)]
    tasks, given = folder / "tasks.csv", folder / "initial.safetensors"
    first = 0 if tasks.exists() or given.exists() or rows[0]["round"] == rows[-1]["round"] == "0" else 1
    assert [int(row["round"]) for row in rows] == list(range(first, first + len(rows)))
    text = io.StringIO()
    csv.DictWriter(text, rows[0]).writerows(rows)
    if tasks.exists():
        text.write(tasks.read_text())
    parameters = json.loads((folder / "summary.json").read_text())["parameters_sha256"]
    return Numbers(parameters, hashlib.sha256(text.getvalue().encode()).hexdigest())


def own_model(name: str) -> dict[str, object]:
    """SMALL with a model of own_models.py."""
    model = {"model": f"{SUPPORT / 'own_models.py'}:{name}"}
    return {key: value for key, value in SMALL.items() if key != "model.hidden"} | model


def options(settings: Mapping[str, object]) -> list[str]:
    """Settings as a command line."""
    return [f"--{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in settings.items()]


def copied(run: Path, folder: Path) -> Path:
    """A copy of a run's folder in another one."""
    return Path(shutil.copytree(run, folder / "copy"))


def content(run: Path) -> dict[str, str]:
    """sha256 of every file of a run's folder but its lock."""
    files = (path for path in run.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def simulated(settings: Mapping[str, object], out: Path) -> Path:
    """Run in this process; the run's folder."""
    with one_thread():
        return Path(str(simulate({**settings, "out": str(out)})["folder"]))


def resumed(run: Path, **settings: object) -> Path:
    """Go on with a run in this process; its folder."""
    with one_thread():
        simulate({"resume": str(run), **settings})
    return run


@contextmanager
def one_thread() -> Iterator[None]:
    """As many as a rank of several has; two that other work keeps off a core wait for each other ten times as long."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def rounds_done(folder: Path) -> int:
    """Rounds of a run that have been recorded so far."""
    file = folder / "metrics.csv"
    return max(file.read_text().count("\n") - 1, 0) if file.exists() else 0


def checkpoints(folder: Path) -> list[str]:
    """Names of a run's whole checkpoints, oldest first."""
    return sorted(path.name for path in folder.glob("checkpoints/round_*"))


class Ended(NamedTuple):
    """How a launch ended.

    Attributes:
        code: exit code of the launcher.
        out: what all processes wrote to stdout.
        err: what they wrote to stderr.
    """

    code: int
    out: str
    err: str

    @property
    def ours(self) -> list[str]:
        """The lines on stderr that are not torchrun's."""
        return [line for line in self.err.splitlines() if line.startswith("fl_ddp: ")]


class Launch:
    """Processes started by one command, found again by a mark in their environment wherever they live.

    Attributes:
        launcher: torchrun, or the only rank.
    """

    def __init__(
        self, program: Sequence[str], ranks: int, folder: Path, environment: Mapping[str, str], meet: Sequence[str] = ()
    ) -> None:
        mark = str(uuid.uuid4())
        self._alone, self._folder = ranks == 1 and not meet, folder
        self._mark = f"FL_DDP_TEST_LAUNCH={mark}"
        meet = meet or [f"--master_port={free_port()}"]
        torchrun = ["-m", "torch.distributed.run", f"--nproc_per_node={ranks}", *meet]
        own = ("OMP_NUM_THREADS", "TORCHINDUCTOR_COMPILE_THREADS")  # the tests' own share of the machine
        kept = {key: value for key, value in os.environ.items() if key not in own}
        if self._alone:
            kept["OMP_NUM_THREADS"] = "1"  # torchrun does so for several
        paths = [str(Path(fl_ddp.__file__).parents[1]), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        found = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "FL_DDP_TEST_LAUNCH": mark}
        self._out, self._err = folder / f"{mark}.out", folder / f"{mark}.err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.launcher = subprocess.Popen(
                [sys.executable, *([] if self._alone else torchrun), *program],
                stdout=out,
                stderr=err,
                cwd=folder,
                env={**kept, **found, **environment},
                start_new_session=True,
            )

    def alive(self) -> list[int]:
        """Process ids of all that is left of it, the launcher included."""
        everyone = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
        return [pid for pid in everyone if self._mark in _environment(pid)]

    def ranks(self) -> list[int]:
        """Process ids by rank, as far as they have begun."""
        if self._alone:
            return [self.launcher.pid]
        found: dict[int, int] = {}
        for pid in self.alive():
            rank = next((v[5:] for v in _environment(pid) if v.startswith("RANK=")), None)
            if rank is not None and _parent(pid) == self.launcher.pid:
                found[int(rank)] = pid
        return [found[rank] for rank in sorted(found)]

    def left(self, mark: str) -> bool:
        """Whether rank 0, with the model Held, has left a mark: `waits` or `asked`."""
        return any((self._folder / f"{mark}.{rank}").exists() for rank in self.ranks()[:1])

    def until(self, condition: Callable[[], object], seconds: float = PATIENCE) -> None:
        """Wait for something that must come while the launcher lives."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"waited in vain; stderr: {self._err.read_text()[-3000:]}"
            assert self.launcher.poll() is None, f"ended too early; stderr: {self._err.read_text()[-3000:]}"
            time.sleep(0.02)

    def ended(self, seconds: float = PATIENCE) -> Ended:
        """Wait until every process is gone."""
        end = time.monotonic() + seconds
        with suppress(subprocess.TimeoutExpired):
            self.launcher.wait(seconds)
        while (left := self.alive()) and time.monotonic() < end:
            time.sleep(0.05)
        out, err = (path.read_text(errors="replace") for path in (self._out, self._err))
        assert not left, f"{len(left)} processes are left after {seconds} s; stderr: {err[-3000:]}"
        return Ended(self.launcher.wait(), out, err)

    def output(self) -> str:
        """What was written to stdout so far."""
        return self._out.read_text(errors="replace")

    def kill(self) -> None:
        """End all that is left of it."""
        for pid in self.alive():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.launcher.wait()


@contextmanager
def launched(
    program: Sequence[str] | Mapping[str, object],
    ranks: int,
    folder: Path,
    environment: Mapping[str, str] | None = None,
    meet: Sequence[str] = (),
) -> Iterator[Launch]:
    """Start a run under torchrun, or as plain python for one rank; nothing of it is left afterwards.

    Args:
        program: settings of a run, or a script and its arguments.
        ranks: number of processes.
        folder: where they work and leave what they print.
        environment: added to this process's.
        meet: torchrun's options by which its ranks meet those of other launches.
    """
    if isinstance(program, Mapping):
        program = ["-m", "fl_ddp.main", *options(program)]
    launch = Launch(program, ranks, folder, environment or {}, meet)
    try:
        yield launch
    finally:
        launch.kill()


def finished(
    settings: Mapping[str, object], ranks: int, folder: Path, environment: Mapping[str, str] | None = None
) -> Ended:
    """Run to the end, which must be a good one."""
    with launched(settings, ranks, folder, environment) as launch:
        ended = launch.ended()
    assert ended.code == 0 and not ended.ours, ended.err[-3000:]
    return ended


def failed(settings: Mapping[str, object], ranks: int, folder: Path) -> Ended:
    """Run to the end, which must be a bad one told in one line."""
    with launched(settings, ranks, folder) as launch:
        ended = launch.ended()
    assert ended.code != 0 and len(ended.ours) == 1 and ended.ours[0].startswith("fl_ddp: error: "), ended.err[-3000:]
    return ended


def free_port() -> int:
    """One of this machine's on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _environment(pid: int) -> list[str]:
    """Of a process; nothing once it has ended."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return -1
