"""Numbers that a method reports: one of each client, whose mean over a round's clients is a column of metrics.csv."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

import torch
from torch import Tensor

from fl_ddp.errors import refused_attribute
from fl_ddp.protocol import Term, Upload, form_of, weight_of

_OF_AVERAGE = ("delta", "loss", "statistics", "weight")
"""Names of an average's sums, which travel; the loss has a column of its own."""
LOGGED = "logged "
"""How names of rows begin that are each client's own numbers of such sums."""
_NAME = re.compile(r"[^\s,/]+")


def refuse_unreportable(owner: type, names: object, taken: Collection[str]) -> None:
    """Refuse what a method of a class names as what it reports, if no columns can be made of it.

    Raises:
        ConfigError: it is no tuple, or one of the names is no name, another one's, or taken.
    """
    if not isinstance(names, tuple):
        raise refused_attribute(owner, "reports", f"is {names!r}", 'a tuple of names, such as ("pull",)')
    for place, name in enumerate(names):
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise refused_attribute(owner, "reports", f"names {name!r}", "words without spaces, commas and slashes")
        if name in (*_OF_AVERAGE, *taken):
            raise refused_attribute(
                owner, "reports", f"names {name}, as the engine calls a sum of its own", "another name"
            )
        if name in names[:place]:
            raise refused_attribute(owner, "reports", f"names {name} twice", "each name once")


def with_weights(owner: type, names: tuple[str, ...], given: Upload, lanes: int) -> Upload:
    """An upload of so many lanes with the weights of the numbers that it reports, which do not travel.

    Raises:
        ConfigError: one of them is not there, or is not a number of each lane.
    """
    if not names:
        return given
    reported: dict[str, Tensor | Term] = {}
    for name in names:
        if name not in given.sums:
            raise refused_attribute(
                owner, "reports", f"names {name}, and client_update gives no sum of that name", "names of its sums"
            )
        summand = given.sums[name]
        term = summand if isinstance(summand, Term) else Term(summand)
        value = term.value
        if value.shape != (lanes,):
            what = f"names {name}, and client_update gives it as {form_of(value)}"
            raise refused_attribute(owner, "reports", what, f"[{lanes}], a number for each of {lanes} lanes")
        weight = value.new_ones(lanes) if term.weight is None else term.weight.reshape(lanes)
        # who has no such number may have divided by nothing
        reported |= {name: replace(term, value=torch.where(weight == 0, 0, value)), weight_of(name): weight}
    others = {name: t for name, t in given.sums.items() if name not in names}
    return replace(given, sums=given.sums | reported, sent=replace(given, sums=others).on_the_wire)


def logged_sums(names: tuple[str, ...]) -> dict[str, str]:
    """Names of the sums that are logged of each client, and of their weights, which are 0 where one has no number."""
    return {"loss": "trained", **{name: weight_of(name) for name in names}}


def logged(given: Upload, names: tuple[str, ...]) -> Upload:
    """An upload with each client's training loss and what is reported of it as rows; what is sent is told already."""
    there = [name for pair in logged_sums(names).items() if given.sums.keys() >= {*pair} for name in pair]
    rows = {f"{LOGGED}{name}": _value(given.sums[name]) for name in there}
    return replace(given, rows=given.rows | rows)


def _value(summand: Tensor | Term) -> Tensor:
    """What each client has of a sum, without its weight."""
    if isinstance(summand, Tensor):
        return summand
    return summand.value if summand.minus is None else summand.value.double() - summand.minus
