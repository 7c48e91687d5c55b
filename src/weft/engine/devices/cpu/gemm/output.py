"""Output of a product: from buffers of accumulators to C, with the sums of chunks added, rounded, in any strides."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from weft.engine.devices.cpu.gemm.code import Index, LocalFunction, address, alternatives, loop
from weft.engine.devices.cpu.gemm.spec import FLOAT, I16, NumberForm, Spec
from weft.engine.devices.cpu.llvm.builder import I1, I32, I64, POINTER, Value, integer

FOLD_PARAMETERS = (
    ("total", POINTER),
    ("chain", POINTER),
    ("rows", I64),
    ("length", I64),
    ("stride", I64),
    ("first", I1),
)
SHIFT_PARAMETERS = (
    ("target", POINTER),
    ("target_stride", I64),
    ("count", I64),
    ("bias", POINTER),
    ("bias_stride", I64),
)
PUT_PARAMETERS = (
    ("source", POINTER),
    ("count", I64),
    ("target", POINTER),
    ("target_stride", I64),
)


def narrow(f: LocalFunction, number: NumberForm, value: Value) -> Value:
    """The compute type rounded to memory's form."""
    if number.memory == number.compute:
        return value
    lanes = getattr(value.type, "count", 0)
    if isinstance(number.memory, ir.HalfType):
        return f.fptrunc(value, ir.VectorType(number.memory, lanes) if lanes else number.memory)
    return to_bfloat16(f, value, lanes)


def to_bfloat16(f: LocalFunction, value: Value, lanes: int) -> Value:
    """Round to nearest even in integers; a nan keeps its sign and becomes quiet."""

    def constant(number: int) -> Value:
        return Value(whole, f"splat (i32 {number})") if lanes else integer(number, I32)

    whole: Any = ir.VectorType(I32, lanes) if lanes else I32
    bits = f.bitcast(value, whole)
    odd = f.and_(f.lshr(bits, constant(16)), constant(1))
    rounded = f.add(bits, f.add(odd, constant(0x7FFF)))
    is_nan = f.fcmp_unordered("uno", value, value)
    chosen = f.select(is_nan, f.or_(bits, constant(0x400000)), rounded)
    return f.trunc(f.lshr(chosen, constant(16)), ir.VectorType(I16, lanes) if lanes else I16)


def fold(module: ir.Module, name: str, spec: Spec) -> LocalFunction:
    """total = chain for the first chunk, total + chain after it."""
    f = LocalFunction(module, name, FOLD_PARAMETERS)
    with loop(f, f.index("rows")) as row, loop(f, f.index("length"), spec.lanes) as column:
        offset = f.index("stride") * row + column
        places = [
            address(f, f.arguments[key], offset, spec.number.compute) for key in ("total", "chain")
        ]
        total, chain = (f.load(place, typ=spec.vector, align=spec.size) for place in places)
        result = f.select(f.arguments["first"], chain, f.fadd(total, chain))
        f.store(result, places[0], align=spec.size)
    f.ret_void()
    return f


class Shift:
    """Writes the function that adds a bias to one line of C, where memory is of the compute type."""

    def __init__(self, module: ir.Module, name: str, spec: Spec) -> None:
        self.spec = spec
        self.f = LocalFunction(module, name, SHIFT_PARAMETERS)

    def build(self) -> LocalFunction:
        f, count = self.f, self.f.index("count")
        dense = f.index("target_stride").equals(1) & f.index("bias_stride").equals(1)
        whole = dense.where(count & -self.spec.lanes, 0)
        with loop(f, whole, self.spec.lanes) as i:
            self.add(i, self.spec.vector)
        with loop(f, count, start=whole) as i:
            self.add(i, self.spec.number.compute)
        f.ret_void()
        return f

    def add(self, i: Index, form: ir.Type) -> None:
        f, element = self.f, self.spec.number.compute
        places = [
            address(f, f.arguments[name], i * f.index(f"{name}_stride"), element)
            for name in ("target", "bias")
        ]
        value, bias = (f.load(place, typ=form, align=self.spec.size) for place in places)
        f.store(f.fadd(value, bias), places[0], align=self.spec.size)


class Put:
    """Writes the function that stores one line of a tile into C."""

    def __init__(self, module: ir.Module, name: str, spec: Spec) -> None:
        self.spec, self.number = spec, spec.number
        self.f = LocalFunction(module, name, PUT_PARAMETERS)

    def build(self) -> LocalFunction:
        f, lanes = self.f, self.spec.lanes
        count = f.index("count")
        with alternatives(f, f.index("target_stride").equals(1)) as bodies:
            next(bodies)
            whole = count & -lanes
            with loop(f, whole, lanes) as i:
                self.put_vector(i)
            with loop(f, count, start=whole) as i:
                self.put_one(i)
            next(bodies)
            with loop(f, count) as i:
                self.put_one(i)
            next(bodies, None)
        f.ret_void()
        return f

    def source(self, i: Index, part: int) -> Value:
        f = self.f
        offset = i + part * self.spec.columns
        return address(f, f.arguments["source"], offset, self.number.compute)

    def target(self, i: Index) -> Value:
        f = self.f
        offset = i * f.index("target_stride") * self.number.planes
        return address(f, f.arguments["target"], offset, self.number.memory)

    def put_one(self, i: Index) -> None:
        f = self.f
        for part in range(self.number.planes):
            value = f.load(self.source(i, part), typ=self.number.compute)
            place = address(f, self.target(i), part, self.number.memory)
            f.store(narrow(f, self.number, value), place)

    def put_vector(self, i: Index) -> None:
        f, lanes = self.f, self.spec.lanes
        parts = [
            f.load(self.source(i, part), typ=self.spec.vector, align=self.spec.size)
            for part in range(self.number.planes)
        ]
        value = narrow(f, self.number, parts[0])
        if len(parts) == 2:
            value = f.shuffle(parts[0], parts[1], [n for i in range(lanes) for n in (i, i + lanes)])
        size = 2 if self.number.compute == FLOAT != self.number.memory else self.spec.size
        f.store(value, self.target(i), align=size)
