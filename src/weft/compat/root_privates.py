"""Functions with an underscore that packages call at PyTorch's root: samples of laws, older casts, sizes as tensors."""

from __future__ import annotations

from typing import Any

import weft
from weft._typing import Shape
from weft.distributions.sampling import standard_gamma
from weft.engine.api.api_function import publish
from weft.engine.frontend.tensor import Tensor
from weft.nn.functional.grouped_products import grouped_mm
from weft.tensor.layout import Layout


def _standard_gamma(input: Any, generator: object = None) -> Any:
    """Gamma numbers of scale 1, one for each concentration; with gradients."""
    return standard_gamma(input)


def _sample_dirichlet(input: Any, generator: object = None) -> Any:
    """Shares that add up to 1 along the last dimension, for concentrations; without gradients."""
    drawn = standard_gamma(input.detach())
    return drawn / drawn.sum(-1, keepdim=True)


def _shape_as_tensor(input: Any) -> Any:
    """The sizes as a tensor of integers."""
    return weft.tensor(tuple(input.shape), dtype=weft.int64)


def _convert_indices_from_coo_to_csr(input: Any, size: int, *, out_int32: bool = False) -> Any:
    """The start of each of `size` rows, and the end of the last, from ascending row numbers."""
    counted = weft.bincount(input, minlength=size).cumsum(0)
    starts = weft.cat([weft.zeros(1, dtype=counted.dtype), counted])
    return starts.to(weft.int32 if out_int32 else weft.int64)


def _convert_indices_from_csr_to_coo(
    crow_indices: Any, col_indices: Any, *, out_int32: bool = False, transpose: bool = False
) -> Any:
    """Rows and columns, [2, n], of entries by compressed rows; columns first where `transpose` is set."""
    rows = weft.repeat_interleave(weft.arange(len(crow_indices) - 1), crow_indices.diff().long())
    pair = (col_indices, rows) if transpose else (rows, col_indices)
    return weft.stack([part.to(weft.int32 if out_int32 else weft.int64) for part in pair])


def _amp_foreach_non_finite_check_and_unscale_(self: Any, found_inf: Any, inv_scale: Any) -> None:
    """Multiply gradients in place by `inv_scale`, and set `found_inf` to 1 where one is not finite."""
    finite = [weft.isfinite(gradient).all() for gradient in self]
    for gradient in self:
        gradient.mul_(inv_scale.to(gradient.dtype))
    if finite and not weft.stack(finite).all():
        found_inf.fill_(1.0)


def _validate_sparse_coo_tensor_args(
    indices: Tensor, values: Tensor, size: Shape, is_coalesced: bool | None = None
) -> None:
    """Check the parts of a sparse tensor. Errors: RuntimeError where they do not fit."""
    weft.sparse_coo_tensor(indices, values, size, is_coalesced=is_coalesced)


def _validate_sparse_compressed_tensor_args(
    compressed_indices: Tensor, plain_indices: Tensor, values: Tensor, size: Shape, layout: Layout
) -> None:
    """Check the parts of a compressed sparse tensor. Errors: RuntimeError where they do not fit."""
    weft.sparse_compressed_tensor(compressed_indices, plain_indices, values, size, layout=layout)


def _cast(name: str, dtype: Any) -> Any:
    def cast(input: Any, non_blocking: bool = False) -> Any:
        return input.to(dtype)

    cast.__name__ = cast.__qualname__ = f"_cast_{name}"
    cast.__doc__ = f"The tensor as {dtype.name}."
    return cast


_CASTS = {
    "Byte": weft.uint8, "Char": weft.int8, "Double": weft.float64, "Float": weft.float32, "Half": weft.float16,
    "Int": weft.int32, "Long": weft.int64, "Short": weft.int16,
}  # fmt: skip
FUNCTIONS: dict[str, Any] = {
    **{f"_cast_{name}": _cast(name, dtype) for name, dtype in _CASTS.items()},
    "_amp_foreach_non_finite_check_and_unscale_": _amp_foreach_non_finite_check_and_unscale_,
    "_convert_indices_from_coo_to_csr": _convert_indices_from_coo_to_csr,
    "_convert_indices_from_csr_to_coo": _convert_indices_from_csr_to_coo,
    "_grouped_mm": grouped_mm,
    "_sample_dirichlet": _sample_dirichlet,
    "_shape_as_tensor": _shape_as_tensor,
    "_standard_gamma": _standard_gamma,
    "_validate_sparse_compressed_tensor_args": _validate_sparse_compressed_tensor_args,
    "_validate_sparse_coo_tensor_args": _validate_sparse_coo_tensor_args,
}
globals().update(FUNCTIONS)
publish(globals())
del publish
