"""FakeTensorProp: notes on each node a value of the type `meta`: sizes and types without numbers."""

from __future__ import annotations

from typing import Any

import weft

from ..interpreter import Interpreter
from ..node import Node, map_aggregate

__all__ = ["FakeTensorProp"]


def _without_values(leaf: object) -> Any:
    return leaf.to("meta") if isinstance(leaf, weft.Tensor) else leaf


class FakeTensorProp(Interpreter):
    """Runs a graph on tensors without numbers and notes each value as `meta["val"]`."""

    def __init__(self, module: Any, mode: object = None) -> None:
        super().__init__(module)
        self._mode = mode

    def run_node(self, n: Node) -> Any:
        """The value of a node, noted."""
        result = super().run_node(n)
        n.meta["val"] = map_aggregate(result, _without_values)
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: object) -> Any:
        """Run with these arguments: what the graph returns."""
        return super().run(*args)

    propagate_dont_convert_inputs = propagate
