"""A projection between a model's body and its classifier, as MOON has it."""

from __future__ import annotations

from torch import nn

from fl_ddp.errors import ConfigError
from fl_ddp.models.layers import Classifier


def with_projection(module: nn.Module, width: int) -> nn.Module:
    """Put a hidden layer as wide as the features, and a linear one of a width, in front of a new classifier, in place.

    What a method takes for features is then the projection, on which the classifier works, too.

    Raises:
        ConfigError: the model's features and classifier are not known.

    Source: Li, He and Song 2021 (MOON, arXiv:2103.16257), Section 3.2, where the width is 256.
    """
    if not isinstance(module, Classifier):
        what = f"{width}, but the features of {type(module).__name__} are its own affair"
        raise ConfigError("--model.projection", what, "null, or a model that comes with the package")
    features = module.head.in_features
    hidden = nn.Linear(features, features)
    module.body = nn.Sequential(module.body, hidden, nn.ReLU(), nn.Linear(features, width))
    module.head = nn.Linear(width, module.head.out_features)
    return module
