"""Records that are to hold for any size: what an export asks of the functions that are called while it records.

Where sizes decide what is recorded, a function asks `is_for_any_size` and records what does not depend on them;
`sizes_vary` says whether there are such. `as_one` records an operation that is steps here and one in the export's
format, such as a whole layer of an LSTM: a node that never runs. Who asks for it is in `Contexts.any_size`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.engine.frontend.recorder import record
from weft.engine.frontend.resolve import value_of
from weft.engine.ir.primitive import COMPOSITE, Primitive
from weft.engine.ir.tape import tape
from weft.errors import ExecutionError
from weft.ops.registry import FIELDS, OPS

if TYPE_CHECKING:
    from weft.engine.frontend.tensor import Tensor
    from weft.engine.ir.dtype import DType
    from weft.engine.ir.node import Node

Shape = tuple[int, ...]


class AnySize(NamedTuple):
    """A recording for any size. `varies`: there are other sizes; `takes` says which operations are one, `follows`
    whether a value depends on what the record is a function of."""

    varies: bool
    takes: Callable[[str], bool]
    follows: Callable[[Node], bool]


def _asked() -> AnySize | None:
    contexts = tape().mode.contexts
    found: AnySize | None = None if contexts is None else contexts.any_size
    return found


def is_for_any_size() -> bool:
    """True if what is recorded is to hold for other sizes too (`weft.onnx.export`)."""
    return _asked() is not None


def sizes_vary() -> bool:
    """True if there are such sizes."""
    asked = _asked()
    return asked is not None and asked.varies


def as_one(
    name: str, operands: tuple[Tensor, ...], params: object, shape: Shape, dtype: DType
) -> Any:
    """One result of an operation that is recorded as one node; None where its steps are to be recorded."""
    asked = _asked()
    if asked is None or not asked.takes(name):
        return None
    if not any(asked.follows(value_of(operand)) for operand in operands):
        return None  # it may be read
    return record(_row(name, len(operands)), operands, params, shape, dtype)


@functools.cache
def _row(name: str, count: int) -> Primitive:
    """A row for what is only recorded."""
    like = OPS["softmax"]
    residuals: tuple[tuple[int, ...], ...] = ((),) * count
    fields = {field: getattr(like, field) for field in FIELDS}
    return Primitive(
        **{
            **fields,
            "name": name,
            "code": -1,
            "kind": COMPOSITE,
            "operands": tuple(f"operand_{place}" for place in range(count)),
            "vjps": (functools.partial(_no_derivative, name),) * count,
            "residuals": residuals,
            "batch_operands": ("b",) * count,
            "residual_masks": (0,) * count,
        }
    )


def _no_derivative(name: str, g: Tensor) -> Any:
    raise ExecutionError(
        f"the derivative of {name} in a call that is exported",
        expected="a call whose derivatives are not asked for",
        got=f"a backward walk through {name}, which is recorded as one operation",
        fix="export the forward computation",
    )
