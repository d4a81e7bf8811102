"""A table of features, labels and maybe clients."""

from __future__ import annotations

import csv
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from fl_ddp.bounds import Seed
from fl_ddp.datasets.dataset import Arrays, Dataset
from fl_ddp.datasets.held_out import TestShare, held_out
from fl_ddp.datasets.labels import from_words, no_number
from fl_ddp.datasets.owners import owners_of
from fl_ddp.errors import ConfigError, one_line
from fl_ddp.protocol import Owners
from fl_ddp.reading.homes import users_path

ACCEPTED = "a CSV file whose first line names its columns"
SHOWN = 20
"""Names of columns that a message has."""


class Table(NamedTuple):
    """What a file holds.

    Attributes:
        features: names of their columns.
        x: [N, features].
        labels: [N], as they are written.
        lines: [N], where they stand.
        clients: [N], likewise; None without such a column.
    """

    features: tuple[str, ...]
    x: npt.NDArray[np.float32]
    labels: list[str]
    lines: list[int]
    clients: list[str] | None


@dataclass(frozen=True)
class Csv(Dataset):
    """A CSV file with a header: a column of labels, and all other columns are features, numbers taken as they are.

    Labels are whole numbers from 0 up, or words, whose classes are in the order of the alphabet; --loss mse and bce
    take finite numbers alone.

    Attributes:
        path: the file.
        label: name of the column of labels.
        client: name of a column that names each sample's client, for --partition Natural; null for none.
        test_path: a second such file, the test set; null to draw it from the first.
        test_share: share of the file's samples that are drawn as the test set, of each class alike.
        test_seed: of that draw, whatever the run's --seed.
        delimiter: what stands between two columns.
    """

    path: str = ""
    label: str = "label"
    client: str | None = None
    test_path: str | None = None
    test_share: TestShare = 0.2
    test_seed: Seed = 0
    delimiter: Literal[",", ";", "tab"] = ","

    def origin(self, part: str) -> str:
        """The file a part comes from."""
        return f"{self.test_path if self.test_path and part.endswith('test') else self.path}: {part}"

    def read(self) -> Arrays:
        """Read the file, or both.

        Raises:
            ConfigError: one is missing or empty, has no such column, rows of unlike lengths, or a cell with no number.
        """
        return self._arrays(self._table)

    def read_numbers(self) -> Arrays:
        """Read the file, or both, whose labels have to be numbers."""
        return self._arrays(self._table_of_numbers)

    def _arrays(self, table_of: Callable[[str, str], Table]) -> Arrays:
        if not self.path:
            raise ConfigError("--data.path", "no file is named", ACCEPTED)
        table = table_of("--data.path", self.path)
        if self.test_path:
            test = table_of("--data.test_path", self.test_path)
            if test.features != table.features:
                what = f"has the columns {_listed(test.features)}, {self.path} has {_listed(table.features)}"
                raise ConfigError(self.test_path, what, "the same features in the same order")
            x = np.concatenate([table.x, test.x])
            labels = table.labels + test.labels
            clients = [*(table.clients or ()), *(test.clients or ())] or None
            aside = np.arange(len(x)) >= len(table.x)
        else:
            x, labels, clients, aside = table.x, table.labels, table.clients, None
        y, classes = from_words(labels)
        if aside is None:
            kinds = y.astype(np.int64) if classes else np.zeros(len(y), np.int64)
            aside = held_out(kinds, self.test_share, self.test_seed)
        return Arrays(x[~aside], y[~aside], x[aside], y[aside], classes, owners=_owners(clients, aside))

    def _table_of_numbers(self, option: str, name: str) -> Table:
        table = self._table(option, name)
        if (place := no_number(table.labels)) is not None:
            path, cell = users_path(option, name), repr(table.labels[place])
            raise self._no_number(path, table.lines[place], self.label, cell, "targets")
        return table

    def _table(self, option: str, name: str) -> Table:
        path = users_path(option, name)
        rows = self._rows(option, path)
        header = [column.strip() for column in next(rows, (0, []))[1]]
        features = self._features(path, header)
        label, client = header.index(self.label), header.index(self.client) if self.client is not None else None
        values, lines, labels, clients = array("d"), list[int](), list[str](), list[str]()
        for line, row in rows:
            if len(row) != len(header):
                raise ConfigError(path, f"line {line} has {len(row)} cells, the header {len(header)}")
            try:
                values.extend([float(row[i]) for i in features])
            except ValueError:
                wrong = next(i for i in features if not _is_number(row[i]))
                raise self._no_number(path, line, header[wrong], repr(row[wrong])) from None
            for where, words in ((label, labels), (client, clients)):
                if where is not None:
                    words.append(row[where].strip())
                    if not words[-1]:
                        raise ConfigError(path, f"line {line}, column {header[where]}: the cell is empty")
            lines.append(line)
        if not lines:
            raise ConfigError(path, "has no rows below its header")
        with np.errstate(over="ignore"):  # what does not fit becomes infinite
            x = np.frombuffer(values, np.float64).reshape(len(lines), -1).astype(np.float32)
        for row_number, column in np.argwhere(~np.isfinite(x))[:1]:
            value = values[row_number * len(features) + column]
            raise self._no_number(path, lines[row_number], header[features[column]], str(value))
        names = tuple(header[i] for i in features)
        return Table(names, x, labels, lines, clients if self.client is not None else None)

    def _rows(self, option: str, path: Path) -> Iterator[tuple[int, list[str]]]:
        """Rows that are not empty, each with the number of its last line; the first one is the header."""
        try:
            with path.open(newline="", encoding="utf-8-sig") as file:
                reader = csv.reader(file, delimiter="\t" if self.delimiter == "tab" else self.delimiter)
                for row in reader:
                    if row:
                        yield reader.line_num, row
        except FileNotFoundError:
            raise ConfigError(option, f"{path} does not exist", ACCEPTED) from None
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise ConfigError(path, f"cannot be read as a table ({one_line(error)})", ACCEPTED) from None

    def _features(self, path: Path, header: Sequence[str]) -> list[int]:
        """Places of the columns that are features."""
        if not header:
            raise ConfigError(path, "is empty", ACCEPTED)
        if all(map(_is_number, header)):
            raise ConfigError(path, f"begins with numbers ({_listed(header)})", ACCEPTED)
        for option, name in (("label", self.label), ("client", self.client)):
            if name is not None and name not in header:
                others = {";": "';'", "\t": "tab", ",": "','"} if len(header) == 1 else {}
                other = next((word for each, word in others.items() if each in header[0]), None)
                accepted = f"--data.delimiter {other}" if other else _listed(header)
                raise ConfigError(f"--data.{option}", f"{path} has no column {name}", accepted)
        if "" in header:
            what = f"column {header.index('') + 1} has no name, as pandas writes an index; such a number is no feature"
            raise ConfigError(path, what, "a name for each column (to_csv with index=False)")
        if len(set(header)) < len(header):
            twice = next(name for name in header if header.count(name) > 1)
            raise ConfigError(path, f"two columns are named {twice!r}", "distinct names")
        features = [i for i, name in enumerate(header) if name not in (self.label, self.client)]
        if not features:
            raise ConfigError(path, f"has no features beside {_listed(header)}")
        return features

    def _no_number(self, path: Path, line: int, column: str, cell: str, of: str = "features") -> ConfigError:
        return ConfigError(path, f"line {line}, column {column}: {cell} is no number", f"{of} that are finite numbers")


def _owners(clients: list[str] | None, aside: npt.NDArray[np.bool_]) -> Owners | None:
    if clients is None:
        return None
    names = np.array(clients)
    return owners_of(names[~aside].tolist(), names[aside].tolist())


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _listed(names: Sequence[str]) -> str:
    more = f", ... ({len(names)} in all)" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
