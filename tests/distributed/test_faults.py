"""A rank that dies, hangs, fails or leaves: the others say in seconds which rank, why, and where they waited, and
nothing is left behind."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ranks import needs_mpi, run

REASONS = {
    "kill": r"rank 1 is gone: process \d+ was killed, or (?:ended without a word|cannot be reached)",
    "stop": r"rank 1 is stopped \(process \d+\)",
    "hang": r"rank 1 does not answer \(process \d+\): it runs other code, or hangs",
    "raise": r"rank 1 has failed with ZeroDivisionError at faults.py:\d+ in go_wrong: on purpose",
    "interrupt": r"rank 1 has failed with KeyboardInterrupt at faults.py:\d+ in go_wrong",
    "leave": r"rank 1 has ended its program",
}
REASONS |= {
    f"{where} {how}": REASONS[how]
    for where, how in [
        *(("forward", "kill"), ("backward", "kill"), ("backward", "stop")),
        *(("forward", "interrupt"), ("backward", "raise")),
    ]
}
# A network of the processes' own, over which everything goes; half a megabyte a second.
SLOW = "ip link set lo up && tc qdisc add dev lo root tbf rate 4mbit burst 128kb latency 400ms"
BY_NETWORK = {
    "OMPI_MCA_btl": "self,tcp",
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl_tcp_if_include": "lo",
}


def in_folder(folder: Path) -> dict[str, str]:
    """Variables that have MPI put its files and shared memory into a folder."""
    return {
        "OMPI_MCA_btl_sm_backing_directory": str(folder),
        "PRTE_MCA_prte_tmpdir_base": str(folder),
    }


@needs_mpi
@pytest.mark.parametrize("how", REASONS)
def test_the_others_say_what_happened(how: str, tmp_path: Path) -> None:
    printed = run(3, "faults.py", how, more=in_folder(tmp_path), status=None)
    for rank in (0, 2):
        said = re.search(rf"rank {rank} after ([\d.]+) s: (?:all_reduce|gradients): (.*)", printed)
        assert said is not None, printed
        assert (
            float(said[1]) < 30
        )  # a second, or the timeout and another; a busy machine takes longer
        assert re.search(REASONS[how], said[2]), printed
        assert "called at faults.py:" in said[2]
    left = subprocess.run(["pgrep", "-f", f"faults.py {how}$"], capture_output=True, text=True)
    assert left.stdout == ""
    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == []


def can_be_slow() -> bool:
    """True if this process may have a network of its own, and make it slow."""
    tools = all(shutil.which(name) for name in ("unshare", "ip", "tc"))
    command = ["unshare", "-n", "sh", "-c", SLOW]
    return tools and subprocess.run(command, capture_output=True).returncode == 0


@needs_mpi
@pytest.mark.skipif(not can_be_slow(), reason="needs the right to make a network (unshare -n, tc)")
@pytest.mark.parametrize("how", ["nothing", *REASONS])
def test_a_slow_network_is_waited_for_and_hides_nothing(how: str) -> None:
    within = ("unshare", "-n", "sh", "-c", f'{SLOW} && exec "$@"', "sh")
    printed = run(3, "faults.py", how, within=within, more=BY_NETWORK, status=None)
    for rank in (0, 1, 2) if how == "nothing" else (0, 2):
        said = rf"rank {rank} ends" if how == "nothing" else rf"rank {rank} after .*{REASONS[how]}"
        assert re.search(said, printed), printed
    assert how == "nothing" or "called at faults.py:" in printed


@needs_mpi
def test_ranks_of_one_machine_listen_at_the_address_that_is_given_alone() -> None:
    found = re.findall(r"rank (\d) listens at (.*)", run(2, "open_ports.py"))
    assert ("0", "127.0.0.1") in found  # its store
    assert {address for _, address in found} <= {"127.0.0.1"}, found
