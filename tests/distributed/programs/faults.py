"""A loop of collectives in which one rank goes wrong: `faults.py HOW`, with a timeout of three seconds."""

from __future__ import annotations

import os
import signal
import sys
import time
from datetime import timedelta

import weft
import weft.distributed as dist

HOW = sys.argv[1]


def go_wrong() -> None:
    if HOW == "raise":
        raise ZeroDivisionError("on purpose")
    if HOW == "hang":
        time.sleep(60)
    if HOW == "leave":
        sys.exit(0)
    number = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "interrupt": signal.SIGINT}[HOW]
    os.kill(os.getpid(), number)


def main() -> None:
    dist.init_process_group(timeout=timedelta(seconds=3))
    dist.barrier()
    begun = time.monotonic()
    try:
        for step in range(100):
            if step == 3 and dist.get_rank() == 1:
                go_wrong()
            dist.all_reduce(weft.ones(1000))
    except RuntimeError as error:
        text = f"rank {dist.get_rank()} after {time.monotonic() - begun:.1f} s: {error}\n"
        os.write(1, text.encode())
        raise


if __name__ == "__main__":
    main()
