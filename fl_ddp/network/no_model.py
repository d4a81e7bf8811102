"""What a method has for a model before a run gives it one: a notebook makes methods without."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from fl_ddp.network.flat_model import FlatModel


class _NoModel:
    """Lets a method ask what its model must have, which is asked again in the run, and has nothing else."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name == "part" or name.startswith("require_"):
            return lambda *_: None
        raise AttributeError(
            f"there is no model.{name} before fl_ddp.simulate(method=...) has given the method a model"
        )


NO_MODEL = cast(FlatModel, _NoModel())
