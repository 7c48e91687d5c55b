"""Capsules in notebooks: a table of their records, as HTML. Text of the user's program is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from weft.debug.capsules.records import CapsuleRecord
from weft.tensor.reading.html import STYLE

MOST_RECORDS = 1000


def table(title: str, records: Sequence[CapsuleRecord]) -> str:
    """The records of a capsule: number, operation, type and the user's line of each."""
    rows = [
        f"<tr><td>%{number}</td><td>{escape(_call(record.text(number)))}</td><td>{escape(record.type)}</td>"
        f"<td>{escape(record.line)}</td><td>{escape(record.source)}</td></tr>"
        for number, record in enumerate(records[:MOST_RECORDS])
    ]
    rest = len(records) - MOST_RECORDS
    more = f"<div>and {rest} more records</div>" if rest > 0 else ""
    return (
        f'<div style="{STYLE}"><b>{escape(title)}</b><table><tr><th></th><th>operation</th><th>type</th>'
        f"<th>line</th><th>source</th></tr>{''.join(rows)}</table>{more}</div>"
    )


def _call(text: str) -> str:
    return text.partition(" = ")[2].partition(" : ")[0]
