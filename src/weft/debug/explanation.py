"""`weft.explain`: which operations ran as one batch, what that cost in copying, and why others did not join them.

It takes the notes of each search for batches and makes an `Explanation`: runs, their batches by level, what ran alone,
and reasons, as text. It keeps plain data, no tensors: a few microseconds for each batch, nothing for each operation.
`batches` draws it.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations
from types import TracebackType
from typing import TYPE_CHECKING, Any

from weft.engine.frontend import collective
from weft.engine.ir.primitive import ROWS, VIEW
from weft.engine.pipeline import driver
from weft.engine.pipeline.batching import batch
from weft.engine.runtime import executable_cache, tier_choice
from weft.errors import describe_position, user_line
from weft.optim import stepping
from weft.tensor.arguments import need_flag

if TYPE_CHECKING:
    from weft.engine.ir.node import Node


MOST_RUNS = 4096  # runs of one step; older ones are forgotten
MOST_LINES = 12  # lines for one kind of reason in the text of a run
SHARED, IN_PLACE, GATHERED, AGAIN = "shared", "in place", "gathered", "gathered before"


@dataclass(frozen=True)
class PackedOperand:
    """The packing of a batch's operand; `nbytes` are copied for it from `sources` values."""

    packing: str
    sources: int = 0
    nbytes: int = 0

    def __str__(self) -> str:
        if self.packing != GATHERED:
            return self.packing
        return f"gathered from {self.sources} ({with_unit(self.nbytes)})"


@dataclass(frozen=True)
class Facts:
    """The facts that operations share if they may run as one."""

    call_site: tuple[Any, int]  # code object and place in it
    operation: str
    params: Any
    dtype: str
    shape: tuple[int, ...]
    operands: tuple[tuple[str, tuple[int, ...], int, bool], ...]

    def where(self) -> str:
        """The user's line."""
        return describe_position(*self.call_site)

    def __str__(self) -> str:
        return f"{self.operation} {list(self.shape)}"


@dataclass(frozen=True)
class Batch:
    """Equal operations that ran as one; `sources` are the batches of the same run that it reads from. Where they are
    of different heights, `rows` is the shape of all together."""

    number: int
    facts: Facts
    size: int
    level: int
    operands: tuple[PackedOperand, ...]
    sources: tuple[int, ...]
    rows: tuple[int, ...] | None = None

    def __str__(self) -> str:
        return f"{self.facts.operation} x {self.size} {self.shape}"

    @property
    def shape(self) -> str:
        """That of one of them, or of all where they are of different heights."""
        if self.rows is None:
            return str(list(self.facts.shape))
        sizes = [str(size) for size in self.rows]
        axis = next(n for n, size in enumerate(self.rows) if size != 1)
        sizes[axis] += " rows"
        return f"[{', '.join(sizes)}]"

    @property
    def nbytes(self) -> int:
        """The bytes that were copied to pack its operands."""
        return sum(operand.nbytes for operand in self.operands)


@dataclass(frozen=True)
class Alone:
    """Operations that were ready together and too few for a batch."""

    facts: Facts
    count: int
    least: int

    def __str__(self) -> str:
        least = f"of {self.least}" if self.least < 1 << 40 else "too large to be copied"
        return f"{self.facts} x {self.count} ({least})"


@dataclass
class BatchSearch:
    """One search for batches: what was pending when a value was wanted, or a backward pass began."""

    where: str
    batches: list[Batch] = field(default_factory=list)
    alone: list[Alone] = field(default_factory=list)
    _lots: dict[int, tuple[Facts, list[int]]] = field(default_factory=dict)  # by signature: sizes

    def lots(self) -> Iterator[tuple[Facts, int]]:
        """Operations of equal signature, and how many there were."""
        return ((facts, sum(sizes)) for facts, sizes in self._lots.values())

    def waited(self) -> list[tuple[Facts, list[int]]]:
        """Equal operations that did not run at one time: the later ones waited for something."""
        return [(facts, sizes) for facts, sizes in self._lots.values() if len(sizes) > 1]

    def apart(self) -> list[tuple[Facts, int, Facts, int, list[str]]]:
        """Neighbours: the same operation twice, and in what they differ. Each with the one that is most like it."""
        by_name: dict[str, list[tuple[Facts, int]]] = {}
        for facts, count in self.lots():
            by_name.setdefault(facts.operation, []).append((facts, count))
        found = []
        for lots in by_name.values():
            pairs = sorted(
                ((differences(a, b), i, j) for (i, (a, _)), (j, (b, _)) in _pairs(lots)),
                key=lambda pair: (len(pair[0]), pair[1], pair[2]),
            )
            met: set[int] = set()
            for reasons, i, j in pairs:
                if i not in met or j not in met:
                    met |= {i, j}
                    found.append((*lots[i], *lots[j], reasons))
        return sorted(found, key=lambda pair: -min(pair[1], pair[3]))


def _pairs(lots: list[Any]) -> Iterator[Any]:
    return combinations(list(enumerate(lots))[:64], 2)  # of more, nobody reads on


def differences(one: Facts, other: Facts) -> list[str]:
    """The differences between two signatures of one operation."""
    found = []
    if one.shape != other.shape:
        found.append(f"different shape ({list(one.shape)}, {list(other.shape)})")
    if one.dtype != other.dtype:
        found.append(f"different type ({one.dtype}, {other.dtype})")
    if one.params != other.params:
        found.append(f"different parameters ({one.params!r}, {other.params!r})")
    if len(one.operands) != len(other.operands):
        found.append("different number of operands")
    for number, (a, b) in enumerate(zip(one.operands, other.operands, strict=False), 1):
        if a[:2] != b[:2] and one.shape == other.shape:
            found.append(f"operand {number} has another shape or type")
        elif a[2] != b[2]:
            found.append(f"operand {number} is another weight")
        if a[3] != b[3]:
            found.append(f"operand {number} wants a gradient in one only")
    if not found:
        lines = one.where(), other.where()
        found.append(
            f"different line ({lines[0]}, {lines[1]})"
            if lines[0] != lines[1]
            else "different places inside one call of the library"
        )
    return found


class Explanation:
    """The batches in the runs of a block or of a step. `print` shows it; `draw` draws a run."""

    def __init__(self) -> None:
        self.runs: deque[BatchSearch] = deque(maxlen=MOST_RUNS)
        self.passages: list[collective.Passage] = []  # collectives that began together
        self._before = self._after = _counts()
        self._open = True
        self._inner: list[Explanation] = []

    # -- collecting --------------------------------------------------------------------------------

    def __enter__(self) -> Explanation:
        inner = Explanation()
        self._inner.append(inner)
        _listen(inner)
        return inner

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType
    ) -> None:
        inner = self._inner.pop()
        _stop(inner)
        inner._close()

    def _close(self) -> None:
        self._after, self._open = _counts(), False

    # -- totals ------------------------------------------------------------------------------------

    def counts(self) -> dict[str, int]:
        """Runs of the pipeline, how many were known programs, operations and batches, gathers and bytes copied."""
        after = _counts() if self._open else self._after
        batches = [made for run in self.runs for made in run.batches]
        copied = [operand for made in batches for operand in made.operands]
        return {
            "flushes": after["flushes"] - self._before["flushes"],
            "known": after["hits"] - self._before["hits"],
            "batches": len(batches),
            "operations": sum(made.size for made in batches),
            "alone": sum(lot.count for run in self.runs for lot in run.alone),
            "gathers": sum(operand.packing == GATHERED for operand in copied),
            "bytes": sum(operand.nbytes for operand in copied),
        }

    def tiers(self) -> list[str]:
        """The estimates of the choice between interpreting and scheduling, and how often scheduling has paid."""
        after = _counts() if self._open else self._after
        counts = {name: after[name] - self._before[name] for name in after}
        return [tier_choice.text(counts)] if counts["interpreted"] or counts["scheduled"] else []

    def interrupted(self) -> list[tuple[Facts, int]]:
        """Equal operations that ran in several runs, since a value was read in between; in how many."""
        met: Counter[Facts] = Counter()
        for run in self.runs:
            met.update({facts for facts, _ in run.lots()})
        return [(facts, count) for facts, count in met.most_common() if count > 1]

    # -- as text and as a drawing ------------------------------------------------------------------

    def __str__(self) -> str:
        lines = [_headline(self.counts()), *self.tiers()]
        if not self.runs:
            lines.append(
                "no search for batches: put the step into `with weft.explain() as report:`, or leave it on with "
                "weft.explain(on=True)"
            )
        for number, run in enumerate(self.runs, 1):
            lines += ["", f"run {number}, at {run.where}", *_run_lines(run)]
        if self.passages:
            lines += ["", "between processes, each begun as soon as its operands were there:"]
            lines += _some([f"  {_passage_line(passage)}" for passage in self.passages])
        cut = self.interrupted()
        if cut:
            lines += ["", "in several runs, for a value was read in between (weft.map goes on):"]
            lines += _some([f"  {facts}, {facts.where()}: {count} runs" for facts, count in cut])
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<{_headline(self.counts())}>"

    def draw(self, path: str | os.PathLike[str], run: int | None = None) -> str:
        """Draw the batches of a run (counted from 1; the largest by default) into an SVG file; returns the path."""
        from weft.debug.batches import draw_run

        return draw_run(list(self.runs), path, run)


def _passage_line(passage: collective.Passage) -> str:
    return (
        f"{passage.what} x {passage.count} ({with_unit(passage.nbytes)}), {passage.where}: under way "
        f"{passage.under_way_s * 1e3:.1f} ms, waited for {passage.waited_s * 1e3:.1f} ms"
    )


def _headline(counts: dict[str, int]) -> str:
    return (
        f"{counts['flushes']} flushes, {counts['known']} of known programs; {counts['operations']} operations in "
        f"{counts['batches']} batches, {counts['alone']} alone; {counts['gathers']} gathers, "
        f"{with_unit(counts['bytes'])} copied"
    )


def _run_lines(run: BatchSearch) -> list[str]:
    lines = []
    level = 0
    for made in sorted(run.batches, key=lambda made: (made.level, made.number)):
        if made.level > level:
            level = made.level
            lines.append(f"  level {level}")
        ways = "; ".join(map(str, made.operands))
        lines.append(f"    {made}  {made.facts.where()}  {ways}")
    lines += _section(
        "alone, for fewer than gain from it",
        [f"{lot}, {lot.facts.where()}" for lot in run.alone],
    )
    lines += _section(
        "not at one time, for the later ones wait for something",
        [f"{facts}, {facts.where()}: {_sizes(sizes)}" for facts, sizes in run.waited()],
    )
    lines += _section(
        "not together",
        [
            f"{one} x {count} and {other} x {number}: {', '.join(reasons)}"
            for one, count, other, number, reasons in run.apart()
        ],
    )
    return lines


def _section(title: str, lines: list[str]) -> list[str]:
    return [f"  {title}", *_some([f"    {line}" for line in lines])] if lines else []


def _some(lines: list[str]) -> list[str]:
    """The first lines, equal ones once."""
    counted = [
        line if count == 1 else f"{line} ({count} times)" for line, count in Counter(lines).items()
    ]
    more = len(counted) - MOST_LINES
    return counted if more <= 0 else [*counted[:MOST_LINES], f"    ... and {more} more"]


def _sizes(sizes: list[int]) -> str:
    shown = " + ".join(map(str, sizes[:MOST_LINES]))
    return shown if len(sizes) <= MOST_LINES else f"{shown} + ... ({len(sizes)} times)"


def with_unit(nbytes: int) -> str:
    """`12.3 kB`."""
    for scale, unit in ((1 << 20, "MB"), (1 << 10, "kB")):
        if nbytes >= scale:
            return f"{nbytes / scale:.1f} {unit}"
    return f"{nbytes} B"


def _counts() -> dict[str, Any]:
    known = {"flushes": driver.counters["flushes"], "hits": executable_cache.counters["hits"]}
    return known | dict(tier_choice.counters)


# -- the notes of a search -------------------------------------------------------------------------


def _hear(notes: list[Any], quotients: list[object]) -> None:
    """Make a run of what the agenda noted, for everybody who listens."""
    run = BatchSearch(user_line())
    numbers: dict[int, int] = {}  # of batches, by the id of their quotient
    gathered: set[int] = set()
    made = iter(quotients)
    for story, count, least in notes:
        signature, call_site, operation, params, (dtype, shape), operands = story
        known = run._lots.get(signature)
        if known is None:
            facts = Facts(call_site, operation, params, dtype, shape, operands)
            known = run._lots[signature] = (facts, [])
        known[1].append(count)
        if count < least:
            run.alone.append(Alone(known[0], count, least))
            continue
        quotient = next(made)
        if quotient is not None:
            run.batches.append(_batch_of(run, known[0], count, quotient, numbers, gathered))
    for explanation in _listeners:
        explanation.runs.append(run)


def _batch_of(
    run: BatchSearch,
    facts: Facts,
    count: int,
    quotient: Any,
    numbers: dict[int, int],
    gathered: set[int],
) -> Batch:
    operands: list[PackedOperand] = []
    sources: dict[int, None] = {}
    for node, batched in zip(quotient.inputs, quotient.info.flags, strict=False):
        if not batched:
            operands.append(PackedOperand(SHARED))
            continue
        root = _below_views(node)
        roots = (root,)
        joined = root.op.name == "cat" and id(root) not in numbers  # rows of different heights
        if root.op.kind != ROWS and not joined:
            operands.append(PackedOperand(IN_PLACE))
        elif id(root) in gathered:
            operands.append(PackedOperand(AGAIN))
        else:
            gathered.add(id(root))
            roots = root.inputs
            operands.append(PackedOperand(GATHERED, len(roots), root.numel * root.dtype.itemsize))
        sources |= {numbers[key]: None for key in map(_key, roots) if key in numbers}
    level = 1 + max((run.batches[number].level for number in sources), default=0)
    number = numbers[id(quotient)] = len(run.batches)
    ragged = len(quotient.shape) == len(facts.shape)
    rows = quotient.shape if ragged else None
    return Batch(number, facts, count, level, tuple(operands), tuple(sources), rows)


def _below_views(node: Node) -> Any:
    while node.op.kind == VIEW and node.inputs:
        node = node.inputs[0]
    return node


def _key(node: Node) -> int:
    return id(_below_views(node))


# -- who listens -----------------------------------------------------------------------------------

_listeners: list[Explanation] = []
_standing: Explanation | None = None  # of the step that is going on, where it is left on
_last: Explanation | None = None  # of the last whole step


def _listen(explanation: Explanation) -> None:
    _listeners.append(explanation)
    collective.watch(explanation.passages, 1)
    batch.watch(_hear)


def _stop(explanation: Explanation) -> None:
    _listeners.remove(explanation)
    collective.watch(explanation.passages, -1)
    if not _listeners:
        batch.watch(None)


def _turn_over() -> None:
    """A step is over: its explanation is the last one."""
    global _standing, _last
    if _standing is not None:
        _stop(_standing)
        _standing._close()
        _last, _standing = _standing, Explanation()
        _listen(_standing)


def explain(on: bool | None = None) -> Explanation:
    """An explanation of batching: what ran as one batch, by level, with its size, what was copied for it, and why
    neighbours did not join.

    `with weft.explain() as report:` explains what runs in the block. `weft.explain(on=True)` is left on: from then on
    `weft.explain()` is the explanation of the last step, which the last `optimizer.step()` ended (before any, of what
    ran so far); `weft.explain(on=False)` ends that. Print it, ask it (`counts()`, `runs`, `interrupted()`), or draw a
    run: `report.draw("step.svg")`.

    A known program without derivatives runs without a search for batches, and is only counted. Cost: a few
    microseconds for each batch that is formed, while it is on; nothing otherwise."""
    global _standing, _last
    if on is not None:
        on = need_flag("explain", on, "on")
    if on and _standing is None:
        _standing = Explanation()
        _listen(_standing)
        stepping.after_step.append(_turn_over)
    elif on is False and _standing is not None:
        _stop(_standing)
        stepping.after_step.remove(_turn_over)
        _standing = _last = None
    return _last or _standing or Explanation()
