"""The records of a capsule: an operation or a value each, by number, with plain data and text only.

They are what is common to those who write a capsule (`capture`) and those who read one (`capsule`): the classes, their
form as JSON values, and the digest of a value.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.engine.runtime.array_pieces import pieces
from weft.io.saving import from_plain_json, to_plain_json

if TYPE_CHECKING:
    from weft._typing import Array

VALUE = "value"  # the operation of a record that is a value from outside
DIGEST_BYTES = 16
FIELDS = (
    *("op", "in", "params", "dtype", "shape", "line", "source", "gradient", "edges", "digest"),
    *("terms", "name", "error"),
)


@dataclass(frozen=True)
class ScalarOperand:
    """A Python number among operands, of a dtype."""

    value: Any
    dtype: str

    def __repr__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True)
class CapsuleRecord:
    """An operation, or a value from outside (`op` is "value"). `inputs` are numbers of earlier records, or a
    `ScalarOperand`; `edges` are those that its cotangents go to. `line` and `source` are the user's line and its text.
    `digest` is that of the value, where somebody held it, `error` the class of what computing it raised; `terms` are
    those of rows that a batch gathered."""

    op: str
    inputs: tuple[int | ScalarOperand, ...]
    params: Any
    dtype: str
    shape: tuple[int, ...]
    line: str = ""
    source: str = ""
    gradient: str = ""
    edges: tuple[int | None, ...] | None = None
    digest: str = ""
    terms: Any = None
    name: str = ""
    error: str = ""

    @property
    def type(self) -> str:
        """`float32[2, 3]`."""
        return f"{self.dtype}{list(self.shape)}"

    def sources(self) -> Iterator[int]:
        """The numbers of the records that it reads."""
        return (source for source in self.inputs if not isinstance(source, ScalarOperand))

    def text(self, number: int) -> str:
        """`%3 = mul(%1, 2.0) : float32[2]  train.py:4 in step`."""
        if self.op == VALUE:
            call = f"value {self.name}".rstrip()
        else:
            read = (f"%{i}" if isinstance(i, int) else repr(i) for i in self.inputs)
            params = "" if self.params is None else f" {self.params!r}"
            call = f"{self.op}({', '.join(read)}){params}"
        state = " held" if self.digest else f" raised {self.error}" if self.error else ""
        return f"%{number} = {call} : {self.type}{state}  {self.line}".rstrip()


def to_json(record: CapsuleRecord) -> dict[str, Any]:
    """A record as JSON values; fields that say nothing are left out. Errors: TypeError for params that files lack."""
    read = [
        i if isinstance(i, int) else {"number": to_plain_json(i.value), "dtype": i.dtype}
        for i in record.inputs
    ]
    values = (
        *(record.op, read, to_plain_json(record.params), record.dtype, list(record.shape)),
        *(record.line, record.source, record.gradient),
        None if record.edges is None else list(record.edges),
        *(record.digest, record.terms, record.name, record.error),
    )
    pairs = zip(FIELDS, values, strict=True)
    kept = ("op", "in", "dtype", "shape")
    return {name: value for name, value in pairs if name in kept or value not in (None, "")}


def from_json(entry: dict[str, object]) -> CapsuleRecord:
    """The record that `to_json` wrote. Errors: TypeError, ValueError, KeyError, LookupError for anything else."""
    strangers = set(entry) - set(FIELDS)
    if strangers:
        raise ValueError(f"fields that no record has: {sorted(strangers)}")
    texts = {field: _text(entry.get(field, "")) for field in FIELDS[5:8]}
    edges: object = entry.get("edges")
    return CapsuleRecord(
        op=_text(entry["op"]),
        inputs=tuple(_operand(source) for source in _list(entry["in"])),
        params=from_plain_json(entry.get("params")),
        dtype=_text(entry["dtype"]),
        shape=tuple(_size(size) for size in _list(entry["shape"])),
        **texts,
        edges=None
        if edges is None
        else tuple(None if e is None else _size(e) for e in _list(edges)),
        digest=_text(entry.get("digest", "")),
        terms=_terms(entry.get("terms")),
        name=_text(entry.get("name", "")),
        error=_text(entry.get("error", "")),
    )


def _operand(source: object) -> int | ScalarOperand:
    if isinstance(source, dict):
        return ScalarOperand(
            _plain_number(from_plain_json(source["number"])), _text(source["dtype"])
        )
    return _size(source)


def _plain_number(value: object) -> Any:
    if not isinstance(value, bool | int | float | complex):
        raise TypeError(f"{value!r:.50} is no number")
    return value


def _terms(terms: object) -> Any:
    """Three lists of integers: the values of terms, their rows, and where those of a row begin (or None)."""
    if terms is None:
        return None
    numbers, rows, offsets = _list(terms)
    parts = [numbers, rows, *([] if offsets is None else [offsets])]
    if not all(type(item) is int for part in parts for item in _list(part)):
        raise TypeError("terms that are no integers")
    return [numbers, rows, offsets]


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.50} is no text")
    return value


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r:.50} is no list")
    return value


def _size(value: object) -> int:
    if type(value) is not int or not 0 <= value < 1 << 62:
        raise TypeError(f"{value!r:.50} is no size")
    return value


def digest_of(array: Array) -> str:
    """The digest of a value: its bytes in row-major order, hashed by BLAKE2b."""
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for piece in pieces(array):
        digest.update(piece.tobytes())
    return digest.hexdigest()
