"""What all tests begin with."""

from __future__ import annotations

import signal

# A shell that runs the suite in the background has it ignore these signals, and what it starts would, too.
for _number, _usual in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)
