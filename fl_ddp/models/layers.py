"""What the models are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from fl_ddp.errors import ConfigError


class MaxPool(nn.Module):
    """Max pooling over windows that do not overlap: a reshape and a maximum, faster under vmap than F.max_pool2d.

    Pixels beyond the last full window are left out, as there. Pixels that share a window's maximum get equal parts of
    its gradient here, the first one everything there. After a ReLU the parameters' gradients agree nevertheless: pixels
    tied at 0 pass no gradient on, and pixels tied at a positive value come, for all weights but a set of measure zero,
    from equal patches (a plain background), for which it does not matter where the gradient enters.

    Args:
        size: side of the square windows, in pixels.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        """Pool x [B, channels, height, width]."""
        height, width = x.shape[-2] // self.size, x.shape[-1] // self.size
        if x.ndim == 4 and height and width and not torch.is_grad_enabled():
            # the same numbers, and the quickest way without a compiler; on a CPU by FlatModel's quick_pools()
            return nn.functional.max_pool2d(x, self.size)
        x = x[..., : height * self.size, : width * self.size]
        return x.reshape(*x.shape[:-2], height, self.size, width, self.size).amax((-3, -1))


class Classifier(nn.Module):
    """A body that gives features and a linear head on them.

    Args:
        body: maps [B, *in_shape] to [B, num_features].
        num_features: width of the representation.
        num_classes: width of the logits.
    """

    def __init__(self, body: nn.Module, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.body = body
        self.head = nn.Linear(num_features, num_classes)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Features [B, D], the input of the head, and logits [B, C]."""
        features: Tensor = self.body(x)
        return features, self.head(features)


class Stage(NamedTuple):
    """A convolution of stride 1 with ReLU and, unless pool is None, max pooling that halves the image.

    Attributes:
        channels: number of output channels.
        kernel: side of the filters, in pixels.
        padding: zero pixels added at each border.
        pool: window/stride; 2x2/2 rounds an odd size down, 3x3/2 (padding 1) up.
    """

    channels: int
    kernel: int = 5
    padding: int = 0
    pool: Literal["2x2/2", "3x3/2"] | None = "2x2/2"

    def size(self, side: int) -> int:
        """Side of the output for a side of the input, in pixels."""
        side += 2 * self.padding - self.kernel + 1
        return {"2x2/2": side // 2, "3x3/2": (side + 1) // 2, None: side}[self.pool]

    def least(self, side: int) -> int:
        """Smallest side of the input that gives at least this side of the output, in pixels."""
        side = {"2x2/2": 2 * side, "3x3/2": 2 * side - 1, None: side}[self.pool]
        return max(side + self.kernel - 1 - 2 * self.padding, 1)

    def layers(self, in_channels: int) -> list[nn.Module]:
        """The stage as modules."""
        pools: dict[str | None, list[nn.Module]] = {
            "2x2/2": [MaxPool(2)],
            "3x3/2": [nn.MaxPool2d(3, stride=2, padding=1)],
            None: [],
        }
        return [nn.Conv2d(in_channels, self.channels, self.kernel, padding=self.padding), nn.ReLU(), *pools[self.pool]]


def image_shape(model: str, in_shape: tuple[int, ...], least: int) -> tuple[int, int, int]:
    """Channels, height and width of one sample, if a network for images can work on it.

    Args:
        model: name for the message.
        in_shape: of one sample.
        least: smallest side that the network can work on, in pixels.

    Raises:
        ConfigError: it is no image, or too small.
    """
    if len(in_shape) != 3:
        raise ConfigError(
            f"--model {model}",
            f"a sample of shape {in_shape} is no image",
            "(channels, height, width), or --model MLP for any shape",
        )
    channels, height, width = in_shape
    if min(height, width) < least:
        raise ConfigError(
            f"--model {model}", f"images of {height} x {width} pixels are too small", f"at least {least} x {least}"
        )
    return channels, height, width


def linear_layers(in_features: int, hidden: Sequence[int], dropout: float = 0.0) -> list[nn.Module]:
    """Hidden layers: Linear and ReLU each, and dropout if it is above 0."""
    layers: list[nn.Module] = []
    for width in hidden:
        layers += [nn.Linear(in_features, width), nn.ReLU()]
        if dropout > 0:
            layers.append(nn.Dropout(dropout))
        in_features = width
    return layers


def convnet(
    model: str,
    in_shape: tuple[int, ...],
    stages: Sequence[Stage],
    hidden: Sequence[int],
    *,
    dropout: float = 0.0,
    stage_dropout: float = 0.0,
) -> tuple[nn.Sequential, int]:
    """Convolution stages followed by hidden linear layers.

    Args:
        model: name for messages.
        in_shape: (channels, height, width).
        stages: the convolutions.
        hidden: width of each hidden linear layer, at least one.
        dropout: probability behind each hidden linear layer.
        stage_dropout: probability behind the last stage.

    Returns:
        the network's body, and its number of features.

    Raises:
        ConfigError: the input is no image or too small, or a dropout no probability below 1.
    """
    least = 1
    for stage in reversed(stages):
        least = stage.least(least)
    channels, height, width = image_shape(model, in_shape, least)
    layers: list[nn.Module] = []
    for stage in stages:
        layers += stage.layers(channels)
        channels, height, width = stage.channels, stage.size(height), stage.size(width)
    layers.append(nn.Flatten())
    if stage_dropout > 0:
        layers.append(nn.Dropout(stage_dropout))
    layers += linear_layers(channels * height * width, hidden, dropout)
    return nn.Sequential(*layers), (channels * height * width, *hidden)[-1]


def xavier_(module: nn.Module) -> None:
    """Initialise in place: weights of Linear and Conv2d uniform after Glorot and Bengio 2010, biases 0."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
