"""Checkpointing: forget what a part of the forward pass saves, and compute it again in backward.

In: a function and its arguments. Out: its results. The usual variant packs every save into a holder; the first holder
that a walk opens runs the function again and fills all of them. What is recorded again runs lazily, so a holder that
nobody opens costs no kernel. The reentrant variant is a custom Function with a backward inside its backward.
"""

from __future__ import annotations

import contextlib
import enum
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import weft
from weft.autograd.function import Function, Saved
from weft.autograd.graph import current_walk, saved_tensors_hooks
from weft.errors import ArgumentError, ArgumentTypeError, GradientError, WeftError
from weft.graph import node as graph
from weft.graph.tensor import value_of

__all__ = [
    "CheckpointError",
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "noop_context_fn",
    "set_checkpoint_early_stop",
]

_early_stop = True


class CheckpointError(WeftError, RuntimeError):
    """A second call of a checkpointed function that saves something else than the first."""


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Whether recomputation ends after the last save (the default), for checkpoints made inside."""
    global _early_stop
    former, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = former


def noop_context_fn() -> tuple[Any, Any]:
    """No contexts around forward and recomputation."""
    return contextlib.nullcontext(), contextlib.nullcontext()


# -- what to keep ----------------------------------------------------------------------------------------------------


class CheckpointPolicy(enum.Enum):
    """What to do with the result of an operation. Keeping on the CPU is keeping."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4


_KEPT = (
    CheckpointPolicy.MUST_SAVE,
    CheckpointPolicy.PREFER_SAVE,
    CheckpointPolicy.MUST_CPU_OFFLOAD,
)


class SelectiveCheckpointContext:
    """What a policy is told: whether it is asked in recomputation."""

    def __init__(self, *, is_recompute: bool) -> None:
        self.is_recompute = is_recompute


class _Selective:
    """A policy in force while the forward pass runs."""

    def __init__(self, policy: Callable[..., Any]) -> None:
        self.policy = policy

    def __enter__(self) -> None:
        mode = graph.tape().mode
        self._former = mode.extra
        mode.extra = {**(mode.extra or {}), "checkpoint_policy": self.policy}

    def __exit__(self, *exc: object) -> None:
        graph.tape().mode.extra = self._former


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False
) -> tuple[Any, Any]:
    """The contexts for `context_fn`: a policy `fn(ctx, op, value)` is asked about each saved value, with the name of
    the operation that made it; a list names the operations whose results are kept.

    Errors: TypeError for anything else.
    """
    if isinstance(policy_fn_or_list, (list, tuple)):
        names = {op if isinstance(op, str) else op.__name__ for op in policy_fn_or_list}

        def policy(ctx: Any, op: str, *args: Any, **kwargs: Any) -> CheckpointPolicy:
            return CheckpointPolicy.MUST_SAVE if op in names else CheckpointPolicy.PREFER_RECOMPUTE

        return _Selective(policy), contextlib.nullcontext()
    if not callable(policy_fn_or_list):
        raise ArgumentTypeError(
            "policy_fn_or_list must be either a function or a list of operations.",
            expected="a function or a list of operations",
            got=type(policy_fn_or_list).__name__,
            fix="pass a function (ctx, op, *args) -> CheckpointPolicy",
        )
    return _Selective(policy_fn_or_list), contextlib.nullcontext()


def _is_kept(tensor: Any) -> bool:
    """What the policy in force says of a value."""
    extra = graph.tape().mode.extra
    policy = None if extra is None else extra.get("checkpoint_policy")
    if policy is None:
        return False
    answer = policy(
        SelectiveCheckpointContext(is_recompute=False), value_of(tensor).row.name, tensor
    )
    return answer is True or answer in _KEPT


# -- recomputation ---------------------------------------------------------------------------------------------------


class _Stop(Exception):
    """All saves are there again: the rest of the function need not run."""


class _Holder:
    """One save of a checkpointed call."""

    def __init__(self, number: int, tensor: Any) -> None:
        self.number = number
        self.metadata = (tuple(tensor.shape), tensor.dtype)
        self.kept = tensor if _is_kept(tensor) else None


class _Frame:
    """One checkpointed call: how to run it again, and what it saved."""

    def __init__(
        self, function: Callable[..., Any], args: Any, kwargs: Any, context: Any, preserve: bool
    ) -> None:
        self.function, self.context, self.kwargs = function, context, kwargs
        self.args = [Saved(a) if isinstance(a, weft.Tensor) else a for a in args]
        self.state = weft.random.get_rng_state() if preserve else None
        self.early_stop = _early_stop
        self.count = 0
        self.metadata: list[Any] = []
        self.walk = -2
        self.values: dict[int, Any] = {}

    def pack(self, tensor: Any) -> _Holder:
        """Forget a save."""
        holder = _Holder(self.count, tensor)
        self.count += 1
        self.metadata.append(holder.metadata)
        return holder

    def unpack(self, holder: _Holder) -> Any:
        """A save again: from the recomputation of this walk, each once."""
        if holder.kept is not None:
            return holder.kept
        walk = current_walk()
        if walk != self.walk or holder.number not in self.values:
            self.recompute()
            self.walk = walk
        return self.values.pop(holder.number)

    def recompute(self) -> None:
        """Run the function again. Errors: CheckpointError where it saves something else."""
        values: list[Any] = []

        def keep(tensor: Any) -> Any:
            values.append(tensor)
            if self.early_stop and len(values) == self.count:
                raise _Stop
            return tensor

        args = [a.unpack(None) if isinstance(a, Saved) else a for a in self.args]
        with (
            _random_state(self.state),
            contextlib.suppress(_Stop),
            self.context,
            weft.enable_grad(),
        ):
            mode = graph.tape().mode
            outer, mode.saved_hooks = mode.saved_hooks, None
            try:
                with saved_tensors_hooks(keep, lambda tensor: tensor):
                    self.function(*args, **self.kwargs)
            finally:
                mode.saved_hooks = outer
        made = list(values)
        values.clear()  # the new records hold the hook, which must not hold their results
        self.check(made)
        self.values = dict(enumerate(made))

    def check(self, values: list[Any]) -> None:
        """Errors: CheckpointError."""
        if len(values) != self.count:
            raise CheckpointError(
                "weft.utils.checkpoint: A different number of tensors was saved during the original forward and "
                "recomputation.",
                expected=f"{self.count} tensors, as in the forward pass",
                got=str(len(values)),
                fix="make the function do the same each time it is called",
            )
        again = [(tuple(value.shape), value.dtype) for value in values]
        different = [i for i, (a, b) in enumerate(zip(self.metadata, again, strict=True)) if a != b]
        if different:
            first = different[0]
            raise CheckpointError(
                "weft.utils.checkpoint: Recomputed values for the following tensors have different metadata than "
                f"during the forward pass: {different}",
                expected=_metadata_text(self.metadata[first]),
                got=_metadata_text(again[first]),
                fix="make the function do the same each time it is called",
            )


def _metadata_text(metadata: Any) -> str:
    shape, dtype = metadata
    return f"{dtype.name}{list(shape)}"


@contextlib.contextmanager
def _random_state(state: Any) -> Iterator[None]:
    """Random numbers as they were drawn before, and afterwards as if none had been drawn."""
    if state is None:
        yield
        return
    with weft.random.fork_rng():
        weft.random.set_rng_state(state)
        yield


def _checkpoint(
    function: Callable[..., Any], args: Any, kwargs: Any, context_fn: Any, preserve: bool
) -> Any:
    forward_context, recompute_context = context_fn()
    frame = _Frame(function, args, kwargs, recompute_context, preserve)
    with saved_tensors_hooks(frame.pack, frame.unpack), forward_context:
        return function(*args, **kwargs)


# -- the reentrant variant -------------------------------------------------------------------------------------------


class CheckpointFunction(Function):
    """A call without a graph whose backward runs it again with one, and a backward inside."""

    @staticmethod
    def forward(ctx: Any, function: Callable[..., Any], preserve: bool, *args: Any) -> Any:
        """The result, with nothing saved but the arguments."""
        ctx.function = function
        ctx.state = weft.random.get_rng_state() if preserve else None
        ctx.places = [i for i, a in enumerate(args) if isinstance(a, weft.Tensor)]
        ctx.others = [None if isinstance(a, weft.Tensor) else a for a in args]
        ctx.save_for_backward(*(args[i] for i in ctx.places))
        return function(*args)

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        """Errors: RuntimeError inside autograd.grad or backward(inputs=...)."""
        if graph.tape().mode.chosen:
            raise GradientError(
                "When use_reentrant=True, weft.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
                "parameter to .backward().",
                expected="backward() without inputs",
                got="chosen inputs",
                fix="pass use_reentrant=False to checkpoint",
            )
        args = list(ctx.others)
        for place, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            args[place] = tensor.detach()
            args[place].requires_grad_(tensor.requires_grad)
        with weft.enable_grad(), _random_state(ctx.state):
            outputs = ctx.function(*args)
        results = outputs if isinstance(outputs, tuple) else (outputs,)
        pairs = [
            (result, cotangent)
            for result, cotangent in zip(results, cotangents, strict=True)
            if isinstance(result, weft.Tensor) and result.requires_grad
        ]
        if not pairs:
            raise GradientError(
                "none of output has requires_grad=True, this checkpoint() is not necessary",
                expected="an output that depends on an argument with requires_grad=True",
                got="none",
                fix="pass use_reentrant=False, or call the function directly",
            )
        weft.autograd.backward([p[0] for p in pairs], [p[1] for p in pairs])
        gradients = [a.grad if isinstance(a, weft.Tensor) and a.is_leaf else None for a in args]
        return (None, None, *gradients)


def _check_reentrant(args: Any, kwargs: Any, context_fn: Any) -> None:
    if kwargs:
        raise ArgumentError(
            "Unexpected keyword arguments: " + ",".join(kwargs),
            expected="positional arguments",
            got=", ".join(kwargs),
            fix="pass use_reentrant=False to use keyword arguments",
        )
    if context_fn is not noop_context_fn:
        raise ArgumentError(
            "Passing context_fn is only supported when use_reentrant=False.",
            expected="no context_fn",
            got="one",
            fix="pass use_reentrant=False",
        )
    if not any(isinstance(a, weft.Tensor) and a.requires_grad for a in args):
        warnings.warn(
            "None of the inputs have requires_grad=True. Gradients will be None",
            UserWarning,
            stacklevel=4,
        )


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """`function(*args, **kwargs)` without keeping what it saves for backward: it is called again there.

    Errors: CheckpointError where the second call saves something else; ValueError for keywords with
    use_reentrant=True. Cost: the function runs twice.
    """
    if use_reentrant is None:
        warnings.warn(
            "weft.utils.checkpoint: the use_reentrant parameter should be passed explicitly. use_reentrant=False is "
            "recommended; use_reentrant=True is what leaving it out means.",
            UserWarning,
            stacklevel=2,
        )
        use_reentrant = True
    if not use_reentrant:
        return _checkpoint(function, args, kwargs, context_fn, preserve_rng_state)
    _check_reentrant(args, kwargs, context_fn)
    return CheckpointFunction.apply(function, preserve_rng_state, *args)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Modules one after the other, in `segments` pieces of which all but the last are checkpointed."""
    layers = (
        list(functions.children()) if isinstance(functions, weft.nn.Module) else list(functions)
    )
    size = max(len(layers) // segments, 1)
    start = 0
    for _ in range(segments - 1):
        input = checkpoint(
            _run(layers[start : start + size]), input, use_reentrant=use_reentrant, **kwargs
        )
        start += size
    return _run(layers[start:])(input)


def _run(layers: Iterable[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    chain = list(layers)

    def run(value: Any) -> Any:
        for layer in chain:
            value = layer(value)
        return value

    return run
