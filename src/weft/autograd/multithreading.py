"""The switch for backward on several threads, kept for programs that use it.

A walk runs on the thread that called it; what it records runs on as many threads as `set_num_threads` says. So there
is nothing to switch; the state is kept and given back.
"""

from __future__ import annotations

from weft.errors import ArgumentTypeError

_enabled = True


class set_multithreading_enabled:  # noqa: N801 - PyTorch's name
    """Remember the wish; as a context, put the former one back at the end.

    Args:
        mode: True or False; backward passes are the same.
    """

    def __init__(self, mode: bool) -> None:
        global _enabled
        if not isinstance(mode, bool):
            raise ArgumentTypeError(
                "set_multithreading_enabled(): argument 'enabled' (position 1) must be bool, not "
                f"{type(mode).__name__}",
                expected="True or False",
                got=repr(mode)[:60],
                fix="pass a bool",
            )
        self.previous, _enabled = _enabled, mode

    def __enter__(self) -> None:
        """Already in force."""

    def __exit__(self, *exc: object) -> None:
        global _enabled
        _enabled = self.previous


def is_multithreading_enabled() -> bool:
    """The last setting of multithreading."""
    return _enabled
