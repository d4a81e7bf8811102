"""A run's model, made and tried once before anything is trained, and its samples as it takes them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import NamedTuple

import torch

from fl_ddp.building.initial import begin_with
from fl_ddp.config import registry
from fl_ddp.config.settings import Config
from fl_ddp.datasets.dataset import Arrays, Dataset
from fl_ddp.engine.augmentation import most_shifted
from fl_ddp.engine.samples import Normaliser, Samples, channel_statistics, of_channels
from fl_ddp.engine.seeds import Purpose, torch_seed
from fl_ddp.errors import ConfigError
from fl_ddp.guards.global_random import refuse_global_draws
from fl_ddp.guards.room import Activations, activation_bytes, with_room
from fl_ddp.losses.criterion import Criterion
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.network.row_check import looks, refuse_other_rows
from fl_ddp.network.vmap_check import try_gradient
from fl_ddp.protocol import Indices, Inputs, Numbers


class Built(NamedTuple):
    """A model and its samples.

    Attributes:
        model: the network.
        train: the training set on the device.
        test: the test set, likewise.
        activations: of one sample on a GPU; none on a CPU, where nobody asks.
        fresh: makes the module anew, as the user wrote it.
    """

    model: FlatModel
    train: Samples
    test: Samples
    activations: Activations
    fresh: Callable[[], torch.nn.Module]


def build_model(
    config: Config,
    source: Dataset,
    data: Arrays,
    num_classes: int,
    loss: Criterion,
    device: torch.device,
    module: torch.nn.Module | None,
) -> Built:
    """Make the model of a configuration.

    Args:
        config: all settings.
        source: the data, and how they are normalised.
        data: what was loaded of it.
        num_classes: that the model tells apart, of all tasks; or the numbers that it gives.
        loss: of the model.
        device: that it is trained on.
        module: the model, where a notebook has given it as an object.

    Raises:
        ConfigError: it does not fit the data, the device or --init, cannot be vectorised over clients, or draws random
            numbers that no seed determines.
    """
    in_shape = data.x_train.shape[1:]
    if config.augment and len(in_shape) != 3:
        given = ",".join(config.augment)
        raise ConfigError("--augment", f"{given}, but samples are {list(in_shape)}", "images [channels, height, width]")
    if "crop" in config.augment and not config.resume and not any(map(most_shifted, in_shape[1:])):
        what = f"crop, but images of {' x '.join(map(str, in_shape[1:]))} pixels are shifted by none"
        raise ConfigError("--augment", what, "images of 8 pixels at least, or flip alone")

    def make() -> torch.nn.Module:
        with torch_seed(config.seed, Purpose.MODEL):
            known = {"in_shape": in_shape, "num_classes": num_classes, "num_tokens": data.num_tokens, "given": module}
            made = registry.build(config.model, **known)
        assert isinstance(made, torch.nn.Module)  # as registry.build has seen to
        return made

    with _keyed(config, "constructor", "from torch's generator, which the run seeds for it", make):
        network = with_room(make, config.model.name, config.model.init_args, device)
    begin_with(network, config)
    dtype = next((p.dtype for p in network.parameters()), torch.float32)
    train, test = _on_device(data, source, device, dtype)
    example = test.inputs(test.x[:1], dtype)
    if data.num_tokens:
        example = torch.full_like(example, data.num_tokens - 1)  # that a table too short for it be told now
    products = config.convolution == "auto" and config.compile and config.precision != "bfloat16"
    activations = activation_bytes(network, example, products) if device.type == "cuda" else Activations(0, 0)
    model = FlatModel(network, num_classes, example, loss)
    autocast = config.precision == "bfloat16" and not config.compile
    try_once = partial(try_gradient, model, example, test.y[:1], config.model.name, autocast=autocast)
    with _keyed(config, "forward", "by torch.nn.Dropout layers, whose keys are the run's", try_once):
        try_once()
    look = partial(looks, model, test.inputs(test.x[:2].expand(2, *in_shape), dtype), config.model.name)
    with _keyed(config, "forward", "nothing in evaluation mode", look):
        found = look()
    refuse_other_rows(found, num_classes, config.model.name)
    return Built(model, train, test, activations, make)


def _keyed(config: Config, part: str, instead: str, again: Callable[[], object]) -> AbstractContextManager[None]:
    """Refuse a block in which the model draws from a global generator."""
    return refuse_global_draws(f"{part} of {config.model.name}", instead, again)


def _on_device(data: Arrays, source: Dataset, device: torch.device, dtype: torch.dtype) -> tuple[Samples, Samples]:
    normaliser = Normaliser()
    if source.mean:
        given = (of_channels(values, data.x_train.ndim) for values in (source.mean, source.deviation))
        normaliser = Normaliser(*(t.to(device, dtype) for t in given))
    if source.normalize:
        normaliser = Normaliser(*(t.to(device, dtype) for t in channel_statistics(data.x_train)))

    def place(x: Inputs, y: Indices | Numbers) -> Samples:
        stored, targets = torch.from_numpy(x), torch.from_numpy(y)
        stored, targets = (
            each.to(device, dtype) if each.is_floating_point() else each.to(device) for each in (stored, targets)
        )
        return Samples(stored, targets, normaliser)

    return place(data.x_train, data.y_train), place(data.x_test, data.y_test)
