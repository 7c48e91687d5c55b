# ruff: noqa: A001, A002 - PyTorch's names
# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False, annotation_typing=False
"""Element-wise functions of two and more tensors: arithmetic, powers, comparison.

Tensors and Python numbers come in; the recorder promotes, casts and broadcasts; what stands here is PyTorch's rules
about arguments (alpha, rounding_mode, integer powers, bounds) and compositions. In-place variants are made of the
out-of-place ones by one loop at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cython
import numpy as np
from cython.cimports.weft.engine.frontend.recorder import binary

from weft._build.compiled import require
from weft._typing import Scalar, TensorLike
from weft.engine.api.operand_types import need_constant
from weft.engine.dispatch.type_names import OVERFLOW_NAMES
from weft.engine.frontend.recorder import cast, record_elementwise
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.primitive import Primitive
from weft.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    class_name,
)
from weft.functional.support import host
from weft.functional.support.variants import (
    by_name,
    in_place_variants,
    make_in_place,
    named,
    write_out,
)
from weft.ops import OPS
from weft.ops.primitives import elementwise as call
from weft.ops.primitives import full, scalar, where
from weft.ops.registry import named as named_op
from weft.ops.registry import with_slopes
from weft.tensor.arguments import (
    TYPE_NAMES,
    describe,
    is_number,
    need_tensor,
    no_fraction,
    no_kernel,
)
from weft.tensor.scalars import scalar_dtype

if TYPE_CHECKING:
    from weft.engine.ir.dtype import DType


require(__name__, cython.compiled)

# Rows, and not operators, which a subclass may have its own of.
_ONE = 1  # the one object of small integers: the default of `alpha`, and the literal
_ADD, _SUB, _MUL, _DIV = (OPS[name] for name in ("add", "sub", "mul", "div"))
_POW, _SQUARE, _CUBE = OPS["pow"], OPS["square"], OPS["cube"]
# Small powers are products and roots, under the name of the function that they stand for.
_SMALL_POWERS: dict[object, Primitive] = {
    1: named_op(OPS["clone"], "PowBackward0"),
    2: _SQUARE,
    3: _CUBE,
    0.5: named_op(OPS["sqrt"], "PowBackward0"),
    -1: named_op(OPS["reciprocal"], "PowBackward0"),
    -0.5: named_op(OPS["rsqrt"], "PowBackward0"),
}
RSUB_NUMBER, _RSUB = (named_op(OPS["sub"], f"RsubBackward{n}") for n in (1, 0))


def _no_slope(g: object) -> Any:
    """Errors: NotDefinedError, where the gradient of `//` is wanted."""
    from weft.functional.support.not_differentiable import no_derivative

    raise no_derivative("aten::floor_divide")


FLOOR_DIVIDE = with_slopes(
    OPS["floor_divide"], {"self": _no_slope, "other": _no_slope}, "FloorDivideBackward0"
)
# Rounding leaves a gradient of zeros; `//` refuses one.
_FLOORED = with_slopes(
    OPS["floor_divide"], {"self": lambda g: g * 0, "other": lambda g: g * 0}, "DivBackward1"
)


NO_DIFFERENCE_OF_BOOL = (
    "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use the "
    "`~` or `logical_not()` operator instead."
)


# -- arithmetic ----------------------------------------------------------------------------------------------------


def _scaled(name: str, input: Tensor, other: TensorLike, alpha: Scalar) -> Any:
    """`alpha * other`; `other` where alpha is a number that equals 1. No value of a tensor is looked at."""
    if isinstance(alpha, Tensor):
        need_constant("alpha", alpha)
    elif alpha == 1:
        return other
    dtypes_in = [x._dtype for x in (input, other) if isinstance(x, Tensor)]
    if (
        isinstance(alpha, float)
        and all(d.category < 2 for d in dtypes_in)
        and not isinstance(other, float)
    ):
        raise no_fraction("alpha", alpha, describe("input", input))
    if isinstance(alpha, complex) and not any(dtype.is_complex for dtype in dtypes_in):
        raise _no_alpha(
            "For non-complex input tensors, argument alpha must not be a complex number.", alpha
        )
    if all(d.category == 0 for d in dtypes_in) and isinstance(other, (Tensor, bool)):
        alpha = bool(alpha)  # of truth values
    return other * alpha


def _need_boolean(input: TensorLike, other: TensorLike) -> None:
    """Errors: DTypeError where alpha is a truth value and the result is none."""
    for operand in (input, other):
        dtype = operand._dtype if isinstance(operand, Tensor) else scalar_dtype(operand)
        if dtype.category != 0:
            raise _no_alpha("Boolean alpha only supported for Boolean results.", True)


def _no_alpha(text: str, alpha: object) -> DTypeError:
    return DTypeError(
        text,
        expected="a factor of the kind of the operands",
        got=repr(alpha),
        fix="leave alpha out, or convert the operands first",
    )


def _first_operand(function: str, input: object, other: object) -> Any:
    """The first operand of an arithmetic function: of two numbers, a tensor of its value and type.

    Errors: ArgumentTypeError where neither is a tensor nor both are numbers, or one is an array, which only operators
    take."""
    if is_number(input) and is_number(other):
        return scalar(input, scalar_dtype(input))
    if isinstance(input, np.ndarray) or not isinstance(other, Tensor):
        need_tensor(function, input)
    if isinstance(other, np.ndarray):
        need_tensor(function, other, "other", 2)
    return input


def _answered(function: str, result: object, input: object, other: object) -> Any:
    """The result of an arithmetic function. Errors: ArgumentTypeError where nobody computes with an operand."""
    if result is NotImplemented:
        _blame(function, input, other, "other")
    return result


def _blame(function: str, input: object, other: object, second: str) -> None:
    """Errors: ArgumentTypeError that names the operand with which nobody computes, of two tensors both types."""
    if not is_number(input):
        need_tensor(function, input)
    need_tensor(function, other, second, 2)
    types = f"{class_name(input)} and {class_name(other)}"
    raise ArgumentTypeError(
        f"unsupported operand type(s) for {function}(): {types}",
        expected="operands of types that compute with each other",
        got=types,
        fix="convert one with .as_subclass(weft.Tensor)",
    )


def add(input: Tensor, other: TensorLike, *, alpha: Scalar = 1, out: Tensor | None = None) -> Any:
    """input + alpha * other, broadcast."""
    if not isinstance(input, Tensor) or not isinstance(other, Tensor):
        input = _first_operand("add", input, other)
    if alpha is True:
        _need_boolean(input, other)
    scaled = other if alpha is _ONE else _scaled("add", input, other, alpha)
    result = _answered("add", binary(_ADD, input, scaled), input, other)
    return result if out is None else write_out(out, result)


def sub(input: Tensor, other: TensorLike, *, alpha: Scalar = 1, out: Tensor | None = None) -> Any:
    """input - alpha * other, broadcast. Errors: DTypeError on bool."""
    if not isinstance(input, Tensor) or not isinstance(other, Tensor):
        input = _first_operand("sub", input, other)
    check_subtraction(input, other)
    if alpha is True:
        _need_boolean(input, other)
    scaled = other if alpha is _ONE else _scaled("sub", input, other, alpha)
    op = _SUB if isinstance(input, Tensor) else RSUB_NUMBER
    result = _answered("sub", binary(op, input, scaled), input, other)
    return result if out is None else write_out(out, result)


def check_subtraction(input: Tensor, other: object) -> None:
    """Errors: DTypeError where an operand of a subtraction is bool."""
    mine, theirs = [
        x._dtype.category == 0 if isinstance(x, Tensor) else isinstance(x, bool)
        for x in (input, other)
    ]
    if mine and theirs:
        raise DTypeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
            "`logical_xor()` operator instead.",
            expected="numeric tensors",
            got="two bool tensors",
            fix="use input ^ other",
        )
    if mine or theirs:
        raise DTypeError(
            NO_DIFFERENCE_OF_BOOL,
            expected="numeric tensors",
            got="a bool tensor",
            fix="use ~mask",
        )


def rsub(input: Tensor, other: TensorLike, *, alpha: Scalar = 1) -> Any:
    """other - alpha * input."""
    need_tensor("rsub", input)
    check_subtraction(input, other)
    if alpha is True:
        _need_boolean(input, other)
    scaled = input if alpha is _ONE else _scaled("rsub", input, input, alpha)
    if not isinstance(other, Tensor):
        return other - scaled
    return record_elementwise(_RSUB, (other, scaled), None)


def mul(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Any:
    """input * other, broadcast."""
    if not isinstance(input, Tensor) or not isinstance(other, Tensor):
        input = _first_operand("mul", input, other)
    result = _answered("mul", binary(_MUL, input, other), input, other)
    return result if out is None else write_out(out, result)


def div(
    input: Tensor, other: TensorLike, *, rounding_mode: str | None = None, out: Tensor | None = None
) -> Any:
    """input / other, broadcast; `rounding_mode` "trunc" or "floor" rounds the quotient."""
    if not isinstance(input, Tensor) or not isinstance(other, Tensor):
        input = _first_operand("div", input, other)
    if rounding_mode is None:
        result = _answered("div", binary(_DIV, input, other), input, other)
    elif rounding_mode == "trunc":
        check_divisor(input, other)
        result = call("trunc_divide", input, other)
    elif rounding_mode == "floor":
        check_divisor(input, other)
        result = record_elementwise(_FLOORED, (input, other), None)
    else:
        raise ArgumentError(
            f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'",
            expected="None, 'trunc' or 'floor'",
            got=repr(rounding_mode),
            fix="choose one of these",
        )
    return result if out is None else write_out(out, result)


def true_divide(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Any:
    """input / other, broadcast."""
    return div(input, other, out=out)


def _is_whole(value: object) -> bool:
    return value._dtype.category < 2 if isinstance(value, Tensor) else isinstance(value, int)


def check_divisor(input: Tensor, other: TensorLike) -> None:
    """Errors: ArgumentError where an integer would be divided by an integer 0. Reads a divisor that is a tensor: as
    all that can fail by its values, this runs at the call."""
    if not _is_whole(other) or not _is_whole(input):
        return
    if isinstance(other, Tensor):
        values = host.to_numpy(other.detach())
        zero = values.size > 0 and not values.all()
    else:
        narrow = isinstance(input, Tensor) and input._dtype.category == 1
        bits = 8 * input._dtype.itemsize if narrow else 64
        whole: Any = other
        zero = whole % (1 << bits) == 0  # as the tensor's type holds it
    if zero and not (isinstance(input, Tensor) and 0 in input._shape):
        raise ArgumentError(
            "ZeroDivisionError",
            expected="a divisor that is not 0",
            got=f"{_shown('input', input)}, {_shown('divisor', other)}",
            fix="divide floats, which gives inf, or mask the divisor",
        )


def _shown(name: str, value: object) -> str:
    return describe(name, value) if isinstance(value, Tensor) else f"{name} {value!r}"


# -- powers --------------------------------------------------------------------------------------------------------


def _negative_power() -> DTypeError:
    return DTypeError(
        "Integers to negative integer powers are not allowed.",
        expected="a non-negative exponent",
        got="a negative one for an integer tensor",
        fix="convert the tensor with .float() first",
    )


def _check_exponent(dtype: DType, exponent: TensorLike) -> None:
    """Errors: ArgumentError for an integer that the type of the base cannot hold."""
    if not isinstance(exponent, int) or abs(exponent) < 128 or dtype.category == 0:
        return
    most = 65504 if dtype is dtypes.float16 else 2**1000
    if dtype.category == 1:
        most = (1 << 8 * dtype.itemsize - dtype.is_signed) - 1
    if not -most - 1 <= exponent <= most:
        raise ArgumentError(
            f"value cannot be converted to type {OVERFLOW_NAMES[dtype.name]} without overflow",
            expected=f"an exponent that {dtype.name} can hold",
            got=str(exponent),
            fix="convert the base to a wider type first",
        )


def _number_power(x: Tensor, exponent: object) -> Any:
    """x ** number: the small powers are products and roots, as in PyTorch; others the `pow` row."""
    _check_exponent(x._dtype, exponent)
    if x._dtype.category < 2:
        if isinstance(exponent, bool) and x._dtype.category == 0:
            return call("clone", x) if exponent else full(x._shape, True, dtypes.bool_)
        if isinstance(exponent, int) and exponent < 0:
            raise _negative_power()
        if isinstance(exponent, (float, complex)) or x._dtype.category == 0 or exponent != 2:
            return record_elementwise(_POW, (x, exponent), None)
        return record_elementwise(_SQUARE, (x,), None)
    if isinstance(exponent, complex) and exponent.imag and not x._dtype.is_complex:
        return record_elementwise(_POW, (x, exponent), None)
    return _float_power(x, exponent)


def _float_power(x: Tensor, exponent: TensorLike) -> Any:
    op = _SMALL_POWERS.get(exponent)
    if op is not None:
        return record_elementwise(op, (x,), None)
    return record_elementwise(_POW, (x, exponent), None)


def with_arrays(a: object, b: object) -> Any:
    """The operands of an operator, of which one is a tensor and the other an array of NumPy, as tensors; None where it
    is something else."""
    arrays = [isinstance(x, np.ndarray) and x.dtype.kind in "biufc" for x in (a, b)]
    if not any(arrays):
        return None
    return tuple(host.from_numpy(x) if flag else x for x, flag in zip((a, b), arrays, strict=True))


def power_operator(base: object, exponent: object) -> Any:
    """base ** exponent for the operator: NotImplemented on foreign types."""
    pair = None
    if isinstance(base, np.ndarray) or isinstance(exponent, np.ndarray):
        pair = with_arrays(base, exponent)
    if pair is not None:
        base, exponent = pair
    if isinstance(base, Tensor):
        if isinstance(exponent, (int, float, complex)):
            return _number_power(base, exponent)
        if isinstance(exponent, Tensor) or is_number(exponent):
            return record_elementwise(_POW, (base, exponent), None)
        return NotImplemented
    return record_elementwise(_POW, (base, exponent), None) if is_number(base) else NotImplemented


def pow(input: Tensor, exponent: TensorLike, *, out: Tensor | None = None) -> Any:
    """input ** exponent, broadcast. Errors: DTypeError on an integer tensor with a negative number."""
    if not isinstance(input, Tensor) and not isinstance(exponent, Tensor):
        if is_number(exponent):
            need_tensor("pow", input)
        _blame("pow", input, exponent, "exponent")
    result = power_operator(input, exponent)
    if result is NotImplemented:
        _blame("pow", input, exponent, "exponent")
    return result if out is None else write_out(out, result)


def float_power(input: Tensor, exponent: TensorLike, *, out: Tensor | None = None) -> Any:
    """input ** exponent in float64 or complex128."""
    wide = [
        x._dtype.is_complex if isinstance(x, Tensor) else isinstance(x, complex)
        for x in (input, exponent)
    ]
    dtype = dtypes.complex128 if any(wide) else dtypes.float64
    base = cast(input, dtype) if isinstance(input, Tensor) else input
    power = cast(exponent, dtype) if isinstance(exponent, Tensor) else exponent
    result = pow(base, power)
    return result if out is None else write_out(out, result)


_float_power_in_place = make_in_place(float_power)


def float_power_(self: Tensor, exponent: object) -> Any:
    """`float_power`, in place. Errors: DTypeError where the tensor is not of the wide type of the result."""
    complex_power = (
        exponent._dtype.is_complex
        if isinstance(exponent, Tensor)
        else isinstance(exponent, complex)
    )
    wanted = dtypes.complex128 if complex_power or self._dtype.is_complex else dtypes.float64
    if self._dtype is not wanted:
        raise DTypeError(
            f"the base given to float_power_ has dtype {TYPE_NAMES[self._dtype.name]} but the operation's result "
            f"requires dtype {TYPE_NAMES[wanted.name]}",
            expected=f"a tensor of {wanted.name}",
            got=describe("self", self),
            fix="use pow_, or x = x.float_power(exponent)",
        )
    return _float_power_in_place(self, exponent)


# -- compositions --------------------------------------------------------------------------------------------------


def lerp(input: Tensor, end: Tensor, weight: TensorLike, *, out: Tensor | None = None) -> Any:
    """input + weight * (end - input), from the nearer end. Errors: UnsupportedDTypeError on integers."""
    if input._dtype.category < 2:
        raise no_kernel(
            f"lerp_kernel_{'tensor' if isinstance(weight, Tensor) else 'scalar'}", input
        )
    if isinstance(weight, Tensor):
        gap = end - input
        result = where(call("abs", weight) < 0.5, input + weight * gap, end - gap * (1 - weight))
    else:
        result = (
            input + (end - input) * weight
            if abs(weight) < 0.5
            else end - (end - input) * (1 - weight)
        )
    return result if out is None else write_out(out, result)


def addcmul(
    input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Scalar = 1, out: Tensor | None = None
) -> Any:
    """input + value * tensor1 * tensor2. Errors: UnsupportedDTypeError on truth values."""
    if input._dtype.category == tensor1._dtype.category == tensor2._dtype.category == 0:
        raise no_kernel("addcmul_cpu_out", input, "numbers", ".long()")
    if isinstance(value, float) and all(x._dtype.category < 2 for x in (input, tensor1, tensor2)):
        value = int(value)  # as PyTorch reads it for integers
    result = input + (tensor1 if value == 1 else tensor1 * value) * tensor2
    return result if out is None else write_out(out, result)


def addcdiv(
    input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Scalar = 1, out: Tensor | None = None
) -> Any:
    """input + value * (tensor1 / tensor2). Errors: DTypeError on two integer tensors."""
    if tensor1._dtype.category < 2 and tensor2._dtype.category < 2:
        raise DTypeError(
            "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will "
            "perform a true division of tensor1 and tensor2.",
            expected="floating-point tensors",
            got=f"{describe('tensor1', tensor1)}, {describe('tensor2', tensor2)}",
            fix="convert with .float() first",
        )
    quotient = tensor1 / tensor2
    result = input + (quotient if value == 1 else quotient * value)
    return result if out is None else write_out(out, result)


# -- the rows with two operands ------------------------------------------------------------------------------------


# Which operands have to be tensors; of the others one of the two.
_BOTH_TENSORS = [
    "maximum", "minimum", "atan2", "logical_and", "logical_or", "logical_xor", "gcd", "nextafter",
]  # fmt: skip
_FIRST_TENSOR = ["eq", "ne", "lt", "le", "gt", "ge", "fmod"]


_BINARY = {  # functions that are one row, and what they return
    "atan2": "The angle of the point (other, input), in radians from -pi to pi",
    "bitwise_and": "The bits that both have",
    "bitwise_left_shift": "The bits of input moved by other places to the left",
    "bitwise_or": "The bits that one has or both have",
    "bitwise_right_shift": "The bits of input moved by other places to the right",
    "bitwise_xor": "The bits that one of the two has",
    "eq": "True where input = other",
    "floor_divide": "input / other, rounded down",
    "fmod": "The rest of input / other, with the sign of input",
    "gcd": "The greatest common divisor",
    "ge": "True where input >= other",
    "gt": "True where input > other",
    "le": "True where input <= other",
    "logical_and": "True where both are not 0",
    "logical_or": "True where one is not 0",
    "logical_xor": "True where one is 0 and the other is not",
    "lt": "True where input < other",
    "maximum": "The larger of two elements, nan where one is nan",
    "minimum": "The smaller of two elements, nan where one is nan",
    "ne": "True where input and other differ",
    "nextafter": "The next float from input towards other",
    "remainder": "The rest of input / other, with the sign of other",
}


def _binary(name: str) -> Any:
    op = FLOOR_DIVIDE if name == "floor_divide" else OPS[name]
    divides = name in ("floor_divide", "remainder", "fmod")
    second = name in _BOTH_TENSORS
    first = second or name in _FIRST_TENSOR
    of_numbers = name == "floor_divide"

    def function(input: Tensor, other: object, *, out: Tensor | None = None) -> Any:
        if of_numbers and not isinstance(input, Tensor):
            input = _first_operand(name, input, other)
        if not isinstance(input, Tensor) and (first or not isinstance(other, Tensor)):
            need_tensor(name, input)
        if second and not isinstance(other, Tensor):
            need_tensor(name, other, "other", 2)
        if divides:
            check_divisor(input, other)
        result = record_elementwise(op, (input, other), None)
        return result if out is None else write_out(out, result)

    return named(function, name, f"{_BINARY[name]}; broadcast.")


def lcm(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Any:
    """The least common multiple of integers, not negative; 0 where one is 0. Errors: DTypeError on other types."""
    divisor = FUNCTIONS["gcd"](input, other)
    quotient = call("trunc_divide", input, where(divisor == 0, 1, divisor))
    result = call("abs", quotient * other)
    return result if out is None else write_out(out, result)


_ALIASES = {
    "subtract": "sub", "multiply": "mul", "divide": "div", "greater": "gt", "greater_equal": "ge", "less": "lt",
    "less_equal": "le", "not_equal": "ne", "arctan2": "atan2",
}  # fmt: skip
_IN_PLACE = (
    "add sub mul div true_divide subtract multiply divide pow lerp addcmul "
    "addcdiv eq ne lt le gt ge not_equal less less_equal greater greater_equal atan2 arctan2 floor_divide "
    "remainder fmod logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor bitwise_left_shift "
    "bitwise_right_shift gcd lcm nextafter"
)

FUNCTIONS: dict[str, Any] = {name: _binary(name) for name in _BINARY}
FUNCTIONS.update(
    by_name(
        add, sub, rsub, mul, div, true_divide, pow, float_power, lerp,
        addcmul, addcdiv, lcm,
    )
)  # fmt: skip
FUNCTIONS.update({alias: FUNCTIONS[name] for alias, name in _ALIASES.items()})
METHODS: dict[str, Any] = {name: function for name, function in FUNCTIONS.items() if name != "rsub"}
METHODS.update(in_place_variants(FUNCTIONS, _IN_PLACE))
METHODS["float_power_"] = float_power_
HOOKS = {
    "check_divisor": check_divisor,
    "check_subtraction": check_subtraction,
    "pow": power_operator,
    "with_arrays": with_arrays,
}
