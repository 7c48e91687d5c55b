"""Copies of handles: deepcopy and pickle.

Copies of leaves are new leaves. Tensors that share a storage share the copy within one call. Values are immutable, so
a deep copy shares them until one side is written to.
"""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np

from weft.engine.frontend.tensor import Storage, Tensor
from weft.engine.frontend.views import logical_strides, storage_of
from weft.engine.ir import dtype as dtypes
from weft.errors import GradientError
from weft.ops.primitives import without_memory
from weft.tensor.leaves import make_subclass
from weft.tensor.memory.host_memory import (
    Shape,
    copy_of_storage,
    handle_of,
    raw_array,
    raw_dtype,
    region,
    tensor_of_array,
)


def deepcopy(tensor: Tensor, memo: dict[int, Any]) -> Tensor:
    """A leaf with the same value and a copy of `.grad`, without hooks. Errors: RuntimeError on a computed tensor."""
    if id(tensor) in memo:
        return memo[id(tensor)]  # type: ignore[no-any-return]
    if not tensor.is_leaf:
        raise GradientError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol "
            "at the moment.  If you were attempting to deepcopy a module, this may be because of a "
            "torch.nn.utils.weight_norm usage, see https://github.com/pytorch/pytorch/pull/103001",
            expected="a leaf",
            got=f"a result of {tensor.grad_fn.name()}",
            fix="copy tensor.detach(), or tensor.clone()",
        )
    if tensor.view_transform:
        made = memo[id(tensor)] = tensor.detach().clone().requires_grad_(tensor.requires_grad)
        return made
    storage = storage_of(tensor)
    whole = memo.get(id(storage))
    if whole is None:
        whole = memo[id(storage)] = copy_of_storage(storage)
    shown = region(whole, tensor._shape, logical_strides(tensor), tensor.offset)
    made = shown if type(tensor) is Tensor else make_subclass(type(tensor), shown)
    memo[id(tensor)] = made
    made.leaf_grad = tensor.leaf_grad
    if tensor._grad is not None:
        made._grad = copy.deepcopy(tensor._grad, memo)
    if tensor.__dict__:
        made.__dict__.update(copy.deepcopy(tensor.__dict__, memo))
    return made


def hooks_to_lose(tensor: Tensor) -> list[str]:
    """The warnings about hooks that a file does not keep; none about those marked by `unserializable_hook`."""
    if tensor.hooks is None:
        return []
    return [
        f"backward hook {hook!r} on tensor will not be serialized. If this is expected, you can decorate the function "
        "with @weft.utils.hooks.unserializable_hook to suppress this warning"
        for _, hook in tensor.hooks.tensor_hooks.values()
        if not hasattr(hook, "__torch_unserializable__")
    ]


def reduce(tensor: Tensor, protocol: int) -> tuple[Any, ...]:
    """The pickled form: storage, region, whether a gradient is wanted, attributes; never `.grad`."""
    for text in hooks_to_lose(tensor):
        warnings.warn(text, UserWarning, stacklevel=2)
    state = dict(tensor.__dict__)
    if tensor.is_meta:
        layout = (tensor._shape, tensor._dtype.name, tensor.strides)
        return rebuild_on_meta, (type(tensor), *layout, tensor.requires_grad, state)
    shown = tensor.detach().clone() if tensor.view_transform else tensor
    arguments = (
        type(tensor),
        storage_of(shown),
        shown._shape,
        logical_strides(shown),
        shown.offset,
        tensor.requires_grad,
        state,
    )
    return rebuild_tensor, arguments


def rebuild_tensor(
    cls: type[Tensor],
    storage: Storage,
    shape: Shape,
    strides: Shape,
    offset: int,
    requires_grad: bool,
    state: dict[str, object],
) -> Tensor:
    """Rebuild a tensor; unpickling calls it."""
    shown = region(handle_of(storage), shape, strides, offset)
    made = shown if cls is Tensor else make_subclass(cls, shown)
    made.leaf_grad = requires_grad
    made.__dict__.update(state)
    return made


def rebuild_on_meta(
    cls: type[Tensor],
    shape: Shape,
    dtype: str,
    strides: Shape | None,
    requires_grad: bool,
    state: dict[str, object],
) -> Tensor:
    """Rebuild a tensor on the device meta; unpickling calls it."""
    shown = without_memory(shape, dtypes.by_name(dtype), strides)
    made: Tensor = shown if cls is Tensor else make_subclass(cls, shown)
    made.leaf_grad = requires_grad
    made.__dict__.update(state)
    return made


def reduce_storage(storage: Storage) -> tuple[Any, ...]:
    """The pickled form of a storage: its elements once, however many tensors share it."""
    return rebuild_storage, (raw_array(handle_of(storage)).tobytes(), storage.node.dtype.name)


def rebuild_storage(elements: bytes | np.ndarray, dtype: str) -> Storage:
    """Rebuild a storage from its bytes, or, in older pickles, from an array; unpickling calls it."""
    kind = dtypes.by_name(dtype)
    array = np.frombuffer(elements, raw_dtype(kind)) if isinstance(elements, bytes) else elements
    return storage_of(tensor_of_array(array, kind))
