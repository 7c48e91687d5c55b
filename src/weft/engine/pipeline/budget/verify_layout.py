"""The verifier of layouts: it takes a lowered program with its layout, goes through the actions, and notes which value
was written to which bytes last. It raises VerificationError where an action reads others, and where a result is
written to what the same step reads but for affinities, or in a phase of a row kernel before others read that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.engine.pipeline.budget.coalesce import regions_of
from weft.engine.pipeline.budget.schedule import RUN
from weft.engine.pipeline.budget.step_graph import kernels_by_step
from weft.engine.pipeline.lowering.spec_table import key_of
from weft.errors import VerificationError

if TYPE_CHECKING:
    from weft.engine.pipeline.budget.layout import ArenaLayout
    from weft.engine.pipeline.budget.schedule import Affinity, Instance
    from weft.engine.pipeline.launch_ir import Launch, Lowering

Bytes = tuple[int, int, int]  # host, first byte, end


def verify(lowering: Lowering) -> None:
    """Check what each action reads and writes. Errors: VerificationError."""
    layout = lowering.layout
    if layout is None:
        return
    if not layout.schedule.valid:
        raise VerificationError("constrain", expected="steps that may run again", got="others")
    ranges: dict[tuple[int, int], list[tuple[int, int]]] = {}
    by_step = kernels_by_step(lowering, layout.graph.positions)
    for slot, reads in regions_of(lowering.program, by_step).items():
        for step, _, begin, end in reads:
            ranges.setdefault((step, slot), []).append((begin, end))
    used: list[list[Instance]] = [[] for _ in layout.schedule.actions]
    for _, instance in layout.slots:
        for action in dict.fromkeys(instance.uses):
            used[action].append(instance)
    memory = _Memory(layout)
    memory.check_row_kernels(layout.launches)
    for action, (kind, number) in enumerate(layout.schedule.actions):
        read: list[tuple[Bytes, Instance]] = []
        for one in used[action]:
            if one.first < action:
                whole = [(0, layout.graph.sizes[one.slot])]
                parts = ranges.get((number, one.slot), whole) if kind == RUN else whole
                read += [(memory.span(one, begin, end), one) for begin, end in parts]
        memory.check_read(read)
        affinities = layout.graph.affinities[number] if kind == RUN else []
        memory.run(read, [one for one in used[action] if one.first == action], affinities)


class _Memory:
    """The values that have written bytes last; several where they are copies."""

    def __init__(self, layout: ArenaLayout) -> None:
        base = layout.graph.outside
        self._sizes = layout.graph.sizes
        self._places = {
            one: (layout.hosts[own - base], layout.offsets[own - base]) for own, one in layout.slots
        }
        self._slots = {own: self._places[one] for own, one in layout.slots}
        self._written: list[tuple[Bytes, frozenset[Instance]]] = []

    def span(self, one: Instance, begin: int, end: int) -> Bytes:
        """Bytes of a value."""
        host, offset = self._places[one]
        return host, offset + begin, offset + end

    def check_read(self, read: list[tuple[Bytes, Instance]]) -> None:
        """These bytes are what their values have written."""
        for span, one in read:
            for other, whose in self._written:
                if _meet(span, other) and one not in whose:
                    raise _not_apart(span, other)

    def check_row_kernels(self, launches: list[Launch]) -> None:
        """Check the phases of all launches."""
        for launch in launches:
            for each in launch.members or (launch,):
                self.check_phases(each)

    def check_phases(self, launch: Launch) -> None:
        """No phase of a row kernel reads what one before it has written: their pointers come phase by phase, those to
        operands before those to results."""
        key = key_of(launch.spec)
        if key is None or key[0] != "rows":
            return
        from weft.engine.pipeline.lowering.kernel_decoder import row_kernel_of

        pointers = iter(launch.pointers)
        written: set[tuple[int, int]] = set()
        for phase in row_kernel_of(key).phases:
            operands = [one for one in phase.operands if one.local < 0 and not one.virtual]
            stores = [one for one in phase.stores if one.local < 0]
            read = [self._address(*next(pointers)) for _ in operands]
            for address in written.intersection(read):
                raise _not_apart((address[0], address[1], address[1]), (*address, address[1]))
            written.update(self._address(*next(pointers)) for _ in stores)

    def _address(self, slot: int, offset: int) -> tuple[int, int]:
        """The block that bytes lie in (one of its own has its slot's number), and where they begin."""
        host, begin = self._slots.get(slot, (slot, 0))
        return host, begin + offset

    def run(
        self, read: list[tuple[Bytes, Instance]], made: list[Instance], affinities: list[Affinity]
    ) -> None:
        """A step reads, and writes what it makes."""
        for one in made:
            shifts = {
                affinity.ending: affinity.shift
                for affinity in affinities
                if affinity.made == one.slot
            }
            self.check_written(one, read, shifts)
        for one in made:
            copied = {
                affinity.ending
                for affinity in affinities
                if affinity.made == one.slot and affinity.is_copy
            }
            self.write(one, [other for _, other in read if other.slot in copied])

    def check_written(
        self, one: Instance, read: list[tuple[Bytes, Instance]], shifts: dict[int, int]
    ) -> None:
        """A result is apart from what its step reads, but for what it is joined with, so far behind its begin."""
        written = self.span(one, 0, self._sizes[one.slot])
        for span, other in read:
            begin = self._places[other][1]
            if _meet(span, written) and written[1] - begin != shifts.get(other.slot):
                raise _not_apart(span, written)

    def write(self, one: Instance, copied: list[Instance]) -> None:
        """A result takes its bytes from what was there, and shares those that are copies of it."""
        new = self.span(one, 0, self._sizes[one.slot])
        shared = [self.span(other, 0, self._sizes[other.slot]) for other in copied]
        left = []
        for (host, begin, end), whose in self._written:
            if not _meet((host, begin, end), new):
                left.append(((host, begin, end), whose))
                continue
            if begin < new[1]:
                left.append(((host, begin, new[1]), whose))
            if new[2] < end:
                left.append(((host, new[2], end), whose))
            for span in shared:
                if _meet((host, begin, end), span):
                    both = host, max(begin, span[1], new[1]), min(end, span[2], new[2])
                    left.append((both, whose | {one}))
        taken = sorted(span for span, whose in left if one in whose)
        begin = new[1]
        for _, first, last in [*taken, (new[0], new[2], new[2])]:
            if begin < first:
                left.append(((new[0], begin, first), frozenset([one])))
            begin = last
        self._written = left


def _meet(one: Bytes, other: Bytes) -> bool:
    return one[0] == other[0] and one[1] < other[2] and other[1] < one[2]


def _not_apart(one: Bytes, other: Bytes) -> VerificationError:
    return VerificationError(
        "constrain",
        expected="a value's bytes where they are read",
        got=f"others in {max(one[1], other[1])} to {min(one[2], other[2])} of block {one[0]}",
    )
