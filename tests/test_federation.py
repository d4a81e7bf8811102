"""What a run is made of: data, clients, model and method, from a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

from fl_ddp.collectives import Ranks
from fl_ddp.command_line import from_mapping
from fl_ddp.federation import Federation, found
from fl_ddp.partitions.partition_file import SavedPartition, write_partition

SMALL: Mapping[str, object] = {"model.hidden": 4, "clients": 6, "local_test": 0.3, "compile": False}


def founded(**changes: object) -> Federation:
    return found(from_mapping({**SMALL, **changes}), Ranks(0, 1, torch.device("cpu")))


def equal(ours: list[npt.NDArray[np.int64]], others: list[npt.NDArray[np.int64]]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(ours, others, strict=True))


@pytest.mark.parametrize("kind", ["Dirichlet", "ClientDirichlet"])
def test_a_saved_partition_gives_the_same_training_and_test_samples_again(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "partition.json"
    first = founded(partition=kind)
    write_partition(file, SavedPartition(first.clients, first.local_test, num_samples=len(first.labels)))
    from_file = {"partition": "FromFile", "partition.path": str(file)}
    again = founded(**from_file, seed=7)
    assert equal(again.clients, first.clients) and equal(again.local_test, first.local_test)
    without = founded(**from_file, local_test=0)
    assert equal(without.clients, first.clients) and not any(map(len, without.local_test))
