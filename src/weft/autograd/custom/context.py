# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False
"""The context of a custom Function, which carries saved tensors and declarations from forward to backward.

Tensors are saved with their values and versions, and given back as themselves or on the edge of the record.
`saved_tensor_hooks` packs them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import cython
from cython.cimports.weft.engine.frontend.resolve import edge_of, value
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.frontend.tensor_lifecycle import wrap

from weft._build.compiled import require
from weft.engine.backward.saved_tensor_hooks import pack_value
from weft.engine.capi.type_slots import show_under
from weft.engine.frontend.resolve import set_edge
from weft.engine.frontend.views import alias_of
from weft.engine.ir import tape as tapes
from weft.engine.ir.grad_edges import OutputEdge
from weft.errors import ArgumentTypeError, AssertedKindError, GradientError

require(__name__, cython.compiled)

NOTHING = cython.declare(tuple, ())


@cython.cfunc
def among(item: object, items: object) -> cython.bint:
    """True if `item` is one of the items, not only equal to one."""
    for other in items:
        if other is item:
            return True
    return False


def _no_tensor(text: str, value: object) -> GradientError:
    return GradientError(
        f"{text} got {type(value).__name__}",
        expected="tensors",
        got=f"{value!r:.60}",
        fix="pass the tensors themselves",
    )


@cython.cclass
class SavedInput:
    """One tensor of `save_for_backward`, with the value that it had then. An input comes back as itself while it has
    not changed, an output on the edge of its record (which it does not hold: that would be a cycle)."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.version = 0 if tensor.inference else tensor._version
        self.value = wrap(value(tensor), edge_of(tensor))
        self.value.strides = tensor.strides
        self.number = -1

    @cython.cfunc
    def settle(self, outputs: tuple, arguments: tuple, dirty: tuple) -> cython.void:
        """After forward: what kind of tensor it was, and the hooks that are in force."""
        given: cython.bint = among(self.tensor, arguments) and not among(self.tensor, dirty)
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
        again: Tensor = alias_of(self.value)  # with its tangents, which detach() would drop
        again.counter = self.value.counter
        set_edge(again, edge)
        return again


@cython.cclass
class FunctionCtx:
    """The context that `forward` fills and `backward` reads."""

    def __cinit__(self) -> None:
        self._saved = self._dirty = self._constant = self.needs_input_grad = NOTHING
        self._materialize = True

    @property
    def materializes(self) -> bool:
        """True if missing cotangents and tangents are zeros."""
        return self._materialize

    @property
    def materializes_constants(self) -> bool:
        """True if missing cotangents are zeros also for outputs that are marked as not differentiable."""
        return bool(getattr(self, "_materialize_non_diff_grads", True))

    def save_for_backward(self, *tensors: object) -> None:
        """Keep tensors for `saved_tensors`.

        Args:
            *tensors: tensors, or None.

        Raises:
            TypeError for anything but tensors and None, where a gradient is needed.

        Example:
            >>> import weft
            >>> class Square(weft.autograd.Function):
            ...     @staticmethod
            ...     def forward(ctx, x):
            ...         ctx.save_for_backward(x)
            ...         return x * x
            ...     @staticmethod
            ...     def backward(ctx, grad):
            ...         (x,) = ctx.saved_tensors
            ...         return 2 * x * grad
            >>> x = weft.tensor(3.0, requires_grad=True)
            >>> Square.apply(x).backward()
            >>> x.grad
            tensor(6.)
        """
        for index, tensor in enumerate(tensors):
            if (
                tensor is not None
                and not isinstance(tensor, Tensor)
                and True in self.needs_input_grad
            ):
                raise ArgumentTypeError(
                    f"save_for_backward can only save variables, but argument {index} is of type "
                    f"{type(tensor).__name__}",
                    expected="tensors or None",
                    got=type(tensor).__name__,
                    fix="store it as an attribute of ctx",
                )
        self._saved = tuple([SavedInput(t) if isinstance(t, Tensor) else None for t in tensors])

    def save_for_forward(self, *tensors: object) -> None:
        """Keep tensors for `jvp`, where `saved_tensors` gives them. Where nothing is saved for the other mode, each is
        given what was saved for the first.

        Args:
            *tensors: tensors, or None.

        Raises:
            AssertionError (and TypeError) for anything but tensors and None.
        """
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, Tensor):
                raise AssertedKindError(
                    "save_for_forward expects all arguments to be tensors; you should save non-tensors as attributes "
                    "on ctx.",
                    expected="tensors or None",
                    got=f"{tensor!r:.60}",
                    fix="store it as an attribute of ctx",
                )
        self._forward = tuple([SavedInput(t) if isinstance(t, Tensor) else None for t in tensors])
        if not self._saved:
            self.save_for_backward(*tensors)

    def mark_dirty(self, *tensors: object) -> None:
        """Declare inputs that forward changed in place and returns.

        Args:
            *tensors: inputs of forward.

        Raises:
            RuntimeError on what is no tensor.
        """
        for tensor in tensors:
            if not isinstance(tensor, Tensor):
                raise _no_tensor("mark_dirty can only accept variables, but", tensor)
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: object) -> None:
        """Declare outputs without a gradient.

        Args:
            *tensors: outputs of forward.

        Raises:
            RuntimeError on what is no tensor.
        """
        for tensor in tensors:
            if not isinstance(tensor, Tensor):
                raise _no_tensor(
                    "mark_non_differentiable only accepts variable arguments, but", tensor
                )
        self._constant = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Set whether missing cotangents arrive as zeros (the default) or as None.

        Args:
            value: True: zeros; False: None.
        """
        self._materialize = value

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The saved tensors. Errors: RuntimeError after they have been freed."""
        from weft.engine.backward.reachability import SECOND_TIME

        if self._given:
            raise _given_already()
        if self._saved is None:
            raise GradientError(SECOND_TIME, fix="pass retain_graph=True to the first backward")
        record = None if self._record is None else self._record()
        found: list = []
        for kept in self._forward if self._pushing and self._forward is not None else self._saved:
            found.append(None if kept is None else cython.cast(SavedInput, kept).unpack(record))
        if record is not None and record.function.clear_saved_tensors_on_access:
            record.release()
            self._given = True
        return tuple(found)

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        """The former name of `saved_tensors`. Warns."""
        warnings.warn(
            "'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2
        )
        return self.saved_tensors


def _given_already() -> GradientError:
    return GradientError(
        "saved_tensors can only be accessed once when clear_saved_tensors_on_access=True is set on the "
        "autograd.Function. Either access saved_tensors only once, or set clear_saved_tensors_on_access=False.",
        expected="one access",
        got="a second one",
        fix="keep what the first access returned",
    )


def constants_of(ctx: FunctionCtx) -> tuple[Any, ...]:
    """The outputs that have been declared to have no gradient."""
    return ctx._constant


@contextmanager
def pushing(ctx: FunctionCtx) -> Iterator[None]:
    """Around `jvp`: `saved_tensors` gives what was saved for it."""
    previous: cython.bint = ctx._pushing
    ctx._pushing = True
    try:
        yield
    finally:
        ctx._pushing = previous


show_under(FunctionCtx, b"weft.autograd.function.FunctionCtx")
