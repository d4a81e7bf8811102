"""The weights that a run begins with, where they are not those that its seed draws."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from fl_ddp.config.settings import Config
from fl_ddp.config.yaml_file import load_yaml
from fl_ddp.errors import ConfigError, first_line
from fl_ddp.network.batch_norm import RUNNING
from fl_ddp.reading.homes import users_path
from fl_ddp.results.run_folder import MODEL, last_round
from fl_ddp.results.summary import read_summary

KEPT = "initial.safetensors"
"""What a run keeps of the weights of --init: whatever becomes of their file, it goes on as it began."""


def as_kept(config: Config, folder: Path) -> Config:
    """The same configuration with the weights that a run in a folder has kept."""
    kept = folder / KEPT
    return replace(config, init=str(kept)) if config.init and kept.is_file() else config


def begin_with(network: nn.Module, config: Config) -> None:
    """Give a model the weights of --init.

    Args:
        network: on the host; as it is where there are no such weights.
        config: of the run.

    Raises:
        ConfigError: there is no such file, or it has other tensors than the model, or numbers that are not finite.
    """
    if config.resume:
        config = as_kept(config, Path(config.resume))
    if not config.init:
        return
    path = users_path("--init", config.init)
    found, own = _read(path), network.state_dict()
    counts = config.running_statistics != "local" and any(name.endswith(RUNNING) for name in own)
    if counts and _keeps_none(path):
        what = f"{config.init} is of a run with --running_statistics local, whose model has none that count"
        raise ConfigError("--init", what, "--running_statistics local, or weights of one of its clients in a file")
    for name, tensor in own.items():
        if (given := found.get(name)) is None or given.shape != tensor.shape:
            there = "nothing" if given is None else str(list(given.shape))
            raise _other(config, f"has {there} for {name}, where the model has {list(tensor.shape)}")
        if given.is_complex() or (tensor.is_floating_point() and not given.is_floating_point()):
            raise _other(config, f"has {given.dtype} for {name}, where the model has {tensor.dtype}")
    if more := [name for name in found if name not in own]:
        raise _other(config, f"has {more[0]}, which the model has not")
    for name, tensor in found.items():
        if not (tensor.isfinite() & tensor.to(own[name].dtype).isfinite()).all():
            raise _other(config, f"has numbers in {name} that are not finite")
    network.load_state_dict(found)


def _read(path: Path) -> dict[str, Tensor]:
    file = path / MODEL if path.is_dir() else path
    accepted = "a .safetensors file, or the folder of a run that is over"
    if not file.is_file():
        lacks = f"has no {MODEL}, which a run leaves when it is over" if path.is_dir() else "is no file"
        raise ConfigError("--init", f"{path} {lacks}", accepted)
    rounds = read_summary(path).get("rounds")
    if isinstance(rounds, int) and rounds < last_round(path):
        raise ConfigError("--init", f"{path} has gone on since it left its {MODEL}", accepted)
    try:
        return load_file(file)
    except SafetensorError as error:
        what = f"{file} holds no safetensors ({first_line(error)})"
        raise ConfigError("--init", what, "what safetensors.torch.save_file(net.state_dict(), file) writes") from error


def _keeps_none(path: Path) -> bool:
    """Whether the weights are a run's whose clients keep BatchNorm's running statistics to themselves."""
    folder = path if path.is_dir() else path.parent
    if not (folder / "config.yaml").is_file() or folder / MODEL not in (path, path / MODEL):
        return False
    found = load_yaml(folder / "config.yaml")
    return isinstance(found, dict) and found.get("running_statistics") == "local"


def _other(config: Config, what: str) -> ConfigError:
    return ConfigError("--init", f"{config.init} {what}", f"weights of {config.model.name} as this run makes it")
