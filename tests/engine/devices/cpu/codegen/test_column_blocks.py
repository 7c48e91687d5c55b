"""Few columns of many rows: blocks as units of work, and windows of one register, give the bits of all other ways."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_reductions import each_target, moments, numbers, reduction, same

import weft
from kernel_jit import NUMPY
from kernel_launch import launch
from kernel_reference import reduce_last
from weft.engine.devices.cpu.codegen.schedule import LoopSchedule, Scheduled, scheduled
from weft.engine.ir.tape import tape
from weft.engine.kernels.loop_ir import KernelError
from weft.engine.pipeline.lowering.row_kernel import prepared_spec
from weft.engine.pipeline.lowering.spec_table import key_of
from weft.engine.pipeline.passes import Compilation, run_through

COUNTS = (1, 15, 16, 17, 256, 300, 4096, 4097, 3 * 4096 + 272)


def narrow(kernel: Scheduled) -> Scheduled:
    """The same kernel for few columns."""
    return replace(kernel, schedule=replace(kernel.schedule, narrow=True))


def run_apart(kind, x, result, target=None) -> np.ndarray:
    """The reduction of the last axis of a transposed array, its blocks cut in the middle."""
    kernel = narrow(reduction(kind, x.dtype.name, x, 1, result, across=True))
    out = np.full(x.shape[0], 77, NUMPY[result])
    launch(kernel, x.shape, [x], [out], splits=(1, 2), target=target)
    return out


@each_target
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("kind, dtype", [("sum", "float32"), ("sum", "float64"), ("min", "int8")])
def test_blocks_apart(kind, dtype, count, target):
    for width in (1, 10, 16, 32, 75, 130):
        x = numbers((count, width), dtype, count).T
        expected = reduce_last(np.ascontiguousarray(x), kind)
        same(run_apart(kind, x, dtype, target), expected)


@pytest.mark.parametrize("kind, dtype, result", [
    ("argmax", "float32", "int64"), ("any", "bool", "bool"), ("sum", "complex64", "complex64"),
    ("sum", "uint8", "int64"), ("sum", "float16", "float16"),
])  # fmt: skip
def test_states_of_every_form_in_scratch(kind, dtype, result):
    rng = np.random.default_rng(0)
    for width in (5, 40, 100):
        whole = rng.integers(0, 2, (9000, width)).astype(dtype)
        wide = whole.astype("float32") if dtype == "float16" else whole
        expected = wide.argmax(0) if kind == "argmax" else getattr(wide, kind)(0)
        np.testing.assert_array_equal(run_apart(kind, whole.T, result), expected.astype(result))


@each_target
def test_body_and_epilogue_of_blocks_apart(target):
    x = np.array(numbers((70, 9000), "float32"), order="F")
    scale = np.broadcast_to(numbers((70, 1), "float64", 1), x.shape)
    kernel, squares = narrow(moments(across=True)), np.zeros_like(x)
    rows = [np.zeros(70, dtype) for dtype in ("float64", "int64", "float32")]
    launch(
        kernel, x.shape, [x, scale], [squares, *rows], {2: (1, 0)}, splits=(1,), target=target
    )  # fmt: skip
    np.testing.assert_array_equal(squares, x * x)
    quotient = (reduce_last(x * x, "sum") / reduce_last(x, "max")).astype("float64")
    np.testing.assert_array_equal(rows[0], quotient * scale[:, 0])
    np.testing.assert_array_equal(rows[1], np.arange(70))


def test_rows_are_not_narrow():
    kernel = reduction("sum", "float32", numbers((3, 100), "float32"), 1, "float32")
    with pytest.raises(KernelError, match="narrow"):
        scheduled(narrow(kernel))


@pytest.mark.parametrize("width", [1, 7, 32, 127, 128])
def test_sums_of_few_columns_on_any_number_of_threads(width):
    values = numbers((20, 1000, width), "float32")
    expected = reduce_last(np.ascontiguousarray(values.reshape(-1, width).T), "sum")
    before = weft.get_num_threads()
    try:
        for threads in (1, 2, 3):
            weft.set_num_threads(threads)
            same(weft.tensor(values).sum((0, 1)).numpy(), expected)
    finally:
        weft.set_num_threads(before)


@each_target
@pytest.mark.parametrize("width", [7, 40, 100])
def test_few_columns_beside_other_axes(width, target):
    x = np.ascontiguousarray(numbers((3, 1100, width), "float32")).transpose(0, 2, 1)
    kernel = narrow(reduction("sum", "float32", x, 1, "float32", across=True))
    out = np.zeros((3, width), "float32")
    launch(kernel, x.shape, [x], [out], splits=(1,), target=target)
    same(out, reduce_last(np.ascontiguousarray(x), "sum"))


def test_kernels_are_narrow_where_columns_are_few():
    for shape, expected in (((20000, 32), True), ((1000, 32), False), ((20000, 256), False)):
        x = weft.tensor(numbers(shape, "float32"))
        weft.realize(x)
        total = x.sum(0)
        one = run_through("tiering", Compilation(tape().pending(), whole=True))
        spec = prepared_spec(one.program.kernels[0])
        del total
        assert LoopSchedule.of(key_of(spec)[-1]).narrow is expected
        one.program.release()
