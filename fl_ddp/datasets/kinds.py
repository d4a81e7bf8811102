"""Of what kind each part of a data set must be before anything in it is looked at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index

import numpy as np
import torch

from fl_ddp.errors import ConfigError
from fl_ddp.protocol import Owners, form_of

_LEAST_SIDE = 8
"""Of what is taken for an image with its channels behind; rows of fewer pixels may be anything."""
_CHANNELS = (1, 3)


def names_of(given: object, refused: Callable[[str, str], ConfigError]) -> tuple[str, ...]:
    """Names in their order; none of None.

    Args:
        given: what should be names.
        refused: makes the error of what was given and what would be accepted.

    Raises:
        ConfigError: it is no tuple or list of texts.
    """
    if given is None:
        return ()
    if not isinstance(given, tuple | list) or not all(isinstance(each, str) for each in given):
        other = given if not isinstance(given, tuple | list) else next(x for x in given if not isinstance(x, str))
        what = form_of(other) + (" among its names" if isinstance(given, tuple | list) else "")
        raise refused(what, "a tuple of texts")
    return tuple(given)


def array_of(given: object, refused: Callable[[str, str], ConfigError]) -> np.ndarray:
    """An array as torch can take it: copied only if it goes backwards; arguments and errors as of names_of."""
    accepted = "a numpy array or a dense tensor"
    if isinstance(given, torch.Tensor):
        try:
            on_host = given.detach().cpu().resolve_conj().resolve_neg()
            given = (on_host.float() if on_host.dtype == torch.bfloat16 else on_host).numpy()  # numpy has no such type
        except (RuntimeError, TypeError, NotImplementedError):
            raise refused(f"{form_of(given)} that numpy cannot take", accepted) from None
    if not isinstance(given, np.ndarray) or not given.ndim:
        raise refused("a number alone" if isinstance(given, np.ndarray) else form_of(given), accepted)
    return given.copy() if any(stride < 0 for stride in given.strides) else given


def inputs_of(given: object, refused: Callable[[str, str], ConfigError]) -> np.ndarray:
    """An array of samples, floats of any width as float32; arguments and errors as of names_of."""
    x = array_of(given, refused)
    with np.errstate(over="ignore"):  # what does not fit becomes infinite and is refused with its place
        return x.astype(np.float32) if x.dtype.kind == "f" and x.dtype != np.float32 else x


def targets_of(given: object, refused: Callable[[str, str], ConfigError]) -> np.ndarray:
    """An array of targets, labels of any width that are int64's as such; arguments and errors as of names_of."""
    y = array_of(given, refused)
    is_other = y.dtype.kind in "iu" and y.ndim == 1 and y.dtype != np.int64
    return y.astype(np.int64) if is_other and np.max(y, initial=0) <= np.iinfo(np.int64).max else y


def owners_as(given: object, refused: Callable[[str, str], ConfigError]) -> Owners | None:
    """Clients that samples are of; arguments and errors as of names_of."""
    if given is None:
        return None
    if not isinstance(given, Owners):
        raise refused(form_of(given), "what owners_of(train_names, test_names) gives, or None")
    test = None if given.test is None else targets_of(given.test, refused)
    return Owners(names_of(given.names, refused), targets_of(given.train, refused), test)


def whole(given: object, refused: Callable[[str, str], ConfigError]) -> int:
    """A whole number; arguments and errors as of names_of."""
    try:
        return index(given)  # type: ignore[arg-type]
    except TypeError:
        raise refused(str(given), "a whole number") from None


def channels_are_behind(shape: Sequence[int]) -> bool:
    """Whether pixels of this shape [N, ...] are likely [N, height, width, channels], and no signals."""
    least, most = sorted(shape[1:3])
    return shape[3] in _CHANNELS and shape[1] not in _CHANNELS and least >= _LEAST_SIDE and most <= 2 * least
