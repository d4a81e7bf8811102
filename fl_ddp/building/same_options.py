"""That all ranks have the same options and code: launchers of several machines take each one's own command line."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

from fl_ddp.config.command_line import PLACE, as_written
from fl_ddp.config.settings import OF_FOLDER, Config
from fl_ddp.errors import ConfigError
from fl_ddp.ranks.collectives import Ranks
from fl_ddp.versions.users_code import users_code

_MAY_DIFFER = (*PLACE, *OF_FOLDER, "rank_timeout")
_MOST = 200
"""Letters of a value that is told as it is."""


def refuse_other_options(config: Config, ranks: Ranks) -> None:
    """Refuse options and own code that are not those of rank 0, but for the folders in which a machine has its files.

    Raises:
        ConfigError: something is another, on the lowest rank where it is; ElsewhereError on the others.
    """
    if ranks.size == 1:
        return
    options, code = ranks.together(lambda: (_options(config, ranks.device.type), code_of(config)))
    parts = {
        field.name: {k: v for k, v in options.items() if k.split(".")[0] == field.name} for field in fields(Config)
    }
    if all([ranks.agree(None, digest(json.dumps(each))) for each in (parts, code)]):
        return
    for part in [*parts.values(), code]:
        if ranks.agree(None, digest(json.dumps(part))):
            continue
        first = json.loads(ranks.share(json.dumps(part)))
        key = next((key for key in [*part, *first] if part.get(key) != first.get(key)), None)
        ranks.agree(_unlike(key, part.get(key), first.get(key), ranks.index, is_code=part is code) if key else None)


def digest(text: str) -> int:
    """Of a text, as a whole number below 2^48."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "little")


def _options(config: Config, device_type: str) -> dict[str, str]:
    given = as_written(config) | {"device": device_type}
    return {key: _short(text) for key, text in given.items() if key not in _MAY_DIFFER}


def code_of(config: Config) -> Mapping[str, str]:
    """What ranks compare of the user's own files, by their names: they may lie elsewhere on another machine."""
    versions: dict[str, list[str]] = {}
    for place, sha256 in users_code(config, values=False).items():  # packages have files of one name
        versions.setdefault(Path(place).name, []).append(sha256[:12])
    return {name: " ".join(sorted(each)) for name, each in versions.items()}


def _short(text: str) -> str:
    return text if len(text) <= _MOST else f"{text[: _MOST // 4]}... ({len(text)} letters, {digest(text):x})"


def _unlike(key: str, own: str | None, first: str | None, index: int, *, is_code: bool) -> ConfigError:
    accepted = "the same on all ranks"
    if is_code:
        return ConfigError(key, f"is not on rank {index} what it is on rank 0", accepted)
    here, there = ("not given" if each is None else each for each in (own, first))
    return ConfigError(f"--{key}", f"{here} on rank {index}, {there} on rank 0", accepted)
