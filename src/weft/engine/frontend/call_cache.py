# cython: language_level=3
"""A composition that has been recorded is recorded again for other tensors, without running its Python.

In come a function and the arguments of a call; out goes what the function gives. Where a function is
`composed_of_primitives`, the nodes of a call follow from the shapes, types and layouts of its tensors, its other
arguments, whether gradients flow, and the user's line: it reads no values, draws no numbers, writes to nothing and
warns of nothing. Only calls outside of modes that want to see more than nodes are repeated; every other one runs it.
"""

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.libc.math import copysign
from cython.cimports.weft.engine.capi.call_site import caller
from cython.cimports.weft.engine.capi.vectorcall import (
    Arguments,
    PyObject_Vectorcall,
    PyVectorcall_NARGS,
)
from cython.cimports.weft.engine.dispatch.torch_function import intercepting
from cython.cimports.weft.engine.frontend.call_cache import PySequence_Fast_ITEMS
from cython.cimports.weft.engine.frontend.node_factory import append_again, hide
from cython.cimports.weft.engine.frontend.recorder import _inference_used, check_budget
from cython.cimports.weft.engine.frontend.resolve import edge_of, needs_grad, value
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.frontend.tensor_lifecycle import wrap
from cython.cimports.weft.engine.ir.dtype import DType
from cython.cimports.weft.engine.ir.node import DONE, PENDING, Node
from cython.cimports.weft.engine.ir.primitive import Primitive, scalar_row, value_row
from cython.cimports.weft.engine.ir.residuals import acquire_saves
from cython.cimports.weft.engine.ir.tape import Mode, Tape, ambient, current_tape, finish
from cython.cimports.weft.engine.ir.tuple_cache import one, three, two

from weft._build.compiled import require
from weft.engine.dispatch.torch_function import has_mode
from weft.engine.frontend.update_trace import plain_kinds
from weft.engine.frontend.views import NoMemoryOrderError
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.tape import intact, last_sequence

require(__name__, cython.compiled)

MOST_CALLS = cython.declare(cython.int, 512)  # of a function that are remembered
MOST_DEPTH = cython.declare(cython.int, 3)  # of lists in an argument
MOST_ENTRIES = cython.declare(cython.Py_ssize_t, 64)  # of one list
MOST_BYTES = cython.declare(cython.longlong, 1 << 16)  # of a constant that a composition may keep
_seen = object()  # instead of a composition: a call that has been made once
_plain = frozenset([int, float, bool, str, type(None), DType])
counters = {"learned": 0, "repeated": 0}


def composed_of_primitives(function):
    """Say of a public function that its nodes follow from shapes, types, layouts and plain arguments alone."""
    function.composed = True
    return function


@cython.final
@cython.cclass
class Part:
    """A part of a public function that is composed of primitives, where the whole is not. Called by position."""

    function: object
    known: dict

    def __init__(self, function):
        self.function, self.known = function, {}

    def __call__(self, *arguments):
        given: Arguments = PySequence_Fast_ITEMS(arguments)
        return composed(self.function, self.known, given, len(arguments), cython.NULL)


@cython.final
@cython.cclass
class Operands:
    """What the nodes of a call follow from, and the values and gradient edges of its tensors."""

    key: list
    values: list
    edges: list
    count: cython.Py_ssize_t  # of tensors

    def __cinit__(self):
        self.key, self.values, self.edges = [], [], []

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def read(
        self, arguments: Arguments, count: cython.size_t, names: cython.pointer(PyObject)
    ) -> cython.bint:
        """Look at the arguments of a call; whether its nodes follow from what has been found."""
        mode: Mode = current_tape().mode
        if ambient > 0 or mode.eager or mode.inference or mode.anomaly or mode.walk != 0:
            return False
        if mode.extra is not None or mode.fiber is not None or mode.duals is not None:
            return False
        if intercepting and has_mode():
            return False
        place: cython.int = 0
        code: cython.pointer(PyObject) = caller(cython.address(place))
        self.key.append(cython.cast(cython.longlong, cython.cast(cython.p_void, code)))
        self.key.append(place)
        self.key.append(dtypes.get_default())
        total: cython.Py_ssize_t = PyVectorcall_NARGS(count)
        self.key.append(total)
        if names != cython.NULL:
            self.key.append(cython.cast(object, names))
            total += len(cython.cast(tuple, cython.cast(object, names)))
        index: cython.Py_ssize_t
        for index in range(total):
            entry = cython.cast(object, arguments[index])
            if isinstance(entry, Tensor):
                if not self.add_tensor(cython.cast(Tensor, entry), mode.grad):
                    return False
            elif not self.add_plain(entry, 0):
                return False
        self.count = len(self.values)
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def add_tensor(self, tensor: Tensor, grad: cython.bint) -> cython.bint:
        """Shape, type and layout, whether a gradient flows, and which tensor before has the same value or edge; False
        where nodes do not follow from them."""
        if type(tensor) not in plain_kinds or tensor.lens != 0 or tensor.inference:
            return False
        tracked: cython.bint = grad and needs_grad(tensor)
        node: Node = value(tensor)
        if (node.state != DONE and node.state != PENDING) or (tracked and _inference_used):
            return False
        edge = edge_of(tensor) if tracked else None
        self.key.append(tensor._shape)
        self.key.append(tensor._dtype)
        self.key.append(tensor.strides)
        self.key.append(tracked)
        self.key.append(_place_in(self.values, node))
        if tracked:
            self.key.append(_place_in(self.edges, edge))
        self.values.append(node)
        self.edges.append(edge)
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def add_plain(self, entry, depth: cython.int) -> cython.bint:
        """What is not a tensor, with its type: 1, 1.0 and True are equal, 0.0 and -0.0 too. Lists in lists are taken
        to a depth: one may contain itself."""
        kind = type(entry)
        if kind is int or entry is None:
            self.key.append(entry)
            return True
        self.key.append(kind)
        if isinstance(entry, (tuple, list)):
            if depth == MOST_DEPTH or len(entry) > MOST_ENTRIES:
                return False
            self.key.append(len(entry))
            for part in entry:
                if not self.add_plain(part, depth + 1):
                    return False
            return True
        self.key.append(entry)
        if kind is float:
            self.key.append(copysign(1.0, cython.cast(cython.double, entry)))
        return kind in _plain


@cython.cfunc
@cython.exceptval(-2, check=False)
def _place_in(entries: list, entry) -> cython.Py_ssize_t:
    """Where an object stands first in a list, or -1."""
    index: cython.Py_ssize_t
    for index in range(len(entries)):
        if entries[index] is entry:
            return index
    return -1


@cython.final
@cython.cclass
class Step:
    """One node of a composition. An operand, and an edge, is a number: of a tensor or a constant, or minus one minus
    that of an earlier step; an edge may be None. `whole` is the step behind which a gradient record stands, or -1."""

    row: Primitive
    params: object
    shape: tuple
    numel: cython.longlong
    dtype: DType
    code: object
    place: cython.int
    operands: tuple
    edges: tuple
    payload: object
    whole: cython.Py_ssize_t

    def __cinit__(self, node: Node):
        self.row, self.params, self.shape = node.row, node.params, node.shape
        self.numel, self.dtype, self.payload = node.numel, node.dtype, node.payload
        self.code, self.place = node.code, node.offset_in_code
        self.whole = -1

    @cython.cfunc
    def record(self, tape: Tape, values: list, edges: list, made: list) -> Node:
        """The node once more."""
        node: Node = append_again(
            tape,
            self.row,
            _numbered(self.operands, values, made),
            self.params,
            self.shape,
            self.numel,
            self.dtype,
            self.code,
            self.place,
        )
        if self.edges is not None:
            node.edges = _numbered(self.edges, edges, made)
            hide(node.edges)
            acquire_saves(node, node.edges)
            node.payload = self.payload
            if self.whole >= 0:
                node.result = made[self.whole]
                node.result.live += 1
                finish(node)
        return node


@cython.cfunc
def _numbered(numbers: tuple, given: list, made: list) -> tuple:
    """The inputs or edges of a step."""
    count: cython.Py_ssize_t = len(numbers)
    if count == 1:
        return one(_entry(numbers[0], given, made))
    if count == 2:
        return two(_entry(numbers[0], given, made), _entry(numbers[1], given, made))
    if count == 3:
        return three(
            _entry(numbers[0], given, made),
            _entry(numbers[1], given, made),
            _entry(numbers[2], given, made),
        )
    return tuple([_entry(number, given, made) for number in numbers])


@cython.cfunc
@cython.inline
def _entry(number, given: list, made: list):
    if number is None:
        return None
    place: cython.Py_ssize_t = number
    return given[place] if place >= 0 else made[-1 - place]


@cython.final
@cython.cclass
class Composition:
    """What calls of one kind record: steps, the values that are the same in all of them, and for each result the
    numbers of its step and of its edge's, and its layout."""

    steps: list
    constants: list  # handles, so that nothing takes their memory
    results: list
    is_tuple: cython.bint

    def __cinit__(self):
        self.steps, self.constants, self.results = [], [], []

    @cython.cfunc
    def record(self, given: Operands):
        """The nodes once more, on other tensors."""
        tape: Tape = current_tape()
        made: list = []
        step: Step
        constant: Tensor
        for constant in self.constants:
            given.values.append(constant.node)
        for step in self.steps:
            made.append(step.record(tape, given.values, given.edges, made))
        found: list = []
        for number, edge, strides in self.results:
            result: Tensor = wrap(cython.cast(Node, made[number]), _entry(edge, [], made))
            result.strides = strides
            found.append(result)
        check_budget()
        return tuple(found) if self.is_tuple else found[0]


@cython.cfunc
def composed(
    function,
    known: dict,
    arguments: Arguments,
    count: cython.size_t,
    names: cython.pointer(PyObject),
):
    """Call a function, or record what calls of this kind are `known` to record."""
    given: Operands = Operands.__new__(Operands)
    if not given.read(arguments, count, names):
        return PyObject_Vectorcall(function, arguments, count, names)
    kind: tuple = tuple(given.key)
    found = known.get(kind)
    if type(found) is Composition:
        counters["repeated"] += 1
        return cython.cast(Composition, found).record(given)
    if found is None:
        while len(known) >= MOST_CALLS:
            del known[next(iter(known))]
        known[kind] = _seen
    elif found is _seen:
        return _learn(function, known, kind, given, arguments, count, names)
    return PyObject_Vectorcall(function, arguments, count, names)


# -- learning ------------------------------------------------------------------------------------------------------


@cython.cfunc
def _learn(
    function,
    known: dict,
    kind: tuple,
    given: Operands,
    arguments: Arguments,
    count: cython.size_t,
    names: cython.pointer(PyObject),
):
    """Call a function on handles of its own around the values, and remember what it records, if it can be repeated."""
    entries: list = []
    total: cython.Py_ssize_t = PyVectorcall_NARGS(count)
    named: tuple = () if names == cython.NULL else cython.cast(tuple, cython.cast(object, names))
    used: cython.Py_ssize_t = 0
    index: cython.Py_ssize_t
    for index in range(total + len(named)):
        entry = cython.cast(object, arguments[index])
        if isinstance(entry, Tensor):
            handle: Tensor = wrap(cython.cast(Node, given.values[used]), given.edges[used])
            handle.strides = cython.cast(Tensor, entry).strides
            entry = handle
            used += 1
        entries.append(entry)
    keywords: dict = {name: entries[total + index] for index, name in enumerate(named)}
    start: cython.longlong = last_sequence()
    found = result = None
    try:
        with intact():
            result = function(*entries[:total], **keywords)
        found = Lesson(given).learn(start, result)
    except (
        NoMemoryOrderError
    ):  # it has taken a view of a region, of which a handle of our own knows no memory
        found = False
    known[kind] = found
    if found is False:  # it may have given an operand, or a view of one
        return PyObject_Vectorcall(function, arguments, count, names)
    counters["learned"] += 1
    check_budget()
    return result


@cython.final
@cython.cclass
class Lesson:
    """How a composition is learned from what has been recorded: values and edges by number."""

    found: Composition
    values: dict
    edges: dict
    unused: set  # values of the call that are no operand of a step
    filled: cython.Py_ssize_t

    def __cinit__(self, given: Operands):
        index: cython.Py_ssize_t
        self.found = Composition.__new__(Composition)
        self.values, self.edges, self.filled = {}, {}, given.count
        self.unused = set(given.values)
        for index in range(given.count):
            self.values.setdefault(given.values[index], index)
            if given.edges[index] is not None:
                self.edges.setdefault(given.edges[index], index)

    @cython.cfunc
    def learn(self, start: cython.longlong, result):
        """What has been recorded since `start`, or False where it cannot be repeated."""
        self.found.is_tuple = type(result) is tuple
        results: tuple = result if self.found.is_tuple else (result,)
        for part in results:
            if not _is_own(part):
                return False
        node: Node
        for node in _recorded(start, results):
            if not self.add(node):
                return False
        # A tensor in place of a number or of sizes has been read: its numbers are in the nodes.
        if self.unused:
            return False
        tensor: Tensor
        for tensor in results:
            number = self.values.get(tensor.node)
            edge = None if tensor.edge is None else self.values.get(tensor.edge)
            if number is None or number >= 0 or (edge is None) != (tensor.edge is None):
                return False
            if edge is not None and edge >= 0:
                return False
            self.found.results.append((-1 - cython.cast(int, number), edge, tensor.strides))
        return self.found

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def add(self, node: Node) -> cython.bint:
        """A step for a node, if everything in it is known."""
        if node.state != PENDING or node.inputs is None or node.observers is not None:
            return False
        if (node.tape == cython.NULL) != (node.result is not None):
            return False
        step: Step = Step(node)
        operands: list = []
        for source in node.inputs:
            operands.append(self.number_of_value(cython.cast(Node, source)))
        step.operands = tuple(operands)
        if None in step.operands:
            return False
        if node.edges is not None:
            edges: list = []
            for edge in node.edges:
                number = self.edges.get(edge)
                if edge is not None and number is None:
                    return False
                edges.append(number)
            step.edges = tuple(edges)
        if node.result is not None:
            whole = self.values.get(node.result)
            if whole is None or whole >= 0:
                return False
            step.whole = -1 - cython.cast(int, whole)
        self.found.steps.append(step)
        self.values[node] = self.edges[node] = -len(self.found.steps)
        return True

    @cython.cfunc
    def number_of_value(self, node: Node):
        """The number of an operand; a constant that the function has brought with it gets one. None: unknown."""
        number = self.values.get(node)
        self.unused.discard(node)
        if number is None and _is_constant(node):
            number = self.values[node] = self.filled
            self.found.constants.append(wrap(node, None))
            self.filled += 1
        return number


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
def _is_constant(node: Node) -> cython.bint:
    """Whether a value that the function has brought with it is a number, or a few of them."""
    if node.row is scalar_row:
        return True
    return (
        node.row is value_row
        and node.state == DONE
        and node.numel * node.dtype.itemsize <= MOST_BYTES
    )


@cython.cfunc
@cython.exceptval(-1, check=False)
def _is_own(part) -> cython.bint:
    """Whether a result is a new handle around a value, of which nothing else knows."""
    if type(part) is not Tensor:
        return False
    tensor: Tensor = part
    if tensor.storage is not None or tensor.base is not None or tensor.leaf_grad:
        return False
    return tensor.lens == 0 and not tensor.inference and not tensor.retains
