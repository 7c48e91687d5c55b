"""ShapeProp: runs a graph and notes on each node the shape, dtype and layout of its value."""

from __future__ import annotations

from typing import Any, NamedTuple

import weft

from ..interpreter import Interpreter
from ..node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """The shape, dtype and layout of a tensor."""

    shape: Any
    dtype: Any
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: Any
    is_quantized: bool
    qparams: dict[str, Any]


_FORMATS = (weft.contiguous_format, weft.channels_last, weft.channels_last_3d)


def _is_in(tensor: weft.Tensor, memory_format: Any) -> bool:
    dims = {weft.channels_last: 4, weft.channels_last_3d: 5}.get(memory_format, tensor.dim())
    return tensor.dim() == dims and tensor.is_contiguous(memory_format=memory_format)


def _extract_tensor_metadata(
    result: weft.Tensor, include_contiguity: bool = True
) -> TensorMetadata:
    """The shape, dtype and layout of a tensor."""
    found: list[Any] = [each for each in _FORMATS if include_contiguity and _is_in(result, each)]
    return TensorMetadata(
        result.shape,
        result.dtype,
        result.requires_grad,
        result.stride(),
        (found or [None])[0],
        False,
        {},
    )


class ShapeProp(Interpreter):
    """Notes on each node `meta["tensor_meta"]`, where it has tensors, and `meta["type"]`."""

    def __init__(self, gm: Any, fake_mode: object = None) -> None:
        super().__init__(gm)
        self.fake_mode = fake_mode

    def run_node(self, n: Node) -> Any:
        """The value of a node, noted."""
        result = super().run_node(n)
        seen = False

        def extract(leaf: object) -> Any:
            nonlocal seen
            if isinstance(leaf, weft.Tensor):
                seen = True
                return _extract_tensor_metadata(leaf)
            return leaf

        described = map_aggregate(result, extract)
        if seen:
            n.meta["tensor_meta"] = described
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: object) -> Any:
        """Run with these arguments: what the graph returns."""
        return super().run(*args)
