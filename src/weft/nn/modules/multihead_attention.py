"""Multi-head attention as a module: parameters and options around `functional.multi_head_attention_forward`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import weft
from weft import Tensor
from weft._typing import DeviceLike
from weft.errors import ArgumentError, AssertedError
from weft.nn import functional as F
from weft.nn import init
from weft.nn.functional.multihead_attention import canonical_mask
from weft.nn.module.module import Module
from weft.nn.modules.linear import NonDynamicallyQuantizableLinear
from weft.nn.parameter import Parameter

if TYPE_CHECKING:
    from weft._typing import FactoryOptions
    from weft.engine.ir.dtype import DType


class MultiheadAttention(Module):
    """Attention of several heads over projected queries, keys and values (Vaswani et al. 2017).

    Shapes: (L, N, E), (S, N, kdim), (S, N, vdim) -> (L, N, E) and weights (N, L, S); with `batch_first` N stands first.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: DeviceLike | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        _check_sizes(embed_dim, num_heads)
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.batch_first, self.head_dim = batch_first, embed_dim // num_heads
        self.add_zero_attn = add_zero_attn
        options: FactoryOptions = {"device": device, "dtype": dtype}
        same = self._qkv_same_embed_dim
        sizes = {
            "q_proj_weight": None if same else (embed_dim, embed_dim),
            "k_proj_weight": None if same else (embed_dim, self.kdim),
            "v_proj_weight": None if same else (embed_dim, self.vdim),
            "in_proj_weight": (3 * embed_dim, embed_dim) if same else None,
            "in_proj_bias": (3 * embed_dim,) if bias else None,
        }
        for name, size in sizes.items():
            made = None if size is None else Parameter(weft.empty(size, **options))
            self.register_parameter(name, made)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, **options)
        for name in ("bias_k", "bias_v"):
            extra = Parameter(weft.empty((1, 1, embed_dim), **options)) if add_bias_kv else None
            self.register_parameter(name, extra)
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        names = ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight")
        for weight in (getattr(self, name) for name in names):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

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
    ) -> Any:
        """The attention of queries to keys, and the weights.

        Args:
            query: what asks, (L, N, E), or (N, L, E) with `batch_first`; without N for one
                example.
            key: what is compared with it, (S, N, E).
            value: what is averaged, (S, N, E).
            key_padding_mask: (N, S), True where a key is padding; None: none is.
            need_weights: also return the weights. Default: True.
            attn_mask: (L, S) or (N * heads, L, S): True where a query may not see a key, or
                numbers that are added; None: all are seen.
            average_attn_weights: return the mean of the weights over heads. Default: True.
            is_causal: says that `attn_mask` is causal. Default: False.

        Shape:
            (L, N, E), (S, N, E), (S, N, E) -> (L, N, E) and the weights, or None.
        """
        turned = self.batch_first and query.dim() == 3 and not query.is_nested
        if turned:
            query, key, value = _turned(query, key, value)
        result, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (result.transpose(0, 1) if turned else result), weights

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """Both masks as one to add, (N, heads, L, S), and its kind: 0 of attention, 1 of padding, 2 of both."""
        merged = canonical_mask(
            key_padding_mask, "key_padding_mask", attn_mask, "attn_mask", query.dtype
        )
        kind = None if merged is None else 1
        if attn_mask is None:
            return merged, kind
        batch, length = query.shape[0], query.shape[1]
        mask = canonical_mask(attn_mask, "attn_mask", None, "", query.dtype)
        wide = mask.expand(batch, self.num_heads, length, -1) if mask.dim() == 2 else mask
        if mask.dim() == 3:
            wide = mask.view(batch, self.num_heads, length, length)
        if merged is None:
            return wide, 0
        merged = merged.view(batch, 1, 1, length).expand(-1, self.num_heads, -1, -1)
        return wide + merged, 2


def _check_sizes(embed_dim: int, num_heads: int) -> None:
    if embed_dim <= 0 or num_heads <= 0:
        raise ArgumentError(
            f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and "
            f"num_heads={num_heads} instead",
            expected="positive sizes",
            got=f"{embed_dim} and {num_heads}",
            fix="pass the size of the last dimension and the number of heads",
        )
    if embed_dim % num_heads:
        raise AssertedError(
            "embed_dim must be divisible by num_heads",
            expected=f"embed_dim divisible by {num_heads}",
            got=str(embed_dim),
            fix="choose another number of heads",
        )


def _turned(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(N, L, E) -> (L, N, E); equal tensors stay one, so that one product projects them."""
    turned_key = key.transpose(0, 1)
    turned_query = turned_key if query is key else query.transpose(0, 1)
    turned_value = turned_key if value is key else value.transpose(0, 1)
    return turned_query, turned_key, turned_value
