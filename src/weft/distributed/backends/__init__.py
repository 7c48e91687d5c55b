"""Backends: what carries bytes between the processes of a group. `protocol` says what one has to do.

`local` is a group of one process, `mpi` is MPI by mpi4py, `ray` an actor and the object store of a Ray cluster. Nothing
here knows tensors: reductions are Weft's own (`reduction`), so that they have the same bits on every backend.
"""
