"""What torch's words mean in a user's own code, and the way out."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from fl_ddp.errors import ConfigError, one_line, users_place
from fl_ddp.protocol import listed

_RANDOM = "random operation"
# Part of what torch says, what it means in a user's function, and the way out; the first that fits counts.
_MEANINGS = (
    ("dynamic shape", "has shapes that depend on values (such as x[x > 0] or nonzero); use torch.where"),
    (
        "calling .item()",
        "depends on values outside of tensors (such as .item(), if, while, float() or one_hot); use torch.where",
    ),
    ("data pointer", "turns tensors into numbers or numpy arrays; use torch's functions of tensors alone"),
)


def meaning_of(reason: str, instead: str) -> str | None:
    """What words of torch mean; None of words that say it themselves.

    Args:
        reason: the words.
        instead: of random numbers that no seed of the run decides.
    """
    if _RANDOM in reason:
        return f"draws random numbers that no seed of the run decides; use {instead}"
    return next((meaning for part, meaning in _MEANINGS if part in reason), None)


@contextmanager
def in_words(owner: type, server: Collection[str], mine: Collection[str]) -> Iterator[None]:
    """Say what is wrong in a user's functions of one client, in a block that calls them.

    Args:
        owner: their class.
        server: names of the tensors of the server's that they are given.
        mine: of the clients'.

    Raises:
        ConfigError: there is something that torch, or Python, says in words of its own.
    """
    try:
        yield
    except ConfigError:
        raise
    except Exception as error:
        place = users_place(error)
        if place is None:
            raise
        who = f"{place}: {owner.__name__}"
        if isinstance(error, KeyError):
            given = f"{listed(server)} of the server's (those that `broadcast` names), {listed(mine)} of the client's"
            raise ConfigError(who, f"{error} is none of the tensors that it is given", given) from error
        if meaning := meaning_of(one_line(error), "uniform() or normal() of batch.key (fl_ddp.api)"):
            raise ConfigError(who, meaning) from error
        raise
