"""Collating: a list of examples becomes one batch of the same structure."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

import weft
from weft import Tensor
from weft._build.lazy import later
from weft.errors import ArgumentError, ArgumentTypeError

nested = later("weft.nested")


def default_convert(data: object) -> Any:
    """NumPy arrays inside any structure become tensors; nothing is stacked."""
    if isinstance(data, np.ndarray | np.generic) and data.dtype.kind in "biufc":
        return weft.as_tensor(data)
    if isinstance(data, Mapping):
        return {key: default_convert(value) for key, value in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(value) for value in data))
    if isinstance(data, list | tuple):
        return [default_convert(value) for value in data]
    return data


def default_collate(batch: Sequence[object]) -> Any:
    """Tensors, arrays and numbers are stacked; dictionaries, tuples and lists keep their structure.

    Errors: RuntimeError for tensors of different sizes; TypeError for other kinds of examples.
    """
    if not isinstance(batch, Sequence) or isinstance(batch, str | bytes) or not batch:
        raise ArgumentTypeError(
            f"default_collate(): a batch is a list of examples, not {type(batch).__name__}",
            expected="a sequence of at least one example",
            got=repr(batch),
            fix="pass a list",
        )
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """`default_collate` in which `collate_fn_map` says what is made of examples of a type: type -> a function of the
    batch and of `collate_fn_map`. Types come first, then their bases; `default_collate_fn_map` has the others."""
    first, functions = batch[0], collate_fn_map or {}
    for known in (functions, default_collate_fn_map):
        for kind in (type(first), *(kind for kind in known if isinstance(first, kind))):
            if kind in known:
                return known[kind](batch, collate_fn_map=functions)
    return _collate_structure(batch, first, functions)


def collate_tensor_fn(batch: Sequence[Tensor], *, collate_fn_map: object = None) -> Tensor:
    """Tensors of one size as rows of one."""
    stacked: Tensor = weft.stack(list(batch), 0)
    return stacked


np_str_obj_array_pattern = re.compile("[SaUO]")  # codes of arrays that are not collated
default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)


def collate_numpy_array_fn(batch: Sequence[np.ndarray], *, collate_fn_map: object = None) -> Tensor:
    """Arrays of one size as rows of a tensor. Errors: TypeError for arrays of words and objects."""
    if np_str_obj_array_pattern.search(batch[0].dtype.str):
        raise _not_collated(batch[0].dtype)
    return weft.as_tensor(np.stack(batch))


def collate_numpy_scalar_fn(
    batch: Sequence[np.generic], *, collate_fn_map: object = None
) -> Tensor:
    """NumPy's numbers as elements of a tensor."""
    return weft.as_tensor(np.stack(batch))


def collate_float_fn(batch: Sequence[float], *, collate_fn_map: object = None) -> Tensor:
    """Floats as elements of a tensor of float64."""
    return weft.tensor(batch, dtype=weft.float64)


def collate_int_fn(batch: Sequence[int], *, collate_fn_map: object = None) -> Tensor:
    """Integers, or truth values, as elements of a tensor."""
    return weft.tensor(batch)


def collate_str_fn(batch: Sequence[object], *, collate_fn_map: object = None) -> Sequence[object]:
    """Words as they are."""
    return batch


# The types that `default_collate` knows; programs add to them.
default_collate_fn_map: dict[Any, Callable[..., Any]] = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def _not_collated(kind: object) -> ArgumentTypeError:
    """The error of examples that make no batch."""
    return ArgumentTypeError(
        default_collate_err_msg_format.format(kind),
        expected="tensors, arrays, numbers, strings, dictionaries, lists and tuples",
        got=getattr(kind, "__name__", str(kind)),
        fix="convert the examples, or pass collate_fn to the loader",
    )


def _collate_structure(batch: Sequence[Any], first: object, functions: object) -> Any:
    def below(parts: Sequence[object]) -> Any:
        return collate(parts, collate_fn_map=functions)

    if isinstance(first, Mapping):
        columns = {key: below([example[key] for example in batch]) for key in first}
        return _of_kind(first, columns)
    if not isinstance(first, Sequence):
        raise _not_collated(type(first))
    _check_parts(batch, first, "pad the examples, or pass collate_fn to the loader")
    parts = [below(column) for column in zip(*batch, strict=True)]
    return type(first)(*parts) if hasattr(first, "_fields") else parts


def _of_kind(first: Mapping[object, object], columns: dict[object, object]) -> Mapping[Any, Any]:
    """A mapping of the type of an example, where that type can be made; else a dictionary."""
    try:
        if not isinstance(first, MutableMapping):
            made: Any = type(first)
            return made(columns)  # type: ignore[no-any-return]
        kept = copy.copy(first)
        kept.update(columns)
        return kept
    except TypeError:
        return columns


def pin_memory(data: object, device: object = None) -> Any:
    """A batch whose tensors lie where a device reads them: on the CPU they do; other objects are asked by their method
    `pin_memory`."""
    method = getattr(data, "pin_memory", None)
    if method is not None:
        return method()
    if isinstance(data, Mapping):
        return _of_kind(data, {key: pin_memory(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(pin_memory(value) for value in data))
    if isinstance(data, list | tuple):
        return type(data)(pin_memory(value) for value in data)
    return data


def ragged_collate(batch: Sequence[Any]) -> Any:
    """As `default_collate`, but tensors and arrays with dimensions become ragged tensors: their sizes may differ.

    Shapes: n of (j, *) -> (n, j, *). Dictionaries, tuples and lists keep their structure; numbers are stacked.
    Errors: RuntimeError for tensors of different ranks or types; TypeError for other kinds of examples.
    """
    first = batch[0] if isinstance(batch, Sequence) and batch else None
    if isinstance(first, np.ndarray) and first.ndim:
        batch = [weft.as_tensor(one) for one in batch]
    if isinstance(first, Tensor | np.ndarray) and first.ndim:
        return nested.as_nested_tensor(list(batch))
    if isinstance(first, Mapping):
        return {key: ragged_collate([example[key] for example in batch]) for key in first}
    if isinstance(first, list | tuple) and first:
        _check_parts(batch, first, "make the parts of different length tensors")
        parts = [ragged_collate(column) for column in zip(*batch, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else parts
    return default_collate(batch)


def _check_parts(batch: Sequence[Any], first: Sequence[object], fix: str) -> None:
    """Errors: RuntimeError where examples have other numbers of parts than the first."""
    if any(len(example) != len(first) for example in batch):
        raise ArgumentError(
            "each element in list of batch should be of equal size",
            expected=f"{len(first)} parts in each example",
            got=f"examples of {sorted({len(example) for example in batch})} parts",
            fix=fix,
        )
