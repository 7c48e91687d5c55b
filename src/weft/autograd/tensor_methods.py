# cython: language_level=3
# cython: wraparound=True, boundscheck=True, cdivision=False
"""The gradient methods of Tensor: backward, hooks, retain_grad; and the graph as users see it on `grad_fn`."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import cython
from cython.cimports.weft.engine.backward.hooks import Observers, RemovableHandle, add_hook
from cython.cimports.weft.engine.frontend.resolve import edge_of
from cython.cimports.weft.engine.frontend.tensor import Tensor
from cython.cimports.weft.engine.frontend.tensor_lifecycle import watch
from cython.cimports.weft.engine.ir.node import Node, observers_on, rare_facts

from weft._build.compiled import require
from weft._build.lazy import later
from weft.autograd.grad_fn.attributes import is_piece, observers_of, several_outputs
from weft.autograd.grad_fn.classes import as_seen
from weft.engine.backward.hooks import UNSET
from weft.engine.frontend.resolve import edge_for
from weft.engine.ir.grad_edges import AccumulateGrad
from weft.errors import GradientError

require(__name__, cython.compiled)

reverse = later("weft.autograd.backward")
discovery = later("weft.engine.backward.reachability")
forward_ad = later("weft.autograd.forward_ad")
refitting = later("weft.engine.backward.reshape_gradients")


def tensor_backward(
    self: Tensor,
    gradient: object = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: object = None,
) -> None:
    """Accumulate the gradients of this tensor into the leaves that it was computed from. See `autograd.backward`."""
    reverse.backward(self, gradient, retain_graph, create_graph, inputs=inputs)


def _leaf_observers(tensor: Tensor) -> Observers:
    if tensor.hooks is None:
        tensor.hooks = Observers()
    found: Observers = tensor.hooks
    return found


def register_hook(self: Tensor, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
    """Call `hook(grad)` once per backward with the summed gradient of this tensor; a result replaces it.

    Errors: RuntimeError on a tensor that does not require grad.
    """
    edge = edge_of(self)
    if edge is None:
        raise GradientError(
            "cannot register a hook on a tensor that doesn't require gradient",
            expected="requires_grad=True",
            got="a tensor without a graph",
            fix="call requires_grad_() first",
        )
    edge = discovery.observed_edge(edge)
    if isinstance(edge, Node):
        node: Node = cython.cast(Node, edge)
        observers: Observers = observers_on(node)
        if observers is None:
            observers = rare_facts(node).observers = Observers.__new__(Observers)
        as_seen(node)  # the hook may hold it
        if is_piece(node):
            several_outputs(node).hear(node.info.number_of(node.params), observers)
        watch(self)  # the hook may hold it
        return add_hook(observers.tensor_hooks, (0, hook))
    record, number = discovery.target_for(edge)
    observers = (
        _leaf_observers(self) if isinstance(record, AccumulateGrad) else observers_of(record)
    )
    return add_hook(observers.tensor_hooks, (number, hook))


def register_post_accumulate_grad_hook(
    self: Tensor, hook: Callable[[Tensor], None]
) -> RemovableHandle:
    """Call `hook(param)` each time backward has accumulated into this leaf's `.grad`."""
    if not self.leaf_grad:
        raise GradientError(
            "post accumulate grad hooks cannot be registered on non-leaf tensors",
            expected="a leaf with requires_grad=True",
            got="another tensor",
            fix="use register_hook, or retain_grad",
        )
    return add_hook(_leaf_observers(self).post_accumulate, hook)


def retain_grad(self: Tensor) -> None:
    """Keep the gradient of this non-leaf in `.grad`. Errors: RuntimeError where it does not require grad."""
    edge = edge_for(self)
    if edge is None:
        raise GradientError(
            "can't retain_grad on Tensor that has requires_grad=False",
            expected="requires_grad=True",
            got="a tensor without a graph",
            fix="call requires_grad_() before the forward pass",
        )
    if self.leaf_grad or self.retains:
        return
    self.retains = True
    retain_again(self)


def retain_again(self: Tensor) -> None:
    """After an in-place operation on a tensor or its base: keep the gradient of the new value instead of the old
    one's."""
    edge = edge_for(self)
    if edge is None:
        return
    record, number = discovery.target_for(edge)
    retained = observers_of(record).retained
    if all(reference() is not self for _, reference in retained):
        retained.append((number, weakref.ref(self)))


def grad_dtype(self: Tensor) -> Any:
    """The dtype that `.grad` takes: that of the leaf unless another was set; None takes any.

    Errors: RuntimeError on a tensor that is no leaf.
    """
    if not self.is_leaf:
        raise GradientError(
            "grad_dtype can only be accessed on leaf tensors.",
            expected="a leaf",
            got="a computed tensor",
            fix="ask for .dtype: the gradient of a computed tensor has that",
        )
    found = UNSET if self.hooks is None else self.hooks.grad_dtype
    return self.dtype if found is UNSET else found


def set_grad_dtype(self: Tensor, dtype: Any) -> None:
    """Choose the dtype of `.grad`. Errors: RuntimeError on a tensor that is no leaf."""
    if not self.is_leaf:
        raise GradientError(
            "grad_dtype can only be set on leaf tensors.",
            expected="a leaf",
            got="a computed tensor",
            fix="convert the gradient in a hook",
        )
    if self.grad is not None and dtype is not None and self.grad.dtype is not dtype:
        raise GradientError(
            f"Cannot set grad_dtype to {dtype!r} because there is already a gradient of {self.grad.dtype!r}",
            expected="no gradient, or one of that dtype",
            got=self.grad.dtype.name,
            fix="set .grad = None first",
        )
    _leaf_observers(self).grad_dtype = dtype


def without_tangents(self: Tensor) -> Tensor:
    """The tensor, or a copy without tangents where it is dual."""
    return forward_ad.plain(self) if forward_ad.has_tangent(self) else self


HOOKS: dict[str, Any] = {
    "as_seen": as_seen,
    "follow_composite": lambda *given: forward_ad.follow_composite(*given),
    "follow_moved": lambda node: forward_ad.follow_moved(node),
    "retain_again": retain_again,
    "refit": lambda *given: refitting.refit(*given),
    "several_outputs": several_outputs,
    "without_tangents": without_tangents,
}
METHODS: dict[str, Any] = {
    "grad_dtype": property(grad_dtype, set_grad_dtype),
    "backward": tensor_backward,
    "register_hook": register_hook,
    "register_post_accumulate_grad_hook": register_post_accumulate_grad_hook,
    "retain_grad": retain_grad,
    "retains_grad": property(lambda self: self.retains),
}
