"""`weft board run.weft`: a saved run in the browser, until Ctrl-C."""

from __future__ import annotations

import os
import sys
import threading
import webbrowser

from weft.board.run_file import load
from weft.board.server import Server


def view(path: str | os.PathLike[str], port: int | None = None, browser: bool = True) -> int:
    """Serve the run in a file, open a browser on it where there is one, and wait; the exit status.

    Errors: ValueError where the file is no run, OSError where it cannot be read."""
    run = load(path)
    run.facts["finished"] = True
    run.put_facts()
    server = Server(run, port)
    if server.moved:
        print(f"weft board: port {port} is in use", file=sys.stderr)
    print(f"weft board: {server.address} (Ctrl-C ends it)", flush=True)
    if browser and not webbrowser.open(server.address):
        print("weft board: no browser was found: open the address in one", file=sys.stderr)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        print()
    finally:
        server.close()
    return 0
