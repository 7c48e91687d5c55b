"""Reduction of huge arguments modulo pi/2, one float64 at a time, in 64-bit integer arithmetic.

x = M * 2**E with a 53-bit integer M.  Of the bits of 2/pi, those that 2**E raises to multiples of 4
drop out; the next 192, times M, leave the quadrant in two bits and the fraction of a quarter turn
in 190, of which cancellation takes at most about 62.
"""

from __future__ import annotations

from llvmlite import ir

from weft.engine.devices.cpu.elementary.expressions import SimdExpr, fma, intrinsic, with_element

# 64 zero bits, then 2/pi.
TWO_PER_PI_BITS = (
    0x0000000000000000, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041,
    0xFE5163ABDEBBC561, 0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E,
    0xE88235F52EBB4484, 0xE99C7026B45F7E41, 0x3991D639835339F4, 0x9C845F8BBDF9283B,
    0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7, 0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB,
)  # fmt: skip
HALF_PI = (float.fromhex("0x1.921fb54442d18p+0"), float.fromhex("0x1.1a62633145c07p-54"))
WORD, WIDE, REAL = ir.IntType(64), ir.IntType(128), ir.DoubleType()
RESULT = ir.LiteralStructType([WORD, REAL, REAL])


def bit_table(module: ir.Module) -> ir.GlobalVariable:
    name = "weft.two_per_pi"
    if name not in module.globals:
        values = ir.Constant(ir.ArrayType(WORD, len(TWO_PER_PI_BITS)), TWO_PER_PI_BITS)
        variable = ir.GlobalVariable(module, values.type, name)
        variable.initializer, variable.global_constant = values, True
        variable.linkage = "internal"
    return module.globals[name]


def window(builder: ir.IRBuilder, position: SimdExpr) -> list[SimdExpr]:
    """Three words of the table from bit `position` on."""
    table = bit_table(builder.module)
    first = position >> 6
    words = [
        builder.load(builder.gep(table, [WORD(0), (first + i).value], inbounds=True))
        for i in range(4)
    ]
    shift = (position & 63).value
    return [
        SimdExpr(builder, intrinsic(builder, "fshl", WORD, words[i], words[i + 1], shift))
        for i in range(3)
    ]


def wide(word: SimdExpr) -> SimdExpr:
    return SimdExpr(word.builder, word.builder.zext(word.value, WIDE))


def low_word(pair: SimdExpr) -> SimdExpr:
    return SimdExpr(pair.builder, pair.builder.trunc(pair.value, WORD))


def product(mantissa: SimdExpr, words: list[SimdExpr]) -> tuple[SimdExpr, SimdExpr, SimdExpr]:
    """mantissa * (192-bit number) modulo 2**192, highest word first."""
    factor = wide(mantissa)
    lowest = factor * wide(words[2])
    middle = (lowest >> 64) + factor * wide(words[1])
    highest = low_word(middle >> 64) + mantissa * words[0]
    return highest, low_word(middle), low_word(lowest)


def exact_double(bits: SimdExpr, exponent: SimdExpr) -> SimdExpr:
    """An integer below 2**53 times 2**exponent, a normal number or 0."""
    value = SimdExpr(bits.builder, bits.builder.uitofp(bits.value, REAL))
    return value * ((exponent + 1023) << 52).floats()


def signed_fraction(
    words: tuple[SimdExpr, SimdExpr, SimdExpr],
) -> tuple[SimdExpr, SimdExpr, SimdExpr]:
    """(sign mask, high, low) with |fraction of a quarter turn| = high + low, at most 1/2."""
    top, middle, lowest = words
    builder = top.builder
    shifted = [
        SimdExpr(builder, intrinsic(builder, "fshl", WORD, a.value, b.value, WORD(2)))
        for a, b in ((top, middle), (middle, lowest))
    ]
    sign = shifted[0].shift_signed(63)
    # Complement for negation: off by one unit of 2**-190.
    upper = (wide(shifted[0] ^ sign) << 64) | wide(shifted[1] ^ sign)
    zeros = intrinsic(builder, "ctlz", WIDE, upper.value, ir.IntType(1)(0))
    count = wide(low_word(SimdExpr(builder, zeros)) & 127)
    rest = wide((lowest << 2) ^ sign)
    spill = SimdExpr(builder, builder.shl(rest.value, count.value)) >> 64
    normal = SimdExpr(builder, builder.shl(upper.value, count.value)) | spill
    exponent = -low_word(count)
    high = exact_double(low_word(normal >> 75), exponent - 53)
    low = exact_double(low_word(normal >> 22) & ((1 << 53) - 1), exponent - 106)
    return sign, high, low


def build(function: ir.Function) -> None:
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    bits = SimdExpr(builder, function.args[0]).bits()
    mantissa = (bits & ((1 << 52) - 1)) | (1 << 52)
    exponent = ((bits >> 52) & 2047) - 1075
    # Lanes that are not huge, or not finite, come along; keep them inside the table.
    exponent = (exponent < -61).where(-61, (exponent > 971).where(971, exponent))
    words = product(mantissa, window(builder, exponent + 62))
    sign, high, low = signed_fraction(words)
    quadrant = (words[0] >> 62) + ((words[0] >> 61) & 1)
    # r = (high + low) * pi/2
    r = high * HALF_PI[0]
    rest = fma(high, HALF_PI[0], -r) + (high * HALF_PI[1] + low * HALF_PI[0])
    total = r + rest
    rest = rest - (total - r)
    negative = bits.shift_signed(63)
    flip = (sign ^ negative) & (-1 << 63)
    quadrant = (quadrant ^ negative) - negative
    parts = (quadrant, (total.bits() ^ flip).floats(), (rest.bits() ^ flip).floats())
    result = ir.Constant(RESULT, ir.Undefined)
    for i, part in enumerate(parts):
        result = builder.insert_value(result, part.value, i)
    builder.ret(result)


def reduction(module: ir.Module) -> ir.Function:
    """The module's own {i64, double, double} reduce(double)."""
    name = "weft.reduce_huge"
    if name not in module.globals:
        function = ir.Function(module, ir.FunctionType(RESULT, [REAL]), name)
        function.linkage = "internal"
        function.attributes.add("nounwind")
        build(function)
    return module.globals[name]


def reduce_lanes(x: SimdExpr) -> tuple[SimdExpr, SimdExpr, SimdExpr]:
    """(quadrant, high, low) of every lane."""
    builder = x.builder
    function = reduction(builder.module)
    if not isinstance(x.type, ir.VectorType):
        answer = builder.call(function, [x.value])
        parts = [builder.extract_value(answer, i) for i in range(3)]
        return SimdExpr(builder, parts[0]), SimdExpr(builder, parts[1]), SimdExpr(builder, parts[2])
    whole = with_element(x.type, WORD)
    results = [ir.Constant(kind, ir.Undefined) for kind in (whole, x.type, x.type)]
    for lane in range(x.type.count):
        where = ir.IntType(32)(lane)
        answer = builder.call(function, [builder.extract_element(x.value, where)])
        for i in range(3):
            part = builder.extract_value(answer, i)
            results[i] = builder.insert_element(results[i], part, where)
    return (
        SimdExpr(builder, results[0]),
        SimdExpr(builder, results[1]),
        SimdExpr(builder, results[2]),
    )
