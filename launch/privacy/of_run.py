"""The attack on a finished run, and what it leaves in the run's folder."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from fl_ddp.arithmetic.repeatable import repeatable
from fl_ddp.building.initial import as_kept
from fl_ddp.config import registry
from fl_ddp.config.command_line import from_file
from fl_ddp.config.settings import Config
from fl_ddp.engine.samples import Samples
from fl_ddp.engine.seeds import Purpose, torch_seed
from fl_ddp.errors import ConfigError
from fl_ddp.federation import Federation, build_federation
from fl_ddp.host.atomic_file import write_bytes, write_text
from fl_ddp.host.checkout import commit
from fl_ddp.host.environment import prepare
from fl_ddp.methods.filver import FilVer
from fl_ddp.ranks.collectives import Ranks
from launch.privacy.attack import Seen, reconstruct
from launch.run.reconstruction_curves import COLUMNS, FILE, PICTURES

_AT_ONCE = 1000
_SHOWN = 4
"""Images of each task that are kept beside their reconstructions, each of another class if there are as many."""


def refuse_others(folder: Path) -> None:
    """Refuse a run whose clients send no embeddings, or whose server has no images.

    Raises:
        ConfigError: it is such a run.
    """
    method = from_file(folder / "config.yaml").method
    owner, given = registry.load("method", method.class_path), method.init_args
    if not (isinstance(owner, type) and issubclass(owner, FilVer)):
        raise ConfigError(folder, f"is a run of {method.name}, whose clients send no embeddings", "runs of FilVer")
    if not given["sst"]:
        raise ConfigError(folder, "is a run whose clients send no embeddings (--method.sst 0)", "--method.sst above 0")
    if not given["pretrain_epochs"]:
        what = "is a run whose server has no images (--method.pretrain_epochs 0)"
        raise ConfigError(folder, what, "--method.pretrain_epochs above 0")


def attack(folder: Path, epochs: int) -> None:
    """Reconstruct all tasks' test images from what the clients of a run would send of them.

    Leaves reconstruction.csv and some images and their reconstructions, reconstruction.safetensors, in the folder.

    Args:
        folder: of a finished run.
        epochs: of the decoder's training.

    Raises:
        ConfigError: the run sends no embeddings or no images' ones, or its model cannot be read.
        RunError: a file cannot be written.
    """
    refuse_others(folder)
    prepare()
    stored = as_kept(from_file(folder / "config.yaml"), folder)
    config = replace(stored, compile=False, device="auto", precision="float32")
    place = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    federation = build_federation(config, Ranks(0, 1, place))
    method = federation.method
    assert isinstance(method, FilVer)
    encoder = _encoder(folder, config, federation)
    world, tests = federation.worlds.at(0), federation.worlds.test_samples
    if world.train.x.ndim != 4:
        raise ConfigError(folder, f"has inputs {list(world.train.x.shape[1:])}", "images [channels, height, width]")
    rows = torch.from_numpy(np.sort(np.concatenate(world.proxy))).to(world.train.y.device)
    low, high = _range(world.train.x)
    known = _seen(encoder, Samples(world.train.x[rows], world.train.y[rows], world.train.normaliser), low, high)
    others = [_seen(encoder, each, low, high) for each in tests]
    with repeatable(place.type, tf32=False), torch_seed(config.seed, Purpose.RECONSTRUCTION):
        found = reconstruct(known, others, statistics=method.share == "stats", epochs=epochs)

    made_by = commit()
    numbers = [(task, each.psnr, each.psnr_of_mean, epochs, made_by) for task, each in enumerate(found, 1)]
    pictures: dict[str, Tensor] = {}
    for task, (seen, each, samples) in enumerate(zip(others, found, tests, strict=True), 1):
        shown = _one_of_each_class(samples.y)
        pictures |= {f"images/{task}": seen.images[shown].cpu().contiguous()}
        pictures |= {f"reconstructions/{task}": each.images[shown].cpu().contiguous()}
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([COLUMNS, *numbers])
    write_bytes(folder / PICTURES, save(pictures))
    write_text(folder / FILE, text.getvalue())


def _encoder(folder: Path, config: Config, federation: Federation) -> nn.Module:
    """The run's encoder, images to mu and the logarithm of sigma."""
    shape = federation.worlds.at(0).train.x.shape[1:]
    module = registry.build(config.model, in_shape=shape, num_classes=len(federation.classes))
    assert isinstance(module, nn.Module)
    path = folder / "model.safetensors"
    try:
        module.load_state_dict(load_file(path))
    except (OSError, SafetensorError, RuntimeError) as error:
        raise ConfigError(path, f"is not the model of the run ({str(error).splitlines()[0]})") from error
    return module.get_submodule("encoder").eval().to(federation.model.device)


def _range(x: Tensor) -> tuple[float, float]:
    """Of stored values: what becomes 0 and 1."""
    return (0.0, 255.0) if x.dtype == torch.uint8 else (float(x.min()), max(float(x.max()), float(x.min()) + 1e-12))


def _seen(encoder: nn.Module, samples: Samples, low: float, high: float) -> Seen:
    with torch.no_grad():
        each = [encoder(samples.inputs(some, torch.float32)) for some in torch.split(samples.x, _AT_ONCE)]
    embeddings = torch.cat([torch.cat([mu, log_sigma.exp()], 1) for mu, log_sigma in each])
    return Seen((samples.x.float() - low) / (high - low), embeddings)


def _one_of_each_class(y: Tensor) -> Tensor:
    """Places of the first sample of some classes; of the first samples where there are fewer classes."""
    first = {int(label): place for place, label in reversed(list(enumerate(y.tolist())))}
    places = [first[label] for label in sorted(first)][:_SHOWN]
    return torch.tensor([*places, *(place for place in range(len(y)) if place not in places)][:_SHOWN])
