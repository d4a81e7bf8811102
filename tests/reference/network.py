"""The networks of the comparison, given to a run by this file's path as a user gives his own."""

from __future__ import annotations

import torch
from torch import Tensor, nn

HEAD = ("shortcut", "out.weight", "out.bias")
"""Parameters of these networks that the logits depend on and the features do not; the others are the body."""


class Network(nn.Module):
    """Two layers with weights and biases, and a shortcut by which the first feature alone reaches the logits."""

    dtype = torch.float64

    def __init__(self, *, in_shape: tuple[int, ...], num_classes: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(in_shape[0], 4, dtype=self.dtype)
        self.out = nn.Linear(4, num_classes, dtype=self.dtype)
        self.shortcut = nn.Parameter(torch.rand(num_classes, dtype=self.dtype))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = torch.tanh(self.hidden(x))
        return features, self.out(features) + x[:, :1] * self.shortcut


class Rectified(nn.Module):
    """Two layers with a rectifier between them, which has coordinates that many samples say nothing of."""

    dtype = torch.float64

    def __init__(self, *, in_shape: tuple[int, ...], num_classes: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(in_shape[0], 6, dtype=self.dtype)
        self.out = nn.Linear(6, num_classes, dtype=self.dtype)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = torch.relu(self.hidden(x))
        return features, self.out(features)


class Normed(nn.Module):
    """Two layers with BatchNorm between them, twice: over pairs of features, so that one sample has a variance."""

    dtype = torch.float64

    def __init__(self, *, in_shape: tuple[int, ...], num_classes: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(in_shape[0], 8, dtype=self.dtype)
        self.norm = nn.BatchNorm1d(4, dtype=self.dtype)
        self.last = nn.BatchNorm1d(4, momentum=0.3, eps=1e-3, affine=False, dtype=self.dtype)
        self.out = nn.Linear(8, num_classes, dtype=self.dtype)
        self.shortcut = nn.Parameter(torch.rand(num_classes, dtype=self.dtype))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        pairs = torch.tanh(self.norm(self.hidden(x).unflatten(1, (4, 2))))
        features = self.last(pairs.square() + pairs).flatten(1)
        return features, self.out(features) + x[:, :1] * self.shortcut


class Embedded(nn.Module):
    """An encoder of distributions, and a classifier on what is drawn of them."""

    dtype = torch.float64
    point = False

    def __init__(self, *, in_shape: tuple[int, ...], num_classes: int) -> None:
        super().__init__()
        self.encoder = Encoder(in_shape[0], self.point)
        self.classifier = Classifier(num_classes)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        out: tuple[Tensor, Tensor] = self.classifier(self.encoder(x)[0])
        return out


class Encoder(nn.Module):
    """mu and log sigma, the latter minus infinity for points."""

    def __init__(self, inputs: int, point: bool) -> None:
        super().__init__()
        self.mu, self.width = (nn.Linear(inputs, 3, dtype=torch.float64) for _ in range(2))
        self.point = point

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        width = self.width(x) - 1
        return self.mu(x), torch.full_like(width, -torch.inf) if self.point else width


class Classifier(nn.Module):
    """Two layers on embeddings."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(3, 5, dtype=torch.float64)
        self.out = nn.Linear(5, num_classes, dtype=torch.float64)

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        features = torch.tanh(self.hidden(z))
        return features, self.out(features)


class Pointed(Embedded):
    """Its embeddings are points."""

    point = True


class Pictured(nn.Module):
    """Two layers on an image's pixels."""

    dtype = torch.float64

    def __init__(self, *, in_shape: tuple[int, ...], num_classes: int) -> None:
        super().__init__()
        pixels = in_shape[0] * in_shape[1] * in_shape[2]
        self.hidden, self.out = (nn.Linear(*sizes, dtype=self.dtype) for sizes in ((pixels, 4), (4, num_classes)))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = torch.tanh(self.hidden(x.flatten(1)))
        return features, self.out(features)


class Worded(nn.Module):
    """Embeddings of tokens, one of which many samples do not have, and a layer on each before their mean."""

    dtype = torch.float64

    def __init__(self, *, in_shape: tuple[int, ...], num_classes: int, num_tokens: int) -> None:
        super().__init__()
        self.table = nn.Embedding(num_tokens, 3, dtype=self.dtype)
        self.hidden, self.out = (nn.Linear(*sizes, dtype=self.dtype) for sizes in ((3, 4), (4, num_classes)))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = torch.tanh(self.hidden(self.table(x))).mean(1)
        return features, self.out(features)


class Heard(nn.Module):
    """Words in their order: an LSTM, behind it a GRU, whose last hidden states are the features."""

    dtype = torch.float64

    def __init__(self, *, in_shape: tuple[int, ...], num_classes: int, num_tokens: int) -> None:
        super().__init__()
        self.table = nn.Embedding(num_tokens, 2, dtype=self.dtype)
        self.lstm = nn.LSTM(2, 3, dtype=self.dtype, batch_first=True)
        self.gru = nn.GRU(3, 3, dtype=self.dtype, batch_first=True)
        self.out = nn.Linear(3, num_classes, dtype=self.dtype)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = self.gru(self.lstm(self.table(x))[0])[0][:, -1]
        return features, self.out(features)


class Network32(Network):
    """In single precision."""

    dtype = torch.float32
