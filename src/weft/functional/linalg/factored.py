# ruff: noqa: A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Parts of factorizations: Functions with one rule for the cotangents of their tensors, on values read at the call
(`Factored`); checks of arguments and of what LAPACK reports; parts of matrices that rules take.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import cython
import numpy as np

from weft._build.compiled import require
from weft.autograd.backward import grad
from weft.autograd.function import Function
from weft.engine.frontend.meta import is_on_meta
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import tape as tapes
from weft.engine.ir.dtype import DType
from weft.errors import DTypeError, LinAlgError, ShapeError
from weft.functional.support import host, lapack_batches, lapack_decompositions
from weft.functional.support.blas_threads import limited
from weft.functional.support.matrix_batches import Matrices, leads_agree, matrices
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import full, transpose, where
from weft.tensor.arguments import TYPE_NAMES, describe, need_tensor

if TYPE_CHECKING:
    from weft._typing import Array

    Matrix = Tensor | Matrices  # what rules are made of: `Factored.backward`

require(__name__, cython.compiled)


# -- arguments -----------------------------------------------------------------------------------------------------


def need_matrices(name: str, x: Tensor, argument: str = "A", square: bool = True) -> Any:
    """Errors: ShapeError, DTypeError on what is no batch of (square) matrices of numbers that LAPACK takes."""
    need_tensor(name, x, argument)
    if len(x._shape) < 2:
        raise ShapeError(
            f"{name}: The input tensor {argument} must have at least 2 dimensions.",
            expected="matrices in the last two dimensions",
            got=describe(argument, x),
            fix="add dimensions with unsqueeze",
        )
    if square and x._shape[-1] != x._shape[-2]:
        raise ShapeError(
            f"{name}: {argument} must be batches of square matrices, but they are {x._shape[-2]} by {x._shape[-1]} "
            "matrices",
            expected="square matrices",
            got=describe(argument, x),
            fix="use linalg.lstsq or linalg.pinv for others",
        )
    need_precise(name, x, argument)
    return x


def need_precise(name: str, x: Tensor, argument: str = "A") -> None:
    """Errors: DTypeError on integers and half types."""
    if x._dtype.category < 2:
        text = f"{name}: Expected a floating point or complex tensor as input. Got {TYPE_NAMES[x._dtype.name]}"
    elif x._dtype.itemsize == 2:
        text = f"{name}: Low precision dtypes not supported. Got {TYPE_NAMES[x._dtype.name]}"
    else:
        return
    raise DTypeError(
        text,
        expected="float32, float64, complex64 or complex128",
        got=describe(argument, x),
        fix="convert with .float()",
    )


def need_same(words: str, a: Tensor, b: Tensor) -> None:
    """Errors: DTypeError where two operands differ in type; the words may show the types {0} and {1}."""
    if a._dtype is not b._dtype:
        raise DTypeError(
            words.format(TYPE_NAMES[a._dtype.name], TYPE_NAMES[b._dtype.name]),
            expected="one dtype",
            got=f"{describe('A', a)}, {describe('B', b)}",
            fix="convert one with .to(other.dtype)",
        )


# LAPACK's drivers, of a right side {0} and a matrix {1}.
OTHER_TYPE = (
    "Expected b and A to have the same dtype, but found b of type {0} and A of type {1} instead."
)


def failure(name: str, text: str, got: str, fix: str) -> LinAlgError:
    """The error of a matrix that has no such factors."""
    return LinAlgError(f"{name}: {text}", expected="another matrix", got=got, fix=fix)


# -- parts of matrices ---------------------------------------------------------------------------------------------


def adjoint(x: Matrix) -> Any:
    """The conjugate transpose; of a tensor as a value of its own: a view would give the operand a storage, inside a
    derivative."""
    if isinstance(x, Matrices):
        return x.adjoint()
    turned = transpose(x)
    return call("conj", turned) if x._dtype.is_complex else turned


def mirrored(x: Matrix) -> Any:
    """The Hermitian matrices with the lower triangles of others, and the real parts of their diagonals."""
    both = x.tril() + adjoint(x.tril(-1))
    return 0.5 * (both + adjoint(both)) if _is_complex(both) else both


def _is_complex(x: Matrix) -> bool:
    return x.is_complex if isinstance(x, Matrices) else x._dtype.is_complex


def diagonal_matrix(x: Tensor) -> Any:
    """Square matrices with given diagonals."""
    return where(host.from_numpy(np.eye(x.shape[-1], dtype=bool)), x.unsqueeze(-2), 0)


def identity(size: int, dtype: DType) -> Any:
    """The identity matrix."""
    return host.from_numpy(np.eye(size), dtype)


def skew(x: Tensor) -> Any:
    """x - x^H."""
    return x - adjoint(x)


def divided(turned: Tensor, gap: Tensor, values: Tensor | None) -> Any:
    """(turned - turned^H) / gap off the diagonal, with the inner products `turned` of vectors and their cotangents.

    Where two values coincide it is 0 if the gradient does not depend on how their vectors were chosen: what is divided
    is 0 there, and the values have no cotangent, or the vectors none. It is nan where it does, or where that cannot be
    told: a function of the matrix through both would have a limit that the cotangents do not hold.
    """
    part = skew(turned)
    eps = float(np.finfo(gap._dtype.numpy).eps) * 16
    same = call("abs", gap) <= eps * _largest(call("abs", gap))
    same = same | (gap == 0)
    size = call("abs", turned)
    limit = eps**0.5 * _largest(size)
    chosen = call("abs", part) > limit
    if values is not None and values.numel():
        weight = call("abs", values)
        heavy = weight > eps**0.5 * weight.detach().amax(-1, keepdim=True)
        chosen = chosen | ((size > limit) & (heavy.unsqueeze(-1) | heavy.unsqueeze(-2)))
    doubtful = cast(where(chosen, float("nan"), where(chosen, 1.0, 0.0)), part._dtype)
    diagonal = host.from_numpy(np.eye(gap._shape[-1], dtype=bool))
    return where(diagonal, 0, where(same, doubtful, part / where(same, 1, gap)))


def _largest(x: Tensor) -> Any:
    """The largest element of each matrix."""
    if 0 in x._shape:
        return full((*x._shape[:-2], 1, 1), 0, x._dtype)
    return x.detach().amax((-2, -1), keepdim=True)


# -- Functions -----------------------------------------------------------------------------------------------------


def keep(ctx: Any, vjp: object, outputs: tuple[Tensor, ...], *saved: Tensor) -> Any:
    """At the end of forward: what the derivative needs, if there is to be one."""
    if ctx is NO_RECORD:
        return outputs if len(outputs) > 1 else outputs[0]
    ctx.save_for_backward(*saved)
    ctx.set_materialize_grads(False)
    ctx.rule = vjp
    ctx.types = [(x._shape, x._dtype) for x in outputs]
    return outputs if len(outputs) > 1 else outputs[0]


class _NoRecord:
    """The context of a `forward` whose result nothing follows: it forgets what it is told."""

    def __setattr__(self, name: str, value: object) -> None:
        pass

    def mark_non_differentiable(self, *outputs: Tensor) -> None:
        """Nothing."""


NO_RECORD = _NoRecord()


def is_plain(x: Tensor) -> bool:
    """True if nothing follows the functions of a value: no gradient, no tangent, no transform."""
    return are_plain((x,))


def are_plain(arguments: tuple[object, ...]) -> bool:
    """True if nothing follows the functions of the tensors among some arguments."""
    mode = tapes.tape().mode
    if not mode.is_untransformed():
        return False
    return not (mode.grad and any([isinstance(x, Tensor) and x.requires_grad for x in arguments]))


class Factored(Function):
    """A Function with one rule: `rule(saved, *cotangents)` gives the cotangents of its tensors."""

    _ending = "Backward0"
    of_values = False  # True: the rule reads values, and is made of what `Matrices` have too

    @classmethod
    def apply(cls, *arguments: object, **keywords: object) -> Any:
        """The value; where nothing follows it, without a record."""
        if are_plain(arguments):
            return cls.forward(NO_RECORD, *arguments, **keywords)
        return super().apply(*arguments, **keywords)

    @classmethod
    def backward(cls, ctx: Any, *cotangents: Tensor | None) -> Any:
        """The rule; nothing where no cotangent arrives. A rule that reads values runs on values where nothing follows
        its result: recorded, each of its reads would be a program of its own."""
        if all(g is None for g in cotangents):
            return (None,) * len(ctx.needs_input_grad)
        saved, mode = ctx.saved_tensors, tapes.tape().mode
        if mode.grad or not cls.of_values or not mode.is_untransformed():
            return ctx.rule(saved, *cotangents)
        known = tuple([matrices(x) for x in saved])
        moved = [None if g is None else matrices(g) for g in cotangents]
        if not leads_agree([*known, *moved]):
            return ctx.rule(saved, *cotangents)
        pulled = host.answering(_pulled, known[0], ctx.rule, known, moved)
        parts = pulled if isinstance(pulled, tuple) else (pulled,)
        return tuple([None if part is None else part.tensor() for part in parts])

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> Any:
        """The transpose of the rule, which is linear in the cotangents."""
        mode = tapes.tape().mode
        tracked, mode.grad = mode.grad, True
        try:
            seeds = [full(shape, 0, dtype).detach() for shape, dtype in ctx.types]
            for seed in seeds:
                seed.requires_grad = seed._dtype.category > 1
            pulled = ctx.rule(ctx.saved_tensors, *seeds)
            parts = list(pulled) if isinstance(pulled, (tuple, list)) else [pulled]
            pairs = [(p, t) for p, t in zip(parts, tangents, strict=False) if t is not None]
            return _transposed(seeds, pairs)
        finally:
            mode.grad = tracked


def _pulled(
    first: Matrices,
    rule: Callable[..., object],
    saved: tuple[Matrices, ...],
    cotangents: list[Matrices | None],
) -> Any:
    """A rule of values, of which `first` is one."""
    return rule(saved, *cotangents)


def _transposed(seeds: list[Tensor], pairs: list[tuple[Any, Any]]) -> Any:
    """Tangents of outputs from those of inputs."""
    pairs = [(p, t) for p, t in pairs if p is not None and p.requires_grad]
    wanted = [seed for seed in seeds if seed.requires_grad]
    if not pairs:
        return tuple([None] * len(seeds)) if len(seeds) > 1 else None
    parts, moves = zip(*pairs, strict=True)
    moves = tuple([m.expand(p._shape) for p, m in pairs])
    found = iter(
        grad(parts, wanted, moves, create_graph=True, materialize_grads=True, allow_unused=True)
    )
    pushed = tuple([next(found) if seed.requires_grad else None for seed in seeds])
    return pushed if len(pushed) > 1 else pushed[0]


def lapack(name: str, function: Callable[..., object], *arrays: np.ndarray, **options: Any) -> Any:
    """A function of NumPy or SciPy. Errors: LinAlgError."""
    try:
        with np.errstate(all="ignore"):
            return host.answering(limited(function), *arrays, **options)
    except np.linalg.LinAlgError as error:
        raise failure(
            name, str(error), f"matrices {list(arrays[0].shape)}", "check the input"
        ) from error


def each(function: Callable[..., Any], array: np.ndarray, *others: Array) -> list[Any]:
    """A function of single matrices over a batch: its outputs, stacked."""
    lead = array.shape[:-2]
    if not lead:
        return [np.asarray(part) for part in function(array, *others)]
    count = math.prod(lead)
    flat = [a.reshape((count, *a.shape[len(lead) :])) for a in (array, *others)]
    results = [function(*parts) for parts in zip(*flat, strict=True)]
    if not results:
        results = [function(*[np.zeros(a.shape[1:], a.dtype) for a in flat])]
        return [np.zeros((*lead, *np.shape(part)), np.asarray(part).dtype) for part in results[0]]
    if count == 1:
        return [np.reshape(part, (*lead, *np.shape(part))) for part in results[0]]
    stacked = [np.stack(parts) for parts in zip(*results, strict=True)]
    return [part.reshape((*lead, *part.shape[1:])) for part in stacked]


MOST_ROWS_HERE = 4096  # of matrices whose work space 32 bits count


def decomposes_here(a: Tensor) -> bool:
    """True for matrices that `lapack_batches` decomposes; for others NumPy does."""
    return not a._dtype.is_complex and max(a._shape[-2:]) <= MOST_ROWS_HERE and not is_on_meta(a)


def check_converged(name: str, a: Tensor, infos: np.ndarray) -> None:
    """Errors: LinAlgError where an iteration on the matrices `a` did not converge, as for nan."""
    if not lapack_batches.any_failed(infos):
        return
    place = int(np.flatnonzero(infos.reshape(-1))[0])
    where_ = f"(Batch element {place}): " if infos.ndim else ""
    failed = host.to_numpy(a).reshape(-1, *a._shape[-2:])[place]
    why = f"is ill-conditioned or has too many repeated values (error code: {infos.flat[place]})"
    if not np.isfinite(failed).all():
        why = "contained non-finite values"
    raise failure(
        name,
        f"{where_}The algorithm failed to converge because the input matrix {why}.",
        f"matrices {list(a._shape)}",
        "check the input",
    )


def thin_svd(a: Tensor) -> tuple[Any, Any, Any]:
    """(U, S, V^H) as values. Errors: LinAlgError."""
    if decomposes_here(a):
        left, values, right, infos = host.answering(lapack_decompositions.svd, matrices(a))
        check_converged("linalg.svd", a, infos)
        return left.tensor(), host.from_numpy(values), right.tensor()
    arrays = lapack("linalg.svd", np.linalg.svd, host.to_numpy(a), full_matrices=False)
    u, s, vh = (host.from_numpy(np.ascontiguousarray(array)) for array in arrays)
    return u, s, vh


_SINGULAR = (
    "The diagonal element {0} is zero, the inversion could not be completed because the input matrix is "
    "singular."
)
_NO_SOLUTION = "The solver failed because the input matrix is singular."
_NO_LATER_SOLUTION = (
    "U[{0},{0}] is zero and using it on lu_solve would result in a division by zero. If you still want to perform the "
    "factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
)
_SINGULAR_IN = {
    **dict.fromkeys(("torch.linalg.solve", "torch.linalg.solve_ex"), _NO_SOLUTION),
    **dict.fromkeys(("torch.linalg.lu_factor", "torch.linalg.lu_factor_ex"), _NO_LATER_SOLUTION),
}


def check_regular(name: str, infos: np.ndarray) -> None:
    """Errors: LinAlgError on the first singular matrix, in the words of the function `name`."""
    if not lapack_batches.any_failed(infos):
        return
    place = int(np.flatnonzero(infos.reshape(-1))[0])
    where_, row = f"(Batch element {place}): " if infos.ndim else "", int(infos.reshape(-1)[place])
    raise failure(
        name,
        where_ + _SINGULAR_IN.get(name, _SINGULAR).format(row),
        f"a singular matrix: diagonal element {row} of its triangle is zero",
        "use linalg.pinv or linalg.lstsq",
    )


def check_definite(name: str, infos: np.ndarray) -> None:
    """Errors: LinAlgError on the first matrix that is not positive definite."""
    if lapack_batches.any_failed(infos):
        place = int(np.flatnonzero(infos.reshape(-1))[0])
        where_ = f"(Batch element {place}): " if infos.ndim else ""
        order = int(infos.reshape(-1)[place])
        text = (
            f"{where_}The factorization could not be completed because the input is not positive-definite (the "
            f"leading minor of order {order} is not positive-definite)."
        )
        raise failure(
            name, text, "a matrix that is not positive definite", "add a multiple of the identity"
        )
