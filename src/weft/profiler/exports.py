"""Files of a profile: a trace for Perfetto and Chrome, collapsed stacks, speedscope, memory over time."""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from weft.errors import ArgumentError
from weft.profiler.function_events import Listed
from weft.profiler.timeline import Span, Timeline, thread_names

SPEEDSCOPE = "https://www.speedscope.app/file-format-schema.json"
_CATEGORIES = {
    "operation": "cpu_op",
    "range": "user_annotation",
    "module": "python_function",
    "launch": "kernel",
    "piece": "kernel",
    "collective": "collective",
}


def write_json(path: str | os.PathLike[str], content: object) -> None:
    """Write a file of JSON, packed where its name ends in .gz."""
    data = json.dumps(content, separators=(",", ":")).encode()
    Path(path).write_bytes(gzip.compress(data) if str(path).endswith(".gz") else data)


# -- Chrome's form ---------------------------------------------------------------------------------------------------


def write_chrome_trace(
    path: str | os.PathLike[str], timeline: Timeline, facts: dict[str, object]
) -> None:
    """Write a trace in the JSON that Chrome and Perfetto open; `facts` stand beside the events."""
    content = {
        "schemaVersion": 1,
        "deviceProperties": [],
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": 0,
        **facts,
        "traceEvents": [
            *_metadata(timeline),
            *_slices(timeline),
            *_passages(timeline),
            *_memory(timeline),
        ],
        "traceName": str(path),
    }
    write_json(path, content)


def _metadata(timeline: Timeline) -> Iterator[dict[str, Any]]:
    process = os.getpid()
    names = thread_names()
    at = timeline.begin_ns / 1000

    def fact(name: str, thread: int, args: dict[str, object]) -> dict[str, Any]:
        return {"ph": "M", "name": name, "pid": process, "tid": thread, "ts": at, "args": args}

    rank = os.environ.get("RANK")
    program = Path(sys.argv[0] or "python").name or "python"
    yield fact("process_name", 0, {"name": program if rank is None else f"rank {rank}: {program}"})
    if rank is not None:
        yield fact("process_sort_index", 0, {"sort_index": int(rank)})
    yield fact("process_labels", 0, {"labels": "CPU"})
    for thread in dict.fromkeys(span.thread for span in timeline.spans):
        yield fact("thread_name", thread, {"name": names.get(thread, f"thread {thread}")})


def _slices(timeline: Timeline) -> Iterator[dict[str, Any]]:
    process = os.getpid()
    for number, span in enumerate(timeline.spans):
        if span.kind == "transfer":
            yield from _transfer(span, number)
            continue
        yield {
            "ph": "X",
            "cat": _CATEGORIES.get(span.kind, "weft"),
            "name": span.name,
            "pid": process,
            "tid": span.thread,
            "ts": span.begin_ns / 1000,
            "dur": (span.end_ns - span.begin_ns) / 1000,
            "args": {"Ev Idx": number, **_args(span)},
        }


def _transfer(span: Span, number: int) -> Iterator[dict[str, Any]]:
    """A collective or message that the program called, on a track of its own: its thread may do other things."""
    shared = {
        "cat": "transfer",
        "name": span.name,
        "id": number,
        "pid": os.getpid(),
        "tid": span.thread,
    }
    yield {
        "ph": "b",
        "ts": span.begin_ns / 1000,
        **shared,
        "args": {"Ev Idx": number, **_args(span)},
    }
    yield {"ph": "e", "ts": span.end_ns / 1000, **shared}


def _passages(timeline: Timeline) -> Iterator[dict[str, Any]]:
    """Collectives from their begin until somebody has their result, on a track of their own: what runs meanwhile stands
    above and below them."""
    process, begun = os.getpid(), {}
    for span in timeline.spans:
        moment, _, which = (span.args or "").partition(" ")
        if span.kind == "collective" and moment == "begin":
            begun[which] = span
        elif span.kind == "collective" and which in begun:
            name, _, number = which.partition(" ")
            shared = {"cat": "under way", "name": name, "id": int(number), "pid": process}
            waited = (span.end_ns - span.begin_ns) / 1000
            first = begun.pop(which)
            yield {"ph": "b", "tid": first.thread, "ts": first.begin_ns / 1000, **shared}
            yield {
                "ph": "e",
                "tid": span.thread,
                "ts": span.end_ns / 1000,
                **shared,
                "args": {"Waited, us": waited},
            }


def _args(span: Span) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if span.line is not None:
        found["Line"] = str(span.line)
    if span.module:
        found["Module"] = span.module
    if span.args:
        found["Asked"] = span.args
    if span.shapes:
        found["Input Dims"] = list(map(list, span.shapes))
    if span.part is not None:
        operands = span.part.label.operands
        found["Input Dims"] = [list(operand.shape) for operand in operands]
        found["Input type"] = [operand.dtype.name for operand in operands]
        found["Output Dims"] = list(span.part.label.shape)
        found["Batched"] = span.part.label.members
        found["Flops"] = span.part.flops
        found["Share of kernel, estimated"] = round(span.part.share, 4)
    if span.launch is not None:
        found["Operations"] = [part.name for part in span.launch.parts]
        found["Bytes read"] = span.launch.read_bytes
        found["Bytes written"] = span.launch.written_bytes
    return found


def _memory(timeline: Timeline) -> Iterator[dict[str, Any]]:
    process = os.getpid()
    for change in timeline.memory:
        at = {"pid": process, "tid": change.thread, "ts": change.at_ns / 1000}
        args = {
            "Total Allocated": change.total,
            "Bytes": change.nbytes,
            "Addr": change.address,
            "Device Type": 0,
            "Device Id": -1,
        }
        yield {
            "ph": "i",
            "s": "t",
            "name": "[memory]",
            "cat": "cpu_instant_event",
            "args": args,
            **at,
        }
        yield {"ph": "C", "name": "allocated bytes", "args": {"bytes": change.total}, **at}


def merge_chrome_traces(
    paths: Iterable[str | os.PathLike[str]], path: str | os.PathLike[str]
) -> None:
    """Write the traces of several processes as one, with a process for each: what the ranks of a step did at the same
    time. They have one clock if they ran on one machine.

    Args:
        paths: files of `export_chrome_trace`, in the order of ranks.
        path: the file to write.

    Errors: FileNotFoundError; ValueError for a file that is no trace.
    """
    merged: list[Any] = []
    facts: dict[str, object] = {}
    for rank, one in enumerate(paths):
        data = Path(one).read_bytes()
        content = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
        if not isinstance(content, dict) or "traceEvents" not in content:
            raise ArgumentError(
                f"merge_chrome_traces: {one} is no trace",
                expected="a file of export_chrome_trace",
                got=type(content).__name__,
                fix="call export_chrome_trace on each rank first",
            )
        merged += [event | {"pid": rank} for event in content.pop("traceEvents")]
        facts = content | facts
    write_json(path, facts | {"traceEvents": merged, "traceName": str(path)})


# -- stacks ----------------------------------------------------------------------------------------------------------


def write_stacks(path: str | os.PathLike[str], events: Iterable[Listed], metric: str) -> None:
    """Write a line for each event with a stack: its frames, the outermost first, and a metric as a whole number."""
    plain = str.maketrans(" ;\t\n", "____")
    with open(path, "w") as file:
        for event in events:
            value = int(getattr(event, metric))
            if event.stack and value > 0:
                frames = [*reversed(event.stack), event.key]
                file.write(f"{';'.join(frame.translate(plain) for frame in frames)} {value}\n")


def write_speedscope(path: str | os.PathLike[str], timeline: Timeline) -> None:
    """Write a file for https://www.speedscope.app: the spans of each thread, within each other."""
    frames: dict[tuple[str, str, int], int] = {}
    profiles = []
    names = thread_names()
    for thread in dict.fromkeys(span.thread for span in timeline.spans):
        roots = [
            span
            for span in timeline.spans
            if span.thread == thread and span.parent is None and span.kind != "transfer"
        ]
        profiles.append(
            {
                "type": "evented",
                "name": names.get(thread, f"thread {thread}"),
                "unit": "nanoseconds",
                "startValue": 0,
                "endValue": max(timeline.end_ns, *(s.end_ns for s in roots)) - timeline.begin_ns,
                "events": list(_opened_and_closed(roots, timeline.begin_ns, frames)),
            }
        )
    shared = [
        {"name": name, "file": file, "line": line} if file else {"name": name}
        for name, file, line in frames
    ]
    write_json(
        path,
        {
            "$schema": SPEEDSCOPE,
            "shared": {"frames": shared},
            "profiles": profiles,
            "exporter": "weft",
        },
    )


def _opened_and_closed(
    roots: list[Span], begin: int, frames: dict[tuple[str, str, int], int]
) -> Iterator[dict[str, Any]]:
    stack: list[tuple[Span, bool]] = [(root, True) for root in reversed(roots)]
    latest = begin
    while stack:
        span, opens = stack.pop()
        file, line = (span.line.file, span.line.number) if span.line is not None else ("", 0)
        frame = frames.setdefault((span.name, file, line), len(frames))
        latest = max(latest, span.begin_ns if opens else span.end_ns)  # one after the other
        yield {"type": "O" if opens else "C", "frame": frame, "at": latest - begin}
        if opens:
            stack.append((span, False))
            stack += [(child, True) for child in reversed(span.children)]


# -- memory ----------------------------------------------------------------------------------------------------------


def write_memory_timeline(path: str | os.PathLike[str], timeline: Timeline) -> None:
    """Write memory over time. `.json`: [times in microseconds, [[bytes]]]; `.raw.json.gz`: a list of (time in
    nanoseconds, action, bytes, what lay there).

    Errors: ArgumentError for another ending: pages are drawn by others of these files.
    """
    name = str(path)
    if name.endswith((".raw.json.gz", ".raw.json")):
        blocks = {}
        for block in timeline.blocks:
            blocks[block.address, block.begin_ns] = block.part.name if block.part else "temporary"
        actions = []
        for change in timeline.memory:
            action = "CREATE" if change.nbytes > 0 else "DESTROY"
            what = blocks.get((change.address, change.at_ns), "")
            actions.append((change.at_ns, action, abs(change.nbytes), what))
        write_json(path, actions)
    elif name.endswith((".json", ".json.gz")):
        times = [(change.at_ns - timeline.begin_ns) // 1000 for change in timeline.memory]
        write_json(path, [times, [[change.total] for change in timeline.memory]])
    else:
        raise ArgumentError(
            "export_memory_timeline",
            expected="a path that ends in .json, .json.gz or .raw.json.gz",
            got=name,
            fix="name one of these; export_chrome_trace has memory for Perfetto, too",
        )
