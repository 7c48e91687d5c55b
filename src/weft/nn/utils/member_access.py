"""Members of modules by their paths, such as `encoder.0.weight`: read or replaced.

Packages that exchange weights import this from PyTorch's own tools.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from weft.engine.frontend.tensor import Tensor
from weft.errors import ArgumentTypeError, MemberNameError
from weft.nn.module.members import own_values
from weft.nn.module.module import Module
from weft.nn.parameter import Parameter

_MISSING: Any = object()


def _holder(module: Module, name: str) -> Any:
    """The dictionary that has a tensor of a module. Errors: AttributeError where none has it."""
    for members in (module._parameters, module._buffers):
        if name in members:
            return members
    return None


def set_tensor(module: Module, name: str, tensor: Tensor) -> None:
    """Put a tensor in the place of a parameter or buffer, or make it an attribute."""
    swap_tensor(module, name, tensor, allow_missing=True)


def swap_tensor(module: Module, name: str, tensor: Tensor, allow_missing: bool = False) -> Any:
    """Put a tensor in the place of another, which is returned; `_MISSING` as the new one removes the member again.

    Errors: TypeError for a value that is no tensor, AttributeError if there is no member and none may be missing."""
    if tensor is not _MISSING and not (isinstance(tensor, Tensor) or tensor is None):
        raise ArgumentTypeError(
            f"{tensor} is not an instance of torch.Tensor",
            expected="a tensor",
            got=type(tensor).__name__,
            fix="pass weft.tensor(value)",
        )
    members = _holder(module, name)
    if members is None:
        members = own_values(module)
        if name not in members and not allow_missing:
            raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
    old = members.get(name, _MISSING)
    if tensor is not _MISSING:
        members[name] = tensor
    else:
        members.pop(name, None)
    return old


def swap_submodule(module: Module, name: str, submodule: Module) -> Module:
    """Put a module in the place of another, which is returned. Errors: KeyError if there is none."""
    old: Module = module._modules[name]
    module._modules[name] = submodule
    return old


class NamedMemberAccessor:
    """Reaches members of a module and of those below it by their paths."""

    def __init__(self, module: Module) -> None:
        self.module = module

    def get_submodule(self, name: str) -> Module:
        """The module at a path."""
        return self.module.get_submodule(name)

    def _at(self, name: str) -> tuple[Module, str]:
        above, _, last = name.rpartition(".")
        return self.get_submodule(above), last

    def swap_submodule(self, path: str, value: Module) -> Module:
        """Put a module in the place of the one at a path, which is returned."""
        return swap_submodule(*self._at(path), value)

    def get_tensor(self, name: str) -> Any:
        """The tensor at a path. Errors: AttributeError if there is none."""
        return getattr(*self._at(name))

    def set_tensor(self, name: str, value: Tensor) -> None:
        """Put a tensor at a path."""
        set_tensor(*self._at(name), value)

    def del_tensor(self, name: str) -> None:
        """Take away the tensor at a path."""
        delattr(*self._at(name))

    def swap_tensor(self, name: str, value: Tensor, allow_missing: bool = False) -> Any:
        """Put a tensor in the place of the one at a path, which is returned."""
        return swap_tensor(*self._at(name), value, allow_missing)

    def get_tensors(self, names: Iterable[str]) -> list[Any]:
        """The tensors at paths."""
        return [self.get_tensor(name) for name in names]

    def set_tensors(self, names: Iterable[str], values: Iterable[Tensor]) -> None:
        """Put tensors at paths."""
        self.set_tensors_dict(dict(zip(names, values, strict=True)))

    def set_tensors_dict(self, named_tensors: Mapping[str, Tensor]) -> None:
        """Put tensors at the paths of a dictionary."""
        for name, tensor in named_tensors.items():
            self.set_tensor(name, tensor)

    def del_tensors(self, names: Iterable[str]) -> None:
        """Take away the tensors at paths."""
        for name in names:
            self.del_tensor(name)

    def swap_tensors_dict(
        self, named_tensors: Mapping[str, Tensor], allow_missing: bool = False
    ) -> tuple[dict[str, Any], list[str]]:
        """Put tensors in the place of those at the paths of a dictionary; these, and the paths that had none. Where one
        is refused, all are as before."""
        old: dict[str, Any] = {}
        try:
            for name, tensor in named_tensors.items():
                old[name] = self.swap_tensor(name, tensor, allow_missing=True)
            missing = [name for name, tensor in old.items() if tensor is _MISSING]
            if missing and not allow_missing:
                raise MemberNameError(
                    f"Missing key(s): {', '.join(map(repr, missing))}.",
                    expected="paths of parameters and buffers",
                    got=", ".join(missing),
                    fix="pass allow_missing=True, or names of module.state_dict()",
                )
        except Exception:
            for name, tensor in old.items():
                self.swap_tensor(name, tensor, allow_missing=True)
            raise
        return old, missing

    def check_keys(self, keys: Iterable[str]) -> tuple[list[str], list[str]]:
        """(paths of the module that are not among these, those among these that it does not have)."""
        given, own = set(keys), {name for name, _ in self.named_tensors(remove_duplicate=False)}
        return sorted(own - given), sorted(given - own)

    def named_parameters(self, remove_duplicate: bool = True) -> Iterable[tuple[str, Parameter]]:
        """The parameters and their paths."""
        return self.module.named_parameters(remove_duplicate=remove_duplicate)

    def named_buffers(self, remove_duplicate: bool = True) -> Iterable[tuple[str, Tensor]]:
        """The buffers and their paths."""
        return self.module.named_buffers(remove_duplicate=remove_duplicate)

    def named_tensors(self, remove_duplicate: bool = True) -> Iterable[tuple[str, Tensor]]:
        """The parameters and buffers and their paths."""
        yield from self.named_parameters(remove_duplicate)
        yield from self.named_buffers(remove_duplicate)

    def named_modules(self, remove_duplicate: bool = True) -> Iterable[tuple[str, Module]]:
        """The modules and their paths."""
        return self.module.named_modules(remove_duplicate=remove_duplicate)
