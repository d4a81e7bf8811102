"""How much of a round's local training each client does, and at what rate.

Stragglers as in Li et al. 2020 (FedProx, arXiv 1812.06127), section 5.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fl_ddp.config.settings import Config
from fl_ddp.engine.plan import Plan
from fl_ddp.engine.seeds import Purpose, keys, unit
from fl_ddp.protocol import Factors, Indices
from fl_ddp.tasks.factors import as_text, factors
from fl_ddp.tasks.turnout import Turnout

_DRAWN: Mapping[str, Purpose] = {"client_lr": Purpose.CLIENT_LR, "client_work": Purpose.CLIENT_WORK}


def factors_of(config: Config, option: str) -> Factors | None:
    """What client_lr or client_work gives each client [K]; None where all are alike.

    Raises:
        ConfigError: there are no such factors.
    """
    text = getattr(config, option)
    if text is None:
        return None
    return factors(f"--{option}", text, unit(keys(config.seed, _DRAWN[option], np.arange(config.clients))))


class Pace:
    """What is of each client in its plan of a round; a function of the configuration alone.

    Attributes:
        work: factors of the clients' work [K]; None where all do the same.
        texts: the factors of all clients as files client,factor, by option; empty where all are alike.
    """

    def __init__(self, config: Config, turnout: Turnout) -> None:
        """Of a run whose rounds these clients take part in.

        Raises:
            ConfigError: there are no such factors.
        """
        self._config, self._turnout = config, turnout
        self._lr, self.work = factors_of(config, "client_lr"), factors_of(config, "client_work")
        self.texts = {"client_lr": as_text(self._lr), "client_work": as_text(self.work)}

    def of(self, plan: Plan, index: int, clients: Indices) -> Plan:
        """A round's plan for some clients [G] side by side, -1 for a padded lane."""
        real = np.maximum(clients, 0)
        if self._lr is not None:
            plan = replace(plan, lr_factor=self._lr[real])
        if self.work is not None:
            plan = plan.of_parts(self.work[real])
        if not self._config.stragglers:
            return plan
        late = np.isin(clients, self._turnout.stragglers(index))
        return plan.cut_short(late, unit(keys(self._config.seed, index, Purpose.LATE, real)))
