"""Names for annotations of sizes: one number, or one for each dimension."""

from __future__ import annotations

from typing import Any, TypeVar, Union

T = TypeVar("T")


def _one_or(count: int | None, value: Any = T) -> Any:
    """One value, or as many as there are dimensions (any number for None)."""
    many = tuple[(value,) * count] if count else tuple[value, ...]  # type: ignore[misc]
    return Union[value, many]  # noqa: UP007 - of a type variable


_scalar_or_tuple_any_t = _one_or(None)
_scalar_or_tuple_1_t, _scalar_or_tuple_2_t, _scalar_or_tuple_3_t = map(_one_or, (1, 2, 3))
_scalar_or_tuple_4_t, _scalar_or_tuple_5_t, _scalar_or_tuple_6_t = map(_one_or, (4, 5, 6))
_size_any_t = _scalar_or_tuple_any_t[int]
_size_1_t, _size_2_t, _size_3_t = (_one_or(count)[int] for count in (1, 2, 3))
_size_4_t, _size_5_t, _size_6_t = (_one_or(count)[int] for count in (4, 5, 6))
_size_any_opt_t = _scalar_or_tuple_any_t[int | None]
_size_2_opt_t, _size_3_opt_t = (_one_or(count)[int | None] for count in (2, 3))
_ratio_any_t = _scalar_or_tuple_any_t[float]
_ratio_2_t, _ratio_3_t = (_one_or(count)[float] for count in (2, 3))
