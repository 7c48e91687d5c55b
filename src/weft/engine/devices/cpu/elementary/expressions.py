"""Arithmetic on LLVM values written as Python expressions, for the elementary functions.

A `SimdExpr` wraps one SSA value (a float or double, or a vector of them, or the integer or mask of the
same width) with the builder that extends it.  Operators append one instruction each and never set
fast-math flags; a fused multiply-add appears only where `fma` is written.  Python numbers become
constants of the other operand's type.  What the expressions mean is left to the functions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache

from llvmlite import ir

from weft.engine.devices.cpu.llvm.builder import Value, splat

Number = float | int


def element(type_: ir.Type) -> ir.Type:
    return type_.element if isinstance(type_, ir.VectorType) else type_


def with_element(type_: ir.Type, new: ir.Type) -> ir.Type:
    """`type_` with its elements replaced, its number of lanes kept."""
    return ir.VectorType(new, type_.count) if isinstance(type_, ir.VectorType) else new


def is_single(type_: ir.Type) -> bool:
    return isinstance(element(type_), ir.FloatType)


def suffix(type_: ir.Type) -> str:
    """The type's part of an intrinsic's name: f32, v16f32, v8i64."""
    lane = element(type_)
    names = {ir.FloatType: "f32", ir.DoubleType: "f64"}
    name = f"i{lane.width}" if isinstance(lane, ir.IntType) else names[type(lane)]
    return f"v{type_.count}{name}" if isinstance(type_, ir.VectorType) else name


def constant(type_: ir.Type, number: Number) -> Value:
    """`number` in every lane, rounded to the type; integers take it as it is."""
    return _constant(type_, repr(number))


@lru_cache(maxsize=2048)
def _constant(type_: ir.Type, text: str) -> Value:
    # The text is the key because -0.0 == 0.0 and 1 == 1.0.
    lane = element(type_)
    number: Number = int(text) if isinstance(lane, ir.IntType) else float(text)
    if is_single(type_) and abs(number) < float("inf"):
        number = struct.unpack("f", struct.pack("f", number))[0]
    scalar = Value(lane, ir.Constant(lane, number).get_reference())
    return splat(scalar, type_.count) if isinstance(type_, ir.VectorType) else scalar


def intrinsic(builder: ir.IRBuilder, name: str, result: ir.Type, *values: ir.Value) -> ir.Value:
    """A call of llvm.`name` overloaded on `result`, declared in the module on first use."""
    full = f"llvm.{name}.{suffix(result)}"
    function = builder.module.globals.get(full)
    if function is None:
        signature = ir.FunctionType(result, [value.type for value in values])
        function = ir.Function(builder.module, signature, full)
    return builder.call(function, values)


class SimdExpr:
    """One value per lane, with operators that append instructions to `builder`."""

    __slots__ = ("builder", "value")

    def __init__(self, builder: ir.IRBuilder, value: ir.Value) -> None:
        self.builder = builder
        self.value = value

    @property
    def type(self) -> ir.Type:
        return self.value.type

    @property
    def single(self) -> bool:
        return is_single(self.type)

    def like(self, number: Number) -> SimdExpr:
        """`number` in every lane."""
        return SimdExpr(self.builder, constant(self.type, number))

    def _coerce(self, other: SimdExpr | Number) -> ir.Value:
        return other.value if isinstance(other, SimdExpr) else constant(self.type, other)

    def _append(self, method: Callable[..., ir.Value], *others: SimdExpr | Number) -> SimdExpr:
        return SimdExpr(self.builder, method(self.value, *map(self._coerce, others)))

    def _choose(self, floating: str, integral: str) -> Callable[..., ir.Value]:
        whole = isinstance(element(self.type), ir.IntType)
        method: Callable[..., ir.Value] = getattr(self.builder, integral if whole else floating)
        return method

    def __add__(self, other: SimdExpr | Number) -> SimdExpr:
        return self._append(self._choose("fadd", "add"), other)

    def __sub__(self, other: SimdExpr | Number) -> SimdExpr:
        return self._append(self._choose("fsub", "sub"), other)

    def __rsub__(self, other: Number) -> SimdExpr:
        return self.like(other) - self

    def __mul__(self, other: SimdExpr | Number) -> SimdExpr:
        return self._append(self._choose("fmul", "mul"), other)

    def __truediv__(self, other: SimdExpr | Number) -> SimdExpr:
        return self._append(self.builder.fdiv, other)

    def __rtruediv__(self, other: Number) -> SimdExpr:
        return self.like(other) / self

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> SimdExpr:
        return SimdExpr(self.builder, self._choose("fneg", "neg")(self.value))

    def __and__(self, other: SimdExpr | Number) -> SimdExpr:
        return self._append(self.builder.and_, other)

    def __or__(self, other: SimdExpr | Number) -> SimdExpr:
        return self._append(self.builder.or_, other)

    def __xor__(self, other: SimdExpr | Number) -> SimdExpr:
        return self._append(self.builder.xor, other)

    def __lshift__(self, count: int) -> SimdExpr:
        return self._append(self.builder.shl, count)

    def __rshift__(self, count: int) -> SimdExpr:
        """Logical: zeros enter from the left."""
        return self._append(self.builder.lshr, count)

    def shift_signed(self, count: int) -> SimdExpr:
        return self._append(self.builder.ashr, count)

    def _compare(self, relation: str, other: SimdExpr | Number) -> SimdExpr:
        """Ordered comparison: a nan makes it false.  Integers compare as signed."""
        right = self._coerce(other)
        if isinstance(element(self.type), ir.IntType):
            return SimdExpr(self.builder, self.builder.icmp_signed(relation, self.value, right))
        return SimdExpr(self.builder, self.builder.fcmp_ordered(relation, self.value, right))

    def __lt__(self, other: SimdExpr | Number) -> SimdExpr:
        return self._compare("<", other)

    def __gt__(self, other: SimdExpr | Number) -> SimdExpr:
        return self._compare(">", other)

    def __le__(self, other: SimdExpr | Number) -> SimdExpr:
        return self._compare("<=", other)

    def __ge__(self, other: SimdExpr | Number) -> SimdExpr:
        return self._compare(">=", other)

    def equals(self, other: SimdExpr | Number) -> SimdExpr:
        return self._compare("==", other)

    def is_nan(self) -> SimdExpr:
        return SimdExpr(self.builder, self.builder.fcmp_unordered("uno", self.value, self.value))

    def where(self, yes: SimdExpr | Number, no: SimdExpr | Number) -> SimdExpr:
        """`yes` where this mask is set, else `no`; one of the two has a type."""
        typed = yes if isinstance(yes, SimdExpr) else no
        assert isinstance(typed, SimdExpr)
        values = [typed._coerce(yes), typed._coerce(no)]
        return SimdExpr(self.builder, self.builder.select(self.value, *values))

    def at_most(self, bound: float) -> SimdExpr:
        """min(self, bound), a nan staying a nan: one `minps bound, self`."""
        return (self.like(bound) < self).where(bound, self)

    def at_least(self, bound: float) -> SimdExpr:
        return (self.like(bound) > self).where(bound, self)

    def bits(self) -> SimdExpr:
        whole = ir.IntType(32 if self.single else 64)
        return SimdExpr(
            self.builder, self.builder.bitcast(self.value, with_element(self.type, whole))
        )

    def floats(self) -> SimdExpr:
        """Integer bits read as floats of the same width."""
        lane = ir.FloatType() if element(self.type).width == 32 else ir.DoubleType()
        return SimdExpr(
            self.builder, self.builder.bitcast(self.value, with_element(self.type, lane))
        )

    def to_float(self, lane: ir.Type) -> SimdExpr:
        """Signed integers converted to floats of type `lane`."""
        return SimdExpr(
            self.builder, self.builder.sitofp(self.value, with_element(self.type, lane))
        )

    def widened(self) -> SimdExpr:
        wide = with_element(self.type, ir.DoubleType())
        return SimdExpr(self.builder, self.builder.fpext(self.value, wide))

    def narrowed(self) -> SimdExpr:
        narrow = with_element(self.type, ir.FloatType())
        return SimdExpr(self.builder, self.builder.fptrunc(self.value, narrow))

    def magnitude(self) -> SimdExpr:
        return SimdExpr(self.builder, intrinsic(self.builder, "fabs", self.type, self.value))

    def square_root(self) -> SimdExpr:
        return SimdExpr(self.builder, intrinsic(self.builder, "sqrt", self.type, self.value))

    def truncated(self) -> SimdExpr:
        """Rounded towards zero, still a float."""
        return SimdExpr(self.builder, intrinsic(self.builder, "trunc", self.type, self.value))

    def with_sign_of(self, other: SimdExpr) -> SimdExpr:
        """This magnitude (its own sign bit clear) with the sign bit of `other`."""
        width = element(other.bits().type).width
        return (self.bits() | (other.bits() & (-1 << (width - 1)))).floats()


def fma(a: SimdExpr, b: SimdExpr | Number, c: SimdExpr | Number) -> SimdExpr:
    """a*b + c, rounded once."""
    values = (a.value, a._coerce(b), a._coerce(c))
    return SimdExpr(a.builder, intrinsic(a.builder, "fma", a.type, *values))


def horner(x: SimdExpr, coefficients: Sequence[float]) -> SimdExpr:
    """The sum of coefficients[i] * x**i, highest power first, one fma for each step."""
    total: SimdExpr | float = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total = fma(x, total, coefficient)
    assert isinstance(total, SimdExpr)
    return total
