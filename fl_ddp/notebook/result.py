"""What a notebook gets of a run, when it is over or later."""

from __future__ import annotations

import csv
import json
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fl_ddp.errors import ConfigError
from fl_ddp.results.summary import read_summary

if TYPE_CHECKING:
    from torch import Tensor, nn

    from fl_ddp.notebook.trained import OwnSamples, Trained

_WORDS = "class"
"""A column of names, whatever they look like; all others are of numbers."""


class Result(dict[str, Any]):
    """What summary.json holds, and what else is in a run's folder; empty on all ranks but the first."""

    def __init__(self, content: Any = (), module: nn.Module | None = None) -> None:
        """Of a run's summary, and of the model if a notebook gave it as an object."""
        super().__init__(content)
        self._module = module

    @classmethod
    def of(cls, folder: Path, module: nn.Module | None = None) -> Result:
        """What is in a run's folder; of a run that is not over, all but the summary.

        Raises:
            ConfigError: it is not the folder of a run.
        """
        if not (folder / "config.yaml").is_file():
            raise ConfigError(folder, "is not the folder of a run", "one with a config.yaml in it")
        file = folder / "summary.json"
        content = read_summary(file) if file.is_file() else {}
        return cls({**content, "folder": str(folder)}, module)

    @property
    def history(self) -> Any:
        """The rows of metrics.csv: a pandas frame where pandas is there, else a list of dictionaries."""
        return self._table("metrics")

    @property
    def clients(self) -> Any:
        """The rows of clients.csv, likewise; none without --local_test."""
        return self._table("clients")

    @property
    def tasks(self) -> Any:
        """The rows of tasks.csv, likewise; none without a --stream of tasks."""
        return self._table("tasks")

    @property
    def forgetting_degrees(self) -> Any:
        """The rows of forgetting.csv, likewise; none without --forgetting_every."""
        return self._table("forgetting")

    @property
    def partition(self) -> dict[str, Any]:
        """What partition.json holds: each client's samples and their numbers by class."""
        file = self._file("partition.json")
        return json.loads(file.read_text(encoding="utf-8")) if file else {}

    @property
    def weights(self) -> dict[str, Tensor]:
        """What model.safetensors has: the model after the last round, as load_state_dict takes it."""
        from safetensors.torch import load_file

        file = self._file("model.safetensors")
        return load_file(file) if file else self.weights_after(self.rounds[-1]) if self.rounds else {}

    @property
    def rounds(self) -> list[int]:
        """After which there is a checkpoint: with --checkpoint_every 1 --keep_checkpoints 1000, all of them."""
        return self._trained.rounds if "folder" in self else []

    def weights_after(self, round: int) -> dict[str, Tensor]:
        """The model after a round that has a checkpoint.

        Raises:
            ConfigError: it has none.
        """
        return self._trained.weights(round)

    def own_weights(self, client: int, round: int | None = None) -> dict[str, Tensor]:
        """A client's own model, as its memory and the server have it after a round, the last one if not told.

        Raises:
            ConfigError: there is no such client, its method keeps no models of clients, or the round has no checkpoint.
        """
        return self._trained.own_weights(client, round)

    @cached_property
    def model(self) -> nn.Module:
        """The module with the weights of the last round, in evaluation mode.

        Raises:
            ConfigError: the run's data or its own code are gone, or the module was a notebook's and is not given.
        """
        return self._trained.module(self.weights)

    @property
    def tests(self) -> list[tuple[Tensor, Tensor]]:
        """The test set of each task, one without tasks: inputs as the model takes them, and labels."""
        return self._trained.tests if "folder" in self else []

    def own_samples(self, client: int) -> OwnSamples:
        """A client's own (x, y, x_test, y_test) in the last task that was trained, inputs as the model takes them.

        Raises:
            ConfigError: there is no such client.
        """
        return self._trained.own_samples(client)

    @cached_property
    def _trained(self) -> Trained:
        from fl_ddp.notebook.trained import Trained

        return Trained(Path(self["folder"]), self._module)

    def _file(self, name: str) -> Path | None:
        """A file of the folder, if there is one."""
        file = Path(self["folder"]) / name if "folder" in self else None
        return file if file and file.is_file() else None

    def _table(self, name: str) -> Any:
        if "folder" not in self:
            return []
        file = self._file(f"{name}.csv")
        rows = []
        if file:
            with file.open(newline="", encoding="utf-8") as text:
                rows = [{name: _cell(name, cell) for name, cell in row.items()} for row in csv.DictReader(text)]
        try:
            from pandas import DataFrame, to_numeric  # type: ignore[import-untyped]
        except ImportError:
            return rows
        return DataFrame(rows).apply(lambda column: column if column.name == _WORDS else to_numeric(column))


def _cell(name: str, text: str) -> float | str | None:
    """A cell of a table; whole numbers stay whole."""
    if not text or name == _WORDS:
        return text or None
    return int(text) if text.lstrip("-").isdigit() else float(text)
