"""The board's server: who has the address sees the run, nobody else."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import weft
from weft.board.run import Run
from weft.board.run_file import load, save
from weft.board.server import Server


@pytest.fixture
def server() -> Iterator[Server]:
    run = Run(program="<b>train.py</b>")
    server = Server(run, 0)
    yield server
    server.close()


def ask(server: Server, path: str, **headers: str) -> tuple[int, bytes, dict[str, str]]:
    """Status, body and headers of an answer; `Host` as a browser sends it, unless given."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request(
        "GET", path, headers={name.replace("_", "-"): word for name, word in headers.items()}
    )
    answer = connection.getresponse()
    found = answer.status, answer.read(), dict(answer.getheaders())
    connection.close()
    return found


def test_the_page_and_the_parts_are_served(server: Server) -> None:
    base = f"/{server.token}/"
    status, page, headers = ask(server, base)
    assert status == 200 and b"Content-Security-Policy" in page
    assert "Access-Control-Allow-Origin" not in headers and headers["Cache-Control"] == "no-store"
    assert json.loads(ask(server, base + "versions")[1]) == {"run": 1}
    assert json.loads(ask(server, base + "part/run")[1])["program"] == "<b>train.py</b>"
    assert ask(server, base + "part/steps")[0] == 404
    assert ask(server, base + "part/../run")[0] == 404


def test_who_has_not_the_address_is_refused(server: Server) -> None:
    base = f"/{server.token}/"
    own = f"127.0.0.1:{server.port}"
    for path, headers in (
        ("/", {}),
        ("/wrong/", {}),
        (f"/{server.token[:-1]}/", {}),
        (base, {"Host": "evil.example"}),
        (base, {"Host": f"evil.example:{server.port}"}),
        (base, {"Origin": "http://evil.example"}),
        (base, {"Origin": "null"}),
        (base, {"Sec_Fetch_Site": "cross-site"}),
    ):
        assert ask(server, path, **{"Host": own, **headers})[0] == 403, (path, headers)
    assert (
        ask(server, base, Host=own, Origin=f"http://{own}", Sec_Fetch_Site="same-origin")[0] == 200
    )


def test_only_this_machine_is_listened_to(server: Server) -> None:
    assert server._http.server_address[0] == "127.0.0.1"


def test_a_port_in_use_is_passed_over() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        server = Server(Run(), taken.getsockname()[1])
        assert server.moved and server.port != taken.getsockname()[1]
        server.close()
    with pytest.raises(ValueError, match="no such port"):
        Server(Run(), 70000)


def test_a_browser_that_goes_away_harms_nobody(server: Server) -> None:
    for words in (
        b"",
        b"GET / HT",
        b"\x00\xff\r\n\r\n",
        f"GET /{server.token}/ HTTP/1.1\r\n".encode(),
    ):
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
            connection.sendall(words)
    assert ask(server, f"/{server.token}/versions")[0] == 200


def test_without_a_browser_the_address_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`weft board run.weft` where no browser is found: a word, and the address."""
    from weft.board import viewer

    class Interrupted:
        def wait(self) -> None:
            raise KeyboardInterrupt

    asked: list[str] = []
    monkeypatch.setattr(viewer.webbrowser, "open", lambda address: bool(asked.append(address)))
    monkeypatch.setattr(viewer, "threading", SimpleNamespace(Event=Interrupted))
    path = tmp_path / "run.weft"
    save(Run(program="train.py"), path)
    assert viewer.view(path, 0) == 0
    told = capsys.readouterr()
    assert asked[0] in told.out and "no browser was found" in told.err


def test_a_capsule_is_no_run(tmp_path: Path) -> None:
    """A capsule of `weft.debug.capture` has the same ending, and is refused with a word."""
    path = tmp_path / "bug.weft"
    with weft.debug.capture(path):
        weft.ones(2).exp().sum().item()
    with pytest.raises(ValueError, match="is no run that can be shown"):
        load(path)
