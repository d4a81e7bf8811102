"""Whether products depend on where in memory their factors lie, and what to say of it."""

from __future__ import annotations

import torch

BY_PLACE = (
    "warning: products here depend on where in memory their factors lie, so that clients' bits depend on those "
    "trained beside them; with MKL they do not where the environment has MKL_CBWR=AUTO before the first product"
)
"""What to say where products_by_place()."""
_LOOKED_AT = 6, 3, 33, 17
"""Lanes, samples, inputs and outputs of products, of which few lanes begin where the first one does."""


def products_by_place(device_type: str) -> bool:
    """Whether products on a CPU depend on where in memory their factors lie.

    MKL's do unless MKL_CBWR says otherwise before its first one, which a notebook may have made before this.
    """
    if device_type != "cpu":
        return False
    lanes, samples, inputs, outputs = _LOOKED_AT
    x = torch.arange(float(lanes * samples * inputs)).sin().view(lanes, samples, inputs)
    w = torch.arange(float(lanes * inputs * outputs)).cos().view(lanes, outputs, inputs).mT
    together = torch.bmm(x, w)
    alone = [torch.bmm(x[lane : lane + 1].clone(), w[lane : lane + 1].clone()) for lane in range(lanes)]
    return not torch.equal(together, torch.cat(alone))
