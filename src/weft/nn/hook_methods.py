"""The methods of a module by which hooks are registered, on its calls and on its state.

In: functions of the user. Out: handles that remove them. What runs them stands in `hooks` and `state`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.nn.hooks import Hook, ModuleHooks, RemovableHandle, add_hook
from weft.nn.state import NO_STATE_HOOKS, StateHooks


class HookMethods:
    """What `Module` inherits. Nothing is kept for a module without hooks."""

    _hooks: ModuleHooks | None = None  # `common_hooks` gives all modules an empty record
    _state_hooks = NO_STATE_HOOKS

    def _own_hooks(self) -> ModuleHooks:
        hooks: ModuleHooks = self.__dict__.setdefault("_hooks", ModuleHooks())
        return hooks

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """`hook(module, args[, kwargs])` before each forward; what it returns replaces the
        arguments.
        """
        return add_hook(self._own_hooks().forward_pre, Hook(hook, with_kwargs), prepend)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """`hook(module, args[, kwargs], output)` after each forward; what it returns replaces the
        output.
        """
        return add_hook(self._own_hooks().forward, Hook(hook, with_kwargs, always_call), prepend)

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(module, grad_output)` before the module's backward; what it returns replaces
        grad_output.
        """
        return add_hook(self._own_hooks().backward_pre, Hook(hook), prepend)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(module, grad_input, grad_output)` after the module's backward; may replace
        grad_input.
        """
        return add_hook(self._own_hooks().backward, Hook(hook), prepend)

    def _own_state_hooks(self) -> StateHooks:
        if self._state_hooks is NO_STATE_HOOKS:
            self.__dict__["_state_hooks"] = StateHooks()
        hooks: StateHooks = self.__dict__["_state_hooks"]
        return hooks

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, prefix, keep_vars)` before the state is collected."""
        return add_hook(self._own_state_hooks().save_pre, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, state_dict, prefix, local_metadata)` after the state is collected."""
        return add_hook(self._own_state_hooks().save_post, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, state_dict, prefix, local_metadata, strict, missing, unexpected, errors)`
        before loading.
        """
        return add_hook(self._own_state_hooks().load_pre, hook)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        """The same by its older name: the hook is called with the module where that is asked for."""
        called = hook if with_module else lambda module, *rest: hook(*rest)
        return self.register_load_state_dict_pre_hook(called)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, incompatible_keys)` after loading."""
        return add_hook(self._own_state_hooks().load_post, hook)
