"""The command: torchrun --nproc_per_node=N -m fl_ddp.main, or python -m fl_ddp.main for one rank."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress

from fl_ddp.collectives import Ranks, die_with_launcher, join
from fl_ddp.command_line import parse
from fl_ddp.config import Config
from fl_ddp.environment import prepare
from fl_ddp.errors import ConfigError, ElsewhereError, RankLostError, RunError
from fl_ddp.interrupt import InterruptedRunError, StopRequest, listening
from fl_ddp.simulation import run


def main(argv: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; the exit code is 0, 1 (the run failed) or 2 (the input cannot be run)."""
    die_with_launcher()
    prepare()
    with listening() as stop:
        try:
            config, ranks, error = _read(sys.argv[1:] if argv is None else argv)
            try:
                ranks.agree(error)
                assert config is not None
                _run(config, ranks, stop)
            except RankLostError:
                raise
            except Exception as failure:
                code = _say(failure)
                with suppress(
                    RankLostError
                ):  # torchrun kills all ranks when the first exits: the message comes before that
                    ranks.wait()
                    ranks.close()
                return code
            ranks.close()
        except RankLostError as lost:
            if not lost.told:
                _say(lost)
            time.sleep(0.5)
            os._exit(1)  # leaving a broken process group in order aborts
    return 0


def _read(argv: Sequence[str]) -> tuple[Config | None, Ranks, Exception | None]:
    """Parse the command line and join the other ranks, over gloo if only to agree on an error."""
    try:
        config = parse(argv).config
        return config, join(config.device), None
    except ConfigError as error:
        return None, join("cpu"), error


def _run(config: Config, ranks: Ranks, stop: StopRequest) -> None:
    stop.nothing_to_save = True
    with suppress(InterruptedRunError):
        run(config, ranks, stop)


def _say(failure: Exception) -> int:
    """Tell the user why the run ends, once for all ranks; the exit code."""
    if isinstance(failure, ElsewhereError):
        return 2 if failure.user_error else 1
    if isinstance(failure, ConfigError | RunError):
        print(f"fl_ddp: error: {failure}", file=sys.stderr, flush=True)
    else:
        traceback.print_exception(failure)
        sys.stderr.flush()
    return 2 if isinstance(failure, ConfigError) else 1


if __name__ == "__main__":
    sys.exit(main())
