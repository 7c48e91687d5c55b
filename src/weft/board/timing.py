"""The plain data of a profile (`weft.profiler`) as columns for the page: the view of time.

`TimeLook` records the engine's trace in a step that is looked at; `columns_of` makes columns of it, or of a profile of
the program's own. Of very many events the shortest that have none within them are left out, and counted.
"""

from __future__ import annotations

from weft.board.run import Document, SourceFiles, Table
from weft.board.scopes import ModuleCall
from weft.engine.devices import trace
from weft.profiler.timeline import Timeline, as_data

WATCHING = "weft.board"  # the range of what the board itself does in a step
MOST_RECORDED = 400_000  # events of a step, behind which its recording ends
LEAST_RECORDED = 1000
MOST_EVENTS = 150_000  # on the page
MOST_BLOCKS = 50_000  # of memory, and values within them
MOST_OPERATIONS = 200  # of a kernel


class TimeLook:
    """The trace of one step. It runs nothing of the program's: what is pending stays so."""

    def __init__(self, most: int = MOST_RECORDED) -> None:
        self.most = max(most, LEAST_RECORDED)
        self.events = 0  # that it had
        self._begin_ns = trace.clock()
        self._recording = trace.Recording(True, False, self.most)

    def discard(self) -> None:
        """Record no more, and forget it."""
        self._recording.close()

    def close(self, calls: list[tuple[ModuleCall, str]]) -> Document:
        """Record no more; the profile's data, with the module calls of the step and their names."""
        end = trace.clock()
        is_full = self._recording.is_full
        events = self._recording.close()
        self.events = len(events)
        for call, name in calls:
            payload = (name, type(call.module).__name__, call.first, call.last)
            events.append(("module", call.begin_ns, call.end_ns, call.thread, payload, 0))
        timeline = Timeline(events, self._begin_ns, end, self._recording.dropped)
        return {**as_data(timeline), "cut": is_full}


def columns_of(data: Document, sources: SourceFiles) -> Document:
    """The data of a profile (`weft.profiler.timeline.as_data`) as columns; what repeats stands in tables."""
    tables = Tables(sources)
    kept, parents = _kept(data["events"])
    events = [data["events"][index] for index in kept]
    return {
        "duration": _ns(data["duration_us"]),
        "dropped": data["dropped"],
        "cut": bool(data.get("cut")),
        "left_out": len(data["events"]) - len(events),
        "rows": [row["name"] for row in data["rows"]],
        "events": {
            "name": [tables.names.number(event["name"]) for event in events],
            "kind": [tables.kinds.number(event["kind"]) for event in events],
            "begin": [_ns(event["begin_us"]) for event in events],
            "end": [_ns(event["end_us"]) for event in events],
            "row": [event["row"] for event in events],
            "parent": parents,
            "line": [tables.line(event["line"]) for event in events],
            "module": [tables.modules.number(event["module"]) for event in events],
            "kernel": [event["kernel"] for event in events],
            "text": [tables.texts.number(event["text"]) for event in events],
        },
        "kernels": [_kernel(kernel, tables) for kernel in data["kernels"]],
        "memory": _memory(data["memory"], tables),
        **tables.listed(),
    }


class Tables:
    """Names, lines and texts by number."""

    def __init__(self, sources: SourceFiles) -> None:
        self.names, self.kinds, self.modules = Table(), Table(), Table()
        self.texts, self.irs, self.lines = Table(), Table(), Table()
        self._sources = sources

    def line(self, line: Document | None) -> int:
        """The number of a line; -1 for none."""
        if line is None:
            return -1
        file = self._sources.number_of_path(line["file"])
        return self.lines.number((file, line["number"], line["function"]))

    def listed(self) -> Document:
        """All of them."""
        return {
            "names": self.names.listed(),
            "kinds": self.kinds.listed(),
            "modules": self.modules.listed(),
            "texts": self.texts.listed(),
            "irs": self.irs.listed(),
            "lines": [list(row) for row in self.lines.listed()],
        }


def _ns(us: float | None) -> int:
    return -1 if us is None else round(1000 * us)


def _kept(events: list[Document]) -> tuple[list[int], list[int]]:
    """The indices of the events that are shown, and for each which of these it lies in."""
    kept = list(range(len(events)))
    if len(events) > MOST_EVENTS:
        parents = {event["parent"] for event in events}
        leaves = [index for index in kept if index not in parents]
        leaves.sort(key=lambda index: events[index]["end_us"] - events[index]["begin_us"])
        gone = set(leaves[: len(events) - MOST_EVENTS])
        kept = [index for index in kept if index not in gone]
    place = {index: at for at, index in enumerate(kept)}
    return kept, [place.get(events[index]["parent"], -1) for index in kept]


def _kernel(kernel: Document, tables: Tables) -> Document:
    operations = kernel["operations"]
    return {
        "name": kernel["name"],
        "again": int(kernel["again"]),
        "read": kernel["read_bytes"],
        "written": kernel["written_bytes"],
        "ir": tables.irs.number(kernel["ir"]),
        "operations": [
            [
                tables.names.number(operation["name"]),
                tables.line(operation["line"]),
                f"{operation['dtype']}{operation['shape']}",
                round(operation["share"], 4),
                operation["members"],
                operation["flops"],
            ]
            for operation in operations[:MOST_OPERATIONS]
        ],
        "more": max(len(operations) - MOST_OPERATIONS, 0),
    }


def _memory(memory: Document, tables: Tables) -> Document:
    """Blocks of memory, and the values within those of programs, which have a slot."""
    rows = [*memory["blocks"], *memory["values"]]
    if len(rows) > MOST_BLOCKS:
        rows = sorted(rows, key=lambda row: -row["bytes"])[:MOST_BLOCKS]
    return {
        "bytes": [row["bytes"] for row in rows],
        "begin": [_ns(row["begin_us"]) for row in rows],
        "end": [_ns(row["end_us"]) for row in rows],
        "name": [tables.names.number(row["name"]) for row in rows],
        "line": [tables.line(row["line"]) for row in rows],
        "module": [tables.modules.number(row["module"]) for row in rows],
        "slot": [row.get("slot", -1) for row in rows],
    }
