"""The command line, a YAML file or a notebook's mapping, turned into a Config."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import NoReturn

from fl_ddp.config import command_help, registry
from fl_ddp.config.absolute_paths import with_absolute_files, with_absolute_paths
from fl_ddp.config.beside_file import WORDS_OR_FILES
from fl_ddp.config.layers import Layer, layer, resolve, scalar_options
from fl_ddp.config.options import Given
from fl_ddp.config.registry import KINDS
from fl_ddp.config.settings import OF_FOLDER, Choice, Config, by_key
from fl_ddp.config.yaml_file import flatten, read_yaml, to_yaml, written
from fl_ddp.errors import ConfigError
from fl_ddp.host.stdout import say
from fl_ddp.reading.homes import users_path
from fl_ddp.version import __version__

FREE_ON_RESUME = (
    "rounds", "eval_every", "checkpoint_every", "keep_checkpoints", "stop_at", "patience", "rank_timeout", "figures",
    "targets",
)  # fmt: skip
"""What may differ from the stored configuration when a run goes on."""
PLACE = ("data.root", "data.download")
"""Options that say where data lie."""
MAY_MOVE = (
    "data.path", "data.test_path", "partition.path", "stream.path", "stream.enrolment", "availability", *WORDS_OR_FILES,
)  # fmt: skip
"""Options that are files, what is in which is looked at when a run goes on."""
_BEGINNING = ("name", "out")
"""Options of a file that say where a run begins; one that goes on is where it is."""
OF_MACHINE = (*FREE_ON_RESUME, *PLACE, "device", *OF_FOLDER)
"""What may differ between a run in a folder and one that goes on with it, or is wanted in its place."""


def parse(argv: Sequence[str]) -> Config:
    """Read a command line.

    Args:
        argv: the arguments, without the program's name.

    Returns:
        all settings, checked; of the stored run where it is resumed.

    Raises:
        ConfigError: an option is unknown, malformed or impossible, or cannot be changed in a resumed run.
        SystemExit: with 0, after --help, --version or --print_config was answered.
    """
    given = tokens(argv)
    for each in given:
        _answer(each)
    layers = [layer(read_yaml(_config_path(each))) for each in given if each.key == "config"]
    layers.append(layer(each for each in given if each.key not in ("config", "print_config")))
    config = with_measures(from_layers(layers))
    if any(each.key == "print_config" for each in given):
        _show(to_yaml(with_absolute_files(config)).rstrip())
    return config


def with_measures(config: Config) -> Config:
    """The configuration of a run that is to be made, if the functions of --measures are there.

    Raises:
        ConfigError: one is not.
    """
    for path in config.measures:
        registry.measure(path)
    return config


def from_file(path: str | Path) -> Config:
    """Read a YAML file of options.

    Raises:
        ConfigError: as parse.
    """
    return from_layers([layer(read_yaml(Path(path)))])


def from_mapping(content: Config | Mapping[str, object]) -> Config:
    """Complete and check a configuration of a notebook.

    Args:
        content: a Config, or a mapping shaped like the YAML; nested or with dots in its keys.

    Raises:
        ConfigError: as parse.
    """
    return from_layers([mapping_layer(content)])


def mapping_layer(content: Config | Mapping[str, object]) -> Layer:
    """The options of a notebook, arguments as of from_mapping.

    Raises:
        ConfigError: a choice is not shaped like one.
    """
    if isinstance(content, Config):
        values = {each.name: getattr(content, each.name) for each in fields(content)}
        content = {name: value for name, value in values.items() if value != getattr(Config(), name)}
    return layer(flatten({name: _spelled(value) for name, value in content.items()}, ""))


def from_layers(layers: Sequence[Layer]) -> Config:
    """The configuration that layers of options make, each over those before it, or that of the run they go on with.

    Raises:
        ConfigError: as parse.
    """
    folder = None
    for given in (each["resume"] for each in layers if "resume" in each):
        value = scalar_options().convert("resume", given)
        folder = None if value is None else users_path(given.where, str(value))
    return resolve(layers) if folder is None else resumed(folder, layers)


def resumed(folder: Path, layers: Sequence[Layer]) -> Config:
    """The configuration stored in a run's folder, with what may be changed, and where files lie now.

    What is in those is looked at when the run goes on. A file's name and out are left out.

    Args:
        folder: of the run.
        layers: what the user gave.

    Raises:
        ConfigError: there is no stored configuration, or another option than those in FREE_ON_RESUME and PLACE differs.
    """
    try:
        exists = folder.is_dir()
    except OSError as error:  # nobody may look at it, say
        raise ConfigError("--resume", f"{folder}: {error.strerror}") from error
    if not exists:
        raise ConfigError("--resume", f"{folder}: no such folder")
    file = folder / "config.yaml"
    if not file.is_file():
        raise ConfigError("--resume", f"{folder} holds no config.yaml; give the folder of a run")
    stored_layer = layer_of_run(file)
    asked = [{key: each for key, each in one.items() if not (each.of_file and key in _BEGINNING)} for one in layers]
    stored, wanted = resolve([stored_layer]), resolve([stored_layer, *asked])
    old, new = by_key(stored), by_key(wanted)
    there, here = by_key(with_absolute_paths(stored)), by_key(with_absolute_paths(wanted))
    for given in (given for each in asked for given in each.values()):
        before, now = there.get(given.key), here.get(given.key)
        differ = _of_moved(before) != _of_moved(now) if given.key in MAY_MOVE else written(before) != written(now)
        change = f"{written(new.get(given.key))} is not {folder}'s {written(old.get(given.key))}"
        if given.key == "rounds" and differ and stored.depends_on_rounds:
            what = f"{change}, over which the learning rate falls (--lr_schedule {stored.lr_schedule})"
            raise ConfigError(given.where, f"{what}; once it is over, --init {folder} begins a new one with its model")
        if given.key not in (*FREE_ON_RESUME, *PLACE, "resume") and differ:
            free = ", ".join(f"--{key}" for key in FREE_ON_RESUME)
            what = f"{change}; with --resume only {free} may change, and where files lie"
            raise ConfigError(given.where, f"{what}; once it is over, --init {folder} begins a new one with its model")
    return wanted


def layer_of_run(file: Path) -> Layer:
    """The options in a run's config.yaml, with what the run did where one was not there yet.

    Raises:
        ConfigError: it cannot be read.
    """
    stored = layer(read_yaml(file))
    folders = "data" in stored and str(stored["data"].value).endswith(".ImageFolder")
    return {"data.domains": Given("data.domains", False, typed=True), **stored} if folders else stored


def fixed(config: Config) -> dict[str, str]:
    """What may not change when a run goes on, as as_written() has it."""
    return {key: text for key, text in as_written(config).items() if key not in OF_MACHINE}


def as_written(config: Config) -> dict[str, str]:
    """All options as written, by key; files by their names, as they may have moved or be elsewhere on a machine."""
    return {key: written(_of_moved(value)) for key, value in by_key(with_absolute_paths(config)).items()}


def _of_moved(value: object) -> object:
    """A path, or each of several, by its end alone."""
    if isinstance(value, list | tuple):
        return [_of_moved(each) for each in value]
    return Path(value).name if isinstance(value, str) and Path(value).is_absolute() else value


def tokens(argv: Sequence[str]) -> list[Given]:
    """The options in a command line: --key value, --key=value, or --key alone.

    Raises:
        ConfigError: a word belongs to none.
    """
    given: list[Given] = []
    waiting = False
    for word in argv:
        if word.startswith("--") and len(word) > 2:
            key, equals, value = word[2:].partition("=")
            given.append(Given(key, value, "--", typed=False) if equals else Given(key, True, "--"))
            waiting = not equals
        elif word == "-h":
            given.append(Given("help", True, "--"))
            waiting = False
        elif waiting:
            given[-1] = Given(given[-1].key, word, "--", typed=False)
            waiting = False
        else:
            raise ConfigError(word, "belongs to no option; write --option value, and quote values with spaces")
    return given


def _answer(given: Given) -> None:
    """Print what an option asks for, and stop."""
    kind, _, rest = given.key.partition(".")
    if given.key == "help":
        _show(command_help.overview())
    if given.key == "version":
        _show(f"fl_ddp {__version__}")
    if kind in KINDS and rest == "help":
        _show(command_help.about_kind(kind) if given.bare else command_help.about_class(kind, str(given.value)))


def _show(text: str) -> NoReturn:
    if os.environ.get("RANK", "0") == "0":
        say(text)
    raise SystemExit(0)


def _config_path(given: Given) -> Path:
    if given.bare or not given.value:
        raise ConfigError("--config", "needs the path of a YAML file")
    return users_path("--config", str(given.value))


def _spelled(value: object) -> object:
    """A value as YAML spells it."""
    return {"class_path": value.class_path, "init_args": value.init_args} if isinstance(value, Choice) else value
