"""`weft._functorch`: steps of PyTorch's `vmap`, which packages import for types of their own.

A function under `weft.vmap` sees the tensors of one example, so no step puts a dimension into a tensor or takes it out
again: they are refused. What is taken out of a tensor without one is the tensor.
"""

from __future__ import annotations

import sys
from typing import Any

from weft._C import no_levels
from weft._lazy import join as _join
from weft.graph.tensor import Tensor
from weft.utils._pytree import tree_flatten, tree_unflatten


def _get_name(func: Any) -> str:
    """What a function is called in errors."""
    return getattr(func, "__name__", repr(func))


_STEPS = (
    "_add_batch_dim", "_broadcast_to_and_flatten", "_create_batched_inputs", "_maybe_remove_batch_dim",
    "_process_batched_inputs", "_remove_batch_dim", "_unwrap_batched", "_validate_and_get_batch_size",
)  # fmt: skip
_OTHERS = {
    "Tensor": Tensor, "_get_name": _get_name, "tree_flatten": tree_flatten, "tree_unflatten": tree_unflatten,
}  # fmt: skip
_join(sys.modules[__name__], {"vmap": {**dict.fromkeys(_STEPS, no_levels), **_OTHERS}})
