"""The models that a run has left in its folder: the server's after its rounds, and those that clients keep."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor, nn

from fl_ddp.config import registry
from fl_ddp.config.command_line import from_file
from fl_ddp.config.settings import Config
from fl_ddp.engine.samples import Samples
from fl_ddp.engine.seeds import Purpose, torch_seed
from fl_ddp.errors import ConfigError
from fl_ddp.federation import Federation, build_federation
from fl_ddp.network.running_statistics import OWN
from fl_ddp.notebook.given_model import fingerprint
from fl_ddp.protocol import Tensors, form_of
from fl_ddp.ranks.collectives import Ranks
from fl_ddp.results import checkpoint

OwnSamples = tuple[Tensor, Tensor, Tensor, Tensor]
"""A client's own training inputs and labels, and test inputs and labels."""


class Trained:
    """The models of a run, on the CPU, and the samples that they are of."""

    def __init__(self, folder: Path, given: nn.Module | None = None) -> None:
        """Of a run's folder, and of the module that a notebook gave it, if it did."""
        self._folder, self._given = folder, given

    @property
    def rounds(self) -> list[int]:
        """After which there is a checkpoint, ascending."""
        return checkpoint.rounds(self._folder)

    def weights(self, round: int) -> Tensors:
        """The server's model after a round, under the module's own names.

        Raises:
            ConfigError: it has no checkpoint.
        """
        return self._federation.model.state_dict(self._server(self._checkpoint(round))["theta"])

    def own_weights(self, client: int, round: int | None = None) -> Tensors:
        """A client's own model after a round, the last one that has a checkpoint if not told; likewise.

        Raises:
            ConfigError: there is no such client, the round has no checkpoint, or clients keep no models.
        """
        self._require(client)
        method, statistics, model = self._federation.method, self._federation.statistics, self._federation.model
        saved = self._checkpoint(round)
        first = self._federation.first_memory(method.init_client())
        memory = saved.memory(lambda each: each == client, first).get(client, first)
        server = self._server(saved)
        own = method.own_model(server, memory, client)
        if own is None and not statistics.are_local:
            what = f"{type(method).__name__}'s clients keep no models of their own from round to round"
            raise ConfigError("method", what, "one whose own_model() tells them: Ditto, FedPer, LocalOnly")
        theta = server["theta"] if own is None else own
        if form_of(theta) != form_of(server["theta"]):
            what = f"of {type(method).__name__} gives {form_of(theta)}"
            raise ConfigError("--method: own_model", what, f"{form_of(server['theta'])}, as the model has it")
        return model.state_dict(model.put(theta, model.running, memory[OWN]) if statistics.are_local else theta)

    def module(self, weights: Tensors) -> nn.Module:
        """The run's module in evaluation mode, with these weights."""
        federation, config = self._federation, self._config
        known = {
            "in_shape": federation.worlds.samples["x_train"].shape[1:],
            "num_classes": len(federation.classes),
            "num_tokens": federation.model.num_tokens,
            "given": self._given,
        }
        with torch_seed(config.seed, Purpose.MODEL):
            module = registry.build(config.model, **known)
        assert isinstance(module, nn.Module)
        module.load_state_dict(weights)
        return module.eval()

    @property
    def tests(self) -> list[tuple[Tensor, Tensor]]:
        """The test set of each task, inputs as the model takes them."""
        return [self._taken(each.samples) for each in self._federation.worlds.all_tests()]

    def own_samples(self, client: int) -> OwnSamples:
        """A client's own samples in the round that was the last.

        Raises:
            ConfigError: there is no such client.
        """
        self._require(client)
        world = self._federation.worlds.at(max([1, *self.rounds]) - 1)
        return (
            *self._taken(world.train, torch.from_numpy(world.clients[client])),
            *self._taken(world.own_samples, torch.from_numpy(world.local_test[client])),
        )

    def _taken(self, samples: Samples, rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
        x, y = (samples.x, samples.y) if rows is None else (samples.x[rows], samples.y[rows])
        return samples.inputs(x, self._federation.model.dtype), y

    def _require(self, client: int) -> None:
        if not 0 <= client < self._config.clients:
            raise ConfigError("client", f"{client} is none of the run", f"0 to {self._config.clients - 1}")

    def _checkpoint(self, round: int | None) -> checkpoint.Checkpoint:
        there = self.rounds
        if not there or round not in (None, *there):
            what = f"{round} is of no checkpoint in {self._folder}" if there else f"{self._folder} has no checkpoint"
            accepted = ", ".join(map(str, there)) or "--checkpoint_every 1 where the run is made"
            raise ConfigError("round", what, accepted)
        return checkpoint.load(self._folder, there[-1] if round is None else round)

    def _server(self, saved: checkpoint.Checkpoint) -> Tensors:
        return saved.server(self._federation.method.init())

    @cached_property
    def _config(self) -> Config:
        config = from_file(self._folder / "config.yaml")
        return replace(config, compile=False, device="cpu", precision="float32", convolution="auto")

    @cached_property
    def _federation(self) -> Federation:
        config = self._config
        known = config.model.init_args.get("sha256")
        if self._given is not None and known != fingerprint(self._given):
            raise ConfigError("--model", f"is another module than {self._folder} began with", "the same, or none")
        return build_federation(config, Ranks(0, 1, torch.device("cpu")), self._given)
