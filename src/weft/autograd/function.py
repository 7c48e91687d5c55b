# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False
"""Custom differentiable functions, in PyTorch's two styles (`ctx` in forward, or `setup_context`).

`forward` runs once, at the call, with gradients off; what it records runs lazily like everything else. One gradient
record stands for the call; its `backward` runs once per walk that reaches it.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.weft.graph.edges import edge_of, value
from cython.cimports.weft.graph.frames import caller
from cython.cimports.weft.graph.handles import PyObject_GenericSetAttr, wrap
from cython.cimports.weft.graph.making import hide
from cython.cimports.weft.graph.node import Node
from cython.cimports.weft.graph.tape import Mode, current_tape
from cython.cimports.weft.graph.targets import GradientFunction, OutputEdge, new_edge
from cython.cimports.weft.graph.tensor import Tensor
from cython.cimports.weft.graph.tuples import one

from weft._compiled import require
from weft.autograd.forward_ad import push_function
from weft.autograd.saving import pack_value
from weft.autograd.tangents import transposed
from weft.errors import ArgumentTypeError, GradientError, MutationError, describe_position
from weft.graph import tape as tapes
from weft.graph.edges import edge_for, set_edge
from weft.graph.mutation import mutate
from weft.graph.recording import cast
from weft.graph.typedict import class_like, show_as
from weft.graph.views import IN_FUNCTION, alias_of
from weft.ops.primitives import full, sum_to

require(__name__, cython.compiled)

NOTHING = cython.declare(tuple, ())
_YES = cython.declare(tuple, (True,))
_NO = cython.declare(tuple, (False,))


@cython.cclass
class Saved:
    """One tensor of `save_for_backward`, with the value that it had then. An input comes back as itself while it has
    not changed, an output on the edge of its record (which it does not hold: that would be a cycle)."""

    tensor = cython.declare(Tensor)
    value = cython.declare(Tensor)
    version = cython.declare(object)
    number = cython.declare(cython.int)
    packed = cython.declare(object)
    edge = cython.declare(object)

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.version = 0 if tensor.inference else tensor._version
        self.value = wrap(value(tensor), edge_of(tensor))
        self.value.strides = tensor.strides
        self.number = -1

    @cython.cfunc
    def settle(self, outputs: list, arguments: tuple, dirty: tuple) -> cython.void:
        """After forward: what kind of tensor it was, and the hooks that are in force."""
        given: cython.bint = _among(self.tensor, arguments) and not _among(self.tensor, dirty)
        place: cython.int
        if not given:
            for place in range(len(outputs)):
                if outputs[place] is self.tensor:
                    self.number = place
                    break
            self.tensor = None
        if tapes.tape().mode.saved_hooks:
            self.packed = pack_value(self.value)
            self.tensor, self.edge = None, edge_of(self.value)
            self.value = None

    @cython.ccall
    def unpack(self, record: object) -> object:
        """The tensor again."""
        edge = None if record is None or self.number < 0 else OutputEdge(record, self.number)
        if self.packed is not None:
            return self.packed.unpack(edge or self.edge)
        if self.tensor is not None and (
            self.tensor.inference or self.tensor._version == self.version
        ):
            return self.tensor
        if edge is None:
            return self.value
        again = self.value.detach()
        set_edge(again, edge)
        return again


@cython.cclass
class FunctionCtx:
    """What `forward` leaves for `backward`."""

    _saved = cython.declare(tuple)  # None where it has been freed
    _dirty = cython.declare(tuple)
    _constant = cython.declare(tuple)
    _materialize = cython.declare(cython.bint)
    _record = cython.declare(
        object
    )  # a weak reference to the gradient record, where something is saved
    needs_input_grad = cython.declare(tuple, visibility="public")
    __dict__ = cython.declare(dict)

    def __cinit__(self) -> None:
        self._saved = self._dirty = self._constant = self.needs_input_grad = NOTHING
        self._materialize = True

    @property
    def materializes(self) -> bool:
        """Whether missing cotangents and tangents are zeros."""
        return self._materialize

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors for `saved_tensors`. Errors: TypeError for anything but tensors and None."""
        for index, tensor in enumerate(tensors):
            if tensor is not None and not isinstance(tensor, Tensor):
                raise ArgumentTypeError(
                    f"save_for_backward can only save variables, but argument {index} is of type "
                    f"{type(tensor).__name__}",
                    expected="tensors or None",
                    got=type(tensor).__name__,
                    fix="store it as an attribute of ctx",
                )
        self._saved = tuple([None if t is None else Saved(t) for t in tensors])

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep tensors for `jvp`; `saved_tensors` gives them as it gives those of `save_for_backward`."""
        if not self._saved:
            self.save_for_backward(*tensors)

    def mark_dirty(self, *tensors: Any) -> None:
        """Declare inputs that forward changed in place and returns."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Declare outputs without a gradient."""
        self._constant = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether missing cotangents arrive as zeros (the default) or as None."""
        self._materialize = value

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What was saved. Errors: RuntimeError after it has been freed."""
        from weft.autograd.discovery import SECOND_TIME

        if self._saved is None:
            raise GradientError(SECOND_TIME, fix="pass retain_graph=True to the first backward")
        record = None if self._record is None else self._record()
        found: list = []
        for kept in self._saved:
            found.append(None if kept is None else cython.cast(Saved, kept).unpack(record))
        return tuple(found)


@cython.cclass
class FunctionNode(GradientFunction):
    """The gradient record of one call of a custom Function: its types of outputs and inputs as (shape, dtype)."""

    ctx = cython.declare(FunctionCtx, visibility="readonly")
    function = cython.declare(object, visibility="readonly")
    _output_types = cython.declare(tuple)  # shape, dtype, shape, dtype, ...
    _inputs = cython.declare(tuple)  # likewise; None, None for what is no tensor
    call = cython.declare(object, visibility="readonly")  # its tensors in numbers, in anomaly mode
    code = cython.declare(object)
    offset_in_code = cython.declare(cython.int)
    __weakref__ = cython.declare(object)

    @property
    def output_types(self) -> list[Any]:
        """(shape, dtype) of each output."""
        return list(zip(self._output_types[::2], self._output_types[1::2], strict=True))

    @property
    def input_types(self) -> tuple[Any, ...]:
        """(shape, dtype) of each argument; None for what is no tensor."""
        pairs = zip(self._inputs[::2], self._inputs[1::2], strict=True)
        return tuple([None if shape is None else (shape, dtype) for shape, dtype in pairs])

    @property
    def where(self) -> str:
        """The user's line that called `apply`."""
        return describe_position(self.code, self.offset_in_code)

    def name(self) -> str:
        """`<class>Backward`."""
        return f"{self.function.__name__}{self.function._ending}"

    def __repr__(self) -> str:
        return f"<weft.autograd.function.{self.name()} object at {id(self):#x}>"

    def seen_as(self) -> None:
        """Become an instance of the Function's `<class>Backward`, as users see it."""
        if type(self) is not FunctionNode:
            return
        made = self.function.__dict__.get("_backward_cls")
        if made is None:
            made = class_like(FunctionNode, self.name(), {"__module__": __name__})
            self.function._backward_cls = made
        show_as(self, made)

    def check_usable(self) -> None:
        """Errors: RuntimeError where the saved tensors are gone."""
        if self.ctx._saved is None:
            from weft.autograd.discovery import SECOND_TIME

            raise GradientError(
                SECOND_TIME,
                got=f"{self.name()}, called at {self.where}",
                fix="pass retain_graph=True to the first backward",
            )

    def release(self) -> None:
        """Free what was saved; a call that saved nothing can be walked again."""
        if self.ctx._saved is not None and len(self.ctx._saved) > 0:
            self.ctx._saved = None

    def pull(self, cotangents: list[Any], create: bool) -> list[Any]:
        """Run the user's backward and check what it returns."""
        index: cython.Py_ssize_t
        if self.ctx._materialize:
            for index in range(len(cotangents)):
                if cotangents[index] is None:
                    cotangents[index] = full(
                        self._output_types[2 * index], 0, self._output_types[2 * index + 1]
                    )
        extra: dict = current_tape().mode.extra
        if extra is not None and "transposing" in extra and _has_jvp(self.function):
            return transposed(self, cotangents)
        backward = self.function.backward
        if self.function.vjp is not Function.vjp:
            backward = _only_vjp(self.function)
        returned = (
            backward(self.ctx, cotangents[0])
            if len(cotangents) == 1
            else backward(self.ctx, *cotangents)
        )
        parts: list = list(returned) if isinstance(returned, (tuple, list)) else [returned]
        count: cython.Py_ssize_t = len(self._inputs) >> 1
        while len(parts) > count and parts[len(parts) - 1] is None:
            parts.pop()
        if len(parts) != count:
            raise GradientError(
                f"function {self.name()} returned an incorrect number of gradients (expected {count}, got "
                f"{len(parts)})",
                expected=f"{count} gradients, one per argument of forward",
                got=str(len(parts)),
                fix="return None for arguments without a gradient",
                where=self.where,
            )
        for index in range(count):
            parts[index] = self._checked(index, parts[index])
        return parts

    @cython.cfunc
    def _checked(self, index: cython.Py_ssize_t, part: object) -> object:
        if part is None:
            return None
        shape: tuple = self._inputs[2 * index]
        if shape is None:
            raise GradientError(
                f"function {self.name()} returned a gradient different than None at position {index + 1}, but the "
                "corresponding forward input was not a Variable",
                expected=f"None for argument {index + 1} of forward, which is no tensor",
                got=type(part).__name__,
                fix="return None for arguments that are no tensors",
                where=self.where,
            )
        if self.edges[index] is None:
            return None
        if not isinstance(part, Tensor):
            raise GradientError(
                f"function {self.name()}: expected Variable or None (got {type(part).__name__})",
                expected="a Tensor or None for each argument",
                got=type(part).__name__,
                fix="return a Tensor",
                where=self.where,
            )
        dtype = self._inputs[2 * index + 1]
        found: Tensor = cython.cast(Tensor, part)
        if found._shape is not shape and found._shape != shape:
            if not can_expand(shape, found._shape):
                raise GradientError(
                    f"Function {self.name()} returned an invalid gradient at index {index} - got {list(part._shape)} "
                    f"but expected shape compatible with {list(shape)}",
                    expected=str(list(shape)),
                    got=str(list(part._shape)),
                    fix="return a gradient of the argument's shape",
                    where=self.where,
                )
            part = sum_to(part, shape)
        return part if cython.cast(Tensor, part)._dtype is dtype else cast(part, dtype)

    def __getattr__(self, name: str) -> Any:
        """What forward left on ctx is read from the record too."""
        return getattr(self.ctx, name)

    def __setattr__(self, name: str, value: Any) -> None:
        """What users set lies on ctx."""
        try:
            PyObject_GenericSetAttr(
                cython.cast(cython.pointer(PyObject), self),
                cython.cast(cython.pointer(PyObject), name),
                cython.cast(cython.pointer(PyObject), value),
            )
        except AttributeError:
            setattr(self.ctx, name, value)


def _only_vjp(function: Any) -> Any:
    """The `vjp` of a Function. Errors: RuntimeError where it has `backward` too."""
    if function.backward is not Function.backward:
        raise GradientError(
            "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only implement "
            "one of them.",
            expected="backward or vjp",
            got=f"{function.__name__} with both",
            fix="drop vjp",
        )
    return function.vjp


def _has_jvp(function: Any) -> bool:
    return function.jvp is not Function.jvp


def can_expand(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether a shape can be broadcast to another."""
    if len(shape) > len(target):
        return False
    tail = target[len(target) - len(shape) :]
    return all(size in (1, want) for size, want in zip(shape, tail, strict=True))


class Function:
    """Base class of custom functions: static `forward`, `backward`, optionally `setup_context`; call `apply`."""

    def __call__(self, *arguments: Any) -> Any:
        """Errors: RuntimeError; instances are not called."""
        raise GradientError(
            "Legacy autograd function with non-static forward method is deprecated. Please use "
            "new-style autograd function with static forward method.",
            expected=f"{type(self).__name__}.apply(...)",
            got="a call of an instance",
            fix="call apply on the class",
        )

    @staticmethod
    def forward(*arguments: Any, **keywords: Any) -> Any:
        """Compute the result; defined by subclasses."""
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        """Compute the gradients of forward's arguments; defined by subclasses."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD."
        )

    @staticmethod
    def vjp(ctx: Any, *cotangents: Any) -> Any:
        """Another name for `backward`; subclasses define one of the two."""
        raise NotImplementedError("define backward")

    generate_vmap_rule = False
    _ending = "Backward"  # of the record's name
    setup_context: Any = None  # static: what forward would do with ctx, where it does not take it

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        """Compute the tangents of forward's results; may be defined by subclasses, for forward mode."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with "
            "forward mode AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, *arguments: Any) -> Any:
        """Compute forward over a dimension: `vmap(info, in_dims, *arguments) -> (outputs, out_dims)`. May be defined
        by subclasses; where it is not, `weft.func.vmap` calls forward once per example and batches what that
        records."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod "
            "or set generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *arguments: Any, **keywords: Any) -> Any:
        """Run `forward` and put one gradient record behind its outputs."""
        mode: Mode = current_tape().mode
        tracked: cython.bint = mode.grad
        ctx: FunctionCtx = FunctionCtx.__new__(FunctionCtx)
        edges: tuple = _edges_of(arguments) if tracked else None
        ctx.needs_input_grad = _needs(edges, len(arguments))
        mapped = None
        if mode.extra is not None and not keywords and "mapping" in mode.extra:
            mapped = mode.extra["mapping"].call(cls, arguments)
        mode.grad = False
        try:
            if mapped is None:
                outputs = _run(cls, ctx, arguments, keywords)
            else:
                outputs = mapped.first
                cls.setup_context(ctx, arguments, outputs)
        finally:
            mode.grad = tracked
        if edges is not None:
            outputs = _attach(cls, ctx, arguments, edges, outputs)
            if mapped is not None:
                mapped.connect(outputs)
        else:
            outputs = _apart(ctx, arguments, outputs, tracked)
        if mode.duals is not None:
            push_function(cls, ctx, arguments, outputs)
        return outputs


@cython.cfunc
def _edges_of(arguments: tuple) -> tuple:
    """The gradient edges of the arguments; None where none requires a gradient."""
    count: cython.Py_ssize_t = len(arguments)
    edge: object = None
    if count == 1:
        if isinstance(arguments[0], Tensor):
            edge = edge_of(cython.cast(Tensor, arguments[0]))
        if isinstance(edge, Node):
            return one(edge)
        return None if edge is None else (edge,)  # the collector may have to look through it
    edges: list = [None] * count
    found: cython.bint = False
    index: cython.Py_ssize_t
    for index in range(count):
        argument = arguments[index]
        if isinstance(argument, Tensor):
            edge = edge_of(cython.cast(Tensor, argument))
            if edge is not None:
                edges[index] = edge
                found = True
    return tuple(edges) if found else None


@cython.cfunc
def _needs(edges: tuple | None, count: cython.Py_ssize_t) -> tuple:
    """`needs_input_grad`: whether each argument requires a gradient."""
    if edges is None:
        return _NO if count == 1 else (False,) * count
    return _YES if count == 1 else tuple([edge is not None for edge in edges])


@cython.cfunc
def _types_of(values: tuple, others: cython.bint) -> tuple:
    """Shape, dtype, shape, dtype, ... of the tensors among some values; None, None for `others`, if asked for."""
    types: list = []
    for v in values:
        if isinstance(v, Tensor):
            types.append(cython.cast(Tensor, v)._shape)
            types.append(cython.cast(Tensor, v)._dtype)
        elif others:
            types.append(None)
            types.append(None)
    found: tuple = tuple(types)
    hide(found)
    return found


@cython.cfunc
def _type_of(tensor: Tensor) -> tuple:
    """`_types_of` for one."""
    found: tuple = (tensor._shape, tensor._dtype)
    hide(found)
    return found


@cython.cfunc
def _apart(ctx: FunctionCtx, arguments: tuple, outputs: object, tracked: cython.bint) -> object:
    """The outputs of a call without a gradient: an argument among them becomes a view of it, as with one."""
    if isinstance(outputs, tuple):
        for output in outputs:
            if _is_returned(ctx, arguments, output):
                return tuple([_apart(ctx, arguments, part, tracked) for part in outputs])
        return outputs
    if not _is_returned(ctx, arguments, outputs):
        return outputs
    alias: Tensor = _handed_on(outputs)
    if not tracked:
        alias.base = None
    return alias


@cython.cfunc
def _is_returned(ctx: FunctionCtx, arguments: tuple, output: object) -> cython.bint:
    """Whether an output is an argument that has not been changed."""
    return (
        isinstance(output, Tensor) and _among(output, arguments) and not _among(output, ctx._dirty)
    )


@cython.cfunc
def _run(cls: object, ctx: FunctionCtx, arguments: tuple, keywords: dict) -> object:
    setup = cls.setup_context
    if setup is None:
        if keywords:
            return cls.forward(ctx, *arguments, **keywords)
        return (
            cls.forward(ctx, arguments[0]) if len(arguments) == 1 else cls.forward(ctx, *arguments)
        )
    outputs = cls.forward(*arguments, **keywords)
    setup(ctx, arguments, outputs)
    return outputs


@cython.cfunc
def _attach(
    cls: object, ctx: FunctionCtx, arguments: tuple, edges: tuple, outputs: object
) -> object:
    record: FunctionNode = FunctionNode.__new__(FunctionNode)
    record.ctx, record.function, record.edges = ctx, cls, edges
    if len(arguments) == 1:  # a tensor: it has an edge
        record._inputs = _type_of(arguments[0])
    else:
        record._inputs = _types_of(arguments, True)
    code: cython.pointer(PyObject) = caller(cython.address(record.offset_in_code))
    record.code = None if code == cython.NULL else cython.cast(object, code)
    if isinstance(outputs, Tensor) and ctx._saved is NOTHING and ctx._dirty is NOTHING:
        record._output_types = _type_of(outputs)
        if current_tape().mode.anomaly:
            _count(record, arguments, [outputs])
        return _output(ctx, record, outputs, 0, arguments)
    return _attach_several(ctx, record, arguments, outputs)


def _count(record: FunctionNode, arguments: tuple, tensors: list) -> None:
    """Keep the figures of a call, in anomaly mode."""
    from weft.autograd.figures import Call

    record.call = Call(arguments, tensors)


@cython.cfunc
def _attach_several(
    ctx: FunctionCtx, record: FunctionNode, arguments: tuple, outputs: object
) -> object:
    """The rest of `_attach` where there may be several outputs, or something is saved or dirty."""
    single: cython.bint = not isinstance(outputs, tuple)
    values: tuple = (outputs,) if single else outputs
    tensors: list = [v for v in values if isinstance(v, Tensor)]
    result: list = []
    record.outputs = len(tensors)
    record._output_types = _types_of(values, False)
    if current_tape().mode.anomaly:
        _count(record, arguments, tensors)
    if len(ctx._saved) > 0:
        ctx._record = weakref.ref(record)
    if len(ctx._dirty) > 0:
        _check_dirty(ctx, tensors)
    number: cython.int = 0
    for v in values:
        if isinstance(v, Tensor):
            v = _output(ctx, record, cython.cast(Tensor, v), number, arguments)
            number += 1
        result.append(v)
    for kept in ctx._saved:
        if kept is not None:
            cython.cast(Saved, kept).settle(tensors, arguments, ctx._dirty)
    return result[0] if single else tuple(result)


@cython.cfunc
def _check_dirty(ctx: FunctionCtx, tensors: list) -> object:
    """Errors: RuntimeError where what was marked as dirty may not be, or is not returned."""
    for tensor in ctx._dirty:
        if not _among(tensor, tensors):
            raise MutationError(
                "Some elements marked as dirty during the forward method were not returned as output. "
                "The inputs that are modified inplace must all be outputs of the Function.",
                expected="every dirty input among the outputs",
                got="one that is missing",
                fix="return it from forward",
            )
        if tensor.leaf_grad:
            raise MutationError(
                "a leaf Variable that requires grad has been used in an in-place operation.",
                expected="a tensor that is not a leaf",
                got="a leaf with requires_grad=True among mark_dirty",
                fix="clone it before the call",
            )


@cython.cfunc
def _output(
    ctx: FunctionCtx, record: FunctionNode, tensor: Tensor, number: cython.int, arguments: tuple
) -> Tensor:
    if tensor._dtype.category < 2 or (len(ctx._constant) > 0 and _among(tensor, ctx._constant)):
        return tensor
    edge = new_edge(record, number)
    if len(ctx._dirty) > 0 and _among(tensor, ctx._dirty):
        if tensor.base is None:
            set_edge(tensor, edge)
            return tensor
        if record.outputs > 1:
            raise _dirty_view_of_several(tensor)
        mutate(tensor, wrap(value(tensor), edge))  # its base has the new history too
        return tensor
    if _among(tensor, arguments):
        tensor = _handed_on(tensor)
    elif tensor.base is not None and _shows(tensor, arguments):
        tensor.creation = IN_FUNCTION
    set_edge(tensor, edge)
    return tensor


@cython.cfunc
def _handed_on(tensor: Tensor) -> Tensor:
    """An argument that is a result as it stands: a view of it."""
    alias: Tensor = alias_of(tensor)
    alias.base = tensor if tensor.base is None or tensor.leaf_grad else tensor.base
    alias.creation = IN_FUNCTION
    return alias


def _dirty_view_of_several(tensor: Any) -> MutationError:
    return MutationError(
        "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot return more "
        "than one Tensor. This is not supported by the current autograd engine. You should either make sure the input "
        "is not a view (using .clone() for example) or make your Function only return one Tensor (potentially "
        "splitting it into two Functions: one doing the inplace that returns a single Tensor and a second one that "
        "does the other operations).",
        expected="one output, or a dirty input that is no view",
        got=f"a view of shape {list(tensor.shape)} among several outputs",
        fix="clone it before the call",
    )


@cython.cfunc
def _among(item: object, items: object) -> cython.bint:
    """Whether it is one of them, not only equal."""
    for other in items:
        if other is item:
            return True
    return False


def _shows(tensor: Any, arguments: Any) -> bool:
    """Whether a tensor is a view of memory that one of the arguments shows."""
    return any(
        isinstance(a, Tensor) and a.storage is not None and a.storage is tensor.storage
        for a in arguments
    )


def once_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a backward that cannot itself be differentiated: its results raise when it is tried."""

    @functools.wraps(function)
    def wrapper(ctx: Any, *cotangents: Any) -> Any:
        mode = tapes.tape().mode
        tracked, mode.grad = mode.grad, False
        try:
            results = function(ctx, *cotangents)
        finally:
            mode.grad = tracked
        if not tracked or not any(
            isinstance(g, Tensor) and edge_for(g) is not None for g in cotangents
        ):
            return results
        return tuple(_poisoned(r) for r in (results if isinstance(results, tuple) else (results,)))

    return wrapper


def _poisoned(result: Any) -> Any:
    if not isinstance(result, Tensor):
        return result
    tensor = alias_of(result)
    set_edge(tensor, OutputEdge(_Twice(), 0))
    return tensor


class _Twice(GradientFunction):
    """The record behind a gradient that cannot be differentiated again."""

    def name(self) -> str:
        return "DelayedError"

    def pull(self, cotangents: list[Any], create: bool) -> list[Any]:
        raise GradientError(
            "trying to differentiate twice a function that was marked with @once_differentiable",
            expected="one differentiation",
            got="a second one",
            fix="write backward in differentiable operations and drop the decorator",
        )

    def check_usable(self) -> None:
        self.pull([], False)
