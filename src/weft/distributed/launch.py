"""The launcher's word on who this process is: rank and number of processes, from what an MPI launcher sets.

`name_ranks` says the same in the variables that programs for `torchrun` read. Nothing of MPI is imported.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

# Rank, size, rank on this machine, size on this machine: Open MPI's names, then those of MPICH's and Intel's launchers.
_LAUNCHERS = (
    (
        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
)  # fmt: skip
_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")


class Launched(NamedTuple):
    """This process among those that one launcher started."""

    rank: int
    size: int
    local_rank: int
    local_size: int


def launched() -> Launched | None:
    """The place of this process among those of an MPI launcher; None where none started it."""
    for rank, size, local_rank, local_size in _LAUNCHERS:
        if rank in os.environ and size in os.environ:
            return Launched(
                int(os.environ[rank]),
                int(os.environ[size]),
                int(os.environ.get(local_rank, os.environ[rank])),
                int(os.environ.get(local_size, os.environ[size])),
            )
    return None


def name_ranks() -> None:
    """Set RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT as `torchrun` does, where an MPI
    launcher started this process. What is set already stays."""
    found = launched()
    if found is None:
        return
    for name, value in zip(_VARIABLES, found, strict=True):
        os.environ.setdefault(name, str(value))
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")


def record(fn: Callable[P, R], error_handler: object = None) -> Callable[P, R]:
    """The function itself: PyTorch's decorator for a program's main function, which tells its launcher of an error.
    Here every error that ends a program is told to the other ranks.

    Args:
        fn: the function.
        error_handler: accepted, without effect; None: the same.

    Example:
        >>> from weft.distributed.launch import record
        >>> @record
        ... def main() -> int:
        ...     return 3
        >>> main()
        3
    """
    return fn
