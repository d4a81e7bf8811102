"""What a command line in one text gives: a configuration, a refusal or a print."""

from __future__ import annotations

import shlex

import pytest

from fl_ddp.config.command_line import parse
from fl_ddp.config.settings import Config
from fl_ddp.errors import ConfigError


def config_of(line: str) -> Config:
    return parse(shlex.split(line))


def message_of(line: str) -> str:
    with pytest.raises(ConfigError) as error:
        parse(shlex.split(line))
    return str(error.value)


def printed_by(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as end:
        parse(shlex.split(line))
    assert end.value.code == 0
    return capsys.readouterr().out
