# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False
"""The gradient record of one call of a custom Function.

A walk brings the cotangents of the outputs; the user's `backward` makes those of the arguments of them, which are
checked for their number, kinds, shapes and dtypes.
"""

from __future__ import annotations

from typing import Any

import cython
from cython.cimports.cpython.object import PyObject
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.frontend.tensor_lifecycle import PyObject_GenericSetAttr
from cython.cimports.weft.engine.ir.grad_edges import AccumulateGrad, GradientFunction
from cython.cimports.weft.engine.ir.mode import Contexts
from cython.cimports.weft.engine.ir.tape import current_tape

from weft._build.compiled import require
from weft.autograd.custom.defaults import backward as no_backward
from weft.autograd.custom.defaults import jvp as no_jvp
from weft.autograd.custom.defaults import vjp as no_vjp
from weft.autograd.custom.jvp import transposed
from weft.engine.backward.hooks import UNSET
from weft.engine.backward.reshape_gradients import can_expand
from weft.engine.capi.type_slots import class_like, show_as
from weft.engine.frontend.recorder import cast
from weft.errors import GradientError, describe_position
from weft.ops.primitives import full, sum_to

require(__name__, cython.compiled)


@cython.cfunc
def _chooses_dtype(edge: object) -> cython.bint:
    """True if an edge leads to a leaf whose `grad_dtype` has been set: it takes gradients of other types."""
    if not isinstance(edge, AccumulateGrad):
        return False
    leaf: Tensor = cython.cast(AccumulateGrad, edge).variable
    return leaf.hooks is not None and leaf.hooks.grad_dtype is not UNSET


@cython.cclass
class FunctionNode(GradientFunction):
    """The gradient record of one call of a custom Function: its types of outputs and inputs as (shape, dtype)."""

    @property
    def output_types(self) -> list[Any]:
        """(shape, dtype) of each output; None for what gets no gradient."""
        return _in_pairs(self._output_types)

    @property
    def input_types(self) -> tuple[Any, ...]:
        """(shape, dtype) of each argument; None for what is no tensor."""
        return tuple(_in_pairs(self._inputs))

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
            made = class_like(FunctionNode, self.name(), {"__module__": "weft.autograd.function"})
            self.function._backward_cls = made
        show_as(self, made)

    def check_usable(self) -> None:
        """Errors: RuntimeError where the saved tensors are gone."""
        if self.ctx._saved is None:
            from weft.engine.backward.reachability import SECOND_TIME

            raise GradientError(
                SECOND_TIME,
                got=f"{self.name()}, called at {self.where}",
                fix="pass retain_graph=True to the first backward",
            )

    def release(self) -> None:
        """Free what was saved; a call that saved nothing can be walked again."""
        if self.ctx._saved is not None and len(self.ctx._saved) > 0:
            self.ctx._saved = None
            self.ctx._forward = None

    def vjp(self, cotangents: list[Any], create: bool) -> list[Any]:
        """Run the user's backward and check what it returns."""
        index: cython.Py_ssize_t
        if self.ctx._materialize:
            for index in range(len(cotangents)):
                shape = self._output_types[2 * index]
                if cotangents[index] is None and shape is not None:
                    cotangents[index] = full(shape, 0, self._output_types[2 * index + 1])
        contexts: Contexts = current_tape().mode.contexts
        transposing: cython.bint = contexts is not None and contexts.transposing is True
        if transposing and self.function.jvp is not no_jvp:
            return transposed(self, cotangents)
        backward = self.function.backward
        if self.function.vjp is not no_vjp:
            backward = _only_vjp(self.function)
        if self._made_over_ranks is not None:
            cotangents = [
                part if layout is None or part is None else layout.laid(part)
                for layout, part in zip(self._made_over_ranks, cotangents, strict=True)
            ]
        returned = (
            backward(self.ctx, cotangents[0])
            if len(cotangents) == 1
            else backward(self.ctx, *cotangents)
        )
        parts: list = list(returned) if isinstance(returned, tuple) else [returned]
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
            parts[index] = self._checked(index, self._own_part(index, parts[index]))
        return parts

    @cython.cfunc
    def _own_part(self, index: cython.Py_ssize_t, part: object) -> object:
        """This rank's part of a gradient, where the argument is a tensor over several ranks."""
        layout = None if self._given_over_ranks is None else self._given_over_ranks[index]
        return part if layout is None or not isinstance(part, Tensor) else layout.part(part)

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
        if cython.cast(Tensor, part)._dtype is dtype or _chooses_dtype(self.edges[index]):
            return part
        if part.dtype.is_complex and not dtype.is_complex:
            raise GradientError(
                f"Function {self.name()} returned an invalid gradient at index {index} - expected a real gradient but "
                f"got {part.dtype.name}",
                expected=dtype.name,
                got=part.dtype.name,
                fix="return the real part",
                where=self.where,
            )
        return cast(part, dtype)

    def __getattr__(self, name: str) -> Any:
        """Attributes that forward set on ctx can be read from the record, too."""
        return getattr(self.ctx, name)

    def __setattr__(self, name: str, value: object) -> None:
        """Attributes that users set are kept on ctx."""
        try:
            PyObject_GenericSetAttr(
                cython.cast(cython.pointer(PyObject), self),
                cython.cast(cython.pointer(PyObject), name),
                cython.cast(cython.pointer(PyObject), value),
            )
        except AttributeError:
            setattr(self.ctx, name, value)


def _in_pairs(types: Any) -> list[Any]:
    """(shape, dtype) of each value; None for what has none."""
    pairs = zip(types[::2], types[1::2], strict=True)
    return [None if shape is None else (shape, dtype) for shape, dtype in pairs]


def _only_vjp(function: Any) -> Any:
    """The `vjp` of a Function. Errors: RuntimeError where it has `backward` too."""
    if function.backward is not no_backward:
        raise GradientError(
            "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only implement "
            "one of them.",
            expected="backward or vjp",
            got=f"{function.__name__} with both",
            fix="drop vjp",
        )
    return function.vjp
