# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False
"""Rows that read or write through integer indices: gather, take and their transposes.

Indices are int64, count from 0, and are checked when the kernel runs: where a negative one counts from the end, the
function says so and wraps it (`weft.functional.indexing.advanced_index.wrapped`). Scatter rows add in the stable order
of their source, so that results do not depend on threads.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import cython
import numpy as np

from weft._build.compiled import require
from weft.engine.ir import dtype as dtypes
from weft.engine.ir import tape as tapes
from weft.ops.primitives import (
    elementwise,
    full,
    gather,
    iota,
    misfit,
    reshape,
    scatter_add,
    take,
    take_add,
    take_put,
    where,
)
from weft.ops.primitives import scatter as scatter_store
from weft.ops.registry import define, not_differentiable

if TYPE_CHECKING:
    from weft._typing import Array, Shapes
    from weft.engine.backward.apply_vjp import At
    from weft.engine.frontend.tensor import Tensor
    from weft.engine.ir.primitive import Primitive


require(__name__, cython.compiled)

Shape = tuple[int, ...]

# Shapes of the operands, then params; an operand `index` holds positions along the axis.
_GATHERS: list[Any] = [
    ((3, 4), (2, 4), (0,)),
    ((3, 4), (3, 6), (1,)),
    ((2, 3, 2), (2, 5, 1), (1,)),
    ((3, 4), (3, 1), (1,)),
]
_SCATTERS: list[Any] = [
    ((5, 4), (2, 4), (2, 4), (0,)),
    ((3, 4), (3, 2), (3, 2), (1,)),
    ((2, 5, 2), (2, 3, 1), (2, 3, 1), (1,)),
]
_SLICES: list[Any] = [
    ((5, 3), (2,), (2, 3), (0,)),
    ((3, 6), (4,), (3, 4), (1,)),
    ((7, 3), (2, 2), (2, 2, 3), (0,)),
    ((4,), (0,), (0,), (0,)),
]


# What users call the rows that they reach by other spellings than a function's name.
_SPELLINGS = {
    "index": ("x[index]", True),
    "index_put": ("x[index] = value", True),
    "index_fill": ("index_fill", True),
    "take": ("take", True),
}


def public_name(op: Primitive) -> tuple[str, bool]:
    """(public name of an indexing op, True if its negative positions count from the end)."""
    words = re.sub("([A-Z])", r"_\1", op.grad_name.removesuffix("Backward0"))
    name = words.lower().lstrip("_")
    return _SPELLINGS.get(name, (name, False))


def _shift(p: tuple[int], shapes: Shapes, flags: tuple[bool, ...], n: int) -> tuple[int]:
    return (p[0] + 1,)


def _scatter_numpy(combine: np.ufunc | None) -> Any:
    """The reference of a scatter that combines by a ufunc what meets; None: the last one stays."""

    def reference(base: Array, index: Array, source: Array, params: tuple[int]) -> Any:
        out = np.array(base)
        places: list[Any] = list(np.indices(index.shape, sparse=True))
        places[params[0]] = index
        region = source[tuple(slice(0, size) for size in index.shape)]
        if combine is not None:
            combine.at(out, tuple(places), region)
        else:
            out[tuple(places)] = region
        return out

    return reference


def _vjp_gather(g: Tensor, index: Tensor, at: At) -> Any:
    """The cotangent at the places that were read. Where that is one of each line, a choice by position: it fuses with
    what goes on from it, which a scatter does not."""
    axis, shape = at.params[0], at.shapes[0]
    if index._shape != (*shape[:axis], 1, *shape[axis + 1 :]):
        return scatter_add(full(shape, 0, g.dtype), axis, index, g)
    here = iota(tuple([size if a == axis else 1 for a, size in enumerate(shape)])) == index
    return where(here, g, 0)


def _transposing() -> bool:
    """True if the result of a rule is only transposed, into a tangent."""
    contexts = tapes.tape().mode.contexts
    return contexts is not None and bool(contexts.transposing)


def _vjp_stored(g: Tensor, index: Tensor, at: At) -> Any:
    """The cotangent of a scatter's source. Where indices repeat, each source that named the place gets it, as in
    PyTorch; the tangent of the place is only that of the last one, whose value stayed."""
    axis = at.params[0]
    part = gather(g, axis, index)
    if not _transposing():
        return part
    numbers = reshape(iota((index.numel(),)), index._shape)
    kept = scatter_store(full(at.shapes[0], -1, dtypes.int64), axis, index, numbers)
    return where(gather(kept, axis, index) == numbers, part, 0)


def _vjp_put(g: Tensor, index: Tensor, at: At) -> Any:
    """The same for whole slices."""
    axis, shape = at.params[0], at.shapes[0]
    part = take(g, axis, index)
    if not _transposing():
        return part
    numbers = reshape(iota((index.numel(),)), index._shape)
    kept = take_put(full((shape[axis],), -1, dtypes.int64), 0, index, numbers)
    last = reshape(
        take(kept, 0, index) == numbers, (*index._shape, *(1,) * (len(shape) - axis - 1))
    )
    return where(last, part, 0)


def _gathered(p: tuple[int], x: Shape, index: Shape) -> Shape:
    """Errors: ShapeError for an index that exceeds the operand in a dimension other than the axis."""
    if not _lies_within(index, x, p[0]):
        raise misfit("gather", f"does not lie within {list(x)} beside {p[0]}", index)
    return index


def _scattered(p: tuple[int], base: Shape, index: Shape, source: Shape) -> Shape:
    """Errors: ShapeError for an index that exceeds the base in a dimension other than the axis, or the source."""
    if not _lies_within(index, base, p[0]) or not _lies_within(index, source, -1):
        raise misfit("scatter", f"does not lie within {list(base)} and {list(source)}", index)
    return base


def _lies_within(index: Shape, x: Shape, besides: int) -> bool:
    if len(index) != len(x):
        return False
    if 0 in index:
        return True
    return all(a == besides or n <= x[a] for a, n in enumerate(index))


def _placed(p: tuple[int], base: Shape, index: Shape, source: Shape) -> Shape:
    """Errors: ShapeError for a source that is not what `take` would give."""
    if source != _taken(p, base, index):
        raise misfit("take_put", f"is not what {list(index)} takes of {list(base)}", source)
    return base


define(
    "gather",
    kind="index",
    operands="self index",
    domain=[*_GATHERS, ((5,), (0,), (0,))],
    shape=_gathered,
    reference=lambda x, index, params: _gather_numpy(x, index, params[0]),
    batch=_shift,
    jvp_kind="linear",
    vjp={"self": _vjp_gather},
    form="elements",
    index_bound="operand",
)
define(
    "scatter_add",
    kind="scatter",
    operands="self index source",
    domain=[*_SCATTERS, ((5,), (0,), (0,), (0,))],
    shape=_scattered,
    reference=_scatter_numpy(np.add),
    batch=_shift,
    jvp_kind="linear",
    vjp={"self": lambda g: g, "source": lambda g, index, at: gather(g, at.params[0], index)},
    form="elements",
    sums="into_base",
    combiner="add",
)
define(
    "scatter",
    kind="scatter",
    operands="self index source",
    domain=[*_SCATTERS, ((5,), (0,), (0,), (0,))],
    shape=_scattered,
    reference=_scatter_numpy(None),
    batch=_shift,
    jvp_kind="linear",
    vjp={
        "self": lambda g, index, at: scatter_store(
            g, at.params[0], index, full(at.shapes[1], 0, g.dtype)
        ),
        "source": _vjp_stored,
    },
    form="elements",
)


def _ties(
    base: Tensor, index: Tensor, source: Tensor, result: Tensor, axis: int
) -> tuple[Any, Any, Any]:
    """(elements of base that are the extremum of their position, elements of source that are, how many share it, at
    least 1)."""
    own = elementwise("eq", base, result)
    tied = elementwise("eq", source, gather(result, axis, index))
    zeros, ones = full(base._shape, 0, base._dtype), full(index._shape, 1, base._dtype)
    count = scatter_add(where(own, 1, zeros), axis, index, where(tied, ones, 0))
    return own, tied, where(elementwise("eq", count, 0), 1, count)


def _vjp_extremum_of_self(
    g: Tensor, self: Tensor, index: Tensor, source: Tensor, result: Tensor, at: At
) -> Any:
    """An even share where the element itself is the extremum."""
    own, _, count = _ties(self, index, source, result, at.params[0])
    return where(own, g / count, 0)


def _vjp_extremum_of_source(
    g: Tensor, self: Tensor, index: Tensor, source: Tensor, result: Tensor, at: At
) -> Any:
    """An even share for each that is the extremum of its place."""
    axis = at.params[0]
    _, tied, count = _ties(self, index, source, result, axis)
    return where(tied, gather(g / count, axis, index), 0)


for _name, _ufunc in (("scatter_maximum", np.maximum), ("scatter_minimum", np.minimum)):
    define(
        _name,
        kind="scatter",
        form="elements",
        combiner=_name.removeprefix("scatter_"),
        operands="self index source",
        domain=[*_SCATTERS, ((5,), (0,), (0,), (0,))],
        shape=_scattered,
        reference=_scatter_numpy(_ufunc),
        batch=_shift,
        jvp_kind="rule",
        dtypes="integer float",
        vjp={"self": _vjp_extremum_of_self, "source": _vjp_extremum_of_source},
        grad_name="ScatterReduceBackward0",
    )

define(
    "scatter_product",
    kind="scatter",
    form="elements",
    combiner="mul",
    operands="self index source",
    domain=[*_SCATTERS, ((5,), (0,), (0,), (0,))],
    shape=_scattered,
    reference=_scatter_numpy(np.multiply),
    batch=_shift,
    dtypes="integer float complex",
    grad_name="ScatterReduceBackward0",
    vjp=not_differentiable("where a derivative follows, the product is composed of others"),
)


def _gather_numpy(x: Array, index: Array, axis: int) -> Any:
    places: list[Any] = list(np.indices(index.shape, sparse=True))
    places[axis] = index
    return x[tuple(places)]


def _taken(p: tuple[int], x: Shape, index: Shape) -> Shape:
    return (*x[: p[0]], *index, *x[p[0] + 1 :])


def _take_places(rank: int, axis: int, index: Array) -> Any:
    return (slice(None),) * axis + (index,) + (slice(None),) * (rank - axis - 1)


def _take_write(add: bool) -> Any:
    def reference(base: Array, index: Array, source: Array, params: tuple[int]) -> Any:
        out = np.array(base)
        places = _take_places(out.ndim, params[0], index)
        if add:
            np.add.at(out, places, source)
        else:
            out[places] = source
        return out

    return reference


def _batch_take(
    p: tuple[int], shapes: Shapes, flags: tuple[bool, ...], n: int
) -> tuple[int] | None:
    """Rows of one shared table: the index grows a leading dimension and nothing else changes."""
    return p if p[0] == 0 and flags == (False, True) else None


define(
    "take",
    kind="index",
    operands="self index",
    domain=[((4, 3), (2, 2), (0,)), ((3, 4), (5,), (1,)), ((3, 4), (), (0,)), ((3,), (0,), (0,))],
    shape=_taken,
    reference=lambda x, index, params: x[_take_places(x.ndim, params[0], index)],
    batch=_batch_take,
    batch_operands=("s", "b"),
    is_row_independent=lambda p, shapes, axis: p[0] == 0 and axis < len(shapes[1]),
    jvp_kind="linear",
    grad_name="IndexSelectBackward0",
    vjp={
        "self": lambda g, index, at: take_add(
            full(at.shapes[0], 0, g.dtype), at.params[0], index, g
        )
    },
    form="slices",
    index_bound="operand",
)
define(
    "take_add",
    kind="scatter",
    operands="self index source",
    domain=_SLICES,
    shape=_placed,
    reference=_take_write(True),
    jvp_kind="linear",
    vjp={"self": lambda g: g, "source": lambda g, index, at: take(g, at.params[0], index)},
    grad_name="IndexAddBackward0",
    form="slices",
    sums="into_base",
    combiner="add",
)
define(
    "take_put",
    kind="scatter",
    operands="self index source",
    domain=_SLICES,
    shape=_placed,
    reference=_take_write(False),
    jvp_kind="linear",
    vjp={
        "self": lambda g, index, at: take_put(
            g, at.params[0], index, full(at.shapes[2], 0, g.dtype)
        ),
        "source": _vjp_put,
    },
    grad_name="IndexPutBackward0",
    form="slices",
)
