"""The federated method."""

from __future__ import annotations

from dataclasses import fields

from fl_ddp.config import registry
from fl_ddp.config.settings import Config
from fl_ddp.errors import ConfigError
from fl_ddp.guards.hooks import refuse_unusable
from fl_ddp.losses.criterion import ByOutput, Criterion
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.network.flat_model import FlatModel


def build_method(config: Config, model: FlatModel) -> FedAvg:
    """The method of a configuration.

    Raises:
        ConfigError: it gives what nobody can use, or reckons with classes that the loss has not.
    """
    method = registry.build(config.method, model=model, num_clients=config.clients)
    assert isinstance(method, FedAvg)
    refuse_unusable(method, FedAvg)
    if isinstance(model.criterion, ByOutput) and method.needs_classes:
        raise _reckons_with_classes(method, model.criterion)
    return method


def _reckons_with_classes(method: FedAvg, loss: Criterion) -> ConfigError:
    """What to say of a method that needs the classes which a loss has not."""
    what = f"{type(method).__name__} reckons with classes or their probabilities, and --loss {loss.name} has none"
    by_kind = any(field.name == "kind" for field in fields(method))
    return ConfigError("--method", what, "--method.kind empirical" if by_kind else "another method")
