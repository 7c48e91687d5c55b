"""Files of profiles keep the rules of the formats of other programs: Chrome's trace events, speedscope's profiles."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import weft
from weft import nn
from weft.profiler import profile, record_function

PHASES = set(
    "BEXiICMsftPNOD"
)  # of which metadata (M), complete events (X), instants (i) and counters (C) are written
METADATA = {
    "process_name": "name",
    "process_labels": "labels",
    "process_sort_index": "sort_index",
    "thread_name": "name",
    "thread_sort_index": "sort_index",
}
UNITS = {"none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"}


def step_of_a_layer() -> None:
    """A module, a backward walk, an update."""
    layer = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = weft.optim.Adam(layer.parameters())
    layer(weft.randn(32, 8)).square().mean().backward()
    optimizer.step()
    layer[0].weight.sum().item()


def examples_in_batches() -> None:
    """Examples that are batched, in named ranges, one of which has quotes and signs in its name."""
    w = weft.randn(4, 4, requires_grad=True)
    with record_function('a "name" with \\ and \u2192\n'):
        losses = [(weft.randn(n % 3 + 1, 4) @ w).tanh().sum() for n in range(40)]
    weft.stack(losses).mean().backward()
    assert w.grad is not None
    w.grad.sum().item()


def nothing() -> None:
    """A profile without an event."""


programs = pytest.mark.parametrize("program", [step_of_a_layer, examples_in_batches, nothing])


@programs
def test_traces_keep_the_rules_of_trace_events(program: Callable[[], None], tmp_path: Path) -> None:
    with profile(profile_memory=True, record_shapes=True, with_stack=True) as watched:
        program()
    path = tmp_path / "trace.json"
    watched.export_chrome_trace(str(path))
    written = json.loads(path.read_text(), parse_constant=refuse)
    assert written.get("displayTimeUnit", "ms") in ("ms", "ns")
    complete: dict[tuple[Any, Any], list[tuple[float, float]]] = defaultdict(list)
    for event in written["traceEvents"]:
        assert event["ph"] in PHASES and isinstance(event["name"], str)
        for key in ("pid", "tid"):
            assert isinstance(event[key], (int, str))
        if event["ph"] == "M":
            assert METADATA[event["name"]] in event["args"]
            continue
        assert isinstance(event["ts"], (int, float)) and math.isfinite(event["ts"])
        if event["ph"] == "X":
            assert event["dur"] >= 0
            complete[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
        elif event["ph"] == "C":
            assert all(isinstance(value, (int, float)) for value in event["args"].values())
        elif event["ph"] == "i":
            assert event.get("s", "t") in ("g", "p", "t")
    for spans in complete.values():
        assert_nested(spans)


@programs
def test_profiles_keep_speedscopes_schema(program: Callable[[], None], tmp_path: Path) -> None:
    with profile() as watched:
        program()
    path = tmp_path / "scope.json"
    watched.export_speedscope(str(path))
    scope = json.loads(path.read_text(), parse_constant=refuse)
    assert scope["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = scope["shared"]["frames"]
    for frame in frames:
        assert frame.keys() <= {"name", "file", "line", "col"} and isinstance(frame["name"], str)
        assert isinstance(frame.get("file", ""), str)
        assert type(frame.get("line", 1)) is int and frame.get("line", 1) > 0
    assert isinstance(scope["profiles"], list)
    for one in scope["profiles"]:
        assert one["type"] == "evented" and one["unit"] in UNITS and isinstance(one["name"], str)
        at = [one["startValue"], *(event["at"] for event in one["events"]), one["endValue"]]
        assert at == sorted(at) and all(map(math.isfinite, at))
        for event in one["events"]:
            assert event.keys() == {"type", "frame", "at"} and event["type"] in "OC"
            assert type(event["frame"]) is int and 0 <= event["frame"] < len(frames)


def assert_nested(spans: list[tuple[float, float]]) -> None:
    """Of two complete events of a thread one lies within the other, or they do not meet; half a nanosecond is lost in
    writing microseconds."""
    rounding = 0.0005
    open_: list[float] = []
    for begin, end in sorted(spans, key=lambda span: (span[0], -span[1])):
        while open_ and open_[-1] <= begin + rounding:
            open_.pop()
        assert not open_ or end <= open_[-1] + rounding
        open_.append(end)


def refuse(word: str) -> None:
    """`NaN` and `Infinity` are no JSON."""
    raise ValueError(word)
