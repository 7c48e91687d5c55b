"""The kernel families beside the loops: gathered rows, scans, scatters."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from kernel_jit import NUMPY, Function, address
from kernel_reference import from_bfloat16, to_bfloat16
from weft.engine.devices.cpu.kernels import scan, scatter, segment_gather
from weft.engine.devices.cpu.llvm.target import AVX2, AVX512, NEON, host

TARGETS = [target for target in (AVX512, AVX2, NEON) if host() == AVX512 or target != AVX512]
each_target = pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)


def numbers(shape, dtype, seed=0) -> np.ndarray:
    values = np.random.default_rng(seed).standard_normal(shape) * 9
    if dtype == "bfloat16":
        return to_bfloat16(values.astype("float32"))
    if dtype == "bool":
        return values > 0
    return values.astype(NUMPY[dtype])


TOGETHER = {"add": np.add, "maximum": np.maximum, "minimum": np.minimum, None: lambda old, new: new}


def combined(how, dtype, a, b):
    if dtype == "bfloat16":
        return to_bfloat16(TOGETHER[how](from_bfloat16(a), from_bfloat16(b)))
    return TOGETHER[how](a, b)


@cache
def gather(dtype, target) -> Function:
    return Function(segment_gather.lower_rows(dtype, "kernel", target), ["kernel"], target)


@each_target
@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int64", "float16", "bfloat16", "float32", "float64", "complex128"]
)
@pytest.mark.parametrize("size", [0, 1, 15, 33, 300])
def test_rows_are_sums_in_order(dtype, size, target):
    sources = [numbers((3, size), dtype, seed) for seed in range(2)]
    lists = [[(0, 0)], [], [(0, 1), (1, 2)], [(1, 0), (0, 2), (0, 0), (1, 1)], [(1, 2)]]
    flat = [item for entries in lists for item in entries]
    table = np.array([address(sources[i]) + row * size * sources[i].itemsize for i, row in flat])
    offsets = np.cumsum([0, *map(len, lists)]).astype("int64")
    out = np.full((7, size), 1, NUMPY[dtype])
    pointers = [address(table), address(offsets), address(out[1:])]
    for begin, end in ((0, 2), (2, 5)):
        gather(dtype, target)("kernel", pointers, [5, size], begin, end)
    for got, entries in zip(out[1:], lists, strict=False):
        expected = np.zeros(size, NUMPY[dtype])
        for position, (source, row) in enumerate(entries):
            value = sources[source][row]
            expected = combined("add", dtype, expected, value) if position else value
        np.testing.assert_array_equal(got, expected)
    assert (out[0] == 1).all() and (out[6] == 1).all()
    assert segment_gather.launch_rows(5, size)[0] == 5


def scan_reference(x: np.ndarray, combine) -> np.ndarray:
    """Sixteens by doubling distances, then the total before them."""
    out, total = np.empty_like(x), None
    for start in range(0, len(x), 16):
        part = x[start : start + 16].copy()
        for distance in (1, 2, 4, 8):
            moved = part.copy()
            moved[distance:] = combine(part[:-distance], part[distance:])
            part = moved
        out[start : start + 16] = part if total is None else combine(total, part)
        total = out[min(start + 15, len(x) - 1)]
    return out


COMBINE = {
    "sum": np.add,
    "prod": np.multiply,
    "max": lambda a, b: np.where((a >= b) | (a != a), a, b),
    "min": lambda a, b: np.where((a <= b) | (a != a), a, b),
}


@each_target
@pytest.mark.parametrize("kind", COMBINE)
@pytest.mark.parametrize("dtype", ["int32", "int64", "float16", "bfloat16", "float32", "float64"])
def test_scan(kind, dtype, target):
    function = Function(scan.lower_scan(kind, dtype, "kernel", target), ["kernel"], target)
    work = scan.work_type(kind, dtype)
    assert work == {"float16": "float32", "bfloat16": "float32"}.get(dtype, work)
    for length in (0, 1, 2, 15, 16, 17, 100, 515):
        x = numbers((3, length), dtype, length)
        wide = from_bfloat16(x) if dtype == "bfloat16" else x.astype(work)
        with np.errstate(all="ignore"):
            expected = np.array([scan_reference(row, COMBINE[kind]) for row in wide]).reshape(
                x.shape
            )
            expected = to_bfloat16(expected) if dtype == "bfloat16" else expected.astype(x.dtype)
        for source, out in (
            (x, np.zeros_like(x)),
            (np.asfortranarray(x), np.zeros((length * 2, 3), x.dtype).T[:, ::2]),
        ):
            strides = [s // x.itemsize for s in (*source.strides, *out.strides)]
            for begin, end in ((0, 1), (1, 3)):
                pointers = [address(source), address(out), address(np.zeros(0))]
                function("kernel", pointers, [3, length, *strides, 0, 0], begin, end)
            np.testing.assert_array_equal(out, expected)
            out[:] = 0
            totals = np.zeros((3, scan.TOTAL), np.uint8)
            for start in range(0, length, 48):
                pieces = source[:, start : start + 48], out[:, start : start + 48]
                pointers = [*map(address, pieces), address(totals)]
                count = min(48, length - start)
                function("kernel", pointers, [3, count, *strides, start > 0, scan.TOTAL], 0, 3)
            np.testing.assert_array_equal(out, expected)
    assert scan.launch_scan(3, 100)[0] == 3


@each_target
@pytest.mark.parametrize("kind", COMBINE)
@pytest.mark.parametrize("dtype", ["int64", "float16", "bfloat16", "float32", "float64"])
def test_scan_of_columns_has_the_bits_of_the_scan_of_rows(kind, dtype, target):
    columns = Function(
        scan.lower_scan_of_columns(kind, dtype, "kernel", target), ["kernel"], target
    )
    rows = Function(scan.lower_scan(kind, dtype, "kernel", target), ["kernel"], target)
    for length, count in ((1, 16), (5, 40), (16, 17), (33, 3), (70, 64)):
        x = numbers((2, length, count), dtype, length)
        moved = np.ascontiguousarray(x.swapaxes(1, 2))
        expected = np.zeros_like(moved)
        pointers = [address(moved), address(expected), address(np.zeros(0))]
        rows("kernel", pointers, [2 * count, length, length, 1, length, 1, 0, 0], 0, 2 * count)
        units, _ = scan.launch_scan_of_columns(2, count, length)
        beside, apart = (length * count, count, 1), (length * count, 1, length)
        for source, strides, out_strides in ((x, beside, apart), (moved, apart, beside)):
            out = np.zeros(x.size, x.dtype)
            for begin, end in ((0, 1), (1, units)):
                arguments = [units, length, count, units // 2, *strides, *out_strides]
                columns("kernel", [address(source), address(out)], arguments, begin, end)
            shaped = out.reshape(x.shape).swapaxes(1, 2) if out_strides == beside else out
            np.testing.assert_array_equal(shaped.reshape(expected.shape), expected)


@pytest.mark.parametrize("kind", ["sum", "prod"])
def test_complex_scan(kind):
    function = Function(scan.lower_scan(kind, "complex128", "kernel"), ["kernel"])
    x = numbers(100, "float64") / 9 + 1j * numbers(100, "float64", 1) / 9
    out = np.zeros_like(x)
    totals = np.zeros(2)
    for start, count in ((0, 32), (32, 68)):
        pointers = [address(x[start:]), address(out[start:]), address(totals)]
        function("kernel", pointers, [1, count, 100, 1, 100, 1, start, scan.TOTAL], 0, 1)
    np.testing.assert_allclose(out, getattr(np, f"cum{kind}")(x), rtol=1e-12)


def scatter_reference(out, index, source, combine, dtype) -> tuple[np.ndarray, int]:
    result, status = out.copy(), 0
    for outer, position, inner in np.ndindex(source.shape):
        place = index[outer, position, inner]
        if not 0 <= place < out.shape[1]:
            status = 1
            continue
        value = source[outer, position, inner]
        old = result[outer, place, inner]
        result[outer, place, inner] = combined(combine, dtype, old, value)
    return result, status


@each_target
@pytest.mark.parametrize(
    ("combine", "dtype"),
    [
        (combine, dtype)
        for combine in TOGETHER
        for dtype in ("bool", "int32", "float16", "bfloat16", "float32", "complex64")
        if combine not in ("maximum", "minimum") or dtype not in ("bool", "complex64")
    ],
)
def test_scatter(combine, dtype, target):
    text = scatter.lower_scatter(dtype, combine, "kernel", target)
    function = Function(text, ["kernel"], target)
    rng = np.random.default_rng(1)
    cases = [((2, 30, 1), 5), ((1, 40, 7), 9), ((3, 20, 70), 4), ((1, 12, 300), 3), ((2, 0, 4), 3)]
    for shape, extent in cases:
        source = numbers(shape, dtype)
        whole = rng.integers(-2, extent + 1, shape)
        for index in (
            np.broadcast_to(rng.integers(0, extent, (1, shape[1], 1)), shape),
            whole,
        ):
            for layout in ("C", "F"):
                out = np.array(numbers((shape[0], extent, shape[2]), dtype, 2), order=layout)
                expected, bad = scatter_reference(out, index, source, combine, dtype)
                strides = [
                    s // array.itemsize for array in (index, source, out) for s in array.strides
                ]
                status = np.zeros(1, "int64")
                pointers = [address(a) for a in (index, source, out, status)]
                units, grain_size, _ = scatter.launch_scatter(*shape)
                cuts = sorted({0, min(grain_size, units), units})
                for begin, end in zip(cuts, cuts[1:], strict=False):
                    function("kernel", pointers, [*shape, extent, *strides], begin, end)
                np.testing.assert_array_equal(out, expected)
                assert status[0] == bad
