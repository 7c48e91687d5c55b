"""Memory over the steps of a run: what is alive by line, and what grows from step to step and is held by whom.

Live bytes are read after each watched step. In steps that are looked at the program's containers of tensors are
counted: one that has grown at each of the last looks is a leak, and is named with the line that made its newest
tensor.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter, deque
from collections.abc import Iterator, Sized
from types import FrameType
from typing import Any

import weft
from weft.board.learning import GrowingColumns
from weft.board.run import SourceFiles
from weft.engine.devices.cpu import live_buffers, pool
from weft.engine.frontend.node_factory import count_live_nodes
from weft.engine.frontend.resolve import value_of
from weft.engine.frontend.tensor import Tensor
from weft.errors import line_number

LOOKS_OF_GROWTH = 4  # before the newest one
MOST_LINES = 30  # by size have columns
MOST_PARTS = 64  # of a container's entry are looked at
SMALL = "smaller values and others"


class MemoryWatch:
    """The memory of a run."""

    def __init__(self, sources: SourceFiles) -> None:
        self.sources = sources
        self.rows = GrowingColumns()
        self.places: dict[str, list[int]] = {}  # of a line's name: file, line
        self._looks: deque[dict[int, int]] = deque(maxlen=LOOKS_OF_GROWTH)  # lengths by id
        self.leaks: dict[str, dict[str, Any]] = {}

    def add(self, step: int) -> None:
        """A row for what is alive after a step."""
        stats = pool.stats()
        by_line: Counter[str] = Counter()
        for buffer in live_buffers.listed_buffers():
            if buffer.code is not None:
                name = live_buffers.line_of(buffer)
                by_line[name] += buffer.capacity
                if name not in self.places and not isinstance(buffer.code, str):
                    line = line_number(buffer.code, buffer.offset_in_code)
                    self.places[name] = [self.sources.number_of(buffer.code), line]
        largest = dict(by_line.most_common(MOST_LINES))
        largest[SMALL] = stats["allocated"] - sum(largest.values())
        totals = {
            "live": stats["allocated"],
            "peak": stats["peak"],
            "records": count_live_nodes(),
        }
        self.rows.add(step, {"total": totals, "line": largest})

    def look(self) -> None:
        """Find the containers of tensors that grow."""
        sizes: dict[int, int] = {}
        growing: dict[str, dict[str, Any]] = {}
        for container, newest in containers_of_tensors():
            past = [seen.get(id(container), -1) for seen in self._looks]
            series = [*past, len(container)]
            sizes[id(container)] = len(container)
            if len(past) == LOOKS_OF_GROWTH and past[0] >= 0 and _grows(series):
                words = {
                    "counts": series,
                    "holders": [words_of(container)],
                    "place": self._place(newest),
                }
                growing.setdefault(line_of(newest), words)
        self._looks.append(sizes)
        self.leaks = growing

    def _place(self, tensor: Tensor) -> list[int] | None:
        node = value_of(tensor)
        if node.code is None:
            return None
        return [self.sources.number_of(node.code), line_number(node.code, node.offset_in_code)]

    def document(self) -> dict[str, Any]:
        """Rows, places of lines, leaks."""
        leaks = [{"line": name, **facts} for name, facts in self.leaks.items()]
        return {**self.rows.document(), "places": self.places, "leaks": leaks}


def line_of(tensor: Tensor) -> str:
    """The user's line that made a tensor's value; empty where that is not known."""
    node = value_of(tensor)
    return (
        "" if node.code is None else weft.errors.describe_position(node.code, node.offset_in_code)
    )


def _grows(series: list[int]) -> bool:
    return all(before < after for before, after in zip(series, series[1:], strict=False))


def containers_of_tensors() -> Iterator[tuple[Any, Tensor]]:
    """Lists, dicts and deques of the program whose newest entry is a tensor, or a tuple or dict with one; and that."""
    for found in gc.get_objects():
        if type(found) in (list, deque) and found:
            newest = tensor_in(found[-1])
            if newest is not None:
                yield found, newest
        elif type(found) is dict:
            for value in tuple(found.values()):
                # The collector does not list a dict of tensors alone.
                if type(value) is dict and value and not gc.is_tracked(value):
                    newest = tensor_in(next(reversed(value.values())))
                    if newest is not None:
                        yield value, newest


def tensor_in(entry: object) -> Tensor | None:
    """A tensor, or the first one directly in a tuple, list or dict."""
    if isinstance(entry, Tensor):
        return entry
    if type(entry) is dict:
        entry = tuple(entry.values())
    if isinstance(entry, (tuple, list)):
        return next((part for part in entry[:MOST_PARTS] if isinstance(part, Tensor)), None)
    return None


def words_of(container: Sized) -> str:
    """`a list of 12, train.history`."""
    name = _name_of(container)
    return f"a {type(container).__name__} of {len(container)}" + (f", {name}" if name else "")


def _name_of(container: object) -> str:
    """The variable or attribute that a container is the value of."""
    for holder in gc.get_referrers(container):
        if isinstance(holder, dict):
            key = next((k for k, value in holder.items() if value is container), None)
            owner = _owner_of(holder)
            if owner and isinstance(key, str):
                return f"{owner}.{key}"
    return _local_name(container)


def _local_name(container: object) -> str:
    """The local variable of a running function."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_PACKAGE):
            for key, value in frame.f_locals.items():
                if value is container:
                    return f"{key} in {frame.f_code.co_name}"
        frame = frame.f_back
    return ""


_PACKAGE = weft.__path__[0]


def _owner_of(namespace: dict[str, object]) -> str:
    """The module or object whose variables a dict holds."""
    name = namespace.get("__name__")
    if isinstance(name, str) and "__builtins__" in namespace:
        return name
    for holder in gc.get_referrers(namespace):
        if getattr(holder, "__dict__", None) is namespace:
            return type(holder).__name__
    return ""
