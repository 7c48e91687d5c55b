"""The functions of the standard that are not element by element, beside NumPy's: values, types and shapes.

Each line is evaluated twice, with `xp` and the arrays NumPy's and ours.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import weft

ours: Any = weft.ones(1).__array_namespace__()
TYPES = ("bool", "int8", "int64", "uint8", "uint16", "uint64", "float32", "float64", "complex64")
NUMERIC = [name for name in TYPES if name != "bool"]
REAL = [name for name in NUMERIC if not name.startswith("complex")]
INEXACT = [name for name in NUMERIC if np.dtype(name).kind in "fc"]
SHAPES = ((), (0,), (4,), (2, 3), (2, 0), (2, 3, 4))

CASES: dict[str, list[str]] = {
    "xp.sum(x, axis={axes}, keepdims={flag})": NUMERIC,
    "xp.sum(x, dtype=xp.float32)": REAL,
    "xp.prod(x, axis={axes}, keepdims={flag})": NUMERIC,
    "xp.mean(x, axis={axes}, keepdims={flag})": INEXACT,
    "xp.var(x, axis={axes}, correction=0.5)": ["float64"],
    "xp.std(x, axis={axes}, keepdims={flag})": ["float32"],
    "xp.max(x, axis={axes}, keepdims={flag})": REAL,
    "xp.min(x, axis={axes})": REAL,
    "xp.all(x, axis={axes}, keepdims={flag})": list(TYPES),
    "xp.any(x, axis={axes})": list(TYPES),
    "xp.count_nonzero(x, axis={axes}, keepdims={flag})": list(TYPES),
    "xp.argmax(x, axis={axis}, keepdims={flag})": REAL,
    "xp.argmin(x)": REAL,
    "xp.cumulative_sum(x, axis={axis}, include_initial={flag})": NUMERIC,
    "xp.cumulative_prod(x, axis={axis}, include_initial={flag})": NUMERIC,
    "xp.diff(x, axis={axis}, n=2)": NUMERIC,
    "xp.diff(x, axis={axis}, prepend=x, append=x)": NUMERIC,
    "xp.sort(x, axis={axis})": REAL,
    "xp.argsort(x, axis={axis}, stable=True)": REAL,
    "xp.unique_all(x)": REAL,
    "xp.unique_counts(x)": REAL,
    "xp.unique_inverse(x)": REAL,
    "xp.sort(xp.unique_values(x))": REAL,
    "xp.nonzero(x)": list(TYPES),
    "xp.where(x != 0, x, 1)": NUMERIC,
    "xp.flip(x, axis={axis})": list(TYPES),
    "xp.flip(x)": ["float32"],
    "xp.roll(x, 2, axis={axis})": ["float32"],
    "xp.roll(x, -1)": ["float32"],
    "xp.concat([x, x], axis={axis})": ["float32"],
    "xp.concat([x, x], axis=None)": ["float32"],
    "xp.stack([x, x], axis={axis})": ["float32"],
    "xp.unstack(x, axis={axis})": ["float32"],
    "xp.expand_dims(x, axis={axis})": ["float32"],
    "xp.squeeze(xp.expand_dims(x, axis={axis}), {axis})": ["float32"],
    "xp.repeat(x, 2, axis={axis})": ["float32"],
    "xp.repeat(x, 3)": ["float32"],
    "xp.tile(x, (2, 1, 3))": ["float32"],
    "xp.tile(x, (2,))": ["float32"],
    "xp.permute_dims(x, tuple(range(x.ndim))[::-1])": ["float32"],
    "xp.moveaxis(x, {axis}, 0)": ["float32"],
    "xp.broadcast_to(x, (2, *x.shape))": ["float32"],
    "xp.broadcast_arrays(x, xp.ones((2, *x.shape), dtype=x.dtype))": ["float32"],
    "xp.reshape(x, (-1,), copy=True)": ["float32"],
    "xp.take(x, indices, axis={axis})": ["float32"],
    "xp.take_along_axis(x, xp.zeros(x.shape, dtype=xp.int64), axis={axis})": ["float32"],
    "xp.tril(xp.reshape(xp.stack([x, x, x]), (3, -1)))": list(TYPES),
    "xp.triu(xp.reshape(xp.stack([x, x, x]), (3, -1)), k=1)": ["float32"],
    "xp.zeros_like(x)": list(TYPES),
    "xp.ones_like(x, dtype=xp.uint16)": ["float32"],
    "xp.full_like(x, 1)": list(TYPES),
    "xp.astype(x, xp.uint16)": ["bool", "int64", "uint64"],
    "xp.astype(x, xp.complex128)": list(TYPES),
    "xp.matmul(x, xp.matrix_transpose(x))": NUMERIC,
    "xp.tensordot(x, x, axes=x.ndim)": NUMERIC,
    "xp.tensordot(x, x, axes=((0,), (0,)))": ["float32", "int8"],
    "xp.vecdot(x, x)": NUMERIC,
    "xp.linalg.outer(x, x)": NUMERIC,
    "xp.linalg.diagonal(x, offset=1)": ["float32"],
    "xp.linalg.trace(x, offset=-1)": NUMERIC,
    "xp.linalg.vector_norm(x, axis={axes}, keepdims={flag})": INEXACT,
    "xp.linalg.vector_norm(x, ord=3)": ["float64"],
    "xp.linalg.vector_norm(x, ord=0)": ["float64"],
    "xp.searchsorted(xp.sort(x), x, side='right')": ["float64", "uint64"],
    "xp.searchsorted(x, x, sorter=xp.argsort(x))": ["float64"],
    "xp.fft.fft(x, axis={axis})": ["complex64", "float64"],
    "xp.fft.ifft(x, n=5, norm='ortho')": ["complex64"],
    "xp.fft.rfft(x, axis={axis})": ["float64"],
    "xp.fft.irfft(x, n=6)": ["complex64"],
    "xp.fft.hfft(x)": ["complex64"],
    "xp.fft.ihfft(x)": ["float64"],
    "xp.fft.fftn(x, axes=(-1,))": ["complex64"],
    "xp.fft.rfftn(x)": ["float64"],
    "xp.fft.irfftn(x, s=(2, 3), axes=(-2, -1), norm='forward')": ["complex64"],
    "xp.fft.fftshift(x)": ["float64"],
    "xp.fft.ifftshift(x, axes=-1)": ["float64"],
}
MADE = """
xp.arange(5, dtype=xp.int16)
xp.arange(2, 7, 2)
xp.arange(7, 2, -2)
xp.arange(7, 2)
xp.arange(0, 1, 0.25, dtype=xp.float64)
xp.linspace(0, 1, 5, dtype=xp.float64)
xp.linspace(1.5, -2, 4, endpoint=False, dtype=xp.float64)
xp.linspace(0, 1, 1, dtype=xp.float32)
xp.linspace(0, 1, 0, dtype=xp.float32)
xp.linspace(0, 1 + 1j, 3, dtype=xp.complex128)
xp.linspace(2 + 1j, 1, 5, dtype=xp.complex128, endpoint=False)
xp.linspace(-10, -1, 11, dtype=xp.int32)
xp.linspace(2**53, 2**53 + 10, 7, dtype=xp.float64)
xp.linspace(5e-324, 1e-322, 3, dtype=xp.float64, endpoint=False)
xp.linspace(3, 3, 2, dtype=xp.float64, endpoint=False)
xp.eye(3, 4, k=1, dtype=xp.uint16)
xp.eye(0, dtype=xp.float32)
xp.eye(3, 0, dtype=xp.bool)
xp.eye(3, 5, k=-100, dtype=xp.complex64)
xp.eye(3, 5, k=4, dtype=xp.bool)
xp.eye(1, k=100, dtype=xp.int8)
xp.ones(3, dtype=xp.float64)
xp.zeros((2, 0), dtype=xp.uint32)
xp.full((2,), 2**64 - 1, dtype=xp.uint64)
xp.full((), 3)
xp.full((2,), True)
xp.asarray([1, 2])
xp.asarray([[True], [False]])
xp.asarray([1, 2.5], dtype=xp.float64)
xp.asarray([1, 2], dtype=xp.complex64, copy=True)
xp.asarray([], dtype=xp.int8)
xp.asarray(range(3))
xp.asarray([2**63 + 1, 5], dtype=xp.uint64)
xp.asarray(5)[xp.asarray(True)]
xp.asarray(5)[xp.asarray(False)]
xp.asarray([1, 2, 3])[xp.asarray(False)]
xp.asarray(5)[()]
xp.asarray(5)[None, ...]
xp.arange(10)[-1:-20:-3]
xp.arange(0)[xp.arange(0) > 9]
xp.reshape(xp.arange(6), (2, 3))[0, xp.asarray([2, 0])]
xp.take(xp.arange(5), xp.asarray([3, 0], dtype=xp.uint8))
xp.repeat(xp.arange(3), xp.asarray([0, 1, 2], dtype=xp.uint8))
xp.take_along_axis(xp.arange(3), xp.asarray([-1, 0], dtype=xp.int8))
xp.linalg.vector_norm(xp.asarray([3.0, -4.0, 0.0], dtype=xp.float64), ord=-2.5)
xp.linalg.trace(xp.ones((3, 3), dtype=xp.uint8), offset=5)
xp.linalg.det(xp.ones((2, 0, 0), dtype=xp.float64))
xp.linalg.slogdet(xp.zeros((2, 2), dtype=xp.float64))
xp.roll(xp.arange(6), (1, 2), axis=(0, 0))
xp.diff(xp.asarray([4, 2], dtype=xp.uint8))
xp.diff(xp.asarray([4, 2]), n=5)
xp.meshgrid(xp.arange(2), xp.arange(3))
xp.meshgrid(xp.arange(2), xp.arange(3), indexing="ij")
xp.fft.fftfreq(6, d=0.5) * 1.0 == xp.asarray([0, 1, 2, -3, -2, -1]) / 3.0
""".strip().splitlines()
SQUARE = """
xp.linalg.cholesky(definite)
xp.linalg.cholesky(definite, upper=True)
xp.linalg.det(x)
xp.linalg.eigvalsh(definite)
xp.linalg.inv(x)
xp.linalg.matrix_power(x, -2)
xp.linalg.matrix_power(x, 3)
xp.linalg.matrix_rank(x)
xp.linalg.matrix_norm(x)
xp.linalg.matrix_norm(x, ord="nuc", keepdims=True)
xp.linalg.matrix_norm(x, ord=1)
xp.linalg.matrix_norm(x, ord=-2)
xp.linalg.pinv(x, rtol=0.1)
xp.linalg.slogdet(x)
xp.linalg.solve(x, definite)
xp.linalg.solve(x, x[0, :, 0])
xp.linalg.svdvals(x)
xp.linalg.cross(x, definite)
xp.linalg.cross(x, definite, axis=1)
""".strip().splitlines()


def made(dtype: str, shape: tuple[int, ...]) -> Any:
    rng = np.random.default_rng(len(shape))
    if np.dtype(dtype).kind in "biu":
        return rng.integers(0, 2 if dtype == "bool" else 9, shape).astype(dtype)
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if dtype.startswith("complex") else x).astype(dtype)


def assert_same(found: Any, wanted: Any) -> None:
    if isinstance(wanted, tuple | list):
        assert isinstance(found, tuple | list) and len(found) == len(wanted)
        assert getattr(found, "_fields", None) == getattr(wanted, "_fields", None)
        for pair in zip(found, wanted, strict=True):
            assert_same(*pair)
        return
    array, wanted = found.numpy(force=True), np.asarray(wanted)
    assert (array.dtype, array.shape) == (wanted.dtype, wanted.shape)
    close = {"f": 4, "F": 4, "d": 12, "D": 12}.get(wanted.dtype.char)
    if close is None:
        np.testing.assert_array_equal(array, wanted)
    else:
        np.testing.assert_allclose(array, wanted, rtol=10.0**-close, atol=10.0 ** -(close + 1))


def evaluated(expression: str, **arrays: Any) -> None:
    """Both values of an expression; none where NumPy refuses it."""
    code = compile(expression, expression, "eval")
    try:
        with np.errstate(all="ignore"):
            wanted = eval(code, {"xp": np, **arrays})
    except (ValueError, IndexError, TypeError):
        return
    mine = {name: weft.tensor(array) for name, array in arrays.items()}
    assert_same(eval(code, {"xp": ours, **mine}), wanted)


@pytest.mark.filterwarnings("ignore:Degrees of freedom", "ignore:Mean of empty", "ignore:(var|std)")
@pytest.mark.parametrize("case", CASES)
def test_functions_over_types_shapes_and_axes(case: str) -> None:
    for dtype in CASES[case]:
        for shape in SHAPES:
            rank = len(shape)
            one = (0, -1) if rank else ()  # NumPy takes axis 0 of an array without axes
            several = [(0, rank - 1)] if rank > 1 else []
            lines = {
                case.format(axes=axes, axis=axis, flag=flag)
                for axes in (None, (), *one, *several)
                for axis in one or ((0,) if "expand" in case or "stack(" in case else ())
                for flag in (False, True)
            }
            x = made(dtype, shape)
            for line in sorted(lines):
                if x.size == 0 and ("irfft" in line or "hfft" in line):
                    continue  # NumPy leaves the result unwritten
                evaluated(line, x=x, indices=np.array([1, 0, 1]))


@pytest.mark.parametrize("line", MADE)
def test_functions_that_make_arrays(line: str) -> None:
    evaluated(line)


@pytest.mark.parametrize("line", SQUARE)
def test_linear_algebra(line: str) -> None:
    for dtype in INEXACT:
        x = made(dtype, (2, 3, 3))
        definite = x @ np.conj(np.swapaxes(x, -1, -2)) + np.eye(3, dtype=dtype)
        evaluated(line, x=x, definite=definite)


@pytest.mark.parametrize("shape", [(3, 2), (2, 4, 3)])
def test_factors(shape: tuple[int, ...]) -> None:
    x = weft.tensor(made("complex64", shape))
    for full in (True, False):
        u, s, vh = ours.linalg.svd(x, full_matrices=full)
        assert u.shape[-1] == (shape[-2] if full else min(shape[-2:])) and s.dtype is weft.float32
        scaled = u[..., : shape[-1]] * ours.expand_dims(s, axis=-2)
        weft.testing.assert_close(ours.matmul(scaled, vh), x)
    for mode in ("reduced", "complete"):
        q, r = ours.linalg.qr(x, mode=mode)
        weft.testing.assert_close(ours.matmul(q, r), x)
    square = ours.matmul(x.mH, x)
    values, vectors = ours.linalg.eigh(square)
    weft.testing.assert_close(ours.matmul(square, vectors), vectors * values.unsqueeze(-2))


def test_order_of_equal_elements() -> None:
    x = weft.tensor([2, 1, 2, 1])
    assert ours.argsort(x).tolist() == [1, 3, 0, 2]
    assert ours.argsort(x, descending=True).tolist() == [0, 2, 1, 3]
    assert ours.sort(x, descending=True).tolist() == [2, 2, 1, 1]


def test_every_nan_is_unique() -> None:
    values, counts = ours.unique_counts(weft.tensor([float("nan"), 1.0, float("nan"), 1.0]))
    assert values.shape == (3,) and counts.tolist() == [2, 1, 1]


def test_ends_of_ranges_are_met_whatever_their_distance() -> None:
    far = ours.linspace(-1.7e308, 1.7e308, 5, dtype=ours.float64)
    assert far.tolist() == [-1.7e308, -8.5e307, 0.0, 8.5e307, 1.7e308]
    for start, stop, count in ((0.1, 0.3, 7), (1e16, 1, 3), (-0.3, 5e-324, 50)):
        ends = ours.linspace(start, stop, count, dtype=ours.float64)
        assert (float(ends[0]), float(ends[-1])) == (start, stop)


def test_memory_is_exported_with_every_argument_of_the_standard() -> None:
    x = weft.arange(6.0).reshape(2, 3)[:, ::2]
    every = {"stream": None, "max_version": (1, 0), "dl_device": (1, 0), "copy": False}
    assert list(inspect.signature(x.__dlpack__).parameters) == list(every)
    assert "versioned" in repr(x.__dlpack__(**every))
    assert "versioned" not in repr(x.__dlpack__())
    shared, copied = np.from_dlpack(x), np.from_dlpack(x, copy=True)
    x[0, 0] = 7
    assert (shared[0, 0], copied[0, 0]) == (7, 0)
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(AssertionError, match="stream"):
        x.__dlpack__(stream=1)


def test_copies() -> None:
    x = weft.arange(6).reshape(2, 3)
    assert ours.asarray(x, copy=False) is x and ours.asarray(x, copy=True) is not x
    assert ours.astype(x, x.dtype, copy=False) is x
    ours.reshape(x, (3, 2), copy=False)[0, 0] = 9
    ours.asarray(x, copy=True)[0, 1] = 9
    ours.astype(x, x.dtype)[0, 1] = 9
    ours.from_dlpack(x, copy=True)[0, 1] = 9
    assert x.tolist() == [[9, 1, 2], [3, 4, 5]]
    for refused in (
        lambda: ours.reshape(x.mT, (6,), copy=False),
        lambda: ours.asarray([1], copy=False),
    ):
        with pytest.raises(ValueError):
            refused()


@pytest.mark.parametrize("wrong, error", [
    ("xp.squeeze(x, 0)", ValueError), ("xp.expand_dims(x, axis=4)", IndexError),
    ("xp.sum(x, axis=2)", IndexError), ("xp.sum(x, axis=(0, 0))", ValueError),
    ("xp.take(x, x)", ValueError), ("xp.cumulative_sum(x)", ValueError),
    ("xp.max(xp.astype(x, xp.complex64))", RuntimeError), ("xp.nonzero(xp.sum(x))", ValueError),
    ("xp.linalg.cross(x, x)", ValueError), ("xp.linalg.qr(x, mode='raw')", ValueError),
    ("xp.meshgrid(x, indexing='yx')", ValueError), ("xp.searchsorted(x, x, side='up')", ValueError),
    ("xp.matrix_transpose(x[0])", ValueError), ("xp.astype(x * 1j, xp.float32)", RuntimeError),
    ("xp.sum([1, 2])", TypeError), ("xp.logical_not(x)", RuntimeError), ("xp.isdtype(xp.bool, 3)", TypeError),
    ("xp.isdtype(xp.bool, 'float')", ValueError), ("xp.vecdot(x, x[:, :1])", ValueError),
    ("xp.ones(2, device='cuda')", RuntimeError), ("xp.concat([x, x[0]])", ValueError),
    ("xp.take_along_axis(x, xp.asarray([0]))", ValueError),
])  # fmt: skip
def test_wrong_arguments(wrong: str, error: type[Exception]) -> None:
    with pytest.raises(error) as found:
        eval(wrong, {"xp": ours, "x": weft.ones(2, 4)})
    assert "fix " in str(found.value)


PROGRAM = """
import numpy as np, scipy.special, scipy.stats, scipy.fft, sklearn, weft
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
weft.manual_seed(0)
x = weft.randn(40, 3, dtype=weft.float64)
a = x.numpy().copy()
for function in (
    lambda x: scipy.special.logsumexp(x, axis=0), lambda x: scipy.stats.skew(x, axis=1),
    lambda x: scipy.stats.zscore(x), lambda x: scipy.stats.ttest_ind(x[:, 0], x[:, 1]).pvalue,
    lambda x: scipy.stats.pearsonr(x[:, 0], x[:, 1]).statistic, lambda x: scipy.fft.fft(x, axis=0),
    lambda x: scipy.stats.kurtosis(x, bias=False),
):
    found = function(x)
    assert isinstance(found, weft.Tensor), type(found)
    np.testing.assert_allclose(found.numpy(), function(a), rtol=1e-9)
with sklearn.config_context(array_api_dispatch=True):
    y = x @ weft.tensor([1.0, 2.0, 3.0], dtype=weft.float64)
    b = y.numpy().copy()
    for function in (
        lambda x, y: PCA(2, svd_solver="full").fit_transform(x), lambda x, y: Ridge(solver="svd").fit(x, y).coef_
    ):
        found = function(x, y)
        assert isinstance(found, weft.Tensor), type(found)
        np.testing.assert_allclose(found.numpy(), function(a, b), rtol=1e-7)
    assert abs(r2_score(y, y + 1) - r2_score(b, b + 1)) < 1e-12
"""


def test_scipy_and_scikit_learn_compute_with_tensors() -> None:
    """Programs written against the standard take tensors and give tensors."""
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
