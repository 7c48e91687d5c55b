"""Objects with a state that checkpoints hold: PyTorch's protocol."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Stateful(Protocol):
    """An object whose state a checkpoint saves, and gives back when it is loaded. Programs derive classes from it.

    Example:
        >>> import weft
        >>> from weft.distributed.stateful import Stateful
        >>> isinstance(weft.nn.Linear(2, 1), Stateful)
        True
    """

    def state_dict(self) -> dict[str, Any]:
        """The state, as a dictionary of tensors and plain values."""

    def load_state_dict(self, state_dict: dict[str, object]) -> None:
        """Take a state.

        Args:
            state_dict: what `state_dict` gave.
        """
