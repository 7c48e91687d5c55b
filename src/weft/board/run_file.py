"""A run as a file: a zip archive of its parts, JSON each, without code.

`save` writes one, or a page with one inside, as the name ends. `load` reads either, and refuses what is truncated,
hostile or of another version: every part has a known name, a bounded size, and columns that fit each other.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from weft.board.page import content_of, page_with
from weft.board.run import FORMAT, PART_NAME, VERSION, Document, Run
from weft.errors import ArgumentError

MOST_BYTES = 1 << 30  # of all parts, unpacked
MOST_PARTS = 64
NODE_COLUMNS = {
    "kind": "kinds",
    "op": "operations",
    "type": "types",
    "line": "lines",
    "text": "texts",
}

TIME_COLUMNS = (
    ("events", "name", "names"),
    ("events", "kind", "kinds"),
    ("events", "row", "rows"),
    ("events", "line", "lines"),
    ("events", "module", "modules"),
    ("events", "kernel", "kernels"),
    ("events", "text", "texts"),
    ("memory", "name", "names"),
    ("memory", "line", "lines"),
    ("memory", "module", "modules"),
)
LONGEST_NS = 1 << 53


def packed(run: Run) -> bytes:
    """The run as the bytes of a file."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, text in sorted(run.parts().items()):
            archive.writestr(zipfile.ZipInfo(f"{name}.json"), text, zipfile.ZIP_DEFLATED)
    return file.getvalue()


def save(run: Run, path: str | os.PathLike[str]) -> str:
    """Write a run to a file, all or nothing: a page where the name ends in `.html`, else a run file."""
    target = Path(path)
    content = packed(run)
    if target.suffix.lower() in (".html", ".htm"):
        content = page_with(content).encode()
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return os.fspath(path)


def load(path: str | os.PathLike[str]) -> Run:
    """The run in a file or in a saved page.

    Args:
        path: what `Board.save` wrote: a run file or a page.

    Errors: ValueError where it is none, OSError where it cannot be read.
    """
    content = Path(path).read_bytes()
    if content.lstrip()[:1] == b"<":
        content = content_of(content)
    try:
        parts = _unpacked(content)
        documents = {name: _parsed(text) for name, text in parts.items()}
        _check(documents)
    except (
        zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RecursionError,
        KeyError, TypeError, ValueError, RuntimeError,
    ) as error:  # fmt: skip
        raise ArgumentError(
            f"weft.board: {os.fspath(path)} is no run that can be shown",
            expected=f"a file that board.save wrote, of version {VERSION}",
            got=str(error) or type(error).__name__,
            fix="save the run again, with this version of weft",
        ) from None
    return _run_of(documents, parts)


def _run_of(documents: Document, parts: dict[str, bytes]) -> Run:
    run = Run(**{k: v for k, v in documents["run"].items() if k not in ("graphs", "times")})
    run.graphs, run.times = documents["run"]["graphs"], documents["run"].get("times", [])
    for name, text in parts.items():
        run.put_text(name, text)
    return run


def _unpacked(content: bytes) -> dict[str, bytes]:
    """The parts of an archive, none larger than it says, all together within bounds."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = archive.infolist()
        _need(len(entries) <= MOST_PARTS, f"{len(entries)} parts")
        _need(sum(entry.file_size for entry in entries) <= MOST_BYTES, "more than 1 GB")
        parts: dict[str, bytes] = {}
        for entry in entries:
            name = entry.filename.removesuffix(".json")
            known = entry.filename.endswith(".json") and PART_NAME.match(name) and name not in parts
            _need(known, f"a part named {entry.filename[:80]!r}")
            with archive.open(entry) as file:
                parts[name] = file.read(entry.file_size + 1)
            _need(len(parts[name]) == entry.file_size, f"{name} is not as long as it says")
    return parts


def _parsed(text: bytes) -> Any:
    def refuse(word: str) -> None:
        raise ValueError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def _check(documents: Document) -> None:
    run = documents.get("run")
    _need(isinstance(run, dict) and run.get("format") == FORMAT, "no run")
    assert isinstance(run, dict)
    _need(run.get("version") == VERSION, f"version {run.get('version')!r}")
    _need(isinstance(run.get("graphs"), list), "no list of graphs")
    _need(isinstance(run.get("times", []), list), "no list of times")
    for name, listed in (("graph", run["graphs"]), ("time", run.get("times", []))):
        for summary in listed:
            _need(f"{name}/{int(summary['id'])}" in documents, f"a {name} that is not there")
    for name, document in documents.items():
        _need(isinstance(document, dict), f"{name} is not an object")
        if name.startswith("graph/"):
            _check_graph(document)
        elif name.startswith("time/"):
            _check_time(document)
        elif name in ("steps", "memory"):
            _check_rows(name, document)
    for file in documents.get("sources", {"files": []})["files"]:
        _need(isinstance(file["name"], str), "a source without a name")
        _need(file["text"] is None or isinstance(file["text"], str), "a source that is no text")


def _check_graph(graph: Document) -> None:
    """Numbers of tables and nodes stand within them, columns have one length."""
    nodes = graph["nodes"]
    count = len(nodes["op"])
    for column, values in nodes.items():
        _need(len(values) == count, f"column {column} has {len(values)} of {count} rows")
    for column, table in NODE_COLUMNS.items():
        _need_numbers(nodes[column], -1 if column == "line" else 0, len(graph[table]))
    _need_numbers(nodes["stack"], -1, count)
    _need_numbers(nodes["scope"], -1, len(graph["scopes"]))
    for number, scope in enumerate(graph["scopes"]):
        _need_numbers([scope["parent"]], -1, number)
        _need(isinstance(scope["name"], str) and isinstance(scope["class"], str), "a scope's name")
    for table in ("kinds", "operations", "types", "texts"):
        _need(all(isinstance(text, str) for text in graph[table]), f"{table} that are no texts")
    _check_lines(graph["lines"])
    edges = graph["edges"]
    _need(len(edges["from"]) == len(edges["to"]) == len(edges["gradient"]), "arrows without ends")
    for end in ("from", "to"):
        _need_numbers(edges[end], 0, count)
    values = graph["values"]
    _need_numbers(values.get("node", []), 0, count)
    _need(len({len(column) for column in values.values()}) <= 1, "statistics of other lengths")


def _check_time(document: Document) -> None:
    """Numbers of tables, rows, kernels and events stand within them, columns have one length."""
    events, memory, kernels = document["events"], document["memory"], document["kernels"]
    count = len(events["name"])
    for column, values in events.items():
        _need(len(values) == count, f"column {column} has {len(values)} of {count} events")
    for column, values in memory.items():
        _need(len(values) == len(memory["bytes"]), f"blocks: column {column}")
    for table in ("names", "kinds", "modules", "texts", "irs", "rows"):
        _need(all(isinstance(text, str) for text in document[table]), f"{table} that are no texts")
    for columns, column, table in TIME_COLUMNS:
        low = -1 if table in ("lines", "kernels") else 0
        _need_numbers(document[columns][column], low, len(document[table]))
    for number, parent in enumerate(events["parent"]):
        _need_numbers([parent], -1, number)
    for column in ("begin", "end"):
        _need_numbers(events[column], -LONGEST_NS, LONGEST_NS)
        _need_numbers(memory[column], -LONGEST_NS, LONGEST_NS)
    _need_numbers(memory["bytes"], 0, 1 << 53)
    _need_numbers(memory["slot"], -1, 1 << 31)
    for kernel in kernels:
        _need(isinstance(kernel["name"], str), "a kernel without a name")
        _need_numbers([kernel["ir"]], 0, len(document["irs"]))
        for name, line, shape, *figures in kernel["operations"]:
            _need_numbers([name], 0, len(document["names"]))
            _need_numbers([line], -1, len(document["lines"]))
            _need(isinstance(shape, str) and len(figures) == 3, "an operation of a kernel")
    _check_lines(document["lines"])


def _check_lines(lines: Iterable[list[object]]) -> None:
    for line in lines:
        _need(len(line) == 3 and isinstance(line[2], str), "a line that is none")
        _need_numbers(line[:2], -1, 1 << 31)


def _check_rows(name: str, table: Document) -> None:
    count = len(table["step"])
    for group in table["columns"].values():
        for values in group.values():
            _need(len(values) == count, f"{name}: a column of {len(values)} of {count} rows")


def _need_numbers(values: Iterable[object], low: int, end: int) -> None:
    for value in values:
        _need(type(value) is int and low <= value < end, f"{str(value)[:40]} is out of range")


def _need(holds: object, words: str) -> None:
    if not holds:
        raise ValueError(words)
