"""What a run keeps of its clients' own settings in its folder, so that it goes on with the same."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fl_ddp.config.settings import Config
from fl_ddp.errors import ConfigError
from fl_ddp.host.atomic_file import write_text
from fl_ddp.tasks.pace import Pace
from fl_ddp.tasks.turnout import Turnout
from fl_ddp.tasks.world import Worlds

_OPTIONS: Mapping[str, str] = {"enrolment": "stream.enrolment"}


class KeptFiles:
    """Enrolment, availability and factors of the clients, each a CSV file where a run has such."""

    def __init__(self, config: Config, worlds: Worlds, turnout: Turnout, pace: Pace) -> None:
        self._config, available = config, turnout.availability
        self._texts = {"enrolment": worlds.enrolment, "availability": available.text if available else "", **pace.texts}

    def refuse_edited(self, folder: Path) -> None:
        """Refuse to go on with other clients than the run in a folder began with, whose file was edited.

        Raises:
            ConfigError: they are others.
        """
        for name, now in self._texts.items():
            file, option = folder / f"{name}.csv", _OPTIONS.get(name, name)
            # a law's factors may differ in their last bit on another machine
            by_law = name in ("client_lr", "client_work") and not (getattr(self._config, name) or "").endswith(".csv")
            if not by_law and file.is_file() and file.read_text(encoding="utf-8") != now:
                what = f"the run was started with another {name} of its clients; restore the file of --{option}"
                raise ConfigError(file, what)

    def write(self, folder: Path) -> None:
        """Write those that there are into a run's folder.

        Raises:
            RunError: one cannot be written.
        """
        for name, text in self._texts.items():
            if text:
                write_text(folder / f"{name}.csv", text)
