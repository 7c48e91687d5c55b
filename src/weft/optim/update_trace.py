# cython: language_level=3
"""Trace and replay of optimizer updates: the update of one parameter is recorded again for others without its Python.

It takes a parameter, its gradient and its state, and the trace of the first update like it, and records the same nodes
on these; their storages get the new values. Only what is certain to be the same is replayed: elementwise operations
without gradients, on tensors that are all of their storages, and numbers. The caller promises that the update depends
on nothing else.
"""

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.weft.engine.capi.call_site import caller
from cython.cimports.weft.engine.frontend.recorder import check_budget
from cython.cimports.weft.engine.frontend.resolve import value
from cython.cimports.weft.engine.frontend.tensor import Storage, Tensor, replace_node
from cython.cimports.weft.engine.frontend.views import share
from cython.cimports.weft.engine.ir.node import DONE, PENDING, Node
from cython.cimports.weft.engine.ir.tape import current_tape
from cython.cimports.weft.engine.replay.cache import Cache
from cython.cimports.weft.engine.replay.conditions import is_plain, plain_kinds, verifying
from cython.cimports.weft.engine.replay.fingerprint import (
    Fingerprint,
    put,
    put_part,
    put_plain,
    reserve,
)
from cython.cimports.weft.engine.replay.recorder import Recorder
from cython.cimports.weft.engine.replay.trace import Replay, Trace

from weft._build.compiled import require
from weft.engine.ir.primitive import ELEMENTWISE
from weft.engine.ir.tape import last_sequence
from weft.engine.replay import verify
from weft.optim.counted_state import CountedState

require(__name__, cython.compiled)

_elementwise = cython.declare(cython.int, ELEMENTWISE)


@cython.final
@cython.cclass
class Update(Replay):
    """The operands of an update: a tensor, its gradient, and a state of tensors and numbers. Fingerprints are equal if
    the update is certain to be the same; `tensors` are all of them."""

    key: Fingerprint
    tensors: list
    versions: list
    start: cython.longlong
    expected: object  # the trace that has been recorded on it, to be compared with the real update

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def read(self, parameter, grad, state: dict) -> cython.bint:
        """Look at the operands; False where one of them is not all of its storage, or shares it with another: what is
        written to one would be read from the other."""
        if type(parameter) not in plain_kinds or type(grad) not in plain_kinds:
            return False
        self.tape = current_tape()
        if self.tape.mode.grad or not is_plain(self.tape):
            return False
        key: Fingerprint = Fingerprint.__new__(Fingerprint)
        reserve(key, 2 + 3 * len(state))
        self.key, self.tensors, self.values = key, [], []
        self.shape = cython.cast(Tensor, parameter)._shape
        if not self.read_tensor(parameter) or not self.read_tensor(grad):
            return False
        for name, entry in state.items():
            put_part(key, name)
            if type(entry) is Tensor:
                if not self.read_tensor(entry):
                    return False
            elif (type(entry) is not float and type(entry) is not int) or not put_plain(key, entry):
                return False
        key.digest()
        return _are_apart(self.tensors)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def read_tensor(self, tensor: Tensor) -> cython.bint:
        if not _is_whole(tensor, self.shape):
            return False
        reserve(self.key, 1)
        node: Node = value(tensor)
        put(self.key, tensor._dtype.code | cython.cast(cython.longlong, node.device) << 8)
        self.tensors.append(tensor)
        self.values.append(node)
        return True

    @cython.cfunc
    def watch(self) -> cython.void:
        """The update is about to be made."""
        tensor: Tensor
        self.versions = []
        for tensor in self.tensors:
            self.versions.append(0 if tensor._storage is None else tensor._storage.version)
        self.start = last_sequence()


@cython.cfunc
@cython.exceptval(-1, check=False)
def _is_whole(tensor: Tensor, shape: tuple) -> cython.bint:
    """True if a handle shows, in order, all of a value of this shape, and nothing else must be told of changes."""
    if tensor.strides is not None or tensor.view_transform != 0 or tensor.base is not None:
        return False
    if tensor.counter is not None or tensor.retains or tensor.inference:
        return False
    node: Node = tensor.node
    storage: Storage = tensor._storage
    if storage is not None:
        if storage.foreign is not None or storage.undo is not None:
            return False
        if tensor.view_chain != () or tensor.offset != 0:
            return False
        node = storage.node
    if node.may_fail or (node.state != DONE and node.state != PENDING):
        return False
    return node.shape == shape


@cython.cfunc
@cython.exceptval(-1, check=False)
def _are_apart(tensors: list) -> cython.bint:
    """True if no two handles share a storage."""
    tensor: Tensor
    other: Tensor
    index: cython.Py_ssize_t
    for index in range(1, len(tensors)):
        tensor = tensors[index]
        if tensor._storage is not None:
            for other in tensors[:index]:
                if other._storage is tensor._storage:
                    return False
    return True


@cython.final
@cython.cclass
class UpdateRecorder(Recorder):
    """An update is elementwise operations in the shape of its operands, on these and on numbers."""

    shape: tuple

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def accepts(self, node: Node) -> cython.bint:
        if node.op.kind != _elementwise or node.params is not None or node.edges is not None:
            return False
        return not node.may_fail and node.shape == self.shape and Recorder.accepts(self, node)


@cython.final
@cython.cclass
class UpdateTrace(Trace):
    """The nodes that the update of one parameter recorded, and the destinations of its results."""

    pairs: list  # of operands that have one value: which of them is read cannot be seen
    results: list  # (number of the operand, of its new value, versions)
    numbers: dict  # entries of the state that are other numbers now

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def learn(self, given: Update, after: Update, state: dict) -> cython.bint:
        """Take what has been recorded since `given` was watched; whether it can be recorded again. `after` are the same
        operands now."""
        index: cython.Py_ssize_t
        recorder: UpdateRecorder = UpdateRecorder()
        recorder.shape = given.shape
        self.pairs, self.results = [], []
        self.numbers = {n: entry for n, entry in state.items() if not isinstance(entry, Tensor)}
        for index in range(len(given.values)):
            first = recorder.numbers.get(given.values[index])
            if first is not None:
                self.pairs.append((first, index))
            recorder.give(given.values[index], None)
        if not recorder.write(self, given.tape.since(given.start)):
            return False
        for index in range(len(after.values)):
            if after.tensors[index] is not given.tensors[index]:
                return False
            if after.values[index] is given.values[index]:
                continue
            number = recorder.numbers.get(after.values[index], 0)
            if number >= 0 or index == 1:  # the gradient stays as it is
                return False
            tensor: Tensor = given.tensors[index]
            versions: cython.longlong = tensor._storage.version - given.versions[index]
            self.results.append((index, -1 - number, versions))
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def replay(self, given: Update, state) -> cython.bint:
        """Record the update on other operands; False where they are not like the first ones."""
        index: cython.Py_ssize_t
        number: cython.Py_ssize_t
        for index, number in self.pairs:
            if given.values[index] is not given.values[number]:
                return False
        self.begin(given)
        self.record(given, 0, self.count)
        if verifying:  # the caller makes the update, and `learn` compares
            given.expected = self
            return False
        for index, number, versions in self.results:
            tensor: Tensor = given.tensors[index]
            storage: Storage = share(tensor)
            replace_node(storage, given.made[number])
            storage.version += versions
            tensor.version_seen = storage.version
        if type(state) is CountedState and state.shown:
            state.take(self.numbers)
        else:
            dict.update(state, self.numbers)
        check_budget()
        return True


@cython.cfunc
def _verify(given: Update, state: dict) -> cython.void:
    """Errors: AssertionError where an update has recorded, or written, something else than its trace."""
    trace: UpdateTrace = given.expected
    made: Node
    for made in given.made:
        if made.state != PENDING:
            return  # what was pending has run meanwhile: the nodes of the update are gone
    real: list = given.tape.since(given.start)
    pairs = verify.compare("an update", given.made, real)
    found: dict = {}
    tensor: Tensor
    for number, tensor in enumerate(given.tensors):
        if value(tensor) is not given.values[number]:
            found[number] = value(tensor), tensor._storage.version - given.versions[number]
    expected = {i: (pairs[given.made[n]], versions) for i, n, versions in trace.results}
    numbers = {name: entry for name, entry in state.items() if not isinstance(entry, Tensor)}
    if found != expected or numbers != trace.numbers:
        raise verify.mismatch("an update", f"{expected} {trace.numbers}", f"{found} {numbers}")


@cython.final
@cython.cclass
class Updates:
    """The updates of one step of an optimizer. What is equal for all of them is no part of a fingerprint, so nothing is
    kept beyond the step, and the first update of a kind is learned."""

    known: Cache
    code: object
    offset_in_code: cython.int

    def __cinit__(self):
        instruction: cython.int = -1
        code: cython.pointer(PyObject) = caller(cython.address(instruction))
        self.code = None if code == cython.NULL else cython.cast(object, code)
        self.offset_in_code = instruction
        self.known = Cache("updates", 0)

    @cython.ccall
    def replay(self, parameter, grad, state):
        """Record the update of a parameter if it is known: True where that is so, what `learn` asks for where it may be
        learned from the update that the caller makes, or else None."""
        given: Update = Update.__new__(Update)
        entries: dict = cython.cast(dict, state)  # what a CountedState holds inside
        if not given.read(parameter, grad, entries):
            return None
        given.code, given.offset_in_code = self.code, self.offset_in_code
        trace: UpdateTrace = cython.cast(UpdateTrace, self.known.find(given.key))
        if trace is not None and trace.replay(given, state):
            self.known.counters.hits += 1
            return True
        given.watch()
        return given

    @cython.ccall
    def learn(self, given: Update, parameter, grad, state) -> cython.void:
        """Keep what has been recorded for an update, if it can be recorded again."""
        after: Update = Update.__new__(Update)
        if given.expected is not None:
            _verify(given, cython.cast(dict, state))
            self.known.counters.hits += 1
            return
        if not after.read(parameter, grad, cython.cast(dict, state)) or len(after.tensors) != len(
            given.tensors
        ):
            return
        trace: UpdateTrace = UpdateTrace()
        if after.key.words.count == given.key.words.count and trace.learn(
            given, after, cython.cast(dict, state)
        ):
            self.known.keep(given.key, trace, trace.size())
