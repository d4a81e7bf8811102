"""What simulate() was asked for: names, files, classes, objects and arrays, turned into a configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from inspect import isfunction
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
from torch import nn

from fl_ddp.config import registry
from fl_ddp.config.command_line import from_layers, mapping_layer
from fl_ddp.config.layers import Layer, layer
from fl_ddp.config.registry import KINDS
from fl_ddp.config.settings import Choice, Config
from fl_ddp.config.yaml_file import read_yaml
from fl_ddp.errors import ConfigError
from fl_ddp.losses.named import loss_named
from fl_ddp.notebook.given_arrays import ACCEPTED, FOLDER, GivenArrays, InMemory, as_arrays, file_name, keep
from fl_ddp.notebook.given_model import fingerprint, given_model


class Asked(NamedTuple):
    """A run that a notebook asks for.

    Attributes:
        config: all settings.
        module: the model, where it was given as an object.
    """

    config: Config
    module: nn.Module | None

    @property
    def of_rank(self) -> str:
        """What arrays and module are, which must be the same on all ranks."""
        return f"{self.config.data.init_args.get('path')} {self.config.model.init_args.get('sha256')}"


class _Given(NamedTuple):
    """A mapping of a notebook, its objects taken out."""

    content: Mapping[str, object]
    module: nn.Module | None = None
    arrays: GivenArrays | None = None


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
        layers.append(layer(read_yaml(Path(str(config)))))
    given = _taken_apart({**config, **options} if isinstance(config, Mapping) else options)
    layers.append(mapping_layer(given.content))
    if given.arrays is None:
        return Asked(from_layers(layers), given.module)
    if any("resume" in each for each in layers):
        layers = [{key: each for key, each in one.items() if key != "data"} for one in layers]
    return Asked(_with_arrays(from_layers(layers), given.arrays), given.module)


def _with_arrays(config: Config, arrays: GivenArrays) -> Config:
    """The configuration with the file that the arrays are kept in.

    Raises:
        ConfigError: they are no data, a run is to go on with other arrays than it began with, or the file cannot be
            written.
    """
    name = file_name(arrays)
    if config.resume is None:
        options: dict[str, Any] = {key: value for key, value in config.data.init_args.items() if key != "path"}
        InMemory(given=arrays, **options).load(loss_named(config.loss, config.label_smoothing).targets)
        path = Path(config.out).expanduser() / FOLDER / name
        config = config.with_changes(data=replace(config.data, init_args={**config.data.init_args, "path": str(path)}))
    else:
        path = Path(str(config.data.init_args.get("path")))
        if path.name != name:
            raise ConfigError("data", f"are other arrays than {config.resume} began with", "the same, or none")
    keep(arrays, path)
    return config


def _taken_apart(content: Mapping[str, object]) -> _Given:
    data, model = content.get("data"), content.get("model")
    if data is not None and not isinstance(data, (str, type, Path, Choice, Mapping, Sequence, registry.base("data"))):
        raise ConfigError("data", type(data).__name__, ACCEPTED)
    arrays = as_arrays(data) if isinstance(data, Sequence) and not isinstance(data, str) else None
    spelled = {key: _spelled(key, value) if key in KINDS else _own_type(value) for key, value in content.items()}
    if arrays is not None:
        spelled["data"] = "Npz"
    return _Given(spelled, model if isinstance(model, nn.Module) else None, arrays)


def _spelled(kind: str, value: object) -> object:
    """A class or an object as its import path and options.

    Raises:
        ConfigError: there is no such path.
    """
    if isinstance(value, type) or isfunction(value):
        return _path(kind, value)
    if isinstance(value, Mapping):
        return {key: _path(kind, each) if isinstance(each, type) else _own_type(each) for key, each in value.items()}
    if isinstance(value, nn.Module) and kind == "model":
        path = f"{given_model.__module__}.{given_model.__name__}"
        return Choice(path, {"kind": type(value).__name__, "sha256": fingerprint(value)})
    if is_dataclass(value) and isinstance(value, registry.base(kind)):
        owner = type(value)
        names = registry.options(kind, owner).by_name
        options = {each.name: _own_type(getattr(value, each.name)) for each in fields(value) if each.name in names}
        return Choice(_path(kind, owner), options)
    return _own_type(value)


def _own_type(value: object) -> object:
    """A number of numpy's as Python's, and a path as a text, which YAML can hold."""
    if isinstance(value, Path):
        return str(value)
    return value.item() if isinstance(value, np.generic) else value


def _path(kind: str, owner: type | FunctionType) -> str:
    """By which a class can be imported, now and when the run goes on."""
    if owner.__name__ == "<lambda>":
        raise ConfigError(kind, "is a lambda, which has no name to be found by", "a function that is defined with def")
    if "." in owner.__qualname__:
        what = f"{owner.__qualname__} lies in a function or another class, where no run that goes on would find it"
        raise ConfigError(kind, what, "a class at the top of a file or notebook")
    return f"{owner.__module__}.{owner.__qualname__}"
