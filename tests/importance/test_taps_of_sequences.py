"""The rules for recurrent layers and embeddings."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from importance_bench import bench, check_against_loop, uncovered
from torch import Tensor, nn

from fl_ddp.importance.coverage import coverage
from fl_ddp.models.lstm import CharLSTM


class Read(nn.Module):
    """A recurrent layer reads a sequence; its states decide, or the last ones alone."""

    def __init__(self, layer: nn.RNNBase, last: bool = False) -> None:
        super().__init__()
        self.layer, self.last = layer, last
        self.out = nn.Linear(layer.hidden_size * (1 + layer.bidirectional), 3)

    def forward(self, x: Tensor) -> Tensor:
        states, end = self.layer(x if self.layer.batch_first else x.transpose(0, 1))
        if self.last:
            states = torch.cat([*(end[1] if isinstance(end, tuple) else end)], -1)
        else:
            states = (3 * states).sin().sum(1 if self.layer.batch_first else 0)
        out: Tensor = self.out(states)
        return out


RECURRENT: dict[str, Callable[[], nn.Module]] = {
    "LSTM": lambda: Read(nn.LSTM(4, 5)),
    "LSTM's last c": lambda: Read(nn.LSTM(4, 5), last=True),
    "LSTM of two layers": lambda: Read(nn.LSTM(4, 5, 2, batch_first=True)),
    "LSTM of both directions": lambda: Read(nn.LSTM(4, 5, bidirectional=True)),
    "LSTM without biases": lambda: Read(nn.LSTM(4, 5, bias=False)),
    "GRU of both directions": lambda: Read(nn.GRU(4, 5, bidirectional=True, batch_first=True)),
    "GRU of two layers": lambda: Read(nn.GRU(4, 5, 2)),
    "RNN": lambda: Read(nn.RNN(4, 5)),
    "rectified RNN": lambda: Read(nn.RNN(4, 5, nonlinearity="relu")),
}


@pytest.mark.parametrize("kind", ["empirical", "exact"])
@pytest.mark.parametrize("make", RECURRENT.values(), ids=RECURRENT)
def test_recurrent_layers_equal_a_loop(make: Callable[[], nn.Module], kind: str) -> None:
    b = bench(make, (6, 4), (4, 2))
    assert not uncovered(b)
    check_against_loop(b, kind)


def test_hidden_states_weights_may_be_used_elsewhere() -> None:
    """And those of inputs are tapped all the same."""

    class Penalised(Read):
        def forward(self, x: Tensor) -> Tensor:
            weight: Tensor = self.layer.weight_hh_l0  # type: ignore[assignment]
            out: Tensor = super().forward(x) + weight.sum()
            return out

    b = bench(lambda: Penalised(nn.GRU(4, 5)), (6, 4), (4, 2))
    assert uncovered(b) == {"layer.weight_hh_l0"}
    check_against_loop(b)


class Words(nn.Module):
    """Embedded tokens, one after another or one alone."""

    def __init__(self, length: int, tokens: int = 7, **options: object) -> None:
        super().__init__()
        self.embedding = nn.Embedding(tokens, 4, **options)  # type: ignore[arg-type]
        self.out = nn.Linear(4 * length, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.out((3 * self.embedding(x)).sin().flatten(1))
        return out


@pytest.mark.parametrize("kind", ["empirical", "exact"])
@pytest.mark.parametrize("length", [1, 9])
def test_embeddings_equal_a_loop(length: int, kind: str) -> None:
    b = bench(lambda: Words(length), (length,), (4, 2), tokens=7)
    assert not uncovered(b)
    check_against_loop(b, kind)


def test_rows_of_tokens_count_as_memory() -> None:
    b = bench(lambda: Words(9), (9,), (2,), tokens=7)
    assert coverage(b.model, (9,)).largest == 9 * 7 > 7 * 4


@pytest.mark.parametrize("padding", range(7))
def test_an_embedding_of_padding_is_left_to_vmap(padding: int) -> None:
    """Whether or not the samples of the check have any."""
    b = bench(lambda: Words(3, padding_idx=padding), (3,), (5, 5), tokens=7)
    assert uncovered(b) == {"embedding.weight"}
    check_against_loop(b)


def test_an_embedding_whose_gradients_count_its_tokens_is_left_to_vmap() -> None:
    b = bench(lambda: Words(3, scale_grad_by_freq=True), (3,), (2, 1), tokens=7)
    assert uncovered(b) == {"embedding.weight"}


@pytest.mark.parametrize("kind", ["empirical", "exact"])
def test_the_network_for_characters_is_covered_and_equals_a_loop(kind: str) -> None:
    b = bench(lambda: CharLSTM(in_shape=(6,), num_classes=3, num_tokens=7, hidden=5), (6,), (3, 2), tokens=7)
    assert not uncovered(b)
    check_against_loop(b, kind)


class OneByOne(nn.Module):
    """A layer that is called for each sample of a batch, and one that is not."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer, self.out = layer, nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.out(torch.cat([self.layer(row[None]) for row in x]))
        return out


@pytest.mark.parametrize("make", [lambda: Read(nn.GRU(4, 5)), lambda: nn.Sequential(nn.Flatten(), nn.Linear(24, 3))])
def test_layers_that_are_called_sample_by_sample_are_left_to_vmap(make: Callable[[], nn.Module]) -> None:
    b = bench(lambda: OneByOne(make()), (6, 4), (4, 2))
    assert uncovered(b) == set(b.model.names)
    check_against_loop(b)


def test_tokens_one_by_one_are_left_to_vmap() -> None:
    b = bench(lambda: OneByOne(Words(9)), (9,), (4, 2), tokens=7)
    assert uncovered(b) == set(b.model.names)
    check_against_loop(b)


@pytest.mark.parametrize(("tokens", "left"), [(256, set[str]()), (257, {"embedding.weight"})])
def test_embeddings_of_words_are_left_to_vmap(tokens: int, left: set[str]) -> None:
    """Of characters they are not."""
    b = bench(lambda: Words(2, tokens=tokens), (2,), (2, 1), tokens=tokens)
    assert uncovered(b) == left
    check_against_loop(b)


@pytest.mark.slow
def test_the_compiler_sees_the_taps_too() -> None:
    """It shows modes no functions but torch's, so recurrent layers ask for the mode themselves."""
    make = lambda: CharLSTM(in_shape=(6,), num_classes=3, num_tokens=7, hidden=5)  # noqa: E731
    check_against_loop(bench(make, (6,), (3, 2), tokens=7, compile=True))
