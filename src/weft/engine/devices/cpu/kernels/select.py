"""Selection: the place of one element of each row's ascending order, without putting the others in order.

Pointers: the elements, the places (int64, one a row). Arguments: rows, length, number, what nan does, whether the first
of equal elements is wanted, then the (row, element) strides of the elements. Among equal elements it is otherwise the
one that a stable sort has there.

A row that fits on the stack is kept there as keys, whose bits are found one after the other, the highest first: a bit
is set if no more keys than `number` are below what that makes. Bits that all keys share are passed over. Of a longer
row keys are counted by one byte after the other, those that begin with the bytes found so far.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from weft.engine.devices.cpu.kernels.kernel_base import Family, each
from weft.engine.devices.cpu.kernels.sort_keys import Keys
from weft.engine.devices.cpu.limits import LANES
from weft.engine.devices.cpu.llvm.builder import I1, I64, Value, choose, counted, integer, repeated
from weft.engine.devices.cpu.llvm.simd_value import I16
from weft.engine.devices.cpu.llvm.target import Target
from weft.ops.structure.ordering import NAN_IS_LARGEST, NAN_IS_LEFT_OUT

KEPT_LENGTH = 1 << 12  # elements of a row whose keys are kept on the stack
DIGIT_BITS = 8
NUMBERS = 1 << DIGIT_BITS
ELEMENTS_PER_GRAIN = 4096


def lower_selection(dtype: str, wide: bool, name: str, target: Target | None = None) -> str:
    """The LLVM module that selects from rows of one dtype."""
    family = Family(name, dtype, target, LANES)
    selection = _Selection(family, wide)
    each(family.builder, family.begin, family.end, selection.row)
    return family.finish()


def launch_selection(rows: int, length: int) -> tuple[int, int]:
    """Units, the grain at which they may be split."""
    return rows, max(1, ELEMENTS_PER_GRAIN // max(1, length))


class _Selection:
    """The lowering of one selection."""

    def __init__(self, family: Family, wide: bool) -> None:
        self.family = family
        self.builder = b = family.builder
        self.source, self.out = family.pointers(2)
        arguments = family.arguments(7)
        _, self.length, self.number, self.nan_rule, self.first = arguments[:5]
        self.source_row, self.step = arguments[5:]
        self.keys = Keys(family, wide, integer(0))
        self.bits = 8 * self.keys.size
        self.kept = b.alloca(ir.ArrayType(self.keys.vector, KEPT_LENGTH // LANES))
        self.counters = b.alloca(ir.ArrayType(I64, NUMBERS))
        self.buffer = b.alloca(self.keys.vector)

    def row(self, number: Value) -> None:
        """One row, in the way that suits its length."""
        b = self.builder
        self.elements = self.family.at(self.source, (number, self.source_row))
        self.place = b.gep(self.out, [b.mul(number, integer(8))])
        short = b.icmp_signed("<=", self.length, integer(KEPT_LENGTH))
        choose(b, short, self._from_kept, self._from_memory)

    def _read(self, index: Value) -> Value:
        return self.keys.read(self.elements, index, self.length, self.step)

    def _load(self, index: Value) -> Value:
        b = self.builder
        pointer = b.gep(self.kept, [b.mul(index, integer(self.keys.size))])
        return b.load(pointer, typ=self.keys.vector)

    def _is_inside(self, index: Value) -> Value:
        return self.keys.lanes_below(self.builder.sub(self.length, index))

    def _mask(self, lanes: Value) -> Value:
        """A mask as an integer, one bit for each lane."""
        return self.builder.bitcast(lanes, I16)

    def _count(self, test: Callable[[Value], Value]) -> Value:
        """The number of lanes that are set in the row, of the masks that an index gives."""
        b = self.builder

        def chunk(index: Value, carry: list[Value]) -> list[Value]:
            found = b.intrinsic("llvm.ctpop.i16", I16, [self._mask(test(index))])
            return [b.add(carry[0], b.zext(found, I64))]

        return counted(b, integer(0), self.length, LANES, [integer(0)], chunk)[0]

    def _wanted(self, read: Callable[[Value], Value]) -> Value:
        """The number of the element that is looked for, which may depend on how many are nan."""
        b, keys = self.builder, self.keys

        def counted_nan() -> list[Value]:
            def is_nan(index: Value) -> Value:
                last = b.icmp_unsigned("==", read(index), keys.last)
                return b.and_(last, self._is_inside(index))

            nan = self._count(is_nan)
            others = b.sub(self.length, nan)
            left_out = b.icmp_signed("==", self.nan_rule, integer(NAN_IS_LEFT_OUT))
            none = b.icmp_signed("==", nan, integer(0))
            some = b.icmp_signed(">", others, integer(0))
            middle = b.select(some, b.sdiv(b.sub(others, integer(1)), integer(2)), integer(0))
            first_nan = b.select(none, self.number, others)
            return [b.select(left_out, middle, first_nan)]

        as_it_is = b.icmp_signed("==", self.nan_rule, integer(NAN_IS_LARGEST))
        return choose(b, as_it_is, lambda: [self.number], counted_nan)[0]

    def _find(self, read: Callable[[Value], Value], key: Value, rank: Value) -> list[Value]:
        """Write the place of the element number `rank`, from 0, of those with a key."""
        b, keys = self.builder, self.keys
        wanted = b.select(b.icmp_signed("!=", self.first, integer(0)), integer(0), rank)
        keyed = keys.splat(key)

        def mask_at(index: Value) -> Value:
            return self._mask(
                b.and_(b.icmp_unsigned("==", read(index), keyed), self._is_inside(index))
            )

        def before(state: list[Value]) -> Value:
            found = b.intrinsic("llvm.ctpop.i16", I16, [mask_at(state[0])])
            return b.icmp_signed("<=", b.zext(found, I64), state[1])

        def skip(state: list[Value]) -> list[Value]:
            found = b.intrinsic("llvm.ctpop.i16", I16, [mask_at(state[0])])
            return [b.add(state[0], integer(LANES)), b.sub(state[1], b.zext(found, I64))]

        index, left = repeated(b, [integer(0), wanted], before, skip)

        def drop(_: Value, carry: list[Value]) -> list[Value]:
            return [b.and_(carry[0], b.sub(carry[0], Value(I16, "1")))]

        (mask,) = counted(b, integer(0), left, 1, [mask_at(index)], drop)
        lane = b.intrinsic("llvm.cttz.i16", I16, [mask, Value(I1, "true")])
        b.store(b.add(index, b.zext(lane, I64)), self.place)
        return []

    # Short rows: the key bit by bit

    def _from_kept(self) -> list[Value]:
        b, keys = self.builder, self.keys
        zero = Value(keys.vector, "zeroinitializer")
        first = b.extract_element(self._read(integer(0)), integer(0))
        every = keys.splat(first)

        def keep(index: Value, carry: list[Value]) -> list[Value]:
            found = self._read(index)
            b.store(found, b.gep(self.kept, [b.mul(index, integer(keys.size))]))
            differ = b.select(self._is_inside(index), b.xor(found, every), zero)
            return [b.or_(carry[0], differ)]

        (varied,) = counted(b, integer(0), self.length, LANES, [zero], keep)
        name = f"llvm.vector.reduce.or.v{LANES}i{self.bits}"
        varied = b.intrinsic(name, keys.element, [varied])
        number = self._wanted(self._load)
        shared = b.and_(first, b.xor(varied, self._key(-1)))

        def bit(turn: Value, state: list[Value]) -> list[Value]:
            shift = b.trunc(b.sub(integer(self.bits - 1), turn), keys.element)
            mask = b.shl(self._key(1), shift)

            def test() -> list[Value]:
                tried = b.or_(state[0], mask)
                keyed = keys.splat(tried)
                below = self._count(lambda i: b.icmp_unsigned("<", self._load(i), keyed))
                passed = b.icmp_signed("<=", below, number)
                return [b.select(passed, tried, state[0]), b.select(passed, below, state[1])]

            varies = b.icmp_unsigned("!=", b.and_(varied, mask), self._key(0))
            return choose(b, varies, test, lambda: state)

        start = [shared, integer(0)]
        key, below = counted(b, integer(0), integer(self.bits), 1, start, bit)
        return self._find(self._load, key, b.sub(number, below))

    def _key(self, number: int) -> Value:
        return Value(self.keys.element, str(number))

    # Long rows: the key byte by byte

    def _from_memory(self) -> list[Value]:
        b, keys = self.builder, self.keys
        number = self._wanted(self._read)

        def digit(turn: Value, state: list[Value]) -> list[Value]:
            key, below = state
            high = b.sub(integer(self.bits), b.mul(turn, integer(DIGIT_BITS)))
            shift = b.trunc(b.sub(high, integer(DIGIT_BITS)), keys.element)
            self._count_digits(key, shift)

            def passed(walk: list[Value]) -> Value:
                return b.icmp_signed("<=", b.add(walk[1], self._counted(walk[0])), number)

            def step(walk: list[Value]) -> list[Value]:
                return [b.add(walk[0], integer(1)), b.add(walk[1], self._counted(walk[0]))]

            found, below = repeated(b, [integer(0), below], passed, step)
            return [b.or_(key, b.shl(b.trunc(found, keys.element), shift)), below]

        start = [self._key(0), integer(0)]
        turns = integer(self.bits // DIGIT_BITS)
        key, below = counted(b, integer(0), turns, 1, start, digit)
        return self._find(self._read, key, b.sub(number, below))

    def _counter(self, digit: Value) -> Value:
        return self.builder.gep(self.counters, [self.builder.mul(digit, integer(8))])

    def _counted(self, digit: Value) -> Value:
        return self.builder.load(self._counter(digit), typ=I64)

    def _count_digits(self, prefix: Value, shift: Value) -> None:
        """Count the keys that agree with a prefix above a digit, by that digit."""
        b, keys = self.builder, self.keys
        each(b, integer(0), integer(NUMBERS), lambda i: b.store(integer(0), self._counter(i)))
        above = keys.splat(b.shl(self._key(-1 << DIGIT_BITS), shift))
        wanted = keys.splat(prefix)
        low, none = self._key(NUMBERS - 1), keys.splat(self._key(0))

        def chunk(index: Value, carry: list[Value]) -> list[Value]:
            found = self._read(index)
            agree = b.icmp_unsigned("==", b.and_(b.xor(found, wanted), above), none)
            b.store(found, self.buffer)

            def one(state: list[Value]) -> list[Value]:
                lane = b.intrinsic("llvm.cttz.i16", I16, [state[0], Value(I1, "true")])
                place = b.mul(b.zext(lane, I64), integer(keys.size))
                key = b.load(b.gep(self.buffer, [place]), typ=keys.element)
                counter = self._counter(b.zext(b.and_(b.lshr(key, shift), low), I64))
                b.store(b.add(b.load(counter, typ=I64), integer(1)), counter)
                return [b.and_(state[0], b.sub(state[0], Value(I16, "1")))]

            mask = self._mask(b.and_(agree, self._is_inside(index)))
            repeated(b, [mask], lambda state: b.icmp_signed("!=", state[0], Value(I16, "0")), one)
            return carry

        counted(b, integer(0), self.length, LANES, [], chunk)
