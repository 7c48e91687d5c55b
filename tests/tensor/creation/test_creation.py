"""Making tensors: values, dtypes, strides and errors are PyTorch's."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from oracle import torch

SAME = """
tensor(np.float64(1.0))
tensor([np.float64(1.0)])
tensor([np.float32(1.0), 2.0])
tensor([np.array([1., 2.]), [1, 2]])
tensor([np.float32(1.0), np.int64(2)])
tensor([])
tensor([[], []])
tensor([tensor(1), tensor(2.5, dtype=float64)])
tensor([tensor([1]), tensor([3])])
tensor((1, 2.5))
tensor([1, 2.5, 1j])
tensor([True, False, 2])
tensor([-1], dtype=uint8)
tensor(1.5, dtype=int64)
tensor([1.5, -2.7], dtype=int32)
tensor([1.5], dtype=bool)
tensor(1e40)
tensor(np.int32(3))
tensor(np.bool_(1))
tensor([1.1, 2.2], dtype=bfloat16)
tensor([1.1, 2.2, 70000.0], dtype=float16)
tensor(bytearray(b"ab"))
as_tensor([1, 2])
asarray(np.array([1, 2]))
zeros(2, 3)
zeros((2, 3))
zeros([2, 3])
zeros(())
zeros(0)
zeros(size=(2,))
ones(2, dtype=bool)
ones(2, dtype=complex64)
full((2,), 1)
full((2,), True)
full((2,), 1.5, dtype=int32)
full((2,), 1j)
full((2,), tensor(3))
arange(5.0)
arange(5, 1, -1)
arange(0, 1, 0.1)
arange(1, 2.5, 0.5)
arange(5, dtype=float32)
arange(2, 11, 3, dtype=int32)
arange(-5, 5, 4)
arange(tensor(5))
arange(0)
eye(2, 3)
eye(3)
eye(0)
eye(2, dtype=int64)
linspace(0, 1, 5)
linspace(0, 1, 1)
linspace(0, 1, 0)
linspace(0, 10, 5, dtype=int64)
linspace(-3, 7, 8)
linspace(1, 0, 11, dtype=float64)
logspace(0, 2, 3)
logspace(0, 2, 4, base=2)
tril_indices(3, 3)
triu_indices(3, 4, 1)
zeros_like(ones(2, 3).t()).stride()
ones_like(ones(2, 3).t()).stride()
zeros_like(ones(2, 1, 3).expand(2, 4, 3)).stride()
zeros_like(tensor([1, 2]), dtype=float32)
ones_like(tensor([True]))
full_like(tensor([1, 2]), 1.7)
zeros(2, dtype=int32).new_ones(2, 2)
zeros(2).new_full((2,), 1)
zeros(2).new_tensor([1, 2])
zeros(2, dtype=int32).new_tensor([1.5])
zeros(2).new_empty((0,))
zeros(2).new([3])
Tensor()
Tensor([1, 2])
Tensor([[1, 2], [3, 4]])
Tensor(Size([2, 3])).shape
Tensor(tensor([1, 2]))
LongTensor([1.5])
FloatTensor(2, 0)
BoolTensor([1, 0])
zeros(2).type()
zeros(2).type(LongTensor)
tensor([1.5, -1.5]).long()
tensor([1.5, 0]).bool()
tensor([1, 2]).half()
tensor([1, 2]).bfloat16()
tensor([1, 2]).cfloat()
tensor([1, 2]).type_as(tensor(1.))
zeros(2).to('cpu', int32)
zeros(2).to(zeros(1, dtype=int8))
zeros(2).to(dtype=float16)
ones(2, 3).t().double().stride()
ones(2, 3).t().clone().stride()
ones(2, 3).t().clone(memory_format=contiguous_format).stride()
ones(1, 3).expand(2, 3).clone().stride()
ones(2, 3)[:, ::2].clone().stride()
promote_types(int8, uint8)
promote_types(float16, bfloat16)
result_type(tensor([1]), 2.0)
result_type(tensor([1.]), tensor(2., dtype=float64))
can_cast(float32, int32)
can_cast(int32, bool)
finfo(float32)
finfo(float16)
finfo(bfloat16)
finfo(float64)
iinfo(int8)
iinfo(uint8)
Size([1, 2]) + (3,)
Size([2, 3])[1:]
Size([2, 3]).numel()
device('cpu:0')
""".strip().splitlines()


def evaluate(text: str, framework: Any) -> Any:
    names = {name: getattr(framework, name) for name in dir(framework) if not name.startswith("_")}
    names |= {"np": np, "bytearray": bytearray}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eval(text, names)


@pytest.mark.parametrize("text", SAME)
def test_value_is_that_of_pytorch(text: str) -> None:
    got, expected = repr(evaluate(text, weft)), repr(evaluate(text, torch))
    assert got.replace("weft.", "torch.") == expected


ERRORS = """
tensor([1, None]) | RuntimeError | Could not infer dtype of NoneType
tensor('a') | TypeError | new(): invalid data type 'str'
tensor(['a']) | ValueError | too many dimensions 'str'
tensor([[1, 2], [3]]) | ValueError | expected sequence of length 2 at dim 1 (got 1)
tensor([[1], 2]) | TypeError | not a sequence
tensor([1, [2]]) | TypeError | 'list' object cannot be interpreted as
tensor(2 ** 63) | ValueError | Overflow when unpacking long long
tensor([2 ** 64]) | ValueError | Overflow when unpacking long long
tensor(None) | RuntimeError | Could not infer dtype of NoneType
tensor(np.array([None])) | TypeError | can't convert np.ndarray of type
tensor(300, dtype=uint8) | RuntimeError | value cannot be converted to type uint8 without overflow
tensor([300], dtype=uint8) | RuntimeError | value cannot be converted to type uint8 without overflow
tensor(1j, dtype=float32) | TypeError | must be real number, not complex
tensor(1, requires_grad=True) | RuntimeError | Only Tensors of floating point and complex dtype can
tensor([tensor([1, 2])]) | TypeError | only integer tensors of a single element
tensor([tensor([1.0, 2.0])]) | ValueError | only one element tensors can be converted to Python scalars
zeros(2.0) | TypeError | zeros(): argument 'size'
zeros(-1) | RuntimeError | zeros: Dimension size must be non-negative.
zeros('a') | TypeError | must be tuple of ints, not str
arange(1, 5, 0) | RuntimeError | step must be nonzero
arange(5, 1) | RuntimeError | upper bound and lower bound inconsistent with step sign
linspace(0, 1, -1) | RuntimeError | number of steps must be non-negative
eye(-1) | RuntimeError | n must be greater or equal to 0, got -1
Tensor(5.0) | TypeError | new(): data must be a sequence (got float)
from_numpy([1]) | TypeError | expected np.ndarray (got list)
from_numpy(np.zeros(3)[::-1]) | ValueError | At least one stride in the given numpy array is negative
from_numpy(np.zeros(3, '>f4')) | ValueError | byte order different from the native byte order
finfo(int32) | TypeError | requires a floating point input type
iinfo(float32) | TypeError | requires an integer input type
set_default_dtype(int32) | TypeError | only floating-point types are supported as the default type
device('cpux') | RuntimeError | device
zeros(2, dtype='float32') | TypeError | dtype
""".strip().splitlines()


@pytest.mark.parametrize("line", ERRORS)
def test_errors_are_those_of_pytorch(line: str) -> None:
    text, name, message = (part.strip() for part in line.split("|"))
    kind = {"RuntimeError": RuntimeError, "TypeError": TypeError, "ValueError": ValueError}[name]
    with pytest.raises(kind) as theirs:
        evaluate(text, torch)
    with pytest.raises(kind) as ours:
        evaluate(text, weft)
    assert message in str(ours.value)
    assert message.lower() in str(theirs.value).lower()
    if "default type" not in message:
        assert "\n  fix " in str(ours.value)


@pytest.mark.parametrize("make", [lambda: weft.zeros(2, device="cuda"), lambda: weft.ones(2).to("cuda"),
                                  lambda: weft.ones(2).cuda()])  # fmt: skip
def test_a_device_that_does_not_exist(make: Any) -> None:
    with pytest.raises(
        RuntimeError, match=r"(?s)the CPU, the only device.*fix.*weft.cuda.is_available\(\)"
    ):
        make()
    assert not weft.cuda.is_available()


leaves = st.one_of(st.booleans(), st.integers(-(2**62), 2**62), st.floats(width=32))


@settings(deadline=None)
@given(st.lists(st.lists(leaves, min_size=2, max_size=2), max_size=4))
def test_nested_lists_infer_as_pytorch(data: list[list[Any]]) -> None:
    expected, got = torch.tensor(data), weft.tensor(data)
    assert str(got.dtype).removeprefix("weft.") == str(expected.dtype).removeprefix("torch.")
    assert tuple(got.shape) == tuple(expected.shape)
    np.testing.assert_array_equal(np.array(got.tolist()), np.array(expected.tolist()))


@settings(deadline=None)
@given(st.floats(-100, 100), st.floats(-100, 100), st.floats(0.01, 50))
def test_arange_counts_as_pytorch(start: float, end: float, step: float) -> None:
    step = step if end >= start else -step
    expected = torch.arange(start, end, step, dtype=torch.float64)
    got = weft.arange(start, end, step, dtype=weft.float64)
    assert tuple(got.shape) == tuple(expected.shape)
    np.testing.assert_allclose(np.array(got.tolist()), expected.numpy(), rtol=1e-14, atol=1e-12)


def test_a_tensor_larger_than_all_memory_is_refused_where_it_is_made() -> None:
    with pytest.raises(MemoryError, match="(?s)at most .* bytes.*fix"):
        weft.zeros(10**13)
    with pytest.raises(MemoryError, match="(?s)at most .* bytes.*fix"):
        (weft.zeros(1).expand(10**13) + 1).numpy()
    assert (weft.ones(2) * 2).tolist() == [2, 2]


def test_a_new_tensor_is_a_copy_and_a_leaf() -> None:
    array = np.zeros(3, np.float32)
    made = weft.tensor(array, requires_grad=True)
    array[:] = 1
    assert made.tolist() == [0, 0, 0]
    assert made.is_leaf
    assert made.requires_grad


def test_tensor_of_a_tensor_warns_and_copies() -> None:
    source = weft.ones(2)
    with pytest.warns(UserWarning, match="To copy construct from a tensor"):
        made = weft.tensor(source)
    source.zero_()
    assert made.tolist() == [1, 1]


def test_factories_honour_requires_grad_under_no_grad() -> None:
    with weft.no_grad():
        assert weft.ones(2, requires_grad=True).requires_grad


def test_conversions_return_self_when_nothing_changes() -> None:
    x = weft.ones(2, 3)
    assert x.to(weft.float32) is x
    assert x.float() is x
    assert x.cpu() is x
    assert x.to("cpu") is x
    assert x.type(weft.float32) is x
    assert x.to(weft.float32, copy=True) is not x
    assert x.double() is not x


def test_out_keeps_its_dtype_and_is_resized_with_a_warning() -> None:
    out = weft.zeros(3, dtype=weft.float64)
    assert weft.ones(3, out=out) is out
    assert out.tolist() == [1, 1, 1]
    with pytest.warns(UserWarning, match="An output with one or more elements was resized"):
        weft.arange(4, out=out)
    assert out.tolist() == [0, 1, 2, 3]
    empty = weft.zeros(0)
    weft.add(weft.ones(2), 1, out=empty)
    assert empty.tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="(?s)can't be cast.*fix"):
        weft.add(weft.ones(2), 1.5, out=weft.zeros(2, dtype=weft.int64))
    with pytest.raises(RuntimeError, match="(?s)don't support automatic differentiation.*fix"):
        weft.add(weft.ones(2, requires_grad=True), 1, out=weft.zeros(2))


NUMBERS = [1.5, 3, -0.0, 1e40, float("nan"), True, 2**53 + 1, 2**60, 1 + 2j]


@pytest.mark.parametrize("number", NUMBERS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "float16", "bfloat16"])
def test_numbers_of_a_given_type(number, dtype):
    """A number, and lists of it beside others, have the values that PyTorch gives them, or are refused as there."""
    torch = pytest.importorskip("torch")
    for data in (number, [number], [[2, 3], [number, 1]]):
        assert outcome(weft, data, dtype) == outcome(torch, data, dtype)


def outcome(lib, data, dtype):
    try:
        made = lib.tensor(data, dtype=getattr(lib, dtype))
    except (RuntimeError, TypeError):
        return "refused"
    return str(made.dtype).partition(".")[2], repr(made.tolist())


@pytest.mark.parametrize("copied", (None, True))
@pytest.mark.parametrize("dtype", (None, "float64"))
@pytest.mark.parametrize("requires_grad", (False, True))
def test_asarray_keeps_history_where_gradients_are_asked_for(
    requires_grad: bool, dtype: str | None, copied: bool | None
) -> None:
    shown = []
    for lib in (weft, torch):
        x = lib.ones(2, requires_grad=True) * 3
        wanted = dtype and getattr(lib, dtype)
        y = lib.asarray(x, dtype=wanted, copy=copied, requires_grad=requires_grad)
        shared = y.data_ptr() == x.data_ptr()
        shown.append((y.tolist(), y.requires_grad, y.is_leaf, y.grad_fn is not None, shared))
    assert shown[0] == shown[1]
