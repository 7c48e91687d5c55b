# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False
"""LAPACK and BLAS over batches of matrices: a compiled loop calls a routine for each, without a call of Python between.

`Matrices` are the values of tensors or arrays of float32, float64 or complex numbers, in the last two dimensions. The
routines are those of SciPy, at the addresses that `scipy.linalg.cython_lapack` exports. To them memory by rows holds
transposes: products and substitution are taken as they are, with the sides exchanged; what is solved or factored in
place is copied to memory by columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cython
import numpy as np
from cython.cimports.cpython.pycapsule import PyCapsule_GetName, PyCapsule_GetPointer
from cython.cimports.libc.string import memcpy, memset
from cython.cimports.weft.engine.devices.cpu.pool import Buffer, allocate
from cython.cimports.weft.engine.frontend.node_factory import count_elements, new_value
from cython.cimports.weft.engine.frontend.resolve import value
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.frontend.tensor_lifecycle import wrap
from cython.cimports.weft.engine.ir.node import Node
from cython.cimports.weft.functional.support.lapack_batches import LETTERS, _addresses

from weft._build.compiled import require
from weft._build.lazy import later
from weft.engine.devices.cpu.pool import address_of
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.primitive import SCALAR_OP
from weft.functional.support import host
from weft.functional.support.blas_threads import TINY, limited

require(__name__, cython.compiled)

pipeline = later("weft.engine.pipeline.driver")
BLOCK = 64  # columns that LAPACK takes at once: its workspace is this many times the width
_LETTERS = {"f": 0, "d": 1, "F": 2, "D": 3}  # s, d, c and z, by NumPy's letters
_DTYPES = (dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128)
_ITEMS = (4, 8, 8, 16)
GESV, GETRF, POTRF, TRSM, GEMM, GEQRF, ORGQR, UNGQR, SYEVD, GESDD = range(10)
_NAMES = ("gesv", "getrf", "potrf", "trsm", "gemm", "geqrf", "orgqr", "ungqr", "syevd", "gesdd")
_BLAS = ("trsm", "gemm")
# 1, 0 and -1 of each element type, as BLAS wants factors.
_NUMBERS = [np.array([1, 0, -1], letter) for letter in _LETTERS]


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
    return _NUMBERS[batch.letter].dtype


@cython.cfunc
def number_at(letter: cython.int, place: cython.int) -> cython.p_void:
    """The address of 1, 0 or -1."""
    numbers = _NUMBERS[letter]
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
        if self.turned or not isinstance(self.owner, Buffer):
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
    buffer: Buffer = allocate(max(size, 1))
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
    if node.strides is not None or node.op is SCALAR_OP or node.numel == 0:
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


# -- general matrices ----------------------------------------------------------------------------------------------


def solve(batch: Matrices, right: Matrices) -> tuple[Matrices, Any]:
    """(X with A X = B, per matrix 0 or the first column whose pivot is exactly 0).

    Shapes: (..., n, n), (..., n, k) -> (..., n, k), (...).
    """
    infos = np.zeros(batch.lead, np.int32)
    found: Matrices = by_columns(right)
    if batch.size and found.count:
        run(_solve, by_columns(batch), found, infos)
    return from_columns(found), infos


def _solve(factors: Matrices, found: Matrices, infos: np.ndarray) -> None:
    routine = cython.cast("gesv_routine", routine_at(GESV, factors.letter))
    info = ints_of(infos)
    places: Buffer = allocate(factors.rows * 4)
    pivots = cython.cast(cython.p_int, places.address)
    k: cython.Py_ssize_t
    with cython.nogil:
        for k in range(factors.count):
            routine(
                cython.address(factors.rows),
                cython.address(found.rows),
                factors.at(k),
                cython.address(factors.rows),
                pivots,
                found.at(k),
                cython.address(factors.rows),
                info + k,
            )


@cython.cfunc
def ints_of(array: object) -> cython.p_int:
    """The elements of a row-major array of 32-bit integers without gaps."""
    return cython.cast(cython.p_int, cython.cast(cython.size_t, address_of(array)))


def any_failed(infos: np.ndarray) -> bool:
    """True if one of LAPACK's answers about matrices, which are 0 where all is well, is not."""
    info = ints_of(infos)
    count: cython.Py_ssize_t = infos.size
    k: cython.Py_ssize_t
    for k in range(count):  # noqa: SIM110 - a generator would not be a loop in C
        if info[k] != 0:
            return True
    return False


# -- triangles and definite matrices -------------------------------------------------------------------------------


def cholesky(batch: Matrices) -> tuple[Matrices, Any]:
    """(L with A = L L^H, per matrix 0 or the order of the first minor that is not positive definite).

    Shapes: (..., n, n) -> (..., n, n), (...). Only lower triangles are read.
    """
    infos = np.zeros(batch.lead, np.int32)
    factors: Matrices = copied(batch)
    if batch.size:
        run(_cholesky, factors, infos)
    return factors.tril(), infos


def _cholesky(factors: Matrices, infos: np.ndarray) -> None:
    """LAPACK sees A^T = U^H U, where U^T is L."""
    routine = cython.cast("potrf_routine", routine_at(POTRF, factors.letter))
    info = ints_of(infos)
    upper: cython.char = 85  # U
    k: cython.Py_ssize_t
    with cython.nogil:
        for k in range(factors.count):
            routine(
                cython.address(upper),
                cython.address(factors.rows),
                factors.at(k),
                cython.address(factors.rows),
                info + k,
            )


def cholesky_solve(factors: Matrices, right: Matrices, upper: bool) -> Matrices:
    """X with A X = B, given Cholesky factors of A. Shapes: (..., n, n), (..., n, k) -> (..., n, k)."""
    first = factors.adjoint() if upper else factors
    return substitute(first.adjoint(), substitute(first, right, False, False), True, False)


def has_zero_pivot(triangles: Matrices) -> bool:
    """True if there is a 0 on a diagonal."""
    k: cython.Py_ssize_t
    row: cython.Py_ssize_t
    place: cython.Py_ssize_t
    single: cython.bint = triangles.letter == 0 or triangles.letter == 2
    several: cython.Py_ssize_t = 2 if triangles.letter > 1 else 1
    for k in range(triangles.count):
        for row in range(triangles.rows):
            place = row * (triangles.columns + 1) * several
            if single:
                less = cython.cast(cython.p_float, triangles.at(k)) + place
                if less[0] == 0 and less[several - 1] == 0:
                    return True
            else:
                more = cython.cast(cython.p_double, triangles.at(k)) + place
                if more[0] == 0 and more[several - 1] == 0:
                    return True
    return False


def substitute(triangles: Matrices, right: Matrices, upper: bool, unit: bool) -> Matrices:
    """X with A X = B for triangles without zeros on their diagonals; the other halves are not read.

    BLAS's trsm: LAPACK's trtrs lets all threads of OpenBLAS wait for each other at any size; beside other work 16 rows
    took it 5 ms. Shapes: (..., n, n), (..., n, k) -> (..., n, k).
    """
    found: Matrices = copied(right)
    if found.size:
        run(_substitute, found, triangles, upper, unit)
    return found


def _substitute(
    found: Matrices, triangles: Matrices, upper: cython.bint, unit: cython.bint
) -> None:
    """BLAS sees X^T A^T = B^T."""
    routine = cython.cast("trsm_routine", routine_at(TRSM, found.letter))
    one = number_at(found.letter, 0)
    right: cython.char = 82  # R
    turned: cython.char = 67 if triangles.turned else 78  # C or N
    # L or U: the transpose of what is in memory, of which `upper` says the other half if it is turned.
    triangle: cython.char = 85 if upper == triangles.turned else 76
    diagonal: cython.char = 85 if unit else 78  # U or N
    k: cython.Py_ssize_t
    with cython.nogil:
        for k in range(found.count):
            routine(
                cython.address(right),
                cython.address(triangle),
                cython.address(turned),
                cython.address(diagonal),
                cython.address(found.columns),
                cython.address(found.rows),
                one,
                triangles.at(k),
                cython.address(found.rows),
                found.at(k),
                cython.address(found.columns),
            )


# -- Householder reflections ---------------------------------------------------------------------------------------


def qr(batch: Matrices, columns: cython.int) -> tuple[Matrices, Matrices]:
    """(Q with `columns` columns, R with as many rows) of matrices that are at least as high as wide.

    Shapes: (..., m, n) -> (..., m, columns), (..., columns, n).
    """
    factors: Matrices = by_columns(batch)
    scales = _reflected(factors)
    by_rows: Matrices = from_columns(factors)
    upper: Matrices = by_rows.triu()
    if columns < by_rows.rows:
        upper = first_rows(upper, columns)
    return _multiplied_out(factors, scales, columns), upper


@cython.cfunc
def first_rows(batch: Matrices, rows: cython.int) -> Matrices:
    """The first rows of matrices; rows that are missing are of any values."""
    made: Matrices = blank(batch, rows, batch.columns)
    size: cython.size_t = (
        cython.cast(cython.size_t, min(rows, batch.rows)) * batch.columns * batch.item
    )
    k: cython.Py_ssize_t
    for k in range(batch.count):
        memcpy(made.at(k), batch.at(k), size)
    return made


def reflectors(batch: Matrices) -> tuple[Matrices, Any]:
    """(R and below its diagonal the vectors of reflections, their factors), as geqrf leaves them.

    Shapes: (..., m, n) -> (..., m, n), (..., min(m, n)).
    """
    factors: Matrices = by_columns(batch)
    scales = _reflected(factors)
    return from_columns(factors), scales


@cython.cfunc
def _reflected(factors: Matrices) -> object:
    """The factors of reflections, whose vectors lie in the matrices then."""
    count = min(factors.rows, factors.columns)
    scales = np.zeros((*factors.lead, count), _NUMBERS[factors.letter].dtype)
    if factors.size:
        run(_reflect, factors, scales)
    return scales


def _reflect(factors: Matrices, scales: np.ndarray) -> None:
    routine = cython.cast("geqrf_routine", routine_at(GEQRF, factors.letter))
    room: cython.int = BLOCK * factors.rows
    work: Buffer = allocate(room * factors.item)
    space = cython.cast(cython.p_void, work.address)
    scale: cython.size_t = address_of(scales)
    step: cython.size_t = min(factors.rows, factors.columns) * factors.item
    info: cython.int = 0
    k: cython.Py_ssize_t
    with cython.nogil:
        for k in range(factors.count):
            routine(
                cython.address(factors.columns),
                cython.address(factors.rows),
                factors.at(k),
                cython.address(factors.columns),
                cython.cast(cython.p_void, scale + k * step),
                space,
                cython.address(room),
                cython.address(info),
            )


def product_of_reflectors(vectors: Matrices, scales: np.ndarray, columns: int) -> Matrices:
    """The first columns of the product of reflections. Shapes: (..., m, n), (..., k) -> (..., m, columns)."""
    return _multiplied_out(by_columns(vectors), np.ascontiguousarray(scales), columns)


@cython.cfunc
def _multiplied_out(vectors: Matrices, scales: object, columns: cython.int) -> Matrices:
    """Q, of vectors by columns."""
    factors: Matrices = vectors if vectors.rows == columns else first_rows(vectors, columns)
    if factors.size:
        run(_multiply_out, factors, scales)
    return from_columns(factors)


def _multiply_out(factors: Matrices, scales: np.ndarray) -> None:
    which = UNGQR if factors.letter > 1 else ORGQR
    routine = cython.cast("orgqr_routine", routine_at(which, factors.letter))
    room: cython.int = BLOCK * factors.rows
    work: Buffer = allocate(room * factors.item)
    space = cython.cast(cython.p_void, work.address)
    scale: cython.size_t = address_of(scales)
    count: cython.int = scales.shape[-1]
    step: cython.size_t = count * factors.item
    info: cython.int = 0
    k: cython.Py_ssize_t
    with cython.nogil:
        for k in range(factors.count):
            routine(
                cython.address(factors.columns),
                cython.address(factors.rows),
                cython.address(count),
                factors.at(k),
                cython.address(factors.columns),
                cython.cast(cython.p_void, scale + k * step),
                space,
                cython.address(room),
                cython.address(info),
            )


def call(function: Callable[..., object], *given: object) -> Any:
    """`function` of the values of tensors or arrays, with its batches of matrices as arrays."""
    values = [matrices(x) if isinstance(x, (Tensor, np.ndarray)) else x for x in given]
    made = host.answering(function, *values)
    parts = made if isinstance(made, tuple) else (made,)
    shown = tuple([array_of(x) if isinstance(x, Matrices) else x for x in parts])
    return shown if isinstance(made, tuple) else shown[0]
