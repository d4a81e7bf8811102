"""What all drivers write: the numbers of a public implementation, and where they are from."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils import vector_to_parameters

NUMBERS, DRIVERS = (Path(__file__).parent / name for name in ("numbers", "drivers"))
Round = dict[str, Tensor]
"""Vectors by name; those of a client are `client 2: v`."""


def flat(tensors: Iterable[Tensor]) -> Tensor:
    """Parameters in their order as one vector."""
    return torch.cat([t.detach().reshape(-1) for t in tensors]).clone()


@contextmanager
def at(module: nn.Module, parameters: Tensor) -> Iterator[None]:
    """A module with other parameters for a while."""
    own = flat(module.parameters())
    vector_to_parameters(parameters.clone(), module.parameters())
    try:
        yield
    finally:
        vector_to_parameters(own, module.parameters())


class Found(NamedTuple):
    """What an implementation computed.

    Attributes:
        settings: in its own words.
        rounds: what it knew after each.
    """

    settings: Mapping[str, object]
    rounds: Sequence[Round]


def write(implementation: str, origin: str, clone: str, cases: Mapping[str, Found]) -> None:
    """One file of numbers, with the commit of the clone."""
    git = ["git", "-C", clone, "rev-parse", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    content = {"origin": origin, "commit": commit, "cases": {name: _listed(found) for name, found in cases.items()}}
    kind = next(DRIVERS.glob(f"*/{implementation}.py")).parent.name
    # a line for each vector
    text = json.dumps(content, indent=1).replace('"[', "[").replace(']"', "]")
    (NUMBERS / kind / f"{implementation}.json").write_text(text + "\n", encoding="utf-8")


def _listed(found: Found) -> dict[str, object]:
    rounds = [{name: json.dumps(vector.tolist()) for name, vector in each.items()} for each in found.rounds]
    return {"settings": found.settings, "rounds": rounds}
