"""The board's server: one page and its parts, on 127.0.0.1, for who has the address with its token.

What another page or another machine asks is refused: the name in `Host`, the page in `Origin` and `Sec-Fetch-Site`,
and the token in the path are checked, and nothing is shared across origins. It only reads; a browser that goes away
ends its request and nothing else.
"""

from __future__ import annotations

import json
import secrets
import threading
import zlib
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from weft.board.page import live_page
from weft.board.run import PART_NAME, Run
from weft.errors import ArgumentError

FIRST_PORT, PORTS_TRIED = 8275, 64
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
SECONDS_OF_SILENCE = 20  # after which a connection is closed


class Server:
    """Serves a run from a thread of its own, which ends with the program."""

    def __init__(self, run: Run, port: int | None = None) -> None:
        self.token = secrets.token_urlsafe(24)
        self._http = _bind(port)
        self._http.run, self._http.token = run, self.token  # type: ignore[attr-defined]
        self.port: int = self._http.server_address[1]
        self.moved = port is not None and port != 0 and self.port != port
        self._thread = threading.Thread(
            target=self._http.serve_forever, name="weft.board", daemon=True
        )
        self._thread.start()

    @property
    def address(self) -> str:
        """The address of the page, token and all."""
        return f"http://127.0.0.1:{self.port}/{self.token}/"

    def close(self) -> None:
        """Serve no longer."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = False
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that goes away in the middle of an answer is no error of the program's."""


def _bind(port: int | None) -> _Http:
    """A server on the given port, or the next one that is free."""
    first = FIRST_PORT if port is None else port
    if not isinstance(first, int) or not 0 <= first < 1 << 16:
        raise ArgumentError(
            "weft.board: there is no such port",
            expected="a number from 0 (any that is free) to 65535",
            got=repr(port),
            fix="leave port out",
        )
    for tried in range(first, min(first + PORTS_TRIED, 1 << 16)) if first else (0,):
        try:
            return _Http(("127.0.0.1", tried), _Handler)
        except OSError:
            continue
    return _Http(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = SECONDS_OF_SILENCE
    server_version, sys_version = "weft.board", ""
    server: Any

    def do_GET(self) -> None:  # noqa: N802 - the name that the library calls
        """The page, the versions of the parts, or a part."""
        path = self._path()
        if path is None:
            self._answer(
                HTTPStatus.FORBIDDEN,
                b"refused: open the whole address that weft printed",
                "text/plain",
            )
        elif path == "":
            self._answer(HTTPStatus.OK, live_page().encode(), "text/html; charset=utf-8")
        elif path == "versions":
            self._answer_json(json.dumps(self.server.run.versions()).encode())
        else:
            name = path.removeprefix("part/")
            part = self.server.run.get(name) if PART_NAME.match(name) else None
            if part is None:
                self._answer(HTTPStatus.NOT_FOUND, b"no such part", "text/plain")
            else:
                self._answer_json(part)

    def _path(self) -> str | None:
        """The name of what is asked for, below the token; None for who may not ask."""
        own = {f"{name}:{self.server.server_address[1]}" for name in ("127.0.0.1", "localhost")}
        if self.headers.get("Host") not in own:
            return None
        origin = self.headers.get("Origin")
        if origin is not None and origin.removeprefix("http://") not in own:
            return None
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return None
        token, _, rest = self.path.removeprefix("/").partition("/")
        given = token.encode("utf-8", "replace")
        return rest if secrets.compare_digest(given, self.server.token.encode()) else None

    def _answer_json(self, text: bytes) -> None:
        self._answer(HTTPStatus.OK, text, "application/json")

    def _answer(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        packed = "gzip" in self.headers.get("Accept-Encoding", "") and len(body) > 4096
        if packed:
            pack = zlib.compressobj(1, zlib.DEFLATED, 31)
            body = pack.compress(body) + pack.flush()
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        if packed:
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        """Nothing is printed for a request."""
