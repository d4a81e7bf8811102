"""The multilayer perceptron."""

from __future__ import annotations

import math

from torch import nn

from fl_ddp.bounds import Count, check
from fl_ddp.models.layers import Classifier, linear_layers


class MLP(Classifier):
    """Hidden linear layers with ReLU, for inputs of any shape.

    On MNIST hidden 200 is the importance paper's model (159,010 parameters), [200, 200] that of its code and McMahan et
    al.'s 2NN (199,210); [] is softmax regression.

    Args:
        in_shape: shape of one sample.
        num_classes: number of classes.
        hidden: width of the hidden layer, or of each of several.

    Raises:
        ConfigError: a width is below 1.

    Source: McMahan et al. 2017 (arXiv:1602.05629).
    """

    def __init__(self, *, in_shape: tuple[int, ...], num_classes: int, hidden: Count | tuple[Count, ...] = 200) -> None:
        check(MLP, {"hidden": hidden}, "--model.")
        in_features = math.prod(in_shape)
        widths = (hidden,) if isinstance(hidden, int) else tuple(hidden)
        body = nn.Sequential(nn.Flatten(), *linear_layers(in_features, widths))
        super().__init__(body, (in_features, *widths)[-1], num_classes)
