"""assert_close: tensors, numbers and containers of them are equal up to what their type can tell apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import weft
from weft import Tensor
from weft.errors import ArgumentError

# Relative and absolute tolerance of PyTorch's testing.assert_close.
_TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


def assert_close(
    actual: object,
    expected: object,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise AssertionError unless |actual - expected| <= atol + rtol * |expected| everywhere.

    Containers are compared part by part.

    Args:
        actual: what there is: a tensor, a number, an array, or a nest of them.
        expected: what there should be.
        allow_subclasses: False: both have to be of one class. Default: True.
        rtol: the relative tolerance; None: by the dtype.
        atol: the absolute tolerance; None: by the dtype.
        equal_nan: whether nan is equal to nan. Default: False.
        check_device: whether devices have to be equal. Default: True.
        check_dtype: whether dtypes have to be equal. Default: True.
        check_layout: whether layouts have to be equal. Default: True.
        check_stride: whether strides have to be equal. Default: False.
        msg: the text of the error, or a function of the text that there would be; None:
            what differs.

    Raises:
        ValueError for one tolerance without the other.

    Example:
        >>> import weft
        >>> weft.testing.assert_close(weft.tensor([1.0, 2.0]), weft.tensor([1.0, 2.0 + 1e-7]))
        >>> try:
        ...     weft.testing.assert_close(weft.tensor(1.0), weft.tensor(1.5))
        ... except AssertionError as error:
        ...     print(str(error).splitlines()[0])
        Scalars are not close!
    """
    if (rtol is None) != (atol is None):
        raise ArgumentError(
            "rtol and atol must both be specified or both be unspecified",
            expected="both or none",
            got=f"rtol={rtol}, atol={atol}",
            fix="pass both",
        )
    tolerance = None if rtol is None or atol is None else (rtol, atol)
    checks = {"device": check_device, "dtype": check_dtype, "stride": check_stride}
    difference = _difference(actual, expected, tolerance, equal_nan, checks, "")
    if difference is not None:
        raise AssertionError(_message(difference, msg))


def assert_allclose(
    actual: object,
    expected: object,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """`assert_close` under its older name: types may differ, and nan is equal to nan.

    Args:
        actual: what there is: a tensor, a number, an array, or a nest of them.
        expected: what there should be.
        rtol: the relative tolerance; None: by the dtype.
        atol: the absolute tolerance; None: by the dtype.
        equal_nan: whether nan is equal to nan. Default: True.
        msg: the text of the error, or a function of the text that there would be. Default:
            ''.
    """
    assert_close(
        weft.as_tensor(actual),
        weft.as_tensor(expected),
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_dtype=False,
        msg=msg or None,
    )


def _message(difference: str, msg: object) -> str:
    if msg is None:
        return difference
    return str(msg(difference)) if callable(msg) else str(msg)


def _difference(
    actual: Any,
    expected: Any,
    tolerance: object,
    equal_nan: bool,
    checks: dict[str, bool],
    path: str,
) -> str | None:
    """The difference between two values in words; None if they are close."""
    where = f"\n\nThe failure occurred for item {path}" if path else ""
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if set(actual) != set(expected):
            return (
                f"The keys of the mappings do not match: {list(actual)} and {list(expected)}{where}"
            )
        pairs = [(f"[{key!r}]", actual[key], expected[key]) for key in actual]
    elif _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            return f"The length of the sequences mismatch: {len(actual)} != {len(expected)}{where}"
        pairs = [(f"[{i}]", *pair) for i, pair in enumerate(zip(actual, expected, strict=True))]
    else:
        found = _compared(actual, expected, tolerance, equal_nan, checks)
        return None if found is None else found + where
    for part, one, other in pairs:
        found = _difference(one, other, tolerance, equal_nan, checks, path + part)
        if found is not None:
            return found
    return None


def _is_sequence(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _compared(
    actual: object, expected: object, tolerance: Any, equal_nan: bool, checks: dict[str, bool]
) -> str | None:
    if actual is None or isinstance(actual, str):
        return None if actual == expected else f"{actual!r} is not {expected!r}"
    both_tensors = isinstance(actual, Tensor) and isinstance(expected, Tensor)
    one, other = weft.as_tensor(actual), weft.as_tensor(expected)
    if one.shape != other.shape:
        return f"The values for attribute 'shape' do not match: {one.shape} != {other.shape}."
    if both_tensors and checks["dtype"] and one.dtype != other.dtype:
        return f"The values for attribute 'dtype' do not match: {one.dtype} != {other.dtype}."
    if both_tensors and checks["stride"] and one.stride() != other.stride():
        return (
            f"The values for attribute 'stride()' do not match: {one.stride()} != {other.stride()}."
        )
    if both_tensors and checks["device"] and one.device != other.device:
        return f"The values for attribute 'device' do not match: {one.device} != {other.device}."
    if one.is_meta or other.is_meta:
        return None  # there are no values
    if tolerance is None:
        kinds = (_TOLERANCES.get(t.dtype.name, (0.0, 0.0)) for t in (one, other))
        tolerance = tuple(map(max, zip(*kinds, strict=True)))
    return _far(_array(one), _array(other), tolerance, equal_nan)


def _array(tensor: Tensor) -> Any:
    wide = tensor.detach().float() if tensor.dtype is weft.bfloat16 else tensor.detach()
    found = wide.numpy(force=True)
    if found.dtype.kind in "biu":
        return found if found.dtype.kind == "b" else found.astype(np.int64)
    return found.astype(np.complex128 if found.dtype.kind == "c" else np.float64)


def _far(one: Any, other: Any, tolerance: tuple[float, float], equal_nan: bool) -> str | None:
    relative, absolute = tolerance
    close = np.isclose(one, other, rtol=relative, atol=absolute, equal_nan=equal_nan)
    if close.all():
        return None
    title = "Scalars" if one.ndim == 0 else "Tensor-likes"
    with np.errstate(all="ignore"):
        away = np.abs(one.astype(np.complex128) - other.astype(np.complex128))
        share = away / np.abs(other.astype(np.complex128))
    lines = [f"{title} are not {'equal' if tolerance == (0.0, 0.0) else 'close'}!", ""]
    if one.ndim:
        count = int((~close).sum())
        lines.append(f"Mismatched elements: {count} / {one.size} ({100 * count / one.size:.1f}%)")
    place = np.unravel_index(
        np.argmax(np.where(close, -1, np.nan_to_num(away, nan=np.inf))), one.shape
    )
    index = f" at index {tuple(map(int, place))}" if one.ndim else ""
    lines.append(f"Greatest absolute difference: {away[place]}{index} (up to {absolute} allowed)")
    lines.append(f"Greatest relative difference: {share[place]}{index} (up to {relative} allowed)")
    return "\n".join(lines)
