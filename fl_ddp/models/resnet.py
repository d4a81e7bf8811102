"""Residual networks, with GroupNorm, whose statistics are those of one image, or with BatchNorm."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Literal

from torch import nn

from fl_ddp.bounds import Count, check
from fl_ddp.errors import ConfigError
from fl_ddp.models.layers import Classifier, image_shape

Stem = Literal["auto", "small", "imagenet"]
BlockNorm = Literal["group", "batch"]


class _ResNet(Classifier):
    """Torchvision's ResNet for images of any size and number of channels.

    Args:
        in_shape: (channels, height, width).
        num_classes: number of classes.
        norm: group puts GroupNorm where the paper has BatchNorm (batch).
        groups: number of groups of each GroupNorm, a divisor of 64.
        stem: small is a 3x3 convolution, imagenet one of 7x7 and a pool, both stride 2; auto is small under 64 pixels.

    Raises:
        ConfigError: the input is no image or too small, or an option has an impossible value.
    """

    block: ClassVar[Literal["BasicBlock", "Bottleneck"]]
    depths: ClassVar[tuple[int, ...]]

    def __init__(
        self,
        *,
        in_shape: tuple[int, ...],
        num_classes: int,
        norm: BlockNorm = "group",
        groups: Count = 32,
        stem: Stem = "auto",
    ) -> None:
        from torchvision.models import resnet  # takes two seconds, which only those who use it should wait

        check(_ResNet, {"norm": norm, "groups": groups, "stem": stem}, "--model.")
        if 64 % groups:
            raise ConfigError("--model.groups", f"{groups} is impossible", "divisors of 64, from 1 to 64")
        channels, height, width = image_shape(type(self).__name__, in_shape, least=8)
        if stem == "auto":
            stem = "small" if min(height, width) < 64 else "imagenet"
        layer = partial(nn.GroupNorm, groups) if norm == "group" else nn.BatchNorm2d
        body = resnet.ResNet(getattr(resnet, self.block), list(self.depths), norm_layer=layer)
        if stem == "small":
            body.conv1 = nn.Conv2d(channels, 64, 3, padding=1, bias=False)
            body.maxpool = nn.Identity()
        else:
            body.conv1 = nn.Conv2d(channels, 64, 7, stride=2, padding=3, bias=False)
        nn.init.kaiming_normal_(body.conv1.weight, mode="fan_out", nonlinearity="relu")
        num_features, body.fc = body.fc.in_features, nn.Identity()
        super().__init__(body, num_features, num_classes)


class ResNet18(_ResNet):
    """ResNet-18, by default with GroupNorm in place of BatchNorm.

    11,173,962 parameters on CIFAR-10.

    Source: He et al. 2016 (arXiv:1512.03385); Wu and He 2018 (arXiv:1803.08494) for GroupNorm.
    """

    block = "BasicBlock"
    depths = (2, 2, 2, 2)


class ResNet50(_ResNet):
    """ResNet-50, by default with GroupNorm for BatchNorm; strides sit in the 3x3 convolutions, as in torchvision.

    23,520,842 parameters on CIFAR-10.

    Source: He et al. 2016 (arXiv:1512.03385); Wu and He 2018 (arXiv:1803.08494) for GroupNorm.
    """

    block = "Bottleneck"
    depths = (3, 4, 6, 3)
