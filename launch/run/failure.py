"""Why a run failed, as a value beside its folder, which may not exist yet: nothing is decided by what a log says."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from os import getpid
from pathlib import Path
from socket import gethostname

from fl_ddp.errors import ConfigError, RankLostError
from fl_ddp.host.atomic_file import write_text
from fl_ddp.reading.json_file import read_json_if_there


@dataclass(frozen=True)
class Failure:
    """How a process of a run failed.

    Attributes:
        code: its exit code; the signal's number, negative, where one ended it.
        why: one line; None where another rank says it.
        job: of Slurm that it was part of, by its id; None elsewhere.
        attempt: of that job.
    """

    code: int
    why: str | None
    job: str | None = None
    attempt: int = 0

    @property
    def would_come_again(self) -> bool:
        """Whether the same command would fail again; what failed as another rank was lost can go on."""
        return self.code != RankLostError.exit_code

    def write(self, file: Path) -> None:
        """Replace a file of failure, which all ranks of a job may do at once.

        Raises:
            RunError: it cannot be written.
        """
        write_text(file, json.dumps(asdict(self)) + "\n", writer=f".{gethostname()}.{getpid()}")


def failure_beside(folder: Path) -> Path:
    """The file for why a run failed; beside its folder, as its log is."""
    return folder.with_name(f"{folder.name}.failure.json")


def read_failure(file: Path) -> Failure | None:
    """The failure that a file tells of; None where it is not there.

    Raises:
        ConfigError: the file is not what a launcher or a run writes.
    """
    what = "is not what a run leaves that failed"
    if (content := read_json_if_there(file, what)) is None:
        return None
    try:
        why, job = content["why"], content.get("job")
        return Failure(
            int(content["code"]),
            None if why is None else str(why),
            None if job is None else str(job),
            int(content.get("attempt", 0)),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ConfigError(file, f"{what} ({error})") from error


def why_failed(folder: Path) -> str | None:
    """Why the last run that a launcher made in a folder failed; None where it did not, or can just go on.

    Of many runs one whose file cannot be read has failed, and hides none of the others.
    """
    try:
        failure = read_failure(failure_beside(folder))
    except ConfigError as error:
        return str(error)
    return failure.why if failure and failure.would_come_again else None
