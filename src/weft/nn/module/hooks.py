"""Hooks of modules: the record that a module keeps, the handle that removes one, a call with hooks.

A call with hooks returns the result of `forward` as the hooks left it. Gradients are observed by passing inputs and
outputs through an identity Function, so nothing here knows how backward walks.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import weft
from weft import Tensor
from weft.autograd import Function
from weft.engine.backward.hooks import RemovableHandle as RemovableHandle
from weft.errors import ArgumentError
from weft.nn.module.record_hooks import hook_record

if TYPE_CHECKING:
    from weft.nn.module.hook_registration import InPlace
    from weft.nn.module.module import Module


@dataclass
class Hook:
    """One registered function and the options it was registered with."""

    function: Callable[..., Any]
    with_kwargs: bool = False
    always_call: bool = False


HookTable = dict[int, Hook]


@dataclass
class ModuleHooks:
    """The hooks of one module, each table in the order of calls."""

    forward_pre: HookTable = field(default_factory=dict)
    forward: HookTable = field(default_factory=dict)
    backward_pre: HookTable = field(default_factory=dict)
    backward: HookTable = field(default_factory=dict)
    on_record: HookTable = field(default_factory=dict)  # of `register_backward_hook`


COMMON = ModuleHooks()  # hooks of all modules, and of the registration of members in any
ON_PARAMETER: dict[int, Callable[..., Any]] = {}
ON_BUFFER: dict[int, Callable[..., Any]] = {}
ON_MODULE: dict[int, Callable[..., Any]] = {}


def as_hooked(
    table: dict[int, Callable[..., object]], module: Module, name: str, member: object
) -> Any:
    """The member as hooks have changed it, to be registered."""
    for hook in list(table.values()):
        changed = hook(module, name, member)
        member = member if changed is None else changed
    return member


def add_hook(
    table: dict[int, Any], hook: Callable[..., object] | Hook | InPlace, prepend: bool = False
) -> RemovableHandle:
    """Register at the end of the table, or at its beginning."""
    handle = RemovableHandle(table)
    later = dict(table) if prepend else {}
    if prepend:
        table.clear()
    table[handle.id] = hook
    table.update(later)
    return handle


def marked(table: HookTable, option: str) -> dict[int, bool]:
    """The numbers of the hooks that were registered with an option."""
    return {number: True for number, hook in table.items() if getattr(hook, option)}


def require_one_kind(others: HookTable, where: str) -> None:
    """Errors: RuntimeError where there are backward hooks of the other kind."""
    if others:
        raise ArgumentError(
            f"Cannot use both regular backward hooks and full backward hooks {where}. Please use only one of them.",
            expected="hooks of register_backward_hook, or of register_full_backward_hook",
            got="both",
            fix="register all of them with register_full_backward_hook",
        )


class BackwardHookFunction(Function):
    """Identity whose backward shows the cotangents to a callback, which may replace them."""

    @staticmethod
    def forward(ctx: Any, callback: Callable[..., object], *tensors: Tensor) -> Any:
        """The tensors as they are, under new gradient edges."""
        ctx.callback = callback
        ctx.set_materialize_grads(False)
        return tuple(tensor.view_as(tensor) for tensor in tensors)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> Any:
        """The cotangents as the callback returns them."""
        return (None, *ctx.callback(cotangents))


def observe(
    values: tuple[object, ...], callback: Callable[..., Any]
) -> tuple[tuple[Any, ...], bool]:
    """Pass the tensors among `values` that can have a gradient through BackwardHookFunction; whether there are any.

    The callback sees and returns one cotangent for each of `values`; those of other things are
    None.
    """
    places = [i for i, v in enumerate(values) if isinstance(v, Tensor) and v.requires_grad]
    if not places or not weft.is_grad_enabled():
        return values, False

    def on_tensors(cotangents: tuple[object, ...]) -> tuple[Any, ...]:
        everything: list[Any] = [None] * len(values)
        for place, cotangent in zip(places, cotangents, strict=True):
            everything[place] = cotangent
        changed = callback(tuple(everything))
        return tuple(changed[place] for place in places)

    observed = list(values)
    for place, tensor in zip(
        places, BackwardHookFunction.apply(on_tensors, *(values[i] for i in places)), strict=True
    ):
        observed[place] = tensor
    return tuple(observed), True


def _as_tuple(value: Tensor | tuple[Tensor, ...]) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


class BackwardObserver:
    """Calls a module's backward hooks: the pre-hooks when its outputs' cotangents come, the others
    when its inputs' cotangents are known."""

    def __init__(self, module: Module, hooks: ModuleHooks) -> None:
        self.module = module
        # Those of the time of the call.
        self.backward_pre = list(hooks.backward_pre.values())
        self.backward = list(hooks.backward.values())
        self.grad_output: tuple[Any, ...] | None = None
        self.inputs = 0
        self.inputs_observed = False

    def watch_inputs(self, args: tuple[Tensor, ...]) -> tuple[Any, ...]:
        """The arguments to call `forward` with."""
        self.inputs = len(args)
        args, self.inputs_observed = observe(args, self._on_inputs)
        return args

    def watch_output(self, result: object) -> Any:
        """The result to hand to the caller."""
        if not isinstance(result, Tensor | tuple):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of "
                f"Tensors but received {type(result)}",
                stacklevel=4,
            )
            return result
        observed, _ = observe(_as_tuple(result), self._on_output)
        if not isinstance(result, tuple):
            return observed[0]
        return observed if type(result) is tuple else type(result)(*observed)  # a named tuple

    def _on_output(self, cotangents: tuple[Tensor | None, ...]) -> tuple[Any, ...]:
        for hook in self.backward_pre:
            changed = hook.function(self.module, cotangents)
            if changed is not None:
                cotangents = self._same_length(_as_tuple(changed), cotangents, "Backward pre hook")
        self.grad_output = cotangents
        if not self.inputs_observed and self.backward:
            warnings.warn(
                "Full backward hook is firing when gradients are computed with respect to module "
                "outputs since no inputs require gradients.",
                stacklevel=5,
            )
            self._call((None,) * self.inputs)
        return cotangents

    def _on_inputs(self, cotangents: tuple[Tensor, ...]) -> tuple[Any, ...]:
        # Without an output cotangent the result was not on the path: nothing to report.
        return cotangents if self.grad_output is None else self._call(cotangents)

    def _call(self, grad_input: tuple[Tensor | None, ...]) -> tuple[Any, ...]:
        for hook in self.backward:
            changed = hook.function(self.module, grad_input, self.grad_output)
            if changed is None:
                continue
            changed = _as_tuple(changed)
            if not self.inputs_observed and any(value is not None for value in changed):
                raise ArgumentError(
                    "Backward hook for Modules where no input requires gradient should always return None or None "
                    "for all gradients.",
                    expected="None: there is no gradient to replace",
                    got=", ".join(type(value).__name__ for value in changed),
                    fix="return None, or let an input require a gradient",
                )
            grad_input = self._same_length(changed, grad_input, "Backward hook")
        self.grad_output = None
        return grad_input

    @staticmethod
    def _same_length(
        changed: tuple[Tensor, ...], old: tuple[Tensor, ...] | tuple[Tensor | None, ...], what: str
    ) -> tuple[Any, ...]:
        if len(changed) != len(old):
            raise ArgumentError(
                f"{what} returned an invalid number of grad_input, got {len(changed)}, "
                f"but expected {len(old)}",
                expected=f"{len(old)} gradients",
                got=str(len(changed)),
                fix="return one gradient per input, or None",
            )
        return changed


def _with_common(hooks: ModuleHooks) -> ModuleHooks:
    """The hooks of all modules, then a module's own."""
    return ModuleHooks(
        COMMON.forward_pre | hooks.forward_pre,
        COMMON.forward | hooks.forward,
        COMMON.backward_pre | hooks.backward_pre,
        COMMON.backward | hooks.backward,
        COMMON.on_record | hooks.on_record,
    )


def call_with_hooks(
    module: Module, hooks: ModuleHooks, args: tuple[Tensor, ...], kwargs: dict[str, object]
) -> Any:
    """`module.forward(*args, **kwargs)` with the hooks of all modules and its own around it."""
    hooks = _with_common(hooks)
    called: set[int] = set()
    result: Any = None
    try:
        args, kwargs = _run_forward_pre(module, hooks, args, kwargs)
        observer = BackwardObserver(module, hooks) if hooks.backward or hooks.backward_pre else None
        if observer is not None:
            args = observer.watch_inputs(args)
        result = module.forward(*args, **kwargs)
        for number, hook in list(hooks.forward.items()):
            called.add(number)
            changed = _run_forward_hook(module, hook, args, kwargs, result)
            result = result if changed is None else changed
        if hooks.on_record:
            hook_record(module, hooks.on_record, args, result)
        return result if observer is None else observer.watch_output(result)
    except Exception:
        _run_always_called(module, hooks, called, args, kwargs, result)
        raise


def _run_forward_pre(
    module: Module, hooks: ModuleHooks, args: tuple[Tensor | int, ...], kwargs: dict[str, object]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    for hook in list(hooks.forward_pre.values()):
        if not hook.with_kwargs:
            changed = hook.function(module, args)
            args = args if changed is None else _as_tuple(changed)
            continue
        changed = hook.function(module, args, kwargs)
        if changed is None:
            continue
        if not (isinstance(changed, tuple) and len(changed) == 2):
            raise ArgumentError(
                "forward pre-hook must return None or a tuple of (new_args, new_kwargs), "
                f"but got {changed}.",
                expected="None or (args, kwargs)",
                got=type(changed).__name__,
                fix="return a pair: a tuple and a dictionary",
            )
        args, kwargs = changed
    return args, kwargs


def _run_forward_hook(
    module: Module,
    hook: Hook,
    args: tuple[Tensor | int, ...],
    kwargs: dict[str, object] | None,
    result: object,
) -> Any:
    if hook.with_kwargs:
        return hook.function(module, args, kwargs, result)
    return hook.function(module, args, result)


def _run_always_called(
    module: Module,
    hooks: ModuleHooks,
    called: set[int],
    args: tuple[Tensor | int, ...],
    kwargs: dict[str, object] | None,
    result: object,
) -> None:
    """After a failure: the hooks that asked to be called in any case and were not yet."""
    for number, hook in list(hooks.forward.items()):
        if not hook.always_call or number in called:
            continue
        try:
            changed = _run_forward_hook(module, hook, args, kwargs, result)
            result = result if changed is None else changed
        except Exception as error:
            whose = "global module" if number in COMMON.forward else "module"
            warnings.warn(
                f"{whose} forward hook with ``always_call=True`` raised an exception "
                f"that was silenced as another error was raised in forward: {error}",
                stacklevel=4,
            )
