"""The page: the built front end, by itself for the server, or with a run inside as one file.

`page.html` is built from the sources in the folder `board` of the repository (decision 146). A saved page holds the
bytes of a run file in base64, in an element that no browser runs.
"""

from __future__ import annotations

import base64
from functools import cache
from pathlib import Path

from weft.errors import ArgumentError

TEMPLATE = Path(__file__).with_name("page.html")
PLACE = '<script type="application/octet-stream" id="run">'
END = "</script>"


@cache
def live_page() -> str:
    """The page without a run, which asks the server. Errors: FileNotFoundError where it was not built."""
    try:
        return TEMPLATE.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise FileNotFoundError(
            "weft.board: this installation has no page: install a wheel of weft, or build the page "
            "(npm ci && npm run build in the folder board of the repository; needs Node.js 20)"
        ) from None


def page_with(content: bytes) -> str:
    """The page with a run file inside."""
    head, place, rest = live_page().partition(PLACE)
    return head + place + base64.b64encode(content).decode("ascii") + rest


def content_of(page: bytes) -> bytes:
    """The run file in a saved page. Errors: ArgumentError where there is none."""
    _, found, rest = page.rpartition(PLACE.encode())
    text = rest.partition(END.encode())[0]
    try:
        if found and text:
            return base64.b64decode(text, validate=True)
    except ValueError:
        pass
    raise ArgumentError(
        "weft.board: there is no run in this page",
        expected="a page that board.save wrote",
        got="one without a run, or one that was cut",
        fix="save it again",
    )
