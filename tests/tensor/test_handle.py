"""The handle: reading numbers, gradient state, sizes; what may be set and what the errors say."""

from __future__ import annotations

import pickle

import pytest

import weft
from oracle import torch


def test_reading_numbers() -> None:
    assert weft.tensor(2.5).item() == 2.5
    assert weft.tensor([[True]]).item() is True
    assert weft.tensor(2 + 1j).item() == 2 + 1j
    assert weft.tensor([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    assert float(weft.tensor(2)) == 2.0
    assert int(weft.tensor([2.7])) == 2
    assert complex(weft.tensor(2)) == 2 + 0j
    assert [10, 20][weft.tensor(1)] == 20
    assert bool(weft.tensor([0.5]))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: weft.ones(2).item(), RuntimeError, "a Tensor with 2 elements cannot be converted to Scalar"),
        (lambda: weft.zeros(0).item(), RuntimeError, "a Tensor with 0 elements cannot be converted to Scalar"),
        (lambda: float(weft.ones(2)), ValueError, "only one element tensors can be converted to Python scalars"),
        (lambda: bool(weft.ones(2)), RuntimeError, "Boolean value of Tensor with more than one value is ambiguous"),
        (lambda: bool(weft.zeros(0)), RuntimeError, "Boolean value of Tensor with no values is ambiguous"),
        (lambda: [1][weft.tensor(0.0)], TypeError, "only integer tensors of a single element can be converted"),
        (lambda: len(weft.tensor(1)), TypeError, "len() of a 0-d tensor"),
        (lambda: weft.ones(2).size(3), IndexError, "Dimension out of range"),
        (lambda: weft.ones(2, dtype=weft.int64).requires_grad_(), RuntimeError,
         "only Tensors of floating point and complex dtype can require gradients"),
    ],
)  # fmt: skip
def test_errors_name_the_fix(call: object, error: type[Exception], text: str) -> None:
    assert callable(call)
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)
    assert "\n  fix " in str(caught.value)
    assert "test_handle.py" in str(caught.value)


def test_float_of_what_requires_grad_warns() -> None:
    x = weft.ones((), requires_grad=True)
    with pytest.warns(UserWarning, match="Converting a tensor with requires_grad=True"):
        float(x)
    assert x.item() == 1


def test_requires_grad_of_computed_tensors() -> None:
    y = weft.ones(2, requires_grad=True) * 2
    for flag in (True, False):
        with pytest.raises(
            RuntimeError, match="you can only change requires_grad flags of leaf variables."
        ):
            y.requires_grad = flag
    assert y.requires_grad_() is y
    with pytest.raises(RuntimeError, match="(?s)var_no_grad = var.detach.*fix"):
        y.requires_grad_(False)


def test_assigning_gradients() -> None:
    x = weft.ones(2, requires_grad=True)
    x.grad = weft.ones(2)
    assert x.grad.tolist() == [1, 1]
    x.grad = None
    assert x.grad is None
    for wrong, error in ((weft.ones(3), RuntimeError), (weft.ones(2).double(), RuntimeError), (x, RuntimeError),
                         (3, TypeError)):  # fmt: skip
        with pytest.raises(error, match="fix"):
            x.grad = wrong
    assert x.grad is None


def test_the_gradient_of_a_computed_tensor_warns() -> None:
    y = weft.ones(2, requires_grad=True) * 2
    with pytest.warns(UserWarning, match="not a leaf Tensor is being accessed"):
        assert y.grad is None


def test_detach_in_place() -> None:
    x = weft.ones(2, requires_grad=True)
    y = x * 2
    assert y.detach_() is y
    assert y.is_leaf
    assert not y.requires_grad
    with pytest.raises(RuntimeError, match="(?s)Can't detach views in-place.*fix"):
        (x * 2)[0].detach_()


def test_sizes_are_tuples_that_stay_sizes() -> None:
    shape = weft.ones(2, 3, 4).shape
    assert shape == (2, 3, 4)
    assert hash(shape) == hash((2, 3, 4))
    assert repr(shape) == "weft.Size([2, 3, 4])"
    assert shape.numel() == 24
    assert shape[-1] == 4
    parts = (shape[1:], shape + (5,), (1,) + shape, shape * 2, weft.Size([1]))
    assert all(type(part) is weft.Size for part in parts)
    assert parts[1] == (2, 3, 4, 5)
    with pytest.raises(IndexError):
        shape[5]
    with pytest.raises(TypeError, match="(?s)integers.*fix"):
        weft.Size(["a"])


def test_layout_as_numbers() -> None:
    x = weft.zeros(2, 3)
    assert (x.numel(), x.nelement(), x.dim(), x.element_size(), x.nbytes) == (6, 6, 2, 4, 24)
    assert x.stride() == (3, 1)
    assert x.t().stride(0) == 1
    assert x[1:].storage_offset() == 3
    assert x.is_contiguous()
    assert not x.t().is_contiguous()
    image = weft.zeros(2, 4, 4, 3).permute(0, 3, 1, 2)
    assert image.is_contiguous(memory_format=weft.channels_last)


def test_a_subclass_shares_and_pickles() -> None:
    made = weft.Tensor._make_subclass(Named, weft.ones(2), True)
    made.label = "x"
    assert type(made) is Named
    assert made.requires_grad
    loaded = pickle.loads(pickle.dumps(made))
    assert type(loaded) is Named
    assert loaded.label == "x"
    assert loaded.tolist() == [1, 1]


class Named(weft.Tensor):
    """A subclass with an attribute."""

    label: str


def test_settings_that_change_nothing() -> None:
    weft.set_default_device("cpu")
    weft.set_float32_matmul_precision("high")
    assert weft.get_default_device() == weft.device("cpu")
    weft.backends.cudnn.benchmark = True
    with pytest.raises(ValueError, match="(?s)highest, high, medium.*fix"):
        weft.set_float32_matmul_precision("low")
    with pytest.raises(RuntimeError, match="(?s)the only device.*fix"):
        weft.set_default_device("cuda")


def test_unknown_names_of_the_package() -> None:
    with pytest.raises(AttributeError, match="no attribute 'tensro'"):
        weft.tensro  # noqa: B018
    assert "nn" in dir(weft)
    assert "tensor" in dir(weft)


@pytest.mark.parametrize("dtype", [weft.float32, weft.bfloat16, weft.bool, weft.complex64])
def test_a_storage_is_the_bytes_of_the_whole_memory(dtype):
    whole = weft.arange(6).to(dtype)
    part = whole[2:4]
    storage = part.untyped_storage()
    assert storage == whole.untyped_storage() and storage != part.clone().untyped_storage()
    assert storage.nbytes() == storage.size() == len(storage) == 6 * whole.element_size()
    assert storage.data_ptr() == whole.data_ptr() == part.data_ptr() - 2 * whole.element_size()
    part.zero_()
    rest = weft.tensor([0, 1, 0, 0, 4, 5]).to(dtype)
    assert storage.tolist() == rest.untyped_storage().tolist() and any(storage.tolist())
    assert weft.zeros(0).untyped_storage().data_ptr() == 0


def test_a_generator_goes_on_from_an_offset():
    generator = weft.Generator().manual_seed(5)
    weft.rand(3, generator=generator)
    offset = generator.get_offset()
    drawn = weft.rand(4, generator=generator)
    generator.set_offset(offset)
    assert offset == 3 and weft.equal(weft.rand(4, generator=generator), drawn)
    with pytest.raises(ValueError, match="offset"):
        generator.set_offset(-1)
    assert weft.default_generator is weft.random.default_generator


FORMS = {
    "row-major": lambda lib: lib.zeros(2, 3, 4),
    "transposed": lambda lib: lib.zeros(2, 3).t(),
    "channels last": lambda lib: lib.zeros(2, 3, 4, 5).to(memory_format=lib.channels_last),
    "a permutation": lambda lib: lib.empty_permuted((2, 3, 5, 7), (3, 0, 2, 1)),
    "one element": lambda lib: lib.zeros(1, 2, 1, 3),
    "expanded": lambda lib: lib.zeros(2, 1).expand(2, 3),
    "every second": lambda lib: lib.zeros(4, 6)[::2, ::3],
    "no dimension": lambda lib: lib.zeros(()),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_order_of_dimensions_in_memory(form):
    made, expected = FORMS[form](weft), FORMS[form](torch)
    assert made.dim_order() == expected.dim_order()
    for ambiguity_check in (True, ["contiguous_format", "channels_last"]):
        shown = []
        for lib, x in ((weft, made), (torch, expected)):
            formats = ambiguity_check is not True and [getattr(lib, n) for n in ambiguity_check]
            try:
                shown.append(x.dim_order(ambiguity_check=formats or True))
            except RuntimeError:
                shown.append("refused")
        assert shown[0] == shown[1]


@pytest.mark.parametrize("lib", (weft, torch), ids=("weft", "torch"))
@pytest.mark.parametrize("value", (3, None, ["channels_last"], "channels_last"))
def test_the_order_of_dimensions_is_checked_against_formats_alone(value, lib):
    with pytest.raises(TypeError, match="ambiguity_check"):
        lib.zeros(2, 3).dim_order(ambiguity_check=value)
