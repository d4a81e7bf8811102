"""Multi-head attention for lanes: torch's own draws its dropout from a generator, and takes lanes one by one."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fl_ddp.network.layers import replace_layer


class Attention(nn.Module):
    """Attention of the same parameters under the same names, whose dropout is a layer.

    Source: Vaswani et al. 2017 (arXiv:1706.03762), as torch.nn.MultiheadAttention has it.
    """

    _qkv_same_embed_dim = False
    """Keeps torch's transformers from calling operators of their own in evaluation, which have no rule for vmap."""

    def __init__(self, layer: nn.MultiheadAttention) -> None:
        super().__init__()
        self.embed_dim, self.num_heads, self.batch_first = layer.embed_dim, layer.num_heads, layer.batch_first
        self.in_proj_weight, self.in_proj_bias, self.out_proj = layer.in_proj_weight, layer.in_proj_bias, layer.out_proj
        self.drop = nn.Dropout(layer.dropout)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """What each query [..., L, E] gets of the values [..., S, E], and how it weighs them, if asked.

        Args:
            query: [L, B, E], [B, L, E] with batch_first, or [L, E] of one sample.
            key: likewise, of length S.
            value: likewise.
            key_padding_mask: [B, S], true where nobody may look, or what is added there.
            need_weights: whether weights are given, [B, L, S].
            attn_mask: [L, S] or [B * heads, L, S], likewise.
            average_attn_weights: over heads; if not, [B, heads, L, S].
            is_causal: says that attn_mask is the causal one.
        """
        if is_causal and attn_mask is None:
            raise ValueError("is_causal is a hint alone; give attn_mask, too")
        alone = query.ndim == 2
        swap = not (alone or self.batch_first)
        given = (x[None] if alone else x.transpose(0, 1) if swap else x for x in (query, key, value))
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        parts = zip(given, self.in_proj_weight.chunk(3), biases, strict=True)
        q, k, v = (self._heads(F.linear(*part)) for part in parts)
        scores = (q * q.shape[-1] ** -0.5) @ k.mT
        if attn_mask is not None:
            of_head = (self.num_heads, 1)[attn_mask.ndim == 2]
            scores = scores + _added(attn_mask, scores).view(-1, of_head, *scores.shape[-2:])
        if key_padding_mask is not None:
            scores = scores + _added(key_padding_mask, scores).view(-1, 1, 1, scores.shape[-1])
        weights = self.drop(scores.softmax(-1))
        out = self.out_proj((weights @ v).transpose(1, 2).flatten(2))
        shown = weights.mean(1) if average_attn_weights else weights
        out, shown = (out[0], shown[0]) if alone else (out.transpose(0, 1) if swap else out, shown)
        return out, shown if need_weights else None

    def _heads(self, x: Tensor) -> Tensor:
        """[B, heads, L, E / heads] of [B, L, E]."""
        return x.view(*x.shape[:-1], self.num_heads, self.embed_dim // self.num_heads).transpose(1, 2)


def _added(mask: Tensor, scores: Tensor) -> Tensor:
    """What a mask adds to scores."""
    if mask.dtype == torch.bool:
        return torch.zeros_like(mask, dtype=scores.dtype).masked_fill(mask, -torch.inf)
    return mask.to(scores.dtype)


def make_attention_batched(module: nn.Module) -> None:
    """Replace every MultiheadAttention of a module in place; those with options that are not torch's defaults stay."""
    for layer in list(module.modules()):
        if layer is module or type(layer) is not nn.MultiheadAttention:
            continue
        if layer._qkv_same_embed_dim and layer.bias_k is None and not layer.add_zero_attn:
            replace_layer(module, layer, Attention(layer))
