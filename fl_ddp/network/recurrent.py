"""RNN, LSTM and GRU for lanes: torch's own layers cannot be vectorised."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fl_ddp.errors import ConfigError
from fl_ddp.network.layers import replace_layer
from fl_ddp.network.recurrence import keep_compiler_out, recurrence

_SUPPORTED = (nn.RNN, nn.LSTM, nn.GRU)
State = Tensor | tuple[Tensor, Tensor]


class Recurrent(nn.Module):
    """An RNN, LSTM or GRU of the same parameters under the same names."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.mode, self.batch_first, self.bidirectional = layer.mode, layer.batch_first, layer.bidirectional
        self.input_size, self.hidden_size, self.num_layers = layer.input_size, layer.hidden_size, layer.num_layers
        for name, parameter in layer.named_parameters(remove_duplicate=False):
            self.register_parameter(name, parameter)
        self.between = nn.Dropout(layer.dropout) if layer.dropout and layer.num_layers > 1 else None

    def flatten_parameters(self) -> None:
        """Nothing; modules call it, for torch's layers have it."""

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Hidden states of the last layer in x's order of axes, [..., directions * H], and the last of all layers.

        Args:
            x: [T, B, D], [B, T, D] with batch_first, or [T, D] of one sample.
            state: to begin with, h [layers * directions, B, H] and an LSTM's c likewise; zeros if not given.
        """
        if not isinstance(x, Tensor):
            raise ValueError(f"{self.mode} takes no packed sequence in lanes; pad samples to one length")
        alone = x.ndim == 2
        x = x[:, None] if alone else x.transpose(0, 1) if self.batch_first else x
        x = x.to(self._weights("l0")[1].dtype)  # autocast has no say here
        h0, c0 = self._first(x, state, alone)
        last: list[tuple[Tensor, Tensor]] = []
        for layer in range(self.num_layers):
            ways = []
            for end in ("", "_reverse")[: 1 + self.bidirectional]:
                seen, place = (x.flip(0) if end else x), len(last)
                h, c = recurrence(self.mode, seen, *self._weights(f"l{layer}{end}"), h0[place], c0[place])
                last.append((h[-1], c))
                ways.append(h.flip(0) if end else h)
            x = torch.cat(ways, -1)
            if self.between and layer + 1 < self.num_layers:
                x = self.between(x)
        h, c = (torch.stack(each)[:, 0] if alone else torch.stack(each) for each in zip(*last, strict=True))
        out = x[:, 0] if alone else x.transpose(0, 1) if self.batch_first else x
        return out, (h, c) if self.mode == "LSTM" else h

    def _weights(self, which: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Of a layer and direction; biases that it has not are 0."""
        w_ih, w_hh = getattr(self, f"weight_ih_{which}"), getattr(self, f"weight_hh_{which}")
        nothing = torch.zeros(w_ih.shape[0], dtype=w_ih.dtype, device=w_ih.device)
        return w_ih, w_hh, getattr(self, f"bias_ih_{which}", nothing), getattr(self, f"bias_hh_{which}", nothing)

    def _first(self, x: Tensor, state: State | None, alone: bool) -> tuple[Tensor, Tensor]:
        """H and c [layers * directions, B, H] to begin with; c of no width where there is none."""
        places, has_c = self.num_layers * (1 + self.bidirectional), self.mode == "LSTM"
        if state is None:
            h = x.new_zeros(places, x.shape[1], self.hidden_size)
            return h, torch.zeros_like(h) if has_c else h[..., :0]
        h, c = state if isinstance(state, tuple) else (state, state[..., :0])
        return (h[:, None].to(x), c[:, None].to(x)) if alone else (h.to(x), c.to(x))


def make_recurrence_batched(module: nn.Module) -> None:
    """Replace every RNN, LSTM and GRU of a module in place.

    Raises:
        ConfigError: an LSTM projects its hidden states.
    """
    for name, layer in list(module.named_modules()):
        if layer is module or type(layer) not in _SUPPORTED:
            continue
        if layer.proj_size:
            what = f"LSTM at {name!r} has proj_size {layer.proj_size}, which lanes have not"
            raise ConfigError("--model", what, "proj_size 0, and a torch.nn.Linear behind it")
        keep_compiler_out()
        replace_layer(module, layer, Recurrent(layer))
