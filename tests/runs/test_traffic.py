"""Bytes that clients receive and send, counted from the tensors that travel, in multiples of FedAvg's."""

from __future__ import annotations

from pathlib import Path

import pytest

from fl_ddp.check.runs import play

ROUNDS = 10


def traffic(**settings: object) -> tuple[float, float]:
    """Bytes down and up of ten rounds."""
    one_step = {"rounds": ROUNDS, "local_steps": 1, "batch_size": 4, "eval_every": ROUNDS, "local_test": 0.0}
    records = play(one_step | settings).records
    return sum(r.traffic_down_bytes for r in records), sum(r.traffic_up_bytes for r in records)


@pytest.mark.parametrize(
    ("settings", "down", "up"),
    [
        ({"method": "FedProx"}, 1, 1),
        ({"method": "Scaffold"}, 2, 2),
        # no curvature is known in the first round
        ({"method": "FedCurv"}, 2.8, 3),
        # the largest tenth of the coordinates, and their places in half the bytes of u and v
        ({"method": "FedCurv", "method.top_q": 0.1}, 2.8, 1.3),
        # and the change of the model in the same places
        ({"method": "FedCurv", "method.top_q": 0.1, "method.sparse_delta": True}, 2.8, 0.4),
        # the Fisher is not known in the first round
        ({"method": "FisherAvg", "method.lam": 1.0}, 1.9, 2),
        ({"method": "FisherAvg", "method.importance": "rwalk", "method.lam": 0.0}, 2.8, 3),
        ({"method": "FedCL"}, 2, 1),
        ({"method": "FedCL", "method.every": 10}, 1.1, 1),
        # sparse u and v with their places would take more than all of u and v
        ({"method": "FedCurv", "method.top_q": 0.9}, 2.8, 3),
        ({"method": "FedCL", "method.omega": "per_tensor"}, 1, 1),
        ({"method": "FedCL", "method.omega": "global"}, 1, 1),
        # the Fisher is measured once in two tasks, and known in the second
        ({"method": "OnlineEWC", "stream": "ClassGroups", "stream.tasks": 2, "stream.task_rounds": 5}, 2, 1.1),
    ],
    ids=str,
)
def test_traffic_in_multiples_of_fedavg(settings: dict[str, object], down: float, up: float) -> None:
    of_stream = {name: value for name, value in settings.items() if name.startswith("stream")}
    base, found = traffic(**of_stream), traffic(**settings)
    # beside P floats a client sends its number of samples and its loss
    assert found[0] / base[0] == pytest.approx(down, rel=0.005)
    assert found[1] / base[1] == pytest.approx(up, rel=0.005)


@pytest.mark.parametrize(("every", "expected"), [(1, 1.5), (10, 1.05)])
def test_fedcl_costs_what_its_paper_says(every: int, expected: float) -> None:
    total = sum(traffic(method="FedCL", **{"method.every": every}))
    assert total / sum(traffic()) == pytest.approx(expected, rel=0.005)


@pytest.mark.parametrize(("method", "more"), [("OnlineEWC", 2.0), ("LwF", 1.0)])
def test_what_is_of_earlier_tasks_travels_after_the_first(method: str, more: float) -> None:
    tasks = {"stream": "ClassGroups", "stream.tasks": 3, "stream.size": 3, "stream.task_rounds": 2}
    of_rounds = [
        [record.traffic_down_bytes for record in play({"method": name, "rounds": 6, **tasks}).records]
        for name in (method, "FedAvg")
    ]
    ratios = [ours / theirs for ours, theirs in zip(*(each[1:] for each in of_rounds), strict=True)]
    assert ratios == pytest.approx([1, 1, *[1 + more] * 4], rel=0.005)


@pytest.mark.parametrize(("method", "more"), [("FedCurv", 2), ("FisherAvg", 1), ("FedPAC", 0.1), ("FedFomo", 2)])
def test_what_nobody_has_made_yet_does_not_travel(tmp_path: Path, method: str, more: float) -> None:
    """Nobody can be reached in round 1, and in round 2 there is nothing but the model that it began with."""
    (tmp_path / "away.csv").write_text("client,from,to\n" + "".join(f"{k},2,9\n" for k in range(8)))
    away = {"rounds": 3, "availability": str(tmp_path / "away.csv")}
    of_method = {"method.models": 4} if method == "FedFomo" else {}
    ours, theirs = (
        [record.traffic_down_bytes for record in play({**away, **own}).records]
        for own in ({"method": method, **of_method}, {"method": "FedAvg"})
    )
    assert ours[:2] == theirs[:2] and ours[0] == 0
    assert ours[2] / theirs[2] == pytest.approx(1 + more, rel=0.05)
