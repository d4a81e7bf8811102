"""Shakespeare's plays by who speaks, for guessing the next character."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fl_ddp.bounds import Count, Share
from fl_ddp.datasets.dataset import Arrays
from fl_ddp.datasets.download import Downloadable
from fl_ddp.protocol import Owners
from fl_ddp.reading.homes import users_path

ALPHABET = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
"""LEAF's 80 characters, which are tokens and classes in this order; what is none of them is left out."""
FILE = "100.txt"
"""The works in Project Gutenberg's edition of January 1994."""
_ARCHIVE = "1994-01-100.zip"
_URL = f"https://www.gutenberg.org/files/100/old/{_ARCHIVE}"
_AUTHOR = "by William Shakespeare"
_SHOWN = {"\n": "newline", " ": "space"}
_SPEAKER = {indent: re.compile(rf" {{{indent}}}(?!ACT |SCENE )([A-Za-z][A-Za-z ]*)\. +(\S.*)") for indent in (0, 2)}
Speeches = dict[str, list[str]]
"""What each speaker of a play says, by name, speech after speech."""
Tokens = npt.NDArray[np.int8]


@dataclass(frozen=True)
class Shakespeare(Downloadable):
    """Stretches of what a speaker of a play says, and the character after each; a client is a speaker of a play.

    A speaker's last speeches are its test set. Who has a single one, or too little before them, is left out.

    Attributes:
        length: characters of a sample.
        test_share: of a speaker's speeches, at least one.

    Source: McMahan et al. 2017 (arXiv:1602.05629); Caldas et al. 2018 (LEAF, arXiv:1812.01097).
    """

    length: Count = 80
    test_share: Share = 0.2

    @property
    def folder(self) -> Path:
        """Below root."""
        return users_path("--data.root", self.root) / "Shakespeare"

    @property
    def files(self) -> tuple[str, ...]:
        """The works as one text."""
        return (FILE,)

    def fetch(self, into: Path) -> Path:
        """Download and unpack Project Gutenberg's archive."""
        from torchvision.datasets.utils import download_and_extract_archive

        download_and_extract_archive(_URL, str(into), filename=_ARCHIVE)
        return into

    def parse(self) -> Arrays:
        """Cut what each speaker says into samples, int8 [N, length]."""
        path = self.folder / FILE
        parts = dict(self._parts(path.read_text(encoding="utf-8", errors="replace")))
        if not parts:
            raise self.damaged(path, f"no speeches are found in it, as in {_ARCHIVE} of Project Gutenberg")
        names = tuple(sorted(parts))
        classes = tuple(_SHOWN.get(character, character) for character in ALPHABET)
        x, y, owner = zip(*(self._samples([parts[name][split] for name in names]) for split in (0, 1)), strict=True)
        return Arrays(x[0], y[0], x[1], y[1], classes, Owners(names, *owner), num_tokens=len(ALPHABET))

    def _parts(self, text: str) -> Iterator[tuple[str, tuple[Tokens, Tokens]]]:
        """Each speaker's training and test text, by play and name."""
        for title, lines in plays(text.splitlines()):
            for name, said in speeches(lines).items():
                cut = len(said) - max(int(self.test_share * len(said)), 1)
                train, test = tokens(" ".join(said[:cut])), tokens(" ".join(said[cut:]))
                if len(train) > self.length:
                    yield f"{title}: {name}", (train, test)

    def _samples(self, texts: Sequence[Tokens]) -> tuple[Tokens, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """All stretches of each text, the characters after them, and the texts' numbers."""
        numbers = [max(len(text) - self.length, 0) for text in texts]
        cut = [np.lib.stride_tricks.sliding_window_view(t, self.length)[:-1] for t in texts if len(t) > self.length]
        x = np.concatenate([np.zeros((0, self.length), np.int8), *cut])
        y = np.concatenate([text[self.length :] for text in texts]).astype(np.int64)
        return x, y, np.repeat(np.arange(len(texts)), numbers)


def plays(lines: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """Titles and lines of all works: a title is the last line above its author's that is not empty."""
    starts = [i for i, line in enumerate(lines) if line.strip() == _AUTHOR]
    for start, end in pairwise([*starts, len(lines)]):
        title = next((line.strip() for line in reversed(lines[:start]) if line.strip()), "")
        yield title, lines[start + 1 : end]


def speeches(lines: Sequence[str]) -> Speeches:
    """What each speaker of a work says.

    A speech begins with the speaker's name and a full stop, two columns in, and goes on in lines further in; in one
    play all lines begin in the first column. An empty line ends it.
    """
    indent = max(_SPEAKER, key=lambda each: sum(1 for line in lines if _SPEAKER[each].fullmatch(line.rstrip())))
    found: Speeches = {}
    speech: list[str] | None = None
    for line in lines:
        if begins := _SPEAKER[indent].fullmatch(line.rstrip()):
            speech = found.setdefault(begins[1].upper(), [])
            speech.append(begins[2])
        elif speech and line.startswith(" " * 2 * indent) and line.strip():
            speech[-1] += f" {line.strip()}"
        else:
            speech = None
    return found


def tokens(text: str) -> Tokens:
    """Places of a text's characters in the alphabet, white space being one space."""
    place = {character: index for index, character in enumerate(ALPHABET)}
    return np.array([place[c] for c in " ".join(text.split()) if c in place], np.int8)
