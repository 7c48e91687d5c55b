# ruff: noqa: A002 - PyTorch's names
"""Functions of `weft` that PyTorch's kernels have, with modes by number: losses, bags, whole recurrent networks,
dropout in place, norms. They are composed of the functions and layers that have the same names under `nn`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft._build.lazy import later
from weft._typing import Scalar, Shape
from weft.engine.api.api_function import publish
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError, ArgumentTypeError, class_name
from weft.nn import functional
from weft.nn.functional.losses import margin as margin_losses
from weft.nn.module.members import own_values
from weft.tensor.arguments import need_tensor

weft: Any = later("weft")
nn: Any = later("weft.nn")

_REDUCTIONS = ("none", "mean", "sum")
_BAGS = ("sum", "mean", "max")


def _word(number: int, words: tuple[str, ...], name: str) -> str:
    """The word for a number. Errors: ValueError for another."""
    if number not in range(len(words)):
        raise ArgumentError(
            f"{number} is not a valid value for {name}",
            expected=", ".join(f"{index} ({word})" for index, word in enumerate(words)),
            got=repr(number),
            fix="pass one of these, or use the function of weft.nn.functional with the word",
        )
    return words[number]


def _reduced(reduction: int) -> str:
    return _word(reduction, _REDUCTIONS, "reduction")


# -- losses --------------------------------------------------------------------------------------------------------


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: int = 0,
) -> Any:
    """`nn.functional.binary_cross_entropy_with_logits`."""
    return functional.binary_cross_entropy_with_logits(
        input, target, weight, reduction=_reduced(reduction), pos_weight=pos_weight
    )


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Any:
    """`nn.functional.cosine_embedding_loss`."""
    word = _reduced(reduction)
    return functional.cosine_embedding_loss(input1, input2, target, margin, reduction=word)


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int = 0,
    reduction: int = 0,
    zero_infinity: bool = False,
) -> Any:
    """`nn.functional.ctc_loss`."""
    lengths = (input_lengths, target_lengths)
    return functional.ctc_loss(
        log_probs, targets, *lengths, blank, _reduced(reduction), zero_infinity
    )


def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 0
) -> Any:
    """`nn.functional.hinge_embedding_loss`."""
    return functional.hinge_embedding_loss(input, target, margin, reduction=_reduced(reduction))


def kl_div(input: Tensor, target: Tensor, reduction: int = 0, *, log_target: bool = False) -> Any:
    """`nn.functional.kl_div`."""
    loss = functional.kl_div(input, target, reduction="none", log_target=log_target)
    word = _reduced(reduction)
    return loss if word == "none" else getattr(loss, word)()


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Any:
    """`nn.functional.margin_ranking_loss`, which also takes tensors of different ranks."""
    return margin_losses.ranking_loss(input1, input2, target, margin, _reduced(reduction))


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int
) -> Any:
    """`nn.functional.poisson_nll_loss`."""
    word = _reduced(reduction)
    return functional.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=word)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-06,
    swap: bool = False,
    reduction: int = 0,
) -> Any:
    """`nn.functional.triplet_margin_loss`."""
    word = _reduced(reduction)
    three = (anchor, positive, negative)
    return functional.triplet_margin_loss(*three, margin, p, eps, swap, reduction=word)


# -- tables --------------------------------------------------------------------------------------------------------


def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Any, Any, Any, Any]:
    """(`nn.functional.embedding_bag`, the bag of each index, the size of each bag, what PyTorch's backward of maxima
    reads). Of sums PyTorch leaves the others out: empty, and zeros. Only the result has a gradient."""
    for name, part in (("weight", weight), ("indices", indices), ("offsets", offsets)):
        need_tensor("embedding_bag", part, name)
    if per_sample_weights is not None:
        need_tensor("embedding_bag", per_sample_weights, "per_sample_weights")
    word = _word(mode, _BAGS, "mode")
    result = functional.embedding_bag(
        indices,
        weight,
        offsets,
        scale_grad_by_freq=scale_grad_by_freq,
        mode=word,
        sparse=sparse,
        per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset,
        padding_idx=padding_idx,
    )
    if word == "sum":
        return (
            result,
            offsets.new_empty((0,)),
            offsets.new_zeros(offsets.shape),
            offsets.new_zeros(offsets.shape),
        )
    starts = offsets[:-1] if include_last_offset else offsets
    places = weft.arange(indices.numel(), dtype=starts.dtype)
    bags = weft.searchsorted(starts, places, right=True) - 1
    kept = weft.ones_like(indices) if padding_idx is None else (indices != padding_idx).long()
    sizes = weft.zeros_like(starts).index_add(0, bags, kept.to(starts.dtype))
    return result, bags, sizes, sizes


def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Any:
    """Scale the rows that `indices` name down to `max_norm`, in place."""
    rows = indices.unique()
    with weft.no_grad():
        norms = input[rows].norm(norm_type, dim=1, keepdim=True)
        scale = weft.where(norms > max_norm, max_norm / (norms + 1e-7), 1.0)
        input[rows] = input[rows] * scale
    return input


# -- recurrent networks ----------------------------------------------------------------------------------------------


def _check_recurrent(name: str, arguments: tuple[Any, ...]) -> None:
    """Errors: TypeError for anything but the nine arguments of a batch or of a packed one."""
    lists = [
        index for index in (2, 3) if isinstance((*arguments, *[None] * 4)[index], (list, tuple))
    ]
    if len(arguments) == 9 and lists and isinstance(arguments[lists[-1] + 1], bool):
        need_tensor(name, arguments[0])
        for weight in arguments[lists[-1]]:
            need_tensor(name, weight, "params")
        return
    raise ArgumentTypeError(
        f"{name}(): received an invalid combination of arguments",
        expected="(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first), or "
        "(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional)",
        got=", ".join(type(part).__name__ for part in arguments) or "none",
        fix=f"pass all nine, or use weft.nn.{name.upper()}",
    )


def _recurrent(kind: str, arguments: tuple[Any, ...], **options: object) -> Any:
    """A network of flat weights over a batch, or over the entries of a packed one, where sizes come second."""
    _check_recurrent(kind.lower(), arguments)
    packed = not isinstance(arguments[3], bool)
    x, sizes, hx, params, *rest = arguments if packed else (arguments[0], None, *arguments[1:])
    biases, layers, dropout, train, both, *first = rest
    state = hx if kind != "LSTM" else tuple(hx)
    hidden = (hx[0] if kind == "LSTM" else hx).shape[-1]
    if kind == "LSTM" and hx[1].shape[-1] != hidden:
        options["proj_size"], hidden = hidden, hx[1].shape[-1]
    batched = bool(first[0]) if first else False
    module = getattr(nn, kind)(
        x.shape[-1],
        hidden,
        layers,
        bias=biases,
        batch_first=batched,
        dropout=dropout,
        bidirectional=both,
        device="meta",
        **options,
    ).train(train)
    names = [name for name, _ in module.named_parameters()]
    given = nn.utils.rnn.PackedSequence(x, sizes) if packed else x
    own_values(module).update(zip(names, params, strict=True))
    out, last = module(given, state)
    return out.data if packed else out, last


def lstm(*arguments: Tensor | float | Sequence[Tensor]) -> tuple[Any, Any, Any]:
    """`nn.LSTM` of flat weights: (input, (h, c), weights, has_biases, layers, dropout, train, bidirectional,
    batch_first), or (data, batch_sizes, (h, c), ... bidirectional) of a packed batch. Returns (output, h, c)."""
    out, last = _recurrent("LSTM", arguments)
    return out, *last


def gru(*arguments: Tensor | float | list[Tensor]) -> tuple[Any, Any]:
    """`nn.GRU` of flat weights; arguments as `lstm`'s, with one state. Returns (output, h)."""
    return _recurrent("GRU", arguments)


def rnn_tanh(*arguments: Tensor | float | list[Tensor]) -> tuple[Any, Any]:
    """`nn.RNN` of flat weights, as `gru`."""
    return _recurrent("RNN", arguments, nonlinearity="tanh")


def rnn_relu(*arguments: Tensor | float | list[Tensor]) -> tuple[Any, Any]:
    """`nn.RNN` with relu of flat weights, as `gru`."""
    return _recurrent("RNN", arguments, nonlinearity="relu")


# -- convolution, pooling, sampling ----------------------------------------------------------------------------------


def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Any:
    """The convolution, or the transposed one, of as many dimensions as the weight has."""
    name = f"conv{'_transpose' if transposed else ''}{weight.dim() - 2}d"
    if transposed:
        rest = (stride, padding, output_padding, groups, dilation)
        return getattr(functional, name)(input, weight, bias, *rest)
    return getattr(functional, name)(input, weight, bias, stride, padding, dilation, groups)


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Any:
    """A convolution along the first dimension. Shapes: (T, B, in), (k, in, out) -> (T', B, out)."""
    made = functional.conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return made.permute(2, 0, 1)


def adaptive_max_pool1d(input: Tensor, output_size: int | Sequence[int]) -> tuple[Any, Any]:
    """(maxima, where they stand) in so many parts."""
    return functional.adaptive_max_pool1d(input, output_size, True)


def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
) -> tuple[Any, Any]:
    """(maxima of windows, where they stand)."""
    stride = stride or None  # an empty list: the kernel's size
    return functional.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Any:
    """`nn.functional.affine_grid`."""
    return functional.affine_grid(theta, size, align_corners)


# -- dropout ---------------------------------------------------------------------------------------------------------


def dropout_(input: Tensor, p: float, train: bool) -> Any:
    """`dropout` in place."""
    return functional.dropout(input, p, train, True)


def alpha_dropout_(input: Tensor, p: float, train: bool) -> Any:
    """`alpha_dropout` in place."""
    return functional.alpha_dropout(input, p, train, True)


def feature_dropout_(input: Tensor, p: float, train: bool) -> Any:
    """`feature_dropout` in place."""
    return input.copy_(weft.feature_dropout(input, p, train))


def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Any:
    """`feature_alpha_dropout` in place."""
    return functional.feature_alpha_dropout(input, p, train, True)


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Any, Any]:
    """(what is left, scaled; which elements are left)."""
    need_tensor("native_dropout", input)
    if train is False or p == 0:
        return input.clone(), weft.ones_like(input, dtype=weft.bool)
    kept = weft.rand_like(input.detach()) >= p
    return input * kept / (1 - p) if p < 1 else input * 0, kept


# -- norms -----------------------------------------------------------------------------------------------------------


def frobenius_norm(
    input: Tensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    out: Tensor | None = None,
) -> Any:
    """The root of the sum of squares over dimensions; over all where none are given."""
    axes = None if dim is None or dim in ((), []) else dim
    return weft.linalg.vector_norm(input, 2, axes, keepdim, out=out)


def nuclear_norm(
    input: Tensor, dim: Shape = (-2, -1), keepdim: bool = False, *, out: Tensor | None = None
) -> Any:
    """The sum of the singular values of matrices."""
    need_tensor("nuclear_norm", input)
    if isinstance(dim, bool):  # (input, keepdim)
        dim, keepdim = (-2, -1), dim
    if not isinstance(dim, (tuple, list)) or len(dim) != 2:
        raise ArgumentTypeError(
            f"nuclear_norm(): argument 'dim' must be tuple of ints, not {class_name(dim)}",
            expected="two dimensions",
            got=repr(dim),
            fix="pass dim=(-2, -1)",
        )
    return weft.linalg.matrix_norm(input, "nuc", dim, keepdim, out=out)


def native_norm(
    input: Tensor,
    p: Scalar | None = 2,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    dtype: DType | None = None,
) -> Any:
    """`norm`."""
    return weft.norm(input, 2 if p is None else p, dim, keepdim, dtype=dtype)


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Any:
    """The norm over all dimensions but one, which stays; over all of them for -1."""
    need_tensor("norm_except_dim", v, "v")
    if dim == -1:
        return v.norm(pow)
    axes = tuple(axis for axis in range(v.dim()) if axis != dim % v.dim())
    return v.norm(pow, dim=axes, keepdim=True) if axes else v.abs()


# -- others ----------------------------------------------------------------------------------------------------------


def get_device(input: Tensor) -> int:
    """The index of the device: -1, the CPU."""
    return int(input.get_device())


publish(globals())
