# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False
"""Custom differentiable functions, in PyTorch's two styles (`ctx` in forward, or `setup_context`).

`forward` runs once, at the call, with gradients off; what it records runs lazily like everything else. One gradient
record (`custom.node`) stands for the call; its `backward` runs once per walk that reaches it.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import cython
from cython.cimports.weft.autograd.custom.context import FunctionCtx as Context
from cython.cimports.weft.autograd.custom.outputs import apart, attach, edges_of, needs
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.ir.grad_edges import GradientFunction, OutputEdge
from cython.cimports.weft.engine.ir.mode import Mode
from cython.cimports.weft.engine.ir.tape import current_tape

from weft._build.compiled import require
from weft.autograd.custom import defaults
from weft.autograd.custom.context import FunctionCtx
from weft.autograd.custom.node import FunctionNode
from weft.autograd.forward_ad import push_function, tangents_before
from weft.engine.frontend.resolve import edge_for, set_edge
from weft.engine.frontend.views import alias_of
from weft.engine.ir import tape as tapes
from weft.errors import GradientError

require(__name__, cython.compiled)


class Function:
    """Base class of custom functions: static `forward`, `backward`, optionally `setup_context`; call `apply`.

    Args:
        *args: of no use: a Function is called by `apply`.
        **kwargs: of no use.

    Example:
        >>> import weft
        >>> class Cube(weft.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x**3
        ...     @staticmethod
        ...     def backward(ctx, gradient):
        ...         (x,) = ctx.saved_tensors
        ...         return 3 * x**2 * gradient
        >>> x = weft.tensor([2.0], requires_grad=True)
        >>> Cube.apply(x).sum().backward()
        >>> x.grad
        tensor([12.])
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        """Warns: nothing is done with instances."""
        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you should "
            "invoke them on the class itself.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *arguments: Any) -> Any:
        """Errors: RuntimeError; instances are not called."""
        raise GradientError(
            "Legacy autograd function with non-static forward method is deprecated. Please use "
            "new-style autograd function with static forward method.",
            expected=f"{type(self).__name__}.apply(...)",
            got="a call of an instance",
            fix="call apply on the class",
        )

    generate_vmap_rule = False
    _ending = "Backward"  # of the record's name
    clear_saved_tensors_on_access = False  # True: backward owns what it reads, and reads it once
    setup_context: Any = None  # static: what forward would do with ctx, where it does not take it

    forward = staticmethod(defaults.forward)
    backward = staticmethod(defaults.backward)
    vjp = staticmethod(defaults.vjp)
    jvp = staticmethod(defaults.jvp)
    vmap = staticmethod(defaults.vmap)

    @classmethod
    def apply(cls, *arguments: Any, **keywords: Any) -> Any:
        """Run `forward` and put one gradient record behind its outputs.

        Args:
            *arguments: the arguments of `forward`.
            **keywords: arguments by name.
        """
        mode: Mode = current_tape().mode
        tracked: cython.bint = mode.grad
        if len(keywords) > 0 or _has_defaults(cls, len(arguments)):
            arguments = defaults.in_order(cls, arguments, keywords)
        ctx: Context = Context.__new__(Context)
        edges: tuple = edges_of(arguments) if tracked else None
        ctx.needs_input_grad = needs(edges, len(arguments))
        mapped = None
        if mode.contexts is not None and mode.contexts.mapping is not None:
            mapped = mode.contexts.mapping.call(cls, arguments)
        tangents = None if mode.duals is None else tangents_before(arguments)
        mode.grad = False
        try:
            if mapped is None:
                outputs = _run(cls, ctx, arguments)
            else:
                outputs = mapped.first
                cls.setup_context(ctx, arguments, outputs)
        finally:
            mode.grad = tracked
        if edges is not None:
            outputs = attach(cls, ctx, arguments, edges, outputs)
            if mapped is not None:
                mapped.connect(outputs)
        else:
            outputs = apart(ctx, arguments, outputs, tracked)
        if mode.duals is not None:
            push_function(cls, ctx, arguments, tangents, outputs)
        return outputs


@cython.cfunc
def _has_defaults(cls: object, count: cython.Py_ssize_t) -> cython.bint:
    """True if `setup_context` must get defaults of `forward` in addition to `count` arguments."""
    return (
        cls.setup_context is not None
        and getattr(cls.forward, "__defaults__", None)
        and (count < cls.forward.__code__.co_argcount)
    )


@cython.cfunc
def _run(cls: object, ctx: Context, arguments: tuple) -> object:
    setup = cls.setup_context
    if setup is None:
        return (
            cls.forward(ctx, arguments[0]) if len(arguments) == 1 else cls.forward(ctx, *arguments)
        )
    outputs = cls.forward(*arguments)
    setup(ctx, arguments, outputs)
    return outputs


class InplaceFunction(Function):
    """A Function that remembers whether it is to work in place; kept for programs that derive from it."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class NestedIOFunction(Function):
    """A Function over nested tuples and lists, in the style before `apply`; kept so that programs that derive from it
    load. A call raises, as in PyTorch.

    Args:
        *args: of no use.
        **kwargs: of no use.
    """

    def forward_extended(self, *arguments: object) -> Any:
        """Defined by subclasses.

        Args:
            *arguments: the arguments of `apply`, nested as they were given.
        """
        raise NotImplementedError

    def backward_extended(self, *cotangents: object) -> Any:
        """Defined by subclasses.

        Args:
            *cotangents: the gradients of the outputs, nested as the outputs.
        """
        raise NotImplementedError


FunctionMeta = type(Function)  # what custom Functions are instances of
BackwardCFunction = FunctionNode  # what `grad_fn` of their results is an instance of


def once_differentiable(function: Callable[..., object]) -> Callable[..., Any]:
    """Mark a backward that cannot itself be differentiated: its results raise when it is tried.

    Args:
        function: the static `backward` of a Function.

    Example:
        >>> import weft
        >>> from weft.autograd.function import once_differentiable
        >>> class Square(weft.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x * x
        ...     @staticmethod
        ...     @once_differentiable  # by other means than Weft's functions: no second derivative
        ...     def backward(ctx, grad):
        ...         return 2 * grad * ctx.saved_tensors[0]
        >>> x = weft.tensor(3.0, requires_grad=True)
        >>> Square.apply(x).backward()
        >>> x.grad
        tensor(6.)
    """

    @functools.wraps(function)
    def wrapper(ctx: object, *cotangents: object) -> Any:
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


def _poisoned(result: object) -> Any:
    if not isinstance(result, Tensor):
        return result
    tensor = alias_of(result)
    set_edge(tensor, OutputEdge(_Twice(), 0))
    return tensor


class _Twice(GradientFunction):
    """The record behind a gradient that cannot be differentiated again."""

    def name(self) -> str:
        return "DelayedError"

    def vjp(self, cotangents: list[Any], create: bool) -> list[Any]:
        raise GradientError(
            "trying to differentiate twice a function that was marked with @once_differentiable",
            expected="one differentiation",
            got="a second one",
            fix="write backward in differentiable operations and drop the decorator",
        )

    def check_usable(self) -> None:
        self.vjp([], False)


__all__ = [
    "BackwardCFunction",
    "Function",
    "FunctionCtx",
    "FunctionMeta",
    "InplaceFunction",
    "NestedIOFunction",
    "once_differentiable",
]
