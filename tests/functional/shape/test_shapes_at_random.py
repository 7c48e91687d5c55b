"""Functions on shapes and layouts that nobody thought of, against NumPy: no dimensions or eight, sizes of zero, strides
of millions, steps backwards, whatever views make of one another. Values are small whole numbers: results are exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from properties import QUICK

DTYPES = ("float64", "float32", "int64", "int32", "uint8", "bool", "bfloat16", "complex64")
SOME = settings(QUICK, max_examples=100)
Pair = tuple[Any, Any]  # an array, and the tensor that is to be the same


def as_weft(array: Any, dtype: str) -> Any:
    """The array's values, in NumPy's wide type, as a tensor of a type."""
    return weft.tensor(array.tolist()).reshape(array.shape).to(getattr(weft, dtype))


def wide(dtype: str) -> Any:
    """What NumPy computes a type in, where it lacks it."""
    return np.float64 if dtype == "bfloat16" else np.dtype(dtype)


@st.composite
def leaves(draw: Any) -> Pair:
    """A tensor with memory of its own, or an array's."""
    dtype = draw(st.sampled_from(DTYPES))
    rank = draw(st.integers(0, 8))
    longest = {0: 1, 1: 40, 2: 9, 3: 5, 4: 4}.get(rank, 2)
    shape = tuple(draw(st.integers(0 if draw(st.booleans()) else 1, longest)) for _ in range(rank))
    count = int(np.prod(shape))
    low = 0 if dtype in ("uint8", "bool") else -2
    values = np.random.default_rng(draw(st.integers(0, 99))).integers(low, 3, count)
    array = values.reshape(shape).astype(wide(dtype))
    if dtype != "bfloat16" and draw(st.booleans()):
        array = np.asfortranarray(array)
        return array.copy("K"), weft.from_numpy(array)
    return array, as_weft(array, dtype)


def permuted(draw: Any, x: Any, t: Any) -> Pair:
    order = draw(st.permutations(range(x.ndim)))
    return x.transpose(order), t.permute(*order) if order else t


def stepped(draw: Any, x: Any, t: Any) -> Pair:
    parts = tuple(draw(slices(size)) for size in x.shape)
    return x[parts], t[parts]


def broadcast(draw: Any, x: Any, t: Any) -> Pair:
    if x.ndim == 8:
        return x, t
    size = draw(st.integers(0, 3))
    return np.broadcast_to(x, (size, *x.shape)), t.expand(size, *t.shape)


def widened(draw: Any, x: Any, t: Any) -> Pair:
    if x.ndim == 8:
        return x, t
    dim = draw(st.integers(-x.ndim - 1, x.ndim))
    return np.expand_dims(x, dim), t.unsqueeze(dim)


def far_apart(draw: Any, x: Any, t: Any) -> Pair:
    """The same elements, a million places from one another, behind a dimension whose stride is never walked."""
    if x.size > 6 or x.ndim > 6 or t.dtype is weft.bfloat16:
        return x, t
    stride = 1_000_003
    memory = weft.zeros(max(x.size, 1) * stride, dtype=t.dtype)
    flat = memory.as_strided((x.size,), (stride,), 1)
    flat.copy_(t.reshape(-1))
    strides = [stride * int(np.prod(x.shape[dim + 1 :])) for dim in range(x.ndim)]
    return x[None], memory.as_strided((1, *x.shape), (2**40, *strides), 1)


def diagonal(draw: Any, x: Any, t: Any) -> Pair:
    if x.ndim < 2:
        return x, t
    first, second = draw(st.permutations(range(x.ndim)))[:2]
    offset = draw(st.integers(-2, 2))
    offset = max(min(offset, x.shape[second]), -x.shape[first])
    return np.diagonal(x, offset, first, second), t.diagonal(offset, first, second)


def windows(draw: Any, x: Any, t: Any) -> Pair:
    if not 0 < x.ndim < 8:
        return x, t
    dim = draw(st.integers(0, x.ndim - 1))
    size, step = draw(st.integers(0, x.shape[dim])), draw(st.integers(1, 3))
    seen = np.lib.stride_tricks.sliding_window_view(x, size, dim) if size else None
    if seen is None:
        return x, t
    return np.moveaxis(np.moveaxis(seen, dim, 0)[::step], 0, dim), t.unfold(dim, size, step)


VIEWS = (permuted, stepped, broadcast, widened, far_apart, diagonal, windows)


@st.composite
def slices(draw: Any, size: int) -> slice:
    """Any slice of a dimension: backwards, beyond its ends, of nothing."""
    ends = st.none() | st.integers(-size - 2, size + 2)
    return slice(draw(ends), draw(ends), draw(st.sampled_from([None, 1, 2, 3, -1, -2])))


@st.composite
def pairs(draw: Any) -> Pair:
    """A tensor behind up to three views."""
    x, t = draw(leaves())
    for view in draw(st.lists(st.sampled_from(VIEWS), max_size=3)):
        x, t = view(draw, x, t)
    return x, t


def same(t: Any, x: Any) -> None:
    """Errors: AssertionError unless a tensor has an array's shape and values."""
    x = np.asarray(x)
    assert tuple(t.shape) == x.shape, (t.shape, x.shape)
    got = (t.float() if t.dtype is weft.bfloat16 else t).numpy()
    np.testing.assert_array_equal(got, x.astype(got.dtype))


def both(t: Callable[[], Any], x: Callable[[], Any]) -> None:
    """What NumPy computes, Weft computes; what it refuses, Weft refuses."""
    try:
        wanted = x()
    except (ValueError, IndexError, TypeError):
        with pytest.raises((RuntimeError, IndexError, ValueError, TypeError, NotImplementedError)):
            weft.realize(t())
        return
    same(t(), wanted)


@SOME
@given(pairs())
def test_a_view_shows_its_elements(pair: Pair) -> None:
    x, t = pair
    same(t, x)
    assert t.numel() == x.size
    same(t.contiguous(), x)
    assert t.contiguous().is_contiguous()
    same(t.clone(), x)
    same(t.reshape(-1), x.reshape(-1))
    assert np.array_equal(np.array(t.tolist(), x.dtype).reshape(x.shape), x)


ELEMENTWISE: dict[str, tuple[Any, Any]] = {
    "mul": (lambda t: t * 2, lambda x: x * 2),
    "square": (lambda t: t.square() if t.dtype is not weft.bool else t & t, lambda x: x**2),
    "ne": (lambda t: t != 1, lambda x: x != 1),
    "where": (lambda t: weft.where(t == 1, 0, t), lambda x: np.where(x == 1, 0, x)),
    "flip": (lambda t: t.flip(list(range(t.dim()))), lambda x: np.flip(x)),
    "roll": (lambda t: t.roll(3), lambda x: np.roll(x, 3)),
    "stack": (lambda t: weft.stack([t, t * 1], -1), lambda x: np.stack([x, x], -1)),
    "in place": (lambda t: t.clone().mul_(3), lambda x: x * 3),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
@settings(SOME, max_examples=30)
@given(pairs())
def test_elements(name: str, pair: Pair) -> None:
    x, t = pair
    ours, theirs = ELEMENTWISE[name]
    if x.dtype == np.bool_ and name in ("square", "in place"):
        return
    same(ours(t), theirs(x))


@SOME
@given(pairs(), st.data())
def test_two_broadcast(pair: Pair, data: st.DataObject) -> None:
    x, t = pair
    u, v = x, t
    for view in data.draw(st.lists(st.sampled_from([permuted, broadcast, widened]), max_size=2)):
        u, v = view(data.draw, u, v)
    both(lambda: t == v, lambda: x == u)
    if x.dtype != np.bool_:
        both(lambda: t + v * 2, lambda: x + u * 2)


REDUCED = {
    "sum": np.sum, "prod": np.prod, "amax": np.max, "amin": np.min, "any": np.any, "all": np.all,
    "count_nonzero": np.count_nonzero,
}  # fmt: skip


@pytest.mark.parametrize("name", REDUCED)
@settings(SOME, max_examples=40)
@given(pairs(), st.data())
def test_reductions(name: str, pair: Pair, data: st.DataObject) -> None:
    x, t = pair
    if x.dtype.kind == "c" and name in ("amax", "amin"):
        return
    some = data.draw(st.lists(st.sampled_from(range(max(x.ndim, 1))), unique=True, min_size=1))
    dims = tuple(dim - x.ndim if data.draw(st.booleans()) else dim for dim in some if x.ndim)
    if name == "prod":  # of one dimension, and of few numbers
        dims = dims[:1]
        x, t = np.sign(x) if x.dtype != np.bool_ else x, t.sgn() if x.dtype != np.bool_ else t
    keep = data.draw(st.booleans()) and name != "count_nonzero"
    options = {"keepdim": True} if keep else {}
    axes = {"keepdims": True} if keep else {}
    kind = {"dtype": np.int64} if x.dtype == np.bool_ and name in ("sum", "prod") else {}
    if dims or name != "prod":
        dim = dims[0] if name == "prod" else dims
        both(
            lambda: getattr(t, name)(dim, **options) if dims else getattr(t, name)(),
            lambda: REDUCED[name](x, axis=dims or None, **axes, **kind),
        )


@SOME
@given(pairs(), st.data())
def test_along_a_dimension(pair: Pair, data: st.DataObject) -> None:
    x, t = pair
    dim = data.draw(st.integers(-max(x.ndim, 1), max(x.ndim, 1) - 1))
    if x.dtype.kind == "c" or not x.ndim:
        return
    kind = np.int64 if x.dtype.kind in "iub" else x.dtype
    both(lambda: t.cumsum(dim), lambda: x.cumsum(dim, dtype=kind))
    both(lambda: t.sort(dim, stable=True)[0], lambda: np.sort(x, dim))
    both(
        lambda: t.sort(dim, stable=True)[1], lambda: np.argsort(x.astype(float), dim, kind="stable")
    )
    both(lambda: weft.cat([t, t], dim), lambda: np.concatenate([x, x], dim))
    both(lambda: t.repeat_interleave(2, dim), lambda: np.repeat(x, 2, dim))
    if x.dtype != np.bool_:
        both(lambda: t.argmax(dim), lambda: x.argmax(dim))


@st.composite
def indices(draw: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """An index of a shape: slices, None, `...`, and numbers or lists (beside a list NumPy takes a number for one)."""
    places: list[Any] = []
    common = draw(st.integers(1, 3))
    lists = draw(st.booleans())
    for size in shape[: draw(st.integers(0, len(shape)))]:
        kinds = [draw(slices(size))]
        if size:
            number = st.integers(-size, size - 1)
            several = st.lists(number, min_size=common, max_size=common)
            kinds.append(draw(several if lists else number))
        places.append(draw(st.sampled_from(kinds)))
    if draw(st.booleans()):
        places.insert(draw(st.integers(0, len(places))), None)
    if draw(st.booleans()):
        places.append(Ellipsis)
    return tuple(places)


@SOME
@given(pairs(), st.data())
def test_indices(pair: Pair, data: st.DataObject) -> None:
    x, t = pair
    index = data.draw(indices(x.shape))
    if len(x.shape) == 8 and None in index:
        return
    both(lambda: t[index], lambda: x[index])
    mask = x == 1
    both(lambda: t[t == 1], lambda: x[mask])
    dim = data.draw(st.integers(0, max(x.ndim - 1, 0)))
    if x.ndim:
        chosen = data.draw(st.lists(st.integers(0, max(x.shape[dim] - 1, 0)), max_size=4))
        chosen = chosen if x.shape[dim] else []
        where = weft.tensor(chosen, dtype=weft.int64)
        both(lambda: t.index_select(dim, where), lambda: np.take(x, np.array(chosen, int), dim))


@SOME
@given(pairs(), st.data())
def test_writes(pair: Pair, data: st.DataObject) -> None:
    x, t = pair
    index = data.draw(indices(x.shape))
    if any(isinstance(part, slice) and (part.step or 1) < 0 for part in index):
        return
    array, tensor = np.array(x), t.clone()
    array[index] = 1
    tensor[index] = 1
    same(tensor, array)
    array[array == 1] = 0
    tensor[tensor == 1] = 0
    same(tensor, array)


@SOME
@given(pairs(), st.data())
def test_products_of_matrices(pair: Pair, data: st.DataObject) -> None:
    x, t = pair
    if x.ndim < 2 or x.dtype == np.bool_:
        return
    both(lambda: t @ t.mT, lambda: x @ np.swapaxes(x, -1, -2))
    both(lambda: t.mT @ t[..., 0], lambda: np.swapaxes(x, -1, -2) @ x[..., 0])
