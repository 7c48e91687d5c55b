"""Every GEMM kernel computes the chain of fused multiply-adds that defines it, bit for bit."""

from __future__ import annotations

import ctypes
import ctypes.util

import numpy as np
import pytest
from gemm_harness import Array, product, unit_count

from weft.engine.devices.cpu.gemm import launch_gemm
from weft.engine.devices.cpu.gemm.spec import full_tile
from weft.engine.devices.cpu.llvm.target import AVX2, AVX512, NEON, Target, host
from weft.engine.kernels import reduction_order

REAL = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
TARGETS = (AVX512, AVX2, NEON) if host() is AVX512 else (host(), NEON)
libm = ctypes.CDLL(ctypes.util.find_library("m"))
for name, kind in (("fmaf", ctypes.c_float), ("fma", ctypes.c_double)):
    getattr(libm, name).restype = kind
    getattr(libm, name).argtypes = [kind] * 3


def multiply_add(a: complex, b: complex, total: complex, single: bool) -> complex:
    """One step of a chain, by libm: of complex numbers two for each part."""
    step = libm.fmaf if single else libm.fma
    if not isinstance(a, complex):
        return step(a, b, total)
    real = step(-a.imag, b.imag, step(a.real, b.real, total.real))
    imag = step(a.imag, b.real, step(a.real, b.imag, total.imag))
    return complex(real, imag)


def reference_element(a: Array, b: Array) -> complex:
    """The defined sum of products."""
    single, number = a.dtype in (np.float32, np.complex64), a.dtype.type
    return reduction_order.multiply(
        a.tolist(),
        b.tolist(),
        lambda x, y, total: multiply_add(x, y, total, single),
        lambda total, chain: (number(total) + number(chain)).item(),
        number(0).item(),
    )


def reference(a: Array, b: Array) -> Array:
    out = np.empty((a.shape[0], a.shape[1], b.shape[2]), a.dtype)
    for i, row, column in np.ndindex(*out.shape):
        out[i, row, column] = reference_element(a[i, row], b[i, :, column])
    return out


def draw(rng: np.random.Generator, dtype: str, *shape: int) -> Array:
    values = rng.normal(size=shape)
    if dtype in COMPLEX:
        values = values + 1j * rng.normal(size=shape)
    return values.astype(dtype)


def empty(dtype: str, *shape: int) -> Array:
    return np.full(shape, np.nan, dtype)


def same(left: Array, right: Array) -> None:
    np.testing.assert_array_equal(
        np.ascontiguousarray(left).view(np.uint8), np.ascontiguousarray(right).view(np.uint8)
    )


def variants(dtype: str, target: Target) -> list[str]:
    rows, vectors = full_tile(dtype, target)
    return [
        f"{kind}{tail}"
        for kind in (f"tile{rows}x{vectors}", f"exact1x{4 * vectors}")
        for tail in ("", "_swapped")
    ]


@pytest.mark.parametrize("dtype", REAL + COMPLEX)
@pytest.mark.parametrize(
    ("m", "n", "k"), [(3, 5, 7), (1, 1, 1), (17, 2, 31), (2, 33, 4), (2, 2, 4500)]
)
def test_is_the_defined_chain(dtype: str, m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(k)
    a, b = draw(rng, dtype, 1, m, k), draw(rng, dtype, 1, k, n)
    expected = reference(a, b)
    for variant in variants(dtype, host()):
        same(product(dtype, a, b, empty(dtype, 1, m, n), variant), expected)


SHAPES = [(1, 70, 150, 40), (2, 29, 33, 300), (1, 15, 64, 2049), (1, 90, 31, 5000), (3, 8, 300, 17)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [*SHAPES, (1, 5, 7, 0)], ids=str)
def test_a_bias_is_added_to_whole_sums(dtype: str, shape: tuple[int, int, int, int]) -> None:
    batch, m, n, k = shape
    rng = np.random.default_rng(m)
    a, b = draw(rng, dtype, batch, m, k), draw(rng, dtype, batch, k, n)
    bias = draw(rng, dtype, 1, 1, n)
    expected = product(dtype, a, b, empty(dtype, batch, m, n)) + bias
    for target in TARGETS:
        for variant in variants(dtype, target):
            out = empty(dtype, batch, m, n)
            same(product(dtype, a, b, out, variant, target, bias=bias), expected)
            columns = empty(dtype, batch, n, m).transpose(0, 2, 1)
            same(product(dtype, a, b, columns, variant, target, bias=bias), expected)


@pytest.mark.parametrize("dtype", REAL + COMPLEX)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_variant_and_target_gives_the_same_bits(
    dtype: str, shape: tuple[int, int, int, int]
) -> None:
    batch, m, n, k = shape
    rng = np.random.default_rng(m)
    a, b = draw(rng, dtype, batch, m, k), draw(rng, dtype, batch, k, n)
    results = [
        product(dtype, a, b, empty(dtype, batch, m, n), variant, target)
        for target in TARGETS
        for variant in variants(dtype, target)
    ]
    for result in results[1:]:
        same(result, results[0])
    wide = np.complex128 if dtype in COMPLEX else np.float64
    exact = a.astype(np.clongdouble if dtype in COMPLEX else np.longdouble) @ b
    scale = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    error = np.abs(results[0].astype(wide) - exact) / scale
    assert error.max() < 60 * np.finfo(dtype).eps


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_a_row_does_not_depend_on_its_batch(dtype: str) -> None:
    rng = np.random.default_rng(0)
    a, b = draw(rng, dtype, 1, 61, 130), draw(rng, dtype, 1, 130, 77)
    whole = product(dtype, a, b, empty(dtype, 1, 61, 77))
    for rows in (1, 2, 3, 4, 5, 7, 8, 13, 14, 15, 31):
        part = product(dtype, a[:, 7 : 7 + rows], b, empty(dtype, 1, rows, 77))
        same(part, whole[:, 7 : 7 + rows])
    for columns in (1, 3, 16, 40):
        part = product(dtype, a, b[:, :, :columns], empty(dtype, 1, 61, columns))
        same(part, whole[:, :, :columns])


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("rows", range(1, 9))
def test_few_rows_have_kernels_of_their_own(dtype: str, rows: int) -> None:
    """Straight and turned, with columns and k that fill no vectors, more k than a chunk, and on every target: the bits
    are those of the large tile."""
    rng = np.random.default_rng(rows)
    for n, k in ((150, 37), (70, 2100), (129, 0)):
        a, b = draw(rng, dtype, 1, rows, k), draw(rng, dtype, 1, k, n)
        turned = np.ascontiguousarray(b.transpose(0, 2, 1)).transpose(0, 2, 1)
        tall = np.ascontiguousarray(b.transpose(0, 2, 1))
        for target in TARGETS:
            tile = "tile{}x{}".format(*full_tile(dtype, target))
            expected = product(dtype, a, b, empty(dtype, 1, rows, n), tile, target)
            for right in (b, turned):
                same(product(dtype, a, right, empty(dtype, 1, rows, n), None, target), expected)
            columns = np.ascontiguousarray(a).transpose(0, 2, 1)
            out = product(dtype, tall, columns, empty(dtype, 1, n, rows), None, target)
            same(out.transpose(0, 2, 1), expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows", range(1, 5))
def test_few_rows_stream_a_wide_matrix(dtype: str, rows: int) -> None:
    """More columns than a unit and than whole panels, k that fills no lines and no block, a chunk and its rest; cut
    anywhere, with a bias or without: the bits are those of the large tile."""
    rng = np.random.default_rng(rows)
    tile = "tile{}x{}".format(*full_tile(dtype, host()))
    for n, k in ((2300, 67), (1100, 130), (128, 2055)):
        a, b = draw(rng, dtype, 1, rows, k), draw(rng, dtype, 1, k, n)
        bias = draw(rng, dtype, 1, 1, n)
        launch = launch_gemm(dtype, 1, rows, n, k)
        assert launch.variant.startswith(f"exact{rows}x")
        pieces = [(unit, unit + 3) for unit in range(0, launch.units, 3)]
        for shift in (None, bias):
            expected = product(dtype, a, b, empty(dtype, 1, rows, n), tile, bias=shift)
            for cuts in (None, pieces):
                out = product(dtype, a, b, empty(dtype, 1, rows, n), pieces=cuts, bias=shift)
                same(out, expected)


def test_which_kernel_few_rows_take() -> None:
    def variant(m: int, n: int, *along: bool) -> str:
        return launch_gemm("float32", 1, m, n, 64, AVX512, (along[0], along[1])).variant

    assert variant(2, 512, True, False) == "exact2x8"
    assert variant(2, 512, True, True) == "turned2x1"
    assert variant(512, 2, True, False) == "turned2x1_swapped"
    assert variant(9, 512, True, True) == "tile14x2"
    assert variant(4, 10, True, False) == "tile14x2"


def layouts(array: Array) -> list[Array]:
    """The same values in other strides: transposed, spread out, reversed."""
    batch, rows, columns = array.shape
    spread = np.full((batch, 2 * rows, 3 * columns), np.nan, array.dtype)
    spread[:, ::2, ::3] = array
    return [
        array,
        np.ascontiguousarray(array.transpose(0, 2, 1)).transpose(0, 2, 1),
        spread[:, ::2, ::3],
        np.ascontiguousarray(array[:, ::-1, ::-1])[:, ::-1, ::-1],
        np.ascontiguousarray(array.transpose(1, 2, 0)).transpose(2, 0, 1),
    ]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("shape", [(2, 30, 70, 37), (1, 5, 9, 2100), (1, 100, 3, 50)], ids=str)
def test_strides(dtype: str, shape: tuple[int, int, int, int]) -> None:
    batch, m, n, k = shape
    rng = np.random.default_rng(5)
    a, b = draw(rng, dtype, batch, m, k), draw(rng, dtype, batch, k, n)
    expected = product(dtype, a, b, empty(dtype, batch, m, n))
    for left, right in zip(layouts(a), reversed(layouts(b)), strict=True):
        for out in layouts(empty(dtype, batch, m, n)):
            same(product(dtype, left, right, out), expected)


@pytest.mark.parametrize("dtype", ["float32", "complex64", "int32"])
def test_writes_nothing_else(dtype: str) -> None:
    rng = np.random.default_rng(6)
    a, b = (100 * draw(rng, "float64", 1, *s) for s in ((19, 21), (21, 45)))
    frame = np.full((1, 25, 60), 7, dtype)
    product(dtype, a.astype(dtype), b.astype(dtype), frame[:, 3:22, 8:53])
    frame[:, 3:22, 8:53] = 7
    assert (frame == 7).all()


@pytest.mark.parametrize("along_k", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "complex64", "float16"])
@pytest.mark.parametrize(
    "shape", [(4, 9, 33, 20), (3, 40, 300, 300), (3, 90, 290, 200), (2, 90, 290, 600)], ids=str
)
def test_shared_operands_have_stride_zero(
    dtype: str, shape: tuple[int, int, int, int], along_k: bool
) -> None:
    """What is packed of a shared matrix serves all others, in any pieces."""
    batch, m, n, k = shape
    rng = np.random.default_rng(7)
    a, b = (draw(rng, "float64", *s).astype(dtype) for s in ((batch, m, k), (1, k, n)))
    if along_k:
        b = np.ascontiguousarray(b.transpose(0, 2, 1)).transpose(0, 2, 1)
    every = [product(dtype, x[None], b, empty(dtype, 1, m, n)) for x in a]
    shared = np.broadcast_to(b, (batch, k, n))
    units = launch_gemm(dtype, batch, m, n, k, along=(True, along_k)).units
    cuts = [0, *sorted(rng.integers(0, units, 2).tolist()), units]
    pieces = list(zip(cuts, cuts[1:], strict=False))
    out = product(dtype, a, shared, empty(dtype, batch, m, n), pieces=pieces)
    same(out, np.concatenate(every))


@pytest.mark.parametrize("dtype", ["float32", "complex64", "float16", "int16"])
@pytest.mark.parametrize("shape", [(0, 3, 4, 5), (2, 0, 4, 5), (2, 3, 0, 5), (2, 3, 4, 0)], ids=str)
def test_empty_sizes(dtype: str, shape: tuple[int, int, int, int]) -> None:
    batch, m, n, k = shape
    out = np.full((batch, m, n), 5, dtype)
    product(dtype, np.ones((batch, m, k), dtype), np.ones((batch, k, n), dtype), out)
    assert (out == 0).all()


@pytest.mark.parametrize("dtype", ["float32", "float16", "complex64", "int64"])
@pytest.mark.parametrize("shape", [(3, 130, 600, 20), (2, 600, 20, 2100)], ids=str)
def test_any_split_into_pieces(dtype: str, shape: tuple[int, int, int, int]) -> None:
    batch, m, n, k = shape
    k = min(k, 30) if dtype == "int64" else k
    rng = np.random.default_rng(8)
    a, b = (draw(rng, "float64", batch, *s).astype(dtype) for s in ((m, k), (k, n)))
    launch = launch_gemm(dtype, batch, m, n, k)
    assert launch.units > 1
    expected = product(dtype, a, b, np.zeros((batch, m, n), dtype))
    cuts = [0, *sorted(rng.integers(0, launch.units, 4).tolist()), launch.units]
    pieces = list(zip(cuts, cuts[1:], strict=False))[::-1]
    same(product(dtype, a, b, np.zeros((batch, m, n), dtype), pieces=pieces), expected)


def bfloat16_bits(values: Array) -> Array:
    """float32 rounded to nearest even, as bits."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


@pytest.mark.parametrize("shape", [(1, 20, 40, 100), (2, 33, 5, 2500), (1, 1, 200, 64)], ids=str)
def test_halves_round_once_from_float32(shape: tuple[int, int, int, int]) -> None:
    batch, m, n, k = shape
    rng = np.random.default_rng(9)
    a, b = draw(rng, "float32", batch, m, k), draw(rng, "float32", batch, k, n)
    a16, b16 = a.astype(np.float16), b.astype(np.float16)
    wide = product("float32", a16.astype("f4"), b16.astype("f4"), empty("float32", batch, m, n))
    same(product("float16", a16, b16, empty("float16", batch, m, n)), wide.astype(np.float16))
    a16, b16 = bfloat16_bits(a), bfloat16_bits(b)
    left, right = ((x.astype(np.uint32) << 16).view(np.float32) for x in (a16, b16))
    wide = product("float32", left, right, empty("float32", batch, m, n))
    out = product("bfloat16", a16, b16, np.zeros((batch, m, n), np.uint16))
    same(out, bfloat16_bits(wide))


def test_bfloat16_keeps_infinity_and_nan() -> None:
    values = np.array([[[np.inf, np.nan, 3.3e38, -np.inf]]], np.float32)
    out = product("bfloat16", bfloat16_bits(np.ones((1, 1, 1))), bfloat16_bits(values),
                  np.zeros((1, 1, 4), np.uint16))  # fmt: skip
    result = (out.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(np.isnan(result), np.isnan(values))
    assert result[0, 0, 0] == np.inf
    assert result[0, 0, 3] == -np.inf


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint64", "int8", "int16", "int32", "int64"])
def test_integers_wrap(dtype: str) -> None:
    rng = np.random.default_rng(10)
    info = np.iinfo(dtype)
    a = rng.integers(info.min, info.max, (2, 7, 40), dtype, endpoint=True)
    b = rng.integers(info.min, info.max, (2, 40, 5), dtype, endpoint=True)
    expected = np.matmul(a, b)
    np.testing.assert_array_equal(product(dtype, a, b, np.zeros((2, 7, 5), dtype)), expected)


@pytest.mark.parametrize("turned", ["", "a", "b", "c", "abc"])
@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64"])
@pytest.mark.parametrize("shape", [(2, 70, 131, 600), (1, 4, 64, 256), (3, 5, 17, 1)], ids=str)
def test_integers_of_any_layout(shape: tuple[int, int, int, int], dtype: str, turned: str) -> None:
    """Whole and partial panels, blocks and tiles; operands whose columns are no neighbours."""
    batch, m, n, k = shape
    rng, info = np.random.default_rng(12), np.iinfo(dtype)
    operands = {
        name: rng.integers(info.min, info.max, (batch, *sizes), dtype, endpoint=True)
        for name, sizes in (("a", (m, k)), ("b", (k, n)), ("c", (m, n)))
    }
    for name in turned:
        x = operands[name]
        operands[name] = np.ascontiguousarray(x.transpose(0, 2, 1)).transpose(0, 2, 1)
    a, b, c = operands.values()
    expected = np.matmul(a, b)
    for target in TARGETS:
        c[...] = 5
        np.testing.assert_array_equal(product(dtype, a, b, c, "loop", target), expected)


@pytest.mark.parametrize("dtype", REAL)
def test_infinities_and_nans_stay_in_their_row_and_column(dtype: str) -> None:
    rng = np.random.default_rng(11)
    a, b = draw(rng, dtype, 1, 20, 33), draw(rng, dtype, 1, 33, 50)
    clean = product(dtype, a, b, empty(dtype, 1, 20, 50))
    a[0, 3, 4], b[0, 5, 6] = np.inf, np.nan
    result = product(dtype, a, b, empty(dtype, 1, 20, 50))
    assert not np.isfinite(result[0, 3]).any()
    assert np.isnan(result[0, :, 6]).all()
    others = np.ones((20, 50), bool)
    others[3], others[:, 6] = False, False
    same(result[0][others], clean[0][others])


def test_launch_leaves_small_products_to_one_thread() -> None:
    small = launch_gemm("float32", 1, 64, 64, 64)
    assert small.grain_size >= small.units
    large = launch_gemm("float32", 1, 1024, 1024, 1024)
    assert large.units >= 8 * large.grain_size
    assert unit_count("float32", large.variant, host(), 1, 1024, 1024) == large.units


@pytest.mark.parametrize("threads", [2, 3, 4])
@pytest.mark.parametrize(
    "shape",
    [(256, 256, 256), (1000, 256, 256), (256, 1000, 64), (64, 512, 512), (300, 70, 900)],
    ids=str,
)
def test_threads_get_equal_parts(shape: tuple[int, int, int], threads: int) -> None:
    """Units are fine enough that no thread has much more than its share of C."""
    m, n, k = shape
    launch = launch_gemm("float32", 1, m, n, k, AVX512)
    grains = -(-launch.units // launch.grain_size)
    most = max(grains * (part + 1) // threads - grains * part // threads for part in range(threads))
    assert most * launch.grain_size <= 1.25 * launch.units / threads
