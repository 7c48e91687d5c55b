"""SubgraphMatcher: finds the occurrences of one graph (the pattern) in another.

The pattern is followed from its results back to its placeholders, which stand for anything. An occurrence counts only
if nothing outside of it uses what the pattern computes in between: such a node could not be replaced.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import weft
from weft.errors import ArgumentError

from ...graph import Graph
from ...node import Node
from ...operator_schemas import normalize_function

__all__ = ["InternalMatch", "SubgraphMatcher"]


@dataclass
class InternalMatch:
    """An occurrence. `anchors`: the nodes of the pattern that make its result; `nodes_map`: for each node of the
    pattern the one that it is; `placeholder_nodes`, `returning_nodes`: those of the graph, in the pattern's order."""

    anchors: list[Node]
    nodes_map: dict[Node, Node] = field(default_factory=dict)
    placeholder_nodes: list[Node] = field(default_factory=list)
    returning_nodes: list[Node] = field(default_factory=list)
    name_node_map: dict[str, Node] = field(default_factory=dict)

    def __copy__(self) -> InternalMatch:
        return InternalMatch(
            self.anchors,
            dict(self.nodes_map),
            list(self.placeholder_nodes),
            list(self.returning_nodes),
        )


class SubgraphMatcher:
    """Finds a pattern.

    Args: `match_output`, `match_placeholder`: whether these nodes of the pattern are to be such in the graph;
    `remove_overlapping_matches`: an occurrence that shares nodes with an earlier one is left out; `ignore_literals`:
    any constant stands for those of the pattern.
    """

    def __init__(
        self,
        pattern: Graph,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        self.pattern, self.match_output, self.match_placeholder = (
            pattern,
            match_output,
            match_placeholder,
        )
        self.remove_overlapping_matches = remove_overlapping_matches
        self.ignore_literals = ignore_literals
        if len(pattern.nodes) == 0:
            raise ArgumentError(
                "SubgraphMatcher cannot be initialized with an empty pattern",
                expected="a graph with nodes", got="an empty one", fix="trace a function as the pattern",
            )  # fmt: skip
        self.pattern_placeholder_nodes = [n for n in pattern.nodes if n.op == "placeholder"]
        output = pattern.output_node()
        self.pattern_returning_nodes: list[Node] = output.all_input_nodes
        self.pattern_anchors = [output] if match_output else self._ends(output)

    @staticmethod
    def _ends(output: Node) -> list[Node]:
        """The nodes that the pattern returns and uses nowhere else."""
        return [node for node in output.all_input_nodes if len(node.users) == 1]

    # -- one node ---------------------------------------------------------------------------------

    def _nodes_are_equal(self, pn: Node, gn: Node, node_name_match: str = "") -> bool:
        if not self.match_placeholder and pn.op == "placeholder":
            return True
        if node_name_match and node_name_match in gn.name:
            return True
        if pn.op != gn.op:
            return False
        if pn.op in ("placeholder", "output"):
            return True
        if pn.op == "get_attr":
            return self._attributes_are_equal(pn, gn)
        return bool(pn.target == gn.target)

    @staticmethod
    def _attributes_are_equal(pn: Node, gn: Node) -> bool:
        ours, theirs = _attribute(pn), _attribute(gn)
        if isinstance(ours, weft.Tensor):
            return isinstance(theirs, weft.Tensor)
        return type(ours) is type(theirs)

    def _literals_are_equal(self, pattern: object, given: object) -> bool:
        return self.ignore_literals or (type(pattern) is type(given) and pattern == given)

    # -- the search: an explicit stack of pairs that are to be equal --------------------------------

    def _follow(self, match: InternalMatch, pn: Node, gn: Node, node_name_match: str) -> bool:
        """True if the graph computes at `gn` what the pattern does at `pn`; the match notes the nodes."""
        waiting: list[tuple[Any, Any]] = [(pn, gn)]
        taken = set(match.nodes_map.values())
        while waiting:
            pattern, given = waiting.pop()
            if not (isinstance(pattern, Node) and isinstance(given, Node)):
                if self._constants_are_equal(pattern, given):
                    continue
                return False
            if pattern in match.nodes_map:
                if match.nodes_map[pattern] is not given:
                    return False
                continue
            is_input = pattern.op == "placeholder"
            is_twice = given in taken and not is_input
            if is_twice or not self._nodes_are_equal(pattern, given, node_name_match):
                return False
            match.nodes_map[pattern] = given
            taken.add(given)
            pairs = [] if is_input else _pairs(pattern, given)
            if pairs is None:
                return False
            waiting.extend(reversed(pairs))
        return True

    def _constants_are_equal(self, pattern: object, given: object) -> bool:
        """True if a constant of the graph can stand for the pattern's argument; one of the two is no node."""
        if isinstance(pattern, Node):
            return self.ignore_literals and pattern.op == "placeholder"
        return not isinstance(given, Node) and self._literals_are_equal(pattern, given)

    def _candidates(self, graph: Graph, node_name_match: str) -> Iterator[InternalMatch]:
        """Every way to find the pattern's ends in the graph from which the rest is found as well."""
        matches = [InternalMatch(self.pattern_anchors)]
        for anchor in self.pattern_anchors:
            longer = []
            for match in matches:
                if anchor in match.nodes_map:
                    longer.append(match)
                    continue
                for node in graph.nodes:
                    if self._nodes_are_equal(anchor, node, node_name_match):
                        tried = copy.copy(match)
                        if self._follow(tried, anchor, node, node_name_match):
                            longer.append(tried)
            matches = longer
        yield from (match for match in matches if match.nodes_map)

    def _is_contained(self, nodes_map: dict[Node, Node]) -> bool:
        """True if nothing outside uses what the pattern computes in between."""
        inside = set(nodes_map.values())
        kept = {nodes_map[node] for node in self.pattern_returning_nodes if node in nodes_map}
        return all(
            given.op == "output" or given in kept or all(user in inside for user in given.users)
            for pattern, given in nodes_map.items()
            if pattern.op not in ("placeholder", "get_attr")
        )

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """The occurrences, in the order in which their ends stand in the graph."""
        found = []
        taken: set[Node] = set()
        for match in self._candidates(graph, node_name_match):
            if not self._is_contained(match.nodes_map):
                continue
            if any(n not in match.nodes_map for n in self.pattern_returning_nodes):
                continue
            own = {g for p, g in match.nodes_map.items() if p.op not in ("placeholder", "get_attr")}
            if (self.remove_overlapping_matches and own & taken) or not _is_one_step(own):
                continue
            taken |= own
            found.append(self._completed(match))
        return found

    def _completed(self, match: InternalMatch) -> InternalMatch:
        nodes = match.nodes_map
        match.placeholder_nodes = [nodes[n] for n in self.pattern_placeholder_nodes if n in nodes]
        match.returning_nodes = [nodes[n] for n in self.pattern_returning_nodes]
        match.name_node_map = {node.name: given for node, given in nodes.items()}
        return match


def _is_one_step(nodes: set[Node]) -> bool:
    """True if nodes can be computed at once: no other node is on a path from one of them to another."""
    waiting = [user for node in nodes for user in node.users if user not in nodes]
    seen: set[Node] = set()
    while waiting:
        node = waiting.pop()
        if node in nodes:
            return False
        if node not in seen:
            seen.add(node)
            waiting.extend(node.users)
    return True


def _attribute(node: Node) -> Any:
    found: Any = node.graph.owning_module
    for name in node.target.split("."):
        found = getattr(found, name, None)
    return found


def _pairs(pattern: Node, given: Node) -> list[tuple[Any, Any]] | None:
    """Pairs of corresponding arguments of two calls, flat; None if the calls are of different forms."""
    ours, theirs = _arguments(pattern), _arguments(given)
    if len(pattern.args) == len(given.args) and pattern.kwargs.keys() == given.kwargs.keys():
        ours = [*pattern.args, *pattern.kwargs.values()]
        theirs = [*given.args, *(given.kwargs[key] for key in pattern.kwargs)]
    if ours is None or theirs is None or len(ours) != len(theirs):
        return None
    return _flat_pairs(ours, theirs)


def _arguments(node: Node) -> list[Any] | None:
    """All arguments in the order of the parameters, defaults included."""
    if node.op != "call_function" or inspect.isbuiltin(node.target):
        return None
    found = normalize_function(node.target, node.args, node.kwargs, None, None, True)
    return None if found is None else list(found.kwargs.values())


def _flat_pairs(ours: object, theirs: object) -> list[tuple[Any, Any]] | None:
    if isinstance(ours, list | tuple) and isinstance(theirs, list | tuple):
        if len(ours) != len(theirs):
            return None
        parts = [_flat_pairs(a, b) for a, b in zip(ours, theirs, strict=True)]
        return None if None in parts else [pair for part in parts for pair in part or ()]
    if isinstance(ours, dict) and isinstance(theirs, dict) and ours.keys() == theirs.keys():
        return _flat_pairs(list(ours.values()), [theirs[key] for key in ours])
    return [(ours, theirs)]
