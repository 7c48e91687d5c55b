"""Errors between processes, under PyTorch's names."""

from __future__ import annotations

from weft.errors import WeftError


class DistError(WeftError, RuntimeError):
    """A collective that the ranks of a group do not agree on, or that cannot be done."""


class ReductionError(DistError, ValueError):
    """A reduction that a type of elements does not have."""


class DistBackendError(DistError):
    """A rank that has failed, ended, or did not come in time."""


class DistNetworkError(DistError):
    """A connection that cannot be made."""


class DistStoreError(DistError):
    """A store that cannot be reached."""


class QueueEmptyError(DistStoreError):
    """A queue of a store that has no value."""
