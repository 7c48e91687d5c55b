"""Rows of the op table, recorded one by one as the library records them: for tests that go over the whole table.

A row, tensors and params come in; a tensor comes out, pending like any other. A composite row is only the gradient
record of a function, and `gather_rows` is made by the batch stage: both are recorded through who makes them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import weft
from weft import special
from weft._typing import Shape
from weft.engine.frontend.recorder import cast, record, record_elementwise
from weft.engine.frontend.resolve import value_of
from weft.engine.frontend.tensor import Tensor
from weft.engine.frontend.tensor_lifecycle import wrap_node
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.primitive import KIND_NAMES
from weft.engine.pipeline.batching.segment_gather import gather_rows
from weft.functional.linalg.norms import vector_norm
from weft.functional.reductions.sums_and_extrema import extreme_of_all, first_extreme
from weft.nn.functional.losses.classification import _pick_logs
from weft.nn.functional.normalization import standardize
from weft.ops.contractions.attention import attend
from weft.ops.contractions.convolution import Geometry, convolve
from weft.ops.elementwise.arithmetic import tied

if TYPE_CHECKING:
    from weft.engine.ir.primitive import Primitive


# How a composite row's function is called: (operands, params) -> result.
COMPOSITES: dict[str, Callable[..., Any]] = {
    "softmax": lambda x, params: weft.softmax(x, params[0]),
    "log_softmax": lambda x, params: weft.log_softmax(x, params[0]),
    "power_norm": lambda x, params: vector_norm(x, params[0], params[1], True),
    "norm": lambda x, params: vector_norm(x, 2, params[0], True),
    "standardize": lambda x, params: standardize(x, *params),
    "mean": lambda x, params: weft.mean(x, params[0], params[1]),
    "clamp": lambda x, params: weft.clamp(x, *params),
    "clamp_between": lambda x, low, high, params: weft.clamp(x, low, high),
    "view_as_real": lambda x, params: weft.view_as_real(x),
    "view_as_complex": lambda x, params: weft.view_as_complex(x.contiguous()),
    "max": lambda x, params: first_extreme("max", x, *params)[0],
    "min": lambda x, params: first_extreme("min", x, *params)[0],
    "max_all": lambda x, params: extreme_of_all("max", x, *params),
    "min_all": lambda x, params: extreme_of_all("min", x, *params),
    "median": lambda x, params: _median(x, *params),
    "cdist": lambda x, y, params: weft.cdist(x, y, compute_mode="use_mm_for_euclid_dist"),
    "hypot": lambda x, y, params: weft.hypot(x, y),
    "ndtri": lambda x, params: special.SPECIAL["ndtri"](x),
    "sinc": lambda x, params: weft.sinc(x),
    "gelu": lambda x, params: weft.nn.functional.gelu(x, approximate=params),
    "binary_cross_entropy": lambda x, y, params: weft.nn.functional.binary_cross_entropy(
        x, y, reduction="none"
    ),
    "convolution": lambda x, w, params: convolve(x, w, None, Geometry(*params)),
    "convolution_bias": lambda x, w, b, params: convolve(x, w, b, Geometry(*params)),
}
COMPOSITES["picked_log_softmax"] = lambda x, index, params: _pick_logs(
    x, weft.log_softmax(x, params[0]), params[0], index
)
COMPOSITES["attention"] = lambda q, k, v, params: attend(q, k, v, None, params)
COMPOSITES["attention_masked"] = attend
COMPOSITES["tied"] = lambda x, y, params: tied(x, y)
COMPOSITES["first_power"] = lambda x, y, params: tied(x, y, "first_power")
COMPOSITES["zeta"] = lambda s, q, params: special.SPECIAL["zeta"](s, q)
_RESULTS = {
    "any": dtypes.bool_,
    "all": dtypes.bool_,
    "argmax": dtypes.int64,
    "argmin": dtypes.int64,
    "order": dtypes.int64,
    "nth_place": dtypes.int64,
    "running_place": dtypes.int64,
    "resample_largest": dtypes.int64,
}


def _median(x: Tensor, axes: Shape, keepdim: bool) -> Any:
    return weft.median(x) if len(axes) == x.ndim else weft.median(x, axes[0], keepdim).values


def apply(op: Primitive, tensors: list[Tensor], params: Any = None, shape: Any = None) -> Any:
    """Record a row. `shape` is the result's where the row leaves it free."""
    kind = KIND_NAMES[op.kind]
    if op.name == "cast":
        return cast(tensors[0], params)
    if kind == "elementwise":
        return record_elementwise(op, tuple(tensors), params)
    if kind == "composite":
        return COMPOSITES[op.name](*tensors, params=params)
    if kind == "rows":
        sources = tuple(value_of(tensor) for tensor in tensors)
        numbers, rows, offsets = params
        return wrap_node(gather_rows(sources, numbers, rows, offsets, shape, tensors[0].dtype))
    if kind == "source":
        return record(op, (), params, op.shape(params), op.dtype(params))
    shapes = [tuple(tensor.shape) for tensor in tensors]
    result = op.shape(params, *shapes) if shape is None else shape
    return record(op, tuple(tensors), params, result, _RESULTS.get(op.name, tensors[0].dtype))


def tensor_of(array: np.ndarray, dtype: str, layout: str = "row-major") -> Any:
    """A tensor of an array's values, not contiguous unless `layout` says so."""
    if layout == "expanded" and array.ndim and array.shape[0] > 1:
        return _plain(array[:1], dtype).expand(*array.shape)
    if layout == "transposed" and array.ndim > 1:
        return _plain(np.ascontiguousarray(array.T), dtype).permute(*range(array.ndim)[::-1])
    if layout == "stepped" and array.ndim:
        wide = np.repeat(array, 2, -1)
        return _plain(wide, dtype)[..., ::2]
    return _plain(array, dtype)


def _plain(array: np.ndarray, dtype: str) -> Any:
    made = weft.from_numpy(np.array(array, order="C")).clone()
    return (
        made.to(dtypes.by_name(dtype)) if array.dtype.kind not in "bi" or dtype != "bool" else made
    )


__all__ = ["COMPOSITES", "apply", "tensor_of"]
