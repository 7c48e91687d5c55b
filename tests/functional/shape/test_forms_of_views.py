"""What views, shapes and memory look like from outside agrees with PyTorch: layouts, storages, types, wrong calls."""

import io
import pickle

import numpy as np
import pytest

import weft
from oracle import torch
from weft.errors import WeftError


def both(run):
    """The same expression in both frameworks."""
    return run(weft), run(torch)


def same(run):
    """Values, shape and type agree."""
    ours, theirs = both(run)
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert ours.dtype.name == str(theirs.dtype).removeprefix("torch.")
    assert np.array_equal(ours.detach().numpy(), theirs.detach().numpy())


@pytest.mark.parametrize("kind, name", [(float, "float64"), (complex, "complex128")])
def test_types_of_python_have_their_own_width(kind, name):
    """`dtype=float` is float64, whatever the default is."""
    for make in (
        lambda m: m.randn(2, dtype=kind),
        lambda m: m.rand_like(m.ones(2), dtype=kind),
        lambda m: m.ones(2).sum(dtype=kind),
        lambda m: m.ones(2).cumsum(0, dtype=kind),
        lambda m: m.zeros(2, dtype=kind),
    ):
        ours, theirs = both(make)
        assert ours.dtype.name == str(theirs.dtype).removeprefix("torch.") == name


def test_a_region_of_a_view_that_requires_grad_by_itself():
    """Its base needs no gradient; the region's goes to the view, as PyTorch says."""

    def run(module):
        memory = module.arange(12.0, dtype=module.float64)
        x = memory[2:].view(2, 5)
        x.requires_grad_()
        region = x.as_strided((3, 2), (3, 1), 3)
        return module.autograd.grad((region * region).sum(), x)[0]

    same(run)


@pytest.mark.parametrize("count", [1, 4])
def test_a_storage_is_shown_by_another_tensor(count):
    """`set_` takes an untyped storage, and writes go to its tensor."""

    def run(module):
        memory = module.arange(24.0).view(3, 8)
        window = module.tensor(())
        window.set_(memory.untyped_storage(), 1, (2, count), (7, 2))
        window[0, 0] = -1
        return module.cat([window.reshape(-1), memory.reshape(-1)])

    same(run)


def test_resizing_keeps_what_has_the_shape_and_knows_formats():
    same(lambda m: m.arange(6).view(2, 3).t().resize_(3, 2))
    ours, theirs = both(
        lambda m: m.zeros(96).resize_((2, 3, 4, 4), memory_format=m.channels_last).stride()
    )
    assert ours == theirs
    ours, theirs = both(
        lambda m: (
            m.zeros(96)
            .resize_as_(
                m.zeros(2, 3, 4, 4).contiguous(memory_format=m.channels_last),
                memory_format=m.preserve_format,
            )
            .stride()
        )
    )
    assert ours == theirs
    same(lambda m: m.ones(2, 3).resize_(0).resize_(2, 3))


def test_what_has_no_elements_has_no_address():
    assert weft.zeros(0, 6).data_ptr() == weft.zeros(3, 0).data_ptr() == 0


def test_numbers_have_a_matrix_transpose():
    with pytest.warns(UserWarning, match="0-D tensors"):
        assert weft.tensor(2.0).mT.item() == weft.tensor(2.0).mH.item() == 2
    same(lambda m: m.tensor(2.0).movedim(0, 0))
    same(lambda m: m.swapaxes(m.ones(2, 3), axis0=0, axis1=1))


def test_broadcast_shapes_is_a_size():
    assert isinstance(weft.broadcast_shapes((2, 1), (3,)), weft.Size)


WRONG = {
    "factors of a singular matrix": lambda m: m.linalg.lu_factor(m.zeros(2, 2)),
    "the order of a norm of a cube": lambda m: m.linalg.norm(m.ones(2, 2, 2), 2),
    "a matrix norm of one dimension": lambda m: m.linalg.norm(m.ones(2, 2), "fro", dim=0),
    "a range to nowhere": lambda m: m.arange(),
    "no device below 0": lambda m: m.device("cpu", -1),
    "no device below 0, by number": lambda m: m.device(-1),
    "a device's number as it is written": lambda m: m.device("cuda:01"),
    "waiting times as integers": lambda m: m.zeros(2, dtype=m.int64).exponential_(),
    "sparse floats into integers": lambda m: (
        m.ones(2, dtype=m.int64).to_sparse().add_(m.ones(2).to_sparse())
    ),
    "degrees of freedom below 0": lambda m: m.distributions.Chi2(m.tensor([1.0, -2.0])),
    "a function as a transform": lambda m: m.distributions.TransformedDistribution(
        m.distributions.Normal(0.0, 1.0), [abs]
    ),
    "cuts": lambda m: m.tensor_split(m.ones(4), m.tensor(1.5)),
    "cuts in two dimensions": lambda m: m.tensor_split(m.ones(4), m.tensor([[1]])),
    "indices of floats": lambda m: m.unravel_index(m.tensor(0.5), (2, 2)),
    "a tensor for a shape": lambda m: m.unravel_index(m.tensor(1), m.tensor([2, 2])),
    "a float in a shape": lambda m: m.unravel_index(m.tensor(1), (2, 2.0)),
    "places as floats": lambda m: m.take_along_dim(m.ones(2), m.ones(2), 0),
    "places as bools": lambda m: m.take_along_dim(m.ones(2), m.ones(2).bool(), 0),
    "flip without dims": lambda m: m.ones(2).flip(),
    "a plane of three": lambda m: m.ones(2, 2).rot90(1, [0, 1, 2]),
    "a grid of nothing": lambda m: m.meshgrid(indexing="ij"),
    "a grid of two types": lambda m: m.meshgrid(m.ones(2), m.ones(2).long(), indexing="ij"),
    "the k-th of nothing": lambda m: m.zeros(0).kthvalue(1),
    "distinct slices without elements": lambda m: m.unique(m.empty(5, 0, 5), dim=2),
    "scatter of a number as src": lambda m: m.ones(2, 2).scatter_(
        0, m.tensor([[0]]), m.tensor(4.0)
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_raise_what_pytorch_raises(name):
    with pytest.raises(Exception) as theirs:  # noqa: PT011 - whatever PyTorch raises
        WRONG[name](torch)
    with pytest.raises(theirs.type) as ours:
        WRONG[name](weft)
    assert isinstance(ours.value, WeftError)


SAME = {
    "a range by its end": lambda m: m.arange(end=3),
    "a range by names": lambda m: m.arange(start=1, end=4, step=2),
    "all of no dimensions": lambda m: m.tensor([[0, 2]]).all(dim=()),
    "any of no dimensions": lambda m: m.tensor([[0.0, 2.0]]).any(dim=()),
    "a sum of bools": lambda m: m.tensor([[0, 2], [0, 0]]).sum(1, dtype=m.bool),
    "a sum into bools": lambda m: m.sum(m.tensor([0, 2]), 0, out=m.empty((), dtype=m.bool)),
    "a product of bools": lambda m: m.tensor([[1, 2], [0, 1]]).prod(1, dtype=m.bool),
    "a product along an axis": lambda m: m.prod(m.tensor([[1, 2], [3, 4]]), axis=0),
    "the mode among nans": lambda m: m.tensor([float("nan"), 1.0, 2.0, 1.0]).mode().values,
    "a number gathered": lambda m: m.gather(m.arange(3.0), 0, m.tensor(2)),
}


@pytest.mark.parametrize("name", SAME)
def test_values_agree(name):
    same(SAME[name])


def test_the_mode_of_nans_alone_is_one_of_them():
    found = weft.tensor([float("nan"), float("nan")]).mode()
    assert found.values.isnan() and found.indices.item() in (0, 1)


@pytest.mark.parametrize("dtype", ("float64", "complex64", "int8", "bool"))
def test_tensors_of_two_types_are_equal_by_their_elements(dtype):
    ours, theirs = both(lambda lib: lib.equal(lib.ones(2), lib.ones(2, dtype=getattr(lib, dtype))))
    assert ours is theirs is True
    ours, theirs = both(lambda lib: lib.equal(lib.zeros(2), lib.ones(2, dtype=getattr(lib, dtype))))
    assert ours is theirs is False


@pytest.mark.parametrize("options", [{"pickle_protocol": 4}, {"pickle_module": pickle}])
def test_save_takes_the_arguments_of_pytorchs(options):
    for obj in ({"w": weft.ones(2)}, [weft.ones(2), {1: range(3)}]):
        file = io.BytesIO()
        weft.save(obj, file, _use_new_zipfile_serialization=False, **options)
        file.seek(0)
        assert repr(weft.load(file, weights_only=False)) == repr(obj)
