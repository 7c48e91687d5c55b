"""The namespace has every name of the standard with its parameters, and its types, limits and promotion."""

from __future__ import annotations

import inspect
import itertools
import re
from typing import Any

import numpy as np
import pytest

import weft

xp: Any = weft.ones(1).__array_namespace__()
# Where a name stands, its parameters without types: the names. From the standard's text, version 2024.12.
SIGNATURES = """
main (x, /): abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag isfinite
    isinf isnan log log10 log1p log2 logical_not matrix_transpose negative nonzero positive real reciprocal round
    sign signbit sin sinh sqrt square tan tanh trunc unique_all unique_counts unique_inverse unique_values
main (x1, x2, /): add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign
    divide equal floor_divide greater greater_equal hypot less less_equal logaddexp logical_and logical_or
    logical_xor matmul maximum minimum multiply nextafter not_equal pow remainder subtract
main (x, /, *, axis=None, keepdims=False): all any argmax argmin count_nonzero max mean min
main (start, /, stop=None, step=1, *, dtype=None, device=None): arange
main (x, /, *, axis=-1, descending=False, stable=True): argsort sort
main (obj, /, *, dtype=None, device=None, copy=None): asarray
main (x, dtype, /, *, copy=True, device=None): astype
main (*arrays): broadcast_arrays
main (x, /, shape): broadcast_to
main (from_, to, /): can_cast
main (x, /, min=None, max=None): clip
main (arrays, /, *, axis=0): concat stack
main (x, /, *, axis=None, dtype=None, include_initial=False): cumulative_prod cumulative_sum
main (x, /, *, axis=-1, n=1, prepend=None, append=None): diff
main (shape, *, dtype=None, device=None): empty ones zeros
main (x, /, *, dtype=None, device=None): empty_like ones_like zeros_like
main (x, /, axis=0): expand_dims
main (n_rows, n_cols=None, /, *, k=0, dtype=None, device=None): eye
main (type, /): finfo iinfo
main (x, /, *, axis=None): flip
main (x, /, *, device=None, copy=None): from_dlpack
main (shape, fill_value, *, dtype=None, device=None): full
main (x, /, fill_value, *, dtype=None, device=None): full_like
main (dtype, kind): isdtype
main (start, stop, /, num, *, dtype=None, device=None, endpoint=True): linspace
main (*arrays, indexing='xy'): meshgrid
main (x, source, destination, /): moveaxis
main (x, /, axes): permute_dims
main (x, /, *, axis=None, dtype=None, keepdims=False): prod sum
main (x, repeats, /, *, axis=None): repeat
main (x, /, shape, *, copy=None): reshape
main (*arrays_and_dtypes): result_type
main (x, /, shift, *, axis=None): roll
main (x1, x2, /, *, side='left', sorter=None): searchsorted
main (x, /, axis): squeeze
main (x, /, *, axis=None, correction=0.0, keepdims=False): std var
main (x, indices, /, *, axis=None): take
main (x, indices, /, *, axis=-1): take_along_axis
main (x1, x2, /, *, axes=2): tensordot
main (x, repetitions, /): tile
main (x, /, *, k=0): tril triu
main (x, /, *, axis=0): unstack
main (x1, x2, /, *, axis=-1): vecdot
main (condition, x1, x2, /): where
linalg (x, /, *, upper=False): cholesky
linalg (x1, x2, /, *, axis=-1): cross vecdot
linalg (x, /): det eigh eigvalsh inv matrix_transpose slogdet svdvals
linalg (x, /, *, offset=0): diagonal
linalg (x1, x2, /): matmul outer solve
linalg (x, /, *, keepdims=False, ord='fro'): matrix_norm
linalg (x, n, /): matrix_power
linalg (x, /, *, rtol=None): matrix_rank pinv
linalg (x, /, *, mode='reduced'): qr
linalg (x, /, *, full_matrices=True): svd
linalg (x1, x2, /, *, axes=2): tensordot
linalg (x, /, *, offset=0, dtype=None): trace
linalg (x, /, *, axis=None, keepdims=False, ord=2): vector_norm
fft (x, /, *, n=None, axis=-1, norm='backward'): fft hfft ifft ihfft irfft rfft
fft (n, /, *, d=1.0, dtype=None, device=None): fftfreq rfftfreq
fft (x, /, *, s=None, axes=None, norm='backward'): fftn ifftn irfftn rfftn
fft (x, /, *, axes=None): fftshift ifftshift
"""
TYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
    "complex64", "complex128",
]  # fmt: skip
KINDS = {
    "bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu", "real floating": "f",
    "complex floating": "c", "numeric": "iufc",
}  # fmt: skip


def expected_signatures() -> list[tuple[str, str, str]]:
    found = []
    for line in re.sub(r"\n +", " ", SIGNATURES.strip()).splitlines():
        where, parameters, names = re.fullmatch(r"(\w+) (\(.*\)): (.*)", line).groups()  # type: ignore[union-attr]
        found += [(where, name, parameters) for name in names.split()]
    return found


@pytest.mark.parametrize("where, name, parameters", expected_signatures())
def test_a_function_has_the_parameters_of_the_standard(
    where: str, name: str, parameters: str
) -> None:
    function = getattr(xp if where == "main" else getattr(xp, where), name)
    given = [p.replace(annotation=p.empty) for p in inspect.signature(function).parameters.values()]
    assert str(inspect.Signature(given)) == parameters
    assert function.__name__ == name and function.__doc__


def test_constants_and_version() -> None:
    assert xp.__array_api_version__ == "2024.12"
    assert (xp.newaxis, xp.pi, xp.e, xp.inf) == (None, np.pi, np.e, np.inf) and np.isnan(xp.nan)
    assert {*TYPES, "pi", "fft", "linalg"} <= set(xp.__all__) <= set(dir(xp))


def test_versions_of_the_namespace() -> None:
    x = weft.ones(1)
    assert x.__array_namespace__(api_version="2023.12") is xp
    with pytest.raises(ValueError, match="no version '1999.12'"):
        x.__array_namespace__(api_version="1999.12")


def test_what_the_namespace_says_of_itself() -> None:
    info = xp.__array_namespace_info__()
    assert info.capabilities()["boolean indexing"] and info.capabilities()["data-dependent shapes"]
    assert info.default_device() in info.devices()
    assert info.default_dtypes() == {
        "real floating": xp.float32, "complex floating": xp.complex64, "integral": xp.int64,
        "indexing": xp.int64,
    }  # fmt: skip
    assert info.dtypes() == {name: getattr(weft, name) for name in TYPES}
    for kind, letters in KINDS.items():
        wanted = {name for name in TYPES if np.dtype(name).kind in letters}
        assert set(info.dtypes(kind=kind)) == wanted
        assert {name for name in TYPES if xp.isdtype(getattr(xp, name), kind)} == wanted
    assert set(info.dtypes(kind=("bool", "real floating"))) == {"bool", "float32", "float64"}
    with pytest.raises(ValueError, match="unknown kind"):
        info.dtypes(kind="quaternion")


def joins(first: str, second: str) -> bool:
    """Whether the standard says what an operation on two types gives."""
    kinds = {np.dtype(name).kind for name in (first, second)}
    mixed = kinds == {"i", "u"} and "uint64" in (first, second)
    return (len(kinds) == 1 or kinds <= set("iu") or kinds <= set("fc")) and not mixed


@pytest.mark.parametrize("first", TYPES)
def test_promotion_of_types_and_of_arrays_without_dimensions(first: str) -> None:
    for second in TYPES:
        if not joins(first, second):
            continue
        wanted = np.promote_types(first, second).name
        types = getattr(xp, first), getattr(xp, second)
        assert xp.result_type(*types).name == wanted
        assert xp.can_cast(*types) == (wanted == second)
        arrays = xp.ones((), dtype=types[0]), xp.ones(3, dtype=types[1])
        assert xp.result_type(*arrays).name == wanted
        where = xp.where(xp.ones(3, dtype=xp.bool), *arrays)
        joined = xp.concat([arrays[0].reshape(1), arrays[1]])
        assert where.dtype.name == joined.dtype.name == wanted
        assert xp.equal(*arrays).dtype is xp.bool


def test_numbers_take_the_type_of_the_array() -> None:
    for name, number in itertools.product(TYPES[1:], (True, 2, 2.0, 2j)):
        array = xp.ones(2, dtype=getattr(xp, name))
        order = "biufc"
        kind, array_kind = np.dtype(type(number)).kind, np.dtype(name).kind
        if kind in "bi" or order.index(kind) <= order.index(array_kind):
            assert xp.multiply(number, array).dtype is array.dtype
        elif kind == "c" and array_kind == "f":
            assert xp.multiply(array, number).dtype is array.dtype.to_complex()
        else:
            with pytest.raises(TypeError, match=f"{type(number).__name__} with an array of {name}"):
                xp.multiply(array, number)
    with pytest.raises(TypeError, match="at least one operand has to be an array"):
        xp.add(1, 2)
    with pytest.raises(RuntimeError, match="no integer type holds both uint64 and int8"):
        xp.add(xp.ones(1, dtype=xp.uint64), xp.ones(1, dtype=xp.int8))


@pytest.mark.parametrize("name", TYPES[1:])
def test_limits(name: str) -> None:
    dtype = getattr(xp, name)
    if np.dtype(name).kind in "iu":
        found, wanted = xp.iinfo(dtype), np.iinfo(name)
    else:
        found, wanted = xp.finfo(dtype), np.finfo(name)
        assert found.eps == wanted.eps and found.smallest_normal == wanted.smallest_normal
        assert found.dtype.name == wanted.dtype.name
    assert (found.bits, found.max, found.min) == (wanted.bits, wanted.max, wanted.min)
    assert type(found.max) in (int, float)


def test_the_array_object() -> None:
    x = weft.ones(2, 3)
    assert x.to_device(x.device) is x and x.mT.shape == (3, 2) and x.ndim == 2
    with pytest.raises(RuntimeError, match="cuda"):
        x.to_device("cuda")
    with pytest.raises(TypeError, match="streams"):
        x.to_device("cpu", stream=3)
    assert np.from_dlpack(xp.from_dlpack(np.arange(3, dtype=np.uint16))).tolist() == [0, 1, 2]
