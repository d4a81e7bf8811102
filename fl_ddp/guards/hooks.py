"""The functions that a user may have written, a method's and a model's: what they may draw from and what they give."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from difflib import get_close_matches
from inspect import isfunction
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fl_ddp.errors import ConfigError, is_users, place_of, place_of_code, place_of_hook
from fl_ddp.guards.coefficients import coefficients_of
from fl_ddp.guards.global_random import refuse_global_draws
from fl_ddp.guards.reports import LOGGED, refuse_unreportable, with_weights
from fl_ddp.protocol import OF_OPTIMIZER, OF_STATISTICS, Indices, Tensors, Term, Upload, form_of, listed, weight_of

REPORTED = ("own_accuracy", "own_loss", "right", "tested", "trained")
"""Names of the engine's own sums and rows."""
_ALIKE = 0.85
"""How like two names are of which one is taken for the other, misspelt; 1 where they are the same."""


def is_reported(name: str) -> bool:
    """Whether a sum or row is the engine's own, which tells something and decides nothing."""
    return name in REPORTED or name.startswith(LOGGED)


class Hooks:
    """The hooks of one run's method and model.

    Attributes:
        keeps_models: whether clients have models of their own before they train: own_model is not the base's.
        spoilt: an error of a hook that has written into the server's state, which must not be saved then.
    """

    def __init__(self, method: object, model: str) -> None:
        """Of a method, and of a model of this name."""
        self._method, self._model = type(method), model
        self._reports: tuple[str, ...] = getattr(method, "reports", ())
        self._compared = set[str]()
        self.keeps_models = self._overrides("own_model")
        self._theta: Tensor | None = None
        self.spoilt: ConfigError | None = None

    def keyed(self, hook: str, key: str, again: Callable[[], object]) -> AbstractContextManager[None]:
        """Refuse a block in which the method draws from a global generator; see refuse_global_draws()."""
        return refuse_global_draws(self.name(hook), f"by uniform() or normal() of {key} (fl_ddp.api)", again)

    def keyed_model(self, again: Callable[[], object]) -> AbstractContextManager[None]:
        """Refuse a block in which the model, in evaluation mode, does."""
        return refuse_global_draws(f"forward of {self._model}", "nothing in evaluation mode", again)

    def first(self, method: Any) -> tuple[Tensors, Tensors]:
        """What the server and a client of a method begin with.

        Raises:
            ConfigError: as initial() and remembered() do, or it draws from a global generator.
        """
        with self.keyed("init", "info.key in server_update", method.init):
            server = self.initial(method.init(), method.broadcast, method.model.init())
        if not self._overrides("predict"):
            self._theta = server["theta"]
        with self.keyed("init_client", "group.keys in client_update", method.init_client):
            return server, self.remembered(method.init_client())

    def initial(self, given: Tensors, broadcast: tuple[str, ...], like: Tensor) -> Tensors:
        """The server's first state.

        Raises:
            ConfigError: it is none, lacks theta or what is to be broadcast, or its theta is not like a model's vector.
        """
        if not isinstance(broadcast, tuple):
            what = f"is {broadcast!r} in {self._method.__name__}"
            raise ConfigError("--method: broadcast", what, "a tuple of names of the server's tensors")
        if not isinstance(given, dict):
            raise self._refused(
                "init", f"gives {type(given).__name__}", "the server's tensors by name, theta among them"
            )
        if lacking := sorted({"theta", *broadcast} - given.keys()):
            what = f"gives a state of {listed(given)}, without {lacking[0]}"
            raise self._refused("init", what, "theta and whatever `broadcast` names")
        found = self._tensors("init", given)
        if form_of(theta := found["theta"]) != form_of(like):
            raise self._refused("init", f"gives theta as {form_of(theta)}", f"{form_of(like)}, as the model has it")
        return {name: t.detach() for name, t in found.items()}

    def remembered(self, given: Tensors) -> Tensors:
        """What a client remembers at first.

        Raises:
            ConfigError: it is none, or has a name of the engine's own.
        """
        if not isinstance(given, dict):
            raise self._refused("init_client", f"gives {type(given).__name__}", "tensors by name")
        for name in map(str, given):
            if name.startswith(OF_OPTIMIZER):
                what = f"gives {name}, as the engine calls what a client's optimizer remembers"
                raise self._refused("init_client", what, "another name")
            if name == OF_STATISTICS:
                what = f"gives {name}, as the engine calls a client's own of BatchNorm"
                raise self._refused("init_client", what, "another name")
        return self._tensors("init_client", given)

    def _tensors(self, hook: str, given: Tensors) -> Tensors:
        for name, t in given.items():
            if not isinstance(t, Tensor):
                raise self._refused(hook, f"gives {name} as {form_of(t)}", "a tensor")
        return given

    def state(self, hook: str, given: Tensors, initial: Tensors) -> Tensors:
        """A state of the server that a hook gives.

        Raises:
            ConfigError: it is none, or has not the names, shapes and types of the initial one.
        """
        if not isinstance(given, dict) or given.keys() != initial.keys():
            gives = f"a state of {listed(given)}" if isinstance(given, dict) else type(given).__name__
            raise self._refused(hook, f"gives {gives}", f"one of {listed(initial)}, as init gives")
        for name, t in initial.items():
            if form_of(given[name]) != form_of(t):
                raise self._refused(hook, f"gives {name} as {form_of(given[name])}", f"{form_of(t)}, as init gives")
        return given

    def keyed_state(self, hook: str, key: str, make: Callable[..., Tensors], server: Tensors, *more: object) -> Tensors:
        """The state that a hook makes of the server's, with draws by its keys alone; raises as keyed() and state() do.

        It gets a copy, which it may write into: a round that fails after it leaves the state as it was.
        """

        def made() -> Tensors:
            return make({name: t.clone() for name, t in server.items()}, *more)

        with self.keyed(hook, key, made):
            state = self.state(hook, made(), server)
        return {name: t.detach() for name, t in state.items()}

    @contextmanager
    def read_only(self, hook: str, received: Tensors, *, bits: bool = True) -> Iterator[None]:
        """Refuse a block in which a hook writes into tensors of the server's, which other clients receive, too.

        Torch counts what is written, but through .data or .numpy(): of a hook's first call their bits are compared,
        for which a GPU is waited for; not where the tensors are copies.

        Raises:
            ConfigError: it does.
        """
        before = {name: t._version for name, t in received.items()}
        copies = {name: t.clone() for name, t in received.items()} if bits and hook not in self._compared else {}
        try:
            yield
        finally:  # it may fail by itself, too
            self._compared.add(hook)
            written = [name for name, t in received.items() if t._version != before[name]]
            written += [name for name, t in copies.items() if not _bits(t).equal(_bits(received[name]))]
            if written:
                what = f"writes into {written[0]} of the server's state"
                self.spoilt = self._refused(hook, what, "to write into copies")
        if self.spoilt:
            raise self.spoilt

    def handed(self, hook: str, given: Tensors) -> Tensors:
        """Sums or rows that a hook's clients have handed over, of which no other can be asked for."""
        own = listed([name for name in given if not is_reported(name)])
        return _Handed(given, lambda name: self._refused(hook, f"gives {own}, and {name} is asked for"))

    def upload(self, given: Upload, remembered: Tensors, lanes: int) -> Upload:
        """What client_update gives of so many lanes.

        Raises:
            ConfigError: it is no upload, keeps other names, shapes or types than init_client gives, has a sum of the
                engine's name, something in it that is not of each lane, or not what the method reports.
        """
        if not isinstance(given, Upload):
            raise self._refused("client_update", f"gives {type(given).__name__}", "an Upload")
        self.sums("client_update", given.sums, lanes)
        self.sums("client_update", dict(given.sent or {}), lanes)
        for name, t in {"theta": given.theta, **given.rows}.items():
            self._of_lanes("client_update", name, t, lanes)
        if given.memory.keys() != set(remembered):
            accepted = f"{listed(remembered)}, as init_client gives"
            raise self._refused("client_update", f"keeps a memory of {listed(given.memory)}", accepted)
        for name, t in remembered.items():
            one = t.expand(lanes, *t.shape)
            if form_of(given.memory[name]) != form_of(one):
                what = f"keeps {name} as {form_of(given.memory[name])}"
                raise self._refused("client_update", what, f"{form_of(one)}, one of init_client's for each lane")
        if taken := sorted((given.sums.keys() | given.rows.keys()) & {*REPORTED, *map(weight_of, self._reports)}):
            what = f"gives a sum or row named {taken[0]}, which is the engine's own; give it another name"
            raise self._refused("client_update", what)
        sent = None if given.sent is None else {name: _bare(t) for name, t in given.sent.items()}
        sums = {name: _bare(t) for name, t in given.sums.items()}
        memory, rows = ({name: t.detach() for name, t in of.items()} for of in (given.memory, given.rows))
        bare = Upload(sums, given.theta.detach(), memory, sent, rows)
        return with_weights(self._method, self._reports, bare, lanes)

    def sums(self, hook: str, given: dict[str, Tensor | Term], lanes: int) -> dict[str, Tensor | Term]:
        """What a hook gives of so many lanes to be summed.

        Raises:
            ConfigError: it is none, or a value, what is to be subtracted or a weight is not of each lane.
        """
        if not isinstance(given, Mapping):
            raise self._refused(hook, f"gives sums as {form_of(given)}", "tensors or Terms by name")
        for name, summand in given.items():
            term = summand if isinstance(summand, Term) else Term(summand)
            self._of_lanes(hook, name, term.value, lanes)
            whole, one = term.value.shape, term.value.shape[1:]
            self._of_shapes(hook, f"minus of {name}", term.minus, whole, one, one[1:], ())
            self._of_shapes(
                hook, f"weight of {name}", term.weight, whole, whole[:1], (lanes, 1), (lanes, *[1] * len(one))
            )
        return given

    def bytes(self, hook: str, given: object) -> int:
        """A number of bytes that a hook gives.

        Raises:
            ConfigError: it is no whole number from 0 up.
        """
        if not isinstance(given, int | np.integer) or given < 0:
            raise self._refused(hook, f"gives {given!r}", "a whole number of bytes, 0 or more")
        return int(given)

    def alike(self, hook: str, given: Upload, before: str) -> str:
        """Names and shapes of what a group hands over, in their order, in which all groups' are summed.

        Raises:
            ConfigError: those of a group before were others.
        """
        each = [*given.sums.items(), *given.rows.items()]  # a row may have a sum's name
        values = ((name, t.value if isinstance(t, Term) else t) for name, t in each)
        form = ", ".join(f"{name} {[*value.shape[1:]]}" for name, value in values)
        if before not in ("", form):
            raise self.unlike(hook, form)
        return form

    def unlike(self, hook: str, form: str) -> ConfigError:
        """What to say where a group hands over other sums and rows than another does."""
        what = f"gives {form} for some clients, and something else for others"
        return self._refused(hook, what, "the same names and shapes, in one order, for all")

    def sent(self, given: object, broadcast: Collection[str]) -> tuple[str, ...]:
        """Names of what travels to clients.

        Raises:
            ConfigError: they are not among those that are broadcast.
        """
        if not isinstance(given, tuple) or not set(given) <= set(broadcast):
            what = f"gives {listed(given) if isinstance(given, tuple) else form_of(given)}"
            raise self._refused("sent", what, f"a tuple of names among {listed(broadcast)}")
        return given

    def predicted(self, given: Tensor, shape: tuple[int, int]) -> Tensor:
        """What predict gives of one client's model.

        Raises:
            ConfigError: it is no tensor of this shape, [B, C].
        """
        if not isinstance(given, Tensor) or given.shape != shape or not given.is_floating_point():
            raise self._refused("predict", f"gives {form_of(given)} for {shape[0]} samples", f"logits {list(shape)}")
        return given

    def own_models(self, own: Callable[..., object], server: Tensors, memory: Tensors, clients: Indices) -> Tensor:
        """Models [G, V] as own_model has them, or received; a padded lane's is client 0's, with what all begin with.

        Raises:
            ConfigError: it is no vector, or another for another client, or own_model writes into the server's state.
        """
        of_lanes = [{name: t[lane] for name, t in memory.items()} for lane in range(len(clients))]
        with self.read_only("own_model", server, bits=False):
            told = [own(server, mine, max(int(i), 0)) for i, mine in zip(clients, of_lanes, strict=True)]
        given = [server["theta"] if model is None else model for model in told]
        for each in given:
            if not isinstance(each, Tensor) or each.ndim != 1 or form_of(each) != form_of(given[0]):
                accepted = "a vector as client_update has it in Upload.theta, of every client"
                raise self._refused("own_model", f"gives {form_of(each)}", accepted)
            self._of_model("own_model", "a model", each)
        return torch.stack([each for each in given if isinstance(each, Tensor)])

    def tested(self, theta: Tensor) -> Tensor:
        """Clients' own models [G, V] as client_update gives them, which are to be tested.

        Raises:
            ConfigError: the network cannot take them, and predict() is no other.
        """
        self._of_model("client_update", "theta", theta[0])
        return theta

    def _overrides(self, hook: str) -> bool:
        """Whether the method has a hook of its own, in the place of its base's."""
        return sum(hook in vars(each) for each in self._method.__mro__) > 1

    def _of_model(self, hook: str, name: str, given: Tensor) -> None:
        """Refuse a model that the network's own function cannot take, where predict() is no other."""
        if self._theta is not None and form_of(given) != form_of(self._theta):
            accepted = f"{form_of(self._theta)}, as the network has it, or a predict() that takes it"
            raise self._refused(hook, f"gives {name} as {form_of(given)}", accepted)

    def _of_lanes(self, hook: str, name: str, given: object, lanes: int) -> None:
        """Refuse what is no tensor [lanes, ...]."""
        if not (isinstance(given, Tensor) and given.ndim and len(given) == lanes):
            accepted = f"a tensor [{lanes}, ...], of each of {lanes} lanes"
            raise self._refused(hook, f"gives {name} as {form_of(given)}", accepted)

    def _of_shapes(self, hook: str, name: str, given: Tensor | None, *shapes: tuple[int, ...]) -> None:
        """Refuse what is no tensor of one of these shapes, if it is given."""
        if given is not None and not (isinstance(given, Tensor) and given.shape in shapes):
            accepted = " or ".join(str([*shape]) for shape in dict.fromkeys(map(tuple, shapes)))
            raise self._refused(hook, f"gives {name} as {form_of(given)}", accepted)

    def _refused(self, hook: str, what: str, accepted: str = "") -> ConfigError:
        return ConfigError(place_of_hook(self._method, hook), what, accepted)

    def name(self, hook: str) -> str:
        """What messages call one."""
        return f"{hook} of {self._method.__name__}"


class _Handed(dict[str, Tensor]):
    """Tensors by name; who asks for another one is told so."""

    def __init__(self, given: Tensors, refuse: Callable[[str], ConfigError]) -> None:
        super().__init__(given)
        self._refuse = refuse

    def __missing__(self, name: str) -> Tensor:
        asking = sys._getframe(1)
        if is_users(asking.f_code.co_filename):
            place = place_of(asking.f_code.co_filename, asking.f_lineno)
            raise ConfigError(f"{place}: {name!r}", "is nothing that clients hand over", listed(self))
        raise self._refuse(name)


def misspelt(owner: type, base: type) -> Iterator[str]:
    """What to say of functions of a user's class whose names are nearly those of its base's, which nobody calls."""
    known = [name for name in dir(base) if not name.startswith("_")]
    for name, each in vars(owner).items():
        if not isfunction(each) or name.startswith("_") or name in known:
            continue
        if near := get_close_matches(name, known, 1, _ALIKE):
            yield f"warning: {place_of_code(each.__code__)}: {name} is nothing that is called; did you mean {near[0]}?"


def refuse_unusable(method: object, base: type) -> None:
    """Refuse what a method, which has the hooks of a base, says of itself and cannot be.

    Raises:
        ConfigError: its share of samples for the server is none, their batches are empty, the server is to train
            and the method does not say how, what it reports has no names for columns, or a coefficient is no number.
    """
    owner = type(method)
    proxy, batch, trains = (getattr(method, name) for name in ("proxy", "proxy_batch", "trains_on_server"))
    if isinstance(proxy, bool) or not isinstance(proxy, Real) or not 0 <= float(proxy) <= 1:
        raise ConfigError("--method: proxy", f"is {proxy} in {owner.__name__}", "0 <= proxy <= 1, a property")
    if proxy and (isinstance(batch, bool) or not isinstance(batch, Integral) or batch < 1):
        what = f"is {batch} in {owner.__name__}"
        raise ConfigError("--method: proxy_batch", what, "whole numbers from 1 up, a property")
    hook = "server_train"
    if trains and getattr(owner, hook) is getattr(base, hook):
        what = f"is {trains} in {owner.__name__}"
        raise ConfigError("--method: trains_on_server", what, f"false, or a {hook} beside it")
    refuse_unreportable(owner, getattr(method, "reports", ()), REPORTED)
    coefficients_of(method)


def uncalled(method: object, base: type, num_tasks: int) -> Iterator[str]:
    """What to say of a method's functions that nobody calls: misspelt, or without what they belong to."""
    owner = type(method)
    yield from misspelt(owner, base)
    for name, switch in (("server_train", "trains_on_server"), ("measure", "proxy"), ("measured", "proxy")):
        each = getattr(owner, name)
        alike = getattr(owner, switch) is getattr(base, switch) and not getattr(method, switch)
        if alike and each is not getattr(base, name):
            where = place_of_code(each.__code__)
            yield f"warning: {where}: {name} is never called: {owner.__name__} has no {switch} of its own"
    ending = "end_of_task"
    if num_tasks == 1 and getattr(owner, ending) is not getattr(base, ending):
        yield f"warning: {owner.__name__} does something when a task ends, and the run has one task, without an end"


def _bare(summand: Tensor | Term) -> Tensor | Term:
    """The same without what it was made of."""
    if isinstance(summand, Tensor):
        return summand.detach()
    return Term(*(None if t is None else t.detach() for t in (summand.value, summand.minus, summand.weight)))  # type: ignore[arg-type]


def _bits(t: Tensor) -> Tensor:
    return t.detach().contiguous().reshape(-1).view(torch.uint8)
