"""The functions that a user may have written, a method's and a model's: what they may draw from and what they give."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from difflib import get_close_matches
from inspect import isfunction

from torch import Tensor

from fl_ddp.errors import ConfigError, place_of_code
from fl_ddp.guards.global_random import refuse_global_draws
from fl_ddp.protocol import Tensors, Upload, form_of

REPORTED = ("own_accuracy", "own_loss", "right", "tested", "trained")
"""Names of the engine's own sums and rows."""
_ALIKE = 0.85
"""How like two names are of which one is taken for the other, misspelt; 1 where they are the same."""


class Hooks:
    """The hooks of one run's method and model.

    Attributes:
        spoilt: an error of a hook that has written into the server's state, which must not be saved then.
    """

    def __init__(self, method: object, model: str) -> None:
        """Of a method, and of a model of this name."""
        self._method, self._model = type(method), model
        self.spoilt: ConfigError | None = None

    def keyed(self, hook: str, key: str, again: Callable[[], object]) -> AbstractContextManager[None]:
        """Refuse a block in which the method draws from a global generator; see refuse_global_draws()."""
        return refuse_global_draws(self.name(hook), f"by uniform() or normal() of {key} (fl_ddp.api)", again)

    def keyed_model(self, again: Callable[[], object]) -> AbstractContextManager[None]:
        """Refuse a block in which the model, in evaluation mode, does."""
        return refuse_global_draws(f"forward of {self._model}", "nothing in evaluation mode", again)

    def initial(self, given: Tensors, broadcast: Collection[str]) -> Tensors:
        """The server's first state.

        Raises:
            ConfigError: it is none, or lacks theta or what is to be broadcast.
        """
        if not isinstance(given, dict):
            raise self._refused(
                "init", f"gives {type(given).__name__}", "the server's tensors by name, theta among them"
            )
        if lacking := sorted({"theta", *broadcast} - given.keys()):
            what = f"gives a state of {_listed(given)}, without {lacking[0]}"
            raise self._refused("init", what, "theta and whatever `broadcast` names")
        return self._tensors("init", given)

    def remembered(self, given: Tensors) -> Tensors:
        """What a client remembers at first.

        Raises:
            ConfigError: it is none.
        """
        if not isinstance(given, dict):
            raise self._refused("init_client", f"gives {type(given).__name__}", "tensors by name")
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
            gives = f"a state of {_listed(given)}" if isinstance(given, dict) else type(given).__name__
            raise self._refused(hook, f"gives {gives}", f"one of {_listed(initial)}, as init gives")
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
    def read_only(self, hook: str, received: Tensors) -> Iterator[None]:
        """Refuse a block in which a hook writes into tensors of the server's, which other clients receive, too.

        Raises:
            ConfigError: it does.
        """
        before = {name: t._version for name, t in received.items()}
        try:
            yield
        finally:  # it may fail by itself, too
            if written := [name for name, t in received.items() if t._version != before[name]]:
                what = f"writes into {written[0]} of the server's state"
                self.spoilt = self._refused(hook, what, "to write into copies")
        if self.spoilt:
            raise self.spoilt

    def upload(self, given: Upload, remembered: Tensors, lanes: int) -> Upload:
        """What client_update gives of so many lanes.

        Raises:
            ConfigError: it is no upload, keeps other names, shapes or types than init_client gives, or has a sum of the
                engine's name.
        """
        if not isinstance(given, Upload):
            raise self._refused("client_update", f"gives {type(given).__name__}", "an Upload")
        if given.memory.keys() != set(remembered):
            accepted = f"{_listed(remembered)}, as init_client gives"
            raise self._refused("client_update", f"keeps a memory of {_listed(given.memory)}", accepted)
        for name, t in remembered.items():
            one = t.expand(lanes, *t.shape)
            if form_of(given.memory[name]) != form_of(one):
                what = f"keeps {name} as {form_of(given.memory[name])}"
                raise self._refused("client_update", what, f"{form_of(one)}, one of init_client's for each lane")
        if taken := sorted((given.sums.keys() | given.rows.keys()) & set(REPORTED)):
            what = f"gives a sum or row named {taken[0]}, which is the engine's own; give it another name"
            raise self._refused("client_update", what)
        return given

    def _refused(self, hook: str, what: str, accepted: str = "") -> ConfigError:
        code = getattr(self._method, hook).__code__
        return ConfigError(f"{place_of_code(code)}: {self.name(hook)}", what, accepted)

    def name(self, hook: str) -> str:
        """What messages call one."""
        return f"{hook} of {self._method.__name__}"


def misspelt(owner: type, base: type) -> Iterator[str]:
    """What to say of functions of a user's class whose names are nearly those of its base's, which nobody calls."""
    known = [name for name in dir(base) if not name.startswith("_")]
    for name, each in vars(owner).items():
        if not isfunction(each) or name.startswith("_") or name in known:
            continue
        if near := get_close_matches(name, known, 1, _ALIKE):
            yield f"warning: {place_of_code(each.__code__)}: {name} is nothing that is called; did you mean {near[0]}?"


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"
