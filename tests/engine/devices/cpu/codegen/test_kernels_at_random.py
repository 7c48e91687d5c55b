"""Random loop kernels mean what NumPy says, whatever their axes, layouts, ops and target."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernel_jit import classes
from kernel_launch import launch
from kernel_reference import reduce_last
from weft.engine.devices.cpu.codegen.schedule import LoopSchedule, scheduled
from weft.engine.devices.cpu.llvm.target import AVX2, AVX512, NEON, host
from weft.engine.kernels.loop_ir import Instr, LoopKernel, Operand, Reduce, Store

TARGETS = [target for target in (AVX512, AVX2, NEON) if host() == AVX512 or target != AVX512]


def larger(a, b):
    return np.where((a >= b) | (a != a), a, b)


BINARY: dict[str, Any] = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "maximum": larger}
UNARY: dict[str, Any] = {"neg": np.negative, "abs": np.abs, "floor": np.floor}


def with_steps(array: np.ndarray) -> np.ndarray:
    """The array; where it has no elements, one with strides as the scheduler's, of which an axis without elements
    counts as one of one element, at the very end of its memory. (NumPy's own are all zero.)"""
    if array.size:
        return array
    memory = np.empty([max(size, 1) for size in array.shape], array.dtype)
    return memory[tuple(slice(None if size else 1, None) for size in array.shape)]


@st.composite
def layouts(draw, dims) -> np.ndarray:
    """An array broadcast to `dims` with any order, gaps, and axes that do not vary."""
    order = draw(st.permutations(range(len(dims))))
    shape = [dims[axis] if draw(st.booleans()) else 1 for axis in order]
    gap = draw(st.sampled_from([1, 1, 2]))
    rng = np.random.default_rng(draw(st.integers(0, 9)))
    space = (
        rng.integers(-9, 9, [*shape[:-1], shape[-1] * gap]) if shape else rng.integers(-9, 9, ())
    )
    array = with_steps((space / 4).astype("float32"))
    array = array[..., ::gap] if shape else array
    back = np.argsort(order) if shape else []
    return np.broadcast_to(array.transpose(back), dims)


@st.composite
def bodies(draw, first: int, available: list[int], values: list[np.ndarray]):
    """A few instructions on the values there are, with what they give in NumPy."""
    instrs = []
    for number in range(first, first + draw(st.integers(0, 4))):
        name = draw(st.sampled_from([*BINARY, *UNARY]))
        args = tuple(draw(st.sampled_from(available)) for _ in range(1 + (name in BINARY)))
        instrs.append(Instr(name, "float32", args))
        with np.errstate(all="ignore"):
            values.append((BINARY | UNARY)[name](*(values[available.index(arg)] for arg in args)))
        available.append(number)
    return instrs


@st.composite
def kernels(draw):
    """A kernel, its operands, its extents, and what its stores should hold."""
    rank = draw(st.integers(1, 4))
    dims = tuple(draw(st.integers(0 if axis else 1, 36 if axis == rank - 1 else 5))
                 for axis in range(rank))  # fmt: skip
    reduced = draw(st.integers(0, rank))
    parallel = rank - reduced
    arrays = [draw(layouts(dims)) for _ in range(draw(st.integers(1, 3)))]
    instrs = [Instr("load", "float32", (), i) for i in range(len(arrays))]
    values, available = list(arrays), list(range(len(arrays)))
    instrs += draw(bodies(len(instrs), available, values))
    stores, expected = [], []
    if not reduced or draw(st.booleans()):
        kept = draw(st.sampled_from(available))
        stores.append(Store("float32", kept, classes(np.empty(dims, "float32"))))
        expected.append(values[kept])
    reduces, epilogue = [], []
    if reduced:
        late, results = [], []
        for number in range(draw(st.integers(1, 2))):
            kind, value = (
                draw(st.sampled_from(["sum", "max", "min"])),
                draw(st.sampled_from(available)),
            )
            length = math.prod(dims[parallel:])
            flat = np.ascontiguousarray(values[value]).reshape(*dims[:parallel], length)
            reduces.append(Reduce(kind, value, "float32"))
            results.append(reduce_last(flat, kind))
            late.append(len(instrs) + number)
        epilogue = draw(bodies(len(instrs) + len(late), late, results))
        strides = (*classes(np.empty(dims[:parallel], "float32")), *["0"] * reduced)
        stores.append(Store("float32", late[-1], strides, "epilogue"))
        expected.append(results[-1])
    across = parallel - 1 if 0 < reduced < rank and draw(st.booleans()) else rank - 1
    operands = tuple(Operand("float32", classes(array)) for array in arrays)
    kernel = LoopKernel(
        rank,
        reduced,
        operands,
        tuple(instrs),
        tuple(reduces),
        tuple(epilogue),
        tuple(stores),
    )
    return scheduled(kernel, LoopSchedule(across)), dims, arrays, expected


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(kernels(), st.lists(st.integers(1, 4), max_size=2), st.sampled_from(TARGETS))
def test_a_kernel_means_what_numpy_says(case, splits, target):
    kernel, dims, arrays, expected = case
    outs = [np.full(value.shape, 5, "float32") for value in expected]
    launch(kernel, dims, arrays, outs, splits=splits, target=target)
    for out, value in zip(outs, expected, strict=True):
        np.testing.assert_array_equal(out, value)
