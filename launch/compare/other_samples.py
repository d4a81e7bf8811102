"""Runs that cannot be compared, since the data of their name and options held other samples when they were made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from launch.compare.found_runs import FoundRun
from launch.run.edited import runs_in_words

_OF_SAMPLES = frozenset({
    "data", "partition", "stream", "model", "clients", "local_test", "local_test_from", "class_reduction", "loss",
    "precision",
})  # fmt: skip
"""Options by which, with those of their classes, samples may differ; others leave them as they are.

So does the seed, but where classes are numbered by it, or clients' own test samples, which it draws, are the test set.
"""


def on_other_samples(runs: Sequence[FoundRun]) -> list[str]:
    """What to say of runs of one choice of data that were made with different samples.

    A file that was written anew between two runs shows in no option. Runs that have not ended, and those of before
    this was kept, cannot tell.
    """
    of_choice: dict[tuple[tuple[str, str], ...], dict[str, list[Path]]] = {}
    for each in runs:
        if isinstance(samples := each.run.summary.get("data_sha256"), str):
            by_seed = each.run.summary.get("class_order") or each.settings.get("data.merge") == "true"
            seed = str(each.seed) if by_seed else ""
            options = (one for one in each.settings.items() if one[0].partition(".")[0] in _OF_SAMPLES)
            chosen = (("seed", seed), *options)
            of_choice.setdefault(chosen, {}).setdefault(samples, []).append(each.run.folder)
    unlike = (by_samples.values() for by_samples in of_choice.values() if len(by_samples) > 1)
    return [f"made with different samples of the same data: {'; '.join(map(runs_in_words, each))}" for each in unlike]
