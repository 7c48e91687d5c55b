# ruff: noqa: A002, N803 - PyTorch's names
"""Results on the device meta of functions that read values at the call: tensors of the right shapes without memory.

The tensors depend on the inputs of the call as the real results would. Functions whose shapes follow from values are
not here, and raise.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.dtype import DType
from weft.engine.ir.strides import broadcast_shapes
from weft.functional.linalg.decompositions import Eig, Eigh, LegacySvd, Qr, Svd
from weft.functional.linalg.lu_factors import Lu, LuFactor
from weft.functional.linalg.solve import CholeskyEx, InvEx, Slogdet
from weft.functional.reductions.sums_and_extrema import picked
from weft.functional.shape.views import movedim
from weft.functional.support.memory_formats import columns_first
from weft.ops.primitives import without_memory
from weft.tensor.arguments import wrap_dim

Shape = tuple[int, ...]
_SHAPES: dict[str, Callable[..., Any]] = {}


def answer(
    function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> Any:
    """The result of a function on the device meta; NotImplemented if its shape depends on values."""
    shapes = _SHAPES.get(function.__name__)
    if shapes is None:
        return NotImplemented
    given = inspect.signature(function).bind(*args, **kwargs).arguments
    if given.pop("out", None) is not None:
        return NotImplemented
    return shapes(**given)


def _known(*names: str) -> Callable[[Any], Any]:
    """A decorator: how the results of functions of these names are shaped."""

    def note(shapes: Callable[..., object]) -> Any:
        _SHAPES.update(dict.fromkeys(names, shapes))
        return shapes

    return note


def _from(source: Tensor, shape: Shape, dtype: DType | None = None) -> Any:
    """A result of a shape that depends on all of a tensor."""
    wanted = source._dtype if dtype is None else dtype
    made = without_memory(shape, wanted)
    if wanted.category < 2 or not source.requires_grad:
        return made
    return made + cast(source.sum(), wanted)


# -- orders ------------------------------------------------------------------------------------------------------------


@_known("mode")
def _most_frequent(input: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    axis = wrap_dim(dim, len(input._shape))
    shape = (*input._shape[:axis], 1, *input._shape[axis + 1 :])
    return picked("mode", input, axis, without_memory(shape, dtypes.int64), keepdim)


@_known("quantile", "nanquantile")
def _quantiles(
    input: Tensor, q: object, dim: int | None = None, keepdim: bool = False, **ignored: object
) -> Any:
    shape = list(input._shape)
    if dim is None:
        shape = [1] * len(shape) if keepdim else []
    elif keepdim:
        shape[dim] = 1
    else:
        del shape[wrap_dim(dim, len(shape))]
    if not isinstance(q, Tensor) or not q._shape:
        return _from(input, tuple(shape))
    return movedim(_from(input, (*shape, q._shape[0])), -1, 0)


def _places(points: object, small: bool) -> Any:
    shape = points._shape if isinstance(points, Tensor) else ()
    return without_memory(shape, dtypes.int32 if small else dtypes.int64)


@_known("searchsorted")
def _searched(
    sorted_sequence: Tensor, input: Tensor, out_int32: bool = False, **ignored: object
) -> Any:
    return _places(input, out_int32)


@_known("bucketize")
def _buckets(input: Tensor, boundaries: Tensor, out_int32: bool = False, **ignored: object) -> Any:
    return _places(input, out_int32)


@_known("isin")
def _found(elements: object, test_elements: Tensor, **ignored: object) -> Any:
    shape = elements._shape if isinstance(elements, Tensor) else ()
    return without_memory(shape, dtypes.bool_)


@_known("histc")
def _histogram(input: Tensor, bins: int = 100, **ignored: object) -> Any:
    return without_memory((bins,), input._dtype)


@_known("poisson")
def _counts(input: Tensor, **ignored: object) -> Any:
    return without_memory(input._shape, input._dtype)


@_known("multinomial")
def _drawn(input: Tensor, num_samples: int, **ignored: object) -> Any:
    return without_memory((*input._shape[:-1], num_samples), dtypes.int64)


# -- matrices ----------------------------------------------------------------------------------------------------------


def _infos(A: Tensor) -> Any:
    return without_memory(A._shape[:-2], dtypes.int32)


def _like(A: Tensor) -> Any:
    return columns_first(_from(A, A._shape))


@_known("inv", "inverse", "cholesky")
def _matrices(A: Tensor | None = None, input: Any = None, **ignored: object) -> Any:
    return _like(input if A is None else A)


@_known("matrix_exp")
def _exponential(A: Tensor) -> Any:
    return _from(A, A._shape)


@_known("inv_ex")
def _inverse_and_info(A: Tensor, **ignored: object) -> Any:
    return InvEx((_like(A), _infos(A)))


@_known("cholesky_ex")
def _factor_and_info(A: Tensor, **ignored: object) -> Any:
    return CholeskyEx((_like(A), _infos(A)))


@_known("det", "logdet")
def _determinants(A: Tensor) -> Any:
    return _from(A, A._shape[:-2])


@_known("slogdet")
def _sign_and_size(A: Tensor) -> Any:
    lead = A._shape[:-2]
    return Slogdet((_from(A, lead), _from(A, lead, A._dtype.to_real())))


@_known("svd")
def _singular(
    A: Any = None,
    full_matrices: bool = True,
    input: Any = None,
    some: bool = True,
    **ignored: object,
) -> Any:
    whole = full_matrices if input is None else not some
    A = A if input is None else input
    *lead, m, n = A._shape
    rank = min(m, n)
    u = columns_first(_from(A, (*lead, m, m if whole else rank)))
    values = _from(A, (*lead, rank), A._dtype.to_real())
    if input is not None:
        return LegacySvd((u, values, _from(A, (*lead, n, n if whole else rank))))
    return Svd((u, values, _from(A, (*lead, n if whole else rank, n))))


@_known("svdvals", "singular_values")
def _singular_values(A: Any = None, matrix: Any = None, **ignored: object) -> Any:
    A = matrix if A is None else A
    return _from(A, (*A._shape[:-2], min(A._shape[-2:])), A._dtype.to_real())


@_known("qr")
def _orthogonal(A: Tensor, mode: str = "reduced") -> Any:
    *lead, m, n = A._shape
    width = m if mode == "complete" else min(m, n)
    q = _from(A, (0,) if mode == "r" else (*lead, m, width))
    return Qr((q if mode == "r" else columns_first(q), columns_first(_from(A, (*lead, width, n)))))


@_known("eigh")
def _real_spectrum(A: Tensor, UPLO: str = "L") -> Any:
    return Eigh((_eigenvalues(A), _like(A)))


@_known("eigvalsh")
def _eigenvalues(A: Tensor, UPLO: str = "L") -> Any:
    return _from(A, A._shape[:-1], A._dtype.to_real())


@_known("eig")
def _spectrum(A: Tensor) -> Any:
    kind = A._dtype.to_complex()
    return Eig((_from(A, A._shape[:-1], kind), _from(A, A._shape, kind)))


@_known("eigvals")
def _complex_eigenvalues(A: Tensor) -> Any:
    return _spectrum(A)[0]


@_known("solve", "solve_triangular")
def _solutions(A: Tensor, B: Tensor, **ignored: object) -> Any:
    if len(B._shape) == 1 or A._shape[:-1] == B._shape:
        return _from(A, B._shape) + B
    lead = broadcast_shapes([A._shape[:-2], B._shape[:-2]], "linalg.solve")
    return columns_first(_from(A, (*lead, *B._shape[-2:])) + B)


@_known("cholesky_solve")
def _solved(B: object, L: Tensor, upper: bool = False) -> Any:
    return _solutions(L, B)


@_known("lu")
def _three_factors(A: Tensor, **ignored: object) -> Any:
    *lead, m, n = A._shape
    shapes = ((*lead, m, m), (*lead, m, min(m, n)), (*lead, min(m, n), n))
    return Lu((without_memory(shapes[0], A._dtype), *(_from(A, shape) for shape in shapes[1:])))


@_known("lu_factor")
def _packed_factors(A: Tensor, **ignored: object) -> Any:
    *lead, m, n = A._shape
    return LuFactor((_like(A), without_memory((*lead, min(m, n)), dtypes.int32)))


@_known("pinv")
def _pseudoinverse(A: Tensor, **ignored: object) -> Any:
    *lead, m, n = A._shape
    return _from(A, (*lead, n, m))


@_known("matrix_rank")
def _rank(A: Tensor, **ignored: object) -> Any:
    return without_memory(A._shape[:-2], dtypes.int64)


@_known("cond")
def _condition(A: Tensor, p: float | None = None) -> Any:
    return _from(A, A._shape[:-2], A._dtype.to_real())


# -- losses ------------------------------------------------------------------------------------------------------------


@_known("ctc_loss")
def _alignments(log_probs: Tensor, reduction: str = "mean", **ignored: object) -> Any:
    """Shapes: (T, N, C) or (T, C) -> (N,) or () without reduction, () with one."""
    return _from(log_probs, log_probs._shape[1:-1] if reduction == "none" else ())
