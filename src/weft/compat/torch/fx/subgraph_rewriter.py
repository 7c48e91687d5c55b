"""replace_pattern: replaces every occurrence of a pattern in a graph.

Pattern and replacement are programs of the same arguments, traced like any other. `passes.utils.matcher_utils` finds
the occurrences.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from weft.errors import ArgumentError
from weft.nn import Module

from . import _submodules
from ._symbolic_trace import symbolic_trace
from .graph import Graph
from .graph_module import GraphModule
from .node import Node
from .passes.utils.matcher_utils import InternalMatch, SubgraphMatcher

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]

_Program = Any  # a function, a graph or a module with one
_Filter = Callable[[InternalMatch, Graph, Graph], bool]


class Match(NamedTuple):
    """An occurrence: the node that makes its result, and for each node of the pattern the one that it is."""

    anchor: Node
    nodes_map: dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """An occurrence that was replaced, and the nodes that stand there now."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


def replace_pattern(
    gm: GraphModule,
    pattern: Callable[..., object] | GraphModule,
    replacement: Callable[..., object] | GraphModule,
) -> list[Match]:
    """Replace every occurrence of a pattern that does not overlap an earlier one. The occurrences.

    Args:
        gm: the module whose graph is changed.
        pattern: a function or module: what is looked for.
        replacement: a function or module: what stands there afterwards.

    Example:
        >>> import weft
        >>> from weft import fx
        >>> traced = fx.symbolic_trace(lambda x: x.relu() + 1)
        >>> _ = fx.replace_pattern(traced, lambda x: x.relu(), lambda x: x.tanh())
        >>> traced(weft.tensor([0.0]))
        tensor([1.])
    """
    replaced = replace_pattern_with_filters(gm, pattern, replacement)
    return [Match(anchor=found.anchor, nodes_map=found.nodes_map) for found in replaced]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: _Program,
    replacement: _Program | None = None,
    match_filters: list[_Filter] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    """`replace_pattern` where all of `match_filters` agree. `ignore_literals` lets any constant stand for those of the
    pattern; `replacement_callback` makes the replacement for an occurrence."""
    searched = _graph_of(pattern)
    matcher = SubgraphMatcher(
        searched, match_output=False, match_placeholder=False, ignore_literals=ignore_literals
    )
    found = [
        match
        for match in matcher.match(gm.graph, node_name_match)
        if all(accepts(match, gm.graph, searched) for accepts in match_filters or ())
    ]
    stands_for: dict[Node, Node] = {}
    replaced = []
    for match in found:
        if replacement_callback is not None:
            put = replacement_callback(match, gm.graph, searched)
        else:
            put = _graph_of(replacement)
        replaced.append(_replace(gm.graph, searched, put, match, stands_for))
    gm.recompile()
    if isinstance(replacement, Module):
        _bring_along(gm, replacement)
    return replaced


_replace_pattern = replace_pattern_with_filters


def _graph_of(program: object) -> Graph:
    if isinstance(program, GraphModule):
        return program.graph
    if isinstance(program, Graph):
        return program
    if program is None:
        raise AssertionError(
            "Must provide either a replacement GraphModule or a replacement callback"
        )
    return symbolic_trace(program).graph


def _replace(
    graph: Graph,
    pattern: Graph,
    replacement: Graph,
    match: InternalMatch,
    stands_for: dict[Node, Node],
) -> ReplacedPatterns:
    """Put a replacement where a pattern was found. `stands_for`: what earlier replacements have put for a node."""
    inputs = [node for node in replacement.nodes if node.op == "placeholder"]
    if len(match.placeholder_nodes) != len(inputs):
        raise AssertionError(
            f"Expected {len(inputs)} placeholder nodes, got {len(match.placeholder_nodes)}"
        )
    given = [stands_for.get(node, node) for node in match.placeholder_nodes]
    values: dict[Node, Any] = dict(zip(inputs, given, strict=True))
    with graph.inserting_before(_first_user(graph, match)):
        result = graph.graph_copy(replacement, values)
    results: list[Any] = list(result) if isinstance(result, list | tuple) else [result]
    _check_count(match.returning_nodes, results)
    for old, new in zip(match.returning_nodes, results, strict=True):
        old.replace_all_uses_with(new)
        stands_for[old] = new
    for node in reversed(pattern.nodes):
        if node.op not in ("placeholder", "output"):
            found = match.nodes_map[node]
            if not found._erased and not found.users:
                graph.erase_node(found)
    added = [values[node] for node in replacement.nodes if node in values and node not in inputs]
    return ReplacedPatterns(match.anchors[0], match.nodes_map, added)


def _check_count(old: list[Node], new: list[object]) -> None:
    if len(old) != len(new):
        raise ArgumentError(
            f"the pattern returns {len(old)} values and the replacement {len(new)}",
            expected="programs that return alike",
            got=f"{old} and {new}",
            fix="return the same number of values from both",
        )


def _first_user(graph: Graph, match: InternalMatch) -> Node:
    """Before which node the replacement goes: the first that uses a result, or the one behind the results."""
    users = {user for node in match.returning_nodes for user in node.users}
    inside = set(match.nodes_map.values())
    outside = [user for user in users if user not in inside]
    return min(outside) if outside else max(match.returning_nodes).next


def _bring_along(gm: GraphModule, replacement: Module) -> None:
    """Give the module what the replacement's nodes name, where it has none of that path."""
    gm.delete_all_unused_submodules()
    for path in _submodules.named_by(gm.graph):
        if not _submodules.has(gm, path):
            _submodules.put(gm, path, _submodules.found_at(replacement, path))
    gm.graph.lint()
