"""Companions of checkpointing: walks that share one recomputation, states of devices, and PyTorch's helpers."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

import weft
from weft.autograd.graph import current_walk
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import tape as tapes
from weft.engine.ir.mode import Contexts
from weft.errors import ArgumentTypeError, GradientError


def contexts_of(context_fn: Callable[..., object]) -> tuple[Any, Any]:
    """The contexts of the call and of its repetition. Errors: TypeError on anything but a pair of contexts."""
    made = context_fn()
    if isinstance(made, tuple) and len(made) == 2 and all(hasattr(c, "__enter__") for c in made):
        return made
    raise ArgumentTypeError(
        f"checkpoint(): context_fn must return two context managers, not {type(made).__name__}",
        expected="a tuple: the context of the call, and that of its repetition",
        got=f"{made!r:.60}",
        fix="return (contextlib.nullcontext(), contextlib.nullcontext())",
    )


class GraphExecGroup:
    """Backwards inside one group use one recomputation of each checkpoint (without `use_reentrant`). Each save can be
    used once: the parts of the graph that they walk over must not overlap.

    Errors: RuntimeError where one is entered inside another.
    """

    def __enter__(self) -> GraphExecGroup:
        mode = tapes.tape().mode
        if _group() is not None:
            raise GradientError(
                f"GraphExecGroup contexts cannot be nested. Already inside group {_group()}",
                expected="one group at a time",
                got="a second one",
                fix="leave the first group",
            )
        self._former = mode.contexts
        mode.contexts = Contexts(mode.contexts, recomputation_group=self)
        return self

    def __exit__(self, *exc: object) -> None:
        tapes.tape().mode.contexts = self._former


def _group() -> Any:
    contexts = tapes.tape().mode.contexts
    return None if contexts is None else contexts.recomputation_group


def walk_or_group() -> Any:
    """The owner of one recomputation: the group in force, or the running walk."""
    group = _group()
    return current_walk() if group is None else group


def need_apart(owner: object) -> None:
    """Errors: RuntimeError where a save that a group has used is asked for again."""
    if isinstance(owner, GraphExecGroup):
        raise GradientError(
            "Performing two backward calls that overlap (i.e. require the same saved activation in order to compute "
            "gradients) is not allowed while under the torch.utils.checkpoint.GraphExecGroup context.",
            expected="walks over parts of the graph that are apart",
            got="a save that is needed again",
            fix="leave the group before the second walk",
        )


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Nothing to switch: errors of a checkpoint name what differs in any case.

    Args:
        enabled: True, False or None; without effect.
    """
    yield


class DefaultDeviceType:
    """The kind of device whose random states are kept where no tensor says it."""

    _kind: ClassVar[str] = "cuda"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Choose the kind.

        Args:
            device: the kind of device, "cpu". Default: 'cuda'.
        """
        DefaultDeviceType._kind = device

    @staticmethod
    def get_device_type() -> str:
        """The kind that was chosen."""
        return DefaultDeviceType._kind


def get_device_states(*args: object) -> tuple[list[int], list[Any]]:
    """Number and random state of each device of the arguments, except the CPU: there is no other yet.

    Args:
        *args: the arguments of a function.
    """
    return [], []


def set_device_states(devices: object, states: object, *, device_type: str | None = None) -> None:
    """Give devices their random states again: there are none but the CPU's, which is no part of this.

    Args:
        devices: the numbers of devices.
        states: their random states.
        device_type: the name of the devices; None: the same.
    """


def check_backward_validity(inputs: Iterable[Tensor]) -> None:
    """Warn where no tensor requires grad.

    Args:
        inputs: the arguments of a function.
    """
    if not any(value.requires_grad for value in inputs if isinstance(value, weft.Tensor)):
        warnings.warn(
            "None of the inputs have requires_grad=True. Gradients will be None",
            UserWarning,
            stacklevel=2,
        )


def detach_variable(inputs: tuple[Tensor | int, ...]) -> tuple[Any, ...]:
    """The tensors of a tuple detached, asking for gradients where they did. Errors: RuntimeError on no tuple.

    Args:
        inputs: the arguments of a function.
    """
    if not isinstance(inputs, tuple):
        raise ArgumentTypeError(
            f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}",
            expected="a tuple",
            got=type(inputs).__name__,
            fix="write (tensor,)",
        )
    return tuple(
        value.detach().requires_grad_(value.requires_grad)
        if isinstance(value, weft.Tensor)
        else value
        for value in inputs
    )
