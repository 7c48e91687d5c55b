"""The timeline of a profile: what the engine recorded as spans of threads, each within another, and memory over time.

It takes what `engine.devices.trace` has recorded. `Timeline.spans` is what all tables and files are made of; `as_data`
is the same as dictionaries and lists, for pages and programs of others.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from weft.engine.devices.cpu.threads import worker_names
from weft.engine.devices.trace import Labels
from weft.profiler.operations import (
    LaunchFacts,
    LaunchPart,
    SourceLine,
    facts_of,
    nbytes_of,
    part_of,
    parts_of_nodes,
)

Raw = tuple[str, int, int, int, Any, int]


@dataclass(slots=True)
class Span:
    """Something that took time on a thread. `kind` is what the engine calls it, or `operation` for a part of a launch;
    a `piece` is what a worker did of a launch of another thread's; a `transfer` is a collective or message that the
    program called, with the `shapes` of its operands, until it was done; `parent` is the span that it lies in."""

    name: str
    kind: str
    begin_ns: int
    end_ns: int
    thread: int
    line: SourceLine | None = None
    part: LaunchPart | None = None
    launch: LaunchFacts | None = None
    args: str | None = None
    shapes: tuple[tuple[int, ...], ...] = ()
    stack: tuple[str, ...] = ()
    module: str = ""
    parent: Span | None = None
    children: list[Span] = field(default_factory=list)
    allocated: int = 0

    @property
    def self_ns(self) -> int:
        """Nanoseconds in it and in nothing within it."""
        return max(
            0, self.end_ns - self.begin_ns - sum(c.end_ns - c.begin_ns for c in self.children)
        )


@dataclass(slots=True)
class MemoryBlock:
    """A block of memory: when it was had and let go (None: not in this profile), and whose value lay in it first."""

    address: int
    nbytes: int
    begin_ns: int
    end_ns: int | None
    part: LaunchPart | None = None
    module: str = ""


@dataclass(slots=True)
class ValueLifetime:
    """A value that lies in a program's memory, which others share, from the launch that computes it to the last one
    that reads it."""

    slot: int
    nbytes: int
    begin_ns: int
    end_ns: int
    part: LaunchPart
    module: str


class Change(NamedTuple):
    """A change of what is allocated; `total` is counted from the begin of the profile."""

    at_ns: int
    thread: int
    address: int
    nbytes: int
    total: int


class NamedRanges:
    """Modules and named ranges by the numbers of the nodes that were recorded in them."""

    def __init__(self, raw: list[Raw]) -> None:
        scopes = [
            (payload[2], payload[3], payload[0])
            for kind, _, _, _, payload, _ in raw
            if kind in ("module", "range")
            and len(payload) > 2
            and not payload[0].startswith("ProfilerStep#")
        ]
        self._scopes = sorted((s for s in scopes if s[1] > s[0]), key=lambda s: (s[0], -s[1]))
        self._firsts = [first for first, _, _ in self._scopes]
        self._around = self._parents()
        self._known: dict[int, str] = {}

    def _parents(self) -> list[int]:
        """For each scope the nearest one before it in which its first node was recorded, too; -1 for none."""
        parents: list[int] = []
        open_: list[int] = []
        for index, (first, _, _) in enumerate(self._scopes):
            while open_ and self._scopes[open_[-1]][1] <= first:
                open_.pop()
            parents.append(open_[-1] if open_ else -1)
            open_.append(index)
        return parents

    def name_at(self, number: int) -> str:
        """The innermost scope in which a node of a number was recorded; empty if there is none."""
        if not self._scopes:
            return ""
        if number not in self._known:
            index = bisect_right(self._firsts, number - 1) - 1
            while index >= 0 and self._scopes[index][1] < number:
                index = self._around[index]
            self._known[number] = self._scopes[index][2] if index >= 0 else ""
        return self._known[number]


class Timeline:
    """The spans of a profile, in order of their begin, and its blocks of memory."""

    def __init__(self, raw: list[Raw], begin_ns: int, end_ns: int, dropped: int = 0) -> None:
        self.begin_ns, self.end_ns, self.dropped = begin_ns, end_ns, dropped
        self.scopes = NamedRanges(raw)
        self._facts: dict[int, list[LaunchFacts]] = {}
        self.values: list[ValueLifetime] = []
        self.spans = sorted(self._spans(raw), key=lambda span: (span.begin_ns, -span.end_ns))
        kept = {id(payload): payload for *_, payload, _ in raw if isinstance(payload, Labels)}
        self.dropped += sum(labels.omitted for labels in kept.values())
        self.blocks, self.memory = self._read_memory(raw)
        self._nest()

    # -- spans -----------------------------------------------------------------------------------------------------

    def _spans(self, raw: list[Raw]) -> Iterator[Span]:
        launches: dict[int, list[Raw]] = {}
        pieces: dict[int, list[Raw]] = {}
        for event in raw:
            kind, begin, end, thread, payload, second = event
            if kind == "launch":
                launches.setdefault(thread, []).append(event)
            elif kind == "piece":
                pieces.setdefault(second, []).append(event)
            elif kind == "program":
                inside = launches.pop(thread, [])
                yield Span("weft::run", kind, begin, end, thread)
                yield from self._launched(payload, second, [e for e in inside if e[1] >= begin])
                shared = pieces.pop(thread, [])
                yield from self._worked(payload, [e for e in shared if e[1] >= begin])
            elif kind == "nodes":
                yield from self._interpreted(payload, second, begin, end, thread)
            elif kind in ("range", "module"):
                yield _range(event)
            elif kind == "collective" and payload[0] == "call":
                _, name, shapes = payload
                yield Span(name, "transfer", begin, end, thread, shapes=shapes)
            elif kind in ("flush", "stage", "compile", "walk", "collective"):
                yield Span(
                    _engine_name(kind, payload), kind, begin, end, thread, args=_words(payload)
                )

    def _interpreted(
        self, labels: Labels, which: int, begin: int, end: int, thread: int
    ) -> Iterator[Span]:
        """The nodes that the interpreter ran between two looks at the clock, by their estimated shares."""
        first, count = which >> 32, which & 0xFFFFFFFF
        parts = parts_of_nodes(labels.rows()[first : first + count])
        yield from self._behind_each_other(parts, 0, begin, end, thread)

    def _worked(self, labels: Labels, pieces: list[Raw]) -> Iterator[Span]:
        """The parts of a program's launches that workers ran, on their threads."""
        facts = self._facts_of(labels)
        for _, begin, end, thread, index, _ in pieces:
            launch = facts[index]
            line = launch.parts[0].line if launch.parts else None
            yield Span(launch.kernel, "piece", begin, end, thread, line, launch=launch)

    def _facts_of(self, labels: Labels) -> list[LaunchFacts]:
        facts = self._facts.get(id(labels))
        if facts is None:
            facts = self._facts[id(labels)] = facts_of(labels)
        return facts

    def _launched(self, labels: Labels, first: int, launches: list[Raw]) -> Iterator[Span]:
        """The launches of a run of a program, and their operations: one behind the other, by their shares."""
        facts = self._facts_of(labels)
        shift = first - labels.first
        self._note_values(facts, launches, shift)
        for _, begin, end, thread, index, _ in launches:
            launch = facts[index]
            line = launch.parts[0].line if launch.parts else None
            yield Span(launch.kernel, "launch", begin, end, thread, line, launch=launch)
            yield from self._behind_each_other(launch.parts, shift, begin, end, thread)

    def _note_values(self, facts: list[LaunchFacts], launches: list[Raw], shift: int) -> None:
        """The values that lie in the program's own memory while it runs; those that somebody gets are blocks."""
        ends: dict[int, int] = {}
        for _, _, end, _, index, _ in launches:
            ends[facts[index].position] = end
        for _, begin, end, _, index, _ in launches:
            for part in facts[index].parts:
                label = part.label
                if label.slot >= 0 and label.last_use >= 0:
                    until = max(ends.get(label.last_use, end), end)
                    module = self.scopes.name_at(label.seq + shift)
                    nbytes = nbytes_of(label.shape, label.dtype)
                    self.values.append(
                        ValueLifetime(label.slot, nbytes, begin, until, part, module)
                    )

    def _behind_each_other(
        self, parts: list[LaunchPart], shift: int, begin: int, end: int, thread: int
    ) -> Iterator[Span]:
        at, done = begin, 0.0
        for part in parts:
            done += part.share
            until = min(end, begin + round((end - begin) * done))
            module = self.scopes.name_at(part.label.seq + shift)
            yield Span(part.name, "operation", at, until, thread, part.line, part, module=module)
            at = until

    def _nest(self) -> None:
        """Let each span know the one that it lies in. One that reaches out of another, as a signal handler can make it,
        is taken to lie beside it, and so does a transfer: its thread does other things meanwhile."""
        open_: dict[int, list[Span]] = {}
        for span in self.spans:
            if span.kind == "transfer":
                continue
            stack = open_.setdefault(span.thread, [])
            while stack and (stack[-1].end_ns < span.end_ns or stack[-1].end_ns <= span.begin_ns):
                if span.begin_ns == span.end_ns == stack[-1].end_ns:
                    break
                stack.pop()
            if stack:
                span.parent = stack[-1]
                span.parent.children.append(span)
            stack.append(span)

    # -- memory ----------------------------------------------------------------------------------------------------

    def _read_memory(self, raw: list[Raw]) -> tuple[list[MemoryBlock], list[Change]]:
        """The blocks, and the changes in order."""
        blocks: list[MemoryBlock] = []
        alive: dict[int, MemoryBlock] = {}
        changes: list[Change] = []
        total = 0
        for kind, at, _, thread, payload, second in raw:
            if kind == "allocate":
                alive[payload] = block = MemoryBlock(payload, second, at, None)
                blocks.append(block)
                total += second
                changes.append(Change(at, thread, payload, second, total))
            elif kind == "free":
                block = (
                    alive.pop(payload)
                    if payload in alive
                    else MemoryBlock(payload, second, 0, None)
                )
                block.end_ns = at
                total -= second
                changes.append(Change(at, thread, payload, -second, total))
            elif kind == "own" and second in alive and alive[second].part is None:
                alive[second].part = part_of(payload)
                alive[second].module = self.scopes.name_at(payload.seq)
        return blocks, changes


def _range(event: Raw) -> Span:
    kind, begin, end, thread, payload, _ = event
    stack = payload[4] if len(payload) > 4 else ()
    name = f"nn.Module: {payload[0]}" if kind == "module" else payload[0]
    return Span(name, kind, begin, end, thread, args=payload[1], stack=stack)


def _engine_name(kind: str, payload: object) -> str:
    if kind == "flush":
        return "weft::flush"
    if kind == "collective":
        return f"weft::collective_{payload[0] if isinstance(payload, tuple) else payload}"
    return f"weft::{'backward' if kind == 'walk' else kind if kind == 'compile' else payload}"


def _words(payload: object) -> str:
    return " ".join(map(str, payload)) if isinstance(payload, tuple) else str(payload)


# -- as plain data -------------------------------------------------------------------------------------------------


def thread_names() -> dict[int, str]:
    """The names of the threads that are alive, and of those that share the engine's work, by their identifiers."""
    names = {
        thread.ident: thread.name for thread in threading.enumerate() if thread.ident is not None
    }
    return {**worker_names(), **names}


def as_data(timeline: Timeline) -> dict[str, Any]:
    """A timeline as dictionaries and lists of numbers and text, which JSON can hold.

    Times are microseconds since the begin of the profile. Returns a dictionary of

    - `duration_us`; `dropped`, the number of events for which there was no room;
    - `rows`: the threads, `{"thread": identifier, "name": text}`;
    - `kernels`: what is launched, `{"name", "operations", "read_bytes", "written_bytes", "again", "ir"}`: `again`, an
      earlier launch has computed it already; `ir` is its loop IR, empty for kernels that are no loops, as products of
      matrices, and `spill_file`, which writes values to disk and reads them back; an operation is
      `{"name", "op", "line", "shape", "dtype", "share", "members", "flops"}`: `share` of the kernel's time by
      estimated costs, `members` the number of batched operations it is;
    - `events`, in the order of their begin: `{"name", "kind", "begin_us", "end_us", "self_us", "row", "parent",
      "line", "module", "kernel", "text"}`. `kind` is flush, stage, compile, program (a run), launch, piece (what a
      worker did of a launch), operation (a part of a launch, or a node that the interpreter ran), walk, collective,
      transfer (a collective or message that the program called), range or module. `row`, `kernel` and `parent` are
      indices, -1 where there is none; `line` is `{"file", "number", "function"}` or None; `text` is what else is known:
      who asked for a flush, the arguments of a range;
    - `memory`, with `profile_memory`: `{"time_us": [], "bytes": []}`, the bytes since the begin, and `blocks`, each
      `{"address", "bytes", "begin_us", "end_us", "name", "line", "module"}`; `end_us` None is a block that is alive.
      Also, always, `values`: what lies within programs' blocks, `{"slot", "bytes", "begin_us", "end_us", "name",
      "line", "module"}`; those of one slot share its memory.
    """

    def us(ns: int) -> float:
        return (ns - timeline.begin_ns) / 1000

    rows = {
        thread: row for row, thread in enumerate(dict.fromkeys(s.thread for s in timeline.spans))
    }
    names = thread_names()
    kernels: dict[int, int] = {}
    tables: list[dict[str, Any]] = []
    indices = {id(span): index for index, span in enumerate(timeline.spans)}
    for span in timeline.spans:
        if span.launch is not None and id(span.launch) not in kernels:
            kernels[id(span.launch)] = len(tables)
            tables.append(_kernel_data(span.launch))
    events = [
        {
            "name": span.name,
            "kind": span.kind,
            "begin_us": us(span.begin_ns),
            "end_us": us(span.end_ns),
            "self_us": span.self_ns / 1000,
            "row": rows[span.thread],
            "parent": indices[id(span.parent)] if span.parent is not None else -1,
            "line": _line_data(span.line),
            "module": span.module,
            "kernel": kernels[id(span.launch)] if span.launch is not None else -1,
            "text": span.args or "",
        }
        for span in timeline.spans
    ]
    return {
        "duration_us": us(timeline.end_ns),
        "dropped": timeline.dropped,
        "rows": [{"thread": t, "name": names.get(t, f"thread {t}")} for t in rows],
        "kernels": tables,
        "events": events,
        "memory": {
            "time_us": [us(change.at_ns) for change in timeline.memory],
            "bytes": [change.total for change in timeline.memory],
            "blocks": [
                {
                    "address": block.address,
                    "bytes": block.nbytes,
                    "begin_us": us(block.begin_ns),
                    "end_us": None if block.end_ns is None else us(block.end_ns),
                    "name": "" if block.part is None else block.part.name,
                    "line": _line_data(block.part.line) if block.part is not None else None,
                    "module": block.module,
                }
                for block in timeline.blocks
            ],
            "values": [
                {
                    "slot": value.slot,
                    "bytes": value.nbytes,
                    "begin_us": us(value.begin_ns),
                    "end_us": us(value.end_ns),
                    "name": value.part.name,
                    "line": _line_data(value.part.line),
                    "module": value.module,
                }
                for value in timeline.values
            ],
        },
    }


def _kernel_data(launch: LaunchFacts) -> dict[str, Any]:
    return {
        "name": launch.kernel,
        "read_bytes": launch.read_bytes,
        "written_bytes": launch.written_bytes,
        "again": launch.again,
        "ir": launch.ir(),
        "operations": [
            {
                "name": part.name,
                "op": part.label.op.name,
                "line": _line_data(part.line),
                "shape": list(part.label.shape),
                "dtype": part.label.dtype.name,
                "share": part.share,
                "members": part.label.members,
                "flops": part.flops,
            }
            for part in launch.parts
        ],
    }


def _line_data(line: SourceLine | None) -> dict[str, Any] | None:
    return None if line is None else line._asdict()
