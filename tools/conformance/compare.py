"""Holding what Weft gives against what PyTorch gives: a list of (cause, detail) of what differs."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import weft

# (relative, absolute), as PyTorch's own tests allow between two implementations
LIMITS = {
    "float64": (1e-7, 1e-7),
    "complex128": (1e-7, 1e-7),
    "float32": (2e-5, 2e-5),
    "complex64": (2e-5, 2e-5),
    "float16": (2e-3, 2e-3),
    "bfloat16": (1.6e-2, 1e-2),
}
Difference = tuple[str, str]


def tensors(result: Any) -> list[Any]:
    """The tensors of a result, in order."""
    if isinstance(result, (torch.Tensor, weft.Tensor)):
        return [result]
    if isinstance(result, dict):
        return [t for part in result.values() for t in tensors(part)]
    if isinstance(result, (tuple, list)):
        return [t for part in result for t in tensors(part)]
    return []


def array(tensor: Any) -> Any:
    """The values as a NumPy array; half types as float32."""
    kept = tensor.detach()
    if not str(kept.layout).endswith("strided"):
        kept = kept.to_dense()
    if str(kept.dtype).endswith(("bfloat16", "float16")):
        kept = kept.float()
    if isinstance(kept, torch.Tensor):
        kept = kept.resolve_conj().resolve_neg()
    return np.asarray(kept.numpy(force=True))


def dtype_name(tensor: Any) -> str:
    """`float32`."""
    return str(tensor.dtype).rpartition(".")[2]


def layout(tensor: Any) -> str:
    """The class of strides: contiguous, expanded, channels last, dense in another order, spaced."""
    shape, strides = tuple(tensor.shape), tuple(tensor.stride())
    pairs = [(s, n) for n, s in zip(shape, strides, strict=True) if n > 1]
    if not all(shape) or not pairs:
        return "contiguous"
    if any(stride == 0 for stride, _ in pairs):
        return "expanded"
    step = 1
    for stride, size in sorted(pairs):
        if stride != step:
            return "spaced"
        step *= size
    return "contiguous" if pairs == sorted(pairs, reverse=True) else "dense"


def values(mine: Any, theirs: Any, loose: float = 1.0) -> list[Difference]:
    """Types, shapes and values of two results of one structure."""
    ours, wanted = tensors(mine), tensors(theirs)
    if len(ours) != len(wanted):
        return [("structure", f"{len(ours)} tensors, {len(wanted)} in PyTorch")]
    if not wanted:
        return [] if _same_plain(mine, theirs) else [("value", f"{mine!r}, {theirs!r} in PyTorch")]
    found = []
    for one, other in zip(ours, wanted, strict=True):
        found += pair(one, other, loose)
    return found


def _same_plain(mine: Any, theirs: Any) -> bool:
    if isinstance(theirs, torch.dtype):
        return str(mine).rpartition(".")[2] == str(theirs).rpartition(".")[2]
    if isinstance(theirs, (float, complex)):
        return bool(np.allclose(mine, theirs, 1e-5, 1e-6, equal_nan=True))
    if isinstance(theirs, (tuple, list)):
        return len(mine) == len(theirs) and all(map(_same_plain, mine, theirs))
    return bool(mine == theirs)


def pair(one: Any, other: Any, loose: float = 1.0) -> list[Difference]:
    """Type, shape and values of two tensors."""
    if tuple(one.shape) != tuple(other.shape):
        return [("shape", f"{tuple(one.shape)}, {tuple(other.shape)} in PyTorch")]
    if dtype_name(one) != dtype_name(other):
        return [("dtype", f"{dtype_name(one)}, {dtype_name(other)} in PyTorch")]
    if str(one.layout).rpartition(".")[2] != str(other.layout).rpartition(".")[2]:
        return [("layout", f"{one.layout}, {other.layout} in PyTorch")]
    return close(array(one), array(other), dtype_name(other), loose)


def close(one: Any, other: Any, dtype: str, loose: float = 1.0) -> list[Difference]:
    """Values of two arrays, within the limits of a dtype."""
    relative, absolute = LIMITS.get(dtype, (0.0, 0.0))
    with np.errstate(all="ignore"):
        same = np.isclose(one, other, relative * loose, absolute * loose, equal_nan=True)
    if same.all():
        return []
    place = np.unravel_index(int(np.argmin(same)), same.shape) if same.ndim else ()
    where = f" at {list(map(int, place))}" if place else ""
    return [
        ("value", f"{one[place]}, {other[place]} in PyTorch{where}; {(~same).sum()} of {same.size}")
    ]


def layouts(mine: Any, theirs: Any) -> list[Difference]:
    """Stride classes of two results."""
    found = []
    for one, other in zip(tensors(mine), tensors(theirs), strict=False):
        if other.layout is torch.strided and layout(one) != layout(other):
            found.append(
                (
                    "strides",
                    f"{layout(one)} {one.stride()}, {layout(other)} {other.stride()} in PyTorch",
                )
            )
    return found
