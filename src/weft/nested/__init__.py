"""Ragged tensors: batches of items of any sizes without padding, under the names of PyTorch's `torch.nested`.

A `NestedTensor` holds the entries of all items one after the other and behaves like a dense tensor whose ragged
dimensions are printed as j1, j2, ...: operators, `weft` functions, `weft.nn` layers and losses take it. Any number of
dimensions may be ragged, lengths are compared by value, and gradients flow through all of it.

Start with `tensor`; `dispatch` has the table of functions on ragged tensors, whose rules are in the other modules.
"""

from weft._build.lazy import later as _later
from weft.engine.api.api_function import all_public
from weft.nested.making import (
    as_nested_tensor,
    masked_select,
    narrow,
    nested_tensor,
    nested_tensor_from_jagged,
    nested_tensor_from_padded,
    to_padded_tensor,
)
from weft.nested.tensor import Above as _Above
from weft.nested.tensor import NestedTensor
from weft.nested.tensor import bind as _bind

__all__ = [
    "NestedTensor", "as_nested_tensor", "masked_select", "narrow", "nested_tensor",
    "nested_tensor_from_jagged", "nested_tensor_from_padded", "to_padded_tensor",
]  # fmt: skip

_bind(
    _Above(
        dispatch=_later("weft.nested.dispatch"),
        indexing=_later("weft.nested.indexing"),
        making=_later("weft.nested.making"),
    )
)
globals().update(all_public({name: globals()[name] for name in __all__}))
del all_public
