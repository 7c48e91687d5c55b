"""`view(dtype)`: the same bytes as elements of another type, against PyTorch."""

import numpy as np
import pytest

import weft
from oracle import torch
from weft.testing.reference import evaluate_tensor

TYPES = (
    *("bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
)
BYTES = np.random.default_rng(7).integers(0, 256, (3, 4, 32), dtype=np.uint8)
BYTES[..., 1::2] = BYTES[..., 1::2] % 0x7B  # no float is infinite or nan


def both(kind, values=BYTES):
    """The same memory as elements of a type in both libraries."""
    values = values & 1 if kind == "bool" else values
    theirs = torch.from_numpy(values.copy()).view(getattr(torch, kind))
    return weft.from_dlpack(theirs.clone()) if kind != "bool" else weft.tensor(values > 0), theirs


def bits(x):
    """The bytes of what a tensor shows."""
    if isinstance(x, torch.Tensor):
        return x.contiguous().view(torch.uint8).numpy().tobytes()
    return memoryview(x.clone().contiguous().view(weft.uint8).numpy()).tobytes()


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("target", TYPES)
def test_every_pair_of_types(kind, target):
    ours, theirs = both(kind)
    seen, expected = ours.view(getattr(weft, target)), theirs.view(getattr(torch, target))
    assert tuple(seen.shape) == tuple(expected.shape) and seen.stride() == expected.stride()
    assert seen.storage_offset() == expected.storage_offset()
    assert seen.dtype is getattr(weft, target)
    if target == "bool":  # what is no 0 is true
        assert seen.tolist() == (theirs.view(torch.uint8) != 0).tolist()
        return
    assert bits(seen) == bits(expected)
    assert bits(seen.view(getattr(weft, kind))) == bits(theirs)
    assert (seen == ours.clone().view(getattr(weft, target))).all()


REGIONS = {
    "whole": (lambda x: x, "int64"),
    "rows": (lambda x: x[1:], "float64"),
    "columns": (lambda x: x[:, :, 2:6], "int64"),
    "transposed, of equal size": (lambda x: x.mT, "int32"),
    "steps, of equal size": (lambda x: x[..., ::2], "int32"),
    "transposed before": (lambda x: x.transpose(0, 1), "int16"),
    "cut": (lambda x: x[:, 1:3, 4:], "uint8"),
    "expanded": (lambda x: x[:, :1].expand(3, 5, 8), "int16"),
    "empty": (lambda x: x[:0], "float64"),
    "no columns": (lambda x: x[..., :0], "int16"),
}


@pytest.mark.parametrize("name", REGIONS)
def test_regions(name):
    cut, target = REGIONS[name]
    ours, theirs = both("float32")
    seen, expected = cut(ours).view(getattr(weft, target)), cut(theirs).view(getattr(torch, target))
    assert tuple(seen.shape) == tuple(expected.shape)
    assert not seen.numel() or seen.stride() == expected.stride()
    assert seen.storage_offset() == expected.storage_offset()
    assert seen.tolist() == expected.tolist()
    assert seen.numpy().tolist() == expected.tolist()
    if seen.numel():
        assert seen.data_ptr() - ours.data_ptr() == expected.data_ptr() - theirs.data_ptr()


REFUSED = {
    "stride of the last dimension": lambda x, lib: x.t().view(lib.float64),
    "steps": lambda x, lib: x[:, ::2].view(lib.int16),
    "offset": lambda x, lib: x[:, 1:3].view(lib.float64),
    "size": lambda x, lib: x[:, :3].view(lib.float64),
    "stride": lambda x, lib: x.reshape(-1)[:20].view(4, 5)[:, :4].view(lib.float64),
    "number": lambda x, lib: x[0, 0].view(lib.int16),
    "number, larger": lambda x, lib: x[0, 0].view(lib.float64),
    "conjugate": lambda x, lib: x.to(lib.complex64).conj().view(lib.float32),
    "negative": lambda x, lib: x.to(lib.complex64).conj().imag.view(lib.int32),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused(name):
    texts = []
    for lib in (weft, torch):
        with pytest.raises(RuntimeError) as caught:
            REFUSED[name](lib.arange(24.0).reshape(4, 6), lib)
        texts.append(str(caught.value).split("\n")[0])
    assert texts[1] in texts[0]


def test_writes_are_seen_through_both():
    for lib in (weft, torch):
        x = lib.arange(6.0)
        whole, half, wide = x.view(lib.int32), x.view(lib.int16), x.view(lib.int64)
        x[1] = -2.0
        whole[0] = 0x3F800000
        half[-1] = 0x4000
        wide.mul_(1)
        wide[1:2].bitwise_xor_(-(1 << 63))
        assert x.tolist() == [1.0, -2.0, 2.0, -3.0, 4.0, x[5].item()]
        assert half.tolist()[2:4] == [0, -0x4000] and half[-1].item() == 0x4000
        assert x._version == whole._version == half._version == 5
        assert not whole._is_view() and whole._base is None


def test_bytes_at_the_end_that_fill_no_element_stay():
    x = weft.arange(11, dtype=weft.uint8)
    wide = x[:8].view(weft.int64)
    wide.zero_()
    assert x.tolist() == [0] * 8 + [8, 9, 10]
    shared = wide.numpy()
    shared[0] = 0x0102
    assert x[:3].tolist() == [2, 1, 0]
    x[3] = 1
    assert shared[0] == 0x01000102


def test_memory_is_shared_with_numpy():
    array = np.arange(4, dtype=np.float32)
    x = weft.from_numpy(array)
    seen = x.view(weft.int32)
    seen[2] = 0x3F000000
    assert array[2] == 0.5
    array[0] = 1.0
    assert seen[0].item() == 0x3F800000


def test_no_gradient_and_no_view_for_autograd():
    for lib in (weft, torch):
        x = lib.ones(4, requires_grad=True)
        for kind in (lib.int32, lib.float64, lib.complex64):
            seen = x.view(kind)
            assert not seen.requires_grad and seen.grad_fn is None and seen.is_leaf
        (x.view(lib.int32).to(lib.float32) * x).sum().backward()
        assert x.grad.tolist() == [float(0x3F800000)] * 4
        y = x * 1
        y.view(lib.int32).zero_()
        assert y.requires_grad and y._version == 1
        y.sum().backward()
        assert y.tolist() == [0.0] * 4


def test_what_is_written_may_require_a_gradient():
    for lib in (weft, torch):
        w = lib.tensor([2.0, 3.0], dtype=lib.float64, requires_grad=True)
        x = lib.zeros(4)
        seen = x.view(lib.float64)
        seen.add_(w)
        assert seen.requires_grad and not x.requires_grad
        (seen * seen).sum().backward()
        assert w.grad.tolist() == [4.0, 6.0]


def test_other_lenses_meet():
    z = np.arange(6).reshape(2, 3).astype(np.complex64) * (1 + 2j)
    for make in (
        lambda x, lib: x.real.view(lib.int32),
        lambda x, lib: x.view(lib.float32).view(lib.complex64).conj(),
        lambda x, lib: x.view(lib.int64).view(lib.complex64).imag,
        lambda x, lib: lib.view_as_real(x.view(lib.int32).view(lib.complex64)),
        lambda x, lib: lib.view_as_real(x).view(lib.int64),
        lambda x, lib: lib.view_as_complex(x.view(lib.float64).view(lib.float32).reshape(2, 3, 2)),
        lambda x, lib: lib.view_as_complex(x.view(lib.int32).view(lib.float32).view(2, 3, 2)),
    ):
        ours, theirs = weft.tensor(z), torch.tensor(z)
        seen, expected = make(ours, weft), make(theirs, torch)
        assert seen.tolist() == expected.tolist() and seen.stride() == expected.stride()
        ours.mul_(2), theirs.mul_(2)
        assert seen.tolist() == expected.tolist()
        seen[0] += 1
        expected[0] += 1
        assert ours.tolist() == theirs.tolist()


def test_a_program_stays_lazy_and_is_batched():
    """The inverse square root by bits: one example at a time, as one batch, and by NumPy's meaning."""

    def inverse_root(x):
        y = (0x5F3759DF - (x.view(weft.int32) >> 1)).view(weft.float32)
        return y * (1.5 - 0.5 * x * y * y)

    x = weft.rand(20, 3) + 0.1
    alone = [inverse_root(row * 1) for row in x]
    assert [y.tolist() for y in alone] == inverse_root(x).tolist()
    assert weft.vmap(inverse_root)(x).tolist() == inverse_root(x).tolist()
    assert np.array_equal(evaluate_tensor(inverse_root(x)), inverse_root(x).numpy())
    assert weft.allclose(inverse_root(x), x.rsqrt(), rtol=3e-3)


def test_of_other_sizes_under_vmap():
    x = weft.arange(12.0).reshape(3, 4)
    for kind in ("float64", "int16", "uint8", "complex64"):
        ours = weft.vmap(lambda r, kind=kind: r.view(getattr(weft, kind)))(x)
        assert ours.tolist() == x.view(getattr(weft, kind)).tolist()


def test_ways_to_call_it():
    x = weft.arange(4.0)
    assert x.view(dtype=weft.int32).dtype is weft.int32
    assert x.view(int).shape == (2,) and x.view(float).dtype is weft.float64
    assert x.view(np.int64(2), 2).shape == (2, 2)
    with pytest.raises(TypeError):
        x.view(weft.int32, 2)
    seen = x.view(weft.int32)
    assert seen.as_strided((2,), (2,)).tolist() == x.numpy().view(np.int32)[::2].tolist()
    assert x.view(weft.int16).as_strided((8,), (1,)).tolist() == x.numpy().view(np.int16).tolist()


@pytest.mark.parametrize("kind", ["float32", "int64", "complex64", "bfloat16", "uint8"])
def test_bytes_beside_what_is_written_as_bool_stay(kind):
    """A byte that is neither 0 nor 1 is true, and none the less what it was."""
    results = []
    for x, library in zip(both(kind), (weft, torch), strict=True):
        seen = x.view(library.bool)
        seen[0, 1:3] = True
        seen[1, :, 4:8].logical_not_()
        seen[2, 0, ::4] = False
        results.append(bits(x))
    assert results[0] == results[1]
