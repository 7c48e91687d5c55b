# cython: language_level=3
"""A formula recorded for one set of tensors is recorded again for others, without running its Python.

In come tensors, and what the formula recorded for the first of them; out go the same nodes on the others, whose
storages get the new values. Only what is surely the same is taken: operations element by element without gradients, on
tensors that are all of their storages, and numbers. Whoever asks says that the formula depends on nothing else.
"""

import cython
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.weft.engine.frontend.node_factory import append_again
from cython.cimports.weft.engine.frontend.recorder import check_budget
from cython.cimports.weft.engine.frontend.resolve import value
from cython.cimports.weft.engine.frontend.tensor import Storage, Tensor, replace_node
from cython.cimports.weft.engine.frontend.views import share
from cython.cimports.weft.engine.ir.dtype import DType
from cython.cimports.weft.engine.ir.node import DONE, PENDING, Node
from cython.cimports.weft.engine.ir.primitive import Primitive, scalar_row
from cython.cimports.weft.engine.ir.tape import Mode, Tape, ambient, current_tape
from cython.cimports.weft.engine.ir.tuple_cache import one, two

from weft._build.compiled import require
from weft.engine.ir.primitive import ELEMENTWISE
from weft.engine.ir.tape import last_sequence

require(__name__, cython.compiled)

_elementwise = cython.declare(cython.int, ELEMENTWISE)
plain_kinds = {Tensor}  # classes that change nothing of what operations on their tensors mean


@cython.final
@cython.cclass
class Operands:
    """What a formula is about: a tensor, its gradient, and a state of tensors and numbers. `key` is equal where the
    formula is surely the same; `tensors` are all of them."""

    key = cython.declare(object, visibility="readonly")
    tensors = cython.declare(list, visibility="readonly")


@cython.ccall
def operands(parameter, grad, state: dict):
    """The operands of a formula, or None where one of them is not all of its storage, or shares it with another: what
    is written to one would be read from the other."""
    if type(parameter) not in plain_kinds or type(grad) not in plain_kinds:
        return None
    tensor: Tensor = parameter
    gradient: Tensor = grad
    mode: Mode = current_tape().mode
    if mode.grad or mode.eager or mode.inference or ambient > 0:
        return None
    if mode.extra is not None or mode.fiber is not None:
        return None
    shape: tuple = tensor._shape
    if not _is_plain(tensor, shape) or not _is_plain(gradient, shape):
        return None
    found: Operands = Operands.__new__(Operands)
    found.tensors = [tensor, gradient]
    parts: list = [tensor._dtype.code, gradient._dtype.code]
    for name, entry in state.items():
        parts.append(name)
        if type(entry) is Tensor:
            if not _is_plain(cython.cast(Tensor, entry), shape):
                return None
            parts.append(cython.cast(Tensor, entry)._dtype.code)
            found.tensors.append(entry)
        elif type(entry) is float or type(entry) is int:
            parts.append(entry)
        else:
            return None
    if not _are_apart(found.tensors):
        return None
    found.key = tuple(parts)
    return found


@cython.cfunc
@cython.exceptval(-1, check=False)
def _is_plain(tensor: Tensor, shape: tuple) -> cython.bint:
    """Whether a handle shows, in order, all of a value of this shape that nothing else is to be told about."""
    if tensor.strides is not None or tensor.lens != 0 or tensor.base is not None:
        return False
    if tensor.counter is not None or tensor.retains or tensor.inference:
        return False
    node: Node = tensor.node
    storage: Storage = tensor.storage
    if storage is not None:
        if storage.foreign is not None or storage.former is not None:
            return False
        if tensor.recipe != () or tensor.offset != 0:
            return False
        node = storage.node
    if node.risky or (node.state != DONE and node.state != PENDING):
        return False
    return node.shape == shape


@cython.cfunc
@cython.exceptval(-1, check=False)
def _are_apart(tensors: list) -> cython.bint:
    """Whether no two handles share a storage."""
    tensor: Tensor
    other: Tensor
    index: cython.Py_ssize_t
    for index in range(1, len(tensors)):
        tensor = tensors[index]
        if tensor.storage is not None:
            for other in tensors[:index]:
                if other.storage is tensor.storage:
                    return False
    return True


@cython.final
@cython.cclass
class Step:
    """One operation of a formula: all of its node but the inputs, of which there are `arity`, and the shape. The node
    itself is not kept: it forgets its inputs when it has run, which may be before the formula is repeated."""

    row: Primitive
    dtype: DType
    code: object
    place: cython.int
    arity: cython.Py_ssize_t

    def __cinit__(self, node: Node):
        self.row, self.dtype = node.row, node.dtype
        self.code, self.place = node.code, node.offset_in_code
        self.arity = len(node.inputs)


@cython.final
@cython.cclass
class Formula:
    """What is recorded from its making to `close` on one set of operands; `repeat` records it on others.

    An input of a step is a number: that of a leaf, of a shared number behind the leaves, or minus one minus that of a
    step before.
    """

    start: cython.longlong
    versions: list
    leaves: list  # values of the operands before, until it is closed
    shared: list  # the numbers that are read
    twins: list  # pairs of operands that have one value
    steps: list
    wiring: cython.p_int  # the inputs of all steps
    results: list  # (number of the operand, of its new value, versions)
    numbers: dict  # entries of the state that are other numbers now

    def __init__(self, given: Operands):
        tensor: Tensor
        self.leaves = []
        self.versions = []
        self.twins = []
        self.shared = []
        self.steps = []
        for tensor in given.tensors:
            self.leaves.append(value(tensor))
            self.versions.append(0 if tensor.storage is None else tensor.storage.version)
        self.start = last_sequence()

    def __dealloc__(self):
        free(self.wiring)

    @cython.ccall
    @cython.exceptval(-1, check=False)
    def close(self, given: Operands, after: Operands, state: dict) -> cython.bint:
        """Look at what has been recorded since; whether it can be recorded again. `given` is what it was recorded on,
        `after` the same operands now."""
        if after is None or len(after.key) != len(given.key):
            return False
        if not _are_same(given.tensors, after.tensors):
            return False
        self.numbers = {}
        for name, entry in state.items():
            if not isinstance(entry, Tensor):
                self.numbers[name] = entry
        tensor: Tensor = given.tensors[0]
        numbering: dict = self._number_leaves()
        found: cython.bint = self._wire(
            current_tape().since(self.start), tensor._shape, numbering
        ) and self._find_results(given.tensors, numbering)
        self.leaves = []
        return found

    @cython.cfunc
    def _number_leaves(self) -> dict:
        """Number the operands' values; of two operands with one value, which of them is read cannot be seen."""
        number: cython.Py_ssize_t
        numbering: dict = {}
        for number in range(len(self.leaves)):
            source = self.leaves[number]
            if source in numbering:
                self.twins.append((numbering[source], number))
            else:
                numbering[source] = number
        return numbering

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _wire(self, nodes: list, shape: tuple, numbering: dict) -> cython.bint:
        """Describe the nodes, and number the inputs of all; whether everything is an elementwise operation on known
        values. What has run already is not among the nodes, and its value not among the known ones."""
        filled: cython.Py_ssize_t = 0
        node: Node
        source: Node
        for node in nodes:
            if node.row.kind != _elementwise or node.params is not None or node.edges is not None:
                return False
            if node.state != PENDING or node.risky or node.shape != shape:
                return False
            filled += len(node.inputs)
        self.wiring = cython.cast(cython.p_int, malloc(filled * cython.sizeof(cython.int)))
        if self.wiring == cython.NULL and filled > 0:
            raise MemoryError
        filled = 0
        for node in nodes:
            for source in node.inputs:
                place = numbering.get(source)
                if place is None:
                    if source.row is not scalar_row:
                        return False
                    place = numbering[source] = len(self.leaves) + len(self.shared)
                    self.shared.append(source)
                self.wiring[filled] = place
                filled += 1
            self.steps.append(Step(node))
            numbering[node] = -len(self.steps)
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _find_results(self, tensors: list, numbering: dict) -> cython.bint:
        """Which operands have a new value; it has to be one of those that were recorded."""
        self.results = []
        tensor: Tensor
        for index, tensor in enumerate(tensors):
            node: Node = value(tensor)
            if node is self.leaves[index]:
                continue
            number = numbering.get(node)
            if number is None or number >= 0 or index == 1:  # the gradient stays as it is
                return False
            self.results.append((index, -1 - number, tensor.storage.version - self.versions[index]))
        return True

    @cython.ccall
    @cython.exceptval(-1, check=False)
    def repeat(self, given: Operands, state: dict) -> cython.bint:
        """Record the formula on other operands of the same key; False where they are not like the first ones."""
        tensor: Tensor
        values: list = []
        for tensor in given.tensors:
            values.append(value(tensor))
        for index, number in self.twins:
            if values[index] is not values[number]:
                return False
        values.extend(self.shared)
        tensor = given.tensors[0]
        made: list = self._record(values, tensor._shape)
        for index, number, versions in self.results:
            tensor = given.tensors[index]
            storage: Storage = share(tensor)
            replace_node(storage, made[number])
            storage.version += versions
            tensor.seen = storage.version
        state.update(self.numbers)
        check_budget()
        return True

    @cython.cfunc
    def _record(self, values: list, shape: tuple) -> list:
        """The steps once more, on these leaves and numbers, in the shape of all leaves."""
        first: Node = values[0]
        numel: cython.longlong = first.numel
        tape: Tape = current_tape()
        wiring: cython.p_int = self.wiring
        made: list = []
        step: Step
        for step in self.steps:
            if step.arity == 2:
                inputs: tuple = two(
                    _input(wiring[0], values, made), _input(wiring[1], values, made)
                )
            elif step.arity == 1:
                inputs = one(_input(wiring[0], values, made))
            else:
                inputs = tuple([_input(wiring[i], values, made) for i in range(step.arity)])
            wiring += step.arity
            made.append(
                append_again(
                    tape, step.row, inputs, None, shape, numel, step.dtype, step.code, step.place
                )
            )
        return made


@cython.cfunc
@cython.inline
def _input(number: cython.Py_ssize_t, values: list, made: list):
    """An input by its number."""
    return values[number] if number >= 0 else made[-1 - number]


@cython.cfunc
@cython.exceptval(-1, check=False)
def _are_same(some: list, others: list) -> cython.bint:
    """Whether two lists hold the same objects."""
    if len(some) != len(others):
        return False
    index: cython.Py_ssize_t
    for index in range(len(some)):
        if some[index] is not others[index]:
            return False
    return True
