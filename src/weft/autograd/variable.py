"""Variable: what tensors with gradients were called before PyTorch 0.4."""

from __future__ import annotations

from typing import Any

from weft.engine.backward.callbacks import ExecutionEngine
from weft.engine.frontend.tensor import Tensor


class VariableMeta(type):
    """The metaclass that makes every tensor an instance of Variable."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Tensor)


class Variable(metaclass=VariableMeta):
    """The tensor, detached; it asks for a gradient if told so. Every tensor is an instance.

    Args:
        data: the values.
        requires_grad: True: operations on it are recorded for `backward`.
        volatile: accepted, without effect; None: the same.
    """

    _execution_engine = ExecutionEngine()

    def __new__(  # type: ignore[misc]
        cls, data: Tensor, requires_grad: bool = False, volatile: Any = None
    ) -> Tensor:
        """A tensor with the same values."""
        return data.detach().requires_grad_(requires_grad)


_is_checkpoint_valid = ExecutionEngine.is_checkpoint_valid  # packages with reversible layers ask it

__all__ = ["Variable", "VariableMeta"]
