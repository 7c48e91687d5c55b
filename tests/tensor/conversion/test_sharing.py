"""Memory shared with NumPy and others: both sides see writes, recorded operations never do; copies and pickles."""

from __future__ import annotations

import copy
import gc
import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch


def test_from_numpy_and_back_share_memory() -> None:
    array = np.arange(6.0).reshape(2, 3)
    x = weft.from_numpy(array)
    array[0, 0] = 10
    assert x[0, 0].item() == 10
    x[1] = -1.0
    assert array.tolist() == [[10, 1, 2], [-1, -1, -1]]
    x.numpy()[0] = 5
    assert x.tolist() == [[5, 5, 5], [-1, -1, -1]]


def test_strided_arrays_and_views_of_them() -> None:
    array = np.arange(12.0).reshape(3, 4)
    x = weft.from_numpy(array[:, ::2])
    assert x.stride() == (4, 2)
    x.t()[1].zero_()
    assert array[:, 2].tolist() == [0, 0, 0]
    assert array[:, 1].tolist() == [1, 5, 9]


def test_a_recorded_operation_reads_at_its_call() -> None:
    array = np.ones(3)
    x = weft.from_numpy(array)
    y = x + 1
    z = x[1:] * 3
    array[:] = 100
    assert y.tolist() == [2, 2, 2]
    assert z.tolist() == [3, 3]
    assert x.tolist() == [100, 100, 100]


def test_exporting_leaves_pending_readers_their_value() -> None:
    x = weft.zeros(3) + 1
    y = x * 5
    x.numpy()[:] = 7
    assert y.tolist() == [5, 5, 5]
    assert x.tolist() == [7, 7, 7]


def test_exporting_leaves_saved_values_alone() -> None:
    x = weft.ones(3, requires_grad=True)
    y = x * 2
    z = y * y
    y.detach().numpy()[:] = 99
    z.sum().backward()
    assert x.grad.tolist() == [8, 8, 8]
    assert y.tolist() == [99, 99, 99]


def test_in_place_operations_reach_exported_arrays_at_once() -> None:
    x = weft.zeros(2, 2)
    array = x.numpy()
    x += 1
    x[0].mul_(3)
    assert array.tolist() == [[3, 3], [1, 1]]


def test_exported_memory_is_weft_s_again_when_the_array_is_gone() -> None:
    x = weft.arange(3.0)
    array = x.numpy()
    part = array[1:]
    del array
    gc.collect()
    part[:] = 5
    assert (x * 1).tolist() == [0, 5, 5]
    del part
    gc.collect()
    assert (x * 1).tolist() == [0, 5, 5]
    assert x._storage.foreign is None


def test_read_only_arrays_warn_and_are_never_written() -> None:
    array = np.arange(3.0)
    array.flags.writeable = False
    with pytest.warns(UserWarning, match="not writable"):
        x = weft.from_numpy(array)
    x += 1
    assert x.tolist() == [1, 2, 3]
    assert array.tolist() == [0, 1, 2]


def test_numpy_of_what_requires_grad() -> None:
    x = weft.ones(2, requires_grad=True)
    with pytest.raises(
        RuntimeError, match=r"(?s)Can't call numpy\(\) on Tensor that requires grad.*fix"
    ):
        x.numpy()
    assert x.numpy(force=True).tolist() == [1, 1]
    with pytest.raises(TypeError, match="(?s)Got unsupported ScalarType BFloat16.*fix"):
        weft.ones(2, dtype=weft.bfloat16).numpy()


def test_numpy_functions_and_operators() -> None:
    x = weft.tensor([0.0, 1.0])
    assert isinstance(np.sin(x), weft.Tensor)
    total = x + np.array([1.0, 2.0])
    assert isinstance(total, weft.Tensor)
    assert total.dtype is weft.float64
    for made in (np.array([1.0, 2.0]) + x, np.array([1.0, 2.0]) * x):
        assert isinstance(made, weft.Tensor)
    assert (np.float32(2) * x).dtype is weft.float32
    assert np.asarray(x).dtype == np.float32
    assert np.array([weft.tensor(1.0), weft.tensor(2.0)]).tolist() == [1, 2]


def test_dlpack_goes_both_ways() -> None:
    x = weft.arange(3.0)
    array = np.from_dlpack(x)
    x += 1
    assert array.tolist() == [1, 2, 3]
    source = np.arange(3.0)
    y = weft.from_dlpack(source)
    source[0] = 9
    assert y.tolist() == [9, 1, 2]
    theirs = torch.ones(2)
    ours = weft.from_dlpack(theirs)
    theirs.zero_()
    assert ours.tolist() == [0, 0]
    assert torch.from_dlpack(weft.ones(3)).tolist() == [1, 1, 1]
    capsule = weft.utils.dlpack.to_dlpack(x)
    weft.utils.dlpack.from_dlpack(capsule).zero_()
    assert x.tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="(?s)taken once.*fix"):
        weft.from_dlpack(capsule)
    assert weft.from_dlpack(x, copy=True).add_(1).tolist() == [1, 1, 1] and x.tolist() == [0, 0, 0]
    with pytest.raises(BufferError, match="(?s)require gradient.*fix"):
        np.from_dlpack(weft.ones(2, requires_grad=True))


def test_bfloat16_goes_through_dlpack_as_itself() -> None:
    theirs = torch.ones(2, 3, dtype=torch.bfloat16)
    ours = weft.from_dlpack(theirs.T)
    theirs[0, 1] = 3
    assert ours.dtype is weft.bfloat16 and ours.stride() == (1, 3)
    assert ours.tolist() == [[1, 1], [3, 1], [1, 1]]
    back = torch.from_dlpack(weft.from_dlpack(ours))
    back.zero_()
    assert back.dtype is torch.bfloat16 and theirs.sum() == 0 and ours.tolist() == [[0, 0]] * 3


def test_frombuffer_reads_and_writes_the_buffer() -> None:
    memory = bytearray(range(8))
    x = weft.frombuffer(memory, dtype=weft.uint8, count=4, offset=2)
    assert x.tolist() == [2, 3, 4, 5]
    x.zero_()
    assert list(memory) == [0, 1, 0, 0, 0, 0, 6, 7]


def test_as_tensor_shares_and_tensor_copies() -> None:
    array = np.zeros(2)
    shared, copied = weft.as_tensor(array), weft.tensor(array)
    array[:] = 1
    assert shared.tolist() == [1, 1]
    assert copied.tolist() == [0, 0]
    assert weft.as_tensor(shared) is shared
    with pytest.raises(ValueError, match="(?s)can't alias.*fix"):
        weft.asarray([1.0], copy=False)


def test_addresses_agree_where_memory_does() -> None:
    x = weft.ones(4)
    assert x.data_ptr() == x.view(2, 2).data_ptr() == x.detach().data_ptr()
    assert x[1:].data_ptr() - x.data_ptr() == 4
    assert x.data_ptr() != x.clone().data_ptr()
    array = np.zeros(3)
    assert weft.from_numpy(array).data_ptr() == array.ctypes.data


# -- copies and pickles ----------------------------------------------------------------------------


def round_trip(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("copy_of", [copy.deepcopy, round_trip])
def test_sharing_survives_a_copy_and_stays_inside(copy_of: Any) -> None:
    x = weft.arange(4.0)
    made = copy_of({"all": x, "part": x[1:3], "turned": x.view(2, 2).t()})
    made["part"].zero_()
    assert made["all"].tolist() == [0, 0, 0, 3]
    assert made["turned"].tolist() == [[0, 0], [0, 3]]
    assert made["turned"].stride() == (1, 2)
    assert x.tolist() == [0, 1, 2, 3]


def test_deepcopy_takes_the_gradient_and_pickle_does_not() -> None:
    x = weft.ones(2, requires_grad=True)
    x.grad = weft.tensor([3.0, 4.0])
    x.note = "kept"
    copied, loaded = copy.deepcopy(x), round_trip(x)
    assert copied.requires_grad
    assert copied.grad.tolist() == [3, 4]
    assert copied.grad is not x.grad
    assert loaded.requires_grad
    assert loaded.grad is None
    assert copied.note == loaded.note == "kept"


def test_a_computed_tensor_pickles_as_a_leaf_and_does_not_deepcopy() -> None:
    y = weft.ones(2, requires_grad=True) * 2
    loaded = round_trip(y)
    assert loaded.is_leaf
    assert loaded.requires_grad
    with pytest.raises(RuntimeError, match="(?s)Only Tensors created explicitly by the user.*fix"):
        copy.deepcopy(y)


def test_hooks_are_lost_with_a_warning() -> None:
    x = weft.ones(2, requires_grad=True)
    x.register_hook(lambda gradient: None)
    with pytest.warns(UserWarning, match="will not be serialized"):
        pickle.dumps(x)


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int64", "float16", "bfloat16", "float32", "complex64"]
)
def test_every_dtype_pickles(dtype: str) -> None:
    x = weft.tensor([0, 1, 3]).to(getattr(weft, dtype))
    loaded = round_trip(x)
    assert loaded.dtype is x.dtype
    assert loaded.tolist() == x.tolist()


def test_foreign_memory_is_copied_by_copies() -> None:
    array = np.zeros(2)
    x = weft.from_numpy(array)
    copies = [copy.deepcopy(x), round_trip(x)]
    array[:] = 1
    assert [made.tolist() for made in copies] == [[0, 0], [0, 0]]


def test_no_elements_behind_the_end_of_their_memory_are_shared() -> None:
    x = weft.from_numpy(np.zeros((0, 2)))
    assert x[:, ::-1].numpy().shape == (0, 2)


def test_dtypes_devices_and_sizes_pickle_as_themselves() -> None:
    assert round_trip(weft.float32) is weft.float32
    assert round_trip(weft.device("cpu")) == weft.device("cpu")
    assert round_trip(weft.ones(2, 3).shape) == weft.Size([2, 3])
    assert round_trip(weft.preserve_format) is weft.preserve_format


def test_nothing_warns_in_ordinary_use() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = weft.from_numpy(np.ones(3)) * 2
        str(x), x.numpy(), float(x.sum())


def test_arrays_of_parts_without_elements_have_their_type() -> None:
    z = weft.ones(0, dtype=weft.complex64)
    assert z.real.numpy().dtype == z.imag.numpy().dtype == np.float32


def _is_shared(x: weft.Tensor) -> bool:
    """True if an operation has to copy what it reads of a tensor, since others can write its memory."""
    x.sum()
    return x._storage.foreign is not None


def test_an_array_that_is_gone_is_no_longer_copied_at_each_call() -> None:
    array = np.arange(12.0).reshape(3, 4).copy()
    x = weft.from_numpy(array)
    assert _is_shared(x)
    row = array[1]
    del array
    assert _is_shared(x)  # a view of it can still be written
    row[:] = 7
    assert x[1].tolist() == [7, 7, 7, 7]
    del row
    assert not _is_shared(x)
    x.add_(1)
    assert x[1].tolist() == [8, 8, 8, 8]


def test_an_array_of_a_moment_has_its_tensor_alone() -> None:
    made = [  # outside of what pytest rewrites: it keeps each part of an assertion
        weft.from_numpy(np.arange(12.0)),
        weft.from_numpy(np.arange(12.0).reshape(3, 4)),
        weft.as_tensor(np.ones((2, 3), np.float32)),
    ]
    assert not any(map(_is_shared, made))


def test_what_is_handed_out_keeps_memory_shared() -> None:
    x = weft.from_numpy(np.arange(4.0))
    array = x.numpy()
    assert _is_shared(x)
    array[0] = 9
    assert x[0].item() == 9
    del array
    assert not _is_shared(x)
    addressed = weft.from_numpy(np.arange(4.0))
    addressed.data_ptr()
    assert _is_shared(addressed)


def test_holders_that_cannot_be_counted_keep_memory_shared() -> None:
    whole = np.arange(12.0)
    assert _is_shared(weft.from_numpy(whole.reshape(3, 4)))
    assert _is_shared(weft.from_numpy(np.asarray(memoryview(np.arange(4.0)))))
    assert _is_shared(weft.from_numpy(np.frombuffer(bytearray(16), np.float32)))
    first = weft.from_numpy(whole)
    second = weft.from_numpy(whole)
    del whole
    second[0] = 5
    assert _is_shared(first)
    assert first[0].item() == 5


LARGE = (300, 40)  # beyond what a copy of the whole costs less than a run


def test_elements_of_large_shared_memory_are_read_at_the_call() -> None:
    array = np.arange(12000.0).reshape(LARGE)
    x = weft.from_numpy(array)
    rows, columns = weft.tensor([3, 299, 3]), weft.tensor([[1] * 40, [2] * 40])
    read = {
        "rows": (lambda t: t[rows], lambda a: a[[3, 299, 3]]),
        "index_select": (lambda t: t.index_select(1, rows % 40), lambda a: a[:, [3, 19, 3]]),
        "gather": (lambda t: t.gather(0, columns), lambda a: a[[1, 2]]),
        "embedding": (
            lambda t: weft.nn.functional.embedding(rows, t),
            lambda a: a[[3, 299, 3]],
        ),
        "view": (lambda t: t[10:, ::2][rows % 9], lambda a: a[10:, ::2][[3, 2, 3]]),
    }
    for ours, theirs in read.values():
        found, wanted = ours(x), theirs(array).copy()
        array += 1
        np.testing.assert_array_equal(found.numpy(), wanted)
        np.testing.assert_array_equal(ours(x).numpy(), theirs(array))


def test_elements_of_large_shared_memory_follow_transforms_and_gradients() -> None:
    array = np.arange(12000.0).reshape(LARGE)
    x = weft.from_numpy(array)
    rows = weft.tensor([[3, 4], [5, 299]])
    found = weft.vmap(lambda index: x[index].sum())(rows)
    leaf = weft.from_numpy(array).requires_grad_()
    picked = leaf[rows[0]].square().sum()
    array[:] = 0
    assert found.tolist() == [sum(range(120, 200)), sum(range(200, 240)) + sum(range(11960, 12000))]
    picked.backward()
    assert leaf.grad is not None
    assert leaf.grad[3].tolist() == [2.0 * n for n in range(120, 160)]
    with pytest.raises(IndexError):
        x[weft.tensor([300])].sum().item()


@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.bool_, np.complex64])
def test_regions_of_shared_memory_are_read_at_the_call(dtype: Any) -> None:
    array = (np.arange(24) % 5).astype(dtype).reshape(4, 6)
    x = weft.from_numpy(array)
    regions = {
        "row": lambda t: t[2],
        "rows": lambda t: t[1:3],
        "column": lambda t: t[:, 1],
        "nothing": lambda t: t[4:],
        "element": lambda t: t[3, 5],
        "elements": lambda t: t[weft.tensor([1, 3]), weft.tensor([0, 5])],
    }
    for name, region in regions.items():
        wanted = region(weft.tensor(array)).numpy()
        found = region(x).clone()
        array[...] = ~array if dtype is np.bool_ else array + 1
        np.testing.assert_array_equal(found.numpy(), wanted, err_msg=name)


def test_positions_in_large_shared_memory() -> None:
    array = np.arange(12000.0).reshape(LARGE)
    x = weft.from_numpy(array)
    rows, columns = weft.tensor([3, 299]), weft.tensor([0, 39])
    found, turned = x[rows, columns], x.t()[columns, rows]
    array += 1
    assert found.tolist() == turned.tolist() == [120.0, 11999.0]
    assert x[rows, columns].tolist() == [121.0, 12000.0]
