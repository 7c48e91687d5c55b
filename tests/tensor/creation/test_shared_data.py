"""asarray and frombuffer: what shares memory, what is copied, what is refused, as in PyTorch."""

import array
import warnings

import numpy as np
import pytest

import weft
from oracle import torch


def _memory() -> np.ndarray:
    return np.arange(6, dtype=np.float32)


SOURCES = {
    "array": lambda lib, a: a,
    "memoryview": lambda lib, a: memoryview(a),
    "bytearray": lambda lib, a: bytearray(a.tobytes()),
    "array.array": lambda lib, a: array.array("f", a.tolist()),
    "tensor": lambda lib, a: lib.from_numpy(a),
    "capsule": lambda lib, a: lib.utils.dlpack.to_dlpack(lib.from_numpy(a)),
    "list": lambda lib, a: a.tolist(),
    "number": lambda lib, a: 2.5,
}


def _answer(lib, source: str, **options: object) -> object:
    """What a library makes of a source: values, type and whether they lie in its memory; or the error's first line."""
    memory = _memory()
    if "dtype" in options:
        options["dtype"] = getattr(lib, str(options["dtype"]))
    try:
        made = lib.asarray(SOURCES[source](lib, memory), **options)
    except (ValueError, RuntimeError) as error:
        return str(error).split("\n")[0].split(", called at")[0].strip()
    return made.tolist(), str(made.dtype).rpartition(".")[2], made.data_ptr() == memory.ctypes.data


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("copied", [None, True, False])
@pytest.mark.parametrize("dtype", [None, "float32", "int32", "float64"])
def test_asarray_shares_what_has_memory(
    source: str, copied: bool | None, dtype: str | None
) -> None:
    options = {"copy": copied} | ({} if dtype is None else {"dtype": dtype})
    assert _answer(weft, source, **options) == _answer(torch, source, **options)


def test_a_scalar_of_numpy_is_copied() -> None:
    for lib in (weft, torch):
        assert lib.asarray(np.float32(2)).dtype is lib.float32
        with pytest.raises(
            RuntimeError, match="can't alias NumPy scalars. Either remove copy=False"
        ):
            lib.asarray(np.float32(2), copy=False)


def test_writes_reach_the_buffer() -> None:
    memory = bytearray(12)
    weft.asarray(memory, dtype=weft.int32).fill_(1)
    assert memory == bytearray(np.ones(3, np.int32).tobytes())


BUFFERS = {
    "all": (bytearray(range(8)), "int32", {}),
    "some": (bytearray(range(8)), "int16", {"count": 2, "offset": 2}),
    "bfloat16": (bytearray(range(8)), "bfloat16", {"offset": 4}),
    "complex": (bytearray(range(16)), "complex64", {}),
    "no buffer": ([1, 2], "int8", {}),
    "empty": (bytearray(), "int8", {}),
    "count of 0": (bytearray(4), "int8", {"count": 0}),
    "count too large": (bytearray(4), "int8", {"count": 5}),
    "offset too large": (bytearray(4), "int8", {"offset": 4}),
    "negative offset": (bytearray(4), "int8", {"offset": -1}),
    "no whole elements": (bytearray(5), "int32", {}),
    "no whole elements behind the offset": (bytearray(8), "int32", {"offset": 2}),
    "count below -1": (bytearray(8), "int32", {"count": -2}),
}


@pytest.mark.parametrize("case", BUFFERS)
def test_frombuffer(case: str) -> None:
    found = []
    for lib in (weft, torch):
        buffer, dtype, options = BUFFERS[case]
        try:
            found.append(lib.frombuffer(buffer, dtype=getattr(lib, dtype), **options).tolist())
        except ValueError as error:
            found.append(str(error).split("\n")[0].split(", called at")[0])
    assert found[0] == found[1]


def test_a_buffer_that_is_only_read_warns() -> None:
    with pytest.warns(UserWarning, match="The given buffer is not writable"):
        made = weft.frombuffer(b"1234", dtype=weft.uint8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert made.tolist() == [49, 50, 51, 52]
