"""One rank from its command line to its exit code."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from fl_ddp.config.command_line import parse
from fl_ddp.config.settings import Config
from fl_ddp.errors import (
    ConfigError,
    DeviceError,
    ElsewhereError,
    InterruptedRunError,
    RankLostError,
    RunError,
    Told,
    left_early,
)  # fmt: skip
from fl_ddp.host.environment import prepare
from fl_ddp.host.failure_note import leave_note
from fl_ddp.host.interrupt import StopRequest

if TYPE_CHECKING:
    from fl_ddp.ranks.collectives import Ranks


def work(argv: Sequence[str], stop: StopRequest) -> int:
    """Run what the command line asks for and tell the user how it failed, once for all ranks.

    Returns:
        exit code: 0, 1 (the run failed), 2 (the input cannot be run) or 3 (another rank is lost).
    """
    prepare()
    try:
        config, ranks, error = _read(argv, stop)
    except RunError as lost:
        return _say(lost)
    stop.first_to_say = ranks.first_to_say
    try:
        ranks.agree(error)
        assert config is not None
        from fl_ddp.run import run  # after the options, which are answered without

        with suppress(InterruptedRunError):
            run(config, ranks, stop)
    except RankLostError as lost:
        stop.nothing_to_save = False  # torchrun's SIGTERM must not cut the message off
        if ranks.first_to_say():
            _say(lost)
        time.sleep(0.5)
        return lost.exit_code
    except Exception as failure:
        stop.nothing_to_save = False
        code = _say(failure)
        if isinstance(failure, DeviceError):
            return code  # nothing can be summed any more
        # torchrun kills all ranks when the first exits: the message comes before that
        with suppress(RankLostError, DeviceError):
            ranks.wait()
            ranks.close()
        return code
    except SystemExit as left:  # of a user's file, which may say so anywhere; other ranks hear this one's end
        stop.nothing_to_save = False
        return _say(left_early(left))
    ranks.close()
    return 0


def _read(argv: Sequence[str], stop: StopRequest) -> tuple[Config | None, Ranks, Exception | None]:
    """Parse the command line and join the other ranks, if only to agree on an error."""
    config, refused = None, None
    try:
        config = parse(argv)
    except ConfigError as error:
        refused = error
    # torch takes a second to import, which --version and the like need not wait for
    from fl_ddp.ranks.meeting import join_to_tell

    return config, *join_to_tell(config, refused, stop.check)


def _say(failure: Exception) -> int:
    """Tell the user, and the launcher, why the run ends; the exit code."""
    if isinstance(failure, ElsewhereError):
        leave_note(failure.exit_code, None, to_blame=False)
        return failure.exit_code
    told = Told.of(failure)
    leave_note(told.exit_code, told.words, to_blame=not isinstance(failure, RankLostError))
    return told.say()
