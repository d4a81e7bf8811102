"""What simulate() was asked for: names, files, classes, objects and arrays, turned into a configuration."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from inspect import isfunction
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from fl_ddp.config import registry
from fl_ddp.config.command_line import from_layers, mapping_layer, with_measures
from fl_ddp.config.layers import Layer, layer
from fl_ddp.config.registry import KINDS
from fl_ddp.config.settings import Choice, Config
from fl_ddp.config.yaml_file import read_yaml
from fl_ddp.errors import ConfigError
from fl_ddp.losses.named import loss_named
from fl_ddp.notebook.given_arrays import ACCEPTED, GivenArrays, InMemory, arrays_file, as_arrays, holds_arrays
from fl_ddp.notebook.given_division import as_division, division_file, is_by_client
from fl_ddp.notebook.given_file import FOLDER, GivenFile, keep
from fl_ddp.notebook.given_model import GIVEN, fingerprint
from fl_ddp.notebook.given_rows import numbers_of_factors, rows_files
from fl_ddp.notebook.given_weights import weights_file
from fl_ddp.protocol import Indices
from fl_ddp.reading.homes import users_path


class Asked(NamedTuple):
    """A run that a notebook asks for.

    Attributes:
        config: all settings.
        module: the model, where it was given as an object.
        of_rank: what arrays, division, weights and module are, which must be the same on all ranks.
    """

    config: Config
    module: nn.Module | None
    of_rank: str


class _Given(NamedTuple):
    """A mapping of a notebook, its objects taken out."""

    content: Mapping[str, object]
    module: nn.Module | None
    arrays: GivenArrays | None
    division: list[Indices] | None
    beside: Mapping[str, GivenFile]
    factors: Mapping[str, int]
    num_clients: int | None

    @property
    def files(self) -> Mapping[str, GivenFile]:
        """What is kept of them, by the option that reads it."""
        return {
            **self.beside,
            **({} if self.arrays is None else {"data": arrays_file(self.arrays)}),
            **({} if self.division is None else {"partition": division_file(self.division)}),
        }


def asked(config: object, options: Mapping[str, object]) -> Asked:
    """Read what simulate() was given.

    Args:
        config: a Config, a mapping, the path of a YAML file, or None.
        options: over it; each may be an object, as simulate() says.

    Raises:
        ConfigError: the configuration cannot be run, or an object cannot be spelled in one.
    """
    layers: list[Layer] = []
    if isinstance(config, Config):
        layers.append(mapping_layer(config))
    elif not isinstance(config, Mapping) and config is not None:
        layers.append(layer(read_yaml(users_path("config", str(config)))))
    given = _taken_apart({**config, **options} if isinstance(config, Mapping) else options)
    layers.append(mapping_layer(given.content))
    files = given.files
    if any("resume" in each and each["resume"].value is not None for each in layers):
        layers = [{key: each for key, each in one.items() if key not in files} for one in layers]
    elif given.division is not None:
        layers.insert(0, mapping_layer({"clients": len(given.division)}))
    config = with_measures(from_layers(layers))
    if config.resume is None:
        _look_at(given, config)
    for kind, file in files.items():
        config = _with_file(config, kind, file)
    of_rank = [*(file.name for file in files.values()), str(config.model.init_args.get("sha256"))]
    return Asked(config, given.module, " ".join(of_rank))


def _look_at(given: _Given, config: Config) -> None:
    """Refuse arrays that are no data, and a division among others than the clients, before they are kept."""
    if given.arrays is not None:
        options: dict[str, Any] = {key: value for key, value in config.data.init_args.items() if key != "path"}
        InMemory(given=given.arrays, **options).load(loss_named(config.loss, config.label_smoothing).targets)
    if given.division is not None and len(given.division) != config.clients:
        raise ConfigError("clients", f"{config.clients}, and partition has {len(given.division)}", "as many, or none")
    told = given.num_clients
    if told is not None and told != config.clients:
        what = f"has num_clients {told}, and there are {config.clients} clients"
        raise ConfigError("method", what, "as many; or without, as the run tells it")
    for option, number in given.factors.items():
        if number != config.clients:
            accepted = "a number of each client, or a mapping of those that have one"
            raise ConfigError(option, f"{number} numbers, and there are {config.clients} clients", accepted)


def _with_file(config: Config, kind: str, file: GivenFile) -> Config:
    """The configuration with a file that is kept with it.

    Raises:
        ConfigError: a run is to go on with another than it began with, or it cannot be written.
    """
    reader: Choice | str | None = getattr(config, kind)
    if config.resume is None:
        path = Path(config.out) / FOLDER / file.name
        if isinstance(reader, Choice):
            config = config.with_changes(**{kind: replace(reader, init_args={**reader.init_args, "path": str(path)})})
        else:
            config = config.with_changes(**{kind: str(path)})
    else:
        path = Path(str(reader.init_args.get("path") if isinstance(reader, Choice) else reader))
        if path.name != file.name:
            raise ConfigError(kind, f"is not what {config.resume} began with", "the same, or none")
    keep(file, path)
    return config


def _taken_apart(content: Mapping[str, object]) -> _Given:
    data, model, init = content.get("data"), content.get("model"), content.get("init")
    if data is not None and not isinstance(data, (str, type, Path, Choice, Mapping, Sequence, registry.base("data"))):
        raise ConfigError("data", type(data).__name__, ACCEPTED)
    division = content.get("partition")
    arrays, parts = None, None
    if (isinstance(data, Mapping) and holds_arrays(data)) or (isinstance(data, Sequence) and not isinstance(data, str)):
        arrays = as_arrays(data)
    if isinstance(division, Mapping) and not division:
        raise ConfigError("partition", "is empty", "a name with its options, or the sample indices of each client")
    if isinstance(division, np.ndarray | Tensor) and division.ndim:
        division = list(division)
    by_client = isinstance(division, Mapping) and is_by_client(division)
    if isinstance(division, Mapping | Sequence) and (by_client or not isinstance(division, Mapping | str)):
        parts = as_division(division)
    kept = ({} if arrays is None else {"data": "Npz"}) | ({} if parts is None else {"partition": "FromFile"})
    beside = rows_files(content) | ({"init": weights_file(init)} if isinstance(init, nn.Module | Mapping) else {})
    others = {key: value for key, value in content.items() if key not in kept and key not in beside}
    spelled = {key: _spelled(key, value) if key in KINDS else _own_type(value) for key, value in others.items()} | kept
    if "measures" in others:
        spelled["measures"] = _functions(others["measures"])
    module = model if isinstance(model, nn.Module) else None
    number = _num_clients(content.get("method"))
    return _Given(spelled, module, arrays, parts, beside, numbers_of_factors(content), number)


def _num_clients(method: object) -> int | None:
    """The number of clients that a method's object was given, where it was."""
    own = fields(method) if is_dataclass(method) else ()
    option = next((each for each in own if each.name == "num_clients"), None)
    number: int | None = getattr(method, "num_clients", None) if option else None
    return None if option is None or number == option.default else number


def _spelled(kind: str, value: object) -> object:
    """A class or an object as its import path and options.

    Raises:
        ConfigError: there is no such path.
    """
    if isinstance(value, type) or isfunction(value):
        return path_of(kind, value)
    if isinstance(value, Mapping):
        return {key: path_of(kind, each) if isinstance(each, type) else _own_type(each) for key, each in value.items()}
    if isinstance(value, nn.Module) and kind == "model":
        return Choice(GIVEN, {"kind": type(value).__name__, "sha256": fingerprint(value)})
    if is_dataclass(value) and isinstance(value, registry.base(kind)):
        owner = type(value)
        names = registry.options(kind, owner).by_name
        options = {each.name: _own_type(getattr(value, each.name)) for each in fields(value) if each.name in names}
        return Choice(path_of(kind, owner), options)
    return _own_type(value)


def _functions(given: object) -> object:
    """One function, or several, by their import paths.

    Raises:
        ConfigError: something is none, or is not what is found at its path, as a decorated one is under another name.
    """
    found = []
    for one in given if isinstance(given, list | tuple) else [given]:
        path = path_of("measures", one) if isfunction(one) else one
        if not isinstance(path, str):
            raise ConfigError("measures", f"{type(one).__name__} is no function", "functions that are made with def")
        if isfunction(one) and getattr(sys.modules.get(one.__module__), one.__qualname__, None) is not one:
            raise ConfigError("measures", f"{path} is another function by now", "one under its own name")
        found.append(path)
    return found


def _own_type(value: object) -> object:
    """Numbers, arrays, devices and types of numpy's and torch's as Python's, and a path as a text, as YAML has them."""
    if isinstance(value, Path | torch.device):
        return str(value)
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if isinstance(value, list | tuple):
        return [_own_type(each) for each in value]
    return value.tolist() if isinstance(value, np.generic | np.ndarray | Tensor) else value


def path_of(kind: str, owner: type | FunctionType) -> str:
    """By which a class can be imported, now and when the run goes on."""
    if owner.__name__ == "<lambda>":
        raise ConfigError(kind, "is a lambda, which has no name to be found by", "a function that is defined with def")
    if "." in owner.__qualname__:
        what = f"{owner.__qualname__} lies in a function or another class, where no run that goes on would find it"
        one = "function" if isfunction(owner) else "class"
        raise ConfigError(kind, what, f"a {one} at the top of a file or notebook")
    return f"{owner.__module__}.{owner.__qualname__}"
