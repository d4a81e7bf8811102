"""What a notebook gets of a run, when it is over or later."""

from __future__ import annotations

from copy import deepcopy
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fl_ddp.errors import ConfigError
from fl_ddp.notebook.tables import as_frame, rows_of
from fl_ddp.reading.json_file import read_json
from fl_ddp.results.summary import read_summary

if TYPE_CHECKING:
    from torch import Tensor, nn

    from fl_ddp.notebook.trained import OwnSamples, Trained


class Result(dict[str, Any]):
    """What summary.json holds, and what else is in a run's folder; empty on all ranks but the first.

    Its items are those of when it was made; what else it has is read when it is asked for, where the run goes on too.
    """

    def __init__(self, content: Any = (), module: nn.Module | None = None, places: Any = None) -> None:
        """Of a run's summary, of the model if a notebook gave it as an object, and of where the data lie now."""
        super().__init__(content)
        self._place = Path(self["folder"]).absolute() if "folder" in self else None
        self._module, self._places = deepcopy(module), places

    @classmethod
    def of(cls, folder: Path, module: nn.Module | None, places: Any) -> Result:
        """What is in a run's folder; of a run that is not over, all but the summary.

        Raises:
            ConfigError: it is not the folder of a run.
        """
        if module is not None:
            from torch import nn

            if not isinstance(module, nn.Module):
                raise ConfigError("model", f"is {type(module).__name__}", "a module, an object")
        if not (folder / "config.yaml").is_file():
            raise ConfigError(folder, "is not the folder of a run", "one with a config.yaml in it")
        result = cls({"folder": str(folder)}, module, places)
        result.update(result._newest_summary)
        result["folder"] = str(folder)
        return result

    def __getstate__(self) -> dict[str, Any]:
        """What a copy in another process needs; what is made of it is made there again."""
        return {"_place": self._place, "_module": self._module, "_places": self._places}

    @property
    def history(self) -> Any:
        """The rows of metrics.csv: a pandas frame where pandas is there, else a list of dictionaries."""
        return self._table("metrics")

    @property
    def clients(self) -> Any:
        """The rows of clients.csv, likewise; none without --local_test."""
        return self._table("clients")

    @property
    def cohorts(self) -> Any:
        """The rows of cohorts.csv, likewise: who took part in each round, with --log_clients how it trained."""
        return self._table("cohorts")

    @property
    def tasks(self) -> Any:
        """The rows of tasks.csv, likewise; none without a --stream of tasks."""
        return self._table("tasks")

    @property
    def own_tasks(self) -> Any:
        """The rows of own_tasks.csv, likewise; none without --local_test and a --stream of tasks."""
        return self._table("own_tasks")

    @property
    def forgetting_degrees(self) -> Any:
        """The rows of forgetting.csv, likewise; none without --forgetting_every."""
        return self._table("forgetting")

    @property
    def partition(self) -> dict[str, Any]:
        """What partition.json holds: each client's samples and their numbers by class.

        Raises:
            ConfigError: it is damaged.
        """
        file = self._file("partition.json")
        return read_json(file, "is not what a run writes") if file else {}

    @property
    def weights(self) -> dict[str, Tensor]:
        """The model after the last round, of a run that goes on the last one with a checkpoint, for load_state_dict.

        Raises:
            ConfigError: there is no checkpoint yet.
        """
        from safetensors.torch import load_file

        from fl_ddp.results.run_folder import MODEL

        if self._place is None:
            return {}
        file = self._file(MODEL)
        return load_file(file) if file and self._newest_summary else self._trained.weights()

    @property
    def checkpoints(self) -> list[int]:
        """Rounds that have one: with --checkpoint_every 1 --keep_checkpoints 1000, all of them."""
        return self._trained.checkpoints if self._place else []

    @property
    def best_round(self) -> int | None:
        """After which the best model was that has a checkpoint: with --checkpoint_every 1, the best evaluated one."""
        return self._trained.best_round if self._place else None

    def weights_after(self, round: int | None) -> dict[str, Tensor]:
        """The model after a round that has a checkpoint, or, after round 0, the one that the run began with.

        Raises:
            ConfigError: it has none.
        """
        if round is None:
            raise ConfigError("round", "None, as best_round is where no model was evaluated", "one of `checkpoints`")
        return self._trained.weights(round)

    def task_weights(self, task: int) -> dict[str, Tensor]:
        """The model at the end of a task, as tasks.csv counts them, from 1; of the last one it is `weights`.

        Raises:
            ConfigError: that task has not ended, or is the last one.
        """
        from safetensors.torch import load_file

        from fl_ddp.results.run_folder import TASK_MODEL

        if self._place is None:
            return {}
        if file := self._file(TASK_MODEL.format(task)):
            return load_file(file)
        raise ConfigError("task", f"{task} has left no model", "one before the last, once it is over")

    def own_weights(self, client: int, round: int | None = None) -> dict[str, Tensor]:
        """A client's own model, as its memory and the server have it after a round, the last one if not told.

        It is what the client has before it trains again, with FedPer the server's newest body below its own head: not
        what clients.csv calls own_accuracy of, but where all of the model is the client's (Ditto, LocalOnly).

        Raises:
            ConfigError: there is no such client, its method keeps no models of clients, or such as FedRoD's, which are
                longer than the run's; or the round has no checkpoint.
        """
        return self._trained.own_weights(client, round)

    def own_logits(self, client: int, x: Tensor, round: int | None = None) -> Tensor:
        """Logits of that model, of FedRoD's with its personal head, for inputs as own_samples() gives them."""
        return self._trained.own_logits(client, x, round)

    def server_state(self, round: int | None = None) -> dict[str, Tensor]:
        """What the server knows after a round, the last one if not told: the tensors of the method's init(), by name.

        Raises:
            ConfigError: the round has no checkpoint.
        """
        return self._trained.server_state(round) if self._place else {}

    def client_memory(self, client: int, round: int | None = None) -> dict[str, Tensor]:
        """What a client remembers after a round, likewise: the tensors of the method's init_client(), by name.

        Raises:
            ConfigError: there is no such client, or the round has no checkpoint.
        """
        return self._trained.client_memory(client, round) if self._place else {}

    @property
    def model(self) -> nn.Module:
        """A module of its own each time, with `weights`, in evaluation mode.

        Raises:
            ConfigError: the run's data or its own code are gone; the module was a notebook's and none of its kind is
                given; the server's model has no running statistics that count (--running_statistics local).
        """
        return self._trained.module(self.weights)

    @property
    def tests(self) -> list[tuple[Tensor, Tensor]]:
        """The test set of each task, one without tasks: inputs as the model takes them, and labels."""
        return self._trained.tests if self._place else []

    @property
    def allowed(self) -> list[Tensor | None]:
        """Of each test set the labels [C] that count after the last round, bool, of known or growing heads; or None."""
        return self._trained.allowed if self._place else []

    def own_samples(self, client: int, task: int | None = None) -> OwnSamples:
        """A client's own (x, y, x_test, y_test), inputs as the model takes them.

        Args:
            client: its number, from 0.
            task: as tasks.csv counts them, from 1, as it was left; the last one that was trained if not told.

        Raises:
            ConfigError: there is no such client or task.
        """
        return self._trained.own_samples(client, task)

    @cached_property
    def _trained(self) -> Trained:
        from fl_ddp.notebook.trained import Trained

        if self._place is None:
            raise ConfigError("this result", "is that of another rank than the first", "the first one's")
        return Trained(self._place, self._module, self._places)

    @property
    def _newest_summary(self) -> dict[str, Any]:
        """What summary.json holds; nothing where the run has gone on since."""
        from fl_ddp.results.run_folder import last_round

        content: dict[str, Any] = read_summary(self._place) if self._place else {}
        return content if self._place and content.get("rounds", 0) >= last_round(self._place) else {}

    def _file(self, name: str) -> Path | None:
        """A file of the folder, if there is one."""
        file = self._place / name if self._place else None
        return file if file and file.is_file() else None

    def _table(self, name: str) -> Any:
        if self._place is None:
            return []
        file = self._file(f"{name}.csv")
        return as_frame(rows_of(file) if file else [])
