"""Tensors on PyTorch's device "meta": a shape and a dtype, and never memory, however large they are.

They move between devices here, or PyTorch's error is raised. Operations on such tensors are recorded as ever, and
never run: `weft.engine.frontend.meta`.
"""

from __future__ import annotations

from weft.engine.frontend.meta import is_on_meta, no_data_here
from weft.engine.frontend.recorder import record_elementwise
from weft.engine.frontend.resolve import edge_for, set_edge
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir.strides import elementwise_strides
from weft.ops import OPS
from weft.ops.primitives import without_memory
from weft.tensor.modes import is_grad_enabled


def moved(tensor: Tensor, to_meta: bool) -> Tensor:
    """A tensor on the CPU or on the device meta: itself where it is there. What it is on meta keeps its history.

    Errors: NoDataError where a tensor without memory should get values.
    """
    if is_on_meta(tensor) == to_meta:
        return tensor
    if not to_meta:
        raise no_data_here()
    layout = tensor.strides
    if layout is not None:  # without gaps, and without elements that are shown more than once
        layout = elementwise_strides(tensor._shape, [(tensor._shape, layout)])
    made = without_memory(tensor._shape, tensor._dtype, layout)
    if tensor.requires_grad and is_grad_enabled():
        set_edge(made, edge_for(record_elementwise(OPS["clone"], (tensor,), None)))
    return made
