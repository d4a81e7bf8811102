"""fl_ddp: a federated-learning simulator for the study of forgetting."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from os import PathLike
from typing import TYPE_CHECKING

from fl_ddp.notebook.result import Result
from fl_ddp.reading.homes import users_path
from fl_ddp.version import __version__

if TYPE_CHECKING:
    from torch.nn import Module

# MKL, which reads this at its first product, otherwise multiplies by where in memory the factors lie: a client's bits
# would depend on its place in a group
os.environ.setdefault("MKL_CBWR", "AUTO")

__all__ = ["__version__", "load", "simulate"]


def simulate(config: object = None, *, callbacks: Sequence[Callable[..., object]] = (), **options: object) -> Result:
    """Run a simulation from a notebook or script, as the command line would.

    Ctrl-C stops it after the current local step and saves the last finished round; simulate({"resume": folder}) goes on
    with it. A second Ctrl-C raises KeyboardInterrupt at once; then the last checkpoint is what there is.

    Args:
        config: a Config, a mapping shaped like the YAML (short names, nested or dotted) or the path of a YAML file;
            nothing runs the default.
        callbacks: each is called with the Record (fl_ddp.api) of every round when it is over, on rank 0, and, if it has
            a parameter `weights`, with those of the model after it, for load_state_dict; the run ends after a round for
            which one returns True. simulate({"resume": folder}, callbacks=...) goes on with it, and with those given.
        options: over config: rounds=20, say. data may also be a Dataset, or arrays, (x, y, x_test, y_test), in pairs
            ((x, y), (x_test, y_test)) or by the names of a .npz file, or torch's data sets, (train, test), all of which
            are kept as arrays in the folder of runs; model a class, or a module, with a copy of which the run begins;
            init a state_dict, partition the sample indices of each client, in a row or by number, client_lr and
            client_work a factor of each, availability and class_reduction rows, all of which are kept likewise;
            method, partition, stream and optimizer a class or an object, measures functions of fl_ddp.api.GlobalModel.

    Returns:
        what summary.json holds, `folder` among it; its `history` has the rows of metrics.csv, its `weights` what
            model.safetensors has, its `model` the module with them; fl_ddp.load() gives it again.

    Raises:
        ConfigError: the configuration cannot be run.
        RunError: the run failed.
        InterruptedRunError: Ctrl-C or SIGTERM (fl_ddp.errors); the text names the folder and the finished rounds.
    """
    from fl_ddp.run import simulate as start

    return start(config, callbacks, options)


def load(folder: str | PathLike[str], *, model: Module | None = None, **options: object) -> Result:
    """What a run has left in its folder, of whatever made it: its numbers, its models, its clients' own.

    Args:
        folder: of a run, which may still go on.
        model: a module of the kind that it was given, if it was given one as an object: no file has that; or of the
            kind that its own class made, where that is no longer there.
        options: where the data lie now, if no longer where they were: data={"root": "data"}, or {"path": ...}; likewise
            method=Mine or "mine.py:Mine", the class of a method that a script or notebook had.

    Raises:
        ConfigError: it is not the folder of a run.
    """
    return Result.of(users_path("folder", folder), model, options)
