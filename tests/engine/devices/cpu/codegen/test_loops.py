"""Loop kernels against NumPy: axes, strides, tails, splits, indexes, on every target."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from kernel_jit import NUMPY, classes
from kernel_launch import launch, lookup
from kernel_reference import philox
from weft.engine.devices.cpu.codegen.loop_kernel import launch_shape, lower
from weft.engine.devices.cpu.codegen.schedule import scheduled
from weft.engine.devices.cpu.llvm.target import AVX2, AVX512, NEON, host
from weft.engine.kernels import loop_ir
from weft.engine.kernels.loop_ir import Instr, LoopKernel, Operand, Store

TARGETS = [target for target in (AVX512, AVX2, NEON) if host() == AVX512 or target != AVX512]
SIZES = (0, 1, 2, 15, 16, 17, 31, 33, 64, 65, 4095, 4096, 4097)
each_target = pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)


def load(dtype: str, operand: int, *args: int) -> Instr:
    return Instr("load_indexed" if args else "load", dtype, args, operand)


def sum_kernel(dtype: str, a, b, out) -> LoopKernel:
    """out = a + b over the layout of the given arrays."""
    operands = (Operand(dtype, classes(a)), Operand(dtype, classes(b)))
    body = (load(dtype, 0), load(dtype, 1), Instr("add", dtype, (0, 1)))
    return LoopKernel(out.ndim, 0, operands, body, stores=(Store(dtype, 2, classes(out)),))


def guarded(shape, dtype) -> tuple[np.ndarray, np.ndarray]:
    """An array in the middle of a larger one whose other elements must not change."""
    count = int(np.prod(shape, dtype=int))
    space = np.full(count + 128, 77, NUMPY[dtype])
    return space, space[64 : 64 + count].reshape(shape)


def numbers(rng, shape, dtype) -> np.ndarray:
    return (rng.standard_normal(shape) * 20).astype(NUMPY[dtype])


@each_target
@pytest.mark.parametrize(
    "dtype",
    [
        "bool",
        "uint8",
        "int16",
        "int32",
        "int64",
        "float16",
        "float64",
        "complex64",
        "complex128",
    ],  # fmt: skip
)
def test_every_size_and_split(dtype, target):
    rng = np.random.default_rng(1)
    for size in SIZES:
        a, b = numbers(rng, size, dtype), numbers(rng, size, dtype)
        space, out = guarded((size,), dtype)
        kernel = sum_kernel(dtype, np.ones(2, dtype), np.ones(2, dtype), np.ones(2, dtype))
        launch(kernel, [size], [a, b], [out], splits=(1, 3), target=target)
        np.testing.assert_array_equal(out, a + b)
        assert (space[:64] == space[0]).all() and (space[64 + size :] == space[0]).all()


LAYOUTS = {
    "contiguous": lambda a: a,
    "reversed": lambda a: a[..., ::-1],
    "spread": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "row": lambda a: np.broadcast_to(a[..., :1], a.shape),
    "column": lambda a: np.broadcast_to(a[:1], a.shape),
    "scalar": lambda a: np.broadcast_to(a.reshape(-1)[:1].reshape(()), a.shape),
    "transposed": lambda a: np.ascontiguousarray(a.T).T,
}


@each_target
@pytest.mark.parametrize(
    "shape", [(5,), (3, 18), (2, 3, 7), (2, 1, 3, 33), (2, 2, 1, 2, 5)], ids=str
)
def test_every_layout(shape, target):
    rng = np.random.default_rng(2)
    x = numbers(rng, shape, "float32")
    for (name, left), right in itertools.product(LAYOUTS.items(), ("contiguous", "transposed")):
        a, b = left(x), LAYOUTS[right](numbers(rng, shape, "float32"))
        space, out = guarded(shape, "float32")
        launch(sum_kernel("float32", a, b, out), shape, [a, b], [out], splits=(1,), target=target)
        np.testing.assert_array_equal(out, a + b, err_msg=f"{name} {right}")
        assert (space[:64] == 77).all() and (space[64 + x.size :] == 77).all()


@each_target
@pytest.mark.parametrize(
    "dtype", ["int8", "float16", "int32", "float32", "float64", "complex64", "complex128"]
)
@pytest.mark.parametrize("shape", [(1, 1), (16, 16), (37, 50), (3, 130), (2, 33, 17)], ids=str)
def test_transposed_operands_are_read_in_tiles(shape, dtype, target):
    rng = np.random.default_rng(8)
    a, b = (np.swapaxes(numbers(rng, (*shape[:-2], *shape[:-3:-1]), dtype), -1, -2) for _ in "ab")
    space, out = guarded(shape, dtype)
    kernel = sum_kernel(dtype, a, b, out)
    launch(kernel, shape, [a, b], [out], splits=(1, 2, 19), target=target)
    np.testing.assert_array_equal(out, a + b)
    launch(sum_kernel(dtype, a, out, out), shape, [a, out], [out], splits=(5,), target=target)
    np.testing.assert_array_equal(out, a + (a + b))
    assert (space[:64] == space[0]).all() and (space[64 + out.size :] == space[0]).all()


@each_target
@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "complex64", "complex128"])
def test_a_strided_store_writes_only_its_elements(dtype, target):
    rng = np.random.default_rng(3)
    a, b = (numbers(rng, (3, 37), dtype) for _ in range(2))
    space = np.full((6, 80), 1, NUMPY[dtype])
    out = space[::2, 3:77:2]
    launch(sum_kernel(dtype, a, b, out), out.shape, [a, b], [out], target=target)
    np.testing.assert_array_equal(out, a + b)
    expected = np.full_like(space, 1)
    expected[::2, 3:77:2] = a + b
    np.testing.assert_array_equal(space, expected)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 0, 4)], ids=str)
def test_an_axis_without_elements_touches_nothing(shape):
    a = np.zeros(shape, "float32")
    layout = np.zeros((2,) * len(shape), "float32")
    kernel = sum_kernel("float32", layout, layout, layout)
    space, out = guarded(shape, "float32")
    launch(kernel, shape, [a, a], [out])
    assert (space == 77).all()


@each_target
def test_rank_zero(target):
    a, b, out = (np.array(value, "float64") for value in (1.5, 2.25, 0))
    launch(sum_kernel("float64", a, b, out), (), [a, b], [out], target=target)
    assert out == 3.75


@each_target
def test_several_stores_of_one_body(target):
    x, c = np.linspace(-3, 3, 101, dtype="float32"), np.array(2, "float32")
    spread = np.broadcast_to(c, x.shape)
    body = (
        load("float32", 0), load("float32", 1), Instr("mul", "float32", (0, 1)),
        Instr("gt", "bool", (2, 1)), Instr("cast", "int16", (2,)),
    )  # fmt: skip
    stores = tuple(
        Store(dtype, i, ("1",)) for i, dtype in ((2, "float32"), (3, "bool"), (4, "int16"))
    )
    kernel = LoopKernel(
        1, 0, (Operand("float32", ("1",)), Operand("float32", ("0",))), body, stores=stores
    )
    outs = [np.zeros(101, dtype) for dtype in ("float32", "bool", "int16")]
    launch(kernel, [101], [x, spread], outs, target=target)
    np.testing.assert_array_equal(outs[0], x * c)
    np.testing.assert_array_equal(outs[1], x * c > c)
    np.testing.assert_array_equal(outs[2], (x * c).astype("int16"))


@each_target
def test_offset_counts_along_the_axes(target):
    kernel = LoopKernel(
        2, 0, (Operand("int64", ("s", "s"), virtual=True),), (Instr("offset", "int64", (), 0),),
        stores=(Store("int64", 0, ("s", "1")),),
    )  # fmt: skip
    out = np.zeros((5, 37), "int64")
    launch(kernel, out.shape, [], [out], {0: (1000, -3)}, splits=(1,), target=target)
    np.testing.assert_array_equal(out, np.arange(5)[:, None] * 1000 - np.arange(37) * 3)


def test_random_bits_do_not_depend_on_the_split():
    operands = (Operand("int64", ("0",)), Operand("int64", ("1",), virtual=True))
    body = (
        load("int64", 0), Instr("offset", "int64", (), 1), Instr("philox", "int64", (0, 1)),
    )  # fmt: skip
    kernel = LoopKernel(1, 0, operands, body, stores=(Store("int64", 2, ("1",)),))
    key = np.broadcast_to(np.array(12345678901234, "int64"), 3000)
    for splits in ((), (1,), (1, 2)):
        out = np.zeros(3000, "int64")
        launch(kernel, [3000], [key], [out], {1: (1,)}, splits=splits)
        assert out.tolist() == [philox(12345678901234, i) for i in range(3000)]


def gather_kernel(dtype: str, index, table_classes, out, index_dtype="int64") -> LoopKernel:
    operands = (Operand(index_dtype, classes(index)), Operand(dtype, table_classes, 1))
    body = (load(index_dtype, 0), load(dtype, 1, 0))
    return LoopKernel(out.ndim, 0, operands, body, stores=(Store(dtype, 1, classes(out)),))


@each_target
@pytest.mark.parametrize("dtype", ["bool", "float16", "float32", "complex128"])
@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
def test_rows_gathered_by_index(dtype, index_dtype, target):
    rng = np.random.default_rng(4)
    table = numbers(rng, (9, 21), dtype)
    index = rng.integers(0, 9, 14).astype(index_dtype)
    spread = np.broadcast_to(index[:, None], (14, 21))
    _, out = guarded((14, 21), dtype)
    kernel = gather_kernel(dtype, spread, ("0", "1"), out, index_dtype)
    view = np.broadcast_to(table[:1], (14, 21))
    status = launch(
        kernel, (14, 21), [spread, view], [out], indexes={1: [(21, 9)]}, splits=(1,), target=target
    )
    assert status == 0
    np.testing.assert_array_equal(out, table[index])


@each_target
@pytest.mark.parametrize("dtype", ["int8", "float32", "complex64"])
def test_elements_gathered_by_index(dtype, target):
    rng = np.random.default_rng(5)
    table, index = numbers(rng, (6, 21), dtype), rng.integers(0, 6, (4, 21))
    _, out = guarded((4, 21), dtype)
    kernel = gather_kernel(dtype, index, ("0", "1"), out)
    view = np.broadcast_to(table[:1], (4, 21))
    status = launch(kernel, (4, 21), [index, view], [out], indexes={1: [(21, 6)]}, target=target)
    assert status == 0
    np.testing.assert_array_equal(out, np.take_along_axis(table, index, 0))


@each_target
def test_two_indexes_at_once(target):
    rng = np.random.default_rng(6)
    table, i, j = numbers(rng, (7, 9), "float32"), rng.integers(0, 7, 40), rng.integers(0, 9, 40)
    operands = (Operand("int64", ("1",)), Operand("int64", ("1",)), Operand("float32", ("0",), 2))
    body = (load("int64", 0), load("int64", 1), load("float32", 2, 0, 1))
    kernel = LoopKernel(1, 0, operands, body, stores=(Store("float32", 2, ("1",)),))
    out, view = np.zeros(40, "float32"), np.broadcast_to(table[0, :1], 40)
    pairs = {2: [(9, 7), (1, 9)]}
    assert launch(kernel, [40], [i, j, view], [out], indexes=pairs, target=target) == 0
    np.testing.assert_array_equal(out, table[i, j])


@each_target
@pytest.mark.parametrize("extent", [3, 0])
@pytest.mark.parametrize("uniform", [True, False])
def test_an_index_out_of_range_sets_the_status(uniform, extent, target):
    table = np.arange(40, dtype="float32").reshape(4, 10)
    index = np.array([2, 3, -1, -4])  # of 3: only the first is inside
    grid = np.broadcast_to(index[:, None], (4, 10))
    grid = grid if uniform else np.ascontiguousarray(grid)
    out = np.zeros((4, 10), "float32")
    kernel, view = (
        gather_kernel("float32", grid, ("0", "1"), out),
        np.broadcast_to(table[:1], (4, 10)),
    )
    assert launch(kernel, (4, 10), [grid, view], [out], indexes={1: [(10, extent)]}, target=target)
    if extent:
        np.testing.assert_array_equal(out, table[[2, 0, 0, 0]])
    inside = np.where(np.abs(grid) == 1, 1, 0)
    inside = np.broadcast_to(inside[:, :1], (4, 10)) if uniform else inside
    if extent:
        assert not launch(
            kernel, (4, 10), [inside, view], [out], indexes={1: [(10, 3)]}, target=target
        )


def test_no_lane_beyond_the_end_can_fail():
    """An index that is out of range only in lanes that do not exist."""
    operands = (Operand("int64", ("1",)), Operand("int64", ("0",)), Operand("float32", ("0",), 1))
    body = (
        load("int64", 0), load("int64", 1), Instr("sub", "int64", (0, 1)), load("float32", 2, 2),
    )  # fmt: skip
    kernel = LoopKernel(1, 0, operands, body, stores=(Store("float32", 3, ("1",)),))
    index, five, table = np.arange(5, 10), np.broadcast_to(np.array(5), 5), np.arange(5.0)
    table = table.astype("float32")
    view, out = np.broadcast_to(table[:1], 5), np.zeros(5, "float32")
    assert launch(kernel, [5], [index, five, view], [out], indexes={2: [(1, 5)]}) == 0
    np.testing.assert_array_equal(out, table)


def test_the_text_of_a_module_is_deterministic():
    a = np.ones((2, 3), "float32")
    kernel = sum_kernel("float32", a, a, a)
    assert lower(kernel, lookup, "name") == lower(kernel, lookup, "name")


def test_a_module_needs_no_library():
    """Every function that is called is an LLVM intrinsic or in the module."""
    for op in ("fmod", "pow", "exp", "sin", "floordiv"):
        body = (load("float32", 0), load("float32", 1))
        apply = Instr(op, "float32", (0, 1) if op in ("fmod", "pow", "floordiv") else (0,))
        operands = (Operand("float32", ("1",)),) * 2
        kernel = LoopKernel(1, 0, operands, (*body, apply), stores=(Store("float32", 2, ("1",)),))
        source = lower(kernel, lookup, "name")
        names = re.findall(r"call [^@]*@\"?([^\"(]+)", source)
        defined = re.findall(r"define [^@]*@\"?([^\"(]+)", source)
        assert all(called.startswith("llvm.") or called in defined for called in names), names


@pytest.mark.parametrize(
    "dims, reduced, expected",
    [
        ((), 0, (1, 1, 0)),
        ((5000,), 0, (5000, 1024, 0)),
        ((7, 4096), 0, (7, 1, 0)),
        ((500, 10), 0, (500, 102, 0)),
        ((5, 0), 0, (0, 1, 0)),
        ((5, 0), 1, (5, 1024, 0)),
        ((0, 5), 1, (0, 1, 0)),
        ((10000,), 1, (3, 4, 24)),
    ],
)
def test_launch_shape(dims, reduced, expected):
    strides = ("1",) * len(dims)
    reduces = (loop_ir.Reduce("sum", 0, "float32"),) * (reduced > 0)
    kernel = LoopKernel(
        len(dims), reduced, (Operand("float32", strides),), (load("float32", 0),), reduces
    )
    assert launch_shape(scheduled(kernel), dims) == expected
