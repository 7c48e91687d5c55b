"""The array API standard, version 2024.12, over weft's tensors: `xp = x.__array_namespace__()`.

Programs that are written against the standard (SciPy, scikit-learn, their users' code) call these functions; each is
weft's own after the standard's promotion. Results record gradients like any others. Operators on tensors keep
PyTorch's rules. Start with `arguments`.

Source: https://data-apis.org/array-api/2024.12/
"""

import math as _math

import weft as _weft
from weft.array_api import fft, linalg
from weft.array_api.creation import (
    arange,
    asarray,
    empty,
    empty_like,
    eye,
    from_dlpack,
    full,
    full_like,
    linspace,
    meshgrid,
    ones,
    ones_like,
    tril,
    triu,
    zeros,
    zeros_like,
)
from weft.array_api.data_types import (
    __array_namespace_info__,
    astype,
    can_cast,
    finfo,
    iinfo,
    isdtype,
    result_type,
)
from weft.array_api.elementwise import (
    abs,
    acos,
    acosh,
    add,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bitwise_and,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    ceil,
    clip,
    conj,
    copysign,
    cos,
    cosh,
    divide,
    equal,
    exp,
    expm1,
    floor,
    floor_divide,
    greater,
    greater_equal,
    hypot,
    imag,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    multiply,
    negative,
    nextafter,
    not_equal,
    positive,
    pow,
    real,
    reciprocal,
    remainder,
    round,
    sign,
    signbit,
    sin,
    sinh,
    sqrt,
    square,
    subtract,
    tan,
    tanh,
    trunc,
)
from weft.array_api.linalg import matmul, matrix_transpose, tensordot, vecdot
from weft.array_api.manipulation import (
    broadcast_arrays,
    broadcast_to,
    concat,
    expand_dims,
    flip,
    moveaxis,
    permute_dims,
    repeat,
    reshape,
    roll,
    squeeze,
    stack,
    take,
    take_along_axis,
    tile,
    unstack,
)
from weft.array_api.reductions import (
    all,
    any,
    argmax,
    argmin,
    count_nonzero,
    cumulative_prod,
    cumulative_sum,
    diff,
    max,
    mean,
    min,
    prod,
    std,
    sum,
    var,
)
from weft.array_api.searching import (
    argsort,
    nonzero,
    searchsorted,
    sort,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
    where,
)
from weft.engine.api.api_function import publish as _publish

__array_api_version__ = "2024.12"
e, inf, nan, pi, newaxis = _math.e, _math.inf, _math.nan, _math.pi, None
bool = _weft.bool  # noqa: A001
int8, int16, int32, int64 = _weft.int8, _weft.int16, _weft.int32, _weft.int64
uint8, uint16, uint32, uint64 = _weft.uint8, _weft.uint16, _weft.uint32, _weft.uint64
float32, float64 = _weft.float32, _weft.float64
complex64, complex128 = _weft.complex64, _weft.complex128

_PARTS = {
    "arguments", "creation", "data_types", "elementwise", "manipulation", "reductions", "searching",
}  # fmt: skip
__all__ = sorted(name for name in {*globals()} - _PARTS if not name.startswith("_"))
__all__ += ["__array_api_version__", "__array_namespace_info__"]
_publish(globals())
