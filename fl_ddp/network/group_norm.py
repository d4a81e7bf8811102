"""GroupNorm in place of BatchNorm, whose statistics are those of one sample: nothing to average over clients."""

from __future__ import annotations

from torch import nn
from torch.nn.modules import batchnorm

from fl_ddp.guards.parameters import require_plain_parameters
from fl_ddp.network.layers import replace_layer

MOST_GROUPS = 32


def with_group_norm(module: nn.Module) -> nn.Module:
    """Replace every normalisation over a batch in place; weights and biases stay as they are.

    Images get the largest number of groups up to 32 that divides their channels; vectors of features get one.

    Raises:
        ConfigError: a layer does not know its number of channels yet.

    Source: Wu and He 2018 (arXiv:1803.08494).
    """
    require_plain_parameters(module)
    for layer in list(module.modules()):
        if isinstance(layer, batchnorm._BatchNorm):
            channels, most = layer.num_features, 1 if isinstance(layer, nn.BatchNorm1d) else MOST_GROUPS
            groups = max(g for g in range(1, min(most, channels) + 1) if channels % g == 0)
            norm = nn.GroupNorm(groups, channels, layer.eps, layer.affine)
            if layer.affine:
                norm.weight, norm.bias = layer.weight, layer.bias
            if layer is module:
                return norm
            replace_layer(module, layer, norm)
    return module
