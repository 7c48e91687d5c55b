"""What all tests begin with."""

from __future__ import annotations

import signal

# A shell that runs the suite in the background has it ignore Ctrl-C, and what it starts would, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
