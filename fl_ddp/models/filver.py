"""FIL-VER's network, whose encoder and classifier are trained apart."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from fl_ddp.bounds import Count, check
from fl_ddp.models.layers import Classifier, Stage, convnet, linear_layers

Embedding = Literal["ver", "ebr"]


class Encoder(nn.Module):
    """Images to normal distributions of embeddings.

    Args:
        body: maps images to [B, num_features].
        num_features: width of the body's output.
        size: number D of dimensions of an embedding.
        variational: whether the distributions have a width; if not they are points.
    """

    def __init__(self, body: nn.Module, num_features: int, size: int, *, variational: bool) -> None:
        super().__init__()
        self.body = body
        self.mu = nn.Linear(num_features, size)
        self.log_sigma = nn.Linear(num_features, size) if variational else None

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and logarithm of the standard deviation, [B, D] each; minus infinity where the embedding is a point."""
        hidden = self.body(x)
        mu: Tensor = self.mu(hidden)
        return mu, torch.full_like(mu, -math.inf) if self.log_sigma is None else self.log_sigma(hidden)


class FilVerNet(nn.Module):
    """FIL-VER's encoder, two 5x5 convolutions and two hidden layers, and its classifier on embeddings.

    On MNIST the encoder has 4,702,608 parameters (ver) or 4,446,352 (ebr), the classifier 1,268,010. Channels and
    padding are ours, the paper gives none. Each of the submodules encoder and classifier can be called by itself.

    Args:
        in_shape: (channels, height, width).
        num_classes: number of classes.
        embedding: ver for variational embeddings (mean and deviation), ebr for deterministic ones.
        embedding_size: number of dimensions of an embedding.
        hidden: widths of the classifier's hidden layers; the paper can be read as one or two of 1000.
        channels: of the convolutions.
        encoder_hidden: widths of the encoder's hidden layers.

    Raises:
        ConfigError: the input is no image or too small, or an option has an impossible value.

    Source: Park et al. 2021 (arXiv:2110.09695, FIL-VER), Section 5.
    """

    def __init__(
        self,
        *,
        in_shape: tuple[int, ...],
        num_classes: int,
        embedding: Embedding = "ver",
        embedding_size: Count = 256,
        hidden: tuple[Count, ...] = (1000, 1000),
        channels: tuple[Count, ...] = (32, 64),
        encoder_hidden: tuple[Count, ...] = (1000, 1000),
    ) -> None:
        given = {"embedding": embedding, "embedding_size": embedding_size, "hidden": hidden}
        check(FilVerNet, given | {"channels": channels, "encoder_hidden": encoder_hidden}, "--model.")
        super().__init__()
        body = convnet(type(self).__name__, in_shape, [Stage(each, padding=2) for each in channels], encoder_hidden)
        self.encoder = Encoder(*body, embedding_size, variational=embedding == "ver")
        layers = nn.Sequential(*linear_layers(embedding_size, hidden))
        self.classifier = Classifier(layers, (embedding_size, *hidden)[-1], num_classes)

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and logarithm of the standard deviation of each image's embedding, [B, D] each."""
        mu, log_sigma = self.encoder(x)
        return mu, log_sigma

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Features, the input of the classifier's last layer, and logits [B, C], both at the mean embedding."""
        features, logits = self.classifier(self.encode(x)[0])
        return features, logits
