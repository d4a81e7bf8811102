"""What FedCL's Eq. 1-2 can mean: Omega, the importance of parameters, as a sum over samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from fl_ddp.engine.group import Group
from fl_ddp.engine.step import Objective
from fl_ddp.importance.fisher import importance_sum, mean_gradient_norm
from fl_ddp.importance.sensitivity import Sensitivity
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.protocol import alike

Reading = Literal["per_param_sq", "per_param_abs", "per_tensor", "global", "mas", "si"]
_SENSITIVITIES: Mapping[str, Sensitivity] = {
    "per_param_sq": Sensitivity(),
    "per_param_abs": Sensitivity(power="absolute"),
    "per_tensor": Sensitivity(batch_mean=True),
    "mas": Sensitivity(of="norm", power="absolute"),
}


def omega_sum(
    group: Group, theta: Tensor, model: FlatModel, reading: Reading, batch_size: int, path: Objective, xi: float
) -> tuple[Tensor, Tensor]:
    """Omega's sum over the samples of each client, and the count that divides it.

    Args:
        group: of clients.
        theta: [P] or [G, P], where the gradients are taken.
        model: the network.
        reading: per_param_sq sums squared gradients, per_param_abs their magnitudes, global the norms of samples' whole
            gradients, mas the magnitudes of the gradients of ||logits||^2 (Aljundi et al. 2018); per_tensor sums the
            squared mean gradient of each batch over a tensor, as the official code does; si is the path integral of a
            local training over its squared change (Zenke et al. 2017).
        batch_size: samples of a batch in per_tensor.
        path: of si, plain local training that tracks w, the sum of -g dtheta.
        xi: damping of si.

    Returns:
        [G, P], [G]; zero for padded lanes.
    """
    if reading == "si":
        walked = group.train(theta, path, {}, {}, {"w": torch.zeros_like(theta)})
        return walked.trace["w"].clamp_min(0) / ((walked.theta - theta).square() + xi), group.real
    if reading == "global":
        norm = mean_gradient_norm(group, theta, model) * group.n
        return norm[:, None].expand(-1, model.num_params), group.n
    batch = batch_size if reading == "per_tensor" else None
    omega, count = importance_sum(group, theta, model, _SENSITIVITIES[reading], batch_size=batch)
    if reading == "per_tensor":
        leaves = [leaf.reshape(len(leaf), -1) for leaf in model.leaves(omega)]
        return torch.cat([alike(leaf).sum(1, keepdim=True).expand_as(leaf) for leaf in leaves], 1), group.n
    return omega, count
