"""A rank that dies, hangs, fails or leaves: the others say in seconds which rank, why, and where they waited."""

from __future__ import annotations

import re
import subprocess

import pytest

from ranks import needs_mpi, run

REASONS = {
    "kill": r"rank 1 is gone: process \d+ was killed, or ended without a word",
    "stop": r"rank 1 is stopped \(process \d+\)",
    "hang": r"rank 1 does not answer \(process \d+\): it runs other code, or hangs",
    "raise": r"rank 1 has failed with ZeroDivisionError at faults.py:\d+ in go_wrong: on purpose",
    "interrupt": r"rank 1 has failed with KeyboardInterrupt at faults.py:\d+ in go_wrong",
    "leave": r"rank 1 has ended its program",
}


@needs_mpi
@pytest.mark.parametrize("how", REASONS)
def test_the_others_say_what_happened(how: str) -> None:
    printed = run(3, "faults.py", how, status=None)
    for rank in (0, 2):
        said = re.search(rf"rank {rank} after ([\d.]+) s: all_reduce: (.*)", printed)
        assert said is not None, printed
        assert (
            float(said[1]) < 30
        )  # a second, or the timeout and another; a busy machine takes longer
        assert re.search(REASONS[how], said[2]), printed
        assert "called at faults.py:" in said[2]
    left = subprocess.run(["pgrep", "-f", f"faults.py {how}$"], capture_output=True, text=True)
    assert left.stdout == ""
