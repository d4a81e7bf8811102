"""The models that a run has left in its folder: the server's after its rounds, and those that clients keep."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from fl_ddp.arithmetic.repeatable import as_it_begins
from fl_ddp.building.initial import as_kept
from fl_ddp.config.command_line import from_layers, layer_of_run, mapping_layer
from fl_ddp.config.layers import Layer
from fl_ddp.config.settings import Config
from fl_ddp.errors import ConfigError, one_line
from fl_ddp.federation import Federation, build_federation
from fl_ddp.notebook.asked import path_of
from fl_ddp.notebook.given_model import GIVEN, fingerprint
from fl_ddp.partitions.saved import SavedPartition, refuse_other_division
from fl_ddp.protocol import Tensors, form_of
from fl_ddp.ranks.collectives import Ranks
from fl_ddp.results import checkpoint
from fl_ddp.results.run_folder import MODEL, last_round
from fl_ddp.tasks.recorded import recorded, refuse_others
from fl_ddp.versions.users_code import code_held, edited


class OwnSamples(NamedTuple):
    """What a client trains on, and what it keeps aside: inputs as the model takes them, and labels."""

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor


Stamps = dict[str, tuple[int, int, int]]
"""Inode, size and time of the last change of each file in a folder."""
_PLACES = ("data.root", "data.path")


class Trained:
    """The models of a run, on the CPU, and the samples that they are of."""

    def __init__(
        self, folder: Path, given: nn.Module | None = None, places: Mapping[str, object] | None = None
    ) -> None:
        """Of a run.

        Args:
            folder: of the run.
            given: a module such as the run's, where it was a notebook's, or of a class or function that is not here.
            places: data.root or data.path, where the data lie now; method, its class, where that is no longer there.
        """
        self._folder, self._given, self._places = folder, given, dict(places or {})
        self._verified: dict[int, tuple[checkpoint.Checkpoint, Stamps]] = {}

    @property
    def checkpoints(self) -> list[int]:
        """Rounds after which there is a checkpoint, ascending."""
        return checkpoint.rounds(self._folder)

    @property
    def best_round(self) -> int | None:
        """That of the best model with a checkpoint, if one was evaluated."""
        return checkpoint.best(self._folder)

    @as_it_begins()
    def weights(self, round: int | None = None) -> Tensors:
        """The server's model after a round, the last one that has a checkpoint if not told, by the module's names.

        After round 0 it is what the run began with.

        Raises:
            ConfigError: it has no checkpoint; or the run began with a notebook's module, which is not as it was.
        """
        return self._federation.model.state_dict(self.server_state(round)["theta"])

    @as_it_begins()
    def own_weights(self, client: int, round: int | None = None) -> Tensors:
        """A client's own model after a round; likewise.

        Raises:
            ConfigError: there is no such client, the round has no checkpoint, or clients keep no models of the run's
                kind.
        """
        own, model = self._own_vector(client, round), self._federation.model
        if form_of(own) != form_of(model.init()):
            what = f"clients' own models of {self._config.method.name} are {form_of(own)}, no {form_of(model.init())}"
            raise ConfigError("method", what, "own_logits() in the place of own_weights()")
        return model.state_dict(own)

    @as_it_begins()
    def own_logits(self, client: int, x: Tensor, round: int | None = None) -> Tensor:
        """Logits of a client's own model for inputs, whatever it is made of; raises as own_weights does."""
        with torch.no_grad():
            return self._federation.method.predict(self._own_vector(client, round), x)

    @as_it_begins()
    def server_state(self, round: int | None = None) -> Tensors:
        """The server's state after a round, by the names of the method's init(); raises as weights() does."""
        if round == 0:
            self._refuse_another_begin()
            return self._federation.method.init()
        return self._server(self._checkpoint(round))

    @as_it_begins()
    def client_memory(self, client: int, round: int | None = None) -> Tensors:
        """What a client remembers after a round, by the names of the method's init_client(); likewise.

        Raises:
            ConfigError: there is no such client, or the round has no checkpoint.
        """
        client, first = self._known(client), self._federation.method.init_client()
        if round == 0:
            self._refuse_another_begin()
            return first
        saved = self._checkpoint(round)
        remembered = self._remembered(client, saved) if first else {}
        return {name: remembered[name] for name in first}

    def _refuse_another_begin(self) -> None:
        """Refuse round 0 of a run that began with a module that is not as it was."""
        if not self._begins_alike:
            raise ConfigError("round", "0 is before the given module was trained", self._as_it_was)

    def _remembered(self, client: int, saved: checkpoint.Checkpoint) -> Tensors:
        """All that a client remembers, or begins with where it has not taken part yet."""
        first = self._federation.first_memory(self._federation.method.init_client())
        memory = saved.memory(lambda each: each == client, first).get(client)
        if memory is None and not self._begins_alike:
            what = f"{client} has not taken part yet, and begins with what the given module was"
            raise ConfigError("client", what, self._as_it_was)
        return first if memory is None else memory

    def _own_vector(self, client: int, round: int | None) -> Tensor:
        method, statistics = self._federation.method, self._federation.statistics
        client, saved = self._known(client), self._checkpoint(round)
        server, remembered = self._server(saved), self._remembered(client, saved)
        own = method.own_model(server, {name: remembered[name] for name in method.init_client()}, client)
        if own is None and not statistics.are_local:
            what = f"{self._config.method.name} tells of no models that clients keep from round to round"
            raise ConfigError("method", what, "one with own_model(), such as Ditto, FedPer or FedALA")
        return statistics.own(server["theta"] if own is None else own, remembered)

    @as_it_begins()
    def module(self, weights: Tensors) -> nn.Module:
        """The run's module in evaluation mode, with these weights.

        Raises:
            ConfigError: the server's model has no running statistics that count.
        """
        if self._federation.statistics.are_local:
            what = "local: each client keeps its own, and the server's model has none that count"
            raise ConfigError("--running_statistics", what, "own_weights() of a client")
        module = self._federation.fresh()
        module.load_state_dict(weights)
        return module.eval()

    @property
    def tests(self) -> list[tuple[Tensor, Tensor]]:
        """The test set of each task, inputs as the model takes them."""
        return [each.copies(self._federation.model.dtype) for each in self._federation.worlds.test_samples]

    @property
    def allowed(self) -> list[Tensor | None]:
        """Among which labels [C] bool the samples of each task are classified after the last round; None for all."""
        present = self._federation.stream.task(max(last_round(self._folder), 1) - 1)
        each = (test.allowed for test in self._federation.worlds.all_tests(present))
        return [None if allowed is None else allowed.clone() for allowed in each]

    def own_samples(self, client: int, task: int | None = None) -> OwnSamples:
        """A client's own samples in the last round so far of a task, from 1, or of all.

        Raises:
            ConfigError: there is no such client or task.
        """
        client, index, stream = self._known(client), max(last_round(self._folder), 1) - 1, self._federation.stream
        if task is not None:
            if isinstance(task, bool) or not isinstance(task, Integral) or not 1 <= task <= stream.num_tasks:
                raise ConfigError("task", f"{task!r} is none of the run", f"1 to {stream.num_tasks}")
            first = stream.task_rounds * (int(task) - 1)
            last = first + stream.task_rounds - 1 if task < stream.num_tasks else index
            index = max(min(index, last), first)
        world, dtype = self._federation.worlds.at(index), self._federation.model.dtype
        return OwnSamples(
            *world.train.copies(dtype, torch.from_numpy(world.clients[client])),
            *world.own_samples.copies(dtype, torch.from_numpy(world.local_test[client])),
        )

    def _known(self, client: object) -> int:
        number = isinstance(client, Integral) and not isinstance(client, bool)
        if not number or not 0 <= client < self._config.clients:  # type: ignore[operator]
            raise ConfigError("client", f"{client!r} is none of the run", f"0 to {self._config.clients - 1}")
        return int(client)  # type: ignore[call-overload, no-any-return]

    def _checkpoint(self, round: int | None) -> checkpoint.Checkpoint:
        """Of one that stays as it is every byte is compared with its sha256 once, not for each client's model."""
        there = self.checkpoints
        known, stamps = self._verified.get(there[-1] if round is None and there else round or 0, (None, {}))
        if known and stamps == _stamps(known.path):
            return known
        if round in there:
            found: checkpoint.Checkpoint | None = checkpoint.load(self._folder, round, verify=True)
        else:
            found = checkpoint.newest(self._folder).checkpoint
        if found is None or (round is not None and round not in there):
            what = f"{round} is of no checkpoint in {self._folder}" if found else f"{self._folder} has no checkpoint"
            accepted = ", ".join(map(str, there)) if found else "--checkpoint_every 1 where the run is made"
            raise ConfigError("round", what, accepted)
        self._verified[found.round] = found, _stamps(found.path)
        return found

    def _server(self, saved: checkpoint.Checkpoint) -> Tensors:
        return saved.server(self._federation.method.init())

    @cached_property
    def _config(self) -> Config:
        places = mapping_layer({key: value for key, value in self._places.items() if key != "method"})
        for key in places.keys() - set(_PLACES):
            raise ConfigError(key, "does not say where data lie", " or ".join(_PLACES))
        stored = self._with_given_method(layer_of_run(self._folder / "config.yaml"))
        try:
            config = from_layers([stored, places])
        except ConfigError as error:  # perhaps of the model's class, which is not here
            if error.where.endswith(": method") and "method" not in self._places:
                raise ConfigError(error.where, error.what, "fl_ddp.load(folder, method=...) with the class") from error
            if self._given is None:
                raise
            config = from_layers([self._with_given_model(stored), places])
        config = as_kept(config, self._folder)
        return replace(config, compile=False, device="cpu", precision="float32", convolution="auto")

    def _with_given_method(self, stored: Layer) -> Layer:
        """A run's options with the given class in place of its method's of that name."""
        given = self._places.get("method")
        if given is None:
            return stored
        if not isinstance(given, type | str):
            raise ConfigError("method", f"is {type(given).__name__}", "the class, or a name of it as mine.py:Mine")
        path = given if isinstance(given, str) else path_of("method", given)
        name, known = (re.split("[.:]", str(each))[-1] for each in (path, stored["method"].value))
        if name != known:
            raise ConfigError("method", f"is {name}, and the run's own is {known}", "a class of that name")
        return {**stored, **mapping_layer({"method": path})}

    def _with_given_model(self, stored: Layer) -> Layer:
        """A run's options with the given module in place of the class that it made its model of."""
        others = {key: each for key, each in stored.items() if key.partition(".")[0] != "model"}
        kind = re.split("[.:]", str(stored["model"].value))[-1]
        return {**others, **mapping_layer({"model": GIVEN, "model.kind": kind})}

    @property
    def _begins_alike(self) -> bool:
        """Whether the run's first model is known, not only one of its kind."""
        return self._given is None or fingerprint(self._given) == self._config.model.init_args.get("sha256")

    @property
    def _as_it_was(self) -> str:
        """What is accepted where a module of the run's kind will not do."""
        known = self._config.model.init_args
        if known["sha256"]:
            return "fl_ddp.load(folder, model=...) with the module as it was"
        return f"{known['kind']} itself"

    @cached_property
    def _module(self) -> nn.Module | None:
        """A module of a notebook's as the run has left it, but where it is as the run began with it."""
        known = self._config.model.init_args
        if (self._given is None) == ("sha256" not in known):
            return self._as_left(self._given) if self._given is not None and not self._begins_alike else self._given
        if self._given is None:
            accepted = "fl_ddp.load(folder, model=...) with one of its kind"
            raise ConfigError("model", f"was a {known['kind']} of a notebook, which alone has it", accepted)
        what = f"is given, and the run's own is {self._config.model.name}"
        raise ConfigError("model", what, "none, as the weights are read without it")

    def _as_left(self, given: nn.Module) -> nn.Module:
        module, file, kind = deepcopy(given), self._folder / MODEL, self._config.model.init_args["kind"]
        if not file.is_file():
            what = f"is not as {self._folder} began with it, and no other will do before the run is over"
            raise ConfigError("model", what, self._as_it_was)
        of_class = not self._config.model.init_args["sha256"]  # or a function's, whose name is no class's
        why = f"a {type(given).__name__}, no {kind}" if not of_class and type(given).__name__ != kind else ""
        try:
            module.load_state_dict(load_file(file))
        except RuntimeError as error:
            why = why or one_line(error)
        if why:
            raise ConfigError("model", f"is another module than {self._folder} began with ({why})", "one of its kind")
        return module

    @cached_property
    def _federation(self) -> Federation:
        config = self._config
        with as_it_begins():
            federation = build_federation(config, Ranks(0, 1, torch.device("cpu")), self._module)
        own_tests = federation.local_test if config.local_test else None
        refuse_other_division(self._folder / "partition.json", SavedPartition(federation.clients, own_tests))
        if newest := checkpoint.newest(self._folder).checkpoint:
            self._compare(newest.state, federation)
        return federation

    def _compare(self, known: Mapping[str, object], federation: Federation) -> None:
        """Refuse other tasks than the run's, and tell of the user's code that was edited since."""
        numerics, code = known.get("numerics", {}), known.get("code", {})
        assert isinstance(numerics, dict) and isinstance(code, dict)
        found = recorded(federation.worlds)
        if numerics.get("device") != "cpu":  # another device may make other bits of the tasks' inputs
            del found["tasks_sha256"]
        refuse_others(self._folder, known, found)
        for file in edited(code, code_held(self._config)):
            warnings.warn(f"{file} is not as it was when the run was made; its models may do otherwise", stacklevel=2)


def _stamps(folder: Path) -> Stamps:
    if not folder.is_dir():  # a run that goes on keeps the last ones alone
        return {}
    found = ((file.name, file.stat()) for file in folder.iterdir())
    return {name: (of.st_ino, of.st_size, of.st_mtime_ns) for name, of in found}
