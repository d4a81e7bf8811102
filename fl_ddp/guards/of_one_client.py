"""What a method's functions of one client give to a local step: what is of no use is refused with the function's line.

Each of these gives the same function, which raises ConfigError then. Forms are known when a step is traced, so that a
compiled one checks nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import unwrap
from typing import TypeVar

from torch import Tensor

from fl_ddp.errors import ConfigError, place_of_code
from fl_ddp.protocol import Leaves, Quadratic, Tensors

Given = TypeVar("Given")


def number(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A loss or a penalty, whose gradient is taken: a number []."""

    def judged(given: Tensor) -> None:
        if not _is_number(given):
            raise _refused(function, f"gives {_form(given)} for one client", "a tensor [] of floats")

    return _judged_by(judged, function)


def loss(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A loss: a number [] that parameters have a part in, or nobody would learn anything."""

    def judged(given: Tensor) -> None:
        if not given.requires_grad:
            raise _refused(function, "gives a number that no parameter has a part in", "one made of theta")

    return _judged_by(judged, number(function))


def leaf(function: Callable[..., Tensor], like: Tensor) -> Callable[..., Tensor]:
    """What makes something of one leaf: a tensor of its shape."""

    def judged(given: Tensor) -> None:
        _judge_leaf(function, given, like)

    return _judged_by(judged, function)


def priors(function: Callable[..., tuple[Quadratic, ...]]) -> Callable[..., tuple[Quadratic, ...]]:
    """Priors of one leaf: a tuple of them."""

    def judged(given: tuple[Quadratic, ...]) -> None:
        if not isinstance(given, tuple) or not all(isinstance(each, Quadratic) for each in given):
            raise _refused(function, f"gives {_form(given)}", "a tuple of Quadratic")

    return _judged_by(judged, function)


def trace(function: Callable[..., Tensors], before: Mapping[str, Tensor]) -> Callable[..., Tensors]:
    """What tracks one leaf: tensors of the names and shapes that it had before."""

    def judged(given: Tensors) -> None:
        if not isinstance(given, dict) or given.keys() != before.keys():
            raise _refused(function, f"gives {_form(given)}", f"a dict of {', '.join(sorted(before))}")
        for name, t in before.items():
            _judge_leaf(function, given[name], t)

    return _judged_by(judged, function)


def gradient(function: Callable[..., tuple[Leaves, Tensor]], theta: Leaves) -> Callable[..., tuple[Leaves, Tensor]]:
    """The gradient of a loss in all leaves, and the loss."""

    def judged(given: tuple[Leaves, Tensor]) -> None:
        if not isinstance(given, tuple) or len(given) != 2 or not isinstance(given[0], tuple | list):
            raise _refused(function, f"gives {_form(given)}", "a tuple of leaves, and the loss")
        leaves, value = given
        if len(leaves) != len(theta):
            raise _refused(function, f"gives {len(leaves)} leaves", str(len(theta)))
        for g, like in zip(leaves, theta, strict=True):
            _judge_leaf(function, g, like)
        if not _is_number(value):
            raise _refused(function, f"gives {_form(value)} as one client's loss", "a tensor [] of floats")

    return _judged_by(judged, function)


def _judged_by(judge: Callable[[Given], None], function: Callable[..., Given]) -> Callable[..., Given]:
    def judged(*args: object) -> Given:
        given = function(*args)
        judge(given)
        return given

    return judged


def _judge_leaf(function: Callable[..., object], given: object, like: Tensor) -> None:
    if not isinstance(given, Tensor) or given.shape != like.shape:
        raise _refused(function, f"gives {_form(given)} for a leaf {list(like.shape)}", "a tensor of its shape")


def _is_number(given: object) -> bool:
    return isinstance(given, Tensor) and not given.ndim and given.is_floating_point()


def _form(given: object) -> str:
    if isinstance(given, Tensor):
        return f"a tensor {list(given.shape)}" + ("" if given.is_floating_point() else f" of {given.dtype}")
    if isinstance(given, dict):
        return f"a dict of {', '.join(map(str, given)) or 'nothing'}"
    return type(given).__name__


def _refused(method: Callable[..., object], what: str, accepted: str) -> ConfigError:
    code, owner = unwrap(method.__func__).__code__, type(method.__self__)  # type: ignore[attr-defined]
    return ConfigError(f"{place_of_code(code)}: {code.co_name} of {owner.__name__}", what, accepted)
