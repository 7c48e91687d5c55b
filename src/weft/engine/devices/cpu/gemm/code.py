"""Functions, loops and addresses for the GEMM kernels, over the text builder.

Index arithmetic is written with `SimdExpr` of i64, so that it reads as arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

from weft.engine.devices.cpu.elementary.expressions import SimdExpr
from weft.engine.devices.cpu.llvm.builder import I32, I64, Builder, Value, integer

Index = SimdExpr


class LocalFunction(Builder):
    """A function of its own signature that other functions of the module call."""

    def __init__(
        self, module: ir.Module, name: str, parameters: Sequence[tuple[str, ir.Type]]
    ) -> None:
        super().__init__(module, name)
        self.arguments = {key: Value(type_, f"%{key}") for key, type_ in parameters}

    def text(self) -> str:
        head, *rest = super().text().split("\n")
        parameters = ", ".join(f"{v.type} {v.ref}" for v in self.arguments.values())
        return "\n".join([f'define internal void @"{self.name}"({parameters}) #0 {{', *rest])

    def index(self, name: str) -> Index:
        return SimdExpr(self, self.arguments[name])

    def invoke(self, caller: Builder, *values: Value | SimdExpr) -> None:
        """A call of this function from `caller`."""
        parts = [v.value if isinstance(v, SimdExpr) else v for v in values]
        text = ", ".join(f"{v.type} {v.get_reference()}" for v in parts)
        caller.effect(f'call void @"{self.name}"({text})')


def number(builder: Builder, value: int) -> Index:
    return SimdExpr(builder, integer(value))


@contextmanager
def loop(
    builder: Builder, stop: Index | int, step: Index | int = 1, start: Index | int = 0
) -> Iterator[Index]:
    """range(start, stop, step), the index given to the body."""
    first, last, by = (
        v if isinstance(v, SimdExpr) else number(builder, v) for v in (start, stop, step)
    )
    before = builder.block
    head, body, after = (builder.append_basic_block(name) for name in ("loop", "do", "done"))
    builder.branch(head)
    builder.position_at_end(head)
    index = builder.phi(I64)
    index.add_incoming(first.value, before)
    builder.cbranch(builder.icmp_signed("<", index, last.value), body, after)
    builder.position_at_end(body)
    yield SimdExpr(builder, index)
    index.add_incoming(builder.add(index, by.value), builder.block)
    builder.branch(head)
    builder.position_at_end(after)


@contextmanager
def when(builder: Builder, condition: SimdExpr) -> Iterator[None]:
    """The body runs only if `condition`."""
    yes, after = builder.append_basic_block("then"), builder.append_basic_block("after")
    builder.cbranch(condition.value, yes, after)
    builder.position_at_end(yes)
    yield
    builder.branch(after)
    builder.position_at_end(after)


@contextmanager
def alternatives(builder: Builder, condition: SimdExpr) -> Iterator[Iterator[None]]:
    """Iterate twice over what this gives: first the body for true, then the one for false."""
    blocks = [builder.append_basic_block(name) for name in ("then", "else", "after")]
    builder.cbranch(condition.value, blocks[0], blocks[1])

    def bodies() -> Iterator[None]:
        for block in blocks[:2]:
            builder.position_at_end(block)
            yield
            builder.branch(blocks[2])

    yield bodies()
    builder.position_at_end(blocks[2])


def minimum(a: Index, b: Index | int) -> Index:
    return (a < b).where(a, b)


def quotient(a: Index, b: Index | int) -> Index:
    """a // b for numbers that are not negative."""
    return SimdExpr(a.builder, a.builder.udiv(a.value, _value(b)))


def remainder(a: Index, b: Index | int) -> Index:
    return SimdExpr(a.builder, a.builder.urem(a.value, _value(b)))


def ceiling(a: Index, b: int) -> Index:
    return quotient(a + (b - 1), b)


def ceiling_by(a: Index, b: Index) -> Index:
    return quotient(a + b - 1, b)


def _value(a: Index | int) -> Any:
    return a.value if isinstance(a, SimdExpr) else integer(a)


def address(builder: Builder, base: Value, index: Index | int, element: ir.Type) -> Value:
    """The address of base[index]."""
    return builder.gep(base, [_value(index)], source_etype=element)


def either(builder: Builder, condition: SimdExpr, yes: Value, no: Value) -> Value:
    """A pointer chosen by a condition."""
    return builder.select(condition.value, yes, no)


def buffer(builder: Builder, element: ir.Type, count: int) -> Value:
    return builder.alloca(ir.ArrayType(element, count))


def fma(builder: Builder, type_: ir.Type, a: Value, b: Value, c: Value) -> Value:
    lane = "f64" if "double" in str(type_) else "f32"
    count = f"v{type_.count}" if isinstance(type_, ir.VectorType) else ""
    return builder.intrinsic(f"llvm.fma.{count}{lane}", type_, [a, b, c])


def lane_mask(builder: Builder, lanes: int, count: Index) -> Value:
    """Lanes [0, count)."""
    numbers = ", ".join(f"i32 {i}" for i in range(lanes))
    every = Value(ir.VectorType(I32, lanes), f"<{numbers}>")
    limit = builder.broadcast(builder.trunc(count.value, I32), lanes)
    return builder.icmp_signed("<", every, limit)


def masked_load(builder: Builder, type_: ir.Type, pointer: Value, mask: Value, align: int) -> Value:
    lane = {"float": "f32", "double": "f64"}[str(type_.element)]
    zero = Value(type_, "zeroinitializer")
    name = f"llvm.masked.load.v{type_.count}{lane}.p0"
    return builder.intrinsic(name, type_, [pointer, integer(align, I32), mask, zero])
