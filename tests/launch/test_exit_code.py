"""How launchers end."""

from __future__ import annotations

import errno

import pytest

from fl_ddp.errors import ConfigError, RunError
from launch.exit_code import exit_code


def test_an_error_of_the_code_keeps_its_traceback() -> None:
    def work() -> int:
        raise FileNotFoundError(errno.ENOENT, "No such file", "a")

    with pytest.raises(FileNotFoundError):
        exit_code("sweep", work)


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (ConfigError("--lr", "is wrong"), 2, "sweep: error: --lr: is wrong\n"),
        (RunError("the disk is full"), 1, "sweep: error: the disk is full\n"),
        (OSError(errno.ENAMETOOLONG, "File name too long", "a/b"), 1, "sweep: error: a/b: File name too long\n"),
        (OSError(errno.ENOSPC, "No space left on device"), 1, "sweep: error: cannot write: No space left on device\n"),
        (KeyboardInterrupt(), 130, "sweep: interrupted\n"),
    ],
)
def test_what_ends_a_launcher_is_one_line(
    error: BaseException, code: int, told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    def work() -> int:
        raise error

    try:
        assert exit_code("sweep", work) == code
    except KeyboardInterrupt:
        pytest.fail("a traceback")  # and it would end pytest
    assert tuple(capfd.readouterr()) == ("", told)
