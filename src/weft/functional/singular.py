"""Singular values, as far as norms need them: NumPy decomposes matrices that are read at the call.

The derivative is recorded in the singular vectors, which are outputs of the same record: so it can be differentiated
again. Where singular values repeat, the first derivative of their sum is right, and the second is not finite.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.autograd.backward import grad
from weft.autograd.function import Function
from weft.functional import host
from weft.graph import tape as tapes
from weft.graph.recording import cast
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import full, where


def singular_values(matrix: Any) -> Any:
    """The singular values of matrices in the last two dimensions, largest first. Reads the values."""
    return LinalgSvd.apply(matrix)[1]


def _adjoint(x: Any) -> Any:
    turned = x.transpose(-2, -1)
    return call("conj", turned) if x._dtype.is_complex else turned


def _skew(x: Any) -> Any:
    return x - _adjoint(x)


class LinalgSvd(Function):
    """The thin decomposition A = U diag(S) V^H."""

    @staticmethod
    def forward(ctx: Any, matrix: Any) -> Any:
        """(U, S, V^H)."""
        arrays = np.linalg.svd(host.to_numpy(matrix), full_matrices=False)
        made = tuple(host.from_numpy(np.ascontiguousarray(array)) for array in arrays)
        ctx.save_for_backward(*made)
        ctx.set_materialize_grads(False)
        return made

    @staticmethod
    def backward(ctx: Any, left: Any, values: Any, right: Any) -> Any:
        """Source: Wan and Zhang (2019) for complex matrices; only what does not depend on the choice of phases."""
        u, s, vh = ctx.saved_tensors
        return _pulled(u, s, vh, left, values, right)

    @staticmethod
    def jvp(ctx: Any, tangent: Any) -> Any:
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


def _diagonal(x: Any) -> Any:
    """Square matrices with given diagonals."""
    return where(host.from_numpy(np.eye(x.shape[-1], dtype=bool)), x.unsqueeze(-2), 0)


def _pulled(u: Any, s: Any, vh: Any, left: Any, values: Any, right: Any) -> Any:
    """The cotangent of A."""
    inner = None if values is None else cast(_diagonal(values), u.dtype)
    row, column = s.unsqueeze(-2), s.unsqueeze(-1)
    if left is not None or right is not None:
        size = s.shape[-1]
        gap = (row * row - column * column) + host.from_numpy(np.eye(size), s.dtype)
        turned = full((size, size), 0, u.dtype)
        if left is not None:
            spin = _skew(_adjoint(u) @ left)
            turned = turned + spin / gap * row
            if u._dtype.is_complex:  # U and V turn their phases together
                phases = spin.diagonal(0, -2, -1) / (2 * s)
                turned = turned + _diagonal(phases)
        if right is not None:
            turned = turned + column * (_skew(vh @ _adjoint(right)) / gap)
        inner = turned if inner is None else inner + turned
    if inner is None:
        return None
    result = u @ inner @ vh
    if left is not None and u.shape[-2] > u.shape[-1]:
        result = result + (left - u @ (_adjoint(u) @ left)) / row @ vh
    if right is not None and vh.shape[-1] > vh.shape[-2]:
        result = result + u @ ((right - (right @ _adjoint(vh)) @ vh) / column)
    return result
