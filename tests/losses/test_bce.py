"""The binary cross-entropy of several labels, and what is told of a test set beside it."""

from __future__ import annotations

import math
from itertools import product
from statistics import fmean

import pytest
import torch
from torch import Tensor

from fl_ddp.losses.bce import BCE


def pairs(size: int, width: int) -> tuple[Tensor, Tensor]:
    """Logits, some of them alike, and labels."""
    generator = torch.Generator().manual_seed(0)
    outputs = (3 * torch.randn(size, width, dtype=torch.float64, generator=generator)).round(decimals=1)
    return outputs, (torch.rand(size, width, generator=generator) < 0.4).double()


def test_it_is_torchs_own_and_so_is_its_gradient() -> None:
    outputs, y = pairs(7, 3)
    outputs[2] *= 1e4
    outputs.requires_grad_()
    theirs = torch.nn.BCEWithLogitsLoss(reduction="none")(outputs, y).mean(1)
    torch.testing.assert_close(BCE().of_samples(outputs, y), theirs, rtol=1e-13, atol=0)
    assert theirs.isfinite().all()
    (gradient,) = torch.autograd.grad(theirs.sum(), outputs)
    torch.testing.assert_close(BCE().gradient(outputs.detach(), y), gradient, rtol=1e-12, atol=1e-15)


def test_single_precision_targets_do_not_lower_that_of_the_outputs() -> None:
    outputs, y = pairs(7, 3)
    assert BCE().of_samples(outputs, y.float()).equal(BCE().of_samples(outputs, y))


@pytest.mark.parametrize("width", [1, 3])
def test_measures_are_those_of_their_definitions(width: int) -> None:
    outputs, y = pairs(40, width)
    found = BCE().tested(outputs, y)
    decided = [[z > 0 for z in row] for row in outputs.tolist()]
    true = [[each == 1 for each in row] for row in y.tolist()]
    right = [[a == b for a, b in zip(*rows, strict=True)] for rows in zip(decided, true, strict=True)]
    assert found.loss == pytest.approx(float(torch.nn.BCEWithLogitsLoss()(outputs, y)), rel=1e-12)
    assert found.accuracy == pytest.approx(fmean(map(fmean, right)), rel=1e-12)
    assert found.of_outputs == pytest.approx([fmean(column) for column in zip(*right, strict=True)], rel=1e-12)
    f1, areas = [], []
    for label in range(width):
        both = [(given[label], has[label]) for given, has in zip(decided, true, strict=True)]
        hits, wrong = both.count((True, True)), both.count((True, False)) + both.count((False, True))
        f1.append(2 * hits / (2 * hits + wrong))
        here, there = outputs[y[:, label] == 1, label].tolist(), outputs[y[:, label] == 0, label].tolist()
        areas.append(fmean((a > b) + (a == b) / 2 for a, b in product(here, there)))
    expected = {"exact_match": fmean(map(all, right)), "f1": fmean(f1), "auc": fmean(areas)}
    assert found.measures == pytest.approx(expected, rel=1e-12)
    assert tuple(found.measures) == BCE.measures
    assert BCE().own_score(outputs, y) == found.accuracy


def test_a_label_that_all_have_has_no_area_and_one_that_nobody_has_no_f1() -> None:
    outputs, y = pairs(40, 2)
    alone = BCE().tested(outputs[:, 1:], y[:, 1:]).measures
    y[:, 0] = 1
    assert BCE().tested(outputs, y).measures["auc"] == alone["auc"]
    y[:, 0], outputs[:, 0] = 0, -1
    assert BCE().tested(outputs, y).measures["f1"] == alone["f1"] / 2
    assert math.isnan(BCE().tested(outputs[:, :1], y[:, :1]).measures["auc"])


def test_logits_that_are_not_finite_have_no_area() -> None:
    outputs, y = pairs(40, 2)
    outputs[3, 1] = math.nan
    found = BCE().tested(outputs, y)
    assert math.isnan(found.measures["auc"]) and math.isnan(found.loss)
