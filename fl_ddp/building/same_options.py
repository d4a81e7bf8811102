"""That all ranks have the same options: launchers of several machines take each one's own command line."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import fields

import yaml

from fl_ddp.config.settings import Config
from fl_ddp.config.yaml_file import to_yaml
from fl_ddp.errors import ConfigError
from fl_ddp.ranks.collectives import Ranks

_OF_A_MACHINE = ("out", "name", "rank_timeout")
_FOLDER = "root"
_MOST = 4096
"""Bytes that a rank can tell the others."""


def refuse_other_options(config: Config, ranks: Ranks) -> None:
    """Refuse options that are not those of rank 0, but for the folders in which a machine has its files.

    Raises:
        ConfigError: one is another, on the lowest rank where it is; ElsewhereError on the others.
    """
    if ranks.size == 1:
        return
    content = yaml.safe_load(to_yaml(config))
    keys = [field.name for field in fields(Config) if field.name not in _OF_A_MACHINE]
    mine = {key: json.dumps(_anywhere(content.get(key)), sort_keys=True) for key in keys}
    if ranks.agree(None, digest(json.dumps(mine))):
        return
    for key, own in mine.items():
        if not ranks.agree(None, digest(own)):
            first = ranks.share(own if len(own.encode()) <= _MOST else "{}")
            option, here, there = _unlike(key, json.loads(own), json.loads(first))
            what = f"{here} on rank {ranks.index}, {there} on rank 0"
            ranks.agree(ConfigError(f"--{option}", what, "the same on all ranks") if own != first else None)


def digest(text: str) -> int:
    """Of a text, as a whole number below 2^48."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "little")


def _unlike(key: str, own: object, first: object) -> tuple[str, object, object]:
    """The first option, of one and of its own ones, that has two values; and both."""
    ours, theirs = (dict(_options(key, each)) for each in (own, first))
    for option in [*ours, *theirs]:
        if ours.get(option) != theirs.get(option):
            return option, ours.get(option), theirs.get(option)
    return key, own, first


def _options(key: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict) and "class_path" in value:
        yield key, value["class_path"]
        for name, each in value.get("init_args", {}).items():
            yield from _options(f"{key}.{name}", each)
    else:
        yield key, value


def _anywhere(value: object) -> object:
    """A value without the folders in it; what the files hold is compared where it is read."""
    if isinstance(value, dict):
        return {str(key): _anywhere(each) for key, each in value.items() if key != _FOLDER}
    if isinstance(value, list):
        return [_anywhere(each) for each in value]
    return value.rpartition("/")[2] if isinstance(value, str) else value
