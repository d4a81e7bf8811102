"""Finds the class that a name stands for; a class is known by being in a file of its subpackage.

A model may also come from a function by its import path, such as torchvision.models.resnet18.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from fl_ddp.bounds import Count
from fl_ddp.config.options import Options, meant, nearest_first, options_of
from fl_ddp.config.settings import Choice
from fl_ddp.errors import ConfigError, first_line, one_line, users_place
from fl_ddp.guards.signatures import refuse_changeable, refuse_other_signatures
from fl_ddp.network.choices import Norm
from fl_ddp.reading.homes import users_path

Maker = Callable[..., object]
"""A class, or a function that makes a model."""


class _Kind(NamedTuple):
    """One of what a user chooses classes for.

    Attributes:
        package: whose modules have the classes that come with it.
        base: that all classes are subclasses of.
        known: arguments that the run gives a class, and no user.
    """

    package: str
    base: str
    known: frozenset[str] = frozenset()


_KINDS = {
    "data": _Kind("fl_ddp.datasets", "fl_ddp.datasets.dataset.Dataset"),
    "partition": _Kind(
        "fl_ddp.partitions", "fl_ddp.partitions.partition.Partition", frozenset({"owners", "num_clients"})
    ),
    "stream": _Kind("fl_ddp.streams", "fl_ddp.streams.stream.Stream"),
    "model": _Kind("fl_ddp.models", "torch.nn.Module", frozenset({"in_shape", "num_classes", "num_tokens", "given"})),
    "method": _Kind("fl_ddp.methods", "fl_ddp.methods.fedavg.FedAvg", frozenset({"model", "num_clients"})),
    "optimizer": _Kind("fl_ddp.optimizers", "fl_ddp.optimizers.rule.Optimizer"),
}
KINDS = tuple(_KINDS)
_OF_NETWORKS = ("in_shape", "num_classes")
"""Arguments that tell the models of the package from their parts."""
_ELSEWHERE = {
    "fedadam": "FedOpt", "fedyogi": "FedOpt with --method.rule yogi", "fedadagrad": "FedOpt with --method.rule adagrad",
    "ewc": "OnlineEWC", "fedlwf": "LwF", "flwf": "LwF",
}  # fmt: skip
"""What other programs call methods."""
_OF_SCRIPT = "it was one of a script's or a notebook's: go on there, with simulate(resume=...), or give a file"
_IMPORT_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+|.*\.py:\w+")
_WITH_COLON = re.compile(r"(?!.*\.py:)([^\W\d]\w*(?:\.[^\W\d]\w*)*):(\w+)")


@cache
def base(kind: str) -> type:
    """The class that all classes of a kind are subclasses of."""
    module, _, name = _KINDS[kind].base.rpartition(".")
    found: type = getattr(importlib.import_module(module), name)
    return found


@cache
def known(kind: str) -> dict[str, type]:
    """All classes of a kind that come with the package, by name."""
    package = importlib.import_module(_KINDS[kind].package)
    found = {}
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{info.name}")
        for name, value in vars(module).items():
            if inspect.isclass(value) and value.__module__ == module.__name__ and _offered(kind, value):
                found[name] = value
    return dict(sorted(found.items()))


def any_model(module: object, norm: Norm = "own", projection: Count | None = None) -> object:
    """What options can say of every model.

    Args:
        module: the model.
        norm: own leaves its layers as they are; group puts GroupNorm in place of every BatchNorm.
        projection: width of a projection between features and classifier, MOON's 256; null for none.

    Raises:
        ConfigError: it cannot have a projection.
    """
    # both import torch, which commands need not wait for
    from fl_ddp.models.projection import with_projection
    from fl_ddp.network.group_norm import with_group_norm

    if norm == "group":
        module = with_group_norm(module)  # type: ignore[arg-type]
    return module if projection is None else with_projection(module, projection)  # type: ignore[arg-type]


def options(kind: str, owner: Maker) -> Options:
    """The options of a class of a kind that are the user's to give.

    Raises:
        ConfigError: the constructor's signature cannot be read.
    """
    try:
        return options_of(owner, _KINDS[kind].known, any_model if kind == "model" else None)
    except (ValueError, TypeError, AttributeError) as error:
        reason = one_line(error)
        raise ConfigError(f"--{kind}", f"the arguments of {owner.__name__} cannot be read: {reason}") from error


def class_path(kind: str, name: str, where: str = "") -> str:
    """The import path of the class that a name stands for.

    Args:
        kind: data, partition, stream, model, method or optimizer.
        name: a class name in any case, an import path (my_file.MyClass or my_file:MyClass), or "my_file.py:MyClass".
        where: what messages call the option; by default "--<kind>".

    Raises:
        ConfigError: there is no such class.
    """
    by_lower_name = {each.lower(): owner for each, owner in known(kind).items()}
    if name.lower() in by_lower_name:
        owner = by_lower_name[name.lower()]
        return f"{owner.__module__}.{owner.__qualname__}"
    where = where or f"--{kind}"
    if name.startswith("~"):
        name = str(users_path(where, name))
    if name.endswith(".py") and users_path(where, name).is_file():
        module = _import_file(Path(name), where)
        classes = [f"{name}:{each}" for each, value in vars(module).items() if _is_own(kind, value, module)]
        raise ConfigError(where, f"{name} is a file", " or ".join(classes) or f"a class in one: {name}:MyClass")
    name = with_dots(name)
    if _IMPORT_PATH.fullmatch(name):
        load(kind, name, where)
        return name
    here = f"it is {own} here; " if (own := _ELSEWHERE.get(name.lower())) and kind == "method" else ""
    names = f"known: {', '.join(known(kind))}" if here else meant(name, known(kind))
    raise ConfigError(where, f"{name} is unknown; {here}{names}, or an import path such as my_file.MyClass")


def with_dots(path: str) -> str:
    """An import path such as my_module:name as my_module.name; any other text as it is."""
    found = _WITH_COLON.fullmatch(path)
    return ".".join(found.groups()) if found else path


def load(kind: str, path: str, where: str = "") -> Maker:
    """What is at an import path such as my_file.MyClass, or in a file such as folder/my_file.py:MyClass.

    A class, or, of a model, a function.

    Raises:
        ConfigError: there is none, or it is not of the kind.
    """
    where = where or f"--{kind}"
    module, name = _module(path, where)
    found = getattr(module, name, None)
    if kind == "model" and inspect.isfunction(found):
        made: Maker = found
        return made
    if not inspect.isclass(found):
        classes = [each for each, value in vars(module).items() if _is_usable(kind, value)]
        has = f"; it has {', '.join(nearest_first(name, classes))}" if classes else ""
        if module.__name__ == "__main__":
            has = f"; {_OF_SCRIPT}"
            has += "; fl_ddp.load(folder, model=...) takes an object of it" if kind == "model" else ""
        raise ConfigError(where, f"{path} is unknown; {module.__name__} has no class {name}{has}")
    if not issubclass(found, base(kind)):
        raise ConfigError(where, f"{path} is no subclass of {_KINDS[kind].base}")
    if inspect.isabstract(found):
        lacking = sorted(getattr(found, "__abstractmethods__", ()))
        raise ConfigError(where, f"{path} has no {' and no '.join(lacking)} of its own")
    return found


def measure(path: str) -> Callable[[object], object]:
    """The function at an import path such as my_file.function, or in a file, folder/my_file.py:function.

    Raises:
        ConfigError: there is none, or it does not take one thing, what is tested.
    """
    where, accepted = "--measures", "one such as my_file.py:my_function"
    if not _IMPORT_PATH.fullmatch(path) or path.endswith(".py"):
        raise ConfigError(where, f"{path or 'nothing'} is no import path", accepted)
    module, name = _module(path, where)
    found = getattr(module, name, None)
    if found is not None and not inspect.isfunction(found):
        raise ConfigError(where, f"{path} is {type(found).__name__}", "a function that is made with def")
    if found is None:
        functions = {key: value for key, value in vars(module).items() if inspect.isfunction(value)}
        own = [key for key, value in functions.items() if value.__module__ == module.__name__]
        has = f"; it has {', '.join(nearest_first(name, own))}" if own else ""
        if module.__name__ == "__main__":
            has = f"; {_OF_SCRIPT}"
        raise ConfigError(where, f"{path} is unknown; {module.__name__} has no function {name}{has}", accepted)
    try:
        inspect.signature(found).bind(None)
    except TypeError as error:
        what = f"{path}{inspect.signature(found)} cannot be called so"
        raise ConfigError(where, what, "a function of one thing, what is tested") from error
    return found


def build(choice: Choice, **engine_arguments: object) -> object:
    """Make the object of a choice.

    Args:
        choice: a class path and its arguments, as a checked configuration holds them.
        engine_arguments: what the run knows (num_classes, model, ...); the constructor gets those it accepts.

    Raises:
        ConfigError: the constructor refuses a value.
    """
    module, name = _module(choice.class_path, choice.class_path)
    owner: Maker = getattr(module, name)
    kind = next((kind for kind in KINDS if isinstance(owner, type) and issubclass(owner, base(kind))), "model")
    if isinstance(owner, type) and kind != "model":
        refuse_other_signatures(owner, base(kind))
    wanted = {name: value for name, value in engine_arguments.items() if _accepts(owner, name)}
    beside = options(kind, owner).beside & choice.init_args.keys()
    own = {name: value for name, value in choice.init_args.items() if name not in beside}
    try:
        made = owner(**own, **wanted)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"--{kind} {choice.name}", one_line(error)) from error
    if kind == "method":
        refuse_changeable(kind, made)
    if not isinstance(made, base(kind)):
        raise ConfigError(f"--{kind} {choice.name}", f"gives {type(made).__name__}, which is no {_KINDS[kind].base}")
    return any_model(made, **{name: choice.init_args[name] for name in beside})  # type: ignore[arg-type]


def _offered(kind: str, owner: type) -> bool:
    # Of the modules in fl_ddp.models, only whole networks take what the run knows; their parts do not.
    is_part = kind == "model" and not all(_accepts(owner, name) for name in _OF_NETWORKS)
    return _is_usable(kind, owner) and not owner.__name__.startswith("_") and not is_part


def _is_own(kind: str, value: object, module: ModuleType) -> bool:
    """Whether something in a module is a class of a kind that begins there."""
    return _is_usable(kind, value) and getattr(value, "__module__", "") == module.__name__


def _is_usable(kind: str, value: object) -> bool:
    return inspect.isclass(value) and issubclass(value, base(kind)) and not inspect.isabstract(value)


def _accepts(owner: Maker, name: str) -> bool:
    if not isinstance(owner, type):
        return name in options_of(owner).by_name
    for parent in owner.__mro__:
        if "__init__" in vars(parent):
            parameters = inspect.signature(vars(parent)["__init__"]).parameters
            if name in parameters:
                return True
            if not any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values()):
                return False
    return False


def _module(path: str, where: str) -> tuple[ModuleType, str]:
    """The module of a class path, and the name of the class in it."""
    file, _, name = path.rpartition(":")
    if file:
        return _import_file(Path(file), where), name
    module_name, _, name = path.rpartition(".")
    return _import(module_name, Path.cwd(), where), name


def _import_file(file: Path, where: str) -> ModuleType:
    if not users_path(where, file).is_file():
        raise ConfigError(where, f"{file}: no such file")
    module = _import(file.stem, file.parent, where)
    if module.__file__ is None or not file.samefile(module.__file__):
        raise ConfigError(where, f"{file} cannot be imported, {module.__file__} has its name; rename the file")
    return module


def _import(module_name: str, folder: Path, where: str) -> ModuleType:
    """Import a module that is installed or lies in a folder."""
    place = str(folder.resolve())
    if place not in sys.path:
        sys.path.append(place)
    importlib.invalidate_caches()
    try:
        return importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # a user's file may raise anything
        if isinstance(error, ModuleNotFoundError) and error.name and f"{module_name}.".startswith(f"{error.name}."):
            raise ConfigError(where, f"no module {module_name} is installed or in {place}") from error
        line = f"{users_place(error)}: " if users_place(error) else ""
        raise ConfigError(where, f"importing {module_name} failed: {line}{first_line(error)}") from error
