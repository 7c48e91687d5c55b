"""Conjugates, parts of complex numbers and pairs of parts as views: everything as PyTorch has it, and both ways."""

import copy
import pickle

import numpy as np
import pytest

import weft
from oracle import torch

VALUES = np.array([[1 + 2j, 3 - 4j, -5 + 6j], [0.5 - 1j, 2j, 7 + 0j]], np.complex64)

VIEWS = {
    "conj": lambda z: z.conj(),
    "real": lambda z: z.real,
    "imag": lambda z: z.imag,
    "imag of conj": lambda z: z.conj().imag,
    "conj twice": lambda z: z.conj().conj(),
    "adjoint": lambda z: z.mH,
    "row of conj": lambda z: z.conj()[1],
    "conj of columns": lambda z: z[:, 1:].conj(),
    "real of a transpose": lambda z: z.t().real,
    "steps of imag": lambda z: z.imag[:, ::2],
    "parts of conj": lambda z: z.conj().real[0],
}


def both(make):
    """What a program gives in both libraries."""
    return make(weft), make(torch)


def pairs(z, lib):
    return lib.view_as_real(z)


@pytest.mark.parametrize("name", VIEWS)
def test_values_strides_and_bits(name):
    ours, theirs = (VIEWS[name](lib.tensor(VALUES)) for lib in (weft, torch))
    assert ours.tolist() == theirs.tolist()
    assert tuple(ours.shape) == tuple(theirs.shape) and ours.stride() == theirs.stride()
    assert ours.storage_offset() == theirs.storage_offset()
    assert ours.is_conj() == theirs.is_conj() and ours.is_neg() == theirs.is_neg()
    assert ours.is_contiguous() == theirs.is_contiguous()
    assert (ours * 2 + 1).tolist() == (theirs * 2 + 1).tolist()
    assert ours.resolve_conj().resolve_neg().tolist() == theirs.tolist()
    assert not ours.resolve_conj().is_conj() and not ours.resolve_neg().is_neg()


@pytest.mark.parametrize("name", VIEWS)
def test_memory_is_shared_in_both_directions(name):
    results = []
    for lib in (weft, torch):
        z = lib.tensor(VALUES)
        view = VIEWS[name](z)
        assert view.data_ptr() - z.data_ptr() == view.storage_offset() * view.element_size()
        z.mul_(2)
        first = view.tolist()
        view.add_(1)
        view[0] = 3
        results.append((first, view.tolist(), z.tolist(), z._version))
    assert results[0] == results[1]


@pytest.mark.parametrize("name", VIEWS)
def test_gradients(name):
    results = []
    for lib in (weft, torch):
        z = lib.tensor(VALUES, requires_grad=True)
        view = VIEWS[name](z * 1)
        (view * view).abs().sum().backward()
        results.append((view.grad_fn.name(), z.grad))
    (ours, grad), (theirs, expected) = results
    assert ours == theirs
    np.testing.assert_allclose(grad.resolve_conj().numpy(), expected.resolve_conj().numpy(), 1e-5)


@pytest.mark.parametrize("name", VIEWS)
def test_gradients_of_what_was_written_through(name):
    results = []
    for lib in (weft, torch):
        z = lib.tensor(VALUES, requires_grad=True)
        w = lib.tensor(2.0, requires_grad=True)
        base = z * 1
        VIEWS[name](base).mul_(w)
        (base * base).abs().sum().backward()
        results.append((base.tolist(), z.grad.tolist(), w.grad.item()))
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-4)


def test_pairs_and_back():
    results = []
    for lib in (weft, torch):
        z = lib.tensor(VALUES, requires_grad=True)
        base = z * 1
        parts = lib.view_as_real(base)
        again = lib.view_as_complex(parts)
        fresh = lib.view_as_complex(lib.arange(12.0).reshape(3, 2, 2)[1:])
        fresh.imag.mul_(10)
        parts[:, 0, 1] = 7
        again.mul_(2)
        (base * base.conj()).real.sum().backward()
        results.append((parts.tolist(), again.tolist(), base.tolist(), z.grad.tolist(),
                        fresh.tolist(), fresh.stride(), fresh.storage_offset(), parts.stride(),
                        again.grad_fn.name()))  # fmt: skip
    assert results[0] == results[1]


def test_pairs_of_floats_are_written_through():
    for lib in (weft, torch):
        floats = lib.arange(6.0).reshape(3, 2)
        numbers = lib.view_as_complex(floats)
        numbers.real = lib.ones(3)
        numbers[2] = 9 + 8j
        assert floats.tolist() == [[1, 1], [1, 3], [9, 8]]


def test_setting_parts():
    for lib in (weft, torch):
        z = lib.tensor(VALUES)
        z.real = lib.zeros(2, 3)
        z.imag[0] = 1
        assert z[0].tolist() == [1j, 1j, 1j] and z[1].tolist() == [-1j, 2j, 0j]


def test_arrays_see_the_same_memory():
    z = weft.tensor(VALUES)
    array = z.real.numpy()
    z.real.add_(1)
    assert array.tolist() == (VALUES.real + 1).tolist() == z.real.tolist()
    array[0, 0] = 100
    assert z[0, 0].item() == 100 + 2j and z.conj()[0, 0].item() == 100 - 2j
    with pytest.raises(RuntimeError, match="conjugate bit set"):
        z.conj().numpy()
    with pytest.raises(RuntimeError, match="negative bit set"):
        z.conj().imag.numpy()
    assert z.conj().numpy(force=True).tolist() == z.conj().tolist()


def test_copies_and_pickles_hold_the_values():
    z = weft.tensor(VALUES).conj()
    for twin in (
        copy.deepcopy(z),
        pickle.loads(pickle.dumps(z)),
        z.clone(),
        z.detach().contiguous(),
    ):
        assert twin.tolist() == VALUES.conj().tolist()
    assert repr(z) == repr(weft.tensor(VALUES.conj()))


def test_complaints():
    for lib in (weft, torch):
        z = lib.tensor(VALUES)
        with pytest.raises(RuntimeError, match="unresolved conjugated"):
            lib.view_as_real(z.conj())
        with pytest.raises(RuntimeError, match="only supported for complex"):
            lib.view_as_real(lib.ones(2))
        with pytest.raises(RuntimeError, match="last dimension of size 2"):
            lib.view_as_complex(lib.ones(3))
        with pytest.raises(RuntimeError, match="last dimension with stride 1"):
            lib.view_as_complex(lib.ones(2, 3).t())
        with pytest.raises(RuntimeError, match="imag is not implemented"):
            lib.imag(lib.ones(2))


def test_many_examples_at_once():
    """Views through lenses in a batch: the same gradients as one example at a time."""

    def gradient(batch):
        z = weft.tensor(VALUES, requires_grad=True)
        losses = [(z[number % 2].conj().imag * z.real[0] * number).sum() for number in range(8)]
        if batch:
            weft.stack(losses).sum().backward()
        else:
            for loss in losses:
                loss.backward(retain_graph=True)
        return z.grad.resolve_conj().numpy()

    np.testing.assert_allclose(gradient(True), gradient(False), 1e-5)


def test_forward_mode_and_transforms():
    z = weft.tensor(VALUES.astype(np.complex128), requires_grad=True)
    assert weft.autograd.gradcheck(
        lambda z: (z.conj() * z.imag).abs().square(), (z,), check_forward_ad=True
    )
    found = weft.func.vmap(lambda row: row.conj().imag * 2)(weft.tensor(VALUES))
    np.testing.assert_allclose(found.numpy(force=True), -2 * VALUES.imag)


PARTS_WRITTEN = {
    "rows": lambda z: z[1:].real.mul_(3),
    "column": lambda z: z[:, 1].imag.add_(5),
    "conjugate of a row": lambda z: z[1].conj().mul_(2j),
    "transposed": lambda z: z.T[1:].imag.mul_(2),
    "negative": lambda z: z[0].conj().imag.copy_(z[1].real),
    "every other": lambda z: z[::2].real.copy_(z[::2].imag * 2),
    "pairs": lambda z: weft.view_as_real(z[1:])[..., 0].mul_(2),
    "conjugate, then a row": lambda z: z.conj()[1].real.mul_(3),
}


@pytest.mark.parametrize("part", [False, True])
@pytest.mark.parametrize("way", PARTS_WRITTEN)
def test_gradients_of_parts_written_through(way, part):
    """Also where the base is itself a part of its storage, or a conjugate without a graph of its own."""

    def function(x):
        z = weft.complex(x, x * 2)
        if part:
            memory = weft.zeros(4, 2, dtype=weft.complex128)
            z = memory[1:] if way == "pairs" else memory[1:].conj()
            z = z.detach().copy_(weft.complex(x, x * 2))
        PARTS_WRITTEN[way](z)
        return (z * z).real + z.imag * 3

    x = weft.arange(6.0, dtype=weft.float64).reshape(3, 2).requires_grad_()
    assert function(x).requires_grad
    assert weft.autograd.gradcheck(function, (x,))


def test_a_part_written_through_has_the_record_of_its_base():
    z = weft.complex(weft.ones(3, requires_grad=True), weft.zeros(3))
    z[1:].imag.mul_(2)
    assert z.grad_fn.name() == "torch::autograd::CopySlices"
    with pytest.raises(RuntimeError, match="a view of a leaf"):
        weft.ones(3, dtype=weft.complex64, requires_grad=True)[1:].real.mul_(2)
