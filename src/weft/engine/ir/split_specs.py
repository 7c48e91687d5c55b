# cython: language_level=3
"""Split specs: the regions of a tensor that the outputs of `split` and `unbind` view.

It takes shapes and the user's arguments and returns cached specs, so that equal splits share shapes, params and view
steps. `views` makes the views themselves.
"""

import cython
from cython.cimports.weft.engine.ir.primitive import Primitive
from cython.cimports.weft.engine.ir.split_specs import CACHED_SPLITS, MOST_CACHED_OUTPUTS
from cython.cimports.weft.engine.ir.strides import is_contiguous

from weft._build.compiled import require

require(__name__, cython.compiled)

_known = cython.declare(list, [None] * CACHED_SPLITS)


@cython.final
@cython.no_gc
@cython.cclass
class OutputView:
    """One output: the params and shape of its record, its view step, and its offset from the whole's start."""


@cython.final
@cython.no_gc
@cython.cclass
class SplitSpec:
    """The regions of all outputs of splitting a tensor of one shape; a cached spec is of row-major memory."""


@cython.final
@cython.no_gc
@cython.cclass
class MultiOutput:
    """The facts that the records of all outputs of one operation share. `seen` is the record of the whole operation,
    made when a user looks."""

    def number_of(self, params):
        """The number of the part whose record has these params."""
        number: cython.Py_ssize_t
        for number in range(len(self.cut.regions)):
            if cython.cast(OutputView, self.cut.regions[number]).params is params:
                return number
        raise ValueError("a record of another operation")


@cython.cfunc
def new_output_view(
    op: Primitive, params, shape: tuple, strides: tuple, start: cython.longlong
) -> OutputView:
    """The region that a row with these params shows; `strides` and `start` are of the storage's memory."""
    region: OutputView = OutputView.__new__(OutputView)
    region.params = params
    region.shape = shape
    region.strides = None if is_contiguous(shape, strides) else strides
    region.steps = ((op, params, shape),)
    region.start = start
    region.numel = 1
    size: cython.longlong
    for size in shape:
        region.numel *= size
    return region


@cython.cfunc
def new_split_spec(
    op: Primitive, shape: tuple, axis: cython.Py_ssize_t, key, regions: list
) -> SplitSpec:
    """A cut of a tensor of a shape along an axis; `key` is what the user asked for."""
    cut: SplitSpec = SplitSpec.__new__(SplitSpec)
    cut.op, cut.shape, cut.axis, cut.key = op, shape, axis, key
    cut.operand_shapes = (shape,)
    cut.regions = tuple(regions)
    return cut


@cython.cfunc
@cython.inline
@cython.exceptval(-1)
def _place(op: Primitive, shape: tuple, axis: cython.Py_ssize_t, key) -> cython.Py_ssize_t:
    """The slot of a split in the cache; a few are enough for a program."""
    size: cython.longlong = shape[axis]
    number: cython.size_t = cython.cast(cython.size_t, op.code) * 7
    number += 5 * (
        cython.cast(cython.size_t, size) + cython.cast(cython.size_t, size) // CACHED_SPLITS
    )
    number += cython.cast(cython.size_t, axis) + 3 * cython.cast(cython.size_t, hash(key))
    return cython.cast(cython.Py_ssize_t, number % CACHED_SPLITS)


@cython.cfunc
def known_split_spec(op: Primitive, shape: tuple, axis: cython.Py_ssize_t, key) -> SplitSpec:
    """The cut that was made before of a tensor of this shape; or None."""
    cut: SplitSpec = _known[_place(op, shape, axis, key)]
    if (
        cut is None
        or cut.op is not op
        or cut.axis != axis
        or (cut.shape is not shape and cut.shape != shape)
        or (cut.key is not key and cut.key != key)
    ):
        return None
    return cut


@cython.cfunc
def keep_split_spec(cut: SplitSpec) -> cython.void:
    """Remember a cut, in place of another."""
    if len(cut.regions) <= MOST_CACHED_OUTPUTS:
        _known[_place(cut.op, cut.shape, cut.axis, cut.key)] = cut


@cython.cfunc
def new_multi_output(cut: SplitSpec) -> MultiOutput:
    """A new record of the facts that the outputs of one operation share."""
    joint: MultiOutput = MultiOutput.__new__(MultiOutput)
    joint.cut = cut
    return joint
