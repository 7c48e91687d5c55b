# ruff: noqa: A001, A002 - PyTorch's names
"""Sparse tensors, under the names of PyTorch's `torch.sparse`: by coordinates, and compressed matrices by rows
or columns, of elements or blocks.

Only some entries are held, with their indices; the values carry the graph, so that gradients flow through all that is
defined here and are sparse themselves. Made by `weft.sparse_coo_tensor`, `weft.sparse_csr_tensor` and
`Tensor.to_sparse`; `nn.Embedding(sparse=True)` has such gradients.

Start with `tensor`; what functions do to sparse tensors is in the table of `dispatch`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import weft
from weft import Tensor
from weft._build.lazy import later as _later
from weft._typing import Dims, Scalar
from weft.engine.api.api_function import all_public
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentError
from weft.sparse import products, reductions
from weft.sparse.compressed import to_sparse, with_rows
from weft.sparse.constructors import (
    sparse_bsc_tensor,
    sparse_bsr_tensor,
    sparse_compressed_tensor,
    sparse_csc_tensor,
    sparse_csr_tensor,
)
from weft.sparse.gradients import accumulate, as_dense, lookup, total
from weft.sparse.making import sparse_coo_tensor, sparse_mask
from weft.sparse.older import TYPES as _TYPES
from weft.sparse.older import spdiags as spdiags
from weft.sparse.tensor import Above as _Above
from weft.sparse.tensor import SparseTensor, like, no_memory, shown
from weft.sparse.tensor import bind as _bind

_bind(
    _Above(
        compressed=_later("weft.sparse.compressed"),
        dispatch=_later("weft.sparse.dispatch"),
        making=_later("weft.sparse.making"),
        mixed=_later("weft.sparse.mixed"),
        printing=_later("weft.sparse.printing"),
        shaping=_later("weft.sparse.shaping"),
    )
)
_sparse_inputs = _later("weft.autograd.gradient_checks.sparse_inputs")
__all__ = [
    "SparseTensor",
    "addmm",
    "as_sparse_gradcheck",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "sum",
]
_INSIDE = (
    accumulate, as_dense, like, lookup, no_memory, shown, sparse_bsc_tensor, sparse_bsr_tensor,
    sparse_compressed_tensor, sparse_coo_tensor, sparse_csc_tensor, sparse_csr_tensor, sparse_mask, to_sparse,
    total,
)  # fmt: skip


def _need_sparse(name: str, tensor: object) -> Any:
    if isinstance(tensor, SparseTensor):
        return with_rows(tensor)
    raise ArgumentError(
        f"sparse.{name}: expected a sparse tensor",
        expected="a sparse tensor",
        got=type(tensor).__name__,
        fix=f"convert it with .to_sparse(), or use weft.{name}",
    )


def mm(mat1: SparseTensor, mat2: Tensor, reduce: str | None = None) -> Any:
    """The product of a sparse matrix and a dense or sparse one. Gradients flow to both; that of a sparse factor is
    sparse. `reduce` ("sum", "mean", "amax", "amin") says how the terms of an element are put together (for CSR).

    Shapes: (m, k), (k, n) -> (m, n).
    """
    mat1, mat2 = with_rows(mat1), with_rows(mat2)
    if reduce is not None:
        return products.mm_reduced(mat1, mat2, reduce)
    if not isinstance(mat1, SparseTensor) and not isinstance(mat2, SparseTensor):
        return weft.mm(mat1, mat2)
    return products.mm(None, mat1, mat2)


def addmm(
    mat: Tensor,
    mat1: SparseTensor,
    mat2: Tensor,
    *,
    beta: Scalar = 1.0,
    alpha: Scalar | complex = 1.0,
) -> Any:
    """beta * mat + alpha * (mat1 @ mat2) with a sparse mat1. Shapes: (m, n), (m, k), (k, n) -> (m, n)."""
    return products.addmm(None, mat, _need_sparse("addmm", mat1), mat2, beta=beta, alpha=alpha)


def sampled_addmm(
    input: Any,
    mat1: Tensor,
    mat2: Tensor,
    *,
    beta: Scalar = 1.0,
    alpha: Scalar = 1.0,
    out: Any = None,
) -> Any:
    """beta * input + alpha * (mat1 @ mat2) at the entries of a CSR matrix only.

    Shapes: (m, n), (m, k), (k, n) -> (m, n).
    """
    found = products.sampled(input, mat1, mat2, beta, alpha)
    return found if out is None else out.adopt(found)


def sum(input: Any, dim: Dims = None, dtype: DType | None = None) -> Any:
    """The sum of all entries as a dense number, or along dimensions: sparse while a sparse dimension is left.

    Shapes: as of `weft.sum`. Errors: RuntimeError for a dense input.
    """
    return reductions.total(_need_sparse("sum", input), dim, False, dtype)


def softmax(input: Tensor, dim: int, *, dtype: DType | None = None) -> Any:
    """Softmax along a dimension over the stored entries: others count as minus infinity.

    Shapes: as `input`. Errors: RuntimeError for a dense input."""
    return reductions.softmax(_need_sparse("softmax", input), dim, dtype, False)


def log_softmax(input: Tensor, dim: int, *, dtype: DType | None = None) -> Any:
    """The logarithm of `softmax`."""
    return reductions.softmax(_need_sparse("log_softmax", input), dim, dtype, True)


def as_sparse_gradcheck(gradcheck: Callable[..., bool]) -> Callable[..., bool]:
    """A gradient check for functions of sparse tensors, whose results may be sparse too.

    Args:
        gradcheck: `weft.autograd.gradcheck`, or a function that takes what it takes.

    Returns: a function of `gradcheck`'s arguments. With `masked=True` the entries of sparse inputs are moved one by
        one, else all of their elements are.

    Example:
        >>> import weft
        >>> check = weft.sparse.as_sparse_gradcheck(weft.autograd.gradcheck)
        >>> x = weft.eye(2, dtype=weft.float64).to_sparse_csr().requires_grad_()
        >>> check(lambda x: x.to_sparse_coo() * 2, (x,))
        True
    """

    @functools.wraps(gradcheck)
    def of_sparse(
        func: Callable[..., object],
        inputs: Tensor | list[Tensor],
        *args: object,
        masked: bool = False,
        **kwargs: object,
    ) -> bool:
        arguments = [inputs] if isinstance(inputs, Tensor) else list(inputs)
        called, values = _sparse_inputs.by_values(func, arguments, masked)
        return gradcheck(_sparse_inputs.with_dense_outputs(called), values, *args, **kwargs)

    return of_sparse


class check_sparse_tensor_invariants:  # noqa: N801 - PyTorch's name
    """A context, a decorator and a switch: indices are checked when sparse tensors are made, whatever it says."""

    _on = False

    def __init__(self, enable: bool = True) -> None:
        self._state, self._before = enable, False

    @staticmethod
    def is_enabled() -> bool:
        """The last setting."""
        return check_sparse_tensor_invariants._on

    @staticmethod
    def enable() -> None:
        """Say yes."""
        check_sparse_tensor_invariants._on = True

    @staticmethod
    def disable() -> None:
        """Say no."""
        check_sparse_tensor_invariants._on = False

    def __enter__(self) -> None:
        kind = check_sparse_tensor_invariants
        self._before, kind._on = kind._on, self._state

    def __exit__(self, *exception: object) -> None:
        check_sparse_tensor_invariants._on = self._before

    def __call__(self, mth: Any) -> Any:
        """A function that runs in this context."""

        @functools.wraps(mth)
        def checked(*args: Any, **kwargs: object) -> Any:
            with type(self)(self._state):
                return mth(*args, **kwargs)

        return checked


globals().update(_TYPES)
globals().update(all_public({name: globals()[name] for name in (*__all__, "spdiags")}))
del all_public
