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
from cython.cimports.weft.graph.handles import wrap
from cython.cimports.weft.graph.targets import GradientFunction
from cython.cimports.weft.graph.tensor import Tensor

from weft._compiled import require
from weft.autograd.forward_ad import push_function
from weft.autograd.saving import pack_value
from weft.errors import ArgumentTypeError, GradientError, MutationError, describe_position
from weft.graph import tape as tapes
from weft.graph.edges import edge_for, set_edge
from weft.graph.recording import cast
from weft.graph.targets import OutputEdge
from weft.graph.views import IN_FUNCTION, alias_of
from weft.ops.primitives import full, sum_to

require(__name__, cython.compiled)


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


class FunctionCtx:
    """What `forward` leaves for `backward`."""

    _saved: Any = ()
    _dirty: Any = ()
    _constant: Any = ()
    _materialize = True
    _record: Any = None  # a weak reference to the gradient record, where something is saved
    needs_input_grad: Any = ()

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

    ctx = cython.declare(object, visibility="readonly")
    function = cython.declare(object, visibility="readonly")
    output_types = cython.declare(list, visibility="readonly")
    input_types = cython.declare(list, visibility="readonly")
    code = cython.declare(object)
    offset_in_code = cython.declare(cython.int)
    __weakref__ = cython.declare(object)
    __dict__ = cython.declare(dict)

    def __init__(self, ctx: Any, function: Any, edges: Any, outputs: Any, inputs: Any) -> None:
        self.ctx = ctx
        if ctx._saved:
            ctx._record = weakref.ref(self)
        self.function = function
        self.edges = edges
        self.outputs = len(outputs)
        self.output_types = outputs
        self.input_types = inputs
        code: cython.pointer(PyObject) = caller(cython.address(self.offset_in_code))
        self.code = None if code == cython.NULL else cython.cast(object, code)

    @property
    def where(self) -> str:
        """The user's line that called `apply`."""
        return describe_position(self.code, self.offset_in_code)

    def name(self) -> str:
        """`<class>Backward`."""
        return f"{self.function.__name__}Backward"

    def __repr__(self) -> str:
        return f"<{self.name()} object>"

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
        if self.ctx._saved:
            self.ctx._saved = None

    def pull(self, cotangents: list[Any], create: bool) -> list[Any]:
        """Run the user's backward and check what it returns."""
        if self.ctx._materialize:
            cotangents = [
                full(shape, 0, dtype) if g is None else g
                for g, (shape, dtype) in zip(cotangents, self.output_types, strict=True)
            ]
        extra = tapes.tape().mode.extra
        if extra is not None and "transposing" in extra and _has_jvp(self.function):
            return Transposed(self, cotangents).parts()
        returned = self.function.backward(self.ctx, *cotangents)
        parts = list(returned) if isinstance(returned, (tuple, list)) else [returned]
        count = len(self.input_types)
        while len(parts) > count and parts[-1] is None:
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
        return [self._checked(index, part) for index, part in enumerate(parts)]

    def _checked(self, index: int, part: Any) -> Any:
        expected = self.input_types[index]
        if part is not None and expected is None:
            raise GradientError(
                f"function {self.name()} returned a gradient different than None at position {index + 1}, but the "
                "corresponding forward input was not a Variable",
                expected=f"None for argument {index + 1} of forward, which is no tensor",
                got=type(part).__name__,
                fix="return None for arguments that are no tensors",
                where=self.where,
            )
        if part is None or expected is None or self.edges[index] is None:
            return None
        if not isinstance(part, Tensor):
            raise ArgumentTypeError(
                f"function {self.name()} returned a gradient of type {type(part).__name__}",
                expected="a Tensor or None",
                got=type(part).__name__,
                fix="return a Tensor",
            )
        shape, dtype = expected
        if part._shape != shape:
            if not can_expand(shape, part._shape):
                raise GradientError(
                    f"Function {self.name()} returned an invalid gradient at index {index} - got {list(part._shape)} "
                    f"but expected shape compatible with {list(shape)}",
                    expected=str(list(shape)),
                    got=str(list(part._shape)),
                    fix="return a gradient of the argument's shape",
                    where=self.where,
                )
            part = sum_to(part, shape)
        return cast(part, dtype)

    def __getattr__(self, name: str) -> Any:
        """What forward left on ctx is read from the record too."""
        return getattr(self.ctx, name)


def _has_jvp(function: Any) -> bool:
    return function.jvp is not Function.jvp


def tangents_for(ctx: Any, arguments: Any, tangents: list[Any]) -> list[Any]:
    """Tangents as `jvp` gets them: zeros for tensors without one, unless `set_materialize_grads(False)`."""
    if not ctx._materialize:
        return tangents
    given: list = []
    for found, argument in zip(tangents, arguments, strict=True):
        if found is None and argument is not None and argument[1].category >= 2:
            found = full(argument[0], 0, argument[1])
        given.append(found)
    return given


class Transposed(GradientFunction):
    """Cotangents of a Function's arguments that are only asked for to be differentiated by those of its outputs: the
    derivative is `jvp`, and `backward` need not run."""

    def __init__(self, record: Any, cotangents: list[Any]) -> None:
        self.record = record
        self.edges = tuple([None if g is None else edge_for(g) for g in cotangents])
        self.types = [
            t if e is not None else None
            for t, e in zip(record.input_types, record.edges, strict=True)
        ]
        self.outputs = len(self.types)
        self.output_types = self.types

    def name(self) -> str:
        """The name of the Function's record, with what is asked of it."""
        return f"{self.record.name()}Jvp"

    @property
    def where(self) -> str:
        """The user's line that called `apply`."""
        found: str = self.record.where
        return found

    def parts(self) -> list[Any]:
        """Zeros, which know how they depend on the cotangents."""
        found: list = []
        for number, kind in enumerate(self.types):
            part = None if kind is None else full(kind[0], 0, kind[1])
            if part is not None:
                set_edge(part, OutputEdge(self, number))
            found.append(part)
        return found

    def pull(self, cotangents: list[Any], create: bool) -> list[Any]:
        """The tangents of the outputs."""
        record = self.record
        tangents = tangents_for(record.ctx, record.input_types, cotangents)
        returned = record.function.jvp(record.ctx, *tangents)
        parts = list(returned) if isinstance(returned, (tuple, list)) else [returned]
        return checked_tangents(record.function, parts, record.output_types)


def checked_tangents(function: Any, parts: list[Any], types: list[Any]) -> list[Any]:
    """What `jvp` returned, one per output. Errors: RuntimeError on another number or shape, TypeError."""
    if len(parts) != len(types):
        raise GradientError(
            f"function {function.__name__} returned an incorrect number of forward gradients (expected {len(types)}, "
            f"got {len(parts)})",
            expected=f"{len(types)} tangents, one per output of forward",
            got=str(len(parts)),
            fix="return None for outputs without a tangent",
        )
    for number, (part, kind) in enumerate(zip(parts, types, strict=True)):
        if part is None or kind is None:
            continue
        if not isinstance(part, Tensor):
            raise ArgumentTypeError(
                f"function {function.__name__} returned a forward gradient of type {type(part).__name__}",
                expected="a Tensor or None",
                got=type(part).__name__,
                fix="return a Tensor",
            )
        if part._shape != kind[0]:
            raise GradientError(
                f"function {function.__name__} returned a forward gradient of another shape at index {number}",
                expected=str(list(kind[0])),
                got=str(list(part._shape)),
                fix="return a tangent of the output's shape",
            )
    return parts


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

    generate_vmap_rule = False

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
        mode = tapes.tape().mode
        tracked = mode.grad
        ctx = FunctionCtx()
        edges = [edge_for(a) if tracked and isinstance(a, Tensor) else None for a in arguments]
        ctx.needs_input_grad = tuple([edge is not None for edge in edges])
        mapped = None
        if mode.extra is not None and "mapping" in mode.extra and not keywords:
            mapped = mode.extra["mapping"].call(cls, arguments)
        mode.grad = False
        try:
            if mapped is None:
                outputs = cls._run(ctx, arguments, keywords)
            else:
                outputs = mapped.first
                cls.setup_context(ctx, arguments, outputs)
        finally:
            mode.grad = tracked
        if True in ctx.needs_input_grad:
            outputs = _attach(cls, ctx, arguments, tuple(edges), outputs)
            if mapped is not None:
                mapped.connect(outputs)
        if mode.duals is not None:
            push_function(cls, ctx, arguments, outputs)
        return outputs

    @classmethod
    def _run(cls, ctx: FunctionCtx, arguments: Any, keywords: Any) -> Any:
        setup = getattr(cls, "setup_context", None)
        if setup is None:
            return cls.forward(ctx, *arguments, **keywords)
        outputs = cls.forward(*arguments, **keywords)
        setup(ctx, arguments, outputs)
        return outputs


def _attach(cls: Any, ctx: Any, arguments: Any, edges: Any, outputs: Any) -> Any:
    single = not isinstance(outputs, tuple)
    values = (outputs,) if single else outputs
    tensors = [v for v in values if isinstance(v, Tensor)]
    inputs = [(a._shape, a.dtype) if isinstance(a, Tensor) else None for a in arguments]
    record = FunctionNode(ctx, cls, edges, [(t._shape, t.dtype) for t in tensors], inputs)
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
                "a leaf Variable that requires grad is being used in an in-place operation.",
                fix="clone it before the call",
            )
    number = 0
    result = []
    for v in values:
        if not isinstance(v, Tensor):
            result.append(v)
            continue
        result.append(_output(ctx, record, v, number, arguments))
        number += 1
    for kept in ctx._saved or ():
        if kept is not None:
            cython.cast(Saved, kept).settle(tensors, arguments, tuple(ctx._dirty))
    return result[0] if single else tuple(result)


def _output(ctx: Any, record: Any, tensor: Any, number: int, arguments: Any) -> Any:
    if _among(tensor, ctx._constant) or tensor.dtype.category < 2:
        return tensor
    if _among(tensor, ctx._dirty):
        set_edge(tensor, OutputEdge(record, number))
        return tensor
    if _among(tensor, arguments):
        tensor = alias_of(tensor)
        tensor.creation = IN_FUNCTION
    elif tensor.base is not None and _shows(tensor, arguments):
        tensor.base = None
        tensor.creation = IN_FUNCTION
    set_edge(tensor, OutputEdge(record, number))
    return tensor


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
