"""Which methods reckon with classes, and are refused where samples have other targets."""

from __future__ import annotations

import pytest

from fl_ddp.config import registry
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.methods.fedcurv import FedCurv
from fl_ddp.methods.fisheravg import FisherAvg
from fl_ddp.methods.onlineewc import OnlineEWC

OF_CLASSES = {"FedKA", "FedNTD", "FedPAC", "FedRoD", "FilVer", "LwF"}


@pytest.mark.parametrize("name", registry.known("method"))
def test_methods_of_classes_say_so(name: str) -> None:
    method = registry.known("method")[name]()
    assert isinstance(method, FedAvg)
    assert method.needs_classes == (name in OF_CLASSES)


@pytest.mark.parametrize("method", [FedCurv, FisherAvg, OnlineEWC])
def test_labels_by_probabilities_are_of_classes(method: type[FedCurv | FisherAvg | OnlineEWC]) -> None:
    assert not method(kind="empirical").needs_classes
    assert method(kind="exact").needs_classes and method(kind="mc").needs_classes
