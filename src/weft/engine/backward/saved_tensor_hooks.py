"""Saved-tensor hooks: the residuals of nodes pass through the user's pack and unpack functions.

It takes a node that was just recorded while hooks are in force, and puts packed values into its `observers` in place
of the residuals. The walk and `grad_fn._saved_*` unpack them. Of nested pairs the innermost applies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weft.engine.backward.hooks import Observers
from weft.engine.frontend.resolve import set_edge, value_of
from weft.engine.frontend.tensor import Tensor
from weft.engine.frontend.tensor_lifecycle import wrap_node
from weft.engine.frontend.views import alias_of
from weft.engine.ir import tape as tapes
from weft.engine.ir.grad_edges import AccumulateGrad
from weft.engine.ir.node import RESULT_BIT
from weft.engine.ir.primitive import SCALAR_OP
from weft.engine.ir.residuals import release_residual
from weft.engine.pipeline.batching import batched_residuals
from weft.errors import ArgumentTypeError, GradientError, MutationError

if TYPE_CHECKING:
    from weft._typing import GradientEdge
    from weft.engine.ir.node import Node

record_observers: list[Callable[[Any], None]] = []  # told of each new node, if `watch_records` was

Pair = tuple[Callable[[Any], Any], Callable[[Any], Any]]


class Packed:
    """One saved value after its pack hook."""

    def __init__(self, value: object, pair: Pair) -> None:
        self.value, self.pair = value, pair

    def unpack(self, edge: GradientEdge) -> Any:
        """The value again, on the edge that it had: the leaf itself where it is one. Errors: TypeError where the hook
        returns no tensor."""
        tensor = without_grad(self.pair[1], self.value)
        if not isinstance(tensor, Tensor):
            raise ArgumentTypeError(
                "Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                f"{type(tensor).__name__}",
                expected="a Tensor",
                got=type(tensor).__name__,
                fix="return the tensor that pack_hook was given, or its equal",
            )
        if isinstance(edge, AccumulateGrad) and value_of(edge.variable) is value_of(tensor):
            return edge.variable
        again = alias_of(tensor)  # with its tangents, which detach() would drop
        again.counter = tensor.counter
        set_edge(again, edge)
        return again


def without_grad(function: Callable[[Any], Any], argument: object) -> Any:
    """Call a hook with gradients off."""
    mode = tapes.tape().mode
    tracked, mode.grad = mode.grad, False
    try:
        return function(argument)
    finally:
        mode.grad = tracked


def apply_pack(tensor: Tensor, pair: Pair) -> Packed:
    """Pass a value through a pack hook. Errors: RuntimeError where it changes it in place."""
    version = tensor._version
    packed = without_grad(pair[0], tensor)
    if tensor._version != version:
        raise MutationError(
            "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook "
            "cannot be modified by in-place operations as this can lead to unexpected side-effects.",
            expected="a hook that leaves its argument as it is",
            got="an in-place operation on it",
            fix="clone it in the hook",
        )
    return Packed(packed, pair)


def pack_one(node: Node, index: int, pair: Pair) -> None:
    """Replace one save of a node by what a hook makes of it; one that returns its argument leaves it as it is."""
    if index == RESULT_BIT:
        saved = batched_residuals.saved_result(node)
    else:
        saved = batched_residuals.saved_input(node, index)
        if saved.op is SCALAR_OP:
            return
    tensor = wrap_node(saved)
    packed = apply_pack(tensor, pair)
    if node.observers is None:
        node.observers = Observers()
    if packed.value is tensor:
        node.observers.packed[index] = Kept(node, index, pair)
        return
    node.observers.packed[index] = packed
    release_residual(node, index)


class Kept(Packed):
    """A value that the hook handed back: it stays the node's own save, so that it makes no cycle."""

    def __init__(self, node: Node, index: int, pair: Pair) -> None:
        super().__init__(None, pair)
        self.index = index

    def attach(self, saved: Node) -> Packed:
        """The same for the moment of use, with the value."""
        return Packed(wrap_node(saved), self.pair)


def pack_value(tensor: Tensor) -> Packed | None:
    """A value packed by the hooks in force on this thread; None if there are none."""
    pairs = tapes.tape().mode.saved_hooks
    return apply_pack(tensor.detach(), pairs[-1]) if pairs else None


def pack_node(node: Node) -> None:
    """Pass everything that a new node saves through the hooks in force on this thread; duals get their tangent."""
    mode = tapes.tape().mode
    if mode.duals is not None:
        mode.duals[-1].follow_all(node)
    if mode.contexts is not None and mode.contexts.checkpoint_policy is not None:
        mode.contexts.checkpoint_policy.ask(node)
    if mode.saved_hooks and node.residual_mask:
        _pack_saves(node, mode.saved_hooks[-1])
    for observer in record_observers:
        observer(node)


def _pack_saves(node: Node, pair: Pair) -> None:
    for index in range(len(node.inputs)):
        if node.residual_mask >> index & 1:
            pack_one(node, index, pair)
    if node.residual_mask >> RESULT_BIT & 1:
        pack_one(node, RESULT_BIT, pair)


def unpacked(node: Node, index: int, edge: GradientEdge) -> Any:
    """The unpacked value that a walk uses in place of a residual; None if no hook has packed it. Errors: as
    `Packed.unpack`."""
    packed = node.observers.packed.get(index)
    if packed is None:
        return None
    if isinstance(packed, Kept):
        own = (
            batched_residuals.saved_result(node)
            if index == RESULT_BIT
            else batched_residuals.saved_input(node, index)
        )
        packed = packed.attach(own)
    return packed.unpack(edge)


def put_back_hooks(pairs: tuple[Pair, ...] | None) -> None:
    """Let the pairs apply that were in force before a walk: hooks that were entered or left in it do not stay so."""
    mode = tapes.tape().mode
    tapes.watch_records(pack_node, len(pairs or ()) - len(mode.saved_hooks or ()))
    mode.saved_hooks = pairs


def _refusal() -> str | None:
    contexts = tapes.tape().mode.contexts
    return None if contexts is None else contexts.hooks_disabled


def are_allowed() -> bool:
    """True outside of `disable_saved_tensors_hooks`."""
    return _refusal() is None


def check_allowed() -> None:
    """Errors: RuntimeError inside `disable_saved_tensors_hooks`."""
    message = _refusal()
    if message is not None:
        raise GradientError(
            message,
            expected="no saved-tensor hooks here",
            got="a pair of hooks",
            fix="leave disable_saved_tensors_hooks first",
        )
