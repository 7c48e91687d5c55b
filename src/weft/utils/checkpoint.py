"""Checkpointing (rematerialization by the user): part of the forward pass forgets its residuals, and backward computes
them again.

The usual variant packs every residual into a holder; the first holder that a walk opens runs the function again and
fills all of them. What is recorded again runs lazily, so a holder that nobody opens costs no kernel. The reentrant
variant is a custom Function with a backward inside its backward.
"""

from __future__ import annotations

import contextlib
import enum
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import weft
from weft.autograd.custom.context import SavedInput
from weft.autograd.function import Function
from weft.autograd.graph import saved_tensors_hooks
from weft.autograd.recomputation import standing, surroundings
from weft.engine.api.api_function import all_public
from weft.engine.backward.saved_tensor_hooks import pack_value
from weft.engine.frontend.resolve import edge_for, value_of
from weft.engine.frontend.tensor import Tensor
from weft.engine.frontend.tensor_lifecycle import wrap_node
from weft.engine.ir import tape as tapes
from weft.engine.ir.mode import Contexts
from weft.engine.ir.primitive import COMPOSITE, SCALAR_OP, VIEW
from weft.errors import ArgumentError, ArgumentTypeError, GradientError, WeftError
from weft.library import CustomOpDef
from weft.utils.checkpoint_extras import (
    DefaultDeviceType,
    GraphExecGroup,
    check_backward_validity,
    contexts_of,
    detach_variable,
    get_device_states,
    need_apart,
    set_checkpoint_debug_enabled,
    set_device_states,
    walk_or_group,
)

if TYPE_CHECKING:
    from weft.engine.ir.node import Node


__all__ = [
    "CheckpointError",
    "CheckpointPolicy",
    "DefaultDeviceType",
    "GraphExecGroup",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]

_early_stop: bool | None = None  # what `set_checkpoint_early_stop` says


class CheckpointError(WeftError, RuntimeError):
    """A second call of a checkpointed function that saves something else than the first."""


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Set whether recomputation ends after the last residual (the default), for checkpoints made inside.

    Args:
        enable: True or False; as a context, what was set before comes back.
    """
    global _early_stop
    previous, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = previous


def noop_context_fn() -> tuple[Any, Any]:
    """No contexts around forward and recomputation."""
    return contextlib.nullcontext(), contextlib.nullcontext()


# -- what to keep ----------------------------------------------------------------------------------------------------


class CheckpointPolicy(enum.Enum):
    """The decisions on the result of an operation. Keeping on the CPU is keeping."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


_FORGOTTEN = (CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE)
# The operations of the library that PyTorch's functions are made of, where the names differ.
_PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "mv", "dot", "einsum")


class SelectiveCheckpointContext:
    """The arguments of a policy: whether it is asked in recomputation, and the result that it decides on.

    Args:
        is_recompute: True in the second call.
        op_output: accepted, without effect; None: the same.
    """

    def __init__(self, *, is_recompute: bool, op_output: object = None) -> None:
        self.is_recompute, self.op_output = is_recompute, op_output


class _Operation(str):
    """The name of an operation; equal to the function of `weft.ops.aten` that records it, too."""

    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, node: Node) -> _Operation:
        """The operation of a node: a product of matrices is `mm` or `bmm` by their dimensions."""
        made = cls(node.op.name)
        products = ("bmm", "baddbmm") if len(node.shape) > 2 else ("mm", "addmm", "mv", "dot")
        made.names = (node.op.name, *products) if made == "matmul" else (node.op.name,)
        return made

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return str.__eq__(self, other)
        name = getattr(other, "__name__", None)
        return isinstance(name, str) and name in self.names

    __hash__ = str.__hash__


class _Selective:
    """A policy in force while the forward pass runs, and what it has said of each operation so far."""

    def __init__(self, policy: Callable[..., object]) -> None:
        self.policy = policy
        self.keeps: dict[Any, bool] = {}

    def __enter__(self) -> None:
        mode = tapes.tape().mode
        self._former = mode.contexts
        mode.contexts = Contexts(mode.contexts, checkpoint_policy=self)

    def __exit__(self, *exc: object) -> None:
        tapes.tape().mode.contexts = self._former
        self.keeps = {}

    def ask(self, node: Node) -> None:
        """Called for each operation when it is recorded; a view is kept as its base is. Errors: TypeError on an answer
        that is none."""
        if node.op.kind in (VIEW, COMPOSITE):
            if node.inputs:
                self.keeps[node] = self.keeps.get(node.inputs[0], False)
            return
        mode = tapes.tape().mode
        inside, mode.contexts = mode.contexts, self._former
        try:
            with weft.no_grad():
                operands = [
                    source.params if source.op is SCALAR_OP else wrap_node(source)
                    for source in node.inputs or ()
                ]
                context = SelectiveCheckpointContext(is_recompute=False, op_output=wrap_node(node))
                answer = self.policy(context, _Operation.of(node), *operands)
        finally:
            mode.contexts = inside
        self.keeps[node] = self.says(answer)

    def ask_custom(self, operation: CustomOpDef, args: tuple[object, ...], result: object) -> None:
        """Called for each operation of a user's own, with its result: what it was computed by has been asked about."""
        answer = self.policy(SelectiveCheckpointContext(is_recompute=False), operation, *args)
        for one in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(one, Tensor):
                self.keeps[value_of(one)] = self.says(answer)

    @staticmethod
    def says(answer: object) -> bool:
        """True if an answer is to keep a result. Errors: TypeError on what is none."""
        if not isinstance(answer, (bool, CheckpointPolicy)):
            raise ArgumentTypeError(
                f"a checkpoint policy returned {type(answer).__name__}",
                expected="a CheckpointPolicy, or a bool",
                got=repr(answer),
                fix="return CheckpointPolicy.MUST_SAVE or PREFER_RECOMPUTE",
            )
        return answer if isinstance(answer, bool) else answer not in _FORGOTTEN


def create_selective_checkpoint_contexts(
    policy_fn_or_list: object, allow_cache_entry_mutation: bool = False
) -> tuple[Any, Any]:
    """The contexts for `context_fn`: a policy `fn(ctx, op, *args)` is asked once about each operation of the forward
    pass (of the op table; views are what they show), with its name and operands, and answers with a CheckpointPolicy
    (True keeps its result where a derivative saves it); a list names the operations whose results are kept. What is
    kept cannot be overwritten, so that `allow_cache_entry_mutation` has nothing to allow.

    Errors: TypeError for anything else, ValueError for what is no operation in a list.

    Args:
        policy_fn_or_list: a function `fn(ctx, op, *args)` that gives a policy, or a list of operations to keep.
        allow_cache_entry_mutation: True: values that are kept may be written to.
    """
    if isinstance(policy_fn_or_list, (list, tuple)):
        names = {_operation(op) for op in policy_fn_or_list}

        def policy(
            ctx: SelectiveCheckpointContext, op: object, *args: object, **kwargs: object
        ) -> CheckpointPolicy:
            return CheckpointPolicy.MUST_SAVE if op in names else CheckpointPolicy.PREFER_RECOMPUTE

        return _Selective(policy), contextlib.nullcontext()
    if not callable(policy_fn_or_list):
        raise ArgumentTypeError(
            "policy_fn_or_list must be either a function or a list of ops.",
            expected="a function or a list of operations",
            got=type(policy_fn_or_list).__name__,
            fix="pass a function (ctx, op, *args) -> CheckpointPolicy",
        )
    return _Selective(policy_fn_or_list), contextlib.nullcontext()


def _operation(op: object) -> object:
    """The name of an operation that is given as a name or as a function; a user's own as it is. Errors: ValueError."""
    if isinstance(op, CustomOpDef):
        return op
    name = op if isinstance(op, str) else getattr(op, "__name__", None)
    if not isinstance(name, str):
        raise ArgumentError(
            f"Expected op in `op_list` to be an OpOverload but got: {op} of type {type(op)}.",
            expected="names of operations, or functions such as weft.matmul",
            got=repr(op),
            fix="pass weft.matmul, or 'matmul'",
        )
    return "matmul" if name in _PRODUCTS else name


def _is_kept(tensor: Tensor) -> bool:
    """True if the policy in force keeps the result of the operation that made a value."""
    contexts = tapes.tape().mode.contexts
    policy = None if contexts is None else contexts.checkpoint_policy
    return policy is not None and policy.keeps.get(value_of(tensor), False)


# -- recomputation ---------------------------------------------------------------------------------------------------


class _Stop(Exception):
    """All saves are there again: the rest of the function need not run."""


class _Argument:
    """A tensor that a checkpointed call was given inside of another: the other one's hooks keep it, so that it can be
    forgotten too."""

    def __init__(self, tensor: Any) -> None:
        self.edge = edge_for(tensor)
        self.packed: Any = pack_value(tensor)

    def unpack(self, record: object) -> Any:
        """The tensor again, on its edge."""
        return self.packed.unpack(self.edge)


def _kept_argument(argument: object) -> Any:
    if not isinstance(argument, weft.Tensor):
        return argument
    inside = tapes.tape().mode.saved_hooks
    return _Argument(argument) if inside and not argument.leaf_grad else SavedInput(argument)


class _Holder:
    """One save of a checkpointed call."""

    def __init__(self, number: int, tensor: Any) -> None:
        self.number = number
        self.metadata = (tuple(tensor.shape), tensor.dtype)
        self.kept = tensor if _is_kept(tensor) else None


class _Options(NamedTuple):
    """The options of a checkpoint."""

    preserve_rng_state: bool
    determinism_check: str
    early_stop: bool


class _Frame:
    """One checkpointed call: how to run it again, and what it saved."""

    def __init__(
        self,
        function: Callable[..., object],
        args: tuple[Tensor, ...],
        kwargs: dict[str, object],
        context: contextlib.AbstractContextManager[object],
        options: _Options,
    ) -> None:
        self.function, self.context, self.kwargs = function, context, kwargs
        self.args = [_kept_argument(a) for a in args]
        self.around = surroundings()
        self.state = weft.random.get_rng_state() if options.preserve_rng_state else None
        self.early_stop = options.early_stop if _early_stop is None else _early_stop
        self.compares = options.determinism_check == "default"
        self.complete = False  # the first call has returned
        self.holders: list[weakref.ref[_Holder]] = []
        self.metadata: list[Any] = []
        self.walk: Any = None
        self.values: dict[int, Any] = {}

    def pack(self, tensor: Tensor) -> _Holder:
        """Forget a save."""
        holder = _Holder(len(self.holders), tensor)
        self.holders.append(weakref.ref(holder))
        self.metadata.append(holder.metadata)
        return holder

    def unpack(self, holder: _Holder) -> Any:
        """A save again: from the recomputation of this walk, each once."""
        if holder.kept is not None:
            return holder.kept
        walk = walk_or_group()
        if walk != self.walk or holder.number not in self.values:
            if walk == self.walk:
                need_apart(walk)
            self.recompute()
            self.walk = walk
        return self.values.pop(holder.number)

    def recompute(self) -> None:
        """Run the function again. Errors: CheckpointError where it saves something else."""
        values: list[Any] = []
        last = len(self.holders) if self.early_stop else 0

        def keep(tensor: Tensor) -> Any:  # it does not hold the frame: the new records hold it
            values.append(tensor)
            if len(values) == last:
                raise _Stop
            return tensor

        args = [a.unpack(None) if isinstance(a, (SavedInput, _Argument)) else a for a in self.args]
        with (
            _random_state(self.state),
            contextlib.suppress(_Stop),
            standing(self.around, False),
            self.context,
            weft.enable_grad(),
        ):
            mode = tapes.tape().mode
            outer, mode.saved_hooks = mode.saved_hooks, None
            try:
                with saved_tensors_hooks(keep, lambda tensor: tensor):
                    self.function(*args, **self.kwargs)
            finally:
                mode.saved_hooks = outer
        made = list(values)
        values.clear()  # the new records hold the hook, which must not hold their results
        if (
            not self.complete
        ):  # a gradient that the function itself asks for: what it saves later is not known yet
            del made[len(self.holders) :]
        self.check(made)
        pairs = zip(self.holders, made, strict=True)
        self.values = {i: value for i, (holder, value) in enumerate(pairs) if holder() is not None}

    def check(self, values: list[Tensor]) -> None:
        """Errors: CheckpointError."""
        count = len(self.holders)
        if len(values) != count:
            raise CheckpointError(
                "weft.utils.checkpoint: trying to save more tensors during recomputation than during the original "
                "forward pass."
                if len(values) > count
                else "weft.utils.checkpoint: A different number of tensors was saved during the original forward and "
                "recomputation.",
                expected=f"{count} tensors, as in the forward pass",
                got=str(len(values)),
                fix="make the function do the same each time it is called",
            )
        if not self.compares:
            return
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
def _random_state(state: Tensor | None) -> Iterator[None]:
    """Random numbers as they were drawn before, and afterwards as if none had been drawn."""
    if state is None:
        yield
        return
    with weft.random.fork_rng():
        weft.random.set_rng_state(state)
        yield


def _checkpoint(
    function: Callable[..., object],
    args: Any,
    kwargs: Any,
    context_fn: Callable[..., object],
    options: _Options,
) -> Any:
    forward_context, recompute_context = contexts_of(context_fn)
    frame = _Frame(function, args, kwargs, recompute_context, options)
    with saved_tensors_hooks(frame.pack, frame.unpack), forward_context:
        result = function(*args, **kwargs)
    frame.complete = True
    return result


# -- the reentrant variant -------------------------------------------------------------------------------------------


class CheckpointFunction(Function):
    """A call without a graph whose backward runs it again with one, and a backward inside."""

    @staticmethod
    def forward(ctx: Any, function: Callable[..., object], preserve: bool, *args: object) -> Any:
        """The result, with nothing saved but the arguments."""
        ctx.function, ctx.around = function, surroundings()
        ctx.state = weft.random.get_rng_state() if preserve else None
        ctx.places = [i for i, a in enumerate(args) if isinstance(a, weft.Tensor)]
        ctx.others = [None if isinstance(a, weft.Tensor) else a for a in args]
        ctx.save_for_backward(*(args[i] for i in ctx.places))
        return function(*args)

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        """Errors: RuntimeError inside autograd.grad or backward(inputs=...)."""
        if tapes.tape().mode.chosen:
            raise GradientError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
                "parameter to .backward().",
                expected="backward() without inputs",
                got="chosen inputs",
                fix="pass use_reentrant=False to checkpoint",
            )
        args = list(ctx.others)
        for place, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            args[place] = tensor.detach()
            args[place].requires_grad_(tensor.requires_grad)
        with weft.enable_grad(), _random_state(ctx.state), standing(ctx.around, True):
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


def _check_reentrant(
    args: tuple[object, ...], kwargs: dict[str, object] | None, special: bool
) -> None:
    if kwargs:
        raise ArgumentError(
            "Unexpected keyword arguments: " + ",".join(kwargs),
            expected="positional arguments",
            got=", ".join(kwargs),
            fix="pass use_reentrant=False to use keyword arguments",
        )
    if special:
        raise ArgumentError(
            "Passing `context_fn` or `debug` is only supported when use_reentrant=False.",
            expected="no context_fn, no debug=True",
            got="one of them",
            fix="pass use_reentrant=False",
        )
    if not any(isinstance(a, weft.Tensor) and a.requires_grad for a in args):
        warnings.warn(
            "None of the inputs have requires_grad=True. Gradients will be None",
            UserWarning,
            stacklevel=4,
        )


def checkpoint(
    function: Callable[..., object],
    *args: object,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[object, object]] = noop_context_fn,
    preserve_rng_state: bool = True,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: object,
) -> Any:
    """`function(*args, **kwargs)` without keeping what it saves for backward: it is called again there.

    `determinism_check="none"` leaves out comparing shapes and types; `early_stop` ends the second call after its last
    save, unless `set_checkpoint_early_stop` says otherwise. Errors name what differs without `debug` too.

    Errors: CheckpointError where the second call saves something else; ValueError for keywords with
    use_reentrant=True, and for another determinism_check. Cost: the function runs twice.

    Args:
        function: called at once, and again in the backward pass.
        *args: what it is called with.
        use_reentrant: False: nothing is kept but the arguments; True: as a custom Function, whose arguments have to
            require grad; None: True, with a warning.
        context_fn: gives two contexts, for the first call and for the second.
        preserve_rng_state: True: random numbers of the second call are those of the first.
        determinism_check: "default" compares shapes and types of what is saved, "none" does not.
        debug: accepted, without effect: errors name what differs in any case.
        early_stop: True: the second call ends with its last save.
        **kwargs: what it is called with, by name.

    Example:
        >>> import weft
        >>> from weft.utils.checkpoint import checkpoint
        >>> x = weft.zeros(2, requires_grad=True)
        >>> checkpoint(weft.exp, x, use_reentrant=False).sum().backward()
        >>> x.grad
        tensor([1., 1.])
    """
    if determinism_check not in ("default", "none"):
        raise ArgumentError(
            f"determinism_check should be one of ['default', 'none'], but got {determinism_check}",
            expected="'default' or 'none'",
            got=repr(determinism_check),
            fix="leave it out",
        )
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. use_reentrant=False is "
            "recommended; use_reentrant=True is what leaving it out means.",
            UserWarning,
            stacklevel=2,
        )
        use_reentrant = True
    if not use_reentrant:
        options = _Options(preserve_rng_state, determinism_check, early_stop)
        return _checkpoint(function, args, kwargs, context_fn, options)
    _check_reentrant(args, kwargs, debug or context_fn is not noop_context_fn)
    return CheckpointFunction.apply(function, preserve_rng_state, *args)


def checkpoint_sequential(
    functions: Any,
    segments: int,
    input: list[Tensor],
    use_reentrant: bool | None = None,
    **kwargs: Any,
) -> Any:
    """Modules one after the other, in `segments` pieces of which all but the last are checkpointed.

    Args:
        functions: a Sequential, or a list of functions.
        segments: the number of pieces.
        input: what the first of them is called with.
        use_reentrant: as in `checkpoint`; None: True, with a warning.
        **kwargs: as in `checkpoint`.
    """
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


def _run(layers: Iterable[Callable[[object], object]]) -> Callable[[Any], Any]:
    chain = list(layers)

    def run(value: object) -> Any:
        for layer in chain:
            value = layer(value)
        return value

    return run


for _function in (checkpoint, checkpoint_sequential, create_selective_checkpoint_contexts):
    globals().update(all_public({_function.__name__: _function}))
