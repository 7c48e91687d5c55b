# ruff: noqa: A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Operands of special functions as real floating-point tensors: integers come in at the default type."""

from __future__ import annotations

from typing import Any

import cython

from weft._build.compiled import require
from weft.engine.dispatch.type_names import no_kernel_for
from weft.engine.frontend.recorder import cast
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.errors import UnsupportedDTypeError
from weft.tensor.arguments import describe, need_tensor

require(__name__, cython.compiled)


def floats(name: str, *operands: Tensor) -> list[Any]:
    """Operands in their common floating-point type; integers come in at the default one. Numbers stay."""
    pairs = [
        (x._dtype, 2 if x._shape else 1) if isinstance(x, Tensor) else (dtypes.of_scalar(x), 0)
        for x in operands
    ]
    dtype = dtypes.result_dtype(pairs)
    if dtype.is_complex:
        raise UnsupportedDTypeError(
            no_kernel_for(name, dtype.name),
            expected="real operands",
            got=dtype.name,
            fix="use .abs() or .real",
        )
    if dtype.category < 2:
        dtype = dtypes.get_default()
    return [cast(x, dtype) if isinstance(x, Tensor) else x for x in operands]


def floating(name: str, input: Tensor, halves: bool = True) -> Any:
    """A real operand; integers come in at the default type. Errors: DTypeError on other types."""
    dtype = need_tensor(name, input)._dtype
    if dtype.is_complex or (not halves and dtype.itemsize == 2 and dtype.category == 2):
        raise UnsupportedDTypeError(
            no_kernel_for(name, input._dtype.name),
            expected="a real tensor" if halves else "a tensor of float32 or float64",
            got=describe("input", input),
            fix="take .abs() or .real of complex numbers, .float() of halves",
        )
    return input if input._dtype.category > 1 else cast(input, dtypes.get_default())
