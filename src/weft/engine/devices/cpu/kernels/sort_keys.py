"""Sort keys: unsigned integers in the order of the elements.

nan is the largest element, -0.0 is 0.0. Floats give their bits, those of negative ones flipped; signed integers give
their bits with the sign flipped. Elements of up to four bytes have a key of 32 bits, half types by way of float32; a
wide key has 64.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from weft.engine.devices.cpu.codegen.vector_memory import decode
from weft.engine.devices.cpu.kernels.kernel_base import Family
from weft.engine.devices.cpu.limits import LANES
from weft.engine.devices.cpu.llvm.builder import I32, I64, Value, choose, integer, minimum
from weft.engine.devices.cpu.llvm.simd_value import ELEMENTS, FLOATS, UNSIGNED, SimdValue
from weft.engine.kernels.loop_ir import SIZES

_SIGNED = ("int8", "int16", "int32", "int64")


class Keys:
    """The keys of rows of one dtype, `LANES` at a time.  `flip` is all ones where the order is
    descending, else 0; nan then comes first, or last if `nan_last`."""

    def __init__(self, family: Family, wide: bool, flip: Value, nan_last: bool = False) -> None:
        self.family = family
        self.builder = family.builder
        self.nan_last = nan_last
        self.bits = 64 if SIZES[family.dtype] == 8 else 32  # that the elements have
        self.element = I64 if wide else I32  # that their keys have
        self.vector = ir.VectorType(self.element, LANES)
        self.flip = self.splat(self.builder.trunc(flip, self.element))
        self.size = 8 if wide else 4

    def splat(self, key: Value) -> Value:
        """A key in every lane."""
        return self.builder.broadcast(key, LANES)

    @property
    def last(self) -> Value:
        """The largest key, in every lane."""
        return Value(self.vector, f"splat ({self.element} -1)")

    def read(self, source: Value, index: Value, length: Value, step: Value) -> Value:
        """The keys of the elements from `index` on; behind the row's end the largest one."""
        b, family = self.builder, self.family
        count = minimum(b, b.sub(length, index), integer(LANES))
        whole = b.icmp_signed("==", count, integer(LANES))
        unit = b.icmp_signed("==", step, integer(1))
        pointer = family.at(source, (index, step))

        def strided() -> list[Value]:
            stride = b.mul(step, integer(family.size))
            return [family.memory.collect(pointer, stride, count, family.dtype)]

        def beside() -> list[Value]:
            return [family.memory.load(pointer, family.dtype)]

        raw = choose(b, b.and_(whole, unit), beside, strided)[0]
        keys = self._of(decode(family.e, raw, family.dtype))
        return b.select(self.lanes_below(count), keys, self.last)

    def lanes_below(self, count: Value) -> Value:
        """The first `count` lanes, as a mask."""
        b = self.builder
        numbers = Value(
            ir.VectorType(I32, LANES), f"<{', '.join(f'i32 {i}' for i in range(LANES))}>"
        )
        return b.icmp_signed("<", numbers, b.broadcast(b.trunc(count, I32), LANES))

    def _of(self, v: SimdValue) -> Value:
        b = self.builder
        if v.dtype in FLOATS:
            keys, nan = self._of_floats(v)
        else:
            keys, nan = self._of_integers(v), None
        keys = b.zext(keys, self.vector)
        flipped = b.xor(keys, self.flip)
        if nan is None:
            return flipped
        if self.nan_last:
            return b.select(nan, self.last, flipped)
        return b.select(nan, b.xor(self.last, self.flip), flipped)

    def _of_integers(self, v: SimdValue) -> Value:
        b = self.builder
        type_: Any = ir.VectorType(I64 if self.bits == 64 else I32, LANES)
        if v.dtype not in _SIGNED:
            assert v.dtype in ("bool", *UNSIGNED), v.dtype
            return b.zext(v.value, type_)
        return b.xor(b.sext(v.value, type_), self._sign(type_))

    def _of_floats(self, v: SimdValue) -> tuple[Value, Value]:
        b, e = self.builder, self.family.e
        type_ = ir.VectorType(I64 if self.bits == 64 else I32, LANES)
        bits = b.bitcast(b.fadd(v.value, e.literal(0.0, ELEMENTS[v.dtype])), type_)
        shift = Value(type_, f"splat ({type_.element} {self.bits - 1})")
        keys = b.xor(bits, b.or_(b.ashr(bits, shift), self._sign(type_)))
        return keys, e.isnan(v).value

    def _sign(self, type_: ir.Type) -> Value:
        return Value(type_, f"splat ({type_.element} {-(1 << (self.bits - 1))})")
