"""Methods of handles: making tensors, reading them, sharing memory, converting, copying, modes.

`HOOKS` are the functions that special methods of Tensor call, `METHODS` those installed on it, `FUNCTIONS` those that
`weft` exports. The functional layer has the mathematics. Start with `creation`. `copying`, `device`, `info`, `layout`,
`size`, `storage` and `typed_storage` stay where they are: pickles name them.
"""

from __future__ import annotations

import copyreg
from typing import Any

from weft._build.lazy import later
from weft.engine.frontend.tensor import Storage, Tensor
from weft.errors import ShapeError
from weft.tensor import (
    determinism,
    info,
    layout,
    leaves,
    legacy_constructors,
    modes,
    scalars,
    settings,
    size,
    typed_storage,
)
from weft.tensor import (
    device as devices,
)
from weft.tensor.conversion import dtype_and_device, interop, sparsity
from weft.tensor.creation import factories, ranges, shared_data
from weft.tensor.memory import host_memory
from weft.tensor.reading import values
from weft.tensor.torch_function import subclasses

copying = later("weft.tensor.copying")
printing = later("weft.tensor.reading.printing")

_PARTS = (
    factories,
    dtype_and_device,
    determinism,
    info,
    interop,
    layout,
    leaves,
    legacy_constructors,
    modes,
    values,
    scalars,
    settings,
    size,
    ranges,
    shared_data,
    sparsity,
    subclasses,
    typed_storage,
)


def in_place_shape(tensor: Tensor, result: Tensor) -> ShapeError:
    """The error of an in-place operation whose result has another shape."""
    return ShapeError(
        f"output with shape {list(tensor._shape)} doesn't match the broadcast shape {list(result._shape)}",
        expected=f"a result of shape {list(tensor._shape)}",
        got=f"shape {list(result._shape)}",
        fix="use the out-of-place operation, or expand the tensor first",
    )


HOOKS: dict[str, Any] = {
    "array": interop.as_array,
    "ask_operand": subclasses.ask_operand,
    "ask_others": subclasses.ask_others,
    "buffer": interop.buffer_array,
    "array_wrap": interop.wrap_array,
    "construct": legacy_constructors.construct,
    "contains": values.contains,
    "deepcopy": lambda *given: copying.deepcopy(*given),
    "device": devices.CPU,
    "device_at": devices.device_at,
    "meta_device": devices.META,
    "dlpack": interop.to_dlpack,
    "format_text": values.format_tensor,
    "in_place_shape": in_place_shape,
    "index": values.index,
    "check_saved": leaves.check_saved,
    "inference_update": leaves.inference_update,
    "inference_version": leaves.inference_version,
    "is_scalar": scalars.is_scalar,
    "number": values.number,
    "base_of_untracked": leaves.base_of_untracked,
    "one_of_several_views": leaves.one_of_several_views,
    "untracked_view": leaves.untracked_view,
    "reduce": lambda *given: copying.reduce(*given),
    "repr_text": lambda tensor: printing.tensor_text(tensor),
    "scalar_dtype": scalars.scalar_dtype,
    "set_data": leaves.set_data,
    "set_grad": leaves.set_grad,
    "set_requires_grad": leaves.set_requires_grad,
    "size": size.of_shape,
    "snapshot": host_memory.snapshot,
    "truth": values.truth,
    "base_of_function": leaves.base_of_function,
    "view_of_function": leaves.view_of_function,
    "type_name": leaves.type_name,
    "warn_non_leaf_grad": leaves.warn_non_leaf_grad,
    "write_through": host_memory.write_through,
}

# Here and not in `copying`: picklers of multiprocessing look at what is registered before they meet a tensor.
copyreg.pickle(Storage, lambda storage: copying.reduce_storage(storage))

METHODS: dict[str, Any] = {}
FUNCTIONS: dict[str, Any] = {"device": devices.device, "Size": size.Size}
for _part in _PARTS:
    METHODS.update(getattr(_part, "METHODS", {}))
    FUNCTIONS.update(getattr(_part, "FUNCTIONS", {}))
