"""Options that do nothing beside another one; a run says so, where a refusal would keep earlier runs from going on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from fl_ddp.config import registry
from fl_ddp.config.settings import Choice, Config


class _Idle(NamedTuple):
    """Options of classes of a kind, of these names or of all, which another one makes idle, or the class itself."""

    kind: str
    names: tuple[str, ...]
    options: tuple[str, ...]
    beside: str
    idles: Callable[[object], bool]


_DRAWN = ("test_share", "test_seed")
_IDLE = (
    _Idle("data", ("Csv",), _DRAWN, "test_path", bool),
    _Idle("data", ("HuggingFace",), _DRAWN, "test", bool),
    _Idle("model", ("CharLSTM",), ("dropout",), "layers", lambda layers: layers == 1),
    _Idle("model", ("ResNet18", "ResNet50"), ("groups",), "norm", lambda norm: norm == "batch"),
    _Idle("stream", (), ("join", "leave"), "enrolment", lambda enrolment: enrolment != "random"),
    _Idle("stream", ("Static",), ("task_rounds",), "tasks", lambda tasks: tasks == 1),
    _Idle("stream", ("Static",), ("keep", "budget"), "", lambda _: True),
)


def idle_options(config: Config) -> Iterator[str]:
    """What to say of options that were given and do nothing."""
    if config.local_test_from == "test" and not config.local_test:
        yield "warning: --local_test_from test does nothing beside --local_test 0, with which clients have no own tests"
    if config.client_sampling == "samples" and config.cohort_size == config.clients:
        yield f"warning: --client_sampling samples does nothing: the cohort is all {config.clients} clients"
    if config.augment and config.method.class_path == "fl_ddp.methods.filver.FilVer":
        yield "warning: --augment does nothing to FilVer's clients, but is its pre-training's alone"
    if config.init == "":
        yield "warning: --init is empty: the run begins with the weights of its seed"
    if config.stragglers and not config.stragglers_of(config.cohort_size):
        yield f"warning: --stragglers {config.stragglers} are none of a cohort of {config.cohort_size}"
    if config.lr_schedule_over == "rounds" and config.rounds:
        if config.lr_step and config.lr_step >= config.rounds:
            yield f"warning: --lr_step {config.lr_step}: the learning rate does not fall in {config.rounds} rounds"
        if config.lr_warmup and config.lr_warmup > config.rounds:
            yield f"warning: --lr_warmup {config.lr_warmup}: --lr is not reached in {config.rounds} rounds"
    for idle in _IDLE:
        choice = getattr(config, idle.kind)
        assert isinstance(choice, Choice)
        owner = registry.known(idle.kind).get(choice.name) if choice.class_path.startswith("fl_ddp.") else None
        if owner is None or (idle.names and choice.name not in idle.names):
            continue
        if not idle.idles(choice.init_args.get(idle.beside)):
            continue
        defaults = registry.options(idle.kind, owner).by_name
        for name in (name for name in idle.options if choice.init_args.get(name) != defaults[name].default):
            what, other = (f"--{idle.kind}.{key} {choice.init_args.get(key)}" for key in (name, idle.beside))
            yield f"warning: {what} does nothing beside {other if idle.beside else f'--{idle.kind} {choice.name}'}"
