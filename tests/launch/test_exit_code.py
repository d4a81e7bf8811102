"""How launchers end."""

from __future__ import annotations

import pytest

from fl_ddp.errors import ConfigError, RunError
from launch.exit_code import exit_code


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (ConfigError("--lr", "is wrong"), 2, "sweep: error: --lr: is wrong\n"),
        (RunError("the disk is full"), 1, "sweep: error: the disk is full\n"),
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
