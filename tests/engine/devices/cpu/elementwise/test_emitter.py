"""Each primitive of the emitter against NumPy, for every dtype, to the bit where NumPy is exact."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from kernel_jit import NUMPY
from kernel_launch import launch
from kernel_reference import from_bfloat16, philox, to_bfloat16
from weft.engine.devices.cpu.llvm.target import AVX2, AVX512, NEON, Target, host
from weft.engine.kernels.loop_ir import Instr, LoopKernel, Operand, Store

UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = (*UNSIGNED, "int8", "int16", "int32", "int64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
REAL = ("bool", *INTEGERS, *FLOATS)
TARGETS = [target for target in (AVX512, AVX2, NEON) if host() == AVX512 or target != AVX512]
COUNT = 203

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def kernel(op: str, dtypes: tuple[str, ...], result: str) -> LoopKernel:
    """out[i] = op(a[i], b[i], ...)."""
    loads = tuple(Instr("load", dtype, (), i) for i, dtype in enumerate(dtypes))
    apply = Instr(op, result, tuple(range(len(dtypes))))
    operands = tuple(Operand(dtype, ("1",)) for dtype in dtypes)
    return LoopKernel(1, 0, operands, (*loads, apply), stores=(Store(result, len(dtypes), ("1",)),))


def run(op: str, result: str, dtypes: tuple[str, ...], *values, target: Target | None = None):
    """The op applied to arrays of the given dtypes (bfloat16: as bits)."""
    out = np.zeros(len(values[0]), NUMPY[result])
    launch(kernel(op, dtypes, result), [len(out)], values, [out], target=target)
    return out


def bits(array: np.ndarray) -> np.ndarray:
    """The bit patterns, every nan the same one."""
    if array.dtype.kind == "c":
        return bits(array.view(array.real.dtype))
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), np.array(np.nan, array.dtype), array)
    return array.view(f"u{array.itemsize}")


def assert_same(got: np.ndarray, expected: np.ndarray, dtype: str = "") -> None:
    """Equal bits; any nan equals any other."""
    assert got.dtype == expected.dtype
    if dtype == "bfloat16":
        got, expected = from_bfloat16(got), from_bfloat16(expected)
    np.testing.assert_array_equal(bits(got), bits(np.ascontiguousarray(expected)))


def sample(dtype: str, seed: int, span: float = 8.0) -> np.ndarray:
    """Values of a dtype with its awkward ones among them."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, COUNT).astype(bool)
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        values = rng.integers(max(info.min, -40), min(info.max, 40), COUNT, NUMPY[dtype], True)
        values[:6] = [info.min, info.max, 0, 1, info.max - 1, info.min + 1]
        return rng.permutation(values)
    if dtype in COMPLEX:
        part = {"complex64": "float32", "complex128": "float64"}[dtype]
        return (sample(part, seed) + 1j * sample(part, seed + 1).astype(dtype)).astype(dtype)
    values = (rng.standard_normal(COUNT) * span).astype("float32" if dtype != "float64" else dtype)
    values[:8] = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0, -1.0, 0.5]
    values = rng.permutation(values)
    return to_bfloat16(values) if dtype == "bfloat16" else values.astype(NUMPY[dtype])


def through_float(dtype: str, function, *values):
    """A NumPy function in the dtype; the halves compute in float32 and round once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if dtype == "bfloat16":
            return to_bfloat16(function(*(from_bfloat16(v) for v in values)).astype("float32"))
        if dtype == "float16":
            return function(*(v.astype("float32") for v in values)).astype("float16")
        return function(*values)


def maximum(a, b):
    return np.where((a >= b) | (a != a), a, b)


def minimum(a, b):
    return np.where((a <= b) | (a != a), a, b)


def floordiv(a, b):
    """PyTorch's floor division: the quotient itself where b is 0."""
    quotient = np.floor_divide(a, b)
    return np.where(b == 0, a / b, np.where(np.isinf(a) | np.isnan(a), np.nan, quotient))


def remainder(a, b):
    """NumPy's, but a zero remainder has the sign of a, as in PyTorch."""
    rest = np.remainder(a, b)
    return np.where(rest == 0, np.copysign(rest, a), rest)


ARITHMETIC = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "minimum": minimum,
    "maximum": maximum,
    "fmod": np.fmod,
    "remainder": remainder,
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", ARITHMETIC)
def test_float_arithmetic(op, dtype):
    a, b = sample(dtype, 1), sample(dtype, 2)
    expected = through_float(dtype, ARITHMETIC[op], a, b)
    assert_same(run(op, dtype, (dtype, dtype), a, b), expected, dtype)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_fmod_is_exact_over_the_whole_range(dtype, target):
    rng = np.random.default_rng(3)
    low, high = (-140, 120) if dtype == "float32" else (-1060, 1000)
    a, b = (
        np.ldexp(rng.standard_normal(4000), rng.integers(low, high, 4000)).astype(dtype)
        for _ in range(2)
    )
    assert_same(run("fmod", dtype, (dtype, dtype), a, b, target=target), np.fmod(a, b))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_float_floordiv(dtype):
    a, b = sample(dtype, 1), sample(dtype, 2)
    got = run("floordiv", dtype, (dtype, dtype), a, b)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_array_equal(got, floordiv(a, b))


@pytest.mark.parametrize("dtype", FLOATS)
def test_fma_rounds_once(dtype):
    a, b, c = (sample(dtype, seed) for seed in (1, 2, 3))
    got = run("fma", dtype, (dtype,) * 3, a, b, c)
    if dtype == "float64":
        finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
        exact = a.astype(np.longdouble) * b + c
        np.testing.assert_allclose(got[finite], exact[finite].astype("float64"), rtol=1e-15)
        return

    def exactly(a, b, c):
        wide = a.astype("float64") * b.astype("float64") + c.astype("float64")
        return wide.astype("float32")

    assert_same(got, through_float(dtype, exactly, a, b, c), dtype)


UNARY = {
    "neg": np.negative,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "reciprocal": lambda v: v.dtype.type(1) / v,
    "sign": lambda v: np.where(np.isnan(v), 0, np.sign(v)).astype(v.dtype) + 0,
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", UNARY)
def test_float_unary(op, dtype):
    a = sample(dtype, 1)
    assert_same(run(op, dtype, (dtype,), a), through_float(dtype, UNARY[op], a), dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", ["isnan", "isinf", "isfinite"])
def test_classification(op, dtype):
    a = sample(dtype, 1)
    values = from_bfloat16(a) if dtype == "bfloat16" else a
    assert_same(run(op, "bool", (dtype,), a), getattr(np, op)(values))


COMPARISONS = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("op", COMPARISONS)
def test_comparison(op, dtype):
    a, b = sample(dtype, 1), sample(dtype, 2)
    b[::3] = a[::3]
    pair = [from_bfloat16(v) if dtype == "bfloat16" else v for v in (a, b)]
    assert_same(run(op, "bool", (dtype, dtype), a, b), COMPARISONS[op](*pair))


@pytest.mark.parametrize("dtype", REAL)
def test_select_takes_the_masked_value(dtype):
    mask, a, b = sample("bool", 5), sample(dtype, 1), sample(dtype, 2)
    got = run("select", dtype, ("bool", dtype, dtype), mask, a, b)
    assert_same(got, np.where(mask, a, b), dtype)


WRAPPING = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "fmod": np.fmod,
    "remainder": np.remainder,
    "floordiv": np.floor_divide,
}


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("op", WRAPPING)
def test_integer_arithmetic(op, dtype):
    a, b = sample(dtype, 1), sample(dtype, 2)
    b[0], a[1] = 0, np.iinfo(dtype).min
    b[1] = np.iinfo(dtype).max if dtype in UNSIGNED else -1
    assert_same(run(op, dtype, (dtype, dtype), a, b), WRAPPING[op](a, b))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_division_truncates_and_never_traps(dtype):
    a, b = sample(dtype, 1), sample(dtype, 2)
    exact = [0 if y == 0 else int(abs(int(x)) // abs(int(y))) * (-1 if (x < 0) != (y < 0) else 1)
             for x, y in zip(a.tolist(), b.tolist(), strict=True)]  # fmt: skip
    expected = np.array(exact, object).astype("int64" if dtype != "int64" else object)
    wrapped = np.array([(int(v) + 2**63) % 2**64 - 2**63 for v in expected], "int64").astype(dtype)
    assert_same(run("div", dtype, (dtype, dtype), a, b), wrapped)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("op", ["shl", "shr"])
def test_shifts(op, dtype):
    a, b = sample(dtype, 1), sample(dtype, 2)
    width = a.itemsize * 8
    inside = (b >= 0) & (b < width)
    safe = np.where(inside, b, 0).astype(dtype)
    fill = np.where(a < 0, -1, 0).astype(dtype) if op == "shr" else np.zeros_like(a)
    shifted = np.left_shift(a, safe) if op == "shl" else np.right_shift(a, safe)
    assert_same(run(op, dtype, (dtype, dtype), a, b), np.where(inside, shifted, fill))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_power(dtype):
    a = np.tile(np.array([0, 1, 2, 3, 5, 255, 254, 7], "int64"), 26)[:COUNT].astype(dtype)
    b = np.arange(COUNT).astype("int64") % 23 - (0 if dtype in UNSIGNED else 9)
    expected = []
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        if y >= 0:
            expected.append(pow(x, y, 2**64))
        else:
            expected.append({1: 1, -1: 1 if y % 2 == 0 else -1}.get(x, 0) % 2**64)
    got = run("pow", dtype, (dtype, dtype), a, b.astype(dtype))
    assert_same(got, np.array(expected, "uint64").astype(dtype))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("op", ["neg", "abs", "sign", "bitwise_not"])
def test_integer_unary(op, dtype):
    a = sample(dtype, 1)
    function = {"neg": np.negative, "abs": np.abs, "sign": np.sign, "bitwise_not": np.invert}[op]
    assert_same(run(op, dtype, (dtype,), a), function(a))


@pytest.mark.parametrize("op", ["add", "mul", "sub", "bitwise_not", "logical_not", "maximum"])
def test_bool_arithmetic_is_logic(op):
    a, b = sample("bool", 1), sample("bool", 2)
    if op.endswith("not"):
        assert_same(run(op, "bool", ("bool",), a), ~a)
        return
    expected = {"add": a | b, "mul": a & b, "sub": a ^ b, "maximum": a | b}[op]
    assert_same(run(op, "bool", ("bool", "bool"), a, b), expected)


def rounded_to_odd_free(values: np.ndarray, dtype: str) -> np.ndarray:
    return to_bfloat16(values.astype("float32")) if dtype == "bfloat16" else values.astype(dtype)


def saturated(values: np.ndarray, dtype: str) -> np.ndarray:
    """Truncated, nan to 0, clamped to the integer's range."""
    info = np.iinfo(dtype)
    wide = np.trunc(np.nan_to_num(values.astype("float64"), nan=0.0, posinf=1e300, neginf=-1e300))
    low = wide <= float(info.min)
    high = wide >= float(info.max)
    inner = (
        np.where(low | high, 0, wide)
        .astype("uint64" if dtype in UNSIGNED else "int64")
        .astype(dtype)
    )
    return np.where(low, info.min, np.where(high, info.max, inner)).astype(dtype)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("source", REAL)
def test_cast(source, target):
    a = sample(source, 1, 300.0)
    if source in FLOATS[2:]:
        a[20:30] = [3e9, -3e9, 1e19, -1e19, 65519.0, 65520.0, 1e-41, 2e-8, 6e-5, 1.0009765625]
    values = from_bfloat16(a) if source == "bfloat16" else a
    for dtype in REAL:
        if dtype == "bool":
            expected = values != 0
        elif dtype in INTEGERS and source in FLOATS:
            expected = saturated(values, dtype)
        elif dtype == "bfloat16":
            expected = a if source == dtype else rounded_to_odd_free(values, dtype)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                expected = values.astype(dtype)
        if source != dtype:
            assert_same(run("cast", dtype, (source,), a, target=target), expected, dtype)


def test_float64_to_float16_rounds_once():
    """Just above the middle between two float16, but by less than float32 can tell."""
    a = np.array([1.0 + 2.0**-11 + 2.0**-40, 1.0 + 2.0**-11, 65519.999999999], "float64")
    assert_same(run("cast", "float16", ("float64",), a), a.astype("float16"))


def test_every_bfloat16_and_float16_survives_a_round_trip():
    for dtype in ("bfloat16", "float16"):
        patterns = np.arange(65536, dtype="uint16").view(NUMPY[dtype])
        wide = run("cast", "float32", (dtype,), patterns)
        back = run("cast", dtype, ("float32",), wide)
        if dtype == "bfloat16":
            assert_same(wide, from_bfloat16(patterns))
            quiet = np.where(np.isnan(wide), patterns | 0x40, patterns)
            np.testing.assert_array_equal(back, quiet)
        else:
            assert_same(wide, patterns.astype("float32"))
            assert_same(back, patterns)


ELEMENTARY = "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh"
ELEMENTARY = (ELEMENTARY + " asinh acosh atanh").split()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", ELEMENTARY)
def test_elementary(op, dtype):
    """Close to NumPy; the exact bounds are tested where the functions are."""
    function = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh",
                "acosh": "arccosh", "atanh": "arctanh"}.get(op, op)  # fmt: skip
    a = sample(dtype, 1, 2.0)
    got, expected = run(op, dtype, (dtype,), a), through_float(dtype, getattr(np, function), a)
    if dtype == "bfloat16":
        got, expected = from_bfloat16(got), from_bfloat16(expected)
    tolerance = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 5e-7, "float64": 1e-15}[dtype]
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=0)


def finite(dtype: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(COUNT) + 1j * rng.standard_normal(COUNT)).astype(dtype)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_complex_arithmetic(dtype):
    a, b = finite(dtype, 1), finite(dtype, 2)
    assert_same(run("add", dtype, (dtype, dtype), a, b), a + b)
    assert_same(run("sub", dtype, (dtype, dtype), a, b), a - b)
    assert_same(run("neg", dtype, (dtype,), a), -a)
    assert_same(run("conj", dtype, (dtype,), a), a.conj())
    product = run("mul", dtype, (dtype, dtype), a, b)
    assert_same(product.real, a.real * b.real - a.imag * b.imag)
    assert_same(product.imag, a.real * b.imag + a.imag * b.real)
    close(run("div", dtype, (dtype, dtype), a, b), a / b)
    np.testing.assert_array_equal(run("eq", "bool", (dtype, dtype), a, a), True)
    np.testing.assert_array_equal(run("ne", "bool", (dtype, dtype), a, b), True)


def close(got: np.ndarray, expected: np.ndarray) -> None:
    tolerance = 2e-6 if got.dtype.name in ("complex64", "float32") else 1e-14
    np.testing.assert_allclose(got, expected.astype(got.dtype), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_complex_parts(dtype):
    a, real = finite(dtype, 1), {"complex64": "float32", "complex128": "float64"}[dtype]
    assert_same(run("real", real, (dtype,), a), a.real)
    assert_same(run("imag", real, (dtype,), a), a.imag)
    assert_same(run("complex", dtype, (real, real), a.real.copy(), a.imag.copy()), a)
    close(run("abs", real, (dtype,), a), np.abs(a))
    huge = np.full(COUNT, np.finfo(real).max / 2 * (1 + 1j), dtype)
    assert np.isfinite(run("abs", real, (dtype,), huge)).all()
    odd = np.arange(COUNT) % 2 > 0
    other = "complex128" if dtype == "complex64" else "complex64"
    assert_same(run("cast", other, (dtype,), a), a.astype(other))
    assert_same(
        run("cast", dtype, ("int32",), sample("int32", 1)), sample("int32", 1).astype(dtype)
    )
    assert_same(run("cast", real, (dtype,), a), a.real)
    assert_same(run("cast", "bool", (dtype,), a * odd.astype(dtype)), odd)


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("op", [*ELEMENTARY, "sqrt", "sigmoid", "reciprocal", "sign"])
def test_complex_functions(op, dtype):
    special = {
        "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh,
        "acosh": np.arccosh, "atanh": np.arctanh, "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
        "sign": lambda v: v / np.abs(v), "reciprocal": lambda v: 1 / v,
    }  # fmt: skip
    a = finite(dtype, 1)
    function = special.get(op) or getattr(np, op)
    expected = function(a.astype("complex128"))
    tolerance = 3e-5 if dtype == "complex64" else 1e-12
    got = run(op, dtype, (dtype,), a)
    np.testing.assert_allclose(got, expected.astype(dtype), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_complex_power(dtype):
    a, b = finite(dtype, 1), finite(dtype, 2)
    b[0] = a[1] = 0
    b[1] = 2
    got = run("pow", dtype, (dtype, dtype), a, b)
    tolerance = 1e-4 if dtype == "complex64" else 1e-11
    np.testing.assert_allclose(got, (a**b).astype(dtype), rtol=tolerance, atol=tolerance)


def test_philox_matches_the_published_rounds():
    keys = np.array([0, 1, 0xFFFFFFFFFFFFFFFF, 0x0123456789ABCDEF] * 3, "uint64").view("int64")
    counters = np.array([0, 1, 2, 2**32, 2**33 + 7, 2**63 - 1] * 2, "int64")
    got = run("philox", "int64", ("int64", "int64"), keys, counters)
    pairs = zip(keys.view("uint64").tolist(), counters.tolist(), strict=True)
    assert got.tolist() == [philox(key, counter) for key, counter in pairs]
    assert philox(0, 0) == 0x6627E8D5  # the known answer of the generator's authors


def test_mixed_dtypes_are_refused():
    from kernel_launch import lookup
    from weft.engine.devices.cpu.codegen.loop_kernel import lower

    with pytest.raises(TypeError, match="cast first"):
        lower(kernel("add", ("float32", "float64"), "float32"), lookup, "mixed")
