"""The state dict: the state of a module tree as a flat dictionary, and back.

Saving takes a module and the path before its names, and returns an ordered dictionary of tensors; loading gives a
module new values and returns a list of what did not fit. `weft.io.saving` handles files.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import weft
from weft import Tensor
from weft._build.lazy import later
from weft.errors import (
    ArgumentError,
    ArgumentTypeError,
    AssertedError,
    CheckpointError,
    NotDefinedError,
)
from weft.nn.module.to_device import Conversion
from weft.nn.parameter import Parameter, is_lazy

swapping = later("weft.tensor.swapping")

if TYPE_CHECKING:
    from weft.nn.module.module import Module

EXTRA_STATE = "_extra_state"


@dataclass
class StateHooks:
    """Hooks around saving and loading state; most modules have none."""

    save_pre: dict[int, Any] = field(default_factory=dict)
    save_post: dict[int, Any] = field(default_factory=dict)
    load_pre: dict[int, Any] = field(default_factory=dict)
    load_post: dict[int, Any] = field(default_factory=dict)


NO_STATE_HOOKS = StateHooks()


class ExtraState:
    """The state of a module beyond tensors: there is some where a subclass defines both methods."""

    def get_extra_state(self) -> Any:
        """State beyond tensors, for subclasses that have some."""
        raise self._undefined("get_extra_state")

    def set_extra_state(self, state: Mapping[str, object]) -> None:
        """Take back what `get_extra_state` gave."""
        raise self._undefined("set_extra_state")

    def _undefined(self, method: str) -> NotDefinedError:
        return NotDefinedError(
            f"Reached a code path in Module.{method}() that should never be called.",
            expected=f"a subclass that defines {method}",
            got=type(self).__name__,
            fix="define get_extra_state and set_extra_state, or neither",
        )


class IncompatibleKeys(NamedTuple):
    """The keys that `load_state_dict` found missing, and those that it did not expect."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return (
            f"_IncompatibleKeys(missing_keys={self.missing_keys}, "
            f"unexpected_keys={self.unexpected_keys})"
        )


class StateDict(OrderedDict[str, Any]):
    """An ordered dictionary that also carries each module's version in `_metadata`."""

    _metadata: OrderedDict[str, dict[str, Any]]

    def __reduce__(self) -> tuple[Any, ...]:
        """As PyTorch's: files name no class of this framework, and any reader takes them."""
        return OrderedDict, (), vars(self) or None, None, iter(self.items())


def persistent_members(module: Module) -> Iterator[tuple[str, Tensor | None]]:
    """The parameters, then the buffers that are saved, None for those registered as None."""
    yield from module._parameters.items()
    hidden = module._non_persistent_buffers_set
    yield from ((name, buffer) for name, buffer in module._buffers.items() if name not in hidden)


def has_extra_state(module: Module) -> bool:
    """True if the class has state of its own beyond tensors."""
    return type(module).get_extra_state is not ExtraState.get_extra_state


def collect(module: Module, destination: StateDict | None, prefix: str, keep_vars: bool) -> Any:
    """Add the state of a module and all its children to `destination`."""
    if destination is None:
        destination = StateDict()
        destination._metadata = OrderedDict()
    metadata = {"version": module._version}
    if hasattr(destination, "_metadata"):
        destination._metadata[prefix[:-1]] = metadata
    for before in list(module._state_hooks.save_pre.values()):
        before(module, prefix, keep_vars)
    module._save_to_state_dict(destination, prefix, keep_vars)
    for name, child in module._modules.items():
        if child is not None:
            child.state_dict(
                destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
            )
    for after in list(module._state_hooks.save_post.values()):
        changed = after(module, destination, prefix, metadata)
        destination = destination if changed is None else changed
    return destination


def by_position(given: tuple[object, ...], named: tuple[StateDict | None, str, bool]) -> Any:
    """The destination, prefix and keep_vars of `state_dict`, of which the first ones are given by position."""
    warnings.warn(
        "Positional args are being deprecated, use kwargs instead. Refer to "
        "https://pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module.state_dict "
        "for details.",
        FutureWarning,
        stacklevel=3,
    )
    return (*given, *named[len(given) :])[:3]


def save_own(module: Module, destination: StateDict, prefix: str, keep_vars: bool) -> None:
    """Add the state of a module without its children."""
    for name, tensor in persistent_members(module):
        if tensor is not None:
            as_it_is = keep_vars or is_lazy(tensor)
            destination[prefix + name] = tensor if as_it_is else tensor.detach()
    if has_extra_state(module):
        destination[prefix + EXTRA_STATE] = module.get_extra_state()


def load(
    module: Module, state: Mapping[str, object], strict: bool, assign: bool
) -> IncompatibleKeys:
    """Give a module tree the values in `state`; RuntimeError lists everything that does not fit."""
    if not isinstance(state, Mapping):
        raise ArgumentTypeError(
            f"Expected state_dict to be dict-like, got {type(state)}.",
            expected="a mapping from names to tensors",
            got=type(state).__name__,
            fix="pass what state_dict() or weft.load() gave",
        )
    loader = Loader(getattr(state, "_metadata", None), strict, assign)
    loader.load(module, OrderedDict(state), "")
    errors = loader.errors
    if strict:
        errors[:0] = [
            f"{what} key(s) in state_dict: " + ", ".join(f'"{key}"' for key in keys) + ". "
            for what, keys in (("Missing", loader.missing), ("Unexpected", loader.unexpected))
            if keys
        ]
    if errors:
        listed = "\n\t".join(errors)
        raise CheckpointError(
            f"Error(s) in loading state_dict for {type(module).__name__}:\n\t{listed}",
            expected="the names and shapes of this model",
            got=f"{len(errors)} that do not fit, listed above",
            fix="build the model as it was saved, or pass strict=False for names",
        )
    return IncompatibleKeys(loader.missing, loader.unexpected)


class Loader:
    """One walk over a module tree, collecting what is missing, unexpected or wrong."""

    def __init__(self, metadata: Any, strict: bool, assign: bool) -> None:
        self.metadata, self.strict, self.assign = metadata, strict, assign
        self.missing: list[str] = []
        self.unexpected: list[str] = []
        self.errors: list[str] = []

    def load(self, module: Module, state: Mapping[str, Any], prefix: str) -> None:
        """Load a module, then its children, each from the part of `state` that is below its name."""
        local = {} if self.metadata is None else dict(self.metadata.get(prefix[:-1], {}))
        local["assign_to_params_buffers"] = self.assign
        module._load_from_state_dict(
            state, prefix, local, True, self.missing, self.unexpected, self.errors
        )
        parts = _parts(state, prefix) if module._modules else {}
        for name, child in module._modules.items():
            if child is not None:
                self.load(child, parts.get(name, {}), f"{prefix}{name}.")
        found = IncompatibleKeys(self.missing, self.unexpected)
        for hook in list(module._state_hooks.load_post.values()):
            if hook(module, found) is not None:
                raise AssertedError(
                    "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new "
                    "values, if incompatible_keys need to be modified, it should be done inplace.",
                    expected="nothing from the hook",
                    got="a value",
                    fix="change incompatible_keys.missing_keys and .unexpected_keys in place",
                )


def _parts(state: Mapping[str, object], prefix: str) -> dict[str, dict[str, Any]]:
    """By the name of a child below `prefix`: the part of `state` that is below it."""
    parts: dict[str, dict[str, Any]] = {}
    for key, value in state.items():
        if key.startswith(prefix):
            name, dot, _ = key.removeprefix(prefix).partition(".")
            if dot:
                parts.setdefault(name, {})[key] = value
    return parts


def load_own(
    module: Module,
    state: Mapping[str, Any],
    prefix: str,
    local_metadata: dict[str, Any],
    strict: bool,
    missing: list[str],
    unexpected: list[str],
    errors: list[str],
) -> None:
    """Give a module, without its children, its values from `state`."""
    for hook in list(module._state_hooks.load_pre.values()):
        hook(module, state, prefix, local_metadata, strict, missing, unexpected, errors)
    assign = local_metadata.get("assign_to_params_buffers", False)
    for name, tensor in persistent_members(module):
        key = prefix + name
        if tensor is None:
            continue
        if key in state:
            problem = load_tensor(module, name, key, tensor, state[key], assign)
            if problem:
                errors.append(problem)
        elif strict:
            missing.append(key)
    load_extra_state(module, state, prefix, strict, missing, unexpected)
    if strict:
        unexpected.extend(unknown_keys(module, state, prefix))


def load_tensor(
    module: Module, name: str, key: str, tensor: Tensor, new: Tensor, assign: bool
) -> str | None:
    """Copy (or, with `assign`, put) one value into a module; what is wrong with it, or None."""
    if not isinstance(new, Tensor):
        return (
            f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like '
            f"object from checkpoint but received {type(new)}"
        )
    if is_lazy(tensor) and is_lazy(new):
        return None
    if tensor.dim() == 0 and tuple(new.shape) == (1,):
        new = new[0]  # files written by very old versions hold scalars as vectors of one
    if tuple(new.shape) != tuple(tensor.shape):
        return (
            f"size mismatch for {key}: copying a param with shape {new.shape} from checkpoint, "
            f"the shape in current model is {tensor.shape}."
        )
    if tensor.is_meta and not new.is_meta and not assign:
        warn_no_op(key)
    with weft.no_grad():
        if Conversion.swaps:
            swap_loaded(tensor, new, assign)
        elif assign:
            put(module, name, tensor, new)
        else:
            tensor.copy_(new)
    return None


def swap_loaded(tensor: Tensor, new: Tensor, assign: bool) -> None:
    """Exchange a parameter or buffer with what its `module_load` makes of the loaded one. Errors: RuntimeError where
    that is one of the two themselves."""
    made = tensor.module_load(new, assign=assign)
    if made is new or made is tensor:
        raise ArgumentError(
            "module_load returned one of self or other, please .detach() the result if returning one of the inputs in "
            "module_load",
            expected="a new tensor",
            got="self" if made is tensor else "other",
            fix="detach the result",
        )
    if isinstance(tensor, Parameter) and not isinstance(made, Parameter):
        made = Parameter(made, requires_grad=tensor.requires_grad)
    swapping.swap_tensors(tensor, made)


def warn_no_op(key: str) -> None:
    """Warn that loading values into a parameter on the device meta does nothing."""
    warnings.warn(
        f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current model, "
        "which is a no-op. (Did you mean to pass `assign=True` to assign items in the state dictionary to their "
        "corresponding key in the module instead of copying them in place?)",
        UserWarning,
        stacklevel=2,
    )


def put(module: Module, name: str, old: Tensor, new: Tensor) -> None:
    """Replace a parameter or buffer by the loaded tensor itself."""
    if isinstance(old, Parameter):
        if not isinstance(new, Parameter):
            new = Parameter(new, requires_grad=old.requires_grad)
        else:
            new.requires_grad_(old.requires_grad)
    setattr(module, name, new)


def load_extra_state(
    module: Module,
    state: Mapping[str, Any],
    prefix: str,
    strict: bool,
    missing: list[str],
    unexpected: list[str],
) -> None:
    """Hand a module its extra state where it has such a thing."""
    key = prefix + EXTRA_STATE
    if type(module).set_extra_state is not ExtraState.set_extra_state:
        if key in state:
            module.set_extra_state(state[key])
        elif strict:
            missing.append(key)
    elif strict and key in state:
        unexpected.append(key)


def unknown_keys(module: Module, state: Mapping[str, object], prefix: str) -> list[str]:
    """Keys below `prefix` that name no member of this module; those of its children are theirs to
    judge.
    """
    own = {name for name, _ in persistent_members(module)}
    found = []
    for key in state:
        if not key.startswith(prefix) or key == prefix + EXTRA_STATE:
            continue
        first, *rest = key[len(prefix) :].split(".", 1)
        known = first in module._modules if rest else first in own
        if not known:
            found.append(key)
    return found
