# cython: language_level=3
"""What a reverse walk will go through: the gradient records below its roots, and how many consumers each waits for.

In come root edges and captured records; `reached` and the counts on the records come out. Nothing is differentiated
here. A record that has given up what it saved is refused before anything runs.
"""

import cython
from cython.cimports.weft.graph.cuts import Joint
from cython.cimports.weft.graph.node import Node
from cython.cimports.weft.graph.prefetch import prefetch_edges
from cython.cimports.weft.graph.targets import AccumulateGrad, GradientFunction, OutputEdge
from cython.cimports.weft.graph.tensor import Tensor

from weft._compiled import require
from weft.errors import GradientError

require(__name__, cython.compiled)

SECOND_TIME = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
    "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
    "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access "
    "saved tensors after calling backward."
)


def freed(node: Node):
    """The error of using saved values that a walk has given up."""
    return GradientError(
        SECOND_TIME,
        expected="a graph that still has its saved values",
        got=f"{node.row.grad_name}, recorded at {node.where}",
        fix="pass retain_graph=True to the first backward",
    )


_stamp = cython.declare(cython.longlong, 0)
_joint_seen = cython.declare(
    cython.bint, False
)  # no walk looks for joint records before there is one


def note_joint():
    """There is a record of several outputs that a user has seen: walks have to look for such from now on."""
    global _joint_seen
    _joint_seen = True


@cython.cclass
class Discovery:
    """The records that one walk reaches, marked with its stamp."""

    def __cinit__(self):
        global _stamp
        _stamp += 1
        self.stamp = _stamp
        self.reached = []
        self.captured = {}
        self.displaced = None
        self.joined = None

    # -- inside another walk ---------------------------------------------------------------------------------------

    @cython.cfunc
    def displace(self, record) -> cython.void:
        """Remember what the walk around this one keeps on a record: a hook may walk over the same graph."""
        if self.displaced is not None:
            self.displaced.append((record, record.mark, record.count, record.scratch))

    @cython.cfunc
    def put_back(self) -> cython.void:
        """Give the records back to the walk around this one."""
        for record, mark, count, scratch in self.displaced:
            record.mark, record.count, record.scratch = mark, count, scratch

    # -- discovery -------------------------------------------------------------------------------------------------

    @cython.cfunc
    def discover(self, roots: list) -> cython.void:
        """Find every gradient record below the roots and count its reached consumers; nothing has run yet."""
        for edge, _cotangent in roots:
            self.reach(edge, False)
        index: cython.Py_ssize_t = 0
        while index < len(self.reached):
            prefetch_edges(self.reached, index)
            current = self.reached[index]
            index += 1
            if isinstance(current, Node):
                node: Node = cython.cast(Node, current)
                if node.released and node.saved != 0 and not self.captured:
                    raise freed(node)
                for edge in self.below(node):
                    if edge is not None:
                        self.reach(edge, True)
            elif isinstance(current, GradientFunction):
                if not self.captured:
                    current.check_usable()
                for edge in cython.cast(GradientFunction, current).edges:
                    if edge is not None:
                        self.reach(edge, True)

    @cython.cfunc
    def check_usable(self) -> cython.void:
        """Errors: RuntimeError where a record that this walk will run has given up its saved values."""
        for current in self.reached:
            if isinstance(current, Node):
                node: Node = cython.cast(Node, current)
                if node.released and node.saved != 0 and self.wanted(node):
                    raise freed(node)
            elif isinstance(current, GradientFunction) and self.wanted(current):
                current.check_usable()

    @cython.cfunc
    def reach(self, edge, counted: cython.bint) -> cython.void:
        if isinstance(edge, Node):
            node: Node = cython.cast(Node, edge)
            if node.mark != self.stamp:
                self.displace(node)
                node.mark = self.stamp
                node.count = 0
                node.scratch = None
                self.reached.append(node)
                if node.observers is not None:
                    self.observed += 1
                if _joint_seen:
                    self.join_outputs(node)
            if counted:
                node.count += 1
            return
        if isinstance(edge, OutputEdge):
            edge = cython.cast(OutputEdge, edge).function
        if isinstance(edge, GradientFunction):
            function: GradientFunction = cython.cast(GradientFunction, edge)
            if function.mark != self.stamp:
                self.displace(function)
                function.mark = self.stamp
                function.count = 0
                function.scratch = None
                self.reached.append(function)
                self.observed += 1
            if counted:
                function.count += 1
            return
        sink: AccumulateGrad = cython.cast(AccumulateGrad, edge)
        if sink.mark != self.stamp:
            self.displace(sink)
            sink.mark = self.stamp
            sink.count = 0
            sink.scratch = None
            self.reached.append(sink)
            if sink.observers is not None or cython.cast(Tensor, sink.variable).hooks is not None:
                self.observed += 1
        if counted:
            sink.count += 1

    @cython.cfunc
    def join_outputs(self, node: Node) -> cython.void:
        """Lead one of several outputs to the record of them all, where somebody observes that."""
        joint = joint_of(node)
        if joint is None or (joint.observers is None and joint not in self.captured):
            return
        if self.joined is None:
            self.joined = {}
        self.joined[node] = (joint.edge_of(node),)

    @cython.cfunc
    def below(self, node: Node) -> tuple:
        """Where the cotangents of a record go in this walk."""
        if self.joined is None:
            return node.edges
        return self.joined.get(node, node.edges)

    @cython.cfunc
    def prune(self) -> cython.void:
        """Keep only records on paths to the captured edges: nothing else runs, and no hook off them fires."""
        useful: set = set()
        for current in sorted(self.reached, key=sequence):
            keep: cython.bint = current in self.captured
            if not isinstance(current, AccumulateGrad):
                for edge in current.edges:
                    if edge is not None and target_of(edge) in useful:
                        keep = True
            if self.joined is not None and not keep and current in self.joined:
                keep = target_of(self.joined[current][0]) in self.captured
            if keep:
                useful.add(current)
        for current in self.reached:
            if current not in useful:
                current.mark = 0
        self.reached = [current for current in self.reached if current in useful]
        for current in self.reached:
            current.count = 0
        for current in self.reached:
            if not isinstance(current, AccumulateGrad):
                for edge in self.below(current) if isinstance(current, Node) else current.edges:
                    if edge is not None:
                        target = target_of(edge)
                        if target.mark == self.stamp:
                            target.count += 1

    @cython.cfunc
    def wanted(self, node) -> cython.bint:
        """Whether anything below a record is part of this walk."""
        edges: tuple = (
            self.below(node)
            if isinstance(node, Node)
            else cython.cast(GradientFunction, node).edges
        )
        for edge in edges:
            if edge is None:
                continue
            if isinstance(edge, Node):
                if cython.cast(Node, edge).mark == self.stamp:
                    return True
            elif isinstance(edge, AccumulateGrad):
                if cython.cast(AccumulateGrad, edge).mark == self.stamp:
                    return True
            elif cython.cast(GradientFunction, target_of(edge)).mark == self.stamp:
                return True
        return False


def sequence(current):
    """The creation number of a gradient record; leaves come before everything."""
    return current.seq if not isinstance(current, AccumulateGrad) else -1


@cython.cfunc
def joint_of(node: Node):
    """The record of all outputs that users see in place of one output's; None where nobody has looked."""
    return cython.cast(Joint, node.info).seen if isinstance(node.info, Joint) else None


@cython.cfunc
def target_of(edge):
    """The gradient record that an edge leads to."""
    return cython.cast(OutputEdge, edge).function if isinstance(edge, OutputEdge) else edge


def target_for(edge):
    """(record, output number) of an edge."""
    if isinstance(edge, OutputEdge):
        return cython.cast(OutputEdge, edge).function, cython.cast(OutputEdge, edge).number
    return edge, 0


def reaches_more(edges: list, ends: list):
    """Whether graphs have leaves that do not lie behind some records."""
    stack: list = [target_of(edge) for edge in edges if edge is not None]
    seen: set = set(ends)
    while stack:
        record = stack.pop()
        if record in seen:
            continue
        seen.add(record)
        if isinstance(record, AccumulateGrad):
            return True
        below: tuple = (
            cython.cast(Node, record).edges
            if isinstance(record, Node)
            else cython.cast(GradientFunction, record).edges
        )
        for edge in below:
            if edge is not None:
                stack.append(target_of(edge))
    return False
