"""Storages: the memory of tensors as bytes and as elements, as PyTorch has them."""

from __future__ import annotations

import copy
import pickle
import warnings
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from oracle import torch
from weft.errors import ExportError


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch calls typed storages deprecated
        yield


def _write(T: Any, change: Any) -> Any:
    """What a tensor shows after a change through a storage."""
    x = T.arange(6.0).view(2, 3)
    change(T, x)
    return x.tolist()


CHANGES = {
    "element": lambda T, x: x.storage().__setitem__(0, 7),
    "fill": lambda T, x: x.storage().fill_(2),
    "copy": lambda T, x: x.storage().copy_(T.FloatStorage([6, 5, 4, 3, 2, 1])),
    "bytes": lambda T, x: x.untyped_storage().fill_(0),
    "one byte": lambda T, x: x.untyped_storage().__setitem__(3, 64),
    "all bytes": lambda T, x: x.untyped_storage().copy_(T.ones(6).untyped_storage()),
    "of a view": lambda T, x: x[1].storage().__setitem__(1, 9),
    "a clone's": lambda T, x: x.storage().clone().fill_(5),
    "freed and written": lambda T, x: (
        x.untyped_storage().resize_(0),
        x.untyped_storage().resize_(24),
        x.copy_(T.ones(2, 3)),
    ),
    "set to a region": lambda T, x: x.set_(T.arange(9.0).storage(), 2, (2, 2), (3, 1)),
    "set without strides": lambda T, x: x.set_(T.arange(9.0).untyped_storage(), 1, (2, 3)),
    "set by names": lambda T, x: x.set_(T.arange(9.0).storage(), storage_offset=1, size=(2,)),
    "bytes of a slice": lambda T, x: x.untyped_storage()[4:12].fill_(0),
    "a slice's slice": lambda T, x: x.untyped_storage()[4:12][1:].fill_(9),
    "in another order": lambda T, x: x.untyped_storage().byteswap(T.float32),
    "as a tensor": lambda T, x: T.as_tensor(x.storage()).fill_(2),
    "bytes as a tensor": lambda T, x: T.asarray(x.untyped_storage(), dtype=T.uint8).fill_(0),
    "an old constructor": lambda T, x: T.FloatTensor(x.storage()).fill_(8),
    "a deep copy's": lambda T, x: copy.deepcopy([x, x.untyped_storage()])[1].fill_(0),
    "set to bytes": lambda T, x: x.set_(T.ones(4).untyped_storage(), 0, (4,), (1,)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_writes_are_seen_by_tensors(name: str) -> None:
    assert _write(weft, CHANGES[name]) == _write(torch, CHANGES[name])


FACTS = {
    "typed": lambda T, x: [len(x.storage()), x.storage().size(), x.storage().nbytes()],
    "element": lambda T, x: [x.storage()[1], x.storage().element_size(), x.storage().tolist()],
    "untyped": lambda T, x: [x.untyped_storage().size(), x.untyped_storage().nbytes()],
    "bytes": lambda T, x: x.untyped_storage().tolist(),
    "address": lambda T, x: [
        x.storage().data_ptr() == x[1].storage().data_ptr() == x.data_ptr(),
        x[1].data_ptr() - x.untyped_storage().data_ptr(),
    ],
    "equal": lambda T, x: [
        x.untyped_storage() == x[1].untyped_storage(),
        x.untyped_storage() == x.clone().untyped_storage(),
        x.storage()._cdata == x[0].storage()._cdata,
    ],
    "kinds": lambda T, x: [
        isinstance(x.storage(), T.FloatStorage),
        isinstance(x.storage(), T.LongStorage),
        isinstance(x.untyped_storage(), T.UntypedStorage),
        isinstance(x.untyped_storage(), T.storage.UntypedStorage),
        T.is_storage(x.storage()),
        T.is_storage(x.untyped_storage()),
        T.is_storage(x),
    ],
    "made": lambda T, x: [
        T.FloatStorage([1, 2]).tolist(),
        len(T.UntypedStorage(4)),
        T.TypedStorage([1, 2], dtype=T.int32).tolist(),
        T.UntypedStorage([1, 255]).tolist(),
    ],
    "types": lambda T, x: [x.storage().double()[2], x.storage().int().tolist()],
    "copies": lambda T, x: [
        copy.deepcopy(x.storage()).tolist(),
        copy.copy(x.storage()).data_ptr() == x.data_ptr(),
        pickle.loads(pickle.dumps(x.storage())).tolist(),
        x.untyped_storage().clone().tolist() == x.untyped_storage().tolist(),
    ],
    "freed": lambda T, x: [x.untyped_storage().resize_(0).size(), x.shape[0], x.storage().nbytes()],
    "grown": lambda T, x: [x.untyped_storage().resize_(40).size(), x.tolist()],
    "tensor of": lambda T, x: T.tensor(x.storage()).tolist(),
    "version": lambda T, x: [x.storage().fill_(1) is None, x._version],
    "text": lambda T, x: str(T.FloatStorage([1, 2])).split("[")[0],
    "tensor of bytes": lambda T, x: [
        T.tensor(x.untyped_storage(), dtype=dtype).tolist() for dtype in (T.uint8, T.float32)
    ],
    "tensor of bytes of any type": lambda T, x: T.tensor(x.untyped_storage()).dtype is T.int64,
    "attributes": lambda T, x: (
        lambda u: [
            setattr(u, "name", 3),
            weakref.ref(u)() is u,
            x.untyped_storage() is u,
            x[1].untyped_storage() is u,
            x.detach().untyped_storage().name,
            x.storage().untyped() is u,
            x.clone().untyped_storage() is u,
        ]
    )(x.untyped_storage()),
    "storage_type": lambda T, x: [
        x.to(getattr(T, dtype)).storage_type() is getattr(T, name)
        for dtype, name in (("float32", "FloatStorage"), ("bool", "BoolStorage"))
    ],
    "complex": lambda T, x: [
        x.storage().complex_float().tolist(),
        x.storage().complex_double().size(),
        x.untyped_storage().float().tolist(),
        x.untyped_storage().complex_float().size(),
    ],
    "resizable": lambda T, x: [x.storage().resizable(), x.untyped_storage().resizable()],
    "sizeof": lambda T, x: [
        s.__sizeof__() - object.__sizeof__(s) for s in (x.storage(), x.untyped_storage())
    ],
    "buffers": lambda T, x: [
        T.ByteStorage.from_buffer(bytearray(b"abc")).tolist(),
        T.IntStorage.from_buffer(bytearray(b"\0\0\0\1\0\0\0\2"), "big").tolist(),
        T.IntStorage.from_buffer(bytearray(8), byte_order="native", count=1, offset=4).size(),
        T.UntypedStorage.from_buffer(bytearray(b"\0\1\2\3"), "big", dtype=T.int16).tolist(),
        T.TypedStorage.from_buffer(bytearray(8), "little", dtype=T.float64).tolist(),
    ],
    "byteswap": lambda T, x: [
        (lambda u: [u.byteswap(dtype), u.tolist()])(T.arange(4.0).untyped_storage())
        for dtype in (T.uint8, T.int16, T.float64, T.complex64, T.bfloat16)
    ],
    "deep copies": lambda T, x: (
        lambda b: [
            isinstance(b[1], T.UntypedStorage),
            isinstance(b[2], T.TypedStorage),
            len({s.data_ptr() for s in b}),
            b[0].untyped_storage() is b[1],
            b[0].tolist(),
        ]
    )(copy.deepcopy([x, x.untyped_storage(), x.storage()])),
    "deep copies, storage first": lambda T, x: (
        lambda b: [b[0].fill_(1) is b[0], b[1].tolist(), b[2].tolist()]
    )(copy.deepcopy([x.storage(), x, x[1:]])),
    "device": lambda T, x: [str(x.storage().device), x.storage().is_cuda, x.storage().is_shared()],
}


@pytest.mark.parametrize("name", FACTS)
def test_what_storages_say(name: str) -> None:
    ours, theirs = (FACTS[name](T, T.arange(6.0).view(2, 3)) for T in (weft, torch))
    assert ours == theirs


def test_freed_memory_is_given_back() -> None:
    x = weft.ones(1000, 1000) * 2
    weft.realize(x)
    buffer_size = x.untyped_storage().nbytes()
    kept = x[0]
    x.untyped_storage().resize_(0)
    assert x.untyped_storage().size() == 0 and kept.shape == (1000,)
    assert kept.sum().item() == 0  # never what lies behind the end of the memory
    x.untyped_storage().resize_(buffer_size)
    x.copy_(weft.ones(1000, 1000))
    assert kept.sum().item() == 1000


def test_memory_of_numpy_is_not_resized() -> None:
    x = weft.ones(3)
    array = x.numpy()
    with pytest.raises(ExportError, match="not resizable"):
        x.untyped_storage().resize_(0)
    x.storage()[0] = 5
    assert array.tolist() == [5, 1, 1]


def test_regions_outside_are_refused() -> None:
    with pytest.raises(RuntimeError):
        weft.empty(0).set_(weft.ones(3).untyped_storage(), 0, (5,), (1,))


REFUSED = {
    "set to another type": lambda T, x: x.set_(T.ones(3, dtype=T.int32).storage()),
    "set to a tensor of another type": lambda T, x: x.set_(T.ones(3, dtype=T.int32)),
    "set with other strides": lambda T, x: x.set_(x.untyped_storage(), 0, (2, 2), (1,)),
    "a tensor of another type": lambda T, x: T.tensor(x.storage(), dtype=T.int32),
    "nothing on meta": lambda T, x: T.TypedStorage(device="meta", dtype=T.float32)[0],
    "something on meta": lambda T, x: T.TypedStorage(3, device="meta", dtype=T.float32)[0],
    "written on meta": lambda T, x: T.FloatStorage(3, device="meta").__setitem__(0, 1),
    "behind the end": lambda T, x: x.clone().storage()[6],
    "a slice of elements": lambda T, x: x.storage()[1:3],
    "steps": lambda T, x: x.untyped_storage()[1:8:2],
    "bytes of a part": lambda T, x: T.arange(3.0).untyped_storage().byteswap(T.float64),
    "no order of bytes": lambda T, x: T.FloatStorage.from_buffer(bytearray(8)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    kinds = []
    for T in (torch, weft):
        with pytest.raises(Exception) as caught:  # noqa: PT011 - PyTorch says which one
            REFUSED[name](T, T.arange(6.0).view(2, 3))
        kinds.append(caught)
    assert isinstance(kinds[1].value, kinds[0].type)


@pytest.mark.parametrize("shared", [False, True])
def test_files_are_memory(shared: bool, tmp_path: Path) -> None:
    shown = []
    for T in (torch, weft):
        file = tmp_path / T.__name__
        file.write_bytes(bytes(range(16)))
        storage = T.UntypedStorage.from_file(str(file), shared, 16)
        numbers = T.tensor([], dtype=T.int32).set_(storage[4:12], 0, (2,))
        numbers.add_(1)
        typed = T.IntStorage.from_file(str(file), shared=shared, size=2)
        vector = T.from_file(str(file), shared, 4, dtype=T.int16)
        del numbers
        names = [storage.filename == str(file), typed.filename is None]
        shown.append([names, storage.tolist(), typed.tolist(), vector.tolist(), file.read_bytes()])
    assert shown[0] == shown[1]


def test_a_shared_file_is_made_long_enough(tmp_path: Path) -> None:
    made = weft.from_file(str(tmp_path / "new"), shared=True, size=3, dtype=weft.float64)
    made.fill_(1)
    assert np.fromfile(tmp_path / "new").tolist() == [1, 1, 1]


def test_pickled_storages_and_tensors_share_memory() -> None:
    x = weft.arange(3.0)
    y, untyped, typed = pickle.loads(pickle.dumps([x, x.untyped_storage(), x.storage()]))
    assert y.untyped_storage() is untyped is typed.untyped() and y.tolist() == [0, 1, 2]


def test_on_the_device_meta() -> None:
    x = weft.empty(10**9, device="meta")
    assert x.untyped_storage().nbytes() == 4 * 10**9 and x.untyped_storage().data_ptr() == 0
    assert x.storage().device == weft.device("meta")


def test_bytes_of_the_device_meta_are_not_read() -> None:
    storage = weft.empty(2, device="meta").untyped_storage()
    assert storage.nbytes() == 8
    for read in (storage.tolist, lambda: storage[0], lambda: list(storage)):
        with pytest.raises(NotImplementedError):
            read()


@pytest.mark.parametrize("size", [0, 4, 8, 9, 16, 32])
def test_a_tensor_of_a_resized_storage_has_what_is_left(size: int) -> None:
    shown = []
    for module in (torch, weft):
        storage = module.arange(4.0).untyped_storage()
        storage.resize_(size)
        made = module.empty(0).set_(storage)
        shown.append((tuple(made.shape), made.tolist()[:4], storage.nbytes(), len(storage)))
    assert shown[0] == shown[1]


def test_storages_are_not_resized_to_what_no_machine_has() -> None:
    x = weft.arange(4.0)
    with pytest.raises(RuntimeError, match="allocate"):
        x.untyped_storage().resize_(10**18)
    with pytest.raises(TypeError):
        x.untyped_storage().resize_("3")
    assert x.tolist() == [0, 1, 2, 3]


def test_set_needs_a_tensor_without_history() -> None:
    for module in (torch, weft):
        leaf = module.ones(3, requires_grad=True)
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
            leaf.set_(module.ones(2))
        with pytest.raises(RuntimeError, match="derivative for set_ is not implemented"):
            (leaf * 2).set_(module.ones(2)).sum().backward()  # here PyTorch raises in backward
        with module.no_grad():
            leaf.set_(module.ones(2))
        (leaf * leaf).sum().backward()
        assert leaf.grad.tolist() == [2, 2]


VERSIONS: dict[str, Any] = {
    "fill_": lambda T, x: x.untyped_storage().fill_(1),
    "a byte": lambda T, x: x.untyped_storage().__setitem__(0, 3),
    "an element": lambda T, x: x.storage().__setitem__(0, 3.0),
    "copy_": lambda T, x: x.untyped_storage().copy_(T.ones(4).untyped_storage()),
    "view of another type": lambda T, x: x.view(T.int32).fill_(7),
    "set_, another type": lambda T, x: (
        T.empty(0, dtype=T.int32).set_(x.untyped_storage()).fill_(7)._version
    ),
    "set_": lambda T, x: T.empty(0).set_(x.untyped_storage()).fill_(7)._version,
    "resize_": lambda T, x: x.resize_(8)._version,
    "resize_, smaller": lambda T, x: x.resize_(2)._version,
}


@pytest.mark.parametrize("name", VERSIONS)
def test_writes_count_versions_of_those_that_write(name: str) -> None:
    def counted(T: Any) -> Any:
        x = T.zeros(4)
        result = VERSIONS[name](T, x)
        return x._version, result if isinstance(result, int) else None

    assert counted(weft) == counted(torch)


def test_tensors_that_grow_stay_in_their_storage() -> None:
    def grown(T: Any) -> Any:
        x = T.arange(4.0)
        alias, part, storage = x.detach(), x[2:], x.untyped_storage()
        x.resize_(8)
        x[2] = 9
        part.resize_(10)
        part[0] = 50
        return (
            *(x[:4].tolist(), alias.tolist(), part[:2].tolist(), storage.nbytes()),
            *(alias.untyped_storage().nbytes(), x.storage_offset(), part.storage_offset()),
            storage.data_ptr() == x.data_ptr() == alias.data_ptr(),
        )

    assert grown(weft) == grown(torch)


def test_memory_of_others_does_not_grow() -> None:
    for T in (weft, torch):
        x = T.from_numpy(np.arange(4.0))
        with pytest.raises((RuntimeError, BufferError), match="not resizable"):
            x.resize_(8)
        assert x.resize_(2).tolist() == [0.0, 1.0]


def _members(storage: Any) -> set[str]:
    return {name for name in dir(storage) if not name.startswith("_")}


ABSENT = {"hpu", "mps"}  # devices


@pytest.mark.parametrize("of", ["storage", "untyped_storage"])
def test_all_members_of_storages_are_here(of: str) -> None:
    theirs, ours = (getattr(T.arange(4.0), of)() for T in (torch, weft))
    float8 = {name for name in _members(theirs) if name.startswith("float8")}
    assert _members(theirs) - _members(ours) - float8 - ABSENT == set()
    for name in "is_cuda", "is_sparse", "is_hpu":
        assert getattr(ours, name) is getattr(theirs, name) is False
    assert ours.is_pinned() is theirs.is_pinned() is False
    assert ours.to(device="cpu") is ours and ours.pin_memory() is ours
    with pytest.raises(RuntimeError, match="CUDA"):
        ours.cuda()


def test_bytes_are_printed() -> None:
    assert repr(weft.tensor([1, 2], dtype=weft.uint8).untyped_storage()) == (
        " 1\n 2\n[UntypedStorage(device=cpu) of size 2]"
    )
    assert repr(weft.UntypedStorage(2, device="meta")).startswith(" ...\n")
    assert weft.UntypedStorage(2).type() == "weft.storage.UntypedStorage"
