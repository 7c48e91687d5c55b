"""The methods of a module that register hooks, on its calls and on its state.

Handles remove the hooks; `hooks` and `state_dict` run them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from typing import Any

from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentError
from weft.nn.module.hooks import (
    Hook,
    HookTable,
    ModuleHooks,
    RemovableHandle,
    add_hook,
    marked,
    require_one_kind,
)
from weft.nn.module.members import Holder, own_values
from weft.nn.module.state_dict import NO_STATE_HOOKS, StateHooks


class HookFunctions(MutableMapping[int, Any]):
    """A table of hooks as a dictionary of their functions, by number: live."""

    def __init__(self, table: HookTable) -> None:
        self._table = table

    def __getitem__(self, number: int) -> Any:
        return self._table[number].function

    def __setitem__(self, number: int, function: Callable[..., object]) -> None:
        self._table[number] = Hook(function)

    def __delitem__(self, number: int) -> None:
        del self._table[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)

    def __repr__(self) -> str:
        return repr(dict(self))


def _table(kind: str) -> property:
    """The functions of the hooks of a kind, by number; a dictionary that is assigned takes their place."""

    def get(module: HookMethods) -> HookFunctions:
        return HookFunctions(getattr(module._own_hooks(), kind))

    def put(module: HookMethods, functions: Mapping[int, object]) -> None:
        kept = dict(functions)
        own = get(module)
        own.clear()
        own.update(kept)

    return property(get, put)


def _state_table(kind: str) -> property:
    """The hooks on a module's state of a kind, by number; deleting them leaves none, as a module that an older
    version has saved had none."""

    def get(module: HookMethods) -> Any:
        return getattr(module._own_state_hooks(), kind)

    return property(get, fdel=lambda module: get(module).clear())


def _marked(kind: str, option: str) -> property:
    """The numbers of the hooks of a kind that were registered with an option."""

    def get(module: HookMethods) -> dict[int, bool]:
        return marked(getattr(module._own_hooks(), kind), option)

    return property(get)


class InPlace:
    """A hook on a state that has been collected, which must not return another."""

    def __init__(self, hook: Callable[..., object]) -> None:
        self.hook = hook

    def __call__(self, *arguments: object) -> None:
        """Errors: RuntimeError where the hook returns something."""
        if self.hook(*arguments) is not None:
            raise ArgumentError(
                "state_dict post-hook must return None",
                expected="a hook that changes the state in place",
                got="a value from it",
                fix="return nothing, or use _register_state_dict_hook",
            )


class WithoutModule:
    """A hook that is called without the module."""

    def __init__(self, hook: Callable[..., object]) -> None:
        self.hook = hook

    def __call__(self, module: object, *rest: object) -> Any:
        """The result of the hook."""
        return self.hook(*rest)


class HookMethods(Holder):
    """The part of `Module` that registers hooks. A module without hooks keeps nothing for them."""

    _hooks: ModuleHooks | None = None  # `common_hooks` gives all modules an empty record
    _state_hooks = NO_STATE_HOOKS

    def _own_hooks(self) -> ModuleHooks:
        hooks: ModuleHooks = own_values(self).setdefault("_hooks", ModuleHooks())
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
        self, hook: Callable[..., Tensor], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(module, grad_output)` before the module's backward; what it returns replaces
        grad_output.
        """
        return add_hook(self._own_hooks().backward_pre, Hook(hook), prepend)

    def register_backward_hook(self, hook: Callable[..., Tensor]) -> RemovableHandle:
        """`hook(module, grad_input, grad_output)` on the record of the module's (first) output: grad_input is of its
        last operation. Errors: RuntimeError if the module has full backward hooks."""
        hooks = self._own_hooks()
        require_one_kind(hooks.backward, "on a single Module")
        return add_hook(hooks.on_record, Hook(hook))

    def register_full_backward_hook(
        self, hook: Callable[..., Tensor], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(module, grad_input, grad_output)` after the module's backward; may replace grad_input. Errors:
        RuntimeError if there are hooks of `register_backward_hook`."""
        hooks = self._own_hooks()
        require_one_kind(hooks.on_record, "on a single Module")
        return add_hook(hooks.backward, Hook(hook), prepend)

    @property
    def _is_full_backward_hook(self) -> bool | None:
        """True with full backward hooks, False with those of `register_backward_hook`, None without any."""
        hooks = self._own_hooks()
        return True if hooks.backward else False if hooks.on_record else None

    # Tables by PyTorch's names: programs look whether there are hooks, and clear them.
    _forward_pre_hooks = _table("forward_pre")
    _forward_hooks = _table("forward")
    _backward_pre_hooks = _table("backward_pre")
    _backward_hooks = _table("backward")
    _forward_pre_hooks_with_kwargs = _marked("forward_pre", "with_kwargs")
    _forward_hooks_with_kwargs = _marked("forward", "with_kwargs")
    _forward_hooks_always_called = _marked("forward", "always_call")

    _state_dict_hooks = _state_table("save_post")
    _state_dict_pre_hooks = _state_table("save_pre")
    _load_state_dict_pre_hooks = _state_table("load_pre")
    _load_state_dict_post_hooks = _state_table("load_post")

    def _own_state_hooks(self) -> StateHooks:
        if self._state_hooks is NO_STATE_HOOKS:
            own_values(self)["_state_hooks"] = StateHooks()
        hooks: StateHooks = own_values(self)["_state_hooks"]
        return hooks

    def register_state_dict_pre_hook(self, hook: Callable[..., Tensor]) -> RemovableHandle:
        """`hook(module, prefix, keep_vars)` before the state is collected."""
        return add_hook(self._own_state_hooks().save_pre, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Tensor]) -> RemovableHandle:
        """`hook(module, state_dict, prefix, local_metadata)` after the state is collected; it changes the state in
        place, and is marked as such. Errors: RuntimeError where it returns something.
        """
        with suppress(AttributeError):  # methods take no attribute
            hook._from_public_api = True  # type: ignore[attr-defined] # PyTorch's name
        return add_hook(self._own_state_hooks().save_post, InPlace(hook))

    def _register_state_dict_hook(self, hook: Callable[..., Tensor]) -> RemovableHandle:
        """The same; what the hook returns takes the place of the state. Errors: RuntimeError on a function that is
        registered with `register_state_dict_post_hook` already.
        """
        hooks = self._own_state_hooks().save_post
        if getattr(hook, "_from_public_api", False):
            raise ArgumentError(
                "Cannot register the same function as the state dict post hook that was previously registered via "
                "register_state_dict_post_hook",
                expected="another function",
                got=getattr(hook, "__name__", repr(hook)),
                fix="register it in one of the two ways",
            )
        return add_hook(hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., object]) -> RemovableHandle:
        """`hook(module, state_dict, prefix, local_metadata, strict, missing, unexpected, errors)`
        before loading.
        """
        return add_hook(self._own_state_hooks().load_pre, hook)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., object], with_module: bool = False
    ) -> RemovableHandle:
        """The same by its older name: the hook is called with the module where that is asked for."""
        return self.register_load_state_dict_pre_hook(hook if with_module else WithoutModule(hook))

    def register_load_state_dict_post_hook(self, hook: Callable[..., Tensor]) -> RemovableHandle:
        """`hook(module, incompatible_keys)` after loading."""
        return add_hook(self._own_state_hooks().load_post, hook)
