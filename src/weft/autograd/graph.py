"""`weft.autograd.graph`: edges as values, hooks on saved tensors, hooks on several gradients.

It makes contexts and handles from tensors and functions of the user. `saved_tensor_hooks` applies the hooks on saved
tensors, the `observers` of records the others.
"""

from __future__ import annotations

import abc
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import ContextDecorator
from math import prod
from typing import Any, NamedTuple, NoReturn

from weft.autograd.grad_fn.attributes import SeveralOutputs, shown
from weft.engine.api.api_function import publish
from weft.engine.backward.hooks import RemovableHandle
from weft.engine.backward.reachability import target_for
from weft.engine.backward.saved_tensor_hooks import check_allowed, pack_node
from weft.engine.frontend.resolve import edge_for
from weft.engine.frontend.tensor import Tensor
from weft.engine.frontend.views import storage_of
from weft.engine.ir import tape as tapes
from weft.engine.ir.grad_edges import AccumulateGrad, GradientFunction, OutputEdge
from weft.engine.ir.mode import Contexts
from weft.engine.ir.node import Node as RecordedNode
from weft.engine.ir.tape import watch_records
from weft.errors import (
    ArgumentError,
    ArgumentTypeError,
    AssertedError,
    GradientError,
    NoTensorError,
)


class Node(abc.ABC):  # noqa: B024 - asked by isinstance only
    """The type of `grad_fn`: any record of the graph."""


for _kind in (RecordedNode, GradientFunction, AccumulateGrad):
    Node.register(_kind)


class GradientEdge(NamedTuple):
    """The target of the gradient of one output of a record. It works as a root or an input of a backward, also when
    the tensor is gone.

    Args:
        node: the record.
        output_nr: which of its outputs.
        ownership_token: what has to live as long; None: nothing.
    """

    node: Any
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge of a tensor that requires grad. Errors: RuntimeError where it does not."""
    if not isinstance(tensor, Tensor):
        raise _no_tensor(tensor)
    edge = find_edge(tensor)
    if edge is None:
        raise GradientError(
            "It is not possible to get the gradient edge for a Tensor that does not require gradients",
            expected="requires_grad=True",
            got=f"{tensor.dtype.name}{list(tensor.shape)} without a graph",
            fix="call requires_grad_() before the forward pass",
        )
    record, number = shown(edge)
    return GradientEdge(record, number, edge if isinstance(record, SeveralOutputs) else None)


def _no_tensor(value: int | Sequence[Tensor] | str | None) -> NoTensorError:
    return NoTensorError.of(
        value,
        "requires_grad",
        expected="a tensor that requires grad",
        fix="pass the tensors that were computed",
    )


def find_edge(target: object) -> Any:
    """The edge of a tensor or GradientEdge as records keep it; None if there is no graph."""
    if isinstance(target, Tensor):
        return edge_for(target)
    if not isinstance(target, GradientEdge):
        raise GradientError(
            f"all inputs have to be Tensors or GradientEdges, but got {type(target).__name__}",
            expected="tensors, or edges from weft.autograd.graph.get_gradient_edge",
            got=repr(target)[:60],
            fix="pass the tensors that were computed",
        )
    if isinstance(target.node, SeveralOutputs):
        return target.ownership_token or OutputEdge(target.node, target.output_nr)
    if isinstance(target.node, GradientFunction):
        return OutputEdge(target.node, target.output_nr)
    return target.node


def _no_such_edge(edge: GradientEdge) -> NoReturn:
    raise GradientError(
        f"{edge.node.name()} has no output {edge.output_nr}",
        expected=f"0 <= output_nr < {edge.node.outputs}",
        got=f"GradientEdge(<{edge.node.name()}>, {edge.output_nr})",
        fix="make it with weft.autograd.graph.get_gradient_edge(tensor)",
    )


class EdgeOutput:
    """The facts known of the tensor that a GradientEdge was made from."""

    def __init__(self, edge: GradientEdge) -> None:
        record: Any = edge.node
        if isinstance(edge.node, SeveralOutputs):
            record = edge.ownership_token or edge.node.known_output(edge.output_nr)
            if record is None:
                _no_such_edge(edge)
        if isinstance(edge.node, AccumulateGrad):
            record = edge.node.variable
        has_several = isinstance(record, GradientFunction)
        if has_several:
            self._shape, self.dtype = record.output_types[edge.output_nr]
        else:
            self._shape, self.dtype = tuple(record.shape), record.dtype
        self.shape = self._shape

    def numel(self) -> int:
        """The number of elements."""
        return prod(self._shape)


def output_of(target: object) -> Any:
    """The tensor, or what is known of the one behind a GradientEdge."""
    return EdgeOutput(target) if isinstance(target, GradientEdge) else target


def increment_version(tensor: Tensor) -> None:
    """Count a change of a tensor, or of several, that the library has not seen. Those of inference mode count none."""
    for changed in (tensor,) if isinstance(tensor, Tensor) else _several(tensor):
        if changed.inference:
            continue
        storage_of(changed).version += 1
        if changed.counter is not None:
            changed.counter.version += 1
            storage_of(changed).apart += 1


def _several(tensors: Sequence[Tensor]) -> tuple[Any, ...]:
    """Errors: RuntimeError on anything but tensors."""
    several = hasattr(tensors, "__iter__")
    found = tuple(tensors) if several else ()
    if not several or not all(isinstance(one, Tensor) for one in found):
        raise GradientError(
            "increment_version expects each element of the iterable to be a tensor"
            if several
            else "increment_version expect a Iterable[Tensor] as input",
            expected="a tensor, or tensors in a list",
            got=repr(tensors)[:60],
            fix="pass the tensors that were changed",
        )
    return found


# -- hooks on what is saved ------------------------------------------------------------------------------------------


class saved_tensors_hooks:  # noqa: N801 - PyTorch's name
    """Keep for backward what `pack_hook` makes of each saved tensor, and get it back by `unpack_hook`.

    Of nested pairs the innermost applies.

    Args:
        pack_hook: is given a tensor that is saved; what it returns is kept.
        unpack_hook: is given what was kept; returns the tensor.

    Raises:
        RuntimeError inside `disable_saved_tensors_hooks`.
    """

    def __init__(
        self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]
    ) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        check_allowed()
        if not (callable(self.pack_hook) and callable(self.unpack_hook)):
            raise ArgumentTypeError(
                "saved_tensors_hooks: incompatible function arguments",
                expected="two functions",
                got=f"{self.pack_hook!r:.30}, {self.unpack_hook!r:.30}",
                fix="pass what packs a tensor, and what makes it again",
            )
        mode = tapes.tape().mode
        mode.saved_hooks = (*(mode.saved_hooks or ()), (self.pack_hook, self.unpack_hook))
        watch_records(pack_node, 1)

    def __exit__(self, *exc: object) -> None:
        mode = tapes.tape().mode
        mode.saved_hooks = mode.saved_hooks[:-1]
        watch_records(pack_node, -1)


class save_on_cpu(saved_tensors_hooks):  # noqa: N801 - PyTorch's name
    """Keep what is saved in the memory of the CPU, where it is already."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda tensor: tensor, lambda tensor: tensor)


class disable_saved_tensors_hooks(ContextDecorator):  # noqa: N801 - PyTorch's name
    """Refuse `saved_tensors_hooks` inside, with a message: as a context or a decorator.

    Args:
        error_message: the text of the error.
    """

    def __init__(self, error_message: str) -> None:
        self.message = error_message
        self._former: list[Any] = []

    def __enter__(self) -> None:
        mode = tapes.tape().mode
        if mode.saved_hooks:
            raise GradientError(
                self.message,
                expected="no saved-tensor hooks around",
                got=f"{len(mode.saved_hooks)} in force",
                fix="enter disable_saved_tensors_hooks outside of them",
            )
        self._former.append(mode.contexts)
        mode.contexts = Contexts(mode.contexts, hooks_disabled=self.message)

    def __exit__(self, *exc: object) -> None:
        tapes.tape().mode.contexts = self._former.pop()


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Nothing to warn of: there is one stream, that of the calling thread. Kept for programs that call it."""


def set_override_stale_capture_stream(enabled: bool) -> None:
    """Nothing to override: there are no streams that a device captures. Kept for programs that call it."""


def region_activation_memory_budget(budget: float) -> NoReturn:
    """Of regions that are compiled; there are none, and PyTorch refuses it outside of them.

    Args:
        budget: a share between 0 and 1.

    Raises:
        TypeError, ValueError on what is no share; RuntimeError otherwise.
    """
    name = "weft.autograd.graph.region_activation_memory_budget"
    kind: Any
    fix = "use weft.utils.checkpoint, which computes again what a region saves"
    if not isinstance(budget, float | int) or isinstance(budget, bool):
        kind, text = ArgumentTypeError, f"expects a float, got {type(budget).__name__}"
    elif not 0 <= budget <= 1:
        kind, text = ArgumentError, f"must be in [0, 1], got {budget}"
    else:
        kind, text = GradientError, "can only be used inside a compiled region; there are none"
    raise kind(f"{name}: {text}", expected="a share from 0 to 1", got=repr(budget), fix=fix)


class allow_mutation_on_saved_tensors:  # noqa: N801 - PyTorch's name
    """Nothing to allow: a value that is saved for a derivative is never overwritten. Kept for programs that use it."""

    def __enter__(self) -> allow_mutation_on_saved_tensors:
        return self

    def __exit__(self, *exc: object) -> None:
        """Nothing to end."""

    def clear(self) -> None:
        """Nothing to clear."""


# -- hooks on several gradients --------------------------------------------------------------------------------------


class _Handles:
    """Several handles as one."""

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self._handles = tuple(handles)

    def remove(self) -> None:
        """Take all hooks off."""
        for handle in self._handles:
            handle.remove()

    def __enter__(self) -> _Handles:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def register_multi_grad_hook(
    tensors: Iterable[Tensor], fn: Callable[..., None], *, mode: str = "all"
) -> _Handles:
    """Call `fn` once in each backward: with the list of gradients (None for tensors not reached) when the last of
    them is known, or with the first that is known (`mode="any"`).

    Args:
        mode: "all": once all gradients are known; "any": with the first. Default: 'all'.

    Raises:
        ValueError on another mode, AssertionError on a tensor that does not require grad
        (with 'any' it is left out), AttributeError on what is no tensor.
    """
    if mode not in ("all", "any"):
        raise ArgumentError(
            f"Expects mode to be one of ('all', 'any') but got {mode}",
            expected="'all' or 'any'",
            got=repr(mode),
            fix="pass one of the two",
        )
    watched = tuple(tensors)
    for tensor in watched:
        if not isinstance(tensor, Tensor):
            raise _no_tensor(tensor)
        if mode == "all" and not tensor.requires_grad:
            raise AssertedError(
                "Expected gradient function to be set",
                expected="tensors that require grad",
                got=f"{tensor.dtype.name}{list(tensor.shape)} without a graph",
                fix="call requires_grad_() before the forward pass, or leave it out",
            )
    make = _when_all if mode == "all" else _when_any
    return _Handles(make(watched, fn))


def _when_any(tensors: tuple[Tensor, ...], fn: Callable[..., None]) -> list[RemovableHandle]:
    done: set[int] = set()
    lock = threading.Lock()

    def first(gradient: Tensor) -> None:
        walk = current_walk()
        with lock:
            if walk in done:
                return
            done.clear()
            done.add(walk)
        fn(gradient)

    return [tensor.register_hook(first) for tensor in tensors if tensor.requires_grad]


def _when_all(tensors: tuple[Tensor, ...], fn: Callable[..., None]) -> list[RemovableHandle]:
    records = [target_for(edge_for(tensor))[0] for tensor in tensors]
    waiting: dict[int, tuple[list[Any], int]] = {}
    lock = threading.Lock()

    def hook(index: int) -> Callable[[Tensor], None]:
        def arrived(gradient: Tensor) -> None:
            walk = current_walk()
            with lock:
                gradients, missing = waiting.pop(walk, (None, 0))
                if gradients is None:
                    gradients = [None] * len(tensors)
                    missing = sum(is_reached(record) for record in records)
                gradients[index] = gradient
                if missing > 1:
                    waiting.clear()
                    waiting[walk] = (gradients, missing - 1)
                    return
            fn(gradients)

        return arrived

    return [tensor.register_hook(hook(index)) for index, tensor in enumerate(tensors)]


def current_walk() -> int:
    """The number of the reverse walk that is running on this thread."""
    return int(tapes.tape().mode.walk)


def is_reached(record: Any) -> bool:
    """True if the running walk has reached, or will reach, a record."""
    return bool(record.walk_number >> 32 == current_walk())


__all__ = [
    "AccumulateGrad",
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "region_activation_memory_budget",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
    "set_override_stale_capture_stream",
    "set_warn_on_accumulate_grad_stream_mismatch",
]

publish(globals())
