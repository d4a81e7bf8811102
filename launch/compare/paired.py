"""Settings beside one of them, seed by seed: both have the same initial model, clients and cohorts in a seed."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from fl_ddp.config.registry import KINDS
from fl_ddp.errors import ConfigError
from launch.compare.replicates import VERSION, Design, Replicates, last_read
from launch.numbers.metric import Metric
from launch.numbers.spread import DIGITS, mean

_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Paired:
    """Differences between two settings' numbers.

    Attributes:
        by_seed: of the seeds that both have.
        better: in how many of them the first of the two is.
        after: round after which both were read, where one of them went on; None where none did.
    """

    by_seed: Mapping[int, float]
    better: int
    after: int | None

    @property
    def mean(self) -> float:
        """Of the differences."""
        return mean(self.by_seed.values()) or 0.0

    @property
    def alike(self) -> int:
        """In how many seeds the two are equal."""
        return sum(each == 0 for each in self.by_seed.values())

    @property
    def interval(self) -> tuple[float, float] | None:
        """In which the mean over all seeds lies with a confidence of 95 %, by Student's t; None of a single seed."""
        if len(self.by_seed) < 2 or not all(map(math.isfinite, self.by_seed.values())):
            return None
        from scipy import stats

        values = [*self.by_seed.values()]
        if len(set(values)) == 1:
            return values[0], values[0]
        low, high = stats.ttest_1samp(values, 0.0).confidence_interval(_CONFIDENCE)
        return float(low), float(high)

    def shown(self, unit: str) -> str:
        """The mean, and the interval."""
        digits = max(DIGITS[unit], 1)
        between = f" [{self.interval[0]:+.{digits}f}, {self.interval[1]:+.{digits}f}]" if self.interval else ""
        return f"{self.mean:+.{digits}f}{between}"


@dataclass(frozen=True)
class Against:
    """Which setting the others are compared with.

    Attributes:
        text: as it was asked for, such as method=FedAvg.
        values: of the keys that it names.
        design: of all settings.
    """

    text: str
    values: Mapping[str, str]
    design: Design

    def baseline(self, of: Replicates) -> Replicates | None:
        """The setting that one is compared with: alike but for the named keys and their options; None if there is none.

        Raises:
            ConfigError: there are several.
        """
        found = [each for each in self.design.sets if self._is_one(each) and self._rest(each) == self._rest(of)]
        if len(found) > 1:
            keys = [key for key in self.design.keys if len({self._of(each)[key] for each in found}) > 1]
            values = " and ".join(f"{key}={self._of(each)[key]}" for each in found for key in keys[:1])
            raise ConfigError("--against", f"{self.text} is of {values}", f"{self.text},{keys[0]}=VALUE, one of them")
        return found[0] if found else None

    def paired(self, of: Replicates, metric: Metric) -> Paired | str:
        """One setting's differences from what it is compared with, or why there are none; nothing of that itself.

        Raises:
            ConfigError: there are several to compare it with.
        """
        beside = self.baseline(of)
        if beside is of:
            return ""
        if beside is None:
            return "no setting with all else alike"
        if not (of.ended and beside.ended):
            return "not finished yet"
        # rounds that were asked for are a setting as any other
        unlike = of.last != beside.last or of.shortened or beside.shortened
        cut = unlike and metric.target is None and "rounds" not in self.values
        last = min(of.last, beside.last)
        after = last_read((*of.after(last), *beside.after(last)), metric, last) if cut else None
        if after == 0:
            return "no round in common"
        ours, theirs = of.by_seed(metric, after), beside.by_seed(metric, after)
        common = sorted(ours.keys() & theirs.keys())
        if not common:
            seeds = [{each.run.seed for each in one.runs} for one in (of, beside)]
            return "no number of it in a seed that both have" if set.intersection(*seeds) else "no seed in common"
        if any(each[seed].missed for each in (ours, theirs) for seed in common):
            return "a target that was missed"
        differences = {seed: ours[seed].value - theirs[seed].value for seed in common}
        if any(map(math.isnan, differences.values())):
            return "a seed in which both are infinite"
        if mean(differences.values()) is None:
            return "differences that are infinite to both sides"
        sign = -1 if metric.less_is_better else 1
        return Paired(differences, sum(sign * each > 0 for each in differences.values()), after)

    def _of(self, replicates: Replicates) -> dict[str, str]:
        return dict(zip(self.design.keys, replicates.values, strict=True))

    def _is_one(self, replicates: Replicates) -> bool:
        return self.values.items() <= self._of(replicates).items()

    def _rest(self, replicates: Replicates) -> dict[str, str]:
        """The values of keys that are not named and no options of those that are; versions are those of classes."""
        named = (*(f"{key}." for key in self.values), *([VERSION] if set(KINDS) & self.values.keys() else []))
        return {
            key: value
            for key, value in self._of(replicates).items()
            if key not in self.values and not key.startswith(named)
        }


def against(text: str, design: Design) -> Against:
    """Read what settings are to be compared with, such as method=FedAvg or method=FedProx,mu=0.1.

    Of an absolute path any end will do that no other value has.

    Raises:
        ConfigError: it names no option that varies, or no value that it has.
    """
    values = {}
    for pair in re.split(r",(?=[\w.]+=)", text):
        name, equals, value = pair.partition("=")
        place = design.place_of(name)
        if not equals or place is None:
            accepted = ", ".join(f"{each}=VALUE" for each in design.names) or "runs that differ"
            raise ConfigError("--against", f"{pair}: no option that varies among the runs", accepted)
        key = design.keys[place]
        there = dict.fromkeys(filter(None, (each.values[place] for each in design.sets)))
        ends = [each for each in there if each.startswith("/") and each.endswith(f"/{value}")]
        meant = [value] if value in there else ends
        if len(meant) != 1:
            accepted = ", ".join(f"{name}={design.written[place][each]}" for each in there)
            raise ConfigError("--against", f"{pair}: {'several have' if meant else 'no run has'} it", accepted)
        values[key] = meant[0]
    return Against(text, values, design)
