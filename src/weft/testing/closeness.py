"""assert_close: tensors, numbers and containers of them are equal up to what their type can tell apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

import weft
from weft import Tensor
from weft.engine.api.deprecation import deprecated
from weft.errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from weft.sparse.tensor import SparseTensor

# Relative and absolute tolerance of PyTorch's testing.assert_close.
_TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}
_BOOLEANS = (bool, np.bool_)
_NUMBERS = (int, float, complex, np.number)
_COMPRESSED = (weft.sparse_csr, weft.sparse_csc, weft.sparse_bsr, weft.sparse_bsc)


class Rules(NamedTuple):
    """Rules of a comparison: tolerances (None: by the dtype) and the attributes that have to be equal."""

    tolerance: tuple[float, float] | None
    equal_nan: bool
    allow_subclasses: bool
    device: bool
    dtype: bool
    layout: bool
    stride: bool


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
        AssertionError where they differ; ValueError for one tolerance without the other;
        TypeError for what is no tensor, number, array or None, and for two of kinds that
        have nothing to do with each other.

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
    rules = Rules(
        None if rtol is None or atol is None else (rtol, atol),
        equal_nan, allow_subclasses, check_device, check_dtype, check_layout, check_stride,
    )  # fmt: skip
    difference = _difference(actual, expected, rules, "")
    if difference is not None:
        raise AssertionError(_message(difference, msg))


@deprecated(
    "`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a future release. Please use "
    "`torch.testing.assert_close()` instead. You can find detailed upgrade instructions in "
    "https://github.com/pytorch/pytorch/issues/61844."
)
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


def _difference(actual: Any, expected: Any, rules: Rules, path: str) -> str | None:
    """The difference between two values in words; None if they are close."""
    where = f"\n\nThe failure occurred for item {path}" if path else ""
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if set(actual) != set(expected):
            return _other_keys(actual, expected) + where
        pairs = [(f"[{key!r}]", actual[key], expected[key]) for key in actual]
    elif _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            return f"The length of the sequences mismatch: {len(actual)} != {len(expected)}{where}"
        pairs = [(f"[{i}]", *pair) for i, pair in enumerate(zip(actual, expected, strict=True))]
    else:
        found = _compared(actual, expected, rules)
        return None if found is None else found + where
    for part, one, other in pairs:
        found = _difference(one, other, rules, path + part)
        if found is not None:
            return found
    return None


def _other_keys(actual: Mapping[Any, object], expected: Mapping[Any, object]) -> str:
    lines = ["The keys of the mappings do not match:"]
    missing, more = (
        [k for k in expected if k not in actual],
        [k for k in actual if k not in expected],
    )
    lines += [f"Missing keys in the actual mapping: {missing}"] if missing else []
    lines += [f"Additional keys in the actual mapping: {more}"] if more else []
    return "\n".join(lines)


def _is_sequence(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _compared(actual: object, expected: object, rules: Rules) -> str | None:
    """The difference between two leaves. Errors: TypeError for what cannot be compared."""
    if actual is None or expected is None:
        return None if actual is expected else f"None mismatch: {actual} is not {expected}"
    if isinstance(actual, _BOOLEANS) and isinstance(expected, _BOOLEANS):
        return None if actual == expected else f"Booleans mismatch: {actual} is not {expected}"
    if isinstance(actual, _NUMBERS) and isinstance(expected, _NUMBERS):
        if rules.dtype and type(actual) is not type(expected):
            return f"The (d)types do not match: {type(actual)} != {type(expected)}."
        return _tensors_differ(_of_number(actual), _of_number(expected), rules)
    _check_related(actual, expected, rules.allow_subclasses)
    return _tensors_differ(weft.as_tensor(actual), weft.as_tensor(expected), rules)


def _of_number(value: object) -> Tensor:
    return weft.as_tensor(np.asarray(value))


def _class_of(value: object) -> type:
    """The class of a value, which is Tensor for tensors of any layout."""
    is_sparse = isinstance(value, Tensor) and value.layout != weft.strided
    return type(value) if not is_sparse or value.__class__.__module__[:5] != "weft." else Tensor


def _check_related(actual: object, expected: object, allow_subclasses: bool) -> None:
    """Errors: TypeError unless both are tensors or arrays, and one is of the other's class."""
    related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
    same = _class_of(actual) is _class_of(expected)
    known = isinstance(actual, (Tensor, np.ndarray)) and isinstance(expected, (Tensor, np.ndarray))
    if not known or not (same or (allow_subclasses and related)):
        raise ArgumentTypeError(
            f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}.",
            expected="two tensors, two arrays, two numbers, or containers of such",
            got=f"{type(actual).__name__} and {type(expected).__name__}",
            fix="convert both to tensors",
        )


def _tensors_differ(one: Tensor, other: Tensor, rules: Rules) -> str | None:
    """The difference between two tensors: their attributes, then their values by layout."""
    found = _other_attribute(one, other, rules)
    if found is not None or one.is_meta or other.is_meta:
        return found  # on meta there are no values
    if one.layout != other.layout:
        one, other = one.to_dense(), other.to_dense()
    if one.layout == weft.sparse_coo:
        return _sparse_differ(_sparse(one), _sparse(other), rules)
    if one.layout in _COMPRESSED:
        return _compressed_differ(_sparse(one), _sparse(other), rules)
    return _values_differ(one, other, rules, "Tensor-likes" if one.ndim else "Scalars")


def _sparse(tensor: Tensor) -> SparseTensor:
    return cast("SparseTensor", tensor)


def _other_attribute(one: Tensor, other: Tensor, rules: Rules) -> str | None:
    asked: list[tuple[str, bool, object, object]] = [
        ("shape", True, one.shape, other.shape),
        ("layout", rules.layout, one.layout, other.layout),
        ("device", rules.device, one.device, other.device),
        ("dtype", rules.dtype, one.dtype, other.dtype),
    ]
    if rules.stride and one.layout == other.layout == weft.strided:
        asked.append(("stride()", True, one.stride(), other.stride()))
    for name, is_asked, mine, theirs in asked:
        if is_asked and mine != theirs:
            return f"The values for attribute '{name}' do not match: {mine} != {theirs}."
    return None


def _sparse_differ(one: SparseTensor, other: SparseTensor, rules: Rules) -> str | None:
    if one.sparse_dim() != other.sparse_dim():
        return (
            "The number of sparse dimensions in sparse COO tensors does not match: "
            f"{one.sparse_dim()} != {other.sparse_dim()}"
        )
    if one.is_coalesced() != other.is_coalesced():
        one, other = one.coalesce(), other.coalesce()
    if one._nnz() != other._nnz():
        return _other_count("COO", one, other)
    return _values_differ(
        one._indices(), other._indices(), rules, "Sparse COO indices"
    ) or _values_differ(one._values(), other._values(), rules, "Sparse COO values")


def _compressed_differ(one: SparseTensor, other: SparseTensor, rules: Rules) -> str | None:
    name = str(one.layout).rpartition("_")[2].upper()
    if one._nnz() != other._nnz():
        return _other_count(name, one, other)
    by_row = one.layout in (weft.sparse_csr, weft.sparse_bsr)
    for part in ("crow_indices", "col_indices") if by_row else ("ccol_indices", "row_indices"):
        mine, theirs = getattr(one, part)(), getattr(other, part)()
        found = _values_differ(mine, theirs, rules, f"Sparse {name} {part}")
        if found is not None:
            return found
    return _values_differ(one.values(), other.values(), rules, f"Sparse {name} values")


def _other_count(name: str, one: SparseTensor, other: SparseTensor) -> str:
    return (
        f"The number of specified values in sparse {name} tensors does not match: "
        f"{one._nnz()} != {other._nnz()}"
    )


def _values_differ(one: Tensor, other: Tensor, rules: Rules, title: str) -> str | None:
    """The difference between the values of two dense tensors."""
    tolerance = rules.tolerance
    if tolerance is None:
        kinds = (_TOLERANCES.get(t.dtype.name, (0.0, 0.0)) for t in (one, other))
        relative, absolute = map(max, zip(*kinds, strict=True))
        tolerance = relative, absolute
    return _far(_array(one), _array(other), tolerance, rules.equal_nan, title)


def _array(tensor: Tensor) -> Any:
    wide = tensor.detach().float() if tensor.dtype is weft.bfloat16 else tensor.detach()
    found = wide.numpy(force=True)
    if found.dtype.kind in "biu":
        return found if found.dtype.kind == "b" else found.astype(np.int64)
    return found.astype(np.complex128 if found.dtype.kind == "c" else np.float64)


def _far(
    one: np.ndarray, other: np.ndarray, tolerance: tuple[float, float], equal_nan: bool, title: str
) -> str | None:
    relative, absolute = tolerance
    exact = tolerance == (0.0, 0.0)
    close = one == other  # of integers, which floats cannot always tell apart
    if not exact or equal_nan:
        close = close | np.isclose(one, other, rtol=relative, atol=absolute, equal_nan=equal_nan)
    if close.all():
        return None
    whole = one.dtype.kind == other.dtype.kind == "i"
    with np.errstate(all="ignore"):
        away = np.abs(one - other if whole else _wide(one) - _wide(other))
        share = away / np.abs(_wide(other))
    head = f"{title} are not {'equal' if exact else 'close'}!\n\n"
    limits = ("", "") if exact else (f" (up to {absolute} allowed)", f" (up to {relative} allowed)")
    if not one.ndim:
        return (
            f"{head}Expected {other} but got {one}.\nAbsolute difference: {away}{limits[0]}\n"
            f"Relative difference: {share}{limits[1]}"
        )
    count = int((~close).sum())
    lines = [f"Mismatched elements: {count} / {one.size} ({100 * count / one.size:.1f}%)"]
    for name, sizes, limit in (("absolute", away, limits[0]), ("relative", share, limits[1])):
        place = np.unravel_index(
            np.argmax(np.where(close, -1, np.nan_to_num(sizes, nan=np.inf))), one.shape
        )
        index = tuple(map(int, place))
        lines.append(f"Greatest {name} difference: {sizes[place]} at index {index}{limit}")
    return head + "\n".join(lines)


def _wide(array: np.ndarray) -> Any:
    return array.astype(np.complex128)
