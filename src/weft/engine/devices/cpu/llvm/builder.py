"""A builder of LLVM functions that writes text: the part of `llvmlite.ir.IRBuilder` used here.

It has the method names of `IRBuilder` and accepts its types and constants, so that code written
for one runs on the other; each instruction becomes one formatted line, about five times faster
than through instruction objects.  Alignment is always that of one element, never of the vector.
Errors in the text show when LLVM parses it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

I1 = ir.IntType(1)
I8 = ir.IntType(8)
I32 = ir.IntType(32)
I64 = ir.IntType(64)
POINTER = ir.PointerType()
ARGUMENTS = ("pointers", "arguments", "begin", "end")


class Value:
    """A typed reference: a register or a constant."""

    __slots__ = ("ref", "type")

    def __init__(self, type_: ir.Type, ref: str) -> None:
        self.type = type_
        self.ref = ref

    def get_reference(self) -> str:
        """The text that names the value where it is used."""
        return self.ref


class Phi(Value):
    """A value that depends on the block control came from; edges may be added later."""

    __slots__ = ("edges",)

    def __init__(self, type_: ir.Type, ref: str) -> None:
        super().__init__(type_, ref)
        self.edges: list[tuple[Any, Block]] = []

    def add_incoming(self, value: Value, block: Block) -> None:
        """The value is `value` when control comes from `block`."""
        self.edges.append((value, block))

    def __str__(self) -> str:
        edges = ", ".join(f"[ {v.get_reference()}, %{b.name} ]" for v, b in self.edges)
        return f"{self.ref} = phi {self.type} {edges}"


class Block:
    """A basic block: its label and its lines."""

    __slots__ = ("lines", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: list[Any] = []


def integer(value: int, type_: ir.Type = I64) -> Value:
    """An integer constant."""
    return Value(type_, str(value))


def splat(value: Value, lanes: int) -> Value:
    """A constant in every lane."""
    return Value(ir.VectorType(value.type, lanes), f"splat ({value.type} {value.get_reference()})")


def _binary(op: str) -> Callable[..., Value]:
    def method(
        self: Builder, lhs: Value, rhs: Value, name: str = "", flags: tuple[str, ...] = ()
    ) -> Value:
        type_ = lhs.type
        return self.line(type_, f"{op} {type_} {lhs.get_reference()}, {rhs.get_reference()}")

    return method


def _cast(op: str) -> Callable[..., Value]:
    def method(self: Builder, value: Value, typ: ir.Type, name: str = "") -> Value:
        if value.type == typ:
            return value  # type: ignore[no-any-return]
        return self.line(typ, f"{op} {value.type} {value.get_reference()} to {typ}")

    return method


_COMPARE = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
_FLOAT_COMPARE = {**_COMPARE, "ord": "rd", "uno": "no"}


class Builder:
    """Writes one function of one module; `position_at_end` moves between its blocks."""

    def __init__(self, module: ir.Module, name: str) -> None:
        self.module = module
        self.name = name
        self.blocks: list[Block] = []
        self.count = 0
        self.arguments = {
            argument: Value(I64 if i > 1 else POINTER, f"%{argument}")
            for i, argument in enumerate(ARGUMENTS)
        }
        self.block = self.append_basic_block("entry")

    add = _binary("add")
    sub = _binary("sub")
    mul = _binary("mul")
    udiv = _binary("udiv")
    sdiv = _binary("sdiv")
    urem = _binary("urem")
    srem = _binary("srem")
    shl = _binary("shl")
    lshr = _binary("lshr")
    ashr = _binary("ashr")
    and_ = _binary("and")
    or_ = _binary("or")
    xor = _binary("xor")
    fadd = _binary("fadd")
    fsub = _binary("fsub")
    fmul = _binary("fmul")
    fdiv = _binary("fdiv")
    trunc = _cast("trunc")
    zext = _cast("zext")
    sext = _cast("sext")
    fptrunc = _cast("fptrunc")
    fpext = _cast("fpext")
    bitcast = _cast("bitcast")
    fptosi = _cast("fptosi")
    fptoui = _cast("fptoui")
    sitofp = _cast("sitofp")
    uitofp = _cast("uitofp")
    ptrtoint = _cast("ptrtoint")
    inttoptr = _cast("inttoptr")

    def line(self, type_: ir.Type, code: str) -> Value:
        """Append an instruction that gives a value."""
        self.count += 1
        ref = f"%v{self.count}"
        self.block.lines.append(f"{ref} = {code}")
        return Value(type_, ref)

    def effect(self, code: str) -> None:
        """Append an instruction that gives none."""
        self.block.lines.append(code)

    def append_basic_block(self, name: str = "") -> Block:
        """A new block, after the others."""
        self.count += 1
        block = Block(f"{name or 'block'}.{self.count}")
        self.blocks.append(block)
        return block

    def position_at_end(self, block: Block) -> None:
        """Continue writing in `block`."""
        self.block = block

    def fneg(self, value: Value, name: str = "", flags: tuple[str, ...] = ()) -> Value:
        """-value, the sign bit flipped."""
        return self.line(value.type, f"fneg {value.type} {value.get_reference()}")

    def neg(self, value: Value, name: str = "") -> Value:
        """0 - value, for integers."""
        return self.sub(Value(value.type, "zeroinitializer"), value)

    def not_(self, value: Value, name: str = "") -> Value:
        """Every bit flipped."""
        type_ = value.type
        vector = isinstance(type_, ir.VectorType)
        ones = f"splat ({type_.element} -1)" if vector else "-1"
        return self.line(type_, f"xor {type_} {value.get_reference()}, {ones}")

    def _compare(self, code: str, lhs: Value, rhs: Value) -> Value:
        type_ = lhs.type
        vector = isinstance(type_, ir.VectorType)
        result = ir.VectorType(I1, type_.count) if vector else I1
        return self.line(result, f"{code} {type_} {lhs.get_reference()}, {rhs.get_reference()}")

    def icmp_signed(self, cmpop: str, lhs: Value, rhs: Value, name: str = "") -> Value:
        """A comparison of signed integers."""
        sign = "" if cmpop in ("==", "!=") else "s"
        return self._compare(f"icmp {sign}{_COMPARE[cmpop]}", lhs, rhs)

    def icmp_unsigned(self, cmpop: str, lhs: Value, rhs: Value, name: str = "") -> Value:
        """A comparison of unsigned integers."""
        sign = "" if cmpop in ("==", "!=") else "u"
        return self._compare(f"icmp {sign}{_COMPARE[cmpop]}", lhs, rhs)

    def fcmp_ordered(
        self, cmpop: str, lhs: Value, rhs: Value, name: str = "", flags: tuple[str, ...] = ()
    ) -> Value:
        """A comparison of floats that is false where one is nan ("uno": true only there)."""
        sign = "u" if cmpop == "uno" else "o"
        return self._compare(f"fcmp {sign}{_FLOAT_COMPARE[cmpop]}", lhs, rhs)

    def fcmp_unordered(
        self, cmpop: str, lhs: Value, rhs: Value, name: str = "", flags: tuple[str, ...] = ()
    ) -> Value:
        """A comparison of floats that is true where one is nan ("ord": false only there)."""
        sign = "o" if cmpop == "ord" else "u"
        return self._compare(f"fcmp {sign}{_FLOAT_COMPARE[cmpop]}", lhs, rhs)

    def select(
        self, cond: Value, lhs: Value, rhs: Value, name: str = "", flags: tuple[str, ...] = ()
    ) -> Value:
        """`lhs` where `cond`, else `rhs`."""
        return self.line(
            lhs.type,
            f"select {cond.type} {cond.get_reference()}, {lhs.type} {lhs.get_reference()}, "
            f"{rhs.type} {rhs.get_reference()}",
        )

    def extract_element(self, vector: Value, idx: Value, name: str = "") -> Value:
        """One lane."""
        return self.line(
            vector.type.element,
            f"extractelement {vector.type} {vector.get_reference()}, "
            f"{idx.type} {idx.get_reference()}",
        )

    def insert_element(self, vector: Value, value: Value, idx: Value, name: str = "") -> Value:
        """The vector with one lane replaced."""
        return self.line(
            vector.type,
            f"insertelement {vector.type} {vector.get_reference()}, "
            f"{value.type} {value.get_reference()}, {idx.type} {idx.get_reference()}",
        )

    def shuffle_vector(self, vector1: Value, vector2: Value, mask: Value, name: str = "") -> Value:
        """Lanes of two vectors, picked by a constant mask."""
        return self.line(
            ir.VectorType(vector1.type.element, mask.type.count),
            f"shufflevector {vector1.type} {vector1.get_reference()}, "
            f"{vector2.type} {vector2.get_reference()}, {mask.type} {mask.get_reference()}",
        )

    def shuffle(self, vector1: Value, vector2: Value, lanes: Sequence[int]) -> Value:
        """`shuffle_vector` with the mask as numbers."""
        mask = ", ".join(f"i32 {lane}" for lane in lanes)
        return self.shuffle_vector(
            vector1, vector2, Value(ir.VectorType(I32, len(lanes)), f"<{mask}>")
        )

    def broadcast(self, scalar: Value, lanes: int) -> Value:
        """A scalar in every lane."""
        type_ = ir.VectorType(scalar.type, lanes)
        one = self.insert_element(Value(type_, "poison"), scalar, Value(I32, "0"))
        mask = Value(ir.VectorType(I32, lanes), "zeroinitializer")
        return self.shuffle_vector(one, Value(type_, "poison"), mask)

    def load(
        self, ptr: Value, name: str = "", align: int | None = None, typ: ir.Type = None
    ) -> Value:
        """The value of type `typ` at an address."""
        align = align or _align(typ)
        return self.line(typ, f"load {typ}, ptr {ptr.get_reference()}, align {align}")

    def store(self, value: Value, ptr: Value, align: int | None = None) -> None:
        """Write a value at an address."""
        align = align or _align(value.type)
        self.effect(
            f"store {value.type} {value.get_reference()}, ptr {ptr.get_reference()}, align {align}"
        )

    def gep(
        self,
        ptr: Value,
        indices: Sequence[Value],
        inbounds: bool = False,
        name: str = "",
        source_etype: ir.Type = I8,
    ) -> Value:
        """An address `indices` elements further; a vector of indices gives a vector of them."""
        index = indices[0]
        vector = isinstance(index.type, ir.VectorType)
        result = ir.VectorType(POINTER, index.type.count) if vector else ptr.type
        return self.line(
            result,
            f"getelementptr {source_etype}, {ptr.type} {ptr.get_reference()}, "
            f"{index.type} {index.get_reference()}",
        )

    def alloca(
        self, typ: ir.Type, size: Value | None = None, name: str = "", align: int = 64
    ) -> Value:
        """Memory of this call, reserved in the entry block."""
        self.count += 1
        ref = f"%v{self.count}"
        self.blocks[0].lines.insert(0, f"{ref} = alloca {typ}, align {align}")
        return Value(POINTER, ref)

    def call(self, fn: ir.Function, args: Sequence[Value], name: str = "") -> Value:
        """The result of a function declared in the module."""
        return self._call(fn.function_type.return_type, fn.get_reference(), args)

    def intrinsic(self, name: str, result: ir.Type, args: Sequence[Value]) -> Value:
        """The result of an LLVM intrinsic, given with its type suffix."""
        if name not in self.module.globals:
            types = [arg.type for arg in args]
            ir.Function(self.module, ir.FunctionType(result, types), name)
        return self._call(result, f'@"{name}"', args)

    def _call(self, result: ir.Type, reference: str, args: Sequence[Value]) -> Value:
        code = f"call {result} {reference}({_arguments(args)})"
        if isinstance(result, ir.VoidType):
            self.effect(code)
            return Value(result, "")
        return self.line(result, code)

    def phi(self, typ: ir.Type, name: str = "", flags: tuple[str, ...] = ()) -> Phi:
        """A value chosen by the block control came from."""
        self.count += 1
        phi = Phi(typ, f"%v{self.count}")
        self.block.lines.append(phi)
        return phi

    def branch(self, target: Block) -> None:
        """Go on in `target`."""
        self.effect(f"br label %{target.name}")

    def cbranch(self, cond: Value, truebr: Block, falsebr: Block) -> None:
        """Go on in `truebr` if `cond`, else in `falsebr`."""
        self.effect(f"br i1 {cond.get_reference()}, label %{truebr.name}, label %{falsebr.name}")

    def ret_void(self) -> None:
        """Return."""
        self.effect("ret void")

    def text(self) -> str:
        """The definition of the function."""
        lines = [
            f'define void @"{self.name}"(ptr %pointers, ptr %arguments, i64 %begin, i64 %end) #0 {{'
        ]
        for block in self.blocks:
            lines.append(f"{block.name}:")
            lines += [f"  {line}" for line in block.lines]
        lines.append("}")
        return "\n".join(lines)


def _arguments(args: Sequence[Value]) -> str:
    return ", ".join(f"{arg.type} {arg.get_reference()}" for arg in args)


_ALIGN = {"double": 8, "float": 4, "half": 2, "ptr": 8}


def _align(type_: ir.Type) -> int:
    element = getattr(type_, "element", type_)
    if isinstance(element, ir.IntType):
        return max(1, int(element.width) // 8)
    return _ALIGN[str(element)]


def module_text(module: ir.Module, builders: Sequence[Builder], register_bits: int) -> str:
    """The text of a module: declarations, tables, the functions, their attributes."""
    width = (
        f' "prefer-vector-width"="{register_bits}" "min-legal-vector-width"="{register_bits}"'
        if register_bits > 128
        else ""
    )
    parts = [str(value) for value in module.globals.values()]
    parts += [builder.text() for builder in builders]
    return "\n".join([*parts, f"attributes #0 = {{ nounwind{width} }}", ""])


def counted(
    builder: Builder,
    start: Value,
    stop: Value,
    step: int,
    carry: Sequence[Value],
    body: Callable[[Value, list[Value]], Sequence[Value]],
) -> list[Value]:
    """A loop over range(start, stop, step): `body(index, carry)` gives the next carry."""
    before = builder.block
    head, inside, after = (builder.append_basic_block(name) for name in ("loop", "do", "done"))
    builder.branch(head)
    builder.position_at_end(head)
    index, *phis = (builder.phi(value.type) for value in (start, *carry))
    for phi, value in zip((index, *phis), (start, *carry), strict=True):
        phi.add_incoming(value, before)
    builder.cbranch(builder.icmp_signed("<", index, stop), inside, after)
    builder.position_at_end(inside)
    following = body(index, list(phis))
    advanced = builder.add(index, integer(step))
    for phi, value in zip((index, *phis), (advanced, *following), strict=True):
        phi.add_incoming(value, builder.block)
    builder.branch(head)
    builder.position_at_end(after)
    return list(phis)


def repeated(
    builder: Builder,
    carry: Sequence[Value],
    holds: Callable[[list[Value]], Value],
    body: Callable[[list[Value]], Sequence[Value]],
) -> list[Value]:
    """A loop as long as `holds(carry)`: `body(carry)` gives the next one."""
    before = builder.block
    head, inside, after = (builder.append_basic_block(name) for name in ("while", "do", "done"))
    builder.branch(head)
    builder.position_at_end(head)
    phis = [builder.phi(value.type) for value in carry]
    for phi, value in zip(phis, carry, strict=True):
        phi.add_incoming(value, before)
    builder.cbranch(holds(list(phis)), inside, after)
    builder.position_at_end(inside)
    following = body(list(phis))
    for phi, value in zip(phis, following, strict=True):
        phi.add_incoming(value, builder.block)
    builder.branch(head)
    builder.position_at_end(after)
    return list(phis)


def minimum(builder: Builder, a: Value, b: Value) -> Value:
    """The smaller of two signed integers."""
    return builder.select(builder.icmp_signed("<", a, b), a, b)


def choose(
    builder: Builder,
    condition: Value,
    yes: Callable[[], Sequence[Value]],
    no: Callable[[], Sequence[Value]],
) -> list[Value]:
    """The values of `yes` if the condition holds, else those of `no`, each in blocks of its own."""
    first, second, after = (builder.append_basic_block(name) for name in ("yes", "no", "join"))
    builder.cbranch(condition, first, second)
    edges = []
    for block, make in ((first, yes), (second, no)):
        builder.position_at_end(block)
        values = make()
        edges.append((values, builder.block))
        builder.branch(after)
    builder.position_at_end(after)
    phis = [builder.phi(value.type) for value in edges[0][0]]
    for values, block in edges:
        for phi, value in zip(phis, values, strict=True):
            phi.add_incoming(value, block)
    return list(phis)


FIRST_CACHE, SECOND_CACHE = 3, 2  # as `llvm.prefetch` counts them


def ask_for(b: Builder, place: Value, cache: int) -> None:
    """Begin to read a line of memory into a cache; where there is no memory, nothing happens."""
    read, data = integer(0, I32), integer(1, I32)
    b.intrinsic("llvm.prefetch.p0", ir.VoidType(), [place, read, integer(cache, I32), data])
