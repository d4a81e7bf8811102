"""One configuration out of layers of options: defaults, then files, then the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fl_ddp.bounds import check
from fl_ddp.config import registry
from fl_ddp.config.beside_file import DATA_FILES
from fl_ddp.config.options import Given, Options, finite, options_of, suggestion, why_no_option
from fl_ddp.config.registry import KINDS
from fl_ddp.config.settings import Choice, Config
from fl_ddp.config.yaml_file import plain
from fl_ddp.errors import ConfigError
from fl_ddp.reading.homes import users_path

Layer = Mapping[str, Given]
"""Options of one origin, by key."""

# Of each pair at most one may be given; one in a higher layer takes the place of the other in a lower one.
_EITHER = {
    "participation": "cohort", "cohort": "participation", "local_epochs": "local_steps", "local_steps": "local_epochs",
}  # fmt: skip


# Where a shell leaves a home as it is: --out=~/runs.
_PATHS = ("out", "resume", "measures")

# What older versions called options.
_KEYS_NOW = {"keep_momentum": "optimizer.keep"}

# What other simulators call them, where the words are not alike.
_ELSEWHERE = {
    "alg": "method", "algorithm": "method", "strategy": "method", "net": "model", "arch": "model",
    "learning_rate": "lr", "local_learning_rate": "lr", "wd": "weight_decay", "reg": "weight_decay",
    "frac": "participation", "fraction_fit": "participation", "fraction_train": "participation",
    "join_ratio": "participation", "local_bs": "batch_size",
    "comm_round": "rounds", "global_rounds": "rounds", "local_ep": "local_epochs", "n_parties": "clients",
    "num_users": "clients",
}  # fmt: skip


def scalar_options() -> Options:
    """All options that are not choices."""
    return options_of(Config, frozenset(KINDS))


def default_choice(kind: str) -> Choice:
    """What a kind is where nothing is given."""
    choice: Choice = getattr(Config(), kind)
    return choice


def layer(given: Iterable[Given]) -> Layer:
    """A layer of options as they were written; of those that stand twice the last one counts."""
    now = (replace(each, key=_KEYS_NOW.get(each.key, each.key)) for each in given)
    by_key = {each.key: each for each in now}
    data = by_key.get("data")
    if data and isinstance(data.value, str) and (reader := DATA_FILES.get(Path(data.value).suffix)):
        by_key |= {"data": replace(data, value=reader), "data.path": replace(data, key="data.path")}
    return by_key


def resolve(layers: Sequence[Layer]) -> Config:
    """The configuration that layers of options make, each over those before it.

    Choices come out with full class paths and all their options, import paths with dots. Where a layer chooses another
    class, options of the layers below are kept if the new class has them too.

    Raises:
        ConfigError: an option or name is unknown, a value has the wrong type or is impossible, or is missing.
    """
    values = _scalars(layers)
    for kind in KINDS:
        values[kind] = _choice(kind, layers)
    if "lr" not in values:
        values["lr"] = _default_lr(values["optimizer"])  # type: ignore[arg-type]
    config = Config(**values)  # type: ignore[arg-type]
    return replace(config, measures=tuple(map(registry.with_dots, config.measures))).checked()


def _scalars(layers: Sequence[Layer]) -> dict[str, object]:
    options = scalar_options()
    values: dict[str, object] = {}
    for each in layers:
        here = {}
        for given in each.values():
            if given.key.partition(".")[0] in KINDS:
                continue
            if given.key not in options.by_name:
                raise ConfigError(given.where, f"unknown option{_hint(given)}")
            value = options.convert(given.key, given)
            here[given.key] = _from_home(given.where, value) if given.key in _PATHS else value
        for key, value in here.items():
            if value is not None:
                values.pop(_EITHER.get(key, ""), None)
        values |= here
    return values


def _from_home(option: str, value: object) -> object:
    """A path, or each of several, from the home that it may begin with."""
    if isinstance(value, list | tuple):
        return type(value)(_from_home(option, each) for each in value)
    return str(users_path(option, value)) if isinstance(value, str) and value else value


def _choice(kind: str, layers: Sequence[Layer]) -> Choice:
    choice = default_choice(kind)
    path, values = choice.class_path, dict(choice.init_args)
    owner = registry.load(kind, path)
    for each in layers:
        if kind in each:
            path, before = _class_path(kind, each[kind]), owner
            owner = registry.load(kind, path)
            values = values if owner is before else _fitting(registry.options(kind, owner), values)
        options = registry.options(kind, owner)
        for given in each.values():
            head, _, name = given.key.partition(".")
            if head != kind or not name:
                continue
            if name not in options.by_name:
                raise ConfigError(given.where, f"unknown option{_choice_hint(given, kind, owner)}")
            values[name] = options.convert(name, given)
    complete = _complete(kind, owner, values)
    check(owner, complete, f"--{kind}.")
    return Choice(path, complete)


def _default_lr(optimizer: Choice) -> float:
    """The learning rate where none is given."""
    owner = registry.load("optimizer", optimizer.class_path)
    return float(owner.default_lr)  # type: ignore[attr-defined]


def _class_path(kind: str, given: Given) -> str:
    if not isinstance(given.value, str) or not given.value:
        raise ConfigError(given.where, f"needs a name; known: {', '.join(registry.known(kind))}")
    return registry.class_path(kind, given.value, given.where)


def _fitting(options: Options, values: dict[str, object]) -> dict[str, object]:
    """Those of another class's values that this class takes."""
    kept = {}
    for name in values.keys() & options.by_name.keys():
        try:
            kept[name] = options.convert(name, Given(name, plain(values[name])))
        except (ConfigError, TypeError):
            continue
    return kept


def _complete(kind: str, owner: registry.Maker, values: dict[str, object]) -> dict[str, object]:
    """Values of all options in the order of the constructor."""
    complete, options = {}, registry.options(kind, owner)
    for name, option in options.by_name.items():
        if name in values:
            if not _is_plain(values[name]):
                raise ConfigError(f"--{kind}.{name}", "is an object, which options cannot give", "what YAML holds")
            complete[name] = values[name]
        elif option.required:
            about = f" ({option.help.removesuffix('.')})" if option.help else ""
            raise ConfigError(f"--{kind}.{name}", f"is missing; {owner.__name__} needs it{about}")
        elif _is_plain(option.default) and finite(option.default) and name not in options.beside:
            complete[name] = option.default
    return complete


def _is_plain(value: object) -> bool:
    """Whether YAML can hold a value; a default that options cannot be (a function, say) is left to the constructor."""
    try:
        plain(value)
    except TypeError:
        return False
    return True


def _hint(given: Given) -> str:
    """What an unknown key was meant to be."""
    key = given.key.replace("-", "_")
    near = _ELSEWHERE.get(key) or suggestion(given.key, [*scalar_options().by_name, *KINDS])
    start, _, rest = key.partition("_")  # --data_root for --data.root
    if start in KINDS and any(rest in _names(start, owner) for owner in registry.known(start).values()):
        near = f"{start}.{rest}"
    head, dot, name = given.key.partition(".")
    if dot and (kind := suggestion(head, KINDS)):
        near = f"{kind}.{name}"
    elif near is None:
        # Perhaps the kind was left out: --mu for --method.mu.
        takers = (kind for kind in KINDS for owner in registry.known(kind).values() if given.key in _names(kind, owner))
        near = next((f"{kind}.{given.key}" for kind in takers), None)
    return f"; did you mean {given.dashes}{near}?" if near else "; --help shows all"


def _choice_hint(given: Given, kind: str, owner: registry.Maker) -> str:
    """What an unknown option of a choice was meant to be."""
    names = _names(kind, owner)
    first = given.key.removeprefix(f"{kind}.").partition(".")[0]
    if given.key in (f"{kind}.name", f"{kind}.class_path"):
        name = kind.upper() if given.bare else given.value
        return f"; {given.dashes}{kind} {name} chooses a {kind}, and its options stand beside that"
    if first in registry.known(kind):
        return f"; {first} is a {kind} and no option: give its name to {given.dashes}{kind}, its options beside that"
    if near := suggestion(given.key.removeprefix(f"{kind}."), names):
        return f"; did you mean {given.dashes}{kind}.{near}?"
    if (alone := given.key.removeprefix(f"{kind}.")) in scalar_options().by_name:
        return f"; did you mean {given.dashes}{alone}? {owner.__name__} has {', '.join(names) or 'no options'}"
    if instead := why_no_option(owner, given.key.removeprefix(f"{kind}.")):
        return f"; {instead}"
    return f"; {owner.__name__} has {', '.join(names) or 'no options'}"


def _names(kind: str, owner: registry.Maker) -> list[str]:
    return list(registry.options(kind, owner).by_name)
