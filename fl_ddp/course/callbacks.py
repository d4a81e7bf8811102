"""What a notebook's own functions see of a run's rounds."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from fl_ddp.errors import ConfigError
from fl_ddp.protocol import Tensors
from fl_ddp.results.metrics import Record

Callback = Callable[..., object]
"""Sees the Record of each round, round 0 too if it has one; the run ends after a round for which it returns True.

One with a parameter `weights`, without a default, also has the model after that round: parameters and buffers, for
load_state_dict.
"""

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def callbacks_in(given: object) -> list[Callback]:
    """One callback, or several.

    Raises:
        ConfigError: one cannot be called, or not with what there is.
    """
    callbacks: list[Callback] = []
    for each in given if isinstance(given, Iterable) and not callable(given) else [given]:
        if not callable(each):
            raise ConfigError("callbacks", f"{each!r} cannot be called", "functions of a Record")
        callbacks.append(each)
        if (signature := _signature(each)) is None:
            continue
        try:
            signature.bind(None, **{"weights": None} if _wants_weights(each) else {})
        except TypeError:
            what = f"{getattr(each, '__name__', type(each).__name__)}{signature} cannot be called so"
            accepted = "functions (record) or (record, weights), by that name"
            raise ConfigError("callbacks", what, accepted) from None
    return callbacks


def any_asks_to_stop(callbacks: Sequence[Callback], record: Record, weights: Callable[[], Tensors]) -> bool:
    """Call all with a round's record, and with copies of the weights of their own; whether one returns True."""
    answers = [
        callback(record, weights=weights()) if _wants_weights(callback) else callback(record) for callback in callbacks
    ]
    return any(_is_true(answer) for answer in answers)


def _is_true(answer: object) -> bool:
    """Whether it is a True of Python's, numpy's or torch's; a number or a word is none."""
    if isinstance(answer, Tensor):
        return answer.dtype == torch.bool and answer.numel() == 1 and bool(answer)
    if isinstance(answer, np.ndarray):
        return answer.dtype == np.bool_ and answer.size == 1 and bool(answer.all())
    return isinstance(answer, bool | np.bool_) and bool(answer)


def _wants_weights(callback: Callback) -> bool:
    signature = _signature(callback)
    wanted = signature.parameters.get("weights") if signature else None
    return wanted is not None and wanted.kind in _BY_NAME and wanted.default is wanted.empty


def _signature(callback: Callback) -> inspect.Signature | None:
    """How it can be called itself, whatever it wraps; None for functions in C that do not tell."""
    try:
        return inspect.signature(callback, follow_wrapped=False)
    except (TypeError, ValueError, NameError):
        return None
