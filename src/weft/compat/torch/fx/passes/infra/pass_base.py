"""PassBase: a pass over a graph with checks before and after it."""

from __future__ import annotations

import abc
from typing import NamedTuple

from ...graph_module import GraphModule

__all__ = ["PassBase", "PassResult"]


class PassResult(NamedTuple):
    """The module after a pass, and whether the pass has changed it."""

    graph_module: GraphModule
    modified: bool


class PassBase(abc.ABC):
    """A pass: subclasses define `call`, and `requires` and `ensures` if something has to hold before and after."""

    def __call__(self, graph_module: GraphModule) -> PassResult | None:
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module: GraphModule) -> PassResult | None:
        """Change a module."""

    def requires(self, graph_module: GraphModule) -> None:  # noqa: B027 - may be left as it is
        """Check the conditions of the pass on its input."""

    def ensures(self, graph_module: GraphModule) -> None:  # noqa: B027 - may be left as it is
        """Check the conditions of the pass on its result."""
