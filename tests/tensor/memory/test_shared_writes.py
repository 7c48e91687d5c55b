"""Writes through tensors into memory that others see: as PyTorch's, in the same memory, whole or not at all."""

import numpy as np
import pytest

import weft
from oracle import torch
from weft.errors import IndexRangeError

ROWS, COLUMNS = 300, 40  # more bytes than are copied without a second thought
INDEX = [3, 7, 3, 299, 0]

UPDATES = {
    "row": lambda x, i, s: x.__setitem__(5, s[0]),
    "index": lambda x, i, s: x.__setitem__(i, s),
    "index and number": lambda x, i, s: x.__setitem__(i, 2.5),
    "negative": lambda x, i, s: x.__setitem__(i - x.shape[0], 2.5),
    "two indices": lambda x, i, s: x.__setitem__((i, i % 7), 1.5),
    "computed index": lambda x, i, s: x.__setitem__((i * 5 + 2) % x.shape[0], s),
    "columns": lambda x, i, s: x.__setitem__((slice(None), i % 7), -1.0),
    "mask": lambda x, i, s: x.__setitem__(x > 0.5, 0.0),
    "mask of rows": lambda x, i, s: x.__setitem__(x[:, 0] > 0.5, 0.0),
    "slice": lambda x, i, s: x.__setitem__(slice(10, 15), s),
    "index_add": lambda x, i, s: x.index_add_(0, i, s, alpha=2),
    "index_copy": lambda x, i, s: x.index_copy_(0, i, s),
    "index_fill": lambda x, i, s: x.index_fill_(0, i, 4.0),
    "index_put": lambda x, i, s: x.index_put_((i,), s, accumulate=True),
    "scatter": lambda x, i, s: x.scatter_(0, i[:, None].expand(5, s.shape[1]), s[:1].expand(5, -1)),
    "scatter_add": lambda x, i, s: x.scatter_add_(0, i[:, None].expand(5, s.shape[1]), s),
    "put": lambda x, i, s: x.put_(i, s[:, 0]),
    "masked_fill": lambda x, i, s: x.masked_fill_(x < 0.2, 9.0),
    "masked_scatter": lambda x, i, s: x.masked_scatter_(x < 0.01, x.clone()),
    "add": lambda x, i, s: x.add_(1.5),
    "operator": lambda x, i, s: x.__imul__(2),
    "itself": lambda x, i, s: x.add_(x),
    "its transpose": lambda x, i, s: x[:40, :20].copy_(x[:20, :20].T.repeat(2, 1)),
    "its other rows": lambda x, i, s: x[1:].add_(x[:-1].clone()),
    "clamp": lambda x, i, s: x.clamp_(0.1, 0.7),
    "exp": lambda x, i, s: x.exp_(),
    "addcmul": lambda x, i, s: x.addcmul_(x, x, value=0.5),
    "zero": lambda x, i, s: x.zero_(),
}
VIEWS = {
    "all": lambda x: x,
    "rows": lambda x: x[: ROWS + 10],
    "later rows": lambda x: x[8:],
    "columns": lambda x: x[:, 4:30],
    "transposed": lambda x: x.T[:, :ROWS].T,
    "every other": lambda x: x[::2],
}


def _array():
    return np.random.default_rng(3).random((2 * ROWS, COLUMNS), dtype=np.float32)


def _imported(lib):
    array = _array()
    return array, lib.from_numpy(array)


def _exported(lib):
    made = lib.tensor(_array())
    return made.numpy(), made


SHARED = {"imported": _imported, "exported": _exported}


def _after(lib, share, view, update):
    array, whole = share(lib)
    x = view(whole)
    index = lib.tensor(INDEX)
    source = lib.arange(5.0 * x.shape[1]).reshape(5, x.shape[1]) / 7
    address, version = whole.data_ptr(), x._version
    update(x, index, source)
    assert whole.data_ptr() == address
    assert x._version > version
    assert np.array_equal(array, np.asarray(whole.tolist(), np.float32))
    return array


@pytest.mark.parametrize("update", UPDATES.values(), ids=UPDATES)
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("share", SHARED.values(), ids=SHARED)
def test_memory_is_written_as_by_pytorch(share, view, update):
    """Whoever holds the array sees what an operation in place did, through any view."""
    mine, theirs = (_after(lib, share, view, update) for lib in (weft, torch))
    np.testing.assert_allclose(mine, theirs, rtol=2e-6)


@pytest.mark.parametrize("share", SHARED.values(), ids=SHARED)
def test_what_was_read_before_keeps_its_value(share):
    """Results that are pending when memory is written have what it held at their call."""
    array, x = share(weft)
    before = array.copy()
    sums, doubled, row = x.sum(1), x * 2, x[3] + 1
    x[weft.tensor(INDEX)] = 0
    x.mul_(3)
    assert np.allclose(sums.numpy(), before.sum(1), rtol=1e-5)
    assert np.array_equal(doubled.numpy(), before * 2)
    assert np.array_equal(row.numpy(), before[3] + 1)


@pytest.mark.parametrize(
    "update",
    [
        lambda x, bad: x.__setitem__(bad, 1.0),
        lambda x, bad: x.__setitem__(bad + 0 * bad, 1.0),
        lambda x, bad: x.index_add_(0, bad, weft.ones(2, COLUMNS)),
        lambda x, bad: x.index_add_(0, bad * 1, weft.ones(2, COLUMNS)),
    ],
)
@pytest.mark.parametrize("share", SHARED.values(), ids=SHARED)
def test_a_refused_write_changes_nothing(share, update):
    """An index out of range leaves the memory as it was, and the tensor usable."""
    array, x = share(weft)
    before = array.copy()
    with pytest.raises(IndexRangeError):
        update(x, weft.tensor([0, 10**6]))
        x.sum().item()
    assert np.array_equal(array, before)
    x[weft.tensor([1])] = 7
    assert (array[1] == 7).all()
    assert np.array_equal(array[2:], before[2:])


def test_gradients_follow_writes_into_shared_memory():
    """A write of something that has a gradient is recorded as for other memory."""

    def run(lib):
        array, x = _imported(lib)
        weight = lib.ones(5, COLUMNS, requires_grad=True)
        x.index_add_(0, lib.tensor(INDEX), weight * 3)
        x[lib.tensor([9])] = weight[:1] * 2
        x.square().sum().backward()
        return array, weight.grad

    (mine, gradient), (theirs, expected) = run(weft), run(torch)
    np.testing.assert_allclose(mine, theirs, rtol=1e-6)
    np.testing.assert_allclose(gradient.numpy(), expected.numpy(), rtol=1e-5)


def test_read_only_memory_stays_as_it_is():
    """A tensor parts from memory that may not be written."""
    array = _array()
    array.flags.writeable = False
    before = array.copy()
    with pytest.warns(UserWarning, match="not writable"):
        x = weft.from_numpy(array)
    x[weft.tensor(INDEX)] = 0
    assert np.array_equal(array, before)
    assert x[3].sum().item() == 0


def test_sums_and_products_read_what_is_there_at_the_call():
    """Large memory is summed where it lies, and a later write changes no result."""
    array = np.random.default_rng(1).random((600, 600), dtype=np.float32)
    x = weft.from_numpy(array)
    before = array.copy()
    total, product, both = x.sum(0), x @ weft.ones(600, 2), x @ x
    array[:] = 0
    assert np.allclose(total.numpy(), before.sum(0), rtol=1e-4)
    assert np.allclose(product.numpy(), before @ np.ones((600, 2)), rtol=1e-4)
    assert np.allclose(both.numpy(), before @ before, rtol=1e-4)
    assert x.sum().item() == 0
    weight = weft.ones(600, requires_grad=True)
    array[:] = before
    (x @ weight).sum().backward()
    array[:] = 0
    assert np.allclose(weight.grad.numpy(), before.sum(0), rtol=1e-4)
