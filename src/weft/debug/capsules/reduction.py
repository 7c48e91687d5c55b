"""Reduction of a capsule to the smallest graph that still fails: delta debugging over its operations.

A capsule fails where a result is not finite, where running it raises, or where its bits are not those of the file. The
operations around the fault are cut away: what they gave becomes a value from outside, computed one by one, and after
each cut the rest must fail in the same way (ddmin, Zeller and Hildebrandt, TSE 2002).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from weft.debug.capsules.capsule import Capsule, CapsuleReplay
from weft.debug.capsules.records import VALUE, CapsuleRecord, ScalarOperand, digest_of
from weft.engine.runtime.array_pieces import is_finite
from weft.errors import ArgumentError

if TYPE_CHECKING:
    from weft._typing import Array

FAULTS = ("error", "differs", "nan")


def reduce_capsule(capsule: Capsule, fault: str | None = None) -> Capsule:
    """The smallest capsule found that fails as the given one: in the same result, in the same way.

    Args:
        capsule: what `load_capsule` gave.
        fault: "error", "differs" or "nan" (a result that is not finite); None: the first of these that there is.

    Errors: ValueError where it does not fail. Cost: each try runs what is left; the operations are also run one by
    one.
    """
    if fault is not None and fault not in FAULTS:
        raise ArgumentError(
            f"reduce_capsule: no fault {fault!r}", expected=f"one of {FAULTS}", got=repr(fault)
        )
    found = find_fault(capsule, [fault] if fault else FAULTS)
    if found is None:
        raise ArgumentError(
            "reduce_capsule: the capsule does not fail here",
            expected="a result that is not finite, that raises, or that has other bits than in the file",
            got=repr(capsule),
            fix="capture the step that fails; a call that is refused before it is recorded is in no capsule",
        )
    return _Reduction(capsule, *found).smallest()


def find_fault(capsule: Capsule, faults: Collection[str] = FAULTS) -> tuple[str, int] | None:
    """(fault, number of the earliest record that shows it); None where there is none."""
    run = CapsuleReplay(capsule)
    held = capsule.held()
    failures = run.run(held)
    for fault in faults:
        if fault == "error":
            shown = list(failures)
        elif fault == "differs":
            records = capsule.records
            ready = [n for n in held if n not in failures]
            shown = [n for n in ready if digest_of(run.array(n)) != records[n].digest]
        else:
            ready = [n for n in held if n not in failures and not is_finite(run.array(n))]
            shown = [first_not_finite(capsule, min(ready))] if ready else []
        if shown:
            return fault, min(shown)
    return None


def first_not_finite(capsule: Capsule, number: int) -> int:
    """The earliest record below one that is not finite: nothing that it reads has a nan or an infinity."""
    run = CapsuleReplay(capsule)
    state = {n: is_finite(run.array(n)) for n in run.needed([number])}
    bad = [n for n, finite in state.items() if not finite]
    operations = [n for n in bad if capsule.records[n].op != VALUE]
    made = [n for n in operations if all(state[s] for s in capsule.records[n].sources())]
    return min(made or operations or bad)


class _Reduction:
    """The search for a smaller set of operations that shows a fault in one record."""

    def __init__(self, capsule: Capsule, fault: str, root: int) -> None:
        self.capsule, self.fault, self.root = capsule, fault, root
        self.apart = CapsuleReplay(capsule)
        self.wanted = self.kind_of_error(set(self.apart.needed([root])))

    def value(self, number: int) -> Array:
        """A value computed by itself, which stands for the operation where that is cut away."""
        if number in self.capsule.arrays:
            array: Array = self.capsule.arrays[number]
            return array
        return self.apart.array(number)

    def smallest(self) -> Capsule:
        operations = [
            n for n in CapsuleReplay(self.capsule).needed([self.root]) if self.is_operation(n)
        ]
        kept = ddmin(operations, self.fails)
        return self.made_of(set(kept))

    def is_operation(self, number: int) -> bool:
        return self.capsule.records[number].op != VALUE

    def fails(self, kept: Collection[int]) -> bool:
        """True if the root shows the fault where only some operations are run together."""
        if self.root not in kept:
            return False
        try:
            run = self.replay(set(kept))
        except Exception:  # what is cut away cannot be computed: it is a part of the fault
            return False
        failures = run.run([self.root])
        if self.fault == "error":
            error = failures.get(self.root)
            return error is not None and type(error).__name__ == self.wanted
        if failures:
            return False
        array = run.array(self.root)
        if self.fault == "nan":
            return not is_finite(array)
        return digest_of(array) != self.capsule.records[self.root].digest

    def kind_of_error(self, kept: set[int]) -> str:
        """The name of the exception that the root raises, empty where it raises none."""
        error = self.replay(kept).run([self.root]).get(self.root)
        return "" if error is None else type(error).__name__

    def replay(self, kept: set[int]) -> CapsuleReplay:
        """A replay of some operations, on values of the others."""
        given = {n: self.value(n) for n in self.border(kept)}
        return CapsuleReplay(self.capsule, given)

    def border(self, kept: set[int]) -> list[int]:
        """The records that kept ones read and that are not kept themselves."""
        records = self.capsule.records
        read = {source for number in kept for source in records[number].sources()}
        return sorted(n for n in read if n not in kept and n not in self.capsule.arrays)

    def made_of(self, kept: set[int]) -> Capsule:
        """A capsule of some operations."""
        records = self.capsule.records
        needed = sorted({*kept, *(s for n in kept for s in records[n].sources())})
        numbers = {number: place for place, number in enumerate(needed)}
        arrays: dict[int, Any] = {}
        made: list[CapsuleRecord] = []
        for number in needed:
            record = records[number]
            if number not in kept or record.op == VALUE:
                arrays[numbers[number]] = self.value(number)
                record = replace(record, op=VALUE, inputs=(), params=None, edges=None, terms=None)
                record = replace(record, digest="", gradient="", error="")
            made.append(_renumbered(record, numbers))
        place = numbers[self.root]
        if not made[place].digest and self.fault == "nan":
            made[place] = replace(made[place], digest=digest_of(self.value(self.root)))
        made = [r if n == place else replace(r, digest="", error="") for n, r in enumerate(made)]
        return Capsule(made, arrays, self.capsule.random_state, self.capsule.error)


def _renumbered(record: CapsuleRecord, numbers: dict[int, int]) -> CapsuleRecord:
    inputs = tuple(s if isinstance(s, ScalarOperand) else numbers[s] for s in record.inputs)
    edges = record.edges and tuple(None if e is None else numbers.get(e) for e in record.edges)
    return replace(record, inputs=inputs, edges=edges)


def ddmin(items: list[int], fails: Callable[[Collection[int]], bool]) -> list[int]:
    """A subset that fails and of which no single item can be left out (the algorithm ddmin)."""
    pieces = 2
    while len(items) >= 2:
        size = -(-len(items) // pieces)
        parts = [items[start : start + size] for start in range(0, len(items), size)]
        for part in parts:
            rest = [item for item in items if item not in set(part)]
            if fails(part):
                items, pieces = part, 2
                break
            if len(parts) > 2 and fails(rest):
                items, pieces = rest, max(pieces - 1, 2)
                break
        else:
            if pieces >= len(items):
                break
            pieces = min(2 * pieces, len(items))
    return items
