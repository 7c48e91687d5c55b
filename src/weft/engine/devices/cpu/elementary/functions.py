"""Elementary functions as internal functions of a module, and values that are computed only where a lane wants them."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from weft.engine.devices.cpu.elementary.expressions import SimdExpr, constant, suffix

InDouble = Callable[[SimdExpr, bool], SimdExpr]  # of a float64 argument; True if float32 is wanted


def called(name: str, x: SimdExpr, value: InDouble) -> SimdExpr:
    """A call of the module's own `name`, a function that is computed in float64."""

    def build(function: ir.Function) -> None:
        given = SimdExpr(ir.IRBuilder(function.append_basic_block("entry")), function.args[0])
        wide = given.widened() if given.single else given
        result = value(wide, given.single)
        given.builder.ret((result.narrowed() if given.single else result).value)

    return call_of_own(name, x, build)


def call_of_own(name: str, x: SimdExpr, build: Callable[[ir.Function], None]) -> SimdExpr:
    """A call of the module's own `name`, which `build` fills on its first use."""
    full = f"weft.{name}.{suffix(x.type)}"
    function = x.builder.module.globals.get(full)
    if function is None:
        function = ir.Function(x.builder.module, ir.FunctionType(x.type, [x.type]), full)
        function.linkage = "internal"
        function.attributes.add("nounwind")
        build(function)
    return SimdExpr(x.builder, x.builder.call(function, [x.value]))


def any_lane(builder: ir.IRBuilder, mask: SimdExpr) -> ir.Value:
    """True if the mask is set in a lane."""
    if not isinstance(mask.type, ir.VectorType):
        return mask.value
    packed = ir.IntType(mask.type.count)
    return builder.icmp_unsigned("!=", builder.bitcast(mask.value, packed), packed(0))


def either(mask: SimdExpr, yes: Callable[[], SimdExpr], no: Callable[[], SimdExpr]) -> SimdExpr:
    """`yes()` where the mask is set, `no()` elsewhere; what no lane wants is not computed."""
    inverse = SimdExpr(mask.builder, mask.builder.not_(mask.value))
    return mask.where(_if_any(mask, yes), _if_any(inverse, no))


def _if_any(mask: SimdExpr, value: Callable[[], SimdExpr]) -> SimdExpr:
    """A value, or zeros where the mask is set in no lane."""
    builder = mask.builder
    start, inside, after = (
        builder.block,
        builder.append_basic_block("wanted"),
        builder.append_basic_block("known"),
    )
    builder.cbranch(any_lane(builder, mask), inside, after)
    builder.position_at_end(inside)
    found = value()
    end = builder.block
    builder.branch(after)
    builder.position_at_end(after)
    phi = builder.phi(found.type)
    phi.add_incoming(constant(found.type, 0.0), start)
    phi.add_incoming(found.value, end)
    return SimdExpr(builder, phi)
