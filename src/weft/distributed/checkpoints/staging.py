"""Staging: how PyTorch's programs say that values are copied before a checkpoint is written in the background.

Here they are copied at the call, and a thread writes; what programs make and pass for that is accepted.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum

from weft.distributed.checkpoints.metadata import Metadata


class AsyncCheckpointerType(Enum):
    """The kinds of background: a thread writes in any case."""

    THREAD = "thread"
    PROCESS = "process"


@dataclass
class AsyncSaveResponse:
    """The futures of an asynchronous save.

    Args:
        staging_completion: done when the program may change its values: at once.
        upload_completion: done when the checkpoint is complete.
    """

    staging_completion: Future[None]
    upload_completion: Future[Metadata]

    @classmethod
    def of(cls, writing: Future[Metadata]) -> AsyncSaveResponse:
        """The futures of a save whose values have been copied.

        Args:
            writing: the future of the save.
        """
        copied: Future[None] = Future()
        copied.set_result(None)
        return cls(copied, writing)


@dataclass
class StagingOptions:
    """Options of copying, all of them accepted: there is one memory.

    Args:
        use_pinned_memory: accepted. Default: True.
        use_shared_memory: accepted. Default: True.
        use_async_staging: accepted. Default: True.
        use_non_blocking_copy: accepted. Default: True.
    """

    use_pinned_memory: bool = True
    use_shared_memory: bool = True
    use_async_staging: bool = True
    use_non_blocking_copy: bool = True


class AsyncStager:
    """An object that copies values. Programs derive classes from it, to which nothing is given here."""

    def close(self) -> None:
        """Nothing: there is nothing to free."""


class DefaultStager(AsyncStager):
    """The stager with which `async_save` gives two futures.

    Args:
        config: accepted, without effect.

    Example:
        >>> import tempfile
        >>> import weft
        >>> import weft.distributed.checkpoint as dcp
        >>> from weft.distributed.checkpoint.staging import DefaultStager
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     state = {"step": weft.tensor(7)}
        ...     saving = dcp.async_save(state, checkpoint_id=folder, async_stager=DefaultStager())
        ...     saving.staging_completion.result()  # from here on values may change
        ...     found = saving.upload_completion.result()
        >>> list(found.state_dict_metadata)
        ['step']
    """

    def __init__(self, config: StagingOptions = StagingOptions()) -> None:  # noqa: B008 - never changed
        self.config = config


class BlockingAsyncStager(AsyncStager):
    """A stager of PyTorch's that copies at the call, as is done here anyhow.

    Args:
        cache_staged_state_dict: accepted. Default: False.
        type_check: accepted. Default: False.
    """

    def __init__(self, cache_staged_state_dict: bool = False, type_check: bool = False) -> None:
        self.cache_staged_state_dict, self.type_check = cache_staged_state_dict, type_check
