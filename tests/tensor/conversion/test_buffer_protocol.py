"""`memoryview(tensor)` and what reads buffers: the memory that `.numpy()` shows."""

import gc
import hashlib
import io

import numpy as np
import pytest

import weft

FORMATS = {
    "bool": "?",
    "uint8": "B",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "l",
    "uint64": "L",
    "float16": "e",
    "float32": "f",
    "float64": "d",
    "complex64": "Zf",
    "complex128": "Zd",
}


@pytest.mark.parametrize("name", FORMATS)
def test_formats(name):
    x = weft.ones(2, 3, dtype=getattr(weft, name))
    view = memoryview(x)
    assert np.dtype(np.asarray(view).dtype) == np.dtype(name)
    assert view.format.lstrip("<=@") in (FORMATS[name], FORMATS[name].replace("l", "q"))
    assert view.shape == (2, 3) and view.itemsize == x.itemsize and not view.readonly
    assert np.array_equal(np.asarray(view), x.numpy())


def test_strides_and_offset():
    x = weft.arange(24.0).reshape(2, 3, 4)
    for part in (x.mT, x[:, 1:, ::2], x[1], x[0, 0, 3], x[:0], x.permute(2, 0, 1)):
        view = memoryview(part)
        assert view.shape == tuple(part.shape) and view.tolist() == part.tolist()
        if part.numel():
            assert view.strides == tuple(4 * step for step in part.stride())
    with pytest.raises(ValueError, match="contiguous"):
        np.frombuffer(x.mT)  # which wants memory without gaps


def test_writes_go_both_ways():
    x = weft.zeros(4)
    view = memoryview(x)
    view[1] = 2.5
    assert x.tolist() == [0.0, 2.5, 0.0, 0.0]
    x.add_(1)
    assert view.tolist() == [1.0, 3.5, 1.0, 1.0]
    np.frombuffer(x, np.float32)[0] = 7
    assert x[0].item() == 7.0
    seen = np.frombuffer(x[1:], np.int32)
    assert seen.tolist() == x[1:].view(weft.int32).tolist()


def test_pending_work_runs_first():
    x = weft.ones(3) * 2 + 1
    assert memoryview(x).tolist() == [3.0] * 3


def test_what_reads_buffers():
    x = weft.arange(5, dtype=weft.int16)
    raw = x.numpy().tobytes()
    assert bytes(x) == raw and bytearray(memoryview(x)) == raw
    assert hashlib.sha256(x).digest() == hashlib.sha256(raw).digest()
    file = io.BytesIO()
    file.write(x)
    assert file.getvalue() == raw
    into = weft.zeros(5, dtype=weft.int16)
    io.BytesIO(raw).readinto(into)
    assert into.tolist() == x.tolist()


def test_memory_that_is_read_only():
    array = np.arange(3.0)
    array.setflags(write=False)
    with pytest.warns(UserWarning, match="not writable"):
        x = weft.from_numpy(array)
    assert memoryview(x).readonly
    with pytest.raises(TypeError, match="read-write"):
        io.BytesIO(bytes(24)).readinto(x)


@pytest.mark.parametrize(
    ("make", "fix"),
    [
        (lambda: weft.ones(2, dtype=weft.bfloat16), "view(weft.uint16)"),
        (lambda: weft.ones(2, requires_grad=True), "detach()"),
        (lambda: weft.ones(2, dtype=weft.complex64).conj(), "resolve_conj()"),
    ],
)
def test_what_has_no_plain_memory_is_refused(make, fix):
    with pytest.raises(
        BufferError, match=r"(?s)fix .*" + fix.replace("(", r"\(").replace(")", r"\)")
    ):
        memoryview(make())


def test_a_sparse_tensor_has_no_memory():
    with pytest.raises(weft.errors.WeftError, match="to_dense"):
        memoryview(weft.eye(2).to_sparse())


def test_numpy_still_says_what_it_said():
    with pytest.raises(RuntimeError, match="requires grad"):
        np.asarray(weft.ones(2, requires_grad=True))
    with pytest.raises(TypeError, match="BFloat16"):
        np.asarray(weft.ones(2, dtype=weft.bfloat16))
    bits = weft.ones(2, dtype=weft.bfloat16).view(weft.uint16)
    assert memoryview(bits).tolist() == [0x3F80] * 2


def test_a_view_keeps_the_memory():
    x = weft.arange(1000.0)
    view = memoryview(x)
    del x
    gc.collect()
    weft.zeros(1000).add_(1).sum().item()
    assert view[999] == 999.0


def test_a_refused_capsule_keeps_its_type():
    """NumPy refuses; whoever takes the capsule afterwards sees bfloat16."""
    from weft.tensor.conversion.interop import BFLOAT, _type_code

    class Elsewhere:
        def __init__(self, capsule):
            self.capsule = capsule

        def __dlpack__(self, **keywords):
            return self.capsule

        def __dlpack_device__(self):
            return (1, 0)

    capsule = weft.ones(2, dtype=weft.bfloat16).__dlpack__()
    _type_code(capsule)
    bits = _bits_of(capsule)
    bits.value = 3  # no number has 3 bits
    with pytest.raises(RuntimeError):
        weft.from_dlpack(Elsewhere(capsule))
    assert _type_code(capsule).value == BFLOAT
    bits.value = 16
    assert weft.from_dlpack(Elsewhere(capsule)).tolist() == [1.0, 1.0]


def _bits_of(capsule):
    """Where a capsule keeps the number of bits of an element: behind the code of its type."""
    import ctypes

    from weft.tensor.conversion.interop import _type_code

    return ctypes.c_uint8.from_address(ctypes.addressof(_type_code(capsule)) + 1)
