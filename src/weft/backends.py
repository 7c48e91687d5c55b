"""Switches of back ends that PyTorch programs set. They can be set and read; here they change nothing.

Results are deterministic and the same on any number of threads whatever the switches say.
"""

from __future__ import annotations


class _Switches:
    """The flags of one back end that does not exist here."""

    def __init__(self, **flags: bool) -> None:
        self.__dict__.update(flags)

    def is_available(self) -> bool:
        """Whether the back end exists: no."""
        return False

    def is_built(self) -> bool:
        """Whether the back end was compiled in: no."""
        return False


cudnn = _Switches(enabled=False, benchmark=False, deterministic=True, allow_tf32=False)
mps = _Switches()
mkldnn = _Switches(enabled=False)
cuda = _Switches()
cuda.matmul = _Switches(allow_tf32=False)  # type: ignore[attr-defined]
