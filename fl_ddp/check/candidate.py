"""A method under test, and the runs it is judged by."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fl_ddp.check.runs import ROUNDS, SOLO, Photograph, Settings, Unwritten, config_of, play
from fl_ddp.config import registry
from fl_ddp.config.command_line import from_mapping
from fl_ddp.config.settings import Config
from fl_ddp.host.interrupt import StopRequest
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.ranks.collectives import Ranks
from fl_ddp.run import run
from fl_ddp.streams.stream import Stream


@dataclass(frozen=True)
class Case:
    """What is to be checked, in words that every process understands.

    Attributes:
        name: of the case, no other's.
        settings: that choose the method and its options.
        folder: of its runs' files.
    """

    name: str
    settings: Settings
    folder: Path


def ends_tasks(config: Config) -> bool:
    """Whether the method has something to do at the end of a task."""
    owner = registry.load("method", config.method.class_path)
    return isinstance(owner, type) and issubclass(owner, FedAvg) and owner.end_of_task is not FedAvg.end_of_task


def has_tasks(config: Config) -> bool:
    """Whether a task ends before the last round of the checks."""
    stream = registry.build(config.stream)
    assert isinstance(stream, Stream)
    return any(stream.ends_task(index) for index in range(ROUNDS - 1))


_FEDAVG: dict[str, Unwritten] = {}
"""Runs of FedAvg, what other methods are compared with, by their settings."""


class Candidate:
    """A method with its options, and its runs; each is made when a check first asks for it.

    Attributes:
        case: what was asked for.
        owner: the method's class.
    """

    def __init__(self, case: Case) -> None:
        """Find the class.

        Raises:
            ConfigError: there is none, or an option is wrong.
        """
        self.case = case
        owner = registry.load("method", from_mapping(case.settings).method.class_path)
        assert isinstance(owner, type) and issubclass(owner, FedAvg)
        self.owner = owner

    @cached_property
    def reference(self) -> Unwritten:
        """The run on one rank, without files."""
        return play(self.case.settings)

    @cached_property
    def compiled(self) -> Unwritten:
        """Its first two rounds, compiled."""
        return play({**self.case.settings, "compile": True, "rounds": 2})

    @cached_property
    def alone(self) -> Path:
        """Folder of the run on one rank."""
        folder = self.folder(f"alone-{os.getpid()}")
        self._run(folder, SOLO, StopRequest())
        return folder

    @property
    def names_neutral(self) -> bool:
        """Whether the method says itself at which coefficients it is FedAvg."""
        return self.owner.neutral is not None and self.owner.neutral is not FedAvg.neutral

    @property
    def neutral(self) -> Settings:
        """Settings at which the method is FedAvg; as they are, where it names none."""
        return {**self.case.settings, **{f"method.{name}": value for name, value in (self.owner.neutral or {}).items()}}

    @property
    def fedavg(self) -> Unwritten:
        """FedAvg with this method's values of FedAvg's options, at its neutral coefficients."""
        given = from_mapping(self.neutral).method.init_args
        options = {name: given[name] for name in registry.options("method", FedAvg).by_name if name in given}
        others = ((key, value) for key, value in self.case.settings.items() if key.partition(".")[0] != "method")
        settings = {"method": "FedAvg"} | {f"method.{name}": value for name, value in options.items()} | dict(others)
        key = repr(sorted(settings.items()))
        if key not in _FEDAVG:
            _FEDAVG[key] = play(settings)
        return _FEDAVG[key]

    @property
    def has_tasks(self) -> bool:
        """Whether a task ends in its runs, and goes on with another."""
        return has_tasks(config_of(self.case.settings))

    def folder(self, run: str) -> Path:
        """Of one of its runs."""
        return self.case.folder / f"{self.case.name}-{run}"

    def together(self, size: int) -> Path:
        """Folder of the run on so many ranks."""
        return self.folder(f"{size}-ranks")

    def photograph(self, size: int) -> Path:
        """Copy of that folder, made in round 2."""
        return self.folder(f"{size}-ranks-killed")

    def run_together(self, ranks: Ranks) -> None:
        """Make the run on several ranks."""
        folder = self.together(ranks.size)
        self._run(folder, ranks, Photograph(folder, self.photograph(ranks.size)) if ranks.is_main else StopRequest())

    def _run(self, folder: Path, ranks: Ranks, stop: StopRequest) -> None:
        """Make a run that leaves files."""
        run(config_of({**self.case.settings, "out": str(folder.parent), "name": folder.name}), ranks, stop)
