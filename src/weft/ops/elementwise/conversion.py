"""Elementwise rows of conversion: casts, copies, conjugates, parts of complex numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.engine.frontend.recorder import cast
from weft.ops.primitives import conj
from weft.ops.primitives import elementwise as call
from weft.ops.registry import define_elementwise as _row

if TYPE_CHECKING:
    from weft._typing import Array
    from weft.engine.backward.apply_vjp import At
    from weft.engine.frontend.tensor import Tensor


def _complex_numpy(real: Array, imag: Array) -> Any:
    out = np.zeros(np.broadcast(real, imag).shape, np.result_type(real, np.complex64))
    out.real, out.imag = real, imag
    return out


_row(
    "cast",
    "self",
    lambda x, dtype: x.astype(dtype),
    "real",
    {"self": lambda g, at: _vjp_cast(g, at)},
    lower=lambda e, d, x: e.cast(x, d),
    grad_name="ToCopyBackward0",
    index_bound="operand",
    is_cast=True,
)
_row(
    "clone",
    "self",
    np.copy,
    "real",
    {"self": lambda g: g},
    lower=lambda e, d, x: x,
    index_bound="operand",
    is_copy=True,
)
_row("conj", "self", np.conjugate, "real", {"self": lambda g: conj(g)})
_row(
    "real",
    "self",
    np.real,
    "real",
    {"self": lambda g, at: cast(g, g.dtype.to_complex())},
    dtype=lambda params, d: d.to_real(),
    dtypes="complex",
)
_row(
    "imag",
    "self",
    np.imag,
    "real",
    {"self": lambda g, at: cast(g, g.dtype.to_complex()) * 1j},
    dtype=lambda params, d: d.to_real(),
    dtypes="complex",
)
_row(
    "complex",
    "real imag",
    _complex_numpy,
    "real real",
    {"real": lambda g: call("real", g), "imag": lambda g: call("imag", g)},
    dtype=lambda params, d: d.to_complex(),
    dtypes="float32 float64",
    jvp_kind="linear",
)


def _vjp_cast(g: Tensor, at: At) -> Any:
    source = at.params[0]
    if g.dtype.is_complex and not source.is_complex:
        g = call("real", g)
    return cast(g, source)
