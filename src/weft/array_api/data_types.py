"""The standard's data types, their limits and promotion, and the namespace's description of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import weft
from weft._typing import DeviceLike
from weft.array_api.arguments import joined_type, need_array, on_device, refuse
from weft.engine.frontend.tensor import Tensor
from weft.engine.ir import dtype as dtypes
from weft.engine.ir.dtype import DType
from weft.errors import ArgumentTypeError, DTypeError
from weft.tensor.creation.python_data import MOST_DIMENSIONS

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
REAL = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
KINDS: dict[str, tuple[str, ...]] = {
    "bool": ("bool",),
    "signed integer": SIGNED,
    "unsigned integer": UNSIGNED,
    "integral": (*SIGNED, *UNSIGNED),
    "real floating": REAL,
    "complex floating": COMPLEX,
    "numeric": (*SIGNED, *UNSIGNED, *REAL, *COMPLEX),
}
_HALVES = (dtypes.float16, dtypes.bfloat16)


@dataclass(frozen=True)
class _FloatLimits:
    """Limits of a floating-point type; of a complex one, those of its parts."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True)
class _IntegerLimits:
    """Limits of an integer type."""

    bits: int
    max: int
    min: int
    dtype: DType


def _type_of(name: str, type: object) -> DType:
    if isinstance(type, DType):
        return type
    return need_array(name, type).dtype


def finfo(type: DType | Tensor, /) -> _FloatLimits:
    """Limits of a floating-point type. Errors: TypeError on integers."""
    dtype = _type_of("finfo", type).to_real()
    found = weft.finfo(dtype)
    return _FloatLimits(found.bits, found.eps, found.max, found.min, found.smallest_normal, dtype)


def iinfo(type: DType | Tensor, /) -> _IntegerLimits:
    """Limits of an integer type. Errors: TypeError on other types."""
    dtype = _type_of("iinfo", type)
    found = weft.iinfo(dtype)
    return _IntegerLimits(found.bits, found.max, found.min, dtype)


def astype(
    x: Tensor, dtype: DType, /, *, copy: bool = True, device: DeviceLike | None = None
) -> Tensor:
    """The array in another type; itself where it has the type and `copy` is false.

    Errors: DTypeError from complex to real.
    """
    on_device("astype", device)
    if need_array("astype", x).dtype.is_complex and dtype.category in (1, 2):
        raise DTypeError(
            f"astype: {x.dtype.name} to {dtype.name} would lose the imaginary part",
            expected="a complex type",
            got=dtype.name,
            fix="take xp.real(x) first",
        )
    return x.to(dtype, copy=copy)


def can_cast(from_: DType | Tensor, to: DType, /) -> bool:
    """True if promotion leads from one dtype to the other."""
    given = _type_of("can_cast", from_)
    if given.category != to.category and (given.category, to.category) != (2, 3):
        return False
    try:
        return joined_type("can_cast", given, to) is to
    except DTypeError:
        return False


def isdtype(dtype: DType, kind: DType | str | tuple[DType | str, ...]) -> bool:
    """True if a dtype is of a kind, or of one of several. Errors: ValueError on an unknown kind, TypeError on
    others."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, part) for part in kind)
    if isinstance(kind, DType):
        return dtype is kind
    if not isinstance(kind, str):
        raise ArgumentTypeError(
            f"isdtype: kind is {type(kind).__name__}",
            expected="a type, the name of a kind, or a tuple of them",
            got=repr(kind),
            fix="pass for example 'real floating'",
        )
    if kind not in KINDS:
        refuse("isdtype", "unknown kind", ", ".join(KINDS), kind, "choose one of these")
    inexact = kind in ("real floating", "numeric") and dtype in _HALVES
    return inexact or dtype.name in KINDS[kind]


def result_type(*arrays_and_dtypes: Tensor | complex | DType) -> DType:
    """The type of an operation on arrays, types and numbers. Errors: DTypeError where no type holds all."""
    given = [x.dtype if isinstance(x, Tensor) else x for x in arrays_and_dtypes]
    return joined_type("result_type", *given)


class __array_namespace_info__:  # noqa: N801 - the standard's name
    """The description of the namespace: dtypes, defaults, devices."""

    def capabilities(self) -> dict[str, Any]:
        """Indexing by booleans and shapes that depend on data are there."""
        return {
            "boolean indexing": True,
            "data-dependent shapes": True,
            "max dimensions": MOST_DIMENSIONS,
        }

    def default_device(self) -> Any:
        """The CPU."""
        return weft.device("cpu")

    def default_dtypes(self, *, device: DeviceLike | None = None) -> dict[str, DType]:
        """The types that are chosen where none is given."""
        on_device("default_dtypes", device)
        real = weft.get_default_dtype()
        return {
            "real floating": real,
            "complex floating": real.to_complex(),
            "integral": weft.int64,
            "indexing": weft.int64,
        }

    def devices(self) -> list[Any]:
        """All there are."""
        return [weft.device("cpu")]

    def dtypes(
        self, *, device: DeviceLike | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, DType]:
        """The standard's types by name, all or of a kind. Errors: ValueError on an unknown kind."""
        on_device("dtypes", device)
        kinds = ("bool", "numeric") if kind is None else kind
        found: list[str] = []
        for part in (kinds,) if isinstance(kinds, str) else kinds:
            if part not in KINDS:
                refuse("dtypes", "unknown kind", ", ".join(KINDS), part, "choose one of these")
            found += KINDS[part]
        return {name: dtypes.by_name(name) for name in found}
