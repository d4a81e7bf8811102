"""Lanes' convolutions one after another, by oneDNN and as matrix products, against torch's own in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from fl_ddp.convolutions.forms import Form, Geometry, form
from fl_ddp.convolutions.lane_by_lane import convolve, convolve_input, convolve_weight

G, B = 3, 2
CASES: list[tuple[Form, tuple[int, int, int], tuple[int, int], Geometry]] = [
    ("onednn", (3, 7, 8), (3, 3), Geometry((1, 1), (1, 1), (1, 1))),
    ("onednn", (2, 9, 6), (3, 2), Geometry((2, 1), (0, 1), (1, 2))),
    ("product", (2, 5, 4), (3, 2), Geometry((2, 1), (1, 0), (1, 2))),
    ("product", (5, 4, 3), (1, 1), Geometry((1, 1), (0, 0), (1, 1))),
    ("product", (5, 4, 5), (1, 1), Geometry((2, 3), (0, 0), (1, 1))),
    ("product", (2, 3, 3), (1, 1), Geometry((1, 1), (1, 2), (1, 1))),
]


def plain(x: Tensor, w: Tensor, dy: Tensor, geometry: Geometry) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs and gradients of one lane."""
    x, w = x.requires_grad_(), w.requires_grad_()
    y = F.conv2d(x, w, None, *geometry)
    dx, dw = torch.autograd.grad(y, (x, w), dy)
    return y.detach(), dx, dw


@pytest.mark.parametrize(("which", "image", "kernel", "geometry"), CASES)
def test_outputs_and_gradients_are_those_of_single_lanes(
    which: Form, image: tuple[int, int, int], kernel: tuple[int, int], geometry: Geometry
) -> None:
    rows, columns = geometry.size(image[1:], kernel)
    out = 2 * B * rows * columns if which == "product" else 4
    x = torch.randn(G, B, *image, dtype=torch.float64)
    w = torch.randn(G, out, image[0], *kernel, dtype=torch.float64)
    dy = torch.randn(G, B, out, rows, columns, dtype=torch.float64)
    assert form(x, w, geometry) == which
    given = tuple(map(list, geometry))
    found = convolve(x, w, *given), convolve_input(dy, x, w, *given), convolve_weight(dy, x, w, *given)
    each = [plain(a.clone(), b.clone(), c, geometry) for a, b, c in zip(x, w, dy, strict=True)]
    for value, right in zip(found, zip(*each, strict=True), strict=True):
        torch.testing.assert_close(value, torch.stack(right), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("which", ["onednn", "product"])
def test_a_lanes_bits_depend_neither_on_its_company_nor_on_its_place(which: Form) -> None:
    geometry, out = Geometry((1, 1), (1, 1), (1, 1)), 64 if which == "product" else 5
    x, w, dy = torch.randn(4, B, 3, 4, 4), torch.randn(4, out, 3, 3, 3), torch.randn(4, B, out, 4, 4)
    assert form(x, w, geometry) == which
    given = tuple(map(list, geometry))
    together = convolve(x, w, *given), convolve_input(dy, x, w, *given), convolve_weight(dy, x, w, *given)
    for lanes in ([2], [3, 2, 1], [2, 0]):
        place, (xs, ws, dys) = lanes.index(2), (t[lanes] for t in (x, w, dy))
        apart = (
            convolve(xs, ws, *given),
            convolve_input(dys, xs, ws, *given),
            convolve_weight(dys, xs, ws, *given),
        )
        assert all(torch.equal(a[place], t[2]) for a, t in zip(apart, together, strict=True))


def test_the_compiler_knows_the_operators() -> None:
    x, w = torch.randn(G, B, 2, 5, 4), torch.randn(G, 3, 2, 3, 2)
    geometry = [2, 1], [1, 0], [1, 2]
    dy = convolve(x, w, *geometry)
    for name, given in {"convolve": (x, w), "convolve_input": (dy, x, w), "convolve_weight": (dy, x, w)}.items():
        operator = getattr(torch.ops.fl_ddp, name).default
        torch.library.opcheck(operator, (*given, *geometry), test_utils=("test_schema", "test_faketensor"))
