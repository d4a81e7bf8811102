"""A Fisher pass whose products are a GPU's kernel, in Triton's interpreter, beside a CPU's in float64; one JSON line.

`TRITON_INTERPRET=1 python tests/support/interpreted/interpreted_products.py`; Triton reads the variable when imported.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from unittest import mock

import torch
from importance_bench import bench
from interpreter import interpreter
from torch import Tensor, nn

from fl_ddp.importance import fisher as importance_pass
from fl_ddp.importance import products, products_kernel, taps
from fl_ddp.importance.fisher import importance_sum
from fl_ddp.importance.sensitivity import Sensitivity

SMALL = {"block_o": 16, "block_n": 16, "block_p": 16}
"""Blocks that small layers fill more than one of."""


def _convolution(**options: object) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        layer = nn.Conv2d(2, 18, **options)  # type: ignore[arg-type]
        features = layer(torch.zeros(1, 2, 7, 6)).numel()
        return nn.Sequential(layer, nn.Tanh(), nn.Flatten(), nn.Linear(features, 3))

    return make


def _linear() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3, bias=False), nn.Flatten(), nn.Linear(42, 3))


CASES: dict[str, tuple[Callable[[], nn.Module], Sensitivity]] = {
    "plain": (_convolution(kernel_size=3), Sensitivity()),
    "padded": (_convolution(kernel_size=(3, 2), padding=(1, 2)), Sensitivity()),
    "same": (_convolution(kernel_size=(2, 4), padding="same"), Sensitivity()),
    "strided": (_convolution(kernel_size=(2, 3), stride=(2, 1), dilation=(1, 2), bias=False), Sensitivity()),
    "exact": (_convolution(kernel_size=2), Sensitivity("exact")),
    "absolute": (_convolution(kernel_size=2, padding=1), Sensitivity(of="norm", power="absolute")),
    "linear": (_linear, Sensitivity()),
    "linear exact": (_linear, Sensitivity("exact")),
}


def errors() -> dict[str, float]:
    """The largest error of each case, as a part of the largest number."""
    products._products.register_kernel("cpu")(_interpreted)
    found = {}
    for name, (make, sensitivity) in CASES.items():
        sums = []
        for dtype in (torch.float64, torch.float32):
            b = bench(make, (2, 7, 6), (3, 2), dtype=dtype)
            with (
                mock.patch.object(taps, "on_gpu", lambda x: x.dtype == torch.float32),
                mock.patch.object(importance_pass, "_CHUNK", 3),  # padding costs time
                mock.patch.object(products_kernel, "launch", mock.Mock(wraps=products_kernel.launch)) as launched,
            ):
                sums.append(importance_sum(b.group([0, 1], 3), b.theta(3).to(dtype), b.model, sensitivity)[0].double())
            assert launched.called is (dtype == torch.float32), name
        right, ours = sums
        found[name] = float((ours - right).abs().max() / right.abs().max())
    return found


def in_company() -> dict[str, float]:
    """How far a lane's sums are from those of it alone, and of it with samples behind that count for nothing.

    Blocks of 16 make one, several or no pieces of the seven samples, two losses each.
    """
    found = {}
    for outputs, kernel in ((5, (1, 1)), (40, (2, 3)), (100, (3, 3))):
        made = torch.Generator().manual_seed(outputs)
        d = torch.randn(3, 2, 7, outputs, 4, 4, generator=made)
        x = torch.randn(3, 7, 2, 4, 4, generator=made)
        geometry = (1, 1, 1, 1, kernel[0] // 2, kernel[1] // 2)
        together = _interpreted(d, x, kernel, geometry, "square")
        behind = torch.zeros_like(d[:, :, :4])
        padded = _interpreted(torch.cat([d, behind], 2), torch.cat([x, x[:, :4]], 1), kernel, geometry, "square")
        alone = [_interpreted(d[i : i + 1], x[i : i + 1], kernel, geometry, "square") for i in range(3)]
        name = f"company of {outputs} outputs"
        found[name] = float((torch.cat(alone) - together).abs().max() + (padded - together).abs().max())
    return found


def _interpreted(d: Tensor, x: Tensor, kernel: Sequence[int], geometry: Sequence[int], power: str) -> Tensor:
    with mock.patch.object(products_kernel, "BLOCKS", SMALL), interpreter():
        return products_kernel.launch(d, x, kernel, geometry, power)


if __name__ == "__main__":
    print(json.dumps(errors() | in_company()))
