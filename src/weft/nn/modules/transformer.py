"""Transformers: encoder and decoder layers, stacks of them, and both together (Vaswani et al. 2017).

They take sequences (length, batch, features), with `batch_first` (batch, length, features), without a batch (length,
features), and return the same shape. Masks go to the attention as they are.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

import weft
from weft import Tensor
from weft._typing import DeviceLike
from weft.engine.api.deprecation import user_level
from weft.engine.ir.dtype import DType
from weft.errors import ShapeError
from weft.nn import functional as F
from weft.nn import init
from weft.nn.functional.multihead_attention import canonical_mask
from weft.nn.module.module import Module
from weft.nn.modules.container import ModuleList
from weft.nn.modules.dropout import Dropout
from weft.nn.modules.linear import Linear
from weft.nn.modules.multihead_attention import MultiheadAttention
from weft.nn.modules.normalization import LayerNorm
from weft.tensor.arguments import need_integer

if TYPE_CHECKING:
    from weft._typing import FactoryOptions


MOST_LAYERS = 1 << 16
Activation = str | Callable[[Tensor], Tensor]


def _activation(activation: Activation) -> Callable[[Tensor], Tensor]:
    if not isinstance(activation, str):
        return activation
    known: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}
    found = known.get(activation)
    if found is None:
        raise ShapeError(
            f"activation should be relu/gelu, not {activation}",
            expected="'relu', 'gelu' or a function",
            got=repr(activation),
            fix="pass the function itself",
        )
    return found


class _Layer(Module):
    """The common part of both layers: attentions, and a feed-forward part, each with a norm and a dropout."""

    attentions: tuple[str, ...] = ("self_attn",)
    linear1: Linear
    linear2: Linear
    dropout: Dropout

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: DeviceLike | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        options: FactoryOptions = {"device": device, "dtype": dtype}
        for name in self.attentions:
            attention = MultiheadAttention(
                d_model, nhead, dropout, bias, batch_first=batch_first, **options
            )
            setattr(self, name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **options)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **options)
        self.norm_first = norm_first
        numbers = range(1, len(self.attentions) + 2)
        for number in numbers:
            norm = LayerNorm(d_model, layer_norm_eps, bias=bias, **options)
            setattr(self, f"norm{number}", norm)
        for number in numbers:
            setattr(self, f"dropout{number}", Dropout(dropout))
        self.activation = _activation(activation)
        known = {F.relu: 1, F.gelu: 2}
        self.activation_relu_or_gelu = known.get(self.activation, 0)  # as PyTorch says it

    def _feed(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))  # type: ignore[no-any-return]


def _of_one_type(
    mask: Tensor | None, name: str, padding: Tensor | None, dtype: DType
) -> tuple[Tensor | None, Tensor | None]:
    """Both masks of an encoder; as numbers to add, with a warning, where only one of them is boolean."""
    if mask is None or padding is None or mask.dtype is padding.dtype:
        return mask, padding
    padding = canonical_mask(padding, "src_key_padding_mask", mask, name, dtype)
    return canonical_mask(mask, name, None, "", dtype), padding


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward part, each with a residual connection and a norm."""

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """The sequences, encoded.

        Args:
            src: what is encoded, (S, N, E), or (N, S, E) with `batch_first`.
            src_mask: which places of the source see which, (S, S): True is hidden, numbers are
                added; None: all see all.
            src_key_padding_mask: True where the source is padding, (N, S); None: nowhere.
            is_causal: says that the mask is causal. Default: False.

        Shape:
            (L, N, E) -> the same.
        """
        given = (*_of_one_type(src_mask, "src_mask", src_key_padding_mask, src.dtype), is_causal)

        def to_itself(x: Tensor) -> Tensor:
            return self.dropout1(_attended(self.self_attn, x, x, *given))  # type: ignore[no-any-return]

        if self.norm_first:
            src = src + to_itself(self.norm1(src))
            return src + self.dropout2(self._feed(self.norm2(src)))  # type: ignore[no-any-return]
        src = self.norm1(src + to_itself(src))
        return self.norm2(src + self.dropout2(self._feed(src)))  # type: ignore[no-any-return]


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to a memory and a feed-forward part."""

    attentions = ("self_attn", "multihead_attn")

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The target sequences, decoded.

        Args:
            tgt: what is decoded, (T, N, E), or (N, T, E) with `batch_first`.
            memory: what the encoder gave, (S, N, E).
            tgt_mask: the same for the target, (T, T); None: all see all.
            memory_mask: which places of the target see which of the memory, (T, S); None: all
                see all.
            tgt_key_padding_mask: True where the target is padding, (N, T); None: nowhere.
            memory_key_padding_mask: True where the memory is padding, (N, S); None: nowhere.
            tgt_is_causal: says that `tgt_mask` is causal. Default: False.
            memory_is_causal: says that `memory_mask` is causal. Default: False.

        Shape:
            (T, N, E), (S, N, E) -> (T, N, E).
        """

        def to_itself(x: Tensor) -> Tensor:
            options = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
            return self.dropout1(_attended(self.self_attn, x, x, *options))  # type: ignore[no-any-return]

        def to_memory(x: Tensor) -> Tensor:
            options = (memory_mask, memory_key_padding_mask, memory_is_causal)
            found = _attended(self.multihead_attn, x, memory, *options)
            return self.dropout2(found)  # type: ignore[no-any-return]

        def feed(x: Tensor) -> Tensor:
            return self.dropout3(self._feed(x))  # type: ignore[no-any-return]

        norms = (self.norm1, self.norm2, self.norm3)
        for norm, part in zip(norms, (to_itself, to_memory, feed), strict=True):
            tgt = tgt + part(norm(tgt)) if self.norm_first else norm(tgt + part(tgt))
        return tgt


def _attended(
    attention: MultiheadAttention,
    x: Tensor,
    y: Tensor,
    mask: Tensor | None,
    padding: Tensor | None,
    is_causal: bool,
) -> Tensor:
    found: Tensor = attention(
        x,
        y,
        y,
        attn_mask=mask,
        key_padding_mask=padding,
        is_causal=is_causal,
        need_weights=False,
    )[0]
    return found


def _copies(layer: Module, count: int) -> ModuleList:
    number = need_integer("Transformer", count, "num_layers", 0, MOST_LAYERS)
    return ModuleList([copy.deepcopy(layer) for _ in range(number)])


def _why_not_nested(layer: Module) -> str:
    """The reason for which PyTorch would not leave out padding in layers like this one; "" if it would."""
    if not isinstance(layer, TransformerEncoderLayer):
        return "encoder_layer was not TransformerEncoderLayer"
    attention = layer.self_attn
    reasons = (
        (layer.norm_first, ".norm_first was True"),
        (
            not attention.batch_first,
            ".self_attn.batch_first was not True(use batch_first for better inference performance)",
        ),
        (attention.in_proj_bias is None, ".self_attn was passed bias=False"),
        (not layer.activation_relu_or_gelu, ".activation_relu_or_gelu was not True"),
        (layer.norm1.eps != layer.norm2.eps, ".norm1.eps was not equal to encoder_layer.norm2.eps"),
        (attention.num_heads % 2 == 1, ".self_attn.num_heads is odd"),
    )
    return next((f"encoder_layer{reason}" for holds, reason in reasons if holds), "")


class TransformerEncoder(Module):
    """Copies of an encoder layer, one on another. Padded places are computed like others, in every mode."""

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check
        why_not = _why_not_nested(encoder_layer)
        self.use_nested_tensor = enable_nested_tensor and not why_not
        if enable_nested_tensor and why_not:
            warnings.warn(
                f"enable_nested_tensor is True, but self.use_nested_tensor is False because {why_not}",
                stacklevel=user_level(),
            )

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """The sequences, encoded.

        Args:
            src: what is encoded, (S, N, E), or (N, S, E) with `batch_first`.
            mask: which places of the input see which, (L, L); None: all see all.
            src_key_padding_mask: True where the source is padding, (N, S); None: nowhere.
            is_causal: says that the mask is causal; None: found out from the mask.

        Shape:
            (L, N, E) -> the same.
        """
        mask, padding = _of_one_type(mask, "mask", src_key_padding_mask, src.dtype)
        for layer in self.layers:
            src = layer(
                src,
                src_mask=mask,
                is_causal=bool(is_causal),
                src_key_padding_mask=padding,
            )
        return src if self.norm is None else self.norm(src)  # type: ignore[no-any-return]


class TransformerDecoder(Module):
    """Copies of a decoder layer, one on another."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The target sequences, decoded.

        Args:
            tgt: what is decoded, (T, N, E), or (N, T, E) with `batch_first`.
            memory: what the encoder gave, (S, N, E).
            tgt_mask: the same for the target, (T, T); None: all see all.
            memory_mask: which places of the target see which of the memory, (T, S); None: all
                see all.
            tgt_key_padding_mask: True where the target is padding, (N, T); None: nowhere.
            memory_key_padding_mask: True where the memory is padding, (N, S); None: nowhere.
            tgt_is_causal: says that `tgt_mask` is causal; None: found out from the mask.
            memory_is_causal: says that `memory_mask` is causal. Default: False.

        Shape:
            (T, N, E), (S, N, E) -> (T, N, E).
        """
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)  # type: ignore[no-any-return]


class Transformer(Module):
    """An encoder, and a decoder that attends to what the encoder gives."""

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Callable[..., Tensor] | None = None,
        custom_decoder: Callable[..., Tensor] | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: DeviceLike | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        options: FactoryOptions = {"device": device, "dtype": dtype}
        given = (
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
            bias,
        )
        if custom_encoder is not None:
            self.encoder = custom_encoder
        else:
            layer: Module = TransformerEncoderLayer(*given, **options)
            norm = LayerNorm(d_model, layer_norm_eps, bias=bias, **options)
            self.encoder = TransformerEncoder(layer, num_encoder_layers, norm)
        if custom_decoder is not None:
            self.decoder = custom_decoder
        else:
            layer = TransformerDecoderLayer(*given, **options)
            norm = LayerNorm(d_model, layer_norm_eps, bias=bias, **options)
            self.decoder = TransformerDecoder(layer, num_decoder_layers, norm)
        self._reset_parameters()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The target sequences, decoded.

        Args:
            src: what is encoded, (S, N, E), or (N, S, E) with `batch_first`.
            tgt: what is decoded, (T, N, E), or (N, T, E) with `batch_first`.
            src_mask: which places of the source see which, (S, S): True is hidden, numbers are
                added; None: all see all.
            tgt_mask: the same for the target, (T, T); None: all see all.
            memory_mask: which places of the target see which of the memory, (T, S); None: all
                see all.
            src_key_padding_mask: True where the source is padding, (N, S); None: nowhere.
            tgt_key_padding_mask: True where the target is padding, (N, T); None: nowhere.
            memory_key_padding_mask: True where the memory is padding, (N, S); None: nowhere.
            src_is_causal: says that `src_mask` is causal; None: found out from the mask.
            tgt_is_causal: says that `tgt_mask` is causal; None: found out from the mask.
            memory_is_causal: says that `memory_mask` is causal. Default: False.

        Shape:
            (S, N, E), (T, N, E) -> (T, N, E).

        Raises:
            ShapeError.
        """
        self._check(src, tgt)
        memory = self.encoder(
            src,
            mask=src_mask,
            src_key_padding_mask=src_key_padding_mask,
            is_causal=src_is_causal,
        )
        found: Tensor = self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )
        return found

    def _check(self, src: Tensor, tgt: Tensor) -> None:
        batch = 0 if self.batch_first else 1
        if src.dim() == 3 and tgt.dim() == 3 and src.shape[batch] != tgt.shape[batch]:
            text = "the batch number of src and tgt must be equal"
        elif src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            text = "the feature number of src and tgt must be equal to d_model"
        else:
            return
        raise ShapeError(
            text,
            expected=f"one batch size, and {self.d_model} features",
            got=f"src {list(src.shape)}, tgt {list(tgt.shape)}",
            fix="check batch_first",
        )

    @staticmethod
    def generate_square_subsequent_mask(
        sz: int, device: DeviceLike | None = None, dtype: DType | None = None
    ) -> Tensor:
        """-inf where a place would see a later one, zero elsewhere.

        Args:
            sz: the number of places.
            device: the device; None: the default one.
            dtype: the dtype; None: the default one.

        Shape:
            (sz, sz).

        Example:
            >>> import weft
            >>> weft.nn.Transformer.generate_square_subsequent_mask(3)
            tensor([[0., -inf, -inf],
                    [0., 0., -inf],
                    [0., 0., 0.]])
        """
        blank = weft.full((sz, sz), float("-inf"), device=device, dtype=dtype)
        return blank.triu(1)
