"""The server's own samples: copies of the clients', dealt to all ranks in batches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fl_ddp.check.runs import SETTINGS, SOLO, differences, play
from fl_ddp.config.command_line import from_mapping
from fl_ddp.federation import Federation, build_federation


def federation(**options: object) -> Federation:
    settings = {f"method.{name}": value for name, value in options.items()}
    return build_federation(from_mapping({**SETTINGS, "method": "FedCL"} | settings), SOLO)


def test_the_server_holds_copies_of_a_share_of_the_clients_samples() -> None:
    with_proxy, without = federation(proxy=0.1), build_federation(from_mapping(SETTINGS), SOLO)
    clients, proxy = np.concatenate(with_proxy.clients), np.concatenate(with_proxy.worlds.at(0).proxy)
    assert len(proxy) == round(0.1 * len(clients)) == len(set(proxy.tolist()))
    assert set(proxy.tolist()) <= set(clients.tolist())
    assert all(np.array_equal(a, b) for a, b in zip(with_proxy.clients, without.clients, strict=True))
    assert without.worlds.at(0).proxy == []


def test_the_servers_samples_are_drawn_by_the_runs_seed() -> None:
    def drawn(seed: int) -> set[int]:
        settings = {**SETTINGS, "method": "FedCL", "method.proxy": 0.1, "partition.seed": 5, "seed": seed}
        return set(np.concatenate(build_federation(from_mapping(settings), SOLO).worlds.at(0).proxy).tolist())

    assert drawn(1) == drawn(1) and len(drawn(1)) == len(drawn(2))
    assert len(drawn(1) & drawn(2)) < 0.3 * len(drawn(1))  # a tenth by chance


def test_it_comes_in_batches_or_whole_for_a_path() -> None:
    cut, whole = federation(proxy=0.1, proxy_batch=32), federation(proxy=0.1, omega="si")
    assert {len(part) for part in cut.worlds.at(0).proxy[:-1]} == {32} and 0 < len(cut.worlds.at(0).proxy[-1]) <= 32
    assert len(whole.worlds.at(0).proxy) == 1
    assert np.array_equal(np.concatenate(cut.worlds.at(0).proxy), whole.worlds.at(0).proxy[0])


def test_there_is_always_one_sample() -> None:
    assert sum(map(len, federation(proxy=1e-9).worlds.at(0).proxy)) == 1


@pytest.mark.parametrize("omega", ["per_param_sq", "per_tensor", "si"])
def test_what_is_measured_does_not_depend_on_the_dealing(omega: str) -> None:
    settings: dict[str, object] = {
        "method": "FedCL", "method.omega": omega, "method.proxy": 0.3, "method.proxy_batch": 16, "rounds": 1,
    }  # fmt: skip
    together = play(settings).state.server
    apart = play(settings, lambda ids: [ids[i : i + 1] for i in reversed(range(len(ids)))]).state.server
    assert differences(together, apart) == []
    assert together["omega"].any()


def test_the_number_of_the_servers_samples_is_rounded(tmp_path: Path) -> None:
    (tmp_path / "ten.json").write_text('{"clients": [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]}')
    settings: dict[str, object] = {
        "data": "digits", "partition": "FromFile", "partition.path": str(tmp_path / "ten.json"), "clients": 2,
        "method": "FedCL", "method.proxy": 0.19, "model.hidden": 4, "compile": False, "figures": False, "device": "cpu",
    }  # fmt: skip
    built = build_federation(from_mapping(settings), SOLO)
    assert sum(map(len, built.worlds.at(0).proxy)) == 2
