"""A user's module that cannot be vectorised, or draws random numbers itself, is refused before the run begins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fl_ddp import simulate
from fl_ddp.errors import ConfigError, RunError
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.network.vmap_check import try_gradient

RANDOM = "draws random numbers that no seed of the run decides; use torch.nn.Dropout layers, not functional.dropout"
VALUES = "depends on values outside of tensors"


class Own(nn.Module):
    """Does something of the user's with a hidden layer."""

    def __init__(self, change: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.change, self.dropout = change, nn.Dropout(0.5)
        self.body, self.head = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.change(self, self.body(x)))
        return out


def tried(change: Callable[[nn.Module, Tensor], Tensor]) -> None:
    example = torch.linspace(-1, 1, 6)[None]
    try_gradient(FlatModel(Own(change), 3, example), example, torch.tensor([0]), "Own")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda own, x: F.dropout(x), RANDOM),
        (lambda own, x: F.dropout(x, 0.5, own.training), RANDOM),
        (lambda own, x: x + torch.randn(8), RANDOM),
        (lambda own, x: x if x.sum() > 0 else -x, VALUES),
        (lambda own, x: x * x.sum().item(), VALUES),
        (lambda own, x: x + F.one_hot(x.argmax(-1), 8), VALUES),
        (lambda own, x: x + x[x > 0].sum(), "has shapes that depend on values"),
        (lambda own, x: x + torch.tensor(x.detach().numpy()), "turns tensors into numbers or numpy arrays"),
        (lambda own, x: F.rrelu(x, training=own.training), "fails under vmap: .*rrelu"),
    ],
)
def test_what_vmap_refuses_is_told_in_one_line(change: Callable[[nn.Module, Tensor], Tensor], message: str) -> None:
    with pytest.raises(ConfigError, match=rf"^--model: Own's forward {message}") as error:
        tried(change)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda own, x: own.dropout(x),
        lambda own, x: torch.where(x > 0, x, -x),
        lambda own, x: x if x.shape[-1] > 3 else -x,
        lambda own, x: F.dropout(x, 0.5, training=False),
    ],
)
def test_what_works_in_lanes_is_accepted(change: Callable[[nn.Module, Tensor], Tensor]) -> None:
    tried(change)


def test_a_run_refuses_such_a_module_before_it_makes_a_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    out = tmp_path_factory.mktemp("out")
    (out / "dropping.py").write_text(
        "import torch\n\nclass Dropping(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.head = torch.nn.Linear(64, 10)\n    def forward(self, x):\n"
        "        return torch.nn.functional.dropout(self.head(x.flatten(1)), 0.5, self.training)\n"
    )
    with pytest.raises(ConfigError, match=rf"^--model: Dropping's forward {RANDOM}$"):
        simulate({"model": f"{out}/dropping.py:Dropping", "compile": False, "figures": False, "out": str(out / "runs")})
    assert not (out / "runs").exists()


def test_too_little_memory_is_no_mistake_of_a_model(tmp_path: Path) -> None:
    (tmp_path / "large.py").write_text(
        "import torch\n"
        "class Large(torch.nn.Module):\n"
        "    def __init__(self, *, in_shape, num_classes):\n"
        "        super().__init__()\n"
        "        self.head = torch.nn.Linear(64, num_classes)\n"
        "    def forward(self, x):\n"
        "        raise torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 3.00 GiB.')\n"
    )
    with pytest.raises(RunError, match=r"^the GPU's memory is too small for 3\.00 GiB more; the data and one model"):
        simulate(
            {"model": f"{tmp_path}/large.py:Large", "compile": False, "figures": False, "out": str(tmp_path / "runs")}
        )


def test_a_forward_without_gradients_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^--model: Own's forward gives logits that no parameter has a part in"):
        example = torch.linspace(-1, 1, 6)[None]
        try_gradient(FlatModel(Detached(), 3, example), example, torch.tensor([0]), "Own")


class Detached(nn.Module):
    """Learns nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            out: Tensor = self.layer(x)
        return out


@pytest.mark.parametrize(
    ("change", "words"), [("hook", "has a hook on the gradient of weight"), ("type", "has weight in bfloat16")]
)
def test_parameters_that_would_not_be_trained_as_they_are_are_refused(change: str, words: str) -> None:
    layer = nn.Linear(6, 3)
    if change == "hook":
        layer.weight.register_hook(torch.zeros_like)  # type: ignore[no-untyped-call]
    else:
        layer.to(torch.bfloat16)
    with pytest.raises(ConfigError, match=rf"^--model: Linear {words}"):
        FlatModel(layer, 3, torch.ones(1, 6))


@pytest.mark.parametrize("how", ["as it is", "buffer", "list"])
def test_a_tensor_that_was_computed_of_parameters_beforehand_is_refused(how: str) -> None:
    """It would never change, whatever is trained; a parametrization computes it in each forward()."""

    class Kept(nn.Linear):
        """Its scale is that of its first weights, as torch.nn.utils.weight_norm leaves a weight."""

        def __init__(self) -> None:
            super().__init__(6, 3)
            if how == "buffer":
                self.register_buffer("scale", self.weight.norm())
            else:
                self.scale = [self.weight.norm()] if how == "list" else self.weight.norm()

    with pytest.raises(ConfigError, match=r"^--model: Kept at '1' keeps scale, .*; accepted: its computation in forw"):
        FlatModel(nn.Sequential(nn.Identity(), Kept()), 3, torch.ones(1, 6))
    weight_norm = nn.utils.parametrizations.weight_norm(nn.Linear(6, 3))
    assert FlatModel(weight_norm, 3, torch.ones(1, 6)).num_params == 3 + 3 + 18


def test_a_layer_that_bfloat16_takes_compiled_alone_is_told_of() -> None:
    def tried_in(layer: nn.Module, *, autocast: bool) -> None:
        model = FlatModel(nn.Sequential(nn.Linear(6, 8), layer, nn.Linear(8, 3)), 3, example)
        try_gradient(model, example, torch.tensor([0]), "Own", autocast=autocast)

    example = torch.linspace(-1, 1, 6)[None]
    for layer, autocast in ((nn.LayerNorm(8), False), (nn.BatchNorm1d(8), True), (nn.ReLU(), True)):
        tried_in(layer, autocast=autocast)
    with pytest.raises(
        ConfigError, match=r"^--precision: bfloat16, but Own has a layer that needs --compile true then"
    ):
        tried_in(nn.LayerNorm(8), autocast=True)
