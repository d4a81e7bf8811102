"""The clients' optimizer."""

from __future__ import annotations

from dataclasses import replace

from fl_ddp.config import registry
from fl_ddp.config.settings import Config
from fl_ddp.errors import ConfigError
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.optimizers.rule import Optimizer
from fl_ddp.optimizers.sgd import SGD


def build_optimizer(config: Config, method: FedAvg) -> Optimizer:
    """The optimizer of a configuration.

    Raises:
        ConfigError: it does not fit the options or the method.
    """
    optimizer = registry.build(config.optimizer)
    assert isinstance(optimizer, Optimizer)
    name, of_method = config.optimizer.name, type(method).__name__
    if config.momentum and not optimizer.takes_momentum:
        raise ConfigError("--momentum", f"{config.momentum}, but {name} has none", "0")
    if config.weight_decay and not optimizer.takes_weight_decay:
        what = f"{config.weight_decay}, but {name} has one of its own"
        raise ConfigError("--weight_decay", what, "--optimizer.weight_decay")
    if isinstance(optimizer, SGD) and optimizer.nesterov and not config.momentum:
        raise ConfigError("--optimizer.nesterov", "true, but there is no momentum", "--momentum above 0 beside it")
    if method.counts_sgd_steps and replace(optimizer, keep=False) != SGD():
        what = f"but {of_method} reckons with steps of plain SGD or SGD with momentum"
        if not isinstance(optimizer, SGD):
            raise ConfigError("--optimizer", f"{name}, {what}", "SGD")
        if optimizer.nesterov:
            raise ConfigError("--optimizer.nesterov", f"true, {what}", "false")
        raise ConfigError("--optimizer.dampening", f"{optimizer.dampening}, {what}", "0")
    if method.counts_sgd_steps and config.lr_schedule_over == "steps":
        raise ConfigError(
            "--lr_schedule_over", f"steps, but {of_method} reckons with steps of the same length", "rounds"
        )
    if optimizer.keep and not optimizer.remembers(momentum=config.momentum > 0):
        raise ConfigError("--optimizer.keep", "true, but there is nothing to keep", "--momentum above 0 beside it")
    if optimizer.keep and not method.keeps_optimizer:
        raise ConfigError("--optimizer.keep", f"true, but {of_method} needs an optimizer that begins anew", "false")
    return optimizer
