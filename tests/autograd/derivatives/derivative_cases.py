"""The differentiable rows of the op table as functions of the operands that have a derivative, with points to be
differentiated at: what the derivative report and its tests go over.

In come a row and a dtype; out come a function of tensors, which records the row as the library does, and arrays for
them. Operands without a derivative (indices, conditions) are fixed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import weft
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.primitive import KIND_NAMES
from weft.ops import OPS
from weft.testing.recording import apply, tensor_of
from weft.testing.samples import operand_type, points, samples

ALL_OPS = [op for op in OPS.values() if op.differentiable]
DTYPES = ("float64", "complex128")
OP_TYPES = [(op, dtype) for op in ALL_OPS for dtype in DTYPES if dtype in op.dtypes]


class Case(NamedTuple):
    """A function of tensors and a point of it."""

    function: Callable[..., Any]
    arrays: list[Any]
    name: str

    def tensors(self, requires_grad: bool = True) -> list[Any]:
        """The point as leaves."""
        made = [weft.from_numpy(array.copy()) for array in self.arrays]
        return [t.requires_grad_() for t in made] if requires_grad else made


def cases(op: Any, dtype: str, count: int = 2, seed: int = 0) -> list[Case]:
    """The row at its first samples that are not empty: the shapes and params that it declares."""
    chosen = [s for s in samples(op) if not any(0 in shape for shape in s.shapes)]
    plain = [s for s in chosen if s.layout == "row-major"]
    return [_case(op, sample, dtype, seed) for sample in plain[:count]]


def _case(op: Any, sample: Any, dtype: str, seed: int) -> Case:
    last = len(op.vjps) - 1
    which = [i for i in range(len(sample.shapes)) if op.vjps[min(i, last)] is not None]
    arrays = points(op, sample, dtype, seed, repeats=False)
    types = [operand_type(op, i, domain, dtype) for i, domain in enumerate(sample.domains)]
    params = dtypes.by_name(dtype) if op.name == "cast" else sample.params
    fixed = [tensor_of(array, kind) for array, kind in zip(arrays, types, strict=True)]

    def function(*tensors: Any) -> Any:
        operands = list(fixed)
        for number, tensor in zip(which, tensors, strict=True):
            operands[number] = tensor
        return apply(op, operands, params, sample.shape)

    return Case(function, [np.ascontiguousarray(arrays[i]) for i in which], str(sample))


def kind(op: Any) -> str:
    return KIND_NAMES[op.kind]


def cotangent(case: Case, seed: int = 1) -> Any:
    """A fixed random array like the result."""
    return drawn(case.function(*case.tensors(False)).numpy(), seed)


def drawn(like: Any, seed: int) -> Any:
    """Fixed random numbers of an array's shape and dtype."""
    source = np.random.default_rng([seed, like.size])
    values = np.asarray(source.standard_normal(like.shape))
    if like.dtype.kind == "c":
        values = values + 1j * source.standard_normal(like.shape)
    return np.asarray(values, like.dtype)
