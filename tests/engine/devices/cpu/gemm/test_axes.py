"""Products that walk operands in several dimensions have the bits of products of copies, and read nothing else."""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import mmap
from collections.abc import Callable
from typing import Any, NamedTuple

import gemm_harness
import llvmlite.binding as llvm
import numpy as np
import pytest
from gemm_harness import Array

from weft.engine.devices.cpu.gemm import lower_axes
from weft.engine.devices.cpu.gemm.spec import full_tile, parse
from weft.engine.devices.cpu.llvm.target import AVX2, AVX512, NEON, Target, host

TARGETS = (AVX512, AVX2, NEON) if host() is AVX512 else (host(), NEON)
PAGE = mmap.PAGESIZE
Dims = list[tuple[int, int, int]]


class Product(NamedTuple):
    """Dimensions (size, stride, stride) of m (A, -), n (B, C) and k (A, B), and how the operands are packed."""

    m: Dims
    n: Dims
    k: Dims
    a_step: int
    along_k: bool
    b_step: int
    batch: int = 1
    strides: tuple[int, int] = (0, 0)  # of A and B from matrix to matrix
    c_row: int = 0  # from row to row of C; 0 where they lie one behind the other


WINDOWS = [(3, 9, 64), (3, 3, 8), (3, 1, 1)]  # 3 channels of 8 x 8, 3 x 3
CASES = {
    "windows": Product([(5, 27, 0)], [(2, 192, 36), (6, 8, 6), (6, 1, 1)], WINDOWS, 0, False, 1),
    "long rows": Product(
        [(17, 27, 0)], [(2, 5000, 840), (12, 72, 70), (70, 1, 1)],
        [(3, 9, 1300), (3, 3, 72), (3, 1, 1)], 0, False, 1,
    ),
    "every second": Product(
        [(33, 27, 0)], [(3, 300, 35), (5, 20, 7), (7, 2, 1)],
        [(3, 9, 100), (3, 3, 10), (3, 1, 1)], 1, False, 2,
    ),
    "every third": Product(
        [(3, 4, 0)], [(2, 300, 40), (40, 3, 1)], [(2, 2, 150), (2, 1, 3)], 1, False, 1
    ),
    "kernel back to front": Product(
        [(20, 9, 0)], [(3, 200, 256), (16, 18, 16), (16, 1, 1)],
        [(7, 180, 324), (3, -3, 18), (3, -1, 1)], -1, False, 1,
    ),
    "many rows": Product([(150, 9, 0)], [(40, 1, 1)], [(7, 1350, 40), (9, -1, 300)], -1, False, 1),
    "sums over positions": Product(
        [(29, 4500, 0)], [(3, 50, 9), (3, 10, 3), (3, 1, 1)],
        [(30, 150, 600), (5, 30, 10), (30, 1, 1)], 0, True, 1,
    ),
    "positions on the left": Product(
        [(3, 50, 0), (3, 10, 0), (3, 1, 0)], [(40, 4500, 27)],
        [(30, 600, 150), (5, 10, 30), (30, 1, 1)], 1, True, 1, c_row=1,
    ),
    "strided positions": Product(
        [(3, 50, 0), (3, 10, 0), (3, 2, 0)], [(17, 4500, 1)],
        [(30, 900, 150), (5, 10, 15), (15, 2, 1)], 2, True, 1,
    ),
    "small images": Product(
        [(3, 50, 0), (5, 1, 0)], [(9, 700, 1)], [(30, 60, 9), (3, 9, 3), (3, 1, 1)], 1, True, 1
    ),
    "rows and columns": Product([(130, 9, 0)], [(7, 300, 40), (40, 1, 1)], [(9, 1, 2100)], 0, False, 1),
    "batch": Product([(9, 1, 0)], [(700, 3, 1)], [(5, 9, 2100)], 1, False, 1, 3, (45, 7)),
}  # fmt: skip


@functools.cache
def kernel(dtype: str, variant: str, target: Target) -> Callable[..., None]:
    compiler, libraries = gemm_harness.jit()
    name = f"axes_{dtype}_{variant}_{target.name}"
    text = lower_axes(dtype, name, variant, target)
    library = llvm.JITLibraryBuilder().add_ir(text).export_symbol(name).link(compiler, name)
    libraries.append(library)
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    return ctypes.CFUNCTYPE(None, pointer, pointer, number, number)(library[name])


def offsets(dims: Dims, part: int) -> Array:
    """The offset of each element of an axis."""
    ranges = [range(0, size * step[part], step[part]) if step[part] else [0] * size
              for size, *step in dims]  # fmt: skip
    return np.array([sum(place) for place in itertools.product(*ranges)], np.int64)


class Fenced:
    """Memory between two pages that must not be touched, its last byte before the second or its first behind the
    first."""

    def __init__(self, values: Array, at_end: bool) -> None:
        room = -(-max(values.nbytes, 1) // PAGE) * PAGE
        self.memory = mmap.mmap(-1, room + 2 * PAGE)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.start = base + PAGE + (room - values.nbytes if at_end else 0)
        ctypes.memmove(self.start, values.ctypes.data, values.nbytes)
        libc = ctypes.CDLL(None, use_errno=True)
        for fence in (base, base + PAGE + room):
            assert libc.mprotect(ctypes.c_void_p(fence), PAGE, 0) == 0  # neither read nor written

    def read(self, like: Array) -> Array:
        result = np.empty_like(like)
        ctypes.memmove(result.ctypes.data, self.start, like.nbytes)
        return result


def run(case: Product, dtype: str, variant: str, target: Target, at_end: bool, pieces: Any) -> None:
    """The product equals that of copies, bit for bit."""
    rng = np.random.default_rng(3)
    rows, a_k = offsets(case.m, 0), offsets(case.k, 0)
    columns, b_k, places = offsets(case.n, 0), offsets(case.k, 1), offsets(case.n, 1)
    behind = -int(a_k.min(initial=0))
    room = [
        int(x.max() + k.max(initial=0)) + 1 + step * (case.batch - 1)
        for x, k, step in zip((rows, columns), (a_k, b_k), case.strides, strict=True)
    ]
    a = rng.normal(size=room[0] + behind).astype(dtype)
    b = rng.normal(size=room[1]).astype(dtype)
    m, n, k = len(rows), len(columns), math.prod([size for size, *_ in case.k])
    out = np.full((case.batch, m, n), np.nan, dtype)
    held = [Fenced(x, at_end) for x in (a, b, out)]
    starts = [each.start for each in held]
    starts[0] += behind * a.itemsize
    words = [m, n, k, case.batch, *case.strides, m * n, case.c_row or n]
    for dims in (case.m, case.n, case.k):
        words += [1, 0, 0] * (4 - len(dims)) + [word for dim in dims for word in dim]
    words += [case.a_step, int(case.along_k), case.b_step]
    pointers, arguments = (ctypes.c_void_p * 3)(*starts), (ctypes.c_int64 * len(words))(*words)
    spec = parse(dtype, variant, target)
    units = spec.units_of_axes(case.batch, m, n)[0]
    for begin, end in pieces or [(0, units)]:
        kernel(dtype, variant, target)(pointers, arguments, begin, min(end, units))
    found = held[2].read(out)
    for matrix in range(case.batch):
        shift = [matrix * step for step in case.strides]
        left = a[rows[:, None] + a_k + behind + shift[0]][None]
        right = b[b_k[:, None] + columns + shift[1]][None]
        expected = gemm_harness.product(dtype, left, right, np.empty((1, m, n), dtype))[0]
        where = np.arange(m)[:, None] * (case.c_row or n) + places
        got = found[matrix].reshape(-1)[where]
        assert np.array_equal(got.view(np.uint8), expected.view(np.uint8))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", ("float32", "float64"))
def test_bits_are_those_of_copies_and_nothing_else_is_read(name: str, dtype: str) -> None:
    """On every target, with operands that end or begin where memory does."""
    for target, at_end in itertools.product(TARGETS, (True, False)):
        variant = "tile{}x{}".format(*full_tile(dtype, target))
        run(CASES[name], dtype, variant, target, at_end, None)


@pytest.mark.parametrize("name", ("windows", "sums over positions", "batch"))
def test_pieces_and_tiles_for_few_rows_give_the_same(name: str) -> None:
    for variant in ("tile14x2", "exact1x8", "exact3x4") if host() is AVX512 else ("tile6x2",):
        rows = int(variant[5]) if variant.startswith("exact") else None
        case = CASES[name]
        if rows is not None:
            case = case._replace(m=[(rows, *case.m[0][1:])])
        run(case, "float32", variant, host(), True, [(0, 1), (1, 2), (2, 1 << 20)])


@pytest.mark.parametrize("cuts", [(1,), (2, 7), (3, 6, 9), (4, 5, 10, 11)])
def test_columns_that_are_walked_as_one_are_those_of_their_units(cuts: tuple[int, ...]) -> None:
    """Cut within the rows of some columns, behind them, and further on."""
    edges = (0, *cuts, 1 << 20)
    pieces = list(itertools.pairwise(edges))
    variant = "tile{}x{}".format(*full_tile("float32", host()))
    run(CASES["rows and columns"], "float32", variant, host(), True, pieces)
