"""A torch module as pure functions of one flat vector theta [P]: its parameters, then BatchNorm's running statistics.

Running statistics are coordinates of theta so that a model is one vector wherever it goes: to clients, into a client's
memory, into evaluation. No method has to know them: a local step gives them their next values, and after a server's
update the engine sets them to the clients' mean.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value

from fl_ddp.convolutions.max_pools import quick_pools
from fl_ddp.errors import ConfigError, one_line
from fl_ddp.guards.parameters import require_plain_parameters
from fl_ddp.losses.criterion import Criterion, mean_over
from fl_ddp.losses.cross_entropy import CrossEntropy, among, as_float32
from fl_ddp.network.attention import make_attention_batched
from fl_ddp.network.batch_norm import RUNNING, MaskedBatchNorm, make_norms_masked
from fl_ddp.network.dropout import make_dropout_keyed
from fl_ddp.network.layers import SeenLinear, show_last_input
from fl_ddp.network.recurrent import make_recurrence_batched
from fl_ddp.protocol import Batch, Leaves

_CLASSIFICATION = CrossEntropy()

Part = tuple[int, ...]
"""Some of a model's parameters by their numbers, ascending; as a vector one after another."""


class _Modules(NamedTuple):
    """A module in training and in evaluation mode, and their last linear layers by mode, where those are wrapped."""

    train: nn.Module
    eval: nn.Module
    last: dict[bool, SeenLinear]


class _ModulesOfThread(threading.local):
    """Copies of the modules for each thread: functional_call swaps parameters in and out, so threads share none."""

    def __init__(self, modules: _Modules) -> None:
        self.modules = copy.deepcopy(modules)


class FlatModel:
    """A module as functions of theta [P] or of its leaves; made once per run.

    Attributes:
        names: the module's own names of its parameters, then of its running statistics, in the order of theta.
        shapes: shape of each.
        num_params: P, running statistics included.
        running: numbers of the running statistics among them, the last ones.
        num_classes: C.
        num_tokens: that its inputs are of, numbers from 0 up; 0 where inputs are no tokens.
        device: where parameters and data live.
        dtype: of the parameters.
        has_features: whether a representation is known.
        convolves: whether there are convolutions in it.
        criterion: what it is trained for.

    Raises:
        ConfigError: the module has layers without sizes, running statistics of an unknown kind, no parameters, or its
            output is not one row of logits per sample.
    """

    def __init__(
        self, module: nn.Module, num_classes: int, example: Tensor, criterion: Criterion = _CLASSIFICATION
    ) -> None:
        """Take over a module.

        Args:
            module: returns logits [B, C], or (features [B, D], logits).
            num_classes: C.
            example: [1, ...] one input, on the device and in the dtype to work in; of tokens, with the highest of them.
            criterion: what it is trained for.
        """
        self.criterion = criterion
        require_plain_parameters(module)
        named: dict[str, Tensor] = {name: p for name, p in module.named_parameters() if p.requires_grad}
        if not named:
            raise ConfigError("--model", f"{type(module).__name__} has no parameters to train")
        trained, own = len(named), module.state_dict(keep_vars=True)
        make_recurrence_batched(module)
        make_attention_batched(module)
        self._norms = make_norms_masked(module)
        named |= {f"{norm}.{name}": module.get_buffer(f"{norm}.{name}") for norm in self._norms for name in RUNNING}
        self.running: Part = tuple(range(trained, len(named)))
        self.names, self.shapes = tuple(named), tuple(parameter.shape for parameter in named.values())
        self._sizes = [parameter.numel() for parameter in named.values()]
        self.num_params, self.num_classes = sum(self._sizes), num_classes
        self.num_tokens = 0 if example.is_floating_point() else int(example.max()) + 1
        self.dtype = next(iter(named.values())).dtype if self.num_tokens else example.dtype
        self.device, self._example = example.device, example
        name_of = {id(parameter): name for name, parameter in named.items()}
        self._saved_as = {name: name_of[id(t)] for name, t in own.items() if id(t) in name_of}
        self._constants = {name: t.detach().clone() for name, t in own.items() if name not in self._saved_as}
        self._initial = torch.cat([p.detach().reshape(-1) for p in named.values()]).to(self.device, self.dtype)
        self.convolves = any(isinstance(each, nn.modules.conv._ConvNd) for each in module.modules())
        module = module.to(self.device, self.dtype).requires_grad_(False)
        self._eval = copy.deepcopy(module).eval()
        self._train = module.train()
        self._dropouts = make_dropout_keyed(self._train)
        self._renamed = dict(zip(self.names, self.names, strict=True))
        self.has_features, logits = self._tried(example)
        last: dict[bool, SeenLinear] = {}
        if not self.has_features and (shown := show_last_input(self._train, self._eval, example, logits)):
            name, last = shown
            renamed = {n: n.replace(f"{name}.", f"{name}.linear.") for n in self.names if n.startswith(f"{name}.")}
            self._renamed |= renamed
            self.has_features = True
        self._modules = _Modules(self._train, self._eval, last)
        self._modules_of_thread = _ModulesOfThread(self._modules)

    def init(self) -> Tensor:
        """The module's initial parameters [P]."""
        return self._initial.clone()

    def in_float64(self, example: Tensor) -> FlatModel:
        """The same functions in float64, for an input [1, ...]."""
        module = copy.deepcopy(self._eval).double()
        for name in list(self._renamed.values())[: len(self.names) - len(self.running)]:
            module.get_parameter(name).requires_grad_()
        return FlatModel(module, self.num_classes, example if self.num_tokens else example.double(), self.criterion)

    def leaves(self, vector: Tensor | Leaves, part: Part | None = None) -> Leaves:
        """Split [..., P], or a part's [..., size], into one tensor per parameter, [..., *shape]; views.

        Leaves stay as they are: a part may be as long as theta, which then comes in leaves, too.
        """
        if isinstance(vector, tuple):
            return vector
        numbers = range(len(self._sizes)) if part is None else part
        values = torch.split(vector, [self._sizes[i] for i in numbers], -1)
        return tuple(v.view((*vector.shape[:-1], *self.shapes[i])) for i, v in zip(numbers, values, strict=True))

    def take(self, theta: Tensor, part: Part) -> Tensor:
        """The coordinates [..., size] of a part of [..., P]."""
        values = torch.split(theta, self._sizes, -1)
        return torch.cat([values[i] for i in part], -1)

    def put(self, theta: Tensor, part: Part, values: Tensor) -> Tensor:
        """Vectors [..., P] with other values [..., size] in a part."""
        kept = torch.split(theta.expand(*values.shape[:-1], -1), self._sizes, -1)
        put = dict(zip(part, torch.split(values, [self._sizes[i] for i in part], -1), strict=True))
        return torch.cat([put.get(i, own) for i, own in enumerate(kept)], -1)

    def last(self, num_tensors: int) -> Part:
        """The last so many parameters, at most all; running statistics aside."""
        return tuple(range(len(self._sizes) - len(self.running)))[-num_tensors:]

    @cached_property
    def head(self) -> Part:
        """Parameters that logits depend on and features do not: the classifier on top of the features."""
        leaves = tuple(leaf.detach().requires_grad_() for leaf in self.leaves(self.init()))
        features = self.features(leaves, self._example)
        used = torch.autograd.grad(features.sum(), leaves, allow_unused=True) if features.requires_grad else ()
        return tuple(i for i in range(len(leaves)) if i not in self.running and (not used or used[i] is None))

    def part(self, name: str) -> Part:
        """The parameters of a submodule.

        Raises:
            ConfigError: there is no such submodule, or it has none.
        """
        found = tuple(i for i, each in enumerate(self.names) if each.startswith(f"{name}."))
        if not found:
            what = f"{type(self._eval).__name__} has no submodule {name!r} with parameters, which the method looks at"
            raise ConfigError("--model", what, "a module with one, such as FilVerNet")
        return found

    def call(self, name: str, theta: Tensor | Leaves, x: Tensor) -> tuple[Tensor, Tensor]:
        """The two outputs of a submodule in evaluation mode for its input; theta is [P], or leaves, maybe its own."""
        own, leaves = self.part(name), self.leaves(theta)
        mine = leaves if len(leaves) == len(own) else tuple(leaves[i] for i in own)
        tensors = {self._renamed[self.names[i]].removeprefix(f"{name}."): t for i, t in zip(own, mine, strict=True)}
        first, second = functional_call(self._current.eval.get_submodule(name), tensors, (x,))
        return as_float32(first), as_float32(second)

    @property
    def body(self) -> Part:
        """All but the head, running statistics among them."""
        return self.others(self.head)

    @property
    def norms(self) -> Part:
        """Weights, biases and running statistics of BatchNorm."""
        own = tuple(f"{norm}.{name}" for norm in self._norms for name in ("weight", "bias", *RUNNING))
        return tuple(i for i, name in enumerate(self.names) if name in own)

    def others(self, part: Part) -> Part:
        """All that is not in a part."""
        return tuple(i for i in range(len(self._sizes)) if i not in part)

    def mask(self, part: Part) -> Tensor:
        """A vector [P] that is 1 in a part and 0 elsewhere."""
        zeros = torch.zeros_like(self._initial)
        return self.put(zeros, part, torch.ones_like(self.take(zeros, part)))

    @cached_property
    def num_features(self) -> int:
        """D."""
        return self.features(self.init(), self._example).shape[-1]

    def apply(
        self, theta: Tensor | Leaves, x: Tensor, key: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor | None, Tensor]:
        """Features [B, D] (None if not known) and logits [B, C] for x [B, ...].

        Args:
            theta: [P], or its leaves.
            x: inputs.
            key: [] turns dropout on and decides its masks; without it the module is in evaluation mode.
            mask: [B] 1 for the samples that BatchNorm's statistics are of in training mode.

        Raises:
            ConfigError: a model with BatchNorm is in training mode and has no mask.
        """
        modules = self._current
        module, last = (modules.eval, False) if key is None else (modules.train, True)
        tensors = dict(zip(self._renamed.values(), self.leaves(theta), strict=True))
        if key is not None:
            tensors |= dict.fromkeys(self._dropouts, key)
            if self._norms and mask is None:
                what = "its BatchNorm cannot tell real samples from padding"
                raise ConfigError("--model", what, "logits(theta, batch.x, batch.key, batch.mask) in the method's loss")
            tensors |= {f"{norm}.mask": mask for norm in self._norms if mask is not None}
        with quick_pools(x, convolves=self.convolves):
            out = functional_call(module, tensors, (x,))
        if isinstance(out, tuple):
            return as_float32(out[0]), as_float32(out[1])
        if not self.has_features:
            return None, as_float32(out)
        features, modules.last[last].seen = modules.last[last].seen, None
        return as_float32(_known(features)), as_float32(out)

    def logits(
        self, theta: Tensor | Leaves, x: Tensor, key: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """Logits [B, C] for x [B, ...]; of a batch in training mode, with its key and mask."""
        return self.apply(theta, x, key, mask)[1]

    def features(self, theta: Tensor | Leaves, x: Tensor) -> Tensor:
        """Features [B, D] for x [B, ...], in evaluation mode; only of a model that has_features."""
        return _known(self.apply(theta, x)[0])

    def run(self, theta: Tensor | Leaves, batch: Batch) -> tuple[Tensor, Tensor]:
        """Features [B, D] and logits [B, C] of a batch, in training mode; only of a model that has_features."""
        features, logits = self.apply(theta, batch.x, batch.key, batch.mask)
        return _known(features), among(logits, batch.allowed)

    def nll(self, theta: Tensor | Leaves, x: Tensor, y: Tensor, allowed: Tensor | None = None) -> Tensor:
        """Loss of each sample [B], in evaluation mode, among the labels that are allowed [C], None for all."""
        return self.criterion.of_samples(among(self.logits(theta, x), allowed), y)

    def loss(self, theta: Tensor | Leaves, batch: Batch) -> Tensor:
        """Mean loss over a batch's real samples [], in training mode: dropout is on."""
        logits = among(self.logits(theta, batch.x, batch.key, batch.mask), batch.allowed)
        return mean_over(batch.mask, self.losses(logits, batch.y))

    def losses(self, logits: Tensor, y: Tensor) -> Tensor:
        """Of each sample [...] in training, from logits [..., C] and targets, by --loss and --label_smoothing."""
        return self.criterion.in_training(logits, y)

    def gradient(
        self, loss: Callable[..., Tensor], running: Part, theta: Leaves, *given: object
    ) -> tuple[Leaves, Tensor]:
        """Gradient of a loss in leaves, with their next values in place of running statistics; and the loss [].

        Args:
            loss: of leaves and what is given.
            running: which of the leaves are running statistics, all of the model's or none.
            theta: the leaves.
            given: to the loss, beside them.
        """

        def observed(theta: Leaves) -> tuple[Tensor, Leaves]:
            norms = self._norms_with(theta, running)
            value = loss(theta, *given)
            return value, tuple(t for norm, before in norms for t in norm.taken(*before))

        if not self._norms:
            return cast("tuple[Leaves, Tensor]", grad_and_value(loss)(theta, *given))
        g, (value, after) = grad_and_value(observed, has_aux=True)(theta)
        following = dict(zip(running, after, strict=False))
        return tuple(following.get(i, leaf) for i, leaf in enumerate(g)), value

    def batch_statistics(self, theta: Tensor | Leaves, batch: Batch) -> Tensor:
        """Running statistics [S] of a batch alone at theta: of each layer the mean and the unbiased variance.

        Those of a layer that is called more than once are averages of its calls', as its momentum weighs them; a batch
        without a variance gives what theta has.
        """
        found, norms = list[Tensor](), self._norms_with(leaves := self.leaves(theta), self.running)
        self.logits(leaves, batch.x, batch.key, batch.mask)
        for norm, before in norms:
            new = 1 - (1 - norm.momentum) ** norm.times
            pairs = zip(before, norm.taken(*before), strict=True)
            found += [old + (t - old) / new if new else old for old, t in pairs]
        return torch.cat(found)

    def _norms_with(self, theta: Leaves, running: Part) -> list[tuple[MaskedBatchNorm, Leaves]]:
        """The training module's BatchNorm layers, each with its running statistics in leaves that have them."""
        norms = [cast(MaskedBatchNorm, self._current.train.get_submodule(name)) for name in self._norms]
        for norm in norms:
            norm.taken()  # what a look in training mode may have left
        return [(norm, tuple(theta[i] for i in running[2 * k : 2 * k + 2])) for k, norm in enumerate(norms)]

    @property
    def _current(self) -> _Modules:
        # traced in one thread at a time, which cannot look into thread-local data; is_compiling() is True in all others
        return self._modules if torch.compiler.is_dynamo_compiling() else self._modules_of_thread.modules

    def require_features(self, method: str) -> None:
        """Refuse a method that looks at features of a model that shows none.

        Raises:
            ConfigError: the model shows none.
        """
        if not self.has_features:
            raise ConfigError(
                "--model",
                f"{type(self._eval).__name__} shows no features, which {method} looks at",
                "a module that returns (features, logits), or that ends in a torch.nn.Linear",
            )

    def require_head(self, method: str) -> None:
        """Refuse a method that parts head and body of a model in which features are all, or nothing.

        Raises:
            ConfigError: the model has no features, no head, or no body.
        """
        self.require_features(method)
        if not self.head or not set(self.body) - set(self.running):
            lacks = "no parameters behind its features" if not self.head else "no parameters before them"
            what = f"{type(self._eval).__name__} has {lacks}, and {method} parts head and body"
            raise ConfigError("--model", what, "a module with both")

    def require_norms(self, method: str) -> None:
        """Refuse a method that leaves BatchNorm with the clients if there is none.

        Raises:
            ConfigError: there is none.
        """
        if not self.running:
            what = f"{type(self._eval).__name__} has no BatchNorm, and {method} leaves it with the clients"
            raise ConfigError("--model", what, "a module with torch.nn.BatchNorm1d, 2d or 3d")

    def state_dict(self, theta: Tensor) -> dict[str, Tensor]:
        """Copies of parameters and constants under the module's own names, as load_state_dict takes them."""
        leaves = dict(zip(self.names, self.leaves(theta), strict=True))
        own = self._constants | {name: leaves[parameter] for name, parameter in self._saved_as.items()}
        return {name: tensor.clone() for name, tensor in own.items()}

    def _tried(self, example: Tensor) -> tuple[bool, Tensor]:
        """Whether the module returns features beside logits, and these; anything but a row per sample is refused."""
        try:
            with torch.no_grad():
                out = self._eval(example)
        except Exception as error:  # a user's module may raise anything
            name, reason = type(self._eval).__name__, one_line(error)
            given = f"tokens up to {self.num_tokens - 1}" if self.num_tokens else "an input"
            instead = "a model of tokens, as whole numbers are; or features, given as floats" if self.num_tokens else ""
            raise ConfigError("--model", f"{name} fails on {given} {list(example.shape)}: {reason}", instead) from error
        features_known = isinstance(out, tuple)
        logits = out[1] if features_known else out
        if not isinstance(logits, Tensor) or logits.shape != (1, self.num_classes):
            shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise ConfigError(
                "--model",
                f"{type(self._eval).__name__} returns {shape} for one sample",
                f"logits (1, {self.num_classes}) or (features, logits)",
            )
        return features_known, logits


def _known(features: Tensor | None) -> Tensor:
    assert features is not None, "a method that needs features says so with require_features()"
    return features
