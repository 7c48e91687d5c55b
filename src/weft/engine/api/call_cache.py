# cython: language_level=3
"""Trace and replay of public calls: a call of a composition is recorded again for other tensors without its Python.

It takes a function and the arguments of a call, and returns the function's result. For a function that is
`composed_of_primitives`, the nodes of a call follow from the shapes, dtypes and layouts of its tensors, its other
arguments, and whether gradients flow: it reads no values, draws no numbers, writes to nothing and warns of nothing.
Only calls outside of modes that watch more than nodes are replayed; in all others the function runs.
"""

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.weft.engine.api.call_cache import SEQUENCE, TENSOR, PySequence_Fast_ITEMS
from cython.cimports.weft.engine.capi.call_site import (
    CallScope,
    caller_of_scope,
    close_scope,
    open_scope,
)
from cython.cimports.weft.engine.capi.vectorcall import (
    Arguments,
    PyObject_Vectorcall,
    PyVectorcall_NARGS,
)
from cython.cimports.weft.engine.dispatch.torch_function import intercepting
from cython.cimports.weft.engine.frontend.recorder import _inference_used, check_budget
from cython.cimports.weft.engine.frontend.resolve import edge_of, needs_grad, value
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.frontend.tensor_lifecycle import wrap
from cython.cimports.weft.engine.ir.dtype import DType
from cython.cimports.weft.engine.ir.mode import Mode
from cython.cimports.weft.engine.ir.node import DONE, PENDING, Node
from cython.cimports.weft.engine.ir.tape import current_tape
from cython.cimports.weft.engine.replay.cache import Cache, CacheEntry
from cython.cimports.weft.engine.replay.conditions import is_plain, plain_kinds, verifying
from cython.cimports.weft.engine.replay.fingerprint import (
    Fingerprint,
    put,
    put_object,
    put_part,
    put_plain,
    put_sizes,
    reserve,
)
from cython.cimports.weft.engine.replay.recorder import Recorder
from cython.cimports.weft.engine.replay.trace import Replay, Trace

from weft._build.compiled import require
from weft.engine.dispatch.torch_function import has_mode
from weft.engine.frontend.views import NoMemoryOrderError
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.tape import intact, last_sequence
from weft.engine.replay import verify
from weft.engine.replay.cache import named

require(__name__, cython.compiled)

MOST_DEPTH = cython.declare(cython.int, 3)  # depth of nested lists in an argument
MOST_ENTRIES = cython.declare(cython.Py_ssize_t, 64)  # entries of one list
MOST_BYTES = cython.declare(cython.Py_ssize_t, 1 << 16)  # size of a constant in a trace

_calls = cython.declare(Cache, named("calls"))
counters = _calls.counters


def composed_of_primitives(function):
    """Say of a public function that its nodes follow from shapes, types, layouts and plain arguments alone."""
    function.composed = True
    return function


@cython.final
@cython.cclass
class ComposedPart:
    """A part of a public function that is composed of primitives, where the whole is not. Called by position."""

    function: object

    def __init__(self, function):
        self.function = function

    def __call__(self, *arguments):
        given: Arguments = PySequence_Fast_ITEMS(arguments)
        mode: Mode = current_tape().mode
        around = cython.declare(CallScope)
        open_scope(cython.address(mode.scope), cython.address(around))
        try:
            return composed(self.function, given, len(arguments), cython.NULL)
        finally:
            close_scope(cython.address(mode.scope), cython.address(around))


@cython.final
@cython.cclass
class CallFingerprint(Replay):
    """The fingerprint of a call, and the values and gradient edges of its tensors."""

    key: Fingerprint

    def __cinit__(self):
        self.key = Fingerprint.__new__(Fingerprint)
        self.values, self.edges = [], []

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def read(
        self,
        function,
        arguments: Arguments,
        count: cython.size_t,
        names: cython.pointer(PyObject),
    ) -> cython.bint:
        """Look at the arguments of a call; whether its nodes follow from what has been found."""
        self.tape = current_tape()
        if not is_plain(self.tape) or (intercepting and has_mode()):
            return False
        self.read_call(function, count, names)
        total: cython.Py_ssize_t = PyVectorcall_NARGS(count)
        if names != cython.NULL:
            total += len(cython.cast(tuple, cython.cast(object, names)))
        index: cython.Py_ssize_t
        for index in range(total):
            entry = cython.cast(object, arguments[index])
            if isinstance(entry, Tensor):
                if not self.read_tensor(cython.cast(Tensor, entry)):
                    return False
            elif not put_plain(self.key, entry) and not self.read_sequence(entry, 0):
                return False
        self.key.digest()
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def read_call(
        self, function, count: cython.size_t, names: cython.pointer(PyObject)
    ) -> cython.int:
        """Put the function, the scope of the call, and the argument names into the key; the user's line is each call's
        own."""
        key: Fingerprint = self.key
        instruction: cython.int = -1
        code: cython.pointer(PyObject) = caller_of_scope(
            cython.address(self.tape.mode.scope), cython.address(instruction)
        )
        self.code = None if code == cython.NULL else cython.cast(object, code)
        self.offset_in_code = instruction
        reserve(key, 32)
        put(key, cython.cast(cython.longlong, cython.cast(cython.p_void, function)))
        put_object(key, function)
        put(key, self.tape.mode.scope.base)
        put(
            key,
            cython.cast(DType, dtypes.get_default()).code
            | PyVectorcall_NARGS(count) << 8
            | cython.cast(cython.longlong, names != cython.NULL) << 32,
        )
        if names != cython.NULL:
            put_part(key, cython.cast(object, names))
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def read_tensor(self, tensor: Tensor) -> cython.bint:
        """Shape, type and layout, whether a gradient flows, and which tensor before has the same value or edge; False
        where nodes do not follow from them."""
        if type(tensor) not in plain_kinds or tensor.view_transform != 0 or tensor.inference:
            return False
        tracked: cython.bint = self.tape.mode.grad and needs_grad(tensor)
        node: Node = value(tensor)
        if (node.state != DONE and node.state != PENDING) or (tracked and _inference_used):
            return False
        edge = edge_of(tensor) if tracked else None
        key: Fingerprint = self.key
        reserve(key, 2 * len(tensor._shape) + 3)
        put(
            key,
            TENSOR
            | cython.cast(cython.longlong, tensor._dtype.code) << 4
            | cython.cast(cython.longlong, len(tensor._shape)) << 12
            | cython.cast(cython.longlong, tensor.strides is not None) << 20
            | cython.cast(cython.longlong, tracked) << 21
            | cython.cast(cython.longlong, node.device != 0) << 22
            | _first_of(self.values, node) << 24,
        )
        if node.device != 0:
            put(key, node.device)
        put_sizes(key, tensor._shape)
        if tensor.strides is not None:
            put_sizes(key, tensor.strides)
        if tracked:
            put(key, _first_of(self.edges, edge))
        self.values.append(node)
        self.edges.append(edge)
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def read_sequence(self, entries, depth: cython.int) -> cython.bint:
        """A list or tuple. Lists in lists are taken to a depth: one may contain itself."""
        if not isinstance(entries, (tuple, list)) or depth == MOST_DEPTH:
            return False
        if len(entries) > MOST_ENTRIES:
            return False
        put(self.key, SEQUENCE | cython.cast(cython.longlong, len(entries)) << 4)
        put_object(self.key, type(entries))
        for entry in entries:
            if not put_plain(self.key, entry) and not self.read_sequence(entry, depth + 1):
                return False
        return True


@cython.cfunc
@cython.exceptval(-1, check=False)
def _first_of(entries: list, entry) -> cython.longlong:
    """The position of an object's first occurrence in a list, counted from 1; 0 if it is absent."""
    index: cython.Py_ssize_t
    for index in range(len(entries)):
        if entries[index] is entry:
            return index + 1
    return 0


@cython.final
@cython.cclass
class CallTrace(Trace):
    """The nodes that calls of one kind record; for each result the numbers of its step and of its edge's, and its
    layout."""

    results: list
    is_tuple: cython.bint

    @cython.cfunc
    def replay(self, call: CallFingerprint):
        """The nodes once more, on other tensors."""
        self.begin(call)
        self.record(call, 0, self.count)
        found = self.results_of(call)
        check_budget()
        return found

    @cython.cfunc
    def results_of(self, call: CallFingerprint):
        """Handles around the results among the nodes that were made."""
        found: list = []
        edge: cython.Py_ssize_t
        number: cython.Py_ssize_t
        for number, edge, strides in self.results:
            result: Tensor = wrap(
                cython.cast(Node, call.made[number]), None if edge < 0 else call.made[edge]
            )
            result.strides = strides
            found.append(result)
        return tuple(found) if self.is_tuple else found[0]


@cython.cfunc
def composed(
    function,
    arguments: Arguments,
    count: cython.size_t,
    names: cython.pointer(PyObject),
):
    """Call a function, or record what calls of this kind are known to record. The caller has opened a scope."""
    call: CallFingerprint = CallFingerprint.__new__(CallFingerprint)
    if not call.read(function, arguments, count, names):
        return PyObject_Vectorcall(function, arguments, count, names)
    found: CacheEntry = _calls.find(call.key)
    if type(found) is CallTrace:
        _calls.counters.hits += 1
        if verifying:
            return _verified(function, found, call, arguments, count, names)
        return cython.cast(CallTrace, found).replay(call)
    if found is None and _calls.admits(call.key.hash):
        return _learn(function, call, arguments, count, names)
    return PyObject_Vectorcall(function, arguments, count, names)


@cython.cfunc
def _verified(
    function,
    trace: CallTrace,
    call: CallFingerprint,
    arguments: Arguments,
    count: cython.size_t,
    names: cython.pointer(PyObject),
):
    """Replay a call and make it for real. Errors: AssertionError where nodes or results differ."""
    values, keywords = _handles(call, arguments, count, names)
    start: cython.longlong = last_sequence()
    with intact():
        result = function(*values, **keywords)
        real: list = _recorded(start, result if trace.is_tuple else (result,))
        trace.begin(call)
        trace.record(call, 0, trace.count)
    client: str = f"a call of {function.__name__}"
    pairs = verify.compare(client, call.made, real)
    replayed = trace.results_of(call)
    found: tuple = replayed if trace.is_tuple else (replayed,)
    expected: tuple = result if trace.is_tuple else (result,)
    one: Tensor
    other: Tensor
    for one, other in zip(found, expected, strict=True):
        if not verify.is_pair(one.node, other.node, pairs) or one.strides != other.strides:
            raise verify.mismatch(client, repr(one.node), repr(other.node))
        if not verify.is_pair(one.edge, other.edge, pairs):
            raise verify.mismatch(client, f"an edge to {one.edge!r}", f"one to {other.edge!r}")
    check_budget()
    return replayed


# -- learning ------------------------------------------------------------------------------------------------------


@cython.cfunc
def _learn(
    function,
    call: CallFingerprint,
    arguments: Arguments,
    count: cython.size_t,
    names: cython.pointer(PyObject),
):
    """Call a function on handles of its own around the values, and keep what it records, if it can be replayed. An
    entry that is no trace stands for calls that cannot."""
    values, keywords = _handles(call, arguments, count, names)
    start: cython.longlong = last_sequence()
    trace: CallTrace = None
    result = None
    try:
        with intact():
            result = function(*values, **keywords)
        trace = _traced(call, start, result)
    except NoMemoryOrderError:
        pass  # it has taken a view of a region, of which a handle of our own knows no memory
    if trace is None:  # it may have given an operand, or a view of one
        _calls.keep(call.key, CacheEntry(), 0)
        call.tape.mode.scope.count = 0
        return PyObject_Vectorcall(function, arguments, count, names)
    _calls.keep(call.key, trace, trace.size())
    check_budget()
    return result


@cython.cfunc
def _handles(
    call: CallFingerprint,
    arguments: Arguments,
    count: cython.size_t,
    names: cython.pointer(PyObject),
) -> tuple:
    """The arguments of a call, with a handle of its own around each value."""
    entries: list = []
    total: cython.Py_ssize_t = PyVectorcall_NARGS(count)
    named_: tuple = () if names == cython.NULL else cython.cast(tuple, cython.cast(object, names))
    used: cython.Py_ssize_t = 0
    index: cython.Py_ssize_t
    for index in range(total + len(named_)):
        entry = cython.cast(object, arguments[index])
        if isinstance(entry, Tensor):
            handle: Tensor = wrap(cython.cast(Node, call.values[used]), call.edges[used])
            handle.strides = cython.cast(Tensor, entry).strides
            entry = handle
            used += 1
        entries.append(entry)
    return entries[:total], {name: entries[total + index] for index, name in enumerate(named_)}


@cython.cfunc
def _traced(call: CallFingerprint, start: cython.longlong, result) -> CallTrace:
    """The trace of what has been recorded since `start`; None where it cannot be replayed. A tensor that is no operand
    of a node may have been read in place of a number, or of sizes: then its numbers are in the nodes."""
    trace: CallTrace = CallTrace()
    recorder: Recorder = Recorder()
    recorder.constant_bytes = MOST_BYTES
    index: cython.Py_ssize_t
    for index in range(len(call.values)):
        recorder.give(call.values[index], call.edges[index])
    trace.is_tuple = type(result) is tuple
    results: tuple = result if trace.is_tuple else (result,)
    for part in results:
        if not _is_own(part):
            return None
    if not recorder.write(trace, _recorded(start, results)):
        return None
    if not recorder.reads_all(call.values):
        return None
    trace.results = []
    tensor: Tensor
    for tensor in results:
        number = recorder.numbers.get(tensor.node, 0)
        edge = 0 if tensor.edge is None else recorder.numbers.get(tensor.edge, 0)
        if number >= 0 or (edge >= 0 and tensor.edge is not None):
            return None
        trace.results.append((-1 - number, -1 - edge, tensor.strides))
    return trace


@cython.cfunc
def _recorded(start: cython.longlong, results: tuple) -> list:
    """The nodes since `start` that are pending or lead to a gradient of a result, in order."""
    nodes: list = current_tape().since(start)
    seen: set = set(nodes)
    tensor: Tensor
    node: Node
    waiting: list = list(nodes)
    for tensor in results:
        waiting.append(tensor.edge)
    while waiting:
        edge = waiting.pop()
        if type(edge) is not Node or cython.cast(Node, edge).seq <= start:
            continue
        node = edge
        if node not in seen:
            seen.add(node)
            nodes.append(node)
            waiting.extend(node.edges or ())
        elif node.edges is not None:
            waiting.extend([other for other in node.edges if other not in seen])
    return sorted(nodes, key=_sequence_of)


def _sequence_of(node: Node):
    return node.seq


@cython.cfunc
@cython.exceptval(-1, check=False)
def _is_own(part) -> cython.bint:
    """True if a result is a new handle around a value, to which nothing else refers."""
    if type(part) is not Tensor:
        return False
    tensor: Tensor = part
    if tensor._storage is not None or tensor.base is not None or tensor.leaf_grad:
        return False
    return tensor.view_transform == 0 and not tensor.inference and not tensor.retains
