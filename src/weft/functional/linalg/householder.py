# ruff: noqa: A001, A002 - PyTorch's names
"""Householder reflections as LAPACK leaves them: geqrf, and products with the Q that they stand for."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from weft.engine.api.api_function import publish
from weft.engine.api.call_cache import ComposedPart
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.errors import ShapeError
from weft.functional.linalg.factored import adjoint, need_matrices, need_precise, need_same
from weft.functional.linalg.lapack_primitives import by_matrix, composed, valued
from weft.functional.support import host, lapack_batches, matrix_batches
from weft.functional.support.blas_threads import limited
from weft.functional.support.memory_formats import columns_first
from weft.functional.support.not_differentiable import underived
from weft.functional.support.return_types import result_type
from weft.functional.support.variants import given
from weft.ops.primitives import elementwise as call
from weft.tensor.arguments import describe, need_tensor

Geqrf = result_type("geqrf")


def geqrf(input: Tensor, *, out: Tensor | None = None) -> Any:
    """(a, tau): R above the diagonal and the Householder vectors below it, as LAPACK leaves them."""
    need_matrices("geqrf", input, "input", False)
    found = host.answering(lapack_batches.reflectors, matrix_batches.matrices(input))
    a, tau = found[0].tensor(), host.from_numpy(found[1])
    results = (underived("geqrf", part, input) for part in (columns_first(a), tau))
    return given(out, Geqrf(results), converts=True)


@ComposedPart
def _reflected(
    name: str, A: Tensor, tau: Tensor, start: Tensor, backwards: bool, turned: bool
) -> Any:
    """H_1 H_2 ... H_k applied to `start` from the left (its adjoint if `turned`)."""
    count = tau._shape[-1]
    order = range(count - 1, -1, -1) if backwards else range(count)
    unit = cast(host.from_numpy(np.eye(A._shape[-2], A._shape[-1])), A._dtype)
    vectors = A.tril(-1) + unit
    for k in order:
        v = vectors[..., k : k + 1]
        scale = tau[..., k : k + 1].unsqueeze(-1)
        scale = call("conj", scale) if turned and scale._dtype.is_complex else scale
        start = start - scale * (v @ (adjoint(v) @ start))
    return start


def householder_product(A: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Any:
    """The first columns of the product of Householder reflections, given as LAPACK leaves them."""
    need_matrices("linalg.householder_product", A, square=False)
    need_same(
        "torch.linalg.householder_product: tau dtype {1} does not match input dtype {0}", A, tau
    )
    rows, columns = A._shape[-2:]
    if rows < columns or tau._shape[-1] > columns or tau._shape[:-1] != A._shape[:-2]:
        raise ShapeError(
            "torch.linalg.householder_product: input.shape[-2] must be greater than or equal to input.shape[-1], and "
            "tau.shape[-1] must be less than or equal to input.shape[-1]",
            expected="A (..., m, n) with m >= n, and tau (..., k) with k <= n",
            got=f"{describe('A', A)}, {describe('tau', tau)}",
            fix="pass the results of geqrf",
        )
    made = valued("LinalgHouseholderProduct", _q_columns, composed(_reflected_identity))(A, tau)
    return given(out, columns_first(made))


def _reflected_identity(A: Tensor, tau: Tensor) -> Any:
    """`householder_product` as a composition."""
    start = host.from_numpy(np.eye(A._shape[-2], A._shape[-1]), A._dtype).expand(A._shape)
    made = _reflected("householder_product", A, tau, start, True, False)
    if made is start:  # no reflections: a gradient of 0
        made = call("clone", start) + 0 * A
    return made


def _q_columns(vectors: np.ndarray, scales: np.ndarray) -> Any:
    """The columns of Q by LAPACK."""
    return matrix_batches.array_of(
        host.answering(
            lapack_batches.product_of_reflectors,
            matrix_batches.matrices(vectors),
            scales,
            vectors.shape[-1],
        )
    )


def _check_ormqr(input: Tensor, tau: Tensor, other: Tensor, side: int) -> None:
    """Errors: ShapeError where the operands of `ormqr` do not fit together."""
    for name, x, least in (("input", input, 2), ("other", other, 2), ("tau", tau, 1)):
        if len(need_tensor("ormqr", x, name)._shape) < least:
            _refuse_ormqr(f"{name} must have at least {least} dimensions.", input, tau, other)
    if other._shape[side] != input._shape[-2]:
        text = f"other.shape[{side}] must be equal to input.shape[-2]"
    elif tau._shape[-1] != min(other._shape[side], input._shape[-1]):
        text = f"tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1])"
    elif tau._shape[:-1] != input._shape[:-2]:
        text = f"batch dimensions of tau to be equal to input.shape[:-2], but got {list(tau._shape[:-1])}"
        text = f"Expected {text}"
    else:
        return
    _refuse_ormqr(text, input, tau, other)


def _refuse_ormqr(text: str, input: Tensor, tau: Tensor, other: Tensor) -> NoReturn:
    raise ShapeError(
        f"torch.ormqr: {text}",
        expected="what geqrf gives, and as many rows (columns for left=False) in other as in input",
        got=f"{describe('input', input)}, {describe('tau', tau)}, {describe('other', other)}",
        fix="pass the results of geqrf",
    )


_ORMQR = "torch.ormqr: Expected input and {0} to have the same dtype, but input has dtype{{0}} and {0} has dtype {{1}}"


def ormqr(
    input: Tensor,
    tau: Tensor,
    other: Tensor,
    left: bool = True,
    transpose: bool = False,
    *,
    out: Tensor | None = None,
) -> Any:
    """Q C, Q^H C, C Q or C Q^H with the Q of Householder reflections and C = `other`."""
    _check_ormqr(input, tau, other, -2 if left else -1)
    need_precise("ormqr", input, "input")
    need_same(_ORMQR.format("tau"), input, tau)
    need_same(_ORMQR.format("other"), input, other)
    vectors = input[..., : tau._shape[-1]]

    def reflected(vectors: Tensor, tau: Tensor, other: Tensor) -> Any:
        """The same as a composition."""
        if left:
            return _reflected("ormqr", vectors, tau, other, not transpose, transpose)
        turned = _reflected("ormqr", vectors, tau, adjoint(other), transpose, not transpose)
        return adjoint(turned)

    if input._shape[:-2] != other._shape[:-2]:
        return given(out, columns_first(reflected(vectors, tau, other)))
    compute = by_matrix(lambda v, scale, c: _times_q(v, scale, c, left, transpose))
    return given(
        out, columns_first(valued("Ormqr", compute, composed(reflected))(vectors, tau, other))
    )


def _times_q(
    vectors: np.ndarray, tau: np.ndarray, other: np.ndarray, left: bool, turned: bool
) -> Any:
    """A product with Q by LAPACK."""
    if not tau.size or not other.size:
        return other
    general = vectors.dtype.kind == "c"
    name, turn = ("unmqr", "C") if general else ("ormqr", "T")
    work = max(1, lapack_batches.BLOCK * other.shape[1 if left else 0])
    sides = "L" if left else "R", turn if turned else "N"
    multiply = host.raw_routine(name, vectors.dtype)
    return limited(lambda a: multiply(*sides, a, tau, other, work)[0])(vectors)


publish(globals())
