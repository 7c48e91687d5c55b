"""Reductions in their fixed order: the same bits for every layout, direction, split and target."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_jit import NUMPY, classes
from kernel_launch import launch
from kernel_reference import from_bfloat16, reduce_last, to_bfloat16
from weft.engine.devices.cpu.codegen.schedule import LoopSchedule, Scheduled
from weft.engine.devices.cpu.llvm.target import AVX2, AVX512, NEON, host
from weft.engine.kernels.loop_ir import Instr, LoopKernel, Operand, Reduce, Store

TARGETS = [target for target in (AVX512, AVX2, NEON) if host() == AVX512 or target != AVX512]
each_target = pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
INTEGERS = ("uint8", "uint16", "uint64", "int8", "int16", "int32", "int64")
LENGTHS = (0, 1, 15, 16, 17, 100, 4095, 4096, 4097, 3 * 4096 + 5, 21000)

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def reduction(kind, dtype, array, reduced, result, across=False) -> Scheduled:
    """One reduction of the trailing axes of an array's layout."""
    rank = array.ndim
    parallel = rank - reduced
    strides = ("s",) * (parallel - 1) + ("1",) * (parallel > 0) + ("0",) * reduced
    return Scheduled(
        rank, reduced, (Operand(dtype, classes(array)),), (Instr("load", dtype, (), 0),),
        (Reduce(kind, 0, result),), (), (Store(result, 1, strides, "epilogue"),),
        schedule=LoopSchedule(parallel - 1 if across else rank - 1),
    )  # fmt: skip


def run(kind, dtype, array, reduced, result="", across=False, splits=(1,), target=None):
    """The reduction of the trailing axes."""
    result = result or dtype
    out = np.full(array.shape[: array.ndim - reduced], 77, NUMPY[result])
    kernel = reduction(kind, dtype, array, reduced, result, across)
    launch(kernel, array.shape, [array], [out], splits=splits, target=target)
    return out


def numbers(shape, dtype, seed=0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    values = rng.standard_normal(shape) * 9
    if dtype == "bfloat16":
        return to_bfloat16(values.astype("float32"))
    if dtype.startswith("complex"):
        return (values + 1j * rng.standard_normal(shape)).astype(dtype)
    return values.astype(NUMPY[dtype])


def same(got, expected) -> None:
    np.testing.assert_array_equal(got.view(f"u{got.itemsize}"), expected.view(f"u{got.itemsize}"))


@each_target
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sum_of_every_length_and_direction(dtype, target):
    for length in LENGTHS:
        x = numbers((3, length), dtype, length)
        expected = reduce_last(x, "sum")
        same(run("sum", dtype, x, 1, target=target), expected)
        if length:
            same(run("sum", dtype, np.asfortranarray(x), 1, across=True, target=target), expected)
            same(run("sum", dtype, np.asfortranarray(x), 1, target=target), expected)
        for row, value in zip(x, expected, strict=True):
            same(run("sum", dtype, row, 1, target=target), value)


@each_target
@pytest.mark.parametrize("rows", [1, 7, 16, 40, 255, 256, 257, 700])
def test_columns_of_every_width(rows, target):
    x = numbers((100, rows), "float32").T
    expected = reduce_last(np.ascontiguousarray(x), "sum")
    same(run("sum", "float32", x, 1, across=True, splits=(1, 2), target=target), expected)


@each_target
@pytest.mark.parametrize("count", [63, 64, 65, 130, 4096 + 70])
@pytest.mark.parametrize("kind, dtype", [("sum", "float32"), ("sum", "float64"), ("max", "uint8")])
def test_columns_of_several_elements_at_once(kind, dtype, count, target):
    """Elements of a lane are added together four at a time, whatever is left over in either direction."""
    for width in (16, 75, 128, 300):
        x = numbers((count, width), dtype, count).T
        expected = reduce_last(np.ascontiguousarray(x), kind)
        same(run(kind, dtype, x, 1, across=True, splits=(1,), target=target), expected)


@pytest.mark.parametrize("count", [64, 200, 4096 + 70])
def test_the_first_of_equal_extrema_of_columns(count):
    for width in (64, 128, 300):
        x = np.random.default_rng(count).integers(0, 9, (width, count)).astype("float32")
        column = np.asfortranarray(x)
        got = run("argmax", "float32", column, 1, "int64", across=True)
        np.testing.assert_array_equal(got, x.argmax(1))


ACCUMULATED = [
    (kind, dtype)
    for kind in ("sum", "prod", "max", "min", "any", "all")
    for dtype in ("bool", *INTEGERS, "float16", "bfloat16", "float32", "float64")
]


def accumulated(kind, dtype, x) -> tuple[np.ndarray, str]:
    """The values as they are accumulated, and the dtype of the result."""
    if kind in ("any", "all"):
        return (from_bfloat16(x) if dtype == "bfloat16" else x) != 0, "bool"
    if dtype == "bfloat16":
        return from_bfloat16(x), dtype
    if dtype == "float16":
        return x.astype("float32"), dtype
    if kind in ("sum", "prod") and dtype in (*INTEGERS, "bool"):
        return x.astype("int64"), "int64"
    return x, dtype


@pytest.mark.parametrize("kind, dtype", ACCUMULATED)
def test_every_kind_and_dtype(kind, dtype):
    x = numbers((5, 300), dtype)
    if kind in ("any", "all"):
        x = np.where(np.arange(300) % 7 == 3, x, x.dtype.type(kind == "all"))
        x[0] = kind == "all"
    wide, result = accumulated(kind, dtype, x)
    expected = reduce_last(wide, kind)
    if dtype == "bfloat16" and result == dtype:
        expected = to_bfloat16(expected)
    expected = expected.astype(NUMPY[result])
    column = np.asfortranarray(x)
    for got in (run(kind, dtype, x, 1, result), run(kind, dtype, column, 1, result, across=True)):
        assert got.dtype == NUMPY[result]
        same(got, expected)
    same(run(kind, dtype, x[3], 1, result), expected[3])


@each_target
@pytest.mark.parametrize("kind", ["sum", "prod"])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_sums_and_products(kind, dtype, target):
    x = numbers((3, 5000), dtype) / 9
    if kind == "prod":
        x = x / np.abs(x)
    row = run(kind, dtype, x, 1, target=target)
    tolerance = 1e-2 if dtype == "complex64" else 1e-10
    np.testing.assert_allclose(row, getattr(np, kind)(x, 1), rtol=tolerance)
    column = run(kind, dtype, np.asfortranarray(x), 1, across=True, target=target)
    np.testing.assert_array_equal(row, column)
    for line, value in zip(x, row, strict=True):
        assert run(kind, dtype, line, 1, target=target) == value


@each_target
@pytest.mark.parametrize("shape", [(2, 7, 5), (3, 300, 33), (2, 3, 9000), (2, 3, 4, 5, 6)], ids=str)
def test_several_reduced_axes(shape, target):
    """Not collapsible, so that rows start in any lane and cross blocks."""
    x = numbers(shape, "float32")[:, ::-1]
    flat = np.ascontiguousarray(x).reshape(shape[0], -1)
    expected = reduce_last(flat, "sum")
    rank = len(shape)
    same(run("sum", "float32", x, rank - 1, target=target), expected)
    same(run("sum", "float32", x, rank, target=target), reduce_last(flat.reshape(-1), "sum"))
    moved = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 0, -1)), -1, 0)
    same(run("sum", "float32", moved, rank - 1, across=True, target=target), expected)
    strided = np.repeat(x, 2, -1)[..., ::2]
    same(run("sum", "float32", strided, rank - 1, target=target), expected)


@each_target
def test_parallel_axes_around_a_column(target):
    x = numbers((3, 50, 21), "float64")
    expected = reduce_last(np.ascontiguousarray(x.transpose(0, 2, 1)), "sum")
    view = x.transpose(0, 2, 1)
    same(run("sum", "float64", view, 1, across=True, splits=(1, 2), target=target), expected)
    same(run("sum", "float64", view, 1, splits=(1, 2), target=target), expected)


@pytest.mark.parametrize("shape, reduced", [((4, 0), 1), ((2, 0, 3), 2), ((2, 3, 0), 2)], ids=str)
def test_nothing_to_reduce_gives_the_identity(shape, reduced):
    x = np.zeros(shape, "float32")
    layout = np.zeros((2,) * len(shape), "float32")
    for kind, identity in (("sum", 0), ("prod", 1), ("max", -np.inf), ("min", np.inf)):
        for across in (False, True):
            kernel = reduction(kind, "float32", layout, reduced, "float32", across)
            out = np.full(shape[: len(shape) - reduced], 7, "float32")
            launch(kernel, shape, [x], [out])
            assert (out == identity).all()
        kernel = reduction(kind, "float32", layout, len(shape), "float32")
        out = np.full((), 7, "float32")
        launch(kernel, shape, [x], [out])
        assert out == identity


@each_target
@pytest.mark.parametrize("kind", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "float16", "float32", "float64"])
def test_the_first_of_equal_extrema(kind, dtype, target):
    rng = np.random.default_rng(7)
    x = rng.integers(0, 6, (4, 5000)).astype(dtype)
    x[1] = 3
    if np.dtype(dtype).kind == "f":
        x[2, [700, 33, 4500]] = np.nan
        x[3] = -np.inf if kind == "argmax" else np.inf
    expected = getattr(np, kind)(x, 1)
    assert (run(kind, dtype, x, 1, "int64", target=target) == expected).all()
    column = np.asfortranarray(x)
    assert (run(kind, dtype, column, 1, "int64", across=True, target=target) == expected).all()
    for row, value in zip(x, expected, strict=True):
        assert run(kind, dtype, row, 1, "int64", target=target) == value
    folded = x.reshape(4, 50, 100)[:, ::-1]
    flat = np.ascontiguousarray(folded).reshape(4, -1)
    got = run(kind, dtype, folded, 2, "int64", target=target)
    assert (got == getattr(np, kind)(flat, 1)).all()


def test_nan_wins_every_maximum_and_minimum():
    x = np.zeros((3, 5000), "float32")
    x[0, 4999] = x[1, 0] = np.nan
    for kind in ("max", "min"):
        got = run(kind, "float32", x, 1)
        assert np.isnan(got[:2]).all() and got[2] == 0


def moments(across: bool) -> Scheduled:
    """Sum of squares, maximum; their quotient scaled by a row's operand; the squares stored too."""
    strides = ("1", "s") if across else ("s", "1")
    row = ("1", "0") if across else ("s", "0")
    body = (Instr("load", "float32", (), 0), Instr("mul", "float32", (0, 0)))
    reduces = (Reduce("sum", 1, "float32"), Reduce("max", 0, "float32"))
    epilogue = (
        Instr("div", "float32", (2, 3)), Instr("load", "float64", (), 1),
        Instr("cast", "float64", (4,)), Instr("mul", "float64", (6, 5)),
        Instr("offset", "int64", (), 2),
    )  # fmt: skip
    stores = (
        Store("float32", 1, strides), Store("float64", 7, row, "epilogue"),
        Store("int64", 8, row, "epilogue"), Store("float32", 3, row, "epilogue"),
    )  # fmt: skip
    operands = (
        Operand("float32", strides), Operand("float64", row), Operand("int64", row, virtual=True),
    )  # fmt: skip
    schedule = LoopSchedule(0 if across else 1)
    return Scheduled(2, 1, operands, body, reduces, epilogue, stores, schedule)


@each_target
@pytest.mark.parametrize("across", [False, True])
def test_prologue_epilogue_and_side_stores(across, target):
    x = numbers((70, 130), "float32")
    order = "F" if across else "C"
    x = np.array(x, order=order)
    scale = np.broadcast_to(numbers((70, 1), "float64", 1), x.shape)
    if not across:
        scale = np.broadcast_to(np.repeat(scale[:, :1], 2, 1)[:, :1], x.shape)
    squares = np.zeros((70, 130), "float32", order=order)
    spread, step = (1, 1) if across else (2, 5)
    rows = [np.zeros(70 * spread, dtype)[::spread] for dtype in ("float64", "int64", "float32")]
    launch(
        moments(across), x.shape, [x, scale], [squares, *rows], {2: (step, 0)}, splits=(1,),
        target=target,
    )  # fmt: skip
    np.testing.assert_array_equal(squares, x * x)
    largest = reduce_last(x, "max")
    quotient = (reduce_last(x * x, "sum") / largest).astype("float64")
    np.testing.assert_array_equal(rows[0], quotient * scale[:, 0])
    np.testing.assert_array_equal(rows[1], np.arange(70) * step)
    np.testing.assert_array_equal(rows[2], largest)


def of_a_long_body(strides: tuple[str, ...], row: tuple[str, ...]) -> LoopKernel:
    """((x * scale + scale) * x - x, its sum, and where x is largest."""
    body = (
        Instr("load", "float32", (), 0), Instr("load", "float32", (), 1),
        Instr("mul", "float32", (0, 1)), Instr("add", "float32", (2, 1)),
        Instr("mul", "float32", (3, 0)), Instr("sub", "float32", (4, 0)),
    )  # fmt: skip
    stores = (
        Store("float32", 5, strides), Store("float32", 6, row, "epilogue"),
        Store("int64", 7, row, "epilogue"),
    )  # fmt: skip
    reduces = (Reduce("sum", 5, "float32"), Reduce("argmax", 0, "int64"))
    operands = (Operand("float32", strides), Operand("float32", row))
    return LoopKernel(len(row), 1, operands, body, reduces, (), stores)


@each_target
@pytest.mark.parametrize("rows", [(), (3,)], ids=["full", "rows"])
@pytest.mark.parametrize("length", [1, 31, 32, 33, 100, 4096 + 70])
def test_long_bodies_in_wide_windows(length, rows, target):
    """Several elements of a lane come from one window: the order of sums and the first of equal extrema stay."""
    x = np.random.default_rng(length).integers(-9, 9, (*rows, length)).astype("float32") / 8
    scale = np.broadcast_to(numbers((*rows, 2), "float32", 1)[..., :1], x.shape)
    kernel = of_a_long_body(("s",) * len(rows) + ("1",), ("s",) * len(rows) + ("0",))
    values, gap = np.zeros_like(x), 2 if rows else 1
    sums, places = (np.zeros((gap, *rows), dtype).T[..., 0] for dtype in ("float32", "int64"))
    launch(kernel, x.shape, [x, scale], [values, sums, places], splits=(1,), target=target)
    expected = (x * scale + scale) * x - x
    same(values, expected)
    same(np.array(sums), np.asarray(reduce_last(expected, "sum")))
    np.testing.assert_array_equal(places, x.argmax(-1))


@each_target
def test_a_full_reduction_with_an_epilogue(target):
    x = numbers((9000,), "float32")
    count = np.array(9000, "float32")
    spread = np.broadcast_to(count, x.shape)
    kernel = LoopKernel(
        1, 1, (Operand("float32", ("1",)), Operand("float32", ("0",))),
        (Instr("load", "float32", (), 0),), (Reduce("sum", 0, "float32"),),
        (Instr("load", "float32", (), 1), Instr("div", "float32", (1, 2))),
        (Store("float32", 3, ("0",), "epilogue"),),
    )  # fmt: skip
    out = np.zeros((), "float32")
    launch(kernel, x.shape, [x, spread], [out], target=target)
    assert out == reduce_last(x, "sum") / count


def test_rows_read_through_an_index():
    """A sum of gathered rows: the prologue of a reduction may be indexed."""
    table = numbers((11, 50), "float32")
    index = np.array([3, 1, 10, 0])
    spread = np.broadcast_to(index[:, None], (4, 50))
    kernel = LoopKernel(
        2, 1, (Operand("int64", ("1", "0")), Operand("float32", ("0", "1"), 1)),
        (Instr("load", "int64", (), 0), Instr("load_indexed", "float32", (0,), 1)),
        (Reduce("sum", 1, "float32"),), (), (Store("float32", 2, ("1", "0"), "epilogue"),),
    )  # fmt: skip
    out, view = np.zeros(4, "float32"), np.broadcast_to(table[:1], (4, 50))
    assert launch(kernel, (4, 50), [spread, view], [out], indexes={1: [(50, 11)]}) == 0
    same(out, reduce_last(table[index], "sum"))
