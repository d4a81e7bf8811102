"""What a round of a federation costs on 1 to 1,024 GPUs beside its training, without any of them.

    python benchmarks/scale.py
    python benchmarks/scale.py --ranks 8 64 --cohort 50

Padding, collectives with their bytes, and waits of the host are those of whole rounds of rank 0, which has the longest
hand: its process group is torch's fake one, in which sums come back as they are, and its device a pretended one
(tests/support/devices/pretend_device.py). Seconds are predicted by the constants of MODEL, which no measurement has
confirmed: training by lanes with what a group costs beside them, a ring's bytes on NVLink or a network, hops, waits.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, log2
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch.distributed as dist  # noqa: TID251
from torch import Tensor
from torch.testing._internal.distributed.fake_pg import FakeStore
from written import write_results

from fl_ddp.ranks.cohort import auto_lanes, group_cost
from fl_ddp.ranks.collectives import Common, Offer, Ranks

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support" / "devices"))
from on_device import played
from pretend_device import DEVICE, note_wait, on_host

RANKS = tuple(2**k for k in range(11))
COHORT, STEPS = 1024, 20
PARAMETERS = 159_010
"""Of an MLP of 784, 200 and 10 units."""
MODEL = {
    "lane_seconds": 1.2e-6,  # of a client's local step among many: 60 us for 10 lanes with what a group costs
    "node": 8,  # GPUs that NVLink joins
    "node_bytes_a_second": 300e9,
    "wire_bytes_a_second": 50e9,  # of a GPU's own network card, 400 Gbit/s
    "hop_seconds": 10e-6,  # of each of log2(ranks) hops of a collective
    "verdict_hop_seconds": 50e-6,  # of one of gloo's among hosts, in which ranks agree that none has failed
    "wait_seconds": 10e-6,  # of the host for a value
}
"""Assumptions on H200s: what is predicted rests on these."""

Numbers = dict[str, float]


class Sent(NamedTuple):
    """Bytes of each of a rank's collectives: sums of GPUs, and verdicts among hosts."""

    sums: list[int]
    verdicts: list[int]


@dataclass(frozen=True)
class Counting(Ranks):
    """Rank 0 of many, in a process group that only pretends to add; counts what would be on the wire."""

    sent: Sent = field(default_factory=lambda: Sent([], []))

    def add(self, buffer: Tensor) -> Tensor:
        """As it comes; a sum of GPUs is waited for."""
        dist.all_reduce(on_host(buffer))
        if buffer.device == DEVICE:
            note_wait("sum")
            self.sent.sums.append(buffer.nbytes)
        else:
            self.sent.verdicts.append(buffer.nbytes)
        return buffer

    def agree(self, error: Exception | None, form: int = 0) -> bool:
        """Of what the others are about to sum nothing is there either."""
        return super().agree(error, form) | True

    def add_common(self, offer: Offer) -> Common:
        """What the others have is not there, so nothing differs."""
        common = super().add_common(offer)
        return common._replace(same=common.same | True)


class Seen(NamedTuple):
    """A round that is not evaluated: bytes of its sums, its verdicts, waits of the host, and the padded share."""

    parameters: int
    sums: list[int]
    verdicts: int
    waits: int
    padding: float


def seen(size: int, cohort: int, hidden: int, lanes: int, folder: Path) -> Seen:
    """A round of rank 0 of so many."""
    sent, marks = Sent([], []), list[tuple[int, int]]()
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=size)
    try:
        given = {**settings(cohort, folder), "model.hidden": hidden, "lanes": lanes}
        counting = Counting(0, size, DEVICE, sent=sent)
        run = played(given, ranks=counting, between=lambda: marks.append((len(sent.sums), len(sent.verdicts))))
    finally:
        dist.destroy_process_group()
    padding = float(run.records[1].padded_lanes or 0.0)
    (before, told), (after, told_after) = marks[1:3]
    verdicts = told_after - told
    return Seen(run.server["theta"].numel(), sent.sums[before:after], verdicts, run.rounds[1].waits, padding)


def measure(size: int, cohort: int, folder: Path) -> Numbers:
    """One number of ranks; what a large model sends follows from two small ones, as bytes are linear in its size."""
    lanes = auto_lanes(cohort, "cuda", PARAMETERS)
    small, larger = (seen(size, cohort, hidden, lanes, folder) for hidden in (2, 4))
    calls, of_small = len(small.sums), sum(small.sums)
    a_parameter = (sum(larger.sums) - of_small) / (larger.parameters - small.parameters)
    wire = of_small + a_parameter * (PARAMETERS - small.parameters)
    groups = ceil(ceil(cohort / size) / lanes)
    training = groups * STEPS * (lanes + group_cost(PARAMETERS)) * MODEL["lane_seconds"]
    speed = MODEL["node_bytes_a_second"] if size <= MODEL["node"] else MODEL["wire_bytes_a_second"]
    ring = 2 * (size - 1) / size
    hops = calls * MODEL["hop_seconds"] + small.verdicts * MODEL["verdict_hop_seconds"]
    sums = (wire * ring / speed + log2(size) * hops) if size > 1 else 0.0
    total = training + sums + small.waits * MODEL["wait_seconds"]
    return {
        "ranks": size, "lanes": lanes, "groups": groups, "padded_percent": 100 * small.padding, "sums": calls,
        "verdicts": small.verdicts, "megabytes": wire / 1e6, "waits": small.waits, "training_ms": 1e3 * training,
        "sums_ms": 1e3 * sums, "predicted_ms": 1e3 * total,
    }  # fmt: skip


def settings(cohort: int, folder: Path) -> dict[str, object]:
    """A run in which all clients train; steps add no byte and no wait, so that one is enough."""
    return {
        "data": str(folder / "data.npz"), "partition": "IID", "partition.alpha": None, "clients": cohort,
        "cohort": cohort, "model": "MLP", "local_steps": 1, "batch_size": 2, "local_test": 0.0,
        "forgetting_every": 0, "rounds": 3, "eval_every": 3, "checkpoint_every": 3, "momentum": 0.0,
    }  # fmt: skip


def table(all_numbers: Sequence[Numbers]) -> str:
    """Results as text."""
    lines = [
        f"{'ranks':>6}{'lanes':>7}{'groups':>8}{'padded':>8}{'sums':>6}{'verdicts':>10}{'MB a rank':>11}{'waits':>7}"
        f"{'training ms':>13}{'both ms':>9}{'predicted ms':>14}"
    ]
    for n in all_numbers:
        lines.append(
            f"{n['ranks']:6.0f}{n['lanes']:7.0f}{n['groups']:8.0f}{n['padded_percent']:7.1f}%{n['sums']:6.0f}"
            f"{n['verdicts']:10.0f}{n['megabytes']:11.2f}{n['waits']:7.0f}{n['training_ms']:13.2f}{n['sums_ms']:9.2f}{n['predicted_ms']:14.2f}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", nargs="+", type=int, default=list(RANKS))
    parser.add_argument("--cohort", type=int, default=COHORT, help="clients a round, all of the run")
    parser.add_argument("--smoke", action="store_true", help="two numbers of ranks and few clients: does it run?")
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    options = parser.parse_args()
    if options.smoke:
        options.ranks, options.cohort = [1, 16], 40
    with tempfile.TemporaryDirectory() as name:
        folder, images = Path(name), options.cohort * 2
        pixels = np.random.default_rng(0).integers(0, 256, (images, 1, 28, 28), np.uint8)
        labels = np.arange(images) % 10
        np.savez(folder / "data.npz", x_train=pixels, y_train=labels, x_test=pixels[:20], y_test=labels[:20])
        numbers = [measure(size, options.cohort, folder) for size in options.ranks]
    print(table(numbers))
    print("predicted by", ", ".join(f"{name} {value:g}" for name, value in MODEL.items()))
    if options.out:
        results = {"cohort": options.cohort, "steps": STEPS, "parameters": PARAMETERS, "model": MODEL}
        write_results(options.out, results | {"ranks": {f"{n['ranks']:.0f}": n for n in numbers}})


if __name__ == "__main__":
    main()
