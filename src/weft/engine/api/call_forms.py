"""Functions that PyTorch declares in several forms, so that a wrong call names no single argument.

PyTorch answers `hsplit(x, "a")` with the types of all arguments, whereas a function of one form names the wrong one.
Errors of the functions below do both. The names were found by calling every function and method of PyTorch with an
object of an unknown class among its arguments.
"""

from __future__ import annotations

from collections.abc import Iterable

from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentTypeError, class_name

_COMPARISONS = "eq ne lt le gt ge less less_equal greater greater_equal not_equal isin"
_ARITHMETIC = """bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift clamp clamp_max clamp_min
    clip copysign float_power floor_divide fmod lerp multiply subtract true_divide pow remainder rsub xlogy xlog1py
    zeta result_type where"""
_POLYNOMIALS = """chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w
    hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p
    shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v
    shifted_chebyshev_polynomial_w"""
_REDUCTIONS = """all any max min mean prod sum std std_mean var var_mean quantile nanquantile count_nonzero histogram
    histogramdd trapezoid trapz cumulative_trapezoid gradient sort argsort norm cond matrix_norm matrix_rank pinv"""
_SHAPES = """dsplit hsplit vsplit tensor_split squeeze squeeze_copy moveaxis movedim narrow view view_copy fill
    index_fill masked_fill scatter repeat_interleave bucketize searchsorted set"""
_NEW = """arange eye linspace logspace rand randn rand_like randn_like randint_like randperm random bernoulli
    bartlett_window blackman_window hamming_window hann_window kaiser_window"""
SEVERAL = frozenset(
    " ".join((_COMPARISONS, _ARITHMETIC, _POLYNOMIALS, _REDUCTIONS, _SHAPES, _NEW)).split()
)


def in_several_forms(
    name: str, values: Iterable[object], keywords: dict[str, object], error: ArgumentTypeError
) -> ArgumentTypeError:
    """The error of a wrong argument, or of too many or too few, in the words of a function of several forms, where it
    is one."""
    starts = tuple(f"{name}()" + said for said in (": argument ", " missing ", " takes ", " got "))
    if name.rstrip("_") not in SEVERAL or not error.what.startswith(starts):
        return error
    types = [_type_name(value) for value in values]
    types += [f"{key}={_type_name(value)}" for key, value in keywords.items()]
    return ArgumentTypeError(
        f"{name}() received an invalid combination of arguments - got ({', '.join(types)}): "
        f"{error.what.removeprefix(f'{name}()').lstrip(': ')}",
        expected=error.expected,
        got=error.got,
        fix=error.fix,
        where=error.where,
    )


def _type_name(value: object) -> str:
    """A type as PyTorch names it; of a sequence also those of its elements."""
    if isinstance(value, Tensor):
        return "Tensor"
    name = class_name(value)
    if isinstance(value, (tuple, list)) and len(value) <= 8:
        return f"{name} of ({', '.join(class_name(item) for item in value)})"
    return name
