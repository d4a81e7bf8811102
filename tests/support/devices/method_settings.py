"""Settings of methods that the checks' own do not do for."""

from __future__ import annotations

from collections.abc import Mapping

import own_models

FOR_METHODS: Mapping[str, Mapping[str, object]] = {
    "FedBN": {"model": f"{own_models.__file__}:Normed"},
    "FilVer": {
        "model": f"{own_models.__file__}:Embedded", "method.sst": 30, "method.send": 5, "method.remember": 20,
        "method.store": 60, "stream": "ClassGroups", "stream.tasks": 2, "stream.size": 5, "stream.task_rounds": 1,
    },
    "OnlineEWC": {
        "stream": "ClassGroups", "stream.tasks": 2, "stream.size": 5, "stream.task_rounds": 1, "method.lam": 10.0,
    },
    "LwF": {"stream": "ClassGroups", "stream.tasks": 2, "stream.size": 5, "stream.task_rounds": 1},
}  # fmt: skip
