"""Stable sorts of rows (argsort, top-k): the first `kept` positions of the elements in order.

Pointers: the elements, the positions (int64, rows of `kept`), scratch. Arguments: rows, length, kept, the (row,
element) strides of the elements, all ones for a descending order or else 0, the passes [first, end) of this launch,
and the bytes of a row's scratch.

A short row is counted: an element's position is the number of elements before it. Few positions of a longer row come
from a list of the best so far. Otherwise pairs of a key and its position are sorted by one digit of their keys after
the other, the least one first (radix sort); digits that all keys share are skipped. Rows that fit are on the stack;
longer ones are in scratch: the digits that vary, which half the pairs are in, then two halves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from weft.engine.devices.cpu.kernels.kernel_base import Family, each
from weft.engine.devices.cpu.kernels.sort_keys import Keys
from weft.engine.devices.cpu.limits import LANES
from weft.engine.devices.cpu.llvm.builder import I64, Value, choose, counted, integer, repeated
from weft.engine.devices.cpu.llvm.simd_value import I16
from weft.engine.devices.cpu.llvm.target import Target
from weft.engine.kernels.loop_ir import SIZES

COUNTED_LENGTH = 64  # elements of a row that is sorted by counting
FEW = (
    64  # places that are looked for in a list of the best, where rows are longer than their square
)
DIGIT_BITS = 8
NUMBERS = 1 << DIGIT_BITS
STACK_BYTES = 1 << 17  # bytes of pairs that a row may have on the stack
HEADER_BYTES = 64  # bytes of a row's scratch before its pairs
SEGMENT = 1 << 20  # elements of a row whose passes are launches of their own
ELEMENTS_PER_GRAIN = 4096


def is_wide(dtype: str, length: int) -> bool:
    """True if keys and positions have 64 bits."""
    return SIZES[dtype] == 8 or length >= 1 << 32


def lower_order(dtype: str, wide: bool, name: str, target: Target | None = None) -> str:
    """The LLVM module that orders rows of one dtype."""
    family = Family(name, dtype, target, LANES)
    order = _Order(family, wide)
    each(family.builder, family.begin, family.end, order.row)
    return family.finish()


def launch_order(
    dtype: str, rows: int, length: int, kept: int
) -> tuple[int, int, int, list[tuple[int, int]]]:
    """Units, the grain at which they may be split, bytes of scratch for a row, and the passes of each launch."""
    wide = is_wide(dtype, length)
    passes = 8 if wide else 4
    pairs = length * (16 if wide else 8)
    counted_or_listed = length <= COUNTED_LENGTH or (kept <= FEW and kept * kept <= length)
    scratch = 0 if counted_or_listed or 2 * pairs <= STACK_BYTES else HEADER_BYTES + 2 * pairs
    apart = scratch > 0 and length > SEGMENT
    launches = [(i, i + 1) for i in range(passes)] if apart else [(0, passes)]
    return rows, max(1, ELEMENTS_PER_GRAIN // max(1, length)), scratch, launches


class _Order:
    """The lowering of one order."""

    def __init__(self, family: Family, wide: bool) -> None:
        self.family = family
        self.builder = b = family.builder
        self.source, self.out, self.scratch = family.pointers(3)
        arguments = family.arguments(9)
        _, self.length, self.kept, self.source_row, self.step, flip = arguments[:6]
        self.first, self.end, self.scratch_row = arguments[6:]
        self.keys = Keys(family, wide, flip)
        self.passes = 8 if wide else 4
        self.pair = ir.VectorType(self.keys.element, 2)
        self.pair_size = 2 * self.keys.size
        room = ir.ArrayType(I64, STACK_BYTES // 8)
        self.stack = b.alloca(room)
        self.counters = b.alloca(ir.ArrayType(I64, NUMBERS))
        self.header = b.alloca(ir.ArrayType(I64, HEADER_BYTES // 8))

    def row(self, number: Value) -> None:
        """One row, in the way that suits it."""
        b = self.builder
        self.elements = self.family.at(self.source, (number, self.source_row))
        self.places = self._at(self.out, b.mul(number, self.kept), 8)
        few = b.icmp_signed("<=", self.kept, integer(FEW))
        long = b.icmp_signed("<=", b.mul(self.kept, self.kept), self.length)

        def longer() -> list[Value]:
            return choose(b, b.and_(few, long), self._listed, lambda: self._sorted(number))

        short = b.icmp_signed("<=", self.length, integer(COUNTED_LENGTH))
        choose(b, short, self._counted, longer)

    def _at(self, pointer: Value, index: Value, size: int) -> Value:
        return self.builder.gep(pointer, [self.builder.mul(index, integer(size))])

    def _read(self, index: Value) -> Value:
        return self.keys.read(self.elements, index, self.length, self.step)

    def _mask(self, lanes: Value) -> Value:
        """A mask as an integer, one bit for each lane."""
        return self.builder.bitcast(lanes, I16)

    # Short rows: how many elements come before each

    def _counted(self) -> list[Value]:
        b, keys = self.builder, self.keys

        def keep(index: Value, carry: Sequence[Value]) -> Sequence[Value]:
            b.store(self._read(index), self._at(self.stack, index, keys.size))
            return carry

        counted(b, integer(0), self.length, LANES, [], keep)

        def place(index: Value) -> None:
            key = keys.splat(b.load(self._at(self.stack, index, keys.size), typ=keys.element))

            def count(start: Value, carry: list[Value]) -> list[Value]:
                others = b.load(self._at(self.stack, start, keys.size), typ=keys.vector)
                equal = b.and_(
                    b.icmp_unsigned("==", others, key), keys.lanes_below(b.sub(index, start))
                )
                before = self._mask(b.or_(b.icmp_unsigned("<", others, key), equal))
                found = b.intrinsic("llvm.ctpop.i16", I16, [before])
                return [b.add(carry[0], b.zext(found, I64))]

            where = counted(b, integer(0), self.length, LANES, [integer(0)], count)[0]
            self._when(
                b.icmp_signed("<", where, self.kept),
                lambda: b.store(index, self._at(self.places, where, 8)),
            )

        each(b, integer(0), self.length, place)
        return []

    def _when(self, condition: Value, act: Callable[[], object]) -> None:
        def acting() -> list[Value]:
            act()
            return []

        choose(self.builder, condition, acting, list)

    # Few places: a list of the best, in order, behind a key that nothing comes before

    def _listed(self) -> list[Value]:
        b, keys = self.builder, self.keys
        unset = Value(self.pair, f"splat ({keys.element} -1)")
        b.store(Value(self.pair, "zeroinitializer"), self.stack)
        each(b, integer(1), b.add(self.kept, integer(1)), lambda i: b.store(unset, self._slot(i)))

        def better(chunk: Value, bound: Value) -> Value:
            return b.icmp_unsigned("<", chunk, keys.splat(bound))

        bound = Value(keys.element, "-1")
        self._visit(better, self._insert, bound)
        filled = self._place_of(self._slot(self.kept))
        self._when(b.icmp_signed("==", filled, Value(keys.element, "-1")), self._append_largest)
        each(b, integer(0), self.kept, self._give)
        return []

    def _slot(self, number: Value) -> Value:
        """The pair of the list with a number, from 1 on."""
        return self._at(self.stack, number, self.pair_size)

    def _key_of(self, pointer: Value) -> Value:
        return self.builder.load(pointer, typ=self.keys.element)

    def _place_of(self, pointer: Value) -> Value:
        b = self.builder
        return b.load(b.gep(pointer, [integer(self.keys.size)]), typ=self.keys.element)

    def _write(self, key: Value, place: Value, pointer: Value) -> None:
        b = self.builder
        b.store(key, pointer)
        b.store(place, b.gep(pointer, [integer(self.keys.size)]))

    def _give(self, index: Value) -> None:
        """A place of the list to the output."""
        b = self.builder
        place = self._place_of(self._slot(b.add(index, integer(1))))
        b.store(b.zext(place, I64), self._at(self.places, index, 8))

    def _visit(
        self,
        wanted: Callable[[Value, Value], Value],
        take: Callable[[Value, Value, Value], Value],
        start: Value,
    ) -> None:
        """`take(key, place, carry)` gives the next carry, for each element that `wanted(keys, carry)` names."""
        b, keys = self.builder, self.keys
        buffer = b.alloca(keys.vector)

        def chunk(index: Value, carry: list[Value]) -> list[Value]:
            found = self._read(index)
            inside = keys.lanes_below(b.sub(self.length, index))
            mask = self._mask(b.and_(inside, wanted(found, carry[0])))

            def some() -> list[Value]:
                b.store(found, buffer)

                def one(state: list[Value]) -> list[Value]:
                    lane = b.zext(
                        b.intrinsic("llvm.cttz.i16", I16, [state[0], Value(ir.IntType(1), "true")]),
                        I64,
                    )
                    key = self._key_of(self._at(buffer, lane, keys.size))
                    place = b.trunc(b.add(index, lane), keys.element)
                    rest = b.and_(state[0], b.sub(state[0], Value(I16, "1")))
                    return [rest, take(key, place, state[1])]

                zero = Value(I16, "0")
                return repeated(
                    b, [mask, carry[0]], lambda state: b.icmp_signed("!=", state[0], zero), one
                )[1:]

            empty = b.icmp_signed("==", mask, Value(I16, "0"))
            return choose(b, empty, lambda: carry, some)

        counted(b, integer(0), self.length, LANES, [start], chunk)

    def _insert(self, key: Value, place: Value, bound: Value) -> Value:
        """Into the list, if it is still better than the last of it, which is the next bound."""
        b = self.builder

        def before(number: Value) -> Value:
            return self._slot(b.sub(number, integer(1)))

        def insert() -> list[Value]:
            def follows(state: list[Value]) -> Value:
                return b.icmp_unsigned(">", self._key_of(before(state[0])), key)

            def move(state: list[Value]) -> list[Value]:
                b.store(b.load(before(state[0]), typ=self.pair), self._slot(state[0]))
                return [b.sub(state[0], integer(1))]

            (where,) = repeated(b, [self.kept], follows, move)
            self._write(key, place, self._slot(where))
            return [self._key_of(self._slot(self.kept))]

        return choose(b, b.icmp_unsigned("<", key, bound), insert, lambda: [bound])[0]

    def _append_largest(self) -> None:
        """The largest keys, which are better than no bound, behind the others of the list."""
        b, keys = self.builder, self.keys
        unset = Value(keys.element, "-1")

        def filled(state: list[Value]) -> Value:
            return b.icmp_signed("!=", self._place_of(self._slot(state[0])), unset)

        (start,) = repeated(b, [integer(1)], filled, lambda s: [b.add(s[0], integer(1))])

        def append(key: Value, place: Value, slot: Value) -> Value:
            self._when(
                b.icmp_signed("<=", slot, self.kept),
                lambda: self._write(key, place, self._slot(slot)),
            )
            return b.add(slot, integer(1))

        self._visit(lambda chunk, _: b.icmp_unsigned("==", chunk, keys.last), append, start)

    # Long rows: digit by digit

    def _sorted(self, number: Value) -> list[Value]:
        b = self.builder
        size = b.mul(self.length, integer(self.pair_size))
        inside = b.icmp_signed("==", self.scratch_row, integer(0))
        mine = b.gep(self.scratch, [b.mul(number, self.scratch_row)])
        header = b.select(inside, self.header, mine)
        self.halves = [b.select(inside, self.stack, b.gep(mine, [integer(HEADER_BYTES)]))]
        self.halves.append(b.gep(self.halves[0], [size]))
        fresh = b.icmp_signed("==", self.first, integer(0))
        varied = b.gep(header, [integer(8)])

        def start() -> list[Value]:
            b.store(self._make_pairs(), varied)
            return [integer(0)]

        state = choose(b, fresh, start, lambda: [b.load(header, typ=I64)])
        digits = b.load(varied, typ=I64)

        def step(turn: Value, state: list[Value]) -> list[Value]:
            shift = b.mul(turn, integer(DIGIT_BITS))
            digit = b.and_(b.lshr(digits, shift), integer(NUMBERS - 1))

            def go() -> list[Value]:
                self._pass(b.trunc(shift, self.keys.element), *self._turned(state[0]))
                return [b.xor(state[0], integer(1))]

            same = b.icmp_signed("==", digit, integer(0))
            return choose(b, same, lambda: state, go)

        (half,) = counted(b, self.first, self.end, 1, state, step)
        b.store(half, header)
        done = b.icmp_signed("==", self.end, integer(self.passes))
        self._when(done, lambda: self._give_all(self._turned(half)[0]))
        return []

    def _turned(self, half: Value) -> tuple[Value, Value]:
        """The half that the pairs are in, and the other one."""
        b = self.builder
        other = b.icmp_signed("!=", half, integer(0))
        first, second = self.halves
        return b.select(other, second, first), b.select(other, first, second)

    def _make_pairs(self) -> Value:
        """Pairs into the first half; the bits in which keys differ."""
        b, keys = self.builder, self.keys
        zero = Value(keys.vector, "zeroinitializer")
        first = keys.splat(b.extract_element(self._read(integer(0)), integer(0)))

        def chunk(index: Value, carry: list[Value]) -> list[Value]:
            found = self._read(index)
            inside = keys.lanes_below(b.sub(self.length, index))
            differ = b.select(inside, b.xor(found, first), zero)
            places = b.add(keys.splat(b.trunc(index, keys.element)), self._numbers())
            pairs = [lane for i in range(LANES) for lane in (i, i + LANES)]
            b.store(
                b.shuffle(found, places, pairs), self._at(self.halves[0], index, self.pair_size)
            )
            return [b.or_(carry[0], differ)]

        whole = b.and_(self.length, integer(-LANES))
        (differ,) = counted(b, integer(0), whole, LANES, [zero], chunk)
        differ = self._last_pairs(whole, first, differ)
        name = f"llvm.vector.reduce.or.v{LANES}i{8 * keys.size}"
        return b.zext(b.intrinsic(name, keys.element, [differ]), I64)

    def _last_pairs(self, start: Value, first: Value, differ: Value) -> Value:
        """The pairs behind the last whole chunk."""
        b, keys = self.builder, self.keys
        buffer = b.alloca(keys.vector)
        rest = b.sub(self.length, start)

        def some() -> list[Value]:
            found = self._read(start)
            b.store(found, buffer)

            def pair(lane: Value) -> None:
                index = b.add(start, lane)
                self._write(
                    self._key_of(self._at(buffer, lane, keys.size)),
                    b.trunc(index, keys.element),
                    self._at(self.halves[0], index, self.pair_size),
                )

            each(b, integer(0), rest, pair)
            zero = Value(keys.vector, "zeroinitializer")
            return [b.or_(differ, b.select(keys.lanes_below(rest), b.xor(found, first), zero))]

        return choose(b, b.icmp_signed("==", rest, integer(0)), lambda: [differ], some)[0]

    def _numbers(self) -> Value:
        element = self.keys.element
        return Value(self.keys.vector, f"<{', '.join(f'{element} {i}' for i in range(LANES))}>")

    def _pass(self, shift: Value, source: Value, target: Value) -> None:
        """Pairs in the order of one digit; equal ones stay in theirs."""
        b = self.builder
        low = Value(self.keys.element, str(NUMBERS - 1))

        def counter(key: Value) -> Value:
            digit = b.zext(b.and_(b.lshr(key, shift), low), I64)
            return self._at(self.counters, digit, 8)

        zeros = Value(ir.VectorType(I64, 8), "zeroinitializer")
        for start in range(0, NUMBERS, 8):
            b.store(zeros, b.gep(self.counters, [integer(8 * start)]))

        def count(index: Value) -> None:
            cell = counter(self._key_of(self._at(source, index, self.pair_size)))
            b.store(b.add(b.load(cell, typ=I64), integer(1)), cell)

        each(b, integer(0), self.length, count)

        def begin(index: Value, carry: list[Value]) -> list[Value]:
            cell = self._at(self.counters, index, 8)
            found = b.load(cell, typ=I64)
            b.store(carry[0], cell)
            return [b.add(carry[0], found)]

        counted(b, integer(0), integer(NUMBERS), 1, [integer(0)], begin)

        def move(index: Value) -> None:
            pair = b.load(self._at(source, index, self.pair_size), typ=self.pair)
            cell = counter(b.extract_element(pair, integer(0)))
            where = b.load(cell, typ=I64)
            b.store(pair, self._at(target, where, self.pair_size))
            b.store(b.add(where, integer(1)), cell)

        each(b, integer(0), self.length, move)

    def _give_all(self, pairs: Value) -> None:
        """The places of the first pairs to the output."""
        b = self.builder

        def give(index: Value) -> None:
            place = self._place_of(self._at(pairs, index, self.pair_size))
            b.store(b.zext(place, I64), self._at(self.places, index, 8))

        each(b, integer(0), self.kept, give)
