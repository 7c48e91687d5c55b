"""Variable: what tensors with gradients were called before PyTorch 0.4."""

from __future__ import annotations

from typing import Any

from weft.graph.tensor import Tensor


def Variable(data: Tensor, requires_grad: bool = False, volatile: Any = None) -> Tensor:  # noqa: N802 - PyTorch's name
    """The tensor, detached; it asks for a gradient if told so."""
    return data.detach().requires_grad_(requires_grad)
