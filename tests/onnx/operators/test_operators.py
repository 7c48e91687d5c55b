"""Rows of the op table as ONNX: onnxruntime gives what Weft gives, on the samples of each row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.primitive import COMPOSITE
from weft.ops import OPS
from weft.testing.recording import COMPOSITES, apply
from weft.testing.samples import Sample, points, samples

pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

from weft.onnx.operators.table import TABLE, exported  # noqa: E402

# Rows without an operator: what they are, in words that a message may have.
WITHOUT = {
    "random_bits random_wide random_integers uniform_float16 uniform_bfloat16 uniform_float32 uniform_float64 "
    "normal_float32 normal_float64": "random",
    "float16_bits float16_of_bits bfloat16_bits bfloat16_of_bits float32_bits float32_of_bits float64_bits "
    "float64_of_bits nextafter mantissa exponent": "bits of numbers",
    "bitwise_left_shift bitwise_right_shift gcd": "integers",
    "imag complex": "complex",
    "erfinv lgamma digamma trigamma i0 i0e i1 i1e bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_k0 "
    "modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1": "special functions",
    "resample_transposed resample_products resample_largest gather_rows": "made by derivatives and batches",
    "attention_backward attention_masked_backward": "derivatives",
    "collective": "processes",
}
ROWS = [*exported(), *(name for name in COMPOSITES if name not in TABLE and name in OPS)]
INTEGERS = ("int64", "int32", "bool")


def _value(name: str, operands: list[Any], sample: Sample, dtype: str) -> Any:
    """A row recorded on tensors."""
    params = dtypes.float64 if OPS[name].is_cast else sample.params
    return apply(OPS[name], operands, params, sample.shape)


def _types(name: str) -> list[str]:
    """A float and an integer type of those that a row takes."""
    op = OPS[name]
    floats = [dtype for dtype in ("float32",) if dtype in op.dtypes]
    return floats + [dtype for dtype in INTEGERS if dtype in op.dtypes]


ROWS = [
    name for name in ROWS if _types(name) and name not in ("view_as_complex", "ndtri")
]  # of real numbers


def test_every_row_is_exported_or_named_here() -> None:
    """A row that is added is exported, or said to be without an operator; derivatives and some composites are not."""
    without = {name for names in WITHOUT for name in names.split()}
    silent = [name for name in OPS if name not in TABLE and name not in without]
    rules = [name for name in silent if "_vjp_" in name or "_by_" in name]
    composed = [name for name in silent if OPS[name].kind == COMPOSITE]
    assert not set(silent) - set(rules) - set(composed)
    assert not without & set(TABLE)
    assert len(ROWS) > 90


@pytest.mark.parametrize("name", ROWS)
def test_onnxruntime_gives_what_weft_gives(name: str) -> None:
    ran = 0
    for dtype in _types(name):
        for sample in samples(OPS[name]):
            if sample.layout == "row-major" and 0 not in np.concatenate([[1], *sample.shapes]):
                ran += _agrees(name, sample, dtype)
    assert ran > 0


def _agrees(name: str, sample: Sample, dtype: str) -> bool:
    """Compare one sample; False where onnxruntime has no kernel for its types."""
    arrays = points(OPS[name], sample, dtype, repeats=name not in ("scatter", "take_put"))
    tensors = [weft.from_numpy(np.array(array)) for array in arrays]
    try:
        wanted = _value(name, tensors, sample, dtype).numpy()
    except (TypeError, RuntimeError):  # a type that this row does not take in this place
        return False
    program = weft.onnx.export(lambda *xs: _value(name, list(xs), sample, dtype), tuple(tensors))
    try:
        (found,) = program(*tensors)
    except Exception as error:
        assert "NOT_IMPLEMENTED" in str(error) or "NotImplemented" in type(error).__name__, error
        return False
    assert found.numpy().dtype == wanted.dtype
    assert tuple(found.shape) == wanted.shape
    np.testing.assert_allclose(found.numpy(), wanted, rtol=2e-5, atol=2e-5)
    return True


FUNCTIONS: dict[str, Any] = {
    "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(0),
    "norm": lambda x: x.norm(dim=1),
    "power_norm": lambda x: weft.linalg.vector_norm(x, 3, 1),
    "mean": lambda x: (x.mean(), x.mean(0, keepdim=True)),
    "standardize": lambda x: weft.nn.functional.layer_norm(x, (6,)),
    "clamp": lambda x: x.clamp(-0.5, 0.25),
    "clamp_between": lambda x: x.clamp(weft.full((6,), -0.5), weft.full((6,), 0.25)),
    "max": lambda x: (x.max(1).values, x.max(1).indices),
    "min": lambda x: x.min(0, keepdim=True).values,
    "max_all": lambda x: x.max(),
    "min_all": lambda x: x.min(),
    "median": lambda x: x.median(1).values,
    "nanmedian": lambda x: x.nanmedian(1).values,
    "kthvalue": lambda x: x.kthvalue(2, 1).values,
    "hypot": lambda x: x.hypot(x + 1),
    "logaddexp": lambda x: x.logaddexp(x.flip(1)),
    "gelu": lambda x: (weft.nn.functional.gelu(x), weft.nn.functional.gelu(x, approximate="tanh")),
    "sinc": lambda x: x.sinc(),
    "picked_log_softmax": lambda x: weft.nn.functional.cross_entropy(x, weft.tensor([0, 5, 2, 1])),
    "bce": lambda x: weft.nn.functional.binary_cross_entropy(x.sigmoid(), weft.full((4, 6), 0.5)),
    "cdist": lambda x: weft.cdist(x, x + 0.1),
    "expm1": lambda x: ((x / 8).expm1(), (x / 8).log1p()),
    "sort": lambda x: (x.sort(1).values, x.argsort(0, descending=True)),
    "topk": lambda x: weft.topk(x, 3, 1),
    "cumprod": lambda x: (x.cumprod(1), x.cummax(0).values),
    "views": lambda x: (
        x.T.reshape(2, 12),
        x[1:, ::2],
        x[-1],
        x.flip(1),
        x.unfold(1, 3, 2),
        x.diagonal(1),
    ),
    "writes": lambda x: _written(x),
    "index": lambda x: (
        x[weft.tensor([0, 2, 2])],
        x[:, weft.tensor([[1, 5], [0, 3]])],
        x[x.argmax(0)],
    ),
    "tril": lambda x: (x.tril(), x.triu(1), x.roll(1, 0)),
    "pad": lambda x: weft.nn.functional.pad(x, (1, 2, 0, 1), value=3.0),
    "einsum": lambda x: weft.einsum("ij,kj->ik", x, x),
    "numbers": lambda x: (x // 0.5, x % 0.7, x.fmod(0.7), x.remainder(-0.7), weft.atan2(x, -x)),
    "interpolate": lambda x: weft.nn.functional.interpolate(x[None], scale_factor=2, mode="linear"),
    "counts": lambda x: weft.zeros(6).index_add(0, weft.tensor([1, 1, 3, 5]), x[:, 0]),
}


def _written(x: Any) -> Any:
    y = x.clone()
    y[1] = 0
    y[:, 2] += 1
    y.masked_fill_(x > 0.5, -1)
    return y


@pytest.mark.parametrize("opset", [18, 20])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_agree(name: str, opset: int) -> None:
    """Public functions, the ones with a derivative of their own among them; with and without a dynamic dimension."""
    weft.manual_seed(3)
    x = weft.randn(4, 6)
    program = weft.onnx.export(FUNCTIONS[name], (x,), opset_version=opset)
    wanted = FUNCTIONS[name](x)
    wanted = [wanted] if isinstance(wanted, weft.Tensor) else list(wanted)
    for mine, theirs in zip(wanted, program(x), strict=True):
        weft.testing.assert_close(theirs, mine, rtol=1e-5, atol=1e-5)
