"""Singular values, as far as norms need them: NumPy decomposes matrices that are read at the call.

The derivative is recorded in the singular vectors, which are outputs of the same record: so it can be differentiated
again. Where singular values repeat, the gradient of what does not depend on the choice of vectors is right, or nan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.autograd.backward import grad
from weft.autograd.function import Function
from weft.engine.dispatch.core_hooks import shapes_without_values
from weft.engine.frontend.meta import is_on_meta
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import tape as tapes
from weft.functional.linalg.factored import (
    adjoint,
    are_plain,
    diagonal_matrix,
    divided,
    skew,
    thin_svd,
)
from weft.ops.primitives import full, where

if TYPE_CHECKING:
    from weft.autograd.custom.context import FunctionCtx


def singular_values(matrix: Tensor) -> Any:
    """The singular values of matrices in the last two dimensions, largest first. Reads the values."""
    if is_on_meta(matrix):
        return shapes_without_values(singular_values, (matrix,), {})
    return LinalgSvd.apply(matrix)[1]


class LinalgSvd(Function):
    """The thin decomposition A = U diag(S) V^H."""

    _ending = "Backward0"

    @classmethod
    def apply(cls, *arguments: Tensor, **keywords: Tensor) -> Any:
        """The factors; where nothing follows them, without a record."""
        if are_plain(arguments):
            return thin_svd(*arguments)
        return super().apply(*arguments, **keywords)

    @staticmethod
    def forward(ctx: FunctionCtx, matrix: Tensor) -> Any:
        """(U, S, V^H)."""
        made = thin_svd(matrix)
        ctx.save_for_backward(*made)
        ctx.set_materialize_grads(False)
        return made

    @staticmethod
    def backward(
        ctx: FunctionCtx, left: Tensor | None, values: Tensor | None, right: Tensor | None
    ) -> Any:
        """Source: Wan and Zhang (2019) for complex matrices; only what does not depend on the choice of phases."""
        u, s, vh = ctx.saved_tensors
        return _pulled(u, s, vh, left, values, right)

    @staticmethod
    def jvp(ctx: FunctionCtx, tangent: Tensor) -> Any:
        """The transpose of backward, which is linear in the cotangents."""
        saved = ctx.saved_tensors
        if tangent is None:
            return None, None, None
        mode = tapes.tape().mode
        tracked, mode.grad = mode.grad, True
        try:
            seeds = [full(part._shape, 0, part._dtype).detach() for part in saved]
            for seed in seeds:
                seed.requires_grad = True
            u, s, vh = saved
            left, values, right = seeds
            pulled = _pulled(u, s, vh, left, values, right)
            return grad(pulled, seeds, tangent, create_graph=True, materialize_grads=True)
        finally:
            mode.grad = tracked


def _pulled(
    u: Tensor,
    s: Tensor,
    vh: Tensor,
    left: Tensor | None,
    values: Tensor | None,
    right: Tensor | None,
) -> Any:
    """The cotangent of A. With a and b half the sum and difference of what the vectors on both sides turn, it is
    a / (s_j - s_i) + b / (s_j + s_i) off the diagonal, where only the first is in question for equal values;
    on the diagonal the second turns phases."""
    inner = None if values is None else cast(diagonal_matrix(values), u.dtype)
    row, column = s.unsqueeze(-2), s.unsqueeze(-1)
    if left is not None or right is not None:
        zero = full((s.shape[-1],) * 2, 0, u.dtype)
        first = zero if left is None else adjoint(u) @ left
        second = zero if right is None else vh @ adjoint(right)
        turned = 0.5 * divided(first + second, row - column, values)
        both = row + column
        turned = turned + 0.5 * skew(first - second) / where(both == 0, 1, both)
        inner = turned if inner is None else inner + turned
    if inner is None:
        return None
    result = u @ inner @ vh
    if left is not None and u.shape[-2] > u.shape[-1]:
        result = result + (left - u @ (adjoint(u) @ left)) / row @ vh
    if right is not None and vh.shape[-1] > vh.shape[-2]:
        result = result + u @ ((right - (right @ adjoint(vh)) @ vh) / column)
    return result
