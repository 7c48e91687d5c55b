# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False
"""Batches of matrices as memory that BLAS and LAPACK take: `Matrices`, their copies by columns, sums, parts, products.

`Matrices` are the values of tensors or arrays of float32, float64 or complex numbers, in the last two dimensions. The
routines are those of SciPy, at the addresses that `scipy.linalg.cython_lapack` exports. To them memory by rows holds
transposes: products are taken as they are, with the sides exchanged; what is solved or factored in place is copied to
memory by columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cython
import numpy as np
from cython.cimports.cpython.pycapsule import PyCapsule_GetName, PyCapsule_GetPointer
from cython.cimports.libc.string import memcpy, memset
from cython.cimports.weft.engine.devices.cpu.pool import PooledBuffer, allocate
from cython.cimports.weft.engine.frontend.node_factory import count_elements, new_value
from cython.cimports.weft.engine.frontend.resolve import value
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.frontend.tensor_lifecycle import wrap
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.functional.support.matrix_batches import LETTERS, _addresses

from weft._build.compiled import require
from weft._build.lazy import later
from weft.engine.devices.cpu.pool import address_of
from weft.engine.ir import dtype as dtypes
from weft.functional.support.blas_threads import TINY, limited

require(__name__, cython.compiled)

pipeline = later("weft.engine.pipeline.driver")
_LETTERS = {"f": 0, "d": 1, "F": 2, "D": 3}  # s, d, c and z, by NumPy's letters
_DTYPES = (dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128)
_ITEMS = (4, 8, 8, 16)
GESV, GETRF, POTRF, TRSM, GEMM, GEQRF, ORGQR, UNGQR, SYEVD, GESDD = range(10)
_NAMES = ("gesv", "getrf", "potrf", "trsm", "gemm", "geqrf", "orgqr", "ungqr", "syevd", "gesdd")
_BLAS = ("trsm", "gemm")
# 1, 0 and -1 of each element type, as BLAS wants factors.
NUMBERS = [np.array([1, 0, -1], letter) for letter in _LETTERS]


@cython.cfunc
def routine_at(which: cython.int, letter: cython.int) -> cython.size_t:
    """The address of a routine for an element type."""
    place: cython.int = which * LETTERS + letter
    if _addresses[place] == 0:
        from scipy.linalg import cython_blas, cython_lapack

        name = _NAMES[which]
        module = cython_blas if name in _BLAS else cython_lapack
        capsule = module.__pyx_capi__["sdcz"[letter] + name]
        _addresses[place] = cython.cast(
            cython.size_t, PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule))
        )
    return _addresses[place]


@cython.cfunc
def element_type(batch: Matrices) -> object:
    """NumPy's type of the elements."""
    return NUMBERS[batch.letter].dtype


@cython.cfunc
def number_at(letter: cython.int, place: cython.int) -> cython.p_void:
    """The address of 1, 0 or -1."""
    numbers = NUMBERS[letter]
    item: cython.size_t = numbers.itemsize
    return cython.cast(
        cython.p_void, cython.cast(cython.size_t, address_of(numbers)) + place * item
    )


@cython.final
@cython.cclass
class Matrices:
    """Matrices in memory by rows, or the adjoints of such matrices."""

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def at(self, number: cython.Py_ssize_t) -> cython.p_void:
        """The address of one."""
        step: cython.size_t = cython.cast(cython.size_t, self.rows) * self.columns * self.item
        return cython.cast(cython.p_void, self.address + number * step)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the batch."""
        rows, columns = (self.columns, self.rows) if self.turned else (self.rows, self.columns)
        return (*self.lead, rows, columns)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.count * self.rows * self.columns

    @property
    def is_complex(self) -> bool:
        """True for complex elements."""
        return self.letter > 1

    def tensor(self) -> Any:
        """A tensor that has the memory, or a copy of it."""
        if self.turned or not isinstance(self.owner, PooledBuffer):
            return copied(self).tensor()
        shape = (*self.lead, self.rows, self.columns)
        return wrap(new_value(_DTYPES[self.letter], shape, self.owner, 0), None)

    def adjoint(self) -> Matrices:
        """The conjugate transposes, in the same memory."""
        made: Matrices = _like(self, self.rows, self.columns)
        made.owner, made.address, made.turned = self.owner, self.address, not self.turned
        return made

    def __matmul__(self, other: Matrices) -> Matrices:
        """Products of matrices of as many batches."""
        rows: cython.int = self.columns if self.turned else self.rows
        inner: cython.int = self.rows if self.turned else self.columns
        wide: cython.int = other.rows if other.turned else other.columns
        made: Matrices = blank(self, rows, wide)
        if made.size:
            run(_multiply, made, self, other, inner)
        return made

    def __add__(self, other: Matrices) -> Matrices:
        return _sum(self, other, 1.0)

    def __sub__(self, other: Matrices) -> Matrices:
        return _sum(self, other, -1.0)

    def __neg__(self) -> Matrices:
        return _scaled(copied(self), -1.0)

    def __rmul__(self, factor: float) -> Matrices:
        return _scaled(copied(self), factor)

    def tril(self, diagonal: cython.Py_ssize_t = 0) -> Matrices:
        """Copies with zeros above a diagonal."""
        return _triangle(self, False, diagonal)

    def triu(self, diagonal: cython.Py_ssize_t = 0) -> Matrices:
        """Copies with zeros below a diagonal."""
        return _triangle(self, True, diagonal)


# -- memory --------------------------------------------------------------------------------------------------------


@cython.cfunc
def _like(other: Matrices, rows: cython.int, columns: cython.int) -> Matrices:
    """As many matrices, of the same type, without memory."""
    made: Matrices = Matrices.__new__(Matrices)
    made.lead, made.count = other.lead, other.count
    made.rows, made.columns = rows, columns
    made.item, made.letter = other.item, other.letter
    return made


@cython.cfunc
def blank(other: Matrices, rows: cython.int, columns: cython.int) -> Matrices:
    """As many matrices, of the same type, of any values."""
    made: Matrices = _like(other, rows, columns)
    size: cython.Py_ssize_t = made.count * rows * columns * made.item
    buffer: PooledBuffer = allocate(max(size, 1))
    made.owner, made.address = buffer, buffer.address
    return made


@cython.cfunc
def _array_of(x: object) -> Matrices:
    """Matrices in the memory of an array, or of a copy that is row by row."""
    array = np.ascontiguousarray(x)
    return _held(array, address_of(array), array.shape, array.dtype.char)


@cython.cfunc
def _held(owner: object, address: cython.size_t, shape: tuple[int, ...], letter: str) -> Matrices:
    """Matrices in the memory of an owner, of the type of NumPy's letter."""
    made: Matrices = Matrices.__new__(Matrices)
    made.owner, made.address = owner, address
    made.lead = shape[: len(shape) - 2]
    made.count = count_elements(made.lead)
    made.rows, made.columns = shape[len(shape) - 2], shape[len(shape) - 1]
    made.letter = _LETTERS[letter]
    made.item = _ITEMS[made.letter]
    return made


def matrices(x: object) -> Matrices:
    """The values of a tensor or an array. Cost: runs what they need."""
    if not isinstance(x, Tensor):
        return _array_of(x)
    node: Node = value(x)
    pipeline.require(node)
    if not isinstance(node.buffer, PooledBuffer) or node.strides is not None or node.numel == 0:
        return _array_of(pipeline.array_of(node))
    return _held(node, node.buffer.address + node.offset, node.shape, node.dtype.numpy.char)


def leads_agree(batches: list[Matrices | None]) -> bool:
    """True if there are as many matrices in each batch, in the same dimensions."""
    leads = [batch.lead for batch in batches if batch is not None]
    return all([lead == leads[0] for lead in leads])


def expanded(batch: Matrices, lead: tuple[int, ...]) -> Matrices:
    """Matrices repeated to the dimensions of a larger batch."""
    if batch.lead == lead:
        return batch
    array = array_of(batch)
    return _array_of(np.broadcast_to(array, (*lead, *array.shape[-2:])))


def array_of(batch: Matrices) -> Any:
    """Matrices as an array."""
    return pipeline.array_of(value(batch.tensor()))


@cython.cfunc
def copied(source: Matrices) -> Matrices:
    """A copy, in memory by rows."""
    if source.turned:
        made: Matrices = blank(source, source.columns, source.rows)
        _transpose(made, source, source.letter > 1)
        return made
    made = blank(source, source.rows, source.columns)
    size: cython.Py_ssize_t = made.count * made.rows * made.columns * made.item
    memcpy(
        cython.cast(cython.p_void, made.address), cython.cast(cython.p_void, source.address), size
    )
    return made


@cython.cfunc
def by_columns(source: Matrices) -> Matrices:
    """A copy that LAPACK sees as the matrices themselves: their transposes, by rows."""
    made: Matrices
    if source.turned:  # in memory there are transposes, of conjugates
        made = _like(source, source.rows, source.columns)
        made.owner, made.address = source.owner, source.address
        made = copied(made)
        if made.letter > 1:
            _conjugate(made)
        return made
    made = blank(source, source.columns, source.rows)
    _transpose(made, source, False)
    return made


@cython.cfunc
def from_columns(source: Matrices) -> Matrices:
    """A copy by rows of what LAPACK sees."""
    made: Matrices = blank(source, source.columns, source.rows)
    _transpose(made, source, False)
    return made


@cython.cfunc
def _transpose(into: Matrices, source: Matrices, conjugates: cython.bint) -> cython.void:
    """Copy transposes, block by block."""
    words: cython.int = source.item // 4
    rows: cython.Py_ssize_t = source.rows
    columns: cython.Py_ssize_t = source.columns
    k: cython.Py_ssize_t
    row: cython.Py_ssize_t
    column: cython.Py_ssize_t
    top: cython.Py_ssize_t
    left: cython.Py_ssize_t
    word: cython.int
    with cython.nogil:
        for k in range(source.count):
            out_of = cython.cast(cython.p_int, source.at(k))
            to = cython.cast(cython.p_int, into.at(k))
            for top in range(0, rows, 16):
                for left in range(0, columns, 16):
                    for row in range(top, min(top + 16, rows)):
                        for column in range(left, min(left + 16, columns)):
                            for word in range(words):
                                to[(column * rows + row) * words + word] = out_of[
                                    (row * columns + column) * words + word
                                ]
    if conjugates:
        _conjugate(into)


@cython.cfunc
def _conjugate(batch: Matrices) -> cython.void:
    """Change the signs of imaginary parts, in place."""
    count: cython.Py_ssize_t = batch.count * batch.rows * batch.columns
    k: cython.Py_ssize_t
    single = cython.cast(cython.p_float, batch.address)
    double = cython.cast(cython.p_double, batch.address)
    for k in range(count):
        if batch.item == 8:
            single[2 * k + 1] = -single[2 * k + 1]
        else:
            double[2 * k + 1] = -double[2 * k + 1]


@cython.cfunc
def _reals(batch: Matrices) -> cython.Py_ssize_t:
    """The number of real numbers in memory."""
    count: cython.Py_ssize_t = batch.count * batch.rows * batch.columns
    return 2 * count if batch.letter > 1 else count


@cython.cfunc
def _scaled(batch: Matrices, factor: cython.double) -> Matrices:
    """The same matrices, multiplied in place."""
    k: cython.Py_ssize_t
    single = cython.cast(cython.p_float, batch.address)
    double = cython.cast(cython.p_double, batch.address)
    one: cython.float = factor
    count: cython.Py_ssize_t = _reals(batch)
    if batch.letter == 0 or batch.letter == 2:
        for k in range(count):
            single[k] *= one
    else:
        for k in range(count):
            double[k] *= factor
    return batch


@cython.cfunc
def _sum(left: Matrices, right: Matrices, factor: cython.double) -> Matrices:
    """left + factor * right."""
    made: Matrices = copied(left)
    other: Matrices = copied(right) if right.turned else right
    k: cython.Py_ssize_t
    one: cython.float = factor
    count: cython.Py_ssize_t = _reals(made)
    single = cython.cast(cython.p_float, made.address)
    double = cython.cast(cython.p_double, made.address)
    more = cython.cast(cython.p_float, other.address)
    much = cython.cast(cython.p_double, other.address)
    if made.letter == 0 or made.letter == 2:
        for k in range(count):
            single[k] += one * more[k]
    else:
        for k in range(count):
            double[k] += factor * much[k]
    return made


def run(function: Callable[..., None], batch: Matrices, *rest: object) -> Any:
    """A loop over matrices, with as many threads as they are worth."""
    if batch.rows <= TINY and batch.columns <= TINY:
        return function(batch, *rest)
    return limited(function)(batch, *rest)


@cython.cfunc
def _triangle(source: Matrices, upper: cython.bint, diagonal: cython.Py_ssize_t) -> Matrices:
    made: Matrices = copied(source)
    row: cython.Py_ssize_t
    first: cython.Py_ssize_t
    rows: cython.Py_ssize_t = made.rows
    step: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, made.columns) * made.item
    with cython.nogil:
        for row in range(made.count * rows):
            first = row % rows + diagonal + (0 if upper else 1)  # where the upper one begins
            first = min(max(first, 0), made.columns) * made.item
            if upper:
                memset(cython.cast(cython.p_void, made.address + row * step), 0, first)
            else:
                memset(
                    cython.cast(cython.p_void, made.address + row * step + first), 0, step - first
                )
    return made


def _multiply(made: Matrices, left: Matrices, right: Matrices, inner: cython.int) -> None:
    """The transpose of a product is the product of the transposes, in the other order."""
    routine = cython.cast("gemm_routine", routine_at(GEMM, made.letter))
    left_turned: cython.char = 67 if left.turned else 78  # C or N
    right_turned: cython.char = 67 if right.turned else 78
    one = number_at(made.letter, 0)
    zero = number_at(made.letter, 1)
    left_step: cython.int = max(left.columns, 1)
    right_step: cython.int = max(right.columns, 1)
    k: cython.Py_ssize_t
    with cython.nogil:
        for k in range(made.count):
            routine(
                cython.address(right_turned),
                cython.address(left_turned),
                cython.address(made.columns),
                cython.address(made.rows),
                cython.address(inner),
                one,
                right.at(k),
                cython.address(right_step),
                left.at(k),
                cython.address(left_step),
                zero,
                made.at(k),
                cython.address(made.columns),
            )
