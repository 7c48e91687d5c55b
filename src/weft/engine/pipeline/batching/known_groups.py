# cython: language_level=3
"""Replay of batching: nodes of a known structure become the batches that a search has formed of such nodes before.

It takes pending nodes and looks for a trace by the fingerprint of all that a search looks at: the nodes, the calls that
recorded them, where their gradients go, how the values that they read lie in memory. The trace has what the search
recorded (quotients, and what packs their operands), and which nodes became rows of what. A structure is fingerprinted
when it comes for the second time, and replayed from the third. Replays must equal `batch`; nobody replays while
searches are watched.
"""

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.weft.engine.capi.call_site import caller
from cython.cimports.weft.engine.capi.growable_array import Array, drop, empty, put
from cython.cimports.weft.engine.capi.hashing import mix
from cython.cimports.weft.engine.frontend.node_factory import new_value
from cython.cimports.weft.engine.ir.batch import Batch, new_batch
from cython.cimports.weft.engine.ir.node import (
    DONE,
    PENDING,
    Node,
    grad_name_of,
    observers_on,
    result_of,
)
from cython.cimports.weft.engine.ir.residuals import retain_masked
from cython.cimports.weft.engine.ir.tape import current_tape, finish
from cython.cimports.weft.engine.pipeline.batching.batch_key import ADDED_UP, goes_on
from cython.cimports.weft.engine.pipeline.batching.membership import become_row
from cython.cimports.weft.engine.pipeline.batching.operand_packing import settle_view
from cython.cimports.weft.engine.pipeline.batching.segment_gather import bound_indices
from cython.cimports.weft.engine.pipeline.fingerprint import (
    GROUPING,
    FlushFingerprint,
    fingerprint_of,
)
from cython.cimports.weft.engine.pipeline.segment_index import SegmentIndex
from cython.cimports.weft.engine.replay.cache import Cache
from cython.cimports.weft.engine.replay.recorder import Recorder
from cython.cimports.weft.engine.replay.trace import Replay, Trace

from weft._build.compiled import require
from weft.config import config
from weft.engine.ir.primitive import ROWS, SCALAR_OP, VALUE_OP
from weft.engine.ir.tape import last_sequence
from weft.engine.replay import verify
from weft.engine.replay.cache import named

require(__name__, cython.compiled)

MOST_NODES = 20_000  # of a search that is looked up; most larger graphs never come again
OLDEST = 2  # of so many nodes one at least is to be new: else searching takes no longer than a fingerprint
_ROWS = cython.declare(cython.int, ROWS)
_groupings = cython.declare(Cache, named("batches"))
counters = _groupings.counters


@cython.cfunc
def recall(nodes: list) -> Grouping:
    """A search among some nodes that is known, or may be learned; None where it is neither."""
    if not config.cache or config.explain or len(nodes) > MOST_NODES:
        return None
    look: cython.longlong = _look(nodes)
    if look < 0 or not _groupings.admits(look):
        return None
    found: FlushFingerprint = fingerprint_of(list(nodes), GROUPING)
    if not found.complete:
        _groupings.admission.miss(look)
        return None
    grouping: Grouping = Grouping.__new__(Grouping)
    grouping.found, grouping.look, grouping.start = found, look, last_sequence()
    grouping.known = cython.cast(GroupTrace, _groupings.find(found.key))
    if grouping.known is None:
        _groupings.admission.miss(look)
    else:
        _groupings.admission.succeed(look)
        _groupings.counters.hits += 1
    return grouping


@cython.cfunc
@cython.exceptval(check=False)
def _look(nodes: list) -> cython.longlong:
    """A number that is equal for searches among equal nodes, and quick to compute; -1 where few of them are new."""
    look: cython.ulonglong = 0
    fresh: cython.Py_ssize_t = 0
    node: Node
    for node in nodes:
        if not node.batch_seen:
            look = mix(look + node.op.code, node.numel)
            fresh += 1
    if fresh * OLDEST < len(nodes) or fresh == 0:
        return -1
    return cython.cast(cython.longlong, mix(look, len(nodes)) >> 1)


@cython.final
@cython.cclass
class GroupTrace(Trace):
    """A search as it is done again: the nodes that it has recorded, and the rows that nodes have become."""

    def __cinit__(self):
        self.saves, self.members, self.sums, self.settled = empty(), empty(), empty(), empty()
        self.infos, self.regions = [], []

    def __dealloc__(self):
        drop(cython.address(self.saves))
        drop(cython.address(self.members))
        drop(cython.address(self.sums))
        drop(cython.address(self.settled))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GroupTrace):
            return NotImplemented
        trace: GroupTrace = other
        return (
            self.outcome is trace.outcome
            and self.held == trace.held
            and self.infos == trace.infos
            and self.regions == trace.regions
            and _equal(self.operands, trace.operands)
            and _equal(self.saves, trace.saves)
            and _equal(self.members, trace.members)
            and _equal(self.sums, trace.sums)
            and _equal(self.settled, trace.settled)
        )

    def __hash__(self):
        return self.count

    def __repr__(self):
        rows = self.members.count // 3
        return f"{self.count} nodes recorded, {rows} rows of batches, {self.settled.count} views"

    @cython.cfunc
    def begin_replay(self, found: FlushFingerprint) -> Replay:
        """The replay that the steps are recorded with: its values are the nodes, and what they read."""
        run: Replay = Replay.__new__(Replay)
        instruction: cython.int = -1
        code: cython.pointer(PyObject) = caller(cython.address(instruction))
        run.code = None if code == cython.NULL else cython.cast(object, code)
        run.offset_in_code = instruction
        run.tape, run.values, run.made = current_tape(), [*found.nodes, *found.external], []
        return run

    @cython.cfunc
    def record_all(self, run: Replay) -> cython.void:
        """Record what packs operands and stands for groups; nodes that joined them become their rows."""
        node: Node
        for node in run.values:
            if node.state == PENDING:
                node.batch_seen = True
        self.settle(run.values)
        self.find_regions(run.values)
        self.record(run, 0, self.count)
        self.record_batches(run.made)
        self.join(run.values, run.made)

    @cython.cfunc
    def settle(self, nodes: list) -> cython.void:
        """Give views of values that are there their places in memory."""
        index: cython.Py_ssize_t
        node: Node
        for index in range(self.settled.count):
            node = nodes[self.settled.words[index]]
            settle_view(node, node.inputs[0])

    @cython.cfunc
    def find_regions(self, values: list) -> cython.void:
        """Append to the values those that consist of several which lie behind one another."""
        first: Node
        for number, dtype, shape in self.regions:
            first = values[number]
            values.append(new_value(dtype, shape, first.buffer, first.offset))

    @cython.cfunc
    def record_batches(self, made: list) -> cython.void:
        """Say of the recorded nodes what they are batches and gathers of, and hold what their derivatives need."""
        index: cython.Py_ssize_t
        node: Node
        for index in range(self.count):
            node = made[index]
            node.operand_shapes = cython.cast(object, self.steps[index].operand_shapes)
            info = self.infos[index]
            if isinstance(info, tuple):
                batch: Batch = new_batch(info[0], info[1], info[2])
                batch.operand_rows = info[3]
                node.info = batch
            elif info is not None:
                node.info = info
                bound_indices(node)
            if self.saves.words[index] >= 0:
                retain_masked(node, self.saves.words[index])

    @cython.cfunc
    def join(self, nodes: list, made: list) -> cython.void:
        """Make nodes rows of batches; what nothing can ask for by itself is done with."""
        index: cython.Py_ssize_t
        node: Node
        words: cython.p_longlong = self.members.words
        for index in range(0, self.members.count, 3):
            become_row(nodes[words[index]], made[words[index + 1]], words[index + 2])
        for index in range(0, self.members.count, 3):
            node = nodes[words[index]]
            if node.external_refs == 0:
                finish(node)
        for index in range(0, self.sums.count, 2):
            node = nodes[self.sums.words[index]]
            node.qrow = ADDED_UP
            if self.sums.words[index + 1]:
                finish(node)


@cython.cfunc
@cython.exceptval(check=False)
def _equal(one: Array, other: Array) -> cython.bint:
    index: cython.Py_ssize_t
    if one.count != other.count:
        return False
    for index in range(one.count):
        if one.words[index] != other.words[index]:
            return False
    return True


@cython.final
@cython.cclass
class Grouping(Recorder):
    """A search among nodes of some fingerprint: `replay` it if its trace is `known`, else let it `learn` from what the
    caller searches."""

    @cython.cfunc
    def replay(self):
        """Form the known batches; what the search would give."""
        trace: GroupTrace = self.known
        trace.record_all(trace.begin_replay(self.found))
        return trace.outcome

    @cython.cfunc
    def learn(self, outcome) -> cython.void:
        """The search is over: keep what it did, or compare it with what is known.

        Errors: AssertionError where that differs."""
        trace: GroupTrace = self.write_groups(outcome)
        if self.known is None:
            if trace is not None:
                _groupings.keep(self.found.key, trace, trace.size() + 8 * trace.members.count)
        elif trace is None or self.known != trace:
            raise verify.mismatch("batching", repr(self.known), repr(trace))

    @cython.cfunc
    def write_groups(self, outcome) -> GroupTrace:
        """The trace of a search; None where it did what a replay cannot."""
        trace: GroupTrace = GroupTrace()
        trace.outcome = outcome
        self.scalars, self.regions = {}, {}
        node: Node
        for node in self.found.nodes:
            self.give(node, None)
        for node in self.found.external:
            if node.op is SCALAR_OP:
                self.scalars[_number_of(node)] = self.filled
            self.give(node, None)
        made: list = current_tape().since(self.start)
        if self.write_steps(trace, made) and self.write_nodes(trace):
            return trace
        return None

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def write_steps(self, trace: GroupTrace, made: list) -> cython.bint:
        """Write what the search recorded; whether it can be written."""
        node: Node
        batch: Batch
        if not self.write(trace, made):
            return False
        for node in made:
            info = node.info
            if isinstance(info, Batch):
                batch = info
                info = (batch.flags, batch.count, batch.axis, batch.operand_rows)
            elif info is not None and not isinstance(info, SegmentIndex):
                return False
            trace.infos.append(info)
            put(cython.address(trace.saves), node.residual_mask if node.has_residuals else -1)
        trace.regions = list(self.regions)
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def write_nodes(self, trace: GroupTrace) -> cython.bint:
        """Write what has become of the nodes; whether it can be written."""
        position: cython.Py_ssize_t
        node: Node
        for position in range(len(self.found.nodes)):
            node = self.found.nodes[position]
            if node.state != PENDING:
                put(cython.address(trace.settled), position)
            elif node.quotient is not None:
                step = self.numbers.get(node.quotient)
                if step is None:
                    return False
                if step < 0:
                    put(cython.address(trace.members), position)
                    put(cython.address(trace.members), -1 - cython.cast(cython.longlong, step))
                    put(cython.address(trace.members), node.qrow)
            elif goes_on(node):
                put(cython.address(trace.sums), position)
                put(cython.address(trace.sums), node.tape == cython.NULL)
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def accepts(self, node: Node) -> cython.bint:
        """True if a step expresses all that a node of a search is."""
        if node.state != PENDING or node.edges is not None or observers_on(node) is not None:
            return False
        return node.quotient is None and result_of(node) is None and grad_name_of(node) is None

    @cython.cfunc
    def number_of(self, source: Node):
        """The number of a value that the nodes read, or of several that lie behind one another."""
        number = self.numbers.get(source)
        if number is None and source.op is SCALAR_OP:
            number = self.scalars.get(_number_of(source))
        elif number is None and source.op is VALUE_OP and source.state == DONE:
            number = self.region_of(source)
        return number

    @cython.cfunc
    def region_of(self, source: Node):
        """The number of a value that a search has made of values that lie behind one another; None for others."""
        place: cython.Py_ssize_t = 0
        node: Node
        for node in (*self.found.nodes, *self.found.external):
            if (
                node.buffer is source.buffer
                and node.offset == source.offset
                and node.dtype is source.dtype
                and node.strides is None
            ):
                region = (place, source.dtype, source.shape)
                first: cython.Py_ssize_t = len(self.found.nodes) + len(self.found.external)
                number = self.regions.setdefault(region, first + len(self.regions))
                self.numbers[source] = number
                return number
            place += 1
        return None


@cython.cfunc
def _number_of(node: Node):
    """A key that equal numbers share."""
    return node.dtype.code, type(node.params), repr(node.params)
