"""Module: a tree of named parameters, buffers and child modules with a `forward`.

Attributes assigned by a subclass become members by name and kind, in the order of their registration, moved, cast,
hooked, printed, saved and loaded as PyTorch does. Subclasses define the mathematics, `state_dict` the dictionaries of
state, `hook_registration` and `hooks` the hooks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

import weft
from weft import Tensor
from weft._build.lazy import later
from weft._typing import DeviceLike
from weft.engine.capi.type_slots import add_to_type
from weft.engine.ir.dtype import DType
from weft.errors import (
    ArgumentError,
    NotDefinedError,
)
from weft.nn.module import checks, to_device
from weft.nn.module import state_dict as states
from weft.nn.module.call import Call
from weft.nn.module.hook_registration import HookMethods
from weft.nn.module.hooks import ON_BUFFER, ON_MODULE, ON_PARAMETER, as_hooked, call_with_hooks
from weft.nn.module.members import (
    BUFFER,
    BUFFERS,
    HIDDEN_BUFFER,
    MODULE,
    PARAMETER,
    Attributes,
    Members,
    ask_for_members,
    hidden_buffers,
    hide_buffers,
    own_values,
    take_attributes,
)
from weft.nn.parameter import Buffer, Parameter

_html = later("weft.nn.module.html")

if TYPE_CHECKING:
    from weft.nn.module.state_dict import StateDict


class Module(HookMethods, states.ExtraState):
    """The base of all networks and layers: it knows their parameters, buffers and submodules.

    Subclasses call `super().__init__()`, assign parameters and modules to `self`, and define
    `forward`.
    """

    _version = 1
    dump_patches = False  # as PyTorch's, which files with sources looked at
    _kinds: dict[str, str]
    training: bool

    call_super_init = False  # whether the classes behind Module get its arguments

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if "__dict__" in vars(cls):  # Python gives one to classes whose first base has none
            add_to_type(cls, {"__dict__": vars(Module)["__dict__"]})
        if (cls.__getattr__, cls.__setattr__) != (Module.__getattr__, Module.__setattr__):
            ask_for_members(cls)

    def __init__(self, *args: Any, **kwargs: object) -> None:
        if (args or kwargs) and not self.call_super_init:
            raise checks.no_arguments(self, args, kwargs)
        values = own_values(self)
        values["training"] = True
        values["_kinds"] = {}
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The computation of the module; every subclass defines it.

        Args:
            *args: what the module was called with.
            **kwargs: the same by name.
        """
        raise NotDefinedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function',
            expected="a method forward(self, ...)",
            got=type(self).__name__,
            fix="define forward in the class",
        )

    def _call_hooked(self, *args: Any, **kwargs: object) -> Any:
        hooks = self._hooks
        return (
            self.forward(*args, **kwargs)
            if hooks is None
            else call_with_hooks(self, hooks, args, kwargs)
        )

    def _slow_forward(self, *args: object, **kwargs: object) -> Any:
        """`forward` without hooks, under PyTorch's name."""
        return self.forward(*args, **kwargs)

    if TYPE_CHECKING:

        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    else:
        __call__ = _call_impl = _wrapped_call_impl = Call(_call_hooked)
        __dict__ = property(Attributes, take_attributes)

    # -- attributes -----------------------------------------------------------------------------

    @property
    def _parameters(self) -> Members:
        return Members(own_values(self), PARAMETER)

    @_parameters.setter
    def _parameters(self, members: Mapping[str, object]) -> None:
        self._parameters.exchange(members)

    @property
    def _buffers(self) -> Members:
        return Members(own_values(self), *BUFFERS)

    @_buffers.setter
    def _buffers(self, members: Mapping[str, object]) -> None:
        self._buffers.exchange(members)

    @property
    def _modules(self) -> Members:
        return Members(own_values(self), MODULE)

    @_modules.setter
    def _modules(self, members: Mapping[str, object]) -> None:
        self._modules.exchange(members)

    @property
    def _non_persistent_buffers_set(self) -> set[str]:
        return hidden_buffers(own_values(self))

    @_non_persistent_buffers_set.setter
    def _non_persistent_buffers_set(self, names: set[str]) -> None:
        hide_buffers(own_values(self), names)

    def __getattr__(self, name: str) -> Any:
        members = own_values(self)
        if name in members.get("_kinds", ()):
            return members.get(
                name
            )  # asked for by this method's own name: Python finds it by itself
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Tensor | Module) -> None:
        kinds = own_values(self).get("_kinds")
        if isinstance(value, Parameter):
            self._require_init(kinds, "parameters")
            self._forget(name, PARAMETER)
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            self._require_init(kinds, "module")
            self._forget(name, MODULE)
            self._modules[name] = as_hooked(ON_MODULE, self, name, value)
        elif isinstance(value, Buffer):
            self._require_init(kinds, "buffer")
            if value.persistent:  # a class may define the method without the argument
                self.register_buffer(name, value)
            else:
                self.register_buffer(name, value, False)
        elif kinds is not None and name in kinds:
            self._reassign(name, value, kinds[name])
        else:
            object.__setattr__(self, name, value)

    def _require_init(self, kinds: dict[str, str] | None, what: str) -> None:
        if kinds is None:
            raise checks.before_init(what)

    def _forget(self, name: str, *kept: str) -> None:
        """Make room for a member of another kind."""
        if self._kinds.get(name) not in kept:
            self._kinds.pop(name, None)
            own_values(self).pop(name, None)

    def _reassign(self, name: str, value: Tensor | int | None, kind: str) -> None:
        """Give a registered name a value that is not itself a Parameter, Module or Buffer."""
        fits = value is None or (kind in BUFFERS and isinstance(value, Tensor))
        if not fits:
            raise checks.wrong_kind(name, value, kind)
        if kind != PARAMETER:
            hooks = ON_MODULE if kind == MODULE else ON_BUFFER
            value = as_hooked(hooks, self, name, value)
        own_values(self)[name] = value

    def __delattr__(self, name: str) -> None:
        own_values(self).get("_kinds", {}).pop(name, None)
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        keys = {*object.__dir__(self), *own_values(self)}
        return sorted(key for key in keys if not key[0].isdigit())

    # -- registration ---------------------------------------------------------------------------

    def _check_name(self, what: str, name: str, *kinds: str) -> None:
        checks.check_name(what, name)
        if self._kinds.get(name) not in kinds and hasattr(self, name):
            raise checks.taken(name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter, or None for one that this configuration does not have."""
        self._require_init(own_values(self).get("_kinds"), "parameter")
        self._check_name("parameter", name, PARAMETER)
        if param is not None:
            checks.check_parameter(name, param)
            param = as_hooked(ON_PARAMETER, self, name, param)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but not trained; the state_dict has persistent ones."""
        self._require_init(own_values(self).get("_kinds"), "buffer")
        self._check_name("buffer", name, *BUFFERS)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise checks.wrong_buffer(name, tensor)
        tensor = as_hooked(ON_BUFFER, self, name, tensor)
        self._kinds[name] = BUFFER if persistent else HIDDEN_BUFFER
        own_values(self)[name] = tensor

    def register_module(self, name: str, module: Module | None) -> None:
        """Alias for `add_module`."""
        self.add_module(name, module)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child module under a name."""
        if not isinstance(module, Module) and module is not None:
            raise checks.no_module(module)
        self._check_name("module", name, MODULE)
        self._modules[name] = as_hooked(ON_MODULE, self, name, module)

    # -- looking up -----------------------------------------------------------------------------

    def get_submodule(self, target: str) -> Module:
        """The module at a dotted path; "" is this one."""
        module: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise checks.missing(module, name, "a submodule", "named_modules()")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise checks.no_module_at(name, module)
        found: Module = module
        return found

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Replace the module at a dotted path; with `strict` it must be there."""
        if target == "":
            raise ArgumentError(
                "Cannot set the submodule without a target name!",
                expected="a path such as 'encoder.0'",
                got="an empty string",
                fix="name the submodule",
            )
        if not isinstance(module, Module):
            raise checks.no_replacement(module)
        parent, _, name = target.rpartition(".")
        owner = self.get_submodule(parent)
        if strict and not hasattr(owner, name):
            raise checks.missing(owner, name)
        if not isinstance(getattr(owner, name, module), Module):
            raise checks.no_module_at(name, getattr(owner, name, module))
        setattr(owner, name, module)

    def _get_member(self, target: str, kind: str, article: str) -> Any:
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if not hasattr(owner, name):
            raise checks.missing(owner, name)
        if kind not in owner._kinds.get(name, ""):
            raise checks.wrong_member(owner, name, article)
        return getattr(owner, name)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted path."""
        found: Parameter = self._get_member(target, PARAMETER, "an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted path."""
        found: Tensor = self._get_member(target, BUFFER, "a buffer")
        return found

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all below it with their paths, parents first; each once."""
        memo = set() if memo is None else memo
        pending: list[tuple[str, Module]] = [(prefix, self)]
        while pending:
            path, module = pending.pop()
            if module in memo:
                continue
            if remove_duplicate:
                memo.add(module)
            yield path, module
            dotted = path + "." if path else ""
            below = [
                (dotted + name, child)
                for name, child in module._modules.items()
                if child is not None
            ]
            pending.extend(reversed(below))

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below it, each once."""
        return (module for _, module in self.named_modules(remove_duplicate=remove_duplicate))

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly below with their names, each once."""
        seen: set[Module] = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """The modules directly below, each once."""
        return (module for _, module in self.named_children())

    def _named_members(
        self, kinds: tuple[str, ...], prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        modules = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else iter([(prefix, self)])
        )
        for path, module in modules:
            dotted, values = path + "." if path else "", own_values(module)
            for name, kind in list(module._kinds.items()):
                member = values[name] if kind in kinds else None
                if member is None or id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield dotted + name, member

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """The parameters with their paths; a shared one once."""
        return self._named_members((PARAMETER,), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters; a shared one once."""
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """The buffers with their paths; a shared one once."""
        return self._named_members(BUFFERS, prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers; a shared one once."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    # -- modes, types, places -------------------------------------------------------------------

    def train(self, mode: bool = True) -> Self:
        """Set training mode here and below (dropout and batch norm look at it)."""
        if not isinstance(mode, bool):
            raise ArgumentError(
                "training mode is expected to be boolean",
                expected="True or False",
                got=repr(mode),
                fix="call train() or eval()",
            )
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Set evaluation mode here and below."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Freeze or unfreeze all parameters."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients, or set them to zero."""
        for parameter in self.parameters():
            to_device.clear_gradient(parameter, set_to_none)

    def apply(self, fn: Callable[[Module], object]) -> Self:
        """Call `fn` on every module below, then on this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace the value of every parameter, gradient and buffer by `fn` of it; parameters keep
        their identity.
        """
        if recurse:
            for module in self.children():
                module._apply(fn)
        to_device.replace_own(self, fn)
        return self

    def to(self, *args: object, **kwargs: object) -> Self:
        """Move and cast: `to(device)`, `to(dtype)`, `to(device, dtype)`, `to(tensor)`; integers
        keep their type.
        """
        return self._apply(to_device.conversion(*args, **kwargs))

    def to_empty(self, *, device: DeviceLike | None, recurse: bool = True) -> Self:
        """Move without the values: every parameter and buffer is new memory, which holds anything."""
        return self._apply(lambda tensor: weft.empty_like(tensor, device=device), recurse)

    def compile(self, *args: object, **options: object) -> None:
        """Nothing is left to do: every graph is compiled anyway, so arguments are accepted without effect."""

    def share_memory(self) -> Self:
        """Move parameters, gradients and buffers to memory that processes share: see `Tensor.share_memory_`."""
        for tensor in (*self.parameters(), *self.buffers()):
            tensor.share_memory_()
            if tensor.grad is not None:
                tensor.grad.share_memory_()
        return self

    def type(self, dst_type: DType | str) -> Self:
        """Cast every parameter and buffer."""
        return self._apply(lambda tensor: tensor.to(dst_type))

    def float(self) -> Self:
        """Cast floating-point parameters and buffers to float32."""
        return self.to(weft.float32)

    def double(self) -> Self:
        """Cast floating-point parameters and buffers to float64."""
        return self.to(weft.float64)

    def half(self) -> Self:
        """Cast floating-point parameters and buffers to float16."""
        return self.to(weft.float16)

    def bfloat16(self) -> Self:
        """Cast floating-point parameters and buffers to bfloat16."""
        return self.to(weft.bfloat16)

    def cpu(self) -> Self:
        """Move to the CPU."""
        return self.to("cpu")

    def cuda(self, device: int | None = None) -> Self:
        """Move to a GPU."""
        return self.to("cuda" if device is None else f"cuda:{device}")

    def xpu(self, device: int | None = None) -> Self:
        """Move to a GPU of Intel's."""
        return self.to("xpu" if device is None else f"xpu:{device}")

    # -- state ----------------------------------------------------------------------------------

    def _save_to_state_dict(self, destination: StateDict, prefix: str, keep_vars: bool) -> None:
        states.save_own(self, destination, prefix, keep_vars)

    def _load_from_state_dict(
        self, state_dict: Mapping[str, Any], prefix: str, local_metadata: Any, strict: bool,
        missing_keys: Any, unexpected_keys: Any, error_msgs: Any,
    ) -> None:  # fmt: skip
        lists = missing_keys, unexpected_keys, error_msgs
        states.load_own(self, state_dict, prefix, local_metadata, strict, *lists)

    def state_dict(
        self,
        *args: object,
        destination: StateDict | None = None,
        prefix: str = "",
        keep_vars: bool = False,
    ) -> Any:
        """All parameters and persistent buffers by path, detached but sharing memory with the
        module.
        """
        if args:
            destination, prefix, keep_vars = states.by_position(
                args, (destination, prefix, keep_vars)
            )
        return states.collect(self, destination, prefix, keep_vars)

    def load_state_dict(
        self, state_dict: Mapping[str, object], strict: bool = True, assign: bool = False
    ) -> states.IncompatibleKeys:
        """Copy values in by path, or with `assign` put the given tensors in place.

        Errors: RuntimeError that lists every missing and unexpected key (with `strict`) and every
        wrong shape.
        """
        return states.load(self, state_dict, strict, assign)

    # -- printing -------------------------------------------------------------------------------

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """The text in the parentheses of a layer's printed form."""
        return ""

    def _repr_html_(self) -> str:
        """The module as a tree, for notebooks."""
        html: str = _html.module_html(self)
        return html

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [
            f"({name}): " + repr(module).replace("\n", "\n  ")
            for name, module in self._modules.items()
        ]
        if len(lines) <= 1 and not children:
            return f"{self._get_name()}({extra})"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines + children) + "\n)"
