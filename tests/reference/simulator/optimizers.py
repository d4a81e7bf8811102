"""Optimizers of a client: torch's own, on parameters in double precision, one step after another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from parameters import Parameters, alone
from torch import nn

FIRST_LR = {"SGD": 0.1, "Adam": 1e-3, "AdamW": 1e-3, "Adagrad": 1e-2, "RMSprop": 1e-2}
"""Learning rates where none is given: ours of SGD, torch's of the others."""
HAVE_MOMENTUM = ("SGD", "RMSprop")
HAVE_OWN_DECAY = ("AdamW",)


@dataclass(frozen=True)
class Choice:
    """An optimizer by torch's name.

    Attributes:
        name: of the class in torch.optim.
        options: of its own, by torch's names.
        keep: whether a client has one for the whole run.
    """

    name: str = "SGD"
    options: Mapping[str, Any] = ()  # type: ignore[assignment]
    keep: bool = False

    def made(self, parameters: list[nn.Parameter], lr: float, momentum: float, decay: float) -> torch.optim.Optimizer:
        """It, for parameters."""
        given = dict(self.options)
        given |= {"momentum": momentum} if self.name in HAVE_MOMENTUM else {}
        given |= {} if self.name in HAVE_OWN_DECAY else {"weight_decay": decay}
        made: torch.optim.Optimizer = getattr(torch.optim, self.name)(parameters, lr=lr, **given)
        return made


def choice_of(options: Mapping[str, Any]) -> Choice:
    """The optimizer among a run's options."""
    own = {name.removeprefix("optimizer."): v for name, v in options.items() if name.startswith("optimizer.")}
    keep = own.pop("keep", False)
    return Choice(options.get("optimizer", "SGD"), own, keep)


class Walker:
    """A client's parameters and its optimizer, which is told the gradient.

    Attributes:
        steps: that it has made.
        reach: how far the last one would have gone by learning rate and momentum alone, if all gradients had been 1.
    """

    def __init__(
        self, choice: Choice, theta: Parameters, lr: float, momentum: float, decay: float, begin: Mapping[str, Any]
    ) -> None:
        """An optimizer, which goes on where another has ended if that is given."""
        self._own = {name: nn.Parameter(value.clone()) for name, value in theta.items()}
        self._optimizer = choice.made([*self._own.values()], lr, momentum, decay)
        self.steps = begin.get("steps", 0)
        self.reach = 0.0
        self._unit = nn.Parameter(torch.zeros((), dtype=torch.float64))
        given: dict[str, Any] = {"momentum": momentum} if choice.name in HAVE_MOMENTUM else {}
        given |= dict(choice.options) if choice.name == "SGD" else {}
        self._along = torch.optim.SGD([self._unit], lr=1.0, **given)
        for _ in range(self.steps):
            self._go()
        if self.steps:
            for name, parameter in self._own.items():
                known = {key: value[name].clone() for key, value in begin.items() if key != "steps"}
                self._optimizer.state[parameter].update(known | {"step": torch.tensor(float(self.steps))})

    def step(self, theta: Parameters, g: Parameters, lr: float) -> Parameters:
        """All parameters after a step of those that it moves."""
        with torch.no_grad():
            for name, parameter in self._own.items():
                parameter.copy_(theta[name])
                parameter.grad = g[name].clone()
        self._optimizer.param_groups[0]["lr"] = lr
        self._optimizer.step()
        self.steps, self.reach = self.steps + 1, lr * self._go()
        return theta.having(Parameters({name: parameter.detach().clone() for name, parameter in self._own.items()}))

    def _go(self) -> float:
        """How far one more step goes along 1."""
        before = self._unit.item()
        self._unit.grad = torch.ones_like(self._unit)
        self._along.step()
        return before - self._unit.item()

    def left(self) -> dict[str, Any]:
        """What the next one has to begin with."""
        found: dict[str, Any] = {"steps": self.steps}
        for name, parameter in self._own.items():
            for key, value in self._optimizer.state[parameter].items():
                if key != "step" and value is not None:
                    found.setdefault(key, Parameters())[name] = value.clone()
        return found


def remembered(choice: Choice, theta: Parameters, momentum: float, left: Mapping[str, Any]) -> dict[str, Parameters]:
    """What a client remembers of its optimizer, as vectors like theta; before a step, what that begins with."""
    probe = Walker(choice, theta, 0.0, momentum, 0.0, {})
    probe.step(theta, theta.filled(0), 0.0)
    first = dict(choice.options).get("initial_accumulator_value", 0.0)
    vectors = {key: theta.filled(first) for key in probe.left() if key != "steps"}
    vectors |= {key: vectors[key].having(value) for key, value in left.items() if key != "steps"}
    steps = torch.tensor(float(left.get("steps", 0)), dtype=torch.float64)
    return {f"optimizer_{key}": value for key, value in vectors.items()} | {"optimizer_steps": alone(steps)}
