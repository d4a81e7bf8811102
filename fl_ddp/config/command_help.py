"""What --help and --method.help FedProx print."""

from __future__ import annotations

import inspect
import textwrap

import docstring_parser

from fl_ddp.bounds import bounds_in_words, declared
from fl_ddp.config import registry
from fl_ddp.config.layers import default_choice, scalar_options
from fl_ddp.config.options import Option, accepted_values
from fl_ddp.config.registry import KINDS
from fl_ddp.config.settings import Config
from fl_ddp.config.yaml_file import written

GROUPS = {
    "choices (a class name in any case, or an import path such as my_file.MyClass)": KINDS,
    "clients": (
        "clients", "participation", "cohort", "client_sampling", "dropout_rate", "availability", "local_test",
        "local_test_from", "personalise", "class_reduction",
    ),
    "training": (
        "rounds", "local_epochs", "local_steps", "stragglers", "drop_stragglers", "batch_size", "drop_last",
        "lr", "lr_schedule", "lr_schedule_over", "lr_decay", "lr_step", "lr_min", "lr_warmup",
        "client_lr", "client_work", "momentum", "weight_decay", "clip_norm", "loss", "label_smoothing", "augment",
        "seed", "init", "running_statistics", "estimate_statistics",
    ),
    "speed and numbers": ("lanes", "compile", "precision", "convolution", "device", "rank_timeout", "reduction"),
    "results": (
        "eval_every", "forgetting_every", "targets", "stop_at", "patience", "checkpoint_every", "keep_checkpoints",
        "measures", "figures", "log_clients", "name", "out", "resume",
    ),
}  # fmt: skip

_OTHERS = {
    "--config FILE": "YAML file of options; those of the command line hold over it",
    "--print_config": "print all options as YAML and stop",
    "--method.help": "list all methods; --method.help FedProx shows the options of one; so for the other choices",
    "--version": "print the version and stop",
    "--help": "print this and stop",
}


def overview() -> str:
    """Text of --help."""
    lines = ["usage: python -m fl_ddp.main [--config FILE] [--option value ...]"]
    documented = docstring_parser.parse(inspect.getdoc(Config) or "").params
    about = {each.arg_name: " ".join((each.description or "").split()) for each in documented}
    scalars, hints = scalar_options().by_name, declared(Config)
    for title, keys in GROUPS.items():
        lines += ["", title + ":"]
        for key in keys:
            default = default_choice(key).name if key in KINDS else written(scalars[key].default)
            text = _with_bounds(about[key].removesuffix("."), bounds_in_words(key, hints[key]))
            lines.append(_line(f"--{key}", f"{text} [{default}]"))
            if key in KINDS:
                lines.append(_line("", ", ".join(registry.known(key))))
    lines += ["", "others:", *(_line(option, text) for option, text in _OTHERS.items())]
    return "\n".join(lines)


def about_kind(kind: str) -> str:
    """Text of --method.help without a name: all names, each with its one line."""
    lines = [_line(name, _purpose(owner)) for name, owner in registry.known(kind).items()]
    return "\n".join([f"--{kind}, one of:", *lines])


def about_class(kind: str, name: str) -> str:
    """Text of --method.help FedProx.

    Raises:
        ConfigError: there is no such class.
    """
    where = f"--{kind}.help"
    owner = registry.load(kind, registry.class_path(kind, name, where), where)
    hints = declared(owner)
    lines = [
        _line(f"--{kind}.{name}", _described(option, bounds_in_words(name, hints.get(name))))
        for name, option in registry.options(kind, owner).by_name.items()
    ]
    title = ": ".join(filter(None, (owner.__name__, _purpose(owner))))
    return "\n".join([title, *(lines or ["  no options"])])


def _described(option: Option, bounds: str) -> str:
    about = (option.help or accepted_values(option.type)).removesuffix(".")
    return f"{_with_bounds(about, bounds)} [{'required' if option.required else written(option.default)}]"


def _with_bounds(about: str, bounds: str) -> str:
    return f"{about} ({bounds})" if bounds else about


def _purpose(owner: registry.Maker) -> str:
    """The first line of the class's own docstring; neither its parent's nor the signature that dataclass puts there."""
    own = (vars(owner).get("__doc__") if isinstance(owner, type) else owner.__doc__) or ""
    return "" if own.startswith(f"{owner.__name__}(") else inspect.cleandoc(own).partition("\n")[0]


def _line(option: str, text: str) -> str:
    return textwrap.fill(
        f"{option:<21} {text}", 118, initial_indent="  ", subsequent_indent=" " * 24, break_on_hyphens=False
    )
