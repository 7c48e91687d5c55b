"""Back ends of einops, opt_einsum and autoray for Weft's tensors; `module._parameters` as a tree of optree.

They choose what to call by the type of the tensors, from tables of the frameworks that they know. They learn of one
more when they are imported (`weft.compat.einops_backend`): nobody has to ask for it.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import weft
from weft import Tensor
from weft.nn.module.members import Members


class _Einops:
    """The back end of einops."""

    framework_name = "weft"

    def is_appropriate_type(self, tensor: Tensor) -> bool:
        """True if a tensor is Weft's."""
        return isinstance(tensor, Tensor)

    def from_numpy(self, x: Tensor) -> Any:
        """A tensor of an array."""
        return weft.from_numpy(x)

    def to_numpy(self, x: Tensor) -> Any:
        """An array of a tensor."""
        return x.detach().numpy()

    def arange(self, start: int, stop: int) -> Any:
        """Integers in order."""
        return weft.arange(start, stop)

    def transpose(self, x: Tensor, axes: Sequence[int]) -> Any:
        """Dimensions in another order."""
        return x.permute(axes)

    def reduce(self, x: object, operation: str, reduced_axes: Any) -> Any:
        """A reduction over dimensions."""
        axes = tuple(reduced_axes)
        if operation in ("min", "max"):
            return getattr(x, "a" + operation)(dim=axes)
        if operation in ("sum", "mean"):
            return getattr(x, operation)(dim=axes)
        for axis in sorted(axes, reverse=True):  # prod, any, all: one at a time
            x = getattr(x, operation)(dim=axis)
        return x

    def stack_on_zeroth_dimension(self, tensors: list[Tensor]) -> Any:
        """Tensors along a new first dimension."""
        return weft.stack(tensors)

    def add_axis(self, x: Tensor, new_position: int) -> Any:
        """A new dimension."""
        return x.unsqueeze(new_position)

    def add_axes(self, x: Tensor, n_axes: int, pos2len: dict[int, int]) -> Any:
        """New dimensions of given lengths."""
        repeats = [-1] * n_axes
        for position, size in pos2len.items():
            x = x.unsqueeze(position)
            repeats[position] = size
        return x.expand(repeats)

    def tile(self, x: Tensor, repeats: tuple[int, ...]) -> Any:
        """Copies along each dimension."""
        return x.repeat(repeats)

    def concat(self, tensors: list[Tensor], axis: int) -> Any:
        """Tensors along a dimension."""
        return weft.cat(tensors, dim=axis)

    def is_float_type(self, x: Tensor) -> bool:
        """True if the elements are real numbers."""
        return bool(x.is_floating_point())

    def einsum(self, pattern: str, *x: Any) -> Any:
        """A sum over named dimensions."""
        return weft.einsum(pattern, *x)


_kept: dict[Any, type] = {}  # einops looks for subclasses, which nobody else holds


def _tell_einops(backends: Any) -> None:
    base = backends.AbstractBackend
    _kept[base] = type("WeftBackend", (_Einops, base), {})


def _tell_opt_einsum(dispatch: Any) -> None:
    dispatch._cached_funcs["tensordot", "weft"] = lambda a, b, axes=2: weft.tensordot(a, b, axes)
    dispatch._cached_funcs["transpose", "weft"] = lambda a, axes: a.permute(axes)
    dispatch._cached_funcs["einsum", "weft"] = weft.einsum


def _tell_autoray(autoray: ModuleType) -> None:
    """Name the table of PyTorch, where Weft stands for it."""
    if getattr(sys.modules.get("torch"), "Tensor", None) is Tensor:
        autoray.register_backend_alias("weft", "torch")


def _tell_optree(registry: ModuleType) -> None:
    """Take the members of modules apart as a dict, which they are in PyTorch."""
    registry.register_pytree_node(
        Members,
        lambda members: (tuple(members.values()), tuple(members), tuple(members)),
        lambda names, parts: dict(zip(names, parts, strict=True)),
        namespace=vars(registry)["__GLOBAL_NAMESPACE"],
    )


_TELL = {
    "autoray.autoray": _tell_autoray,
    "einops._backends": _tell_einops,
    "opt_einsum.backends.dispatch": _tell_opt_einsum,
    "optree.registry": _tell_optree,
}


def tell(name: str) -> None:
    """Tell an imported module that chooses by the type of tensors; one that is made otherwise stays as it is."""
    module = sys.modules[name]
    with contextlib.suppress(AttributeError):
        _TELL[name](module)
