"""Files that a YAML file names, which are looked for beside it wherever the command runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

FILES = ("path", "test_path")
"""Names of options of a choice that are files."""
DATA_FILES: Mapping[str, str] = {".npz": "Npz", ".csv": "Csv"}
"""What reads the file that --data may name in place of a class, by how its name ends."""
PATHS = ("availability", "init")
"""Options that are files, or folders."""
WORDS_OR_FILES = ("class_reduction", "client_lr", "client_work")
"""Options that name a CSV file, or say it in words."""


def beside(file: Path, key: str, value: object) -> object:
    """The value of an option in a YAML file; one that names a file, from the root.

    Those are data.path, partition.path and other choices' path, data.test_path, availability, init, class_reduction,
    client_lr, client_work, stream.enrolment, an .npz or .csv file as data, and a class in a file of the user's. Places
    of the machine (data.root, out, resume) start at the working folder, as on the command line, and so does whatever
    starts with ~.

    Args:
        file: the YAML file.
        key: of the option, with its dots.
        value: as it is written there.
    """
    if isinstance(value, list):
        return [beside(file, key, each) for each in value]
    if not isinstance(value, str) or not value or value.startswith("~") or not _names_file(key, value):
        return value
    path, colon, name = value.rpartition(":") if _is_class(value) else (value, "", "")
    return f"{(file.parent / path).resolve()}{colon}{name}"


def _names_file(key: str, value: str) -> bool:
    head, _, option = key.rpartition(".")
    if key in PATHS:
        return True
    if head and (option in FILES or is_enrolment_file(option, value)):
        return True
    suffixes = DATA_FILES.keys() if key == "data" else {".csv"} if key in WORDS_OR_FILES else set[str]()
    return _is_class(value) or Path(value).suffix in suffixes


def is_enrolment_file(option: str, value: str) -> bool:
    """Whether an option of a choice names a file of enrolment."""
    return option == "enrolment" and value.endswith(".csv")


def _is_class(value: str) -> bool:
    path, _, name = value.rpartition(":")
    return path.endswith(".py") and name.isidentifier()
