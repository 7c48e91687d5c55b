"""Global hooks of modules: on every call, on every registration of a parameter, a buffer or a child.

Functions of the user are registered here; handles remove them. While there is a hook on calls, modules without hooks
of their own have an empty record of them, so that a call tests one attribute in any case. They are called before a
module's own.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.engine.frontend.tensor import Tensor
from weft.nn.module.hook_registration import HookMethods
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
