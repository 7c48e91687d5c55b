"""Helpers for users' own distributions: broadcasting, probabilities and log odds, lower triangles."""

from __future__ import annotations

import weft
from weft import Tensor
from weft._typing import DeviceLike, Shape
from weft.distributions.distribution import as_logits, broadcast_all, clamp_probs, lazy_property
from weft.distributions.distribution import sum_rightmost as _sum_rightmost  # noqa: F401 - PyTorch's name
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError

__all__ = [
    "broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits", "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]  # fmt: skip


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities of log odds, or of log probabilities along the last dimension that need not be normalised.

    Args:
        logits: logarithms of odds, or of probabilities.
        is_binary: of two classes each, not of all in the last dimension. Default: False.

    Example:
        >>> import weft
        >>> weft.distributions.utils.logits_to_probs(weft.tensor([0.0, 0.0]))  # softmax
        tensor([0.5000, 0.5000])
    """
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Log odds, or log probabilities; those of 0 and 1 are finite.

    Args:
        probs: probabilities.
        is_binary: of two classes each, not of all in the last dimension. Default: False.

    Example:
        >>> import weft
        >>> weft.distributions.utils.probs_to_logits(weft.tensor([0.25, 0.75]), is_binary=True)
        tensor([-1.0986,  1.0986])
    """
    return as_logits(probs, is_binary)


def _standard_normal(shape: Shape, dtype: DType | None, device: DeviceLike | None) -> Tensor:
    """Standard normal numbers."""
    return weft.randn(shape, dtype=dtype, device=device)


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The elements of lower triangles (..., n, n) up to diagonal `diag`, by rows. Errors: ValueError on `diag`.

    Args:
        mat: matrices, in the last two dimensions.
        diag: the highest diagonal that counts. Default: 0.

    Example:
        >>> import weft
        >>> weft.distributions.utils.tril_matrix_to_vec(weft.tensor([[1.0, 0.0], [2.0, 3.0]]))
        tensor([1., 2., 3.])
    """
    size = mat.shape[-1]
    if not -size <= diag < size:
        raise ArgumentError(
            f"diag ({diag}) provided is outside [{-size}, {size - 1}].",
            expected=f"a diagonal in [{-size}, {size - 1}]",
            got=str(diag),
            fix="pass diag=0, which is the whole lower triangle",
        )
    rows, columns = weft.tril_indices(size, size, diag)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Lower triangular matrices (..., n, n) whose elements up to diagonal `diag` are `vec`'s, by rows; zeros above.

    Args:
        vec: vectors, in the last dimension.
        diag: the highest diagonal that counts. Default: 0.

    Errors: ValueError where the number of elements is that of no such triangle.

    Example:
        >>> import weft
        >>> weft.distributions.utils.vec_to_tril_matrix(weft.tensor([1.0, 2.0, 3.0]))
        tensor([[1., 0.],
                [2., 3.]])
    """
    count = vec.shape[-1]
    # The n of n (n + 1) / 2 elements, changed by what the diagonal adds or leaves out.
    root = ((1 + 2 * diag) ** 2 + 8 * count + 4 * abs(diag) * (diag + 1)) ** 0.5
    size = (root - (1 + 2 * diag)) / 2
    if abs(size - round(size)) > weft.finfo(vec.dtype).eps:
        raise ArgumentError(
            f"The size of last dimension is {count} which cannot be expressed as the lower triangular part of a "
            "square D x D matrix.",
            expected=f"as many elements as tril_indices(n, n, {diag}) has",
            got=f"{count} elements",
            fix="pass what tril_matrix_to_vec gives",
        )
    made = vec.new_zeros((*vec.shape[:-1], round(size), round(size)))
    rows, columns = weft.tril_indices(round(size), round(size), diag)
    made[..., rows, columns] = vec
    return made
