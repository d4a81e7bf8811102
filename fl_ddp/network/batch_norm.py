"""BatchNorm for lanes: statistics over a batch's real samples, running statistics that the caller keeps.

torch's own writes its running statistics in place, which vmap refuses, and counts padded samples. Here a layer leaves
their next values in `seen`, and FlatModel, in whose theta they are coordinates, takes them from there.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.modules import batchnorm

from fl_ddp.errors import ConfigError
from fl_ddp.network.layers import replace_layer

RUNNING = ("running_mean", "running_var")
_SUPPORTED = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_ACCEPTED = "torch.nn.BatchNorm1d, 2d or 3d with running statistics and a momentum; --model.norm group for GroupNorm"
_OF_ONE_SAMPLE = "track_running_stats=False, with which each sample is normed by itself; torch.nn.GroupNorm"


class MaskedBatchNorm(nn.Module):
    """A BatchNorm layer whose statistics in training are those of the samples of a mask.

    Attributes:
        mask: [B] 1 for a real sample; the caller of a training batch gives it.
        seen: running mean and variance [C] after the last training batch; see taken().
        times: how often it was called for them.
    """

    mask: Tensor
    running_mean: Tensor
    running_var: Tensor

    def __init__(self, norm: batchnorm._BatchNorm) -> None:
        super().__init__()
        assert norm.running_mean is not None and norm.running_var is not None and norm.momentum is not None
        self.eps, self.momentum = norm.eps, norm.momentum
        # a user's forward() may ask for these
        self.num_features, self.affine, self.track_running_stats = norm.num_features, norm.affine, True
        self.weight, self.bias = norm.weight, norm.bias
        self.register_buffer("running_mean", norm.running_mean)
        self.register_buffer("running_var", norm.running_var)
        self.register_buffer("mask", torch.ones(1), persistent=False)
        self.seen: tuple[Tensor, ...] = ()
        self.times = 0

    def forward(self, x: Tensor) -> Tensor:
        """Normalise x [B, C, ...] by channel, in the precision of the running statistics."""
        across = (1, -1) + (1,) * (x.ndim - 2)
        z = x.to(self.running_mean.dtype)
        mean, var = self._of_batch(z) if self.training else (self.running_mean, self.running_var)
        scale = (var + self.eps).rsqrt()
        scale = scale if self.weight is None else scale * self.weight
        z = (z - mean.view(across)) * scale.view(across)
        return (z if self.bias is None else z + self.bias.view(across)).to(x.dtype)

    def _of_batch(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance [C] over the real samples; the running variance takes the unbiased one, as torch's does."""
        axes = (0, *range(2, x.ndim))
        real = self.mask.to(x.dtype).view(-1, *(1,) * (x.ndim - 1))
        count = real.sum() * x[0, 0].numel()
        mean = (x * real).sum(axes) / count.clamp_min(1)
        gap = (x - mean.view(-1, *(1,) * (x.ndim - 2))) * real
        var = gap.square().sum(axes) / count.clamp_min(1)
        # a layer that is called twice goes on from here; functional_call undoes this at its end
        self.running_mean = self._moved(self.running_mean, mean, count)
        self.running_var = self._moved(self.running_var, var * (count / (count - 1).clamp_min(1)), count)
        self.seen, self.times = (self.running_mean, self.running_var), self.times + 1
        return mean, var

    def taken(self, *before: Tensor) -> tuple[Tensor, ...]:
        """Running statistics after the last training batch, which are forgotten here; before, if there was none."""
        seen, self.seen, self.times = self.seen, (), 0
        return seen or before

    def _moved(self, running: Tensor, of_batch: Tensor, count: Tensor) -> Tensor:
        """One value a channel has no variance: torch refuses such a batch, here it moves nothing."""
        return torch.where(count > 1, (1 - self.momentum) * running + self.momentum * of_batch.detach(), running)


def make_norms_masked(module: nn.Module) -> list[str]:
    """Replace every BatchNorm layer of a module in place; the layers' names, each once.

    Raises:
        ConfigError: a layer keeps running statistics of another kind, or BatchNorm keeps none.
    """
    found = []
    for name, layer in list(module.named_modules()):
        if isinstance(layer, batchnorm._NormBase):
            keeps = layer.track_running_stats
            if not isinstance(layer, batchnorm._BatchNorm) and not keeps:
                continue  # InstanceNorm of one sample alone
            if not name or type(layer) not in _SUPPORTED or not keeps or layer.momentum is None:
                kind = f"{type(layer).__name__} at {name!r} (track_running_stats {keeps}, momentum {layer.momentum})"
                what = f"{type(module).__name__} has {kind}, whose statistics cannot be kept for each client"
                raise ConfigError(
                    "--model", what, _ACCEPTED if isinstance(layer, batchnorm._BatchNorm) else _OF_ONE_SAMPLE
                )
            replace_layer(module, layer, MaskedBatchNorm(layer))  # type: ignore[arg-type]
            found.append(name)
        elif isinstance(layer, MaskedBatchNorm):
            found.append(name)
    return found
