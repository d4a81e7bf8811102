"""The functions that a user may have written, a method's and a model's: what they may draw from and what they give."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager

from fl_ddp.errors import ConfigError, place_of_code
from fl_ddp.guards.global_random import refuse_global_draws
from fl_ddp.protocol import Tensors, Upload

REPORTED = ("own_accuracy", "own_loss", "right", "tested", "trained")
"""Names of the engine's own sums and rows."""


class Hooks:
    """The hooks of one run's method and model."""

    def __init__(self, method: object, model: str) -> None:
        """Of a method, and of a model of this name."""
        self._method, self._model = type(method), model

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
        return given

    def state(self, hook: str, given: Tensors, initial: Mapping[str, object]) -> Tensors:
        """A state of the server that a hook gives.

        Raises:
            ConfigError: it is none, or has not the names of the initial one.
        """
        if not isinstance(given, dict) or given.keys() != initial.keys():
            gives = f"a state of {_listed(given)}" if isinstance(given, dict) else type(given).__name__
            raise self._refused(hook, f"gives {gives}", f"one of {_listed(initial)}, as init gives")
        return given

    def keyed_state(self, hook: str, key: str, make: Callable[..., Tensors], server: Tensors, *more: object) -> Tensors:
        """The state that a hook makes of the server's, with draws by its keys alone; raises as keyed() and state() do.

        It gets a copy, which it may write into: a round that fails after it leaves the state as it was.
        """

        def made() -> Tensors:
            return make({name: t.clone() for name, t in server.items()}, *more)

        with self.keyed(hook, key, made):
            return self.state(hook, made(), server)

    def upload(self, given: Upload, remembered: Collection[str]) -> Upload:
        """What client_update gives.

        Raises:
            ConfigError: it is no upload, keeps other names than init_client gives, or has a sum of the engine's name.
        """
        if not isinstance(given, Upload):
            raise self._refused("client_update", f"gives {type(given).__name__}", "an Upload")
        if given.memory.keys() != set(remembered):
            accepted = f"{_listed(remembered)}, as init_client gives"
            raise self._refused("client_update", f"keeps a memory of {_listed(given.memory)}", accepted)
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


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"
