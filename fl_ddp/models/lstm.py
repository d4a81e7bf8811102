"""Recurrent networks for text."""

from __future__ import annotations

from torch import Tensor, nn

from fl_ddp.bounds import BelowOne, Count, check
from fl_ddp.errors import ConfigError
from fl_ddp.models.layers import Classifier


class CharLSTM(Classifier):
    """McMahan et al.'s network for Shakespeare: embedded characters go through LSTM layers, which guess the next one.

    819,920 parameters for 80 characters, 822,570 for 90.

    Args:
        in_shape: (length,).
        num_classes: number of characters that may come next.
        num_tokens: number of characters.
        embedding: width of the embedding.
        hidden: width of each layer.
        layers: number of layers.
        dropout: probability of dropping a hidden unit between layers.

    Raises:
        ConfigError: samples are no tokens, or an option has an impossible value.

    Source: McMahan et al. 2017 (arXiv:1602.05629); Caldas et al. 2018 (LEAF, arXiv:1812.01097).
    """

    def __init__(
        self,
        *,
        in_shape: tuple[int, ...],
        num_classes: int,
        num_tokens: int,
        embedding: Count = 8,
        hidden: Count = 256,
        layers: Count = 2,
        dropout: BelowOne = 0.0,
    ) -> None:
        options = {"embedding": embedding, "hidden": hidden, "layers": layers, "dropout": dropout}
        check(CharLSTM, options, "--model.")
        if not num_tokens:
            raise ConfigError(
                "--model CharLSTM", f"a sample of shape {in_shape} is of no tokens", "a data set of tokens"
            )
        super().__init__(_Reader(num_tokens, embedding, hidden, layers, dropout), hidden, num_classes)


class _Reader(nn.Module):
    """The last hidden state after a sample's tokens."""

    def __init__(self, num_tokens: int, embedding: int, hidden: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_tokens, embedding)
        self.lstm = nn.LSTM(embedding, hidden, layers, dropout=dropout if layers > 1 else 0.0, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.lstm(self.embedding(x))[0][:, -1]
        return out
