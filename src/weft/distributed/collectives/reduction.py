"""Reductions over ranks: `ReduceOp`, and what it means for arrays of each element type.

The parts of all ranks are combined in their order, neighbours first, then neighbouring pairs, and so on, whatever the
backend and the way that they came, so that a result has the same bits on every rank and in every run. float16 and
bfloat16 are combined in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import numpy as np

from weft._typing import Array
from weft.distributed.errors import ReductionError
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.dtype import DType
from weft.tensor.memory.host_memory import bfloat16_bits, bfloat16_values


class ReduceOp(Enum):
    """Names of the ways to combine the values of all ranks."""

    SUM = "sum"
    AVG = "avg"
    PRODUCT = "product"
    MIN = "min"
    MAX = "max"
    BAND = "band"
    BOR = "bor"
    BXOR = "bxor"


ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]  # PyTorch's name for the type of the members


def supports_complex(reduceOp: ReduceOp) -> bool:
    """True if a reduction has a meaning for complex numbers.

    Args:
        reduceOp: the reduction, a `ReduceOp`.

    Example:
        >>> import weft.distributed as dist
        >>> dist.supports_complex(dist.ReduceOp.SUM), dist.supports_complex(dist.ReduceOp.MAX)
        (True, False)
    """
    return reduceOp in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PRODUCT)


Combine = Callable[..., Any]
_ARITHMETIC: dict[ReduceOp, Combine] = {
    ReduceOp.SUM: np.add,
    ReduceOp.AVG: np.add,
    ReduceOp.PRODUCT: np.multiply,
    ReduceOp.MIN: np.minimum,
    ReduceOp.MAX: np.maximum,
}
_BITS: dict[ReduceOp, Combine] = {
    ReduceOp.BAND: np.bitwise_and,
    ReduceOp.BOR: np.bitwise_or,
    ReduceOp.BXOR: np.bitwise_xor,
}
_LOGIC: dict[ReduceOp, Combine] = {
    ReduceOp.SUM: np.logical_or,
    ReduceOp.PRODUCT: np.logical_and,
    ReduceOp.MIN: np.logical_and,
    ReduceOp.MAX: np.logical_or,
    **_BITS,
}


def combination(op: ReduceOp, dtype: DType, name: str, where: str) -> Combine:
    """The function of two arrays that a reduction is for an element type, in the collective of a name. Errors:
    ReductionError where it has none."""
    if dtype is dtypes.bool_:
        table = _LOGIC
    elif dtype.is_floating_point:
        table = _ARITHMETIC
    elif dtype.is_complex:
        table = {op: _ARITHMETIC[op] for op in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PRODUCT)}
    else:
        table = {**_ARITHMETIC, **_BITS}
        del table[ReduceOp.AVG]
    if op not in table:
        raise ReductionError(
            f"{name} does not support ReduceOp.{op.name}: it is not defined for {dtype.name}",
            expected=" or ".join(known.name for known in table),
            got=f"{op.name} of {dtype.name}",
            fix="convert the tensor, or take another reduction",
            where=where,
        )
    return table[op]


def combine(combination: Combine, op: ReduceOp, dtype: DType, parts: Sequence[Array]) -> Array:
    """The combination of arrays of raw elements, one of each rank, in their order."""
    if len(parts) == 1:
        return parts[0]
    if dtype is dtypes.bfloat16:
        total = _accumulate(combination, op, [bfloat16_values(part) for part in parts])
        return np.asarray(bfloat16_bits(total))
    if dtype is dtypes.float16:
        with np.errstate(over="ignore"):
            wide = [part.astype(np.float32) for part in parts]
            return _accumulate(combination, op, wide).astype(np.float16)
    return _accumulate(combination, op, parts)


def _accumulate(combination: Combine, op: ReduceOp, parts: Sequence[Array]) -> Array:
    count = len(parts)
    with np.errstate(all="ignore"):
        while len(parts) > 1:
            paired = [combination(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
            parts = [*paired, *parts[len(parts) & ~1 :]]
        total: Array = parts[0]
        if op is ReduceOp.AVG:
            np.divide(total, np.asarray(count, total.dtype), out=total)
    return total
