"""The emitter of elementwise primitives in LLVM IR: each method of `Emitter` is one over vectors of lanes.

A method takes `SimdValue`s (a dtype and the vectors that hold it) and returns a new one; instructions are appended to
the builder. Every primitive rounds to its dtype, without fast-math flags. In registers a bool is a vector of i1,
float16 and bfloat16 are float32 vectors whose values are already rounded, a complex number is two vectors.
Conversions, halves, complex numbers, integer division and float remainders live in modules of their own; exp, log, sin
and their like come from `elementary`. Memory belongs to `vector_memory`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from weft.engine.devices.cpu.elementwise import (
    casts,
    complex_arithmetic,
    complex_inverses,
    float_bits,
    fmod,
    gated,
    integer_division,
    optimizer_steps,
    philox,
)
from weft.engine.devices.cpu.llvm.builder import Builder, Value, splat
from weft.engine.devices.cpu.llvm.simd_value import (
    COMPLEX,
    ELEMENTS,
    FLOATS,
    HALVES,
    INTEGERS,
    REAL,
    SUFFIX,
    UNSIGNED,
    SimdValue,
    literal,
    same_dtype,
)

# fmt: off
ELEMENTARY = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin",
    "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "sigmoid", "erf",
    "erfc", "erfinv", "lgamma", "digamma", "trigamma", "i0", "i0e", "i1", "i1e", "bessel_j0", "bessel_j1", "bessel_y0",
    "bessel_y1", "modified_bessel_k0", "modified_bessel_k1", "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
)
# fmt: on


Unary = Callable[["Emitter", SimdValue], SimdValue]
Binary = Callable[["Emitter", SimdValue, SimdValue], SimdValue]


class Emitter:
    """Appends primitives to `builder`, all on `lanes` lanes."""

    # Two of those that are added below the class.
    log: Callable[[SimdValue], SimdValue]
    cos: Callable[[SimdValue], SimdValue]

    def __init__(self, builder: Builder, lanes: int) -> None:
        self.builder = builder
        self.lanes = lanes
        self.known: dict[Any, Any] = {}  # the values that `once` has made in this scope
        self._types: dict[str, Any] = {}

    # Values and types

    def vector(self, element: ir.Type) -> Any:
        """The vector type with this element type."""
        key = str(element)
        if key not in self._types:
            self._types[key] = ir.VectorType(element, self.lanes)
        return self._types[key]

    def literal(self, number: float | int | bool, element: ir.Type) -> Value:
        """A number of an element type in every lane."""
        return splat(Value(element, literal(number, element)), self.lanes)

    def constant(self, python_value: complex | float | int | bool, dtype: str) -> SimdValue:
        """A Python number, rounded to the dtype, in every lane."""
        element = ELEMENTS[dtype]
        if dtype in COMPLEX:
            number = complex(python_value)
            return SimdValue(dtype, *(self.literal(x, element) for x in (number.real, number.imag)))
        if dtype == "bool":
            return SimdValue(dtype, self.literal(bool(python_value), element))
        if dtype in INTEGERS:
            return SimdValue(dtype, self.literal(int(python_value), element))  # type: ignore[arg-type]
        value = self.literal(float(python_value), element)  # type: ignore[arg-type]
        return self._rounded(dtype, value)

    def _rounded(self, dtype: str, value: Value) -> SimdValue:
        if dtype in HALVES:
            value = casts.round_half(self, dtype, value)
        return SimdValue(dtype, value)

    def cast(self, v: SimdValue, dtype: str) -> SimdValue:
        """The value in another dtype; float to int saturates, complex to real drops a part."""
        return casts.cast(self, v, dtype)

    def reinterpret(self, v: SimdValue, dtype: str) -> SimdValue:
        """The same bits: a float as the integer type of its size, or an integer as a float."""
        return casts.reinterpret(self, v, dtype)

    # Arithmetic

    def _arithmetic(self, floating: str, integral: str, a: SimdValue, b: SimdValue) -> SimdValue:
        same_dtype(a, b)
        name = floating if a.dtype in FLOATS else integral
        return self._rounded(a.dtype, getattr(self.builder, name)(a.value, b.value))

    def add(self, a: SimdValue, b: SimdValue) -> SimdValue:
        """a + b; for bools, or."""
        if a.dtype in COMPLEX:
            return complex_arithmetic.add(self, a, b)
        return self.logical_or(a, b) if a.dtype == "bool" else self._arithmetic("fadd", "add", a, b)

    def sub(self, a: SimdValue, b: SimdValue) -> SimdValue:
        """a - b; for bools, exclusive or."""
        if a.dtype in COMPLEX:
            return complex_arithmetic.sub(self, a, b)
        if a.dtype == "bool":
            return self.logical_xor(a, b)
        return self._arithmetic("fsub", "sub", a, b)

    def mul(self, a: SimdValue, b: SimdValue) -> SimdValue:
        """a * b; for bools, and."""
        if a.dtype in COMPLEX:
            return complex_arithmetic.mul(self, a, b)
        if a.dtype == "bool":
            return self.logical_and(a, b)
        return self._arithmetic("fmul", "mul", a, b)

    def div(self, a: SimdValue, b: SimdValue) -> SimdValue:
        """a / b; integers truncate, and give 0 on division by zero."""
        same_dtype(a, b)
        if a.dtype in COMPLEX:
            return complex_arithmetic.div(self, a, b)
        if a.dtype in INTEGERS:
            return integer_division.divide(self, a, b)
        return self._rounded(a.dtype, self.builder.fdiv(a.value, b.value))

    def fma(self, a: SimdValue, b: SimdValue, c: SimdValue) -> SimdValue:
        """a * b + c, floats rounded once (halves: once to float32, once more to their dtype)."""
        if a.dtype not in FLOATS:
            return self.add(self.mul(a, b), c)
        same_dtype(a, b)
        same_dtype(b, c)
        return self._rounded(a.dtype, self.intrinsic("fma", a.value, b.value, c.value))

    def intrinsic(self, name: str, *values: Value) -> Value:
        """An LLVM intrinsic on vectors of the first value's type."""
        type_ = values[0].type
        element = type_.element
        suffix = SUFFIX.get(str(element)) or str(element)
        return self.builder.intrinsic(f"llvm.{name}.v{type_.count}{suffix}", type_, values)

    def _unary(self, name: str, v: SimdValue) -> SimdValue:
        return self._rounded(v.dtype, self.intrinsic(name, v.value))

    def neg(self, v: SimdValue) -> SimdValue:
        """-v."""
        negate = self.builder.neg if v.dtype in INTEGERS else self.builder.fneg
        return SimdValue(v.dtype, *(negate(part) for part in v.parts))

    def abs(self, v: SimdValue) -> SimdValue:
        """|v|; real for complex values."""
        if v.dtype in COMPLEX:
            return complex_arithmetic.magnitude(self, v)
        if v.dtype in FLOATS:
            return SimdValue(v.dtype, self.intrinsic("fabs", v.value))
        if v.dtype in ("bool", *UNSIGNED):
            return v
        negative = self.lt(v, self.constant(0, v.dtype))
        return self.select(negative, self.neg(v), v)

    def sqrt(self, v: SimdValue) -> SimdValue:
        """The square root."""
        return complex_arithmetic.sqrt(self, v) if v.dtype in COMPLEX else self._unary("sqrt", v)

    def _integral(self, name: str, v: SimdValue) -> SimdValue:
        return SimdValue(v.dtype, self.intrinsic(name, v.value)) if v.dtype in FLOATS else v

    def floor(self, v: SimdValue) -> SimdValue:
        """The integer below."""
        return self._integral("floor", v)

    def ceil(self, v: SimdValue) -> SimdValue:
        """The integer above."""
        return self._integral("ceil", v)

    def trunc(self, v: SimdValue) -> SimdValue:
        """The integer towards zero."""
        return self._integral("trunc", v)

    def round(self, v: SimdValue) -> SimdValue:
        """The nearest integer, halves to even."""
        return self._integral("roundeven", v)

    def _extremum(self, relation: str, a: SimdValue, b: SimdValue) -> SimdValue:
        """b where it is beyond a, or a nan: two instructions on x86, of which one waits for a."""
        same_dtype(a, b)
        take = self._compare(relation, b, a).value
        value = self.builder.select(take, b.value, a.value)
        if a.dtype in FLOATS:
            value = self.builder.select(self.isnan(b).value, b.value, value)
        return SimdValue(a.dtype, value)

    def minimum(self, a: SimdValue, b: SimdValue) -> SimdValue:
        """The smaller one, a nan if there is one; the first of equals."""
        return self._extremum("<", a, b)

    def maximum(self, a: SimdValue, b: SimdValue) -> SimdValue:
        """The larger one, a nan if there is one; the first of equals."""
        return self._extremum(">", a, b)

    def fmod(self, a: SimdValue, b: SimdValue) -> SimdValue:
        """The exact remainder with the sign of a."""
        same_dtype(a, b)
        if a.dtype in FLOATS:
            return SimdValue(a.dtype, fmod.fmod(self, a.value, b.value))
        return integer_division.fmod(self, a, b)

    def remainder(self, a: SimdValue, b: SimdValue) -> SimdValue:
        """Python's a % b: the sign of b."""
        same_dtype(a, b)
        if a.dtype in INTEGERS:
            return integer_division.remainder(self, a, b)
        return fmod.remainder(self, a, b)

    def floordiv(self, a: SimdValue, b: SimdValue) -> SimdValue:
        """Python's a // b."""
        same_dtype(a, b)
        if a.dtype in INTEGERS:
            return integer_division.floordiv(self, a, b)
        return fmod.floordiv(self, a, b)

    def gcd(self, a: SimdValue, b: SimdValue) -> SimdValue:
        """The greatest common divisor of integers."""
        same_dtype(a, b)
        return integer_division.gcd(self, a, b)

    def nextafter(self, a: SimdValue, b: SimdValue) -> SimdValue:
        """The next float after a on the way to b."""
        same_dtype(a, b)
        return float_bits.nextafter(self, a, b)

    def mantissa(self, v: SimdValue) -> SimdValue:
        """v without its power of two: in [0.5, 1), with the sign."""
        return float_bits.mantissa(self, v)

    def exponent(self, v: SimdValue) -> SimdValue:
        """The power of two that goes with `mantissa`, int32."""
        return float_bits.exponent(self, v)

    def pow(self, a: SimdValue, b: SimdValue) -> SimdValue:
        """a ** b; integers wrap, and a negative exponent gives 1, -1 or 0."""
        same_dtype(a, b)
        if a.dtype in COMPLEX:
            return complex_arithmetic.pow(self, a, b)
        if a.dtype in INTEGERS:
            return integer_division.pow(self, a, b)
        return self.elementary("pow", a, b)

    def sign(self, v: SimdValue) -> SimdValue:
        """-1, 0 or 1 (nan gives 0, as in PyTorch); v / |v| for complex values."""
        if v.dtype in COMPLEX:
            return complex_arithmetic.sign(self, v)
        if v.dtype == "bool":
            return v
        zero, one = self.constant(0, v.dtype), self.constant(1, v.dtype)
        positive = self.select(self.gt(v, zero), one, zero)
        if v.dtype in UNSIGNED:
            return positive
        return self.select(self.lt(v, zero), self.constant(-1, v.dtype), positive)

    def rsqrt(self, v: SimdValue) -> SimdValue:
        """1 / sqrt(v), two roundings."""
        return self.div(self.constant(1, v.dtype), self.sqrt(v))

    def reciprocal(self, v: SimdValue) -> SimdValue:
        """1 / v."""
        return self.div(self.constant(1, v.dtype), v)

    # Comparison, logic, bits

    def _compare(self, relation: str, a: SimdValue, b: SimdValue) -> SimdValue:
        same_dtype(a, b)
        builder = self.builder
        if a.dtype in FLOATS:
            ordered = builder.fcmp_unordered if relation == "!=" else builder.fcmp_ordered
            return SimdValue("bool", ordered(relation, a.value, b.value))
        unsigned = a.dtype in ("bool", *UNSIGNED)
        compare = builder.icmp_unsigned if unsigned else builder.icmp_signed
        return SimdValue("bool", compare(relation, a.value, b.value))

    def lt(self, a: SimdValue, b: SimdValue) -> SimdValue:
        """a < b."""
        return self._compare("<", a, b)

    def le(self, a: SimdValue, b: SimdValue) -> SimdValue:
        """a <= b."""
        return self._compare("<=", a, b)

    def gt(self, a: SimdValue, b: SimdValue) -> SimdValue:
        """a > b."""
        return self._compare(">", a, b)

    def ge(self, a: SimdValue, b: SimdValue) -> SimdValue:
        """a >= b."""
        return self._compare(">=", a, b)

    def eq(self, a: SimdValue, b: SimdValue) -> SimdValue:
        """a == b."""
        return (
            complex_arithmetic.eq(self, a, b) if a.dtype in COMPLEX else self._compare("==", a, b)
        )

    def ne(self, a: SimdValue, b: SimdValue) -> SimdValue:
        """a != b; true for a nan."""
        if a.dtype in COMPLEX:
            return self.logical_not(complex_arithmetic.eq(self, a, b))
        return self._compare("!=", a, b)

    def truth(self, v: SimdValue) -> SimdValue:
        """v != 0, as a bool."""
        return v if v.dtype == "bool" else self.ne(v, self.constant(0, v.dtype))

    def logical_and(self, a: SimdValue, b: SimdValue) -> SimdValue:
        """Both are non-zero."""
        return SimdValue("bool", self.builder.and_(self.truth(a).value, self.truth(b).value))

    def logical_or(self, a: SimdValue, b: SimdValue) -> SimdValue:
        """One is non-zero."""
        return SimdValue("bool", self.builder.or_(self.truth(a).value, self.truth(b).value))

    def logical_xor(self, a: SimdValue, b: SimdValue) -> SimdValue:
        """Exactly one is non-zero."""
        return SimdValue("bool", self.builder.xor(self.truth(a).value, self.truth(b).value))

    def logical_not(self, v: SimdValue) -> SimdValue:
        """v is zero."""
        return SimdValue("bool", self.builder.not_(self.truth(v).value))

    def bitwise_and(self, a: SimdValue, b: SimdValue) -> SimdValue:
        """a & b."""
        same_dtype(a, b)
        return SimdValue(a.dtype, self.builder.and_(a.value, b.value))

    def bitwise_or(self, a: SimdValue, b: SimdValue) -> SimdValue:
        """a | b."""
        same_dtype(a, b)
        return SimdValue(a.dtype, self.builder.or_(a.value, b.value))

    def bitwise_xor(self, a: SimdValue, b: SimdValue) -> SimdValue:
        """a ^ b."""
        same_dtype(a, b)
        return SimdValue(a.dtype, self.builder.xor(a.value, b.value))

    def bitwise_not(self, v: SimdValue) -> SimdValue:
        """~v."""
        return SimdValue(v.dtype, self.builder.not_(v.value))

    def shl(self, a: SimdValue, b: SimdValue) -> SimdValue:
        """a << b; 0 where b is negative or reaches the width."""
        same_dtype(a, b)
        return integer_division.shl(self, a, b)

    def shr(self, a: SimdValue, b: SimdValue) -> SimdValue:
        """a >> b, filled with the sign; also where b is negative or reaches the width."""
        same_dtype(a, b)
        return integer_division.shr(self, a, b)

    def select(self, mask: SimdValue, a: SimdValue, b: SimdValue) -> SimdValue:
        """a where mask, else b."""
        same_dtype(a, b)
        condition = self.truth(mask).value
        pairs = zip(a.parts, b.parts, strict=True)
        return SimdValue(a.dtype, *(self.builder.select(condition, x, y) for x, y in pairs))

    def _classify(self, v: SimdValue, test: Unary, otherwise: bool) -> SimdValue:
        if v.dtype in COMPLEX:
            real, imag = (test(self, part) for part in (self.real(v), self.imag(v)))
            return self.logical_and(real, imag) if otherwise else self.logical_or(real, imag)
        return test(self, v) if v.dtype in FLOATS else self.constant(otherwise, "bool")

    def isnan(self, v: SimdValue) -> SimdValue:
        """v is not a number (for complex values: one part is)."""

        def test(self: Emitter, part: SimdValue) -> SimdValue:
            return SimdValue("bool", self.builder.fcmp_unordered("uno", part.value, part.value))

        return self._classify(v, test, False)

    def isinf(self, v: SimdValue) -> SimdValue:
        """v is an infinity (for complex values: one part is)."""

        def test(self: Emitter, part: SimdValue) -> SimdValue:
            return self.eq(self.abs(part), self.constant(float("inf"), part.dtype))

        return self._classify(v, test, False)

    def isfinite(self, v: SimdValue) -> SimdValue:
        """v is neither nan nor infinite (for complex values: both parts)."""

        def test(self: Emitter, part: SimdValue) -> SimdValue:
            return self.lt(self.abs(part), self.constant(float("inf"), part.dtype))

        return self._classify(v, test, True)

    # Elementary functions; methods are made below for the names in ELEMENTARY

    def elementary(self, name: str, *values: SimdValue) -> SimdValue:
        """One of the elementary functions; halves go through float32."""
        from weft.engine.devices.cpu import elementary

        dtype = values[0].dtype
        if dtype in COMPLEX:
            named = (
                complex_arithmetic.FUNCTIONS
                if name in complex_arithmetic.FUNCTIONS
                else complex_inverses.FUNCTIONS
            )
            return named[name](self, *values)
        if dtype not in FLOATS:
            raise TypeError(f"{name} expects a floating dtype, got {dtype}; cast first")
        result = elementary.emit(self.builder, name, *(v.value for v in values))
        return self._rounded(dtype, result)

    def once(self, name: str, v: SimdValue) -> SimdValue:
        """An elementary function of one value, computed where it is asked for first."""
        key = name, *(part.ref for part in v.parts)
        if key not in self.known:
            self.known[key] = self.elementary(name, v)
        result: SimdValue = self.known[key]
        return result

    def atan2(self, a: SimdValue, b: SimdValue) -> SimdValue:
        """The angle of the point (b, a)."""
        same_dtype(a, b)
        return self.elementary("atan2", a, b)

    # Complex parts, random numbers

    def real(self, v: SimdValue) -> SimdValue:
        """The real part."""
        return SimdValue(REAL[v.dtype], v.parts[0]) if v.dtype in COMPLEX else v

    def imag(self, v: SimdValue) -> SimdValue:
        """The imaginary part; 0 for a real value."""
        if v.dtype in COMPLEX:
            return SimdValue(REAL[v.dtype], v.parts[1])
        return self.constant(0, v.dtype)

    def conj(self, v: SimdValue) -> SimdValue:
        """The conjugate."""
        if v.dtype not in COMPLEX:
            return v
        return SimdValue(v.dtype, v.parts[0], self.builder.fneg(v.parts[1]))

    def complex(self, re: SimdValue, im: SimdValue) -> SimdValue:
        """re + i im."""
        same_dtype(re, im)
        return SimdValue(
            {"float32": "complex64", "float64": "complex128"}[re.dtype], re.value, im.value
        )

    def philox(self, key: SimdValue, counter: SimdValue) -> SimdValue:
        """Word 0 of Philox4x32-10, in [0, 2**32), as int64."""
        return SimdValue("int64", philox.philox(self, key.value, counter.value))


def _method(name: str) -> Unary:
    def method(self: Emitter, v: SimdValue) -> SimdValue:
        return self.elementary(name, v)

    method.__name__ = name
    method.__doc__ = f"{name}(v)."
    return method


for _name in ELEMENTARY:
    setattr(Emitter, _name, _method(_name))
for _step in (*gated.METHODS, *optimizer_steps.METHODS):
    setattr(Emitter, _step.__name__, _step)
