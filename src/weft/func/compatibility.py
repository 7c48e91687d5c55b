"""Names of `torch.func` for what needs no transform here: values that are recorded are never overwritten."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import weft
from weft.errors import ArgumentError, NoTensorError
from weft.func.tree import need_function

if TYPE_CHECKING:
    from weft.nn.module.module import Module


def functionalize(func: Callable[..., object], *, remove: str = "mutations") -> Callable[..., Any]:
    """`func` as it is: in-place operations record new values, so that there are no mutations to remove, and the other
    transforms take them. The caller sees the changes that `func` makes to its arguments, as in PyTorch.

    Errors: RuntimeError on another `remove`."""
    need_function(func, "functionalize")
    if remove not in ("mutations", "mutations_and_views"):
        raise ArgumentError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options are: "
            "remove='mutations', remove='mutations_and_views'",
            expected="'mutations' or 'mutations_and_views'",
            got=repr(remove),
            fix="leave it out",
        )

    @functools.wraps(func)
    def same(*args: object, **kwargs: object) -> Any:
        return func(*args, **kwargs)

    return same


def debug_unwrap(tensor: weft.Tensor, *, recurse: bool = True) -> weft.Tensor:
    """The tensor itself: inside a transform there are only plain tensors."""
    return tensor


def replace_all_batch_norm_modules_(root: Module) -> Any:
    """Let all batch norms of a module use the statistics of their batch only, and keep none. Returns the module.
    Errors: AttributeError (and TypeError)."""
    if not isinstance(root, weft.nn.Module):
        raise NoTensorError.of(
            root,
            "modules",
            "replace_all_batch_norm_modules_",
            expected="a Module",
            fix="pass the module that holds the layers",
        )
    for module in root.modules():
        if isinstance(module, weft.nn.modules.normalization._BatchNorm):
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                setattr(module, name, None)
            module.track_running_stats = False
    return root
