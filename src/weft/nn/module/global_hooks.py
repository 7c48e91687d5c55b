"""Global hooks of modules: on every call, on every registration of a parameter, a buffer or a child.

Functions of the user are registered here; handles remove them. While there is a hook on calls, modules without hooks
of their own have an empty record of them, so that a call tests one attribute in any case. They are called before a
module's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType

from weft.engine.frontend.tensor import Tensor
from weft.nn.module.hook_registration import HookFunctions, HookMethods
from weft.nn.module.hooks import (
    COMMON,
    ON_BUFFER,
    ON_MODULE,
    ON_PARAMETER,
    Hook,
    HookTable,
    ModuleHooks,
    RemovableHandle,
    add_hook,
    marked,
    require_one_kind,
)


def _set_detour() -> None:
    """Let calls look for hooks where there are some."""
    HookMethods._hooks = ModuleHooks() if any(vars(COMMON).values()) else None


class _CallHandle(RemovableHandle):
    """Removes a hook on all calls."""

    def remove(self) -> None:
        """Take the hook away; calls are straight again after the last."""
        super().remove()
        _set_detour()


def _on_calls(table: HookTable, hook: Hook) -> RemovableHandle:
    handle = _CallHandle(table)
    table[handle.id] = hook
    _set_detour()
    return handle


class _GlobalFunctions(HookFunctions):
    """A table of hooks on all calls: these look for hooks where it holds some."""

    def __setitem__(self, number: int, function: Callable[..., object]) -> None:
        super().__setitem__(number, function)
        _set_detour()

    def __delitem__(self, number: int) -> None:
        super().__delitem__(number)
        _set_detour()


def _global_table(kind: str, *others: str) -> property:
    """The functions of the hooks of a kind on all calls; a dictionary that is assigned takes their place, and that of
    other kinds."""

    def get(module: ModuleType) -> _GlobalFunctions:
        return _GlobalFunctions(getattr(COMMON, kind))

    def put(module: ModuleType, functions: Mapping[int, Callable[..., object]]) -> None:
        kept, own = dict(functions), get(module)
        for table in (kind, *others):
            getattr(COMMON, table).clear()
        own.update(kept)
        _set_detour()

    return property(get, put)


def _global_marked(kind: str, option: str) -> property:
    """The numbers of the hooks of a kind on all calls that were registered with an option."""

    def get(module: ModuleType) -> dict[int, bool]:
        return marked(getattr(COMMON, kind), option)

    return property(get)


class HookTables(ModuleType):
    """A module of Python with the tables of hooks on all calls, by PyTorch's names: programs look whether there are
    hooks, and assign empty ones."""

    _global_forward_pre_hooks = _global_table("forward_pre")
    _global_forward_hooks = _global_table("forward")
    _global_backward_pre_hooks = _global_table("backward_pre")
    _global_backward_hooks = _global_table("backward", "on_record")
    _global_forward_hooks_with_kwargs = _global_marked("forward", "with_kwargs")
    _global_forward_hooks_always_called = _global_marked("forward", "always_call")


def register_module_forward_pre_hook(hook: Callable[..., object]) -> RemovableHandle:
    """`hook(module, args)` before each forward of any module; what it returns replaces the arguments."""
    return _on_calls(COMMON.forward_pre, Hook(hook))


def register_module_forward_hook(
    hook: Callable[..., object], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """`hook(module, args[, kwargs], output)` after each forward of any module; what it returns replaces the output."""
    return _on_calls(COMMON.forward, Hook(hook, with_kwargs, always_call))


def register_module_full_backward_pre_hook(hook: Callable[..., object]) -> RemovableHandle:
    """`hook(module, grad_output)` before the backward of any module; what it returns replaces grad_output."""
    return _on_calls(COMMON.backward_pre, Hook(hook))


def register_module_backward_hook(hook: Callable[..., object]) -> RemovableHandle:
    """`hook(module, grad_input, grad_output)` on the record of the (first) output of any module.

    Errors: RuntimeError if all modules have full backward hooks."""
    require_one_kind(COMMON.backward, "as a global Module hook")
    return _on_calls(COMMON.on_record, Hook(hook))


def register_module_full_backward_hook(hook: Callable[..., object]) -> RemovableHandle:
    """`hook(module, grad_input, grad_output)` after the backward of any module; may replace grad_input.

    Errors: RuntimeError if there are hooks of `register_module_backward_hook`."""
    require_one_kind(COMMON.on_record, "as a global Module hook")
    return _on_calls(COMMON.backward, Hook(hook))


def register_module_parameter_registration_hook(hook: Callable[..., Tensor]) -> RemovableHandle:
    """`hook(module, name, parameter)` before any parameter is registered; what it returns is registered instead."""
    return add_hook(ON_PARAMETER, hook)


def register_module_buffer_registration_hook(hook: Callable[..., Tensor]) -> RemovableHandle:
    """`hook(module, name, buffer)` before any buffer is registered; what it returns is registered instead."""
    return add_hook(ON_BUFFER, hook)


def register_module_module_registration_hook(hook: Callable[..., Tensor]) -> RemovableHandle:
    """`hook(module, name, child)` before any child is registered; what it returns is registered instead."""
    return add_hook(ON_MODULE, hook)
