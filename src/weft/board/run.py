"""A run as plain data: named parts, each a JSON document, that one thread writes and others read.

The recorder puts parts in, the server and the file take them out. A part's version counts how often it has changed, so
that a page asks only for what is new. Nothing here refers to a tensor.
"""

from __future__ import annotations

import json
import linecache
import math
import os
import re
import threading
from types import CodeType
from typing import Any

Document = dict[str, Any]  # of JSON
FORMAT, VERSION = "weft.board", 1
PART_NAME = re.compile(r"(run|steps|histograms|memory|sources|graph/[0-9]{1,9}|time/[0-9]{1,9})\Z")
MOST_GRAPHS, MOST_TIMES = 16, 6  # kept in a run: the first and the newest
MOST_FILES, MOST_FILE_BYTES = 64, 400_000  # of source text


def number(value: float | None) -> float | str | None:
    """A float as JSON can hold it: what is not finite becomes its name."""
    if value is None or math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def rounded(value: float | None) -> float | str | None:
    """`number` to six digits, for what is only looked at."""
    return number(value) if value is None or not math.isfinite(value) else float(f"{value:.6g}")


class Table:
    """Values by the order in which they first came."""

    def __init__(self) -> None:
        self.rows: dict[Any, int] = {}

    def number(self, row: object) -> int:
        """The number of a row."""
        return self.rows.setdefault(row, len(self.rows))

    def listed(self) -> list[Any]:
        """The rows by number."""
        return list(self.rows)


class Run:
    """The parts of a run."""

    def __init__(self, **facts: object) -> None:
        self._lock = threading.Lock()
        self._parts: dict[str, bytes] = {}
        self._versions: dict[str, int] = {}
        self.facts: Document = {"format": FORMAT, "version": VERSION, **facts}
        self.graphs: list[Document] = []
        self.times: list[Document] = []
        self.sources = SourceFiles()
        self.put_facts()

    def put_facts(self) -> None:
        """Write the part that lists the others."""
        self.put("run", {**self.facts, "graphs": self.graphs, "times": self.times})

    def put(self, name: str, document: object) -> None:
        """Write a part anew."""
        assert PART_NAME.match(name), name
        text = json.dumps(document, allow_nan=False, separators=(",", ":")).encode()
        self.put_text(name, text)

    def put_text(self, name: str, text: bytes) -> None:
        """Write a part that is JSON already."""
        with self._lock:
            self._parts[name] = text
            self._versions[name] = self._versions.get(name, 0) + 1

    def put_graph(self, summary: Document, document: object) -> None:
        """Add the graph of a step; of many, the second oldest goes."""
        self._put_numbered("graph", self.graphs, MOST_GRAPHS, summary, document)

    def put_time(self, summary: Document, document: object) -> None:
        """Add what ran in a step; of many, the second oldest goes."""
        self._put_numbered("time", self.times, MOST_TIMES, summary, document)

    def _put_numbered(
        self, name: str, listed: list[Document], most: int, summary: Document, document: object
    ) -> None:
        self.put(f"{name}/{summary['id']}", document)
        listed.append(summary)
        if len(listed) > most:
            gone = f"{name}/{listed.pop(1)['id']}"
            with self._lock:
                del self._parts[gone], self._versions[gone]
        self.put_facts()
        if self.sources.changed:
            self.put("sources", self.sources.document())

    def get(self, name: str) -> bytes | None:
        """The JSON of a part."""
        with self._lock:
            return self._parts.get(name)

    def parts(self) -> dict[str, bytes]:
        """All parts, as they are now."""
        with self._lock:
            return dict(self._parts)

    def versions(self) -> dict[str, int]:
        """The version of each part."""
        with self._lock:
            return dict(self._versions)


class SourceFiles:
    """The user's files that lines of a run are in, numbered."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.changed = False

    def number_of(self, code: CodeType) -> int:
        """The number of a code object's file; -1 where there are too many."""
        return self.number_of_path(code.co_filename)

    def number_of_path(self, path: str) -> int:
        """The number of a file."""
        found = self._numbers.get(path)
        if found is None:
            if len(self._numbers) == MOST_FILES:
                return -1
            found = self._numbers[path] = len(self._numbers)
            self.changed = True
        return found

    def document(self) -> dict[str, Any]:
        """Names and texts, as they are on disk now."""
        self.changed = False
        return {"files": [_file(path) for path in self._numbers]}


def _file(path: str) -> dict[str, Any]:
    below = os.path.relpath(path) if os.path.isabs(path) else path
    name = os.path.basename(path) if below.startswith("..") else below
    text = "".join(linecache.getlines(path))
    return {"name": name, "text": text if len(text) <= MOST_FILE_BYTES else None}
